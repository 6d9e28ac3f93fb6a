"""Additive models, and parties that are missing where new samples are placed.

Under the sum law score(y) = sum over parties of a_j(y) W_j + offset, with a_j(y) the sample's row of the party's
factor and W_j = w_j A_j' V / sqrt(lambda). The center sends each party its W_j once; from then on only n_new x
components numbers leave a party.

In place of a missing party stands its mean row over the samples of the fit, of its factor and so of its kernel. Under
the sum this leaves out its addend, measured from the mean, and how much that carried is known. Under other laws the
mean row takes part in every term, so that it has to be asked for.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from dkpca import wire
from dkpca.errors import FusionError, InputError
from dkpca.fusion import fused_model
from dkpca.fusion.completion import Completion, complete, held_by
from dkpca.fusion.fused_model import FusedModel, merging, project, some_samples
from dkpca.fusion.plausibility import by_name
from dkpca.linalg.arrays import Array, like, namespace, sent_to, to_numpy
from dkpca.linalg.precision import Rounded
from dkpca.linalg.rows import by_strips, pick
from dkpca.messages import Partials, Rows, row_number_digest

MEANS_OVER = 2000  # samples of the fit; with more of them, means and predictions are over so many


@dataclass(frozen=True)
class Placed:
    """Scores of new samples, and what they lack where parties were missing."""

    scores: Array  # (n_new, n_components)
    rows: Sequence[Rows | Partials]  # of the parties that sent any, with what stands in for those they lack
    missing: tuple[str, ...] = ()  # parties whose mean row stands in for all rows
    share_missing: tuple[float, ...] = ()  # of the variance of each component that these carried in the fit
    words: str = ""  # what stands in for whom; empty: nothing was lacking


def place(
    model: FusedModel,
    received: Iterable[Rows | Partials],
    missing: Collection[str] = (),
    *,
    lacking: str | None = None,
    places: Mapping[str, Sequence[int]] | None = None,
    n_new: int = 0,
) -> Placed:
    """Place new samples in the way that the parties answered, without those that are said to be missing.

    What a party lacks is its mean row, or a mixture as in the fit (`lacking` is "mean" or "complete"; else mean rows
    under the sum law, which adds nothing there). `places` says where the samples that a party has are among all
    `n_new`; None: each has all of them.
    """
    sent: dict[str, Any] = by_name(received, "message about new samples")
    if places is None and not missing:
        return Placed(fused_model.place(model, sent.values()), list(sent.values()), (), (0.0,) * model.n_components)
    _check_missing(model, sent, missing, lacking)
    if places is None:  # a party has all new samples, or none
        first = next(iter(sent.values()))
        n_new, own = first.n_samples, dict.fromkeys(sent, np.arange(first.n_samples))
        rows = _filled_in(model, sent, own, n_new, lacking, first.sample_digest) | sent
    else:
        own = {name: np.asarray(places[name], dtype=np.intp) for name in sent}
        rows = _filled_in(model, sent, own, n_new, lacking, row_number_digest(n_new))
    scores, seen = project(model, rows.values()), [rows[name] for name in sent]
    if places is not None or lacking == "complete":
        counts = {name: n_new - len(own.get(name, ())) for name in model.summaries}
        listed = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        what = "mean rows" if lacking == "mean" else "rows completed from the other parties"
        words = f"of {n_new:,} new samples, parties lack: {listed}; {what} are used instead"
        return Placed(scores, seen, (), (0.0,) * model.n_components, words)
    shares = party_shares(model)
    lost = tuple(float(sum(shares[name][d] for name in missing)) for d in range(model.n_components))
    words = (
        f"placed without {sorted(missing)}: their mean row is used instead; of the variance of the components they "
        f"carried {', '.join(f'{share:.1%}' for share in lost)}"
    )
    return Placed(scores, seen, tuple(sorted(missing)), lost, words)


def _filled_in(
    model: FusedModel,
    sent: Mapping[str, Any],
    places: Mapping[str, Any],
    n_new: int,
    lacking: str | None,
    digest: str,
) -> dict[str, Any]:
    """Messages of every party about every new sample; `digest` is that of the samples."""

    def spread(of_fit: Rounded, new: Rounded | None, own: Any) -> np.ndarray:
        """The mean row over the samples of the fit for every new sample; rows that were sent take their places."""
        full = np.tile(to_numpy(of_fit.decode(model.dtype)).mean(axis=0), (n_new, 1))
        if new is not None:
            full[own] = to_numpy(new.decode(model.dtype))
        return full

    rows, made, home = {}, {}, model.eigenvectors
    for name, summary in model.summaries.items():
        message, own = sent.get(name), places.get(name, np.arange(0))
        summary_id = wire.fingerprint(model.received[name])
        diagonal = None if message is None else message.diagonal
        if message is not None and (
            message.summary_id != summary_id
            or message.factor.shape != (len(own), summary.rank)
            or (diagonal is None) != (summary.diagonal is None)
        ):
            raise FusionError(f"party {name!r}: its new samples are others, or extend another summary than was fused")
        rows[name] = spread(summary.factor, None if message is None else message.factor, own)
        if summary.diagonal is not None:
            diagonal = Rounded(sent_to(spread(summary.diagonal, diagonal, own), home))
        made[name] = partial(Rows, name, summary_id, digest, diagonal=diagonal)
    if lacking == "complete":
        absent = {name: np.setdiff1d(np.arange(n_new), places.get(name, ())) for name in rows}
        rows = _regressions(model).place(rows, absent)
    return {name: made[name](factor=Rounded(sent_to(rows[name], home))) for name in made}


def _regressions(model: FusedModel) -> Completion:
    """How rows are completed: as in the fit, or learned from its samples where no party lacked any."""
    if model.lacking is not None and model.lacking.mode == "complete":
        return model.lacking.completion
    everything = np.arange(model.n_samples)
    places = dict.fromkeys(model.summaries, everything) if model.lacking is None else model.lacking.places
    held = {name: held_by(summary, places[name], model.dtype) for name, summary in model.received.items()}
    return complete(held, model.n_samples, seed=model.settings.random_state)


def party_shares(model: FusedModel) -> dict[str, np.ndarray]:
    """Share of each party in each component, v' K_j v beside that of the others: exact under the sum law.

    There the variances add up to the eigenvalue; under a product this is the first order.
    """
    # v'H K_j H v = |(H A_j)'v|^2 for each component v: the addends of the eigenvalue under the sum law.
    V = model.eigenvectors
    xp = namespace(V)
    parts = {}
    for name, summary in model.summaries.items():
        A = summary.factor.decode(model.dtype)
        A = A - xp.mean(A, axis=0, keepdims=True) if model.centered else A
        parts[name] = to_numpy(model.weights[name] * xp.sum((A.T @ V) ** 2, axis=0)).astype(float)
    total = np.sum(list(parts.values()), axis=0)
    return {name: part / np.where(total > 0, total, 1.0) for name, part in parts.items()}


def _check_missing(
    model: FusedModel, received: Mapping[str, Rows | Partials], missing: Collection[str], lacking: str | None
) -> None:
    strangers = sorted((set(received) | set(missing)) - set(model.summaries))
    if strangers:
        raise FusionError(f"{strangers} had no part in the fit; it has {sorted(model.summaries)}")
    both = sorted(set(received) & set(missing))
    if both:
        raise FusionError(f"{both} are said to be missing, but their rows are there; leave out one of the two")
    absent = sorted(set(model.summaries) - set(received) - set(missing))
    if absent:
        raise FusionError(f"no rows from {absent}; wait for them, or say that they are missing")
    if not received:
        raise FusionError("no party scored the new samples; at least one has to")
    if any(isinstance(message, Partials) for message in received.values()):
        raise FusionError(
            f"the exact projection needs every party, and {sorted(missing)} are missing; place the samples by factor "
            "rows (projection='extend')"
        )
    if not model.law.scores_add and lacking not in ("mean", "complete"):
        raise InputError(
            f"{sorted(missing)} are missing, and the fit is {model.meaning}: no part of a score is without them; "
            "wait for them, or ask for their mean rows in their place (lacking='mean')"
        )


def captured_share(
    model: FusedModel, rows: Mapping[str, Rows], diagonals: Mapping[str, Array], covariates: Any = None
) -> float:
    """Squared scores of new samples, over their squared distances from the mean of the fit in feature space.

    Diagonals are kernel values of each new sample with itself. With covariates, distances are from what they predict.
    """
    # |scores|^2 over the sum of |phi(y) - p(y)|^2 = k(y, y) - 2 p'phi(y) + |p|^2, with p the mean or the prediction.
    scores = fused_model.adjusted(model, project(model, rows.values()), covariates)
    seen = float(np.sum(to_numpy(scores) ** 2))
    own = {name: np.asarray(to_numpy(diagonals[name]), dtype=float) for name in model.summaries}
    traces = [model.weights[name] * float(own[name].sum()) for name in model.summaries]
    total = model.law.total_trace(traces, list(own.values()))
    if model.centered or model.covariates is not None:
        total += _predicted(model, [rows[name] for name in model.summaries], covariates)
    return seen / total if total > 0 else 0.0


def _predicted(model: FusedModel, received: Sequence[Rows], covariates: Any) -> float:
    """Sum of |p|^2 - 2 p'phi(y) over new samples, p(y) = sum_i phi(x_i) (Q q(y))_i over samples x_i of the fit."""
    law, merged = model.law, merging(model)
    some = some_samples(model.n_samples, MEANS_OVER)
    fitted = merged(model.summaries.values(), lambda data: pick(data, namespace(data).asarray(some)))
    # Q R = [1, covariates] for samples of the fit, and q(y) = [1, covariates of y] R^-1; without covariates, p is the
    # mean of phi.
    known, new = np.ones((len(some), 1)), np.ones((received[0].n_samples, 1))
    if model.covariates is not None:
        known = np.column_stack([known, to_numpy(model.covariates.basis)[some]])
        new = np.column_stack([new, model.covariates.rows(covariates)])
    Q, R = np.linalg.qr(known)
    q = np.linalg.solve(R.T, new.T).T

    def shown(strip: slice) -> Array:
        own = merged(received, lambda x: x[strip, :])
        return law.recombine(A @ B.T for A, B in zip(own, fitted, strict=True)) @ like(Q, fitted[0])

    beside = to_numpy(by_strips(shown, received[0].factor.data, fitted[0])).astype(float)
    within = Q.T @ to_numpy(law.recombine(A @ A.T for A in fitted)).astype(float) @ Q
    return float(np.sum(q * (q @ within)) - 2.0 * np.sum(q * beside))
