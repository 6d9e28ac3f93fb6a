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
from typing import Any

import numpy as np

from dkpca import wire
from dkpca.errors import FusionError, InputError
from dkpca.fusion import fused_model
from dkpca.fusion.completion import Completion, complete, held_by
from dkpca.fusion.fused_model import FusedModel, merging, project, some_samples
from dkpca.linalg.arrays import Array, device, like, namespace, to_numpy
from dkpca.linalg.precision import Rounded
from dkpca.linalg.rows import by_strips, pick
from dkpca.messages import Partials, Rows, Summary, row_number_digest

MEANS_OVER = 2000  # samples of the fit; with more of them, means are over so many


@dataclass(frozen=True)
class Placed:
    """Scores of new samples, and what they lack where parties were missing."""

    scores: Array  # (n_new, n_components)
    missing: tuple[str, ...]
    share_missing: tuple[float, ...]  # of the variance of each component that the missing parties carried in the fit


def place(
    model: FusedModel,
    received: Iterable[Rows | Partials],
    missing: Collection[str] = (),
    *,
    marginalize: bool = False,
) -> Placed:
    """Place new samples in the way that the parties answered, without those that are said to be missing.

    `marginalize`: put the mean rows of missing parties in their place where the law is not the sum.
    """
    others = list(received)
    if not missing:
        return Placed(fused_model.place(model, others), (), (0.0,) * model.n_components)
    _check_missing(model, others, missing, marginalize)
    rows = [message for message in others if isinstance(message, Rows)]
    filled = [_mean_rows(model, name, rows[0]) for name in missing]
    scores, shares = fused_model.place(model, [*others, *filled]), party_shares(model)
    lost = tuple(float(sum(shares[name][d] for name in missing)) for d in range(model.n_components))
    return Placed(scores, tuple(sorted(missing)), lost)


def fill_in(
    model: FusedModel, received: Mapping[str, Rows], places: Mapping[str, Sequence[int]], n_new: int, *, mode: str
) -> list[Rows]:
    """Rows of every party for every new sample: where it lacks one, its mean row, or a mixture as in the fit.

    `places` says where the samples that a party has are among all new ones; a party that has none may be left out.
    """
    if any(summary.diagonal is not None for summary in model.summaries.values()):
        raise InputError(
            f"the fit is {model.meaning}, which needs the length of every sample; give samples that all parties have"
        )
    rows, lacking = {}, {}
    for name in model.summaries:
        # Every new sample starts with the party's mean row; rows that the party sent take their places.
        mean = _mean_row(model, name)
        full = namespace(mean).asarray(namespace(mean).broadcast_to(mean, (n_new, mean.shape[1])), copy=True)
        own = np.asarray(places.get(name, ()), dtype=np.intp)
        if len(own):
            full[namespace(full).asarray(own, device=device(full)), :] = received[name].factor.decode(model.dtype)
        rows[name], lacking[name] = full, np.setdiff1d(np.arange(n_new), own)
    if mode == "complete":
        rows = _regressions(model).place(rows, lacking)
    digest = row_number_digest(n_new)
    return [Rows(name, wire.fingerprint(model.received[name]), digest, Rounded(rows[name])) for name in rows]


def lacking_words(places: Mapping[str, Sequence[int]], names: Iterable[str], n_new: int, mode: str) -> str:
    """Say which new samples lack a party, and what stands in its place."""
    counts = {name: n_new - len(places.get(name, ())) for name in names}
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    what = "mean rows" if mode == "mean" else "rows completed from the other parties"
    return f"of {n_new:,} new samples, parties lack: {listed}; {what} are used instead"


def _regressions(model: FusedModel) -> Completion:
    """How rows are completed: as in the fit, or learned from its samples where no party lacked any."""
    if model.lacking is not None and model.lacking.mode == "complete":
        return model.lacking.completion
    everything = np.arange(model.n_samples)
    places = dict.fromkeys(model.summaries, everything) if model.lacking is None else model.lacking.places
    held = {name: held_by(summary, places[name], model.dtype) for name, summary in model.received.items()}
    return complete(held, model.n_samples, seed=model.settings.random_state)


def share_words(placed: Placed) -> str:
    """Say who is missing, and what share of the components that was."""
    shares = ", ".join(f"{share:.1%}" for share in placed.share_missing)
    return (
        f"placed without {list(placed.missing)}: their mean row is used instead; of the variance of the "
        f"components they carried {shares}"
    )


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


def _mean_row(model: FusedModel, party: str) -> Array:
    """Mean row of the party's factor over the samples of the fit, (1, rank)."""
    A = model.summaries[party].factor.decode(model.dtype)
    return namespace(A).mean(A, axis=0, keepdims=True)


def _mean_rows(model: FusedModel, party: str, beside: Rows) -> Rows:
    """Rows of a party that is missing: its mean row, as often as there are new samples."""
    summary = model.summaries[party]
    # A row of A, the mean over the samples of the fit, once for each new sample: k(y, x_i) becomes the mean over the
    # fit's samples of k(x, x_i).
    mean = _mean_row(model, party)
    ones = namespace(mean).ones_like(mean[:, :1])
    ones = namespace(mean).concat([ones] * beside.factor.shape[0], axis=0)
    diagonal = None if summary.diagonal is None else summary.diagonal.decode(model.dtype)
    return Rows(
        party=party,
        summary_id=wire.fingerprint(model.received[party]),
        sample_digest=beside.sample_digest,
        factor=Rounded(ones * mean),
        diagonal=None if diagonal is None else Rounded(ones * namespace(diagonal).mean(diagonal)),
    )


def _check_missing(
    model: FusedModel, received: Collection[Rows | Partials], missing: Collection[str], marginalize: bool
) -> None:
    _check_parties(model, {message.party for message in received}, missing, "rows")
    if any(isinstance(message, Partials) for message in received):
        raise FusionError(
            f"the exact projection needs every party, and {sorted(missing)} are missing; place the samples by factor "
            "rows (projection='extend')"
        )
    if not model.law.scores_add and not marginalize:
        raise InputError(
            f"{sorted(missing)} are missing, and the fit is {model.meaning}: no part of a score is without them; "
            "wait for them, or ask for their mean rows in their place (lacking='mean')"
        )


def _check_parties(model: FusedModel, parts: Collection[str], missing: Collection[str], what: str) -> None:
    strangers = sorted((set(parts) | set(missing)) - set(model.summaries))
    if strangers:
        raise FusionError(f"{strangers} had no part in the fit; it has {sorted(model.summaries)}")
    both = sorted(set(parts) & set(missing))
    if both:
        raise FusionError(f"{both} are said to be missing, but their {what} are there; leave out one of the two")
    absent = sorted(set(model.summaries) - set(parts) - set(missing))
    if absent:
        raise FusionError(f"no {what} from {absent}; wait for them, or say that they are missing")
    if not parts:
        raise FusionError("no party scored the new samples; at least one has to")


def captured_share(
    model: FusedModel, rows: Mapping[str, Rows], diagonals: Mapping[str, Array], covariates: Any = None
) -> float:
    """Squared scores of new samples, over their squared distances from the mean of the fit in feature space.

    Diagonals are kernel values of each new sample with itself. With covariates, distances are from what they predict.
    """
    # |scores|^2 over sum of k(y, y) - 2 mean_i k(y, x_i) + mean_ij k(x_i, x_j), which is |phi(y) - mean phi|^2.
    scores = fused_model.adjusted(model, project(model, rows.values()), covariates)
    seen = float(np.sum(to_numpy(scores) ** 2))
    own = {name: np.asarray(to_numpy(diagonals[name]), dtype=float) for name in model.summaries}
    traces = [model.weights[name] * float(own[name].sum()) for name in model.summaries]
    total = model.law.total_trace(traces, list(own.values()))
    if model.covariates is not None:
        total += _predicted(model, [rows[name] for name in model.summaries], model.covariates.rows(covariates))
    elif model.centered:
        count = next(iter(own.values())).shape[0]
        beside, among = _means(
            model, [rows[name] for name in model.summaries], some_samples(model.n_samples, MEANS_OVER)
        )
        total += count * (among - 2.0 * beside)
    return seen / total if total > 0 else 0.0


def _predicted(model: FusedModel, received: Sequence[Rows], new: np.ndarray) -> float:
    """Sum of q' Q'KQ q - 2 q' Q'k(X, y) over new samples: with k(y, y) their squared distance from the prediction."""
    law, merged = model.law, merging(model)
    fitted = merged(model.summaries.values(), lambda data: data)
    assert model.covariates is not None
    n = model.n_samples
    # Q has the constant column and the covariates; phi(y) is predicted by sum_i phi(x_i) (Q q)_i for its own row q.
    Q = np.column_stack([np.full(n, n**-0.5), to_numpy(model.covariates.basis)])
    q = np.column_stack([np.full(len(new), n**-0.5), new])

    def shown(messages: Sequence[Summary | Rows]) -> np.ndarray:
        def of(strip: slice) -> Array:
            own = merged(messages, lambda x: x[strip, :])
            return law.recombine(A @ B.T for A, B in zip(own, fitted, strict=True)) @ like(Q, fitted[0])

        return to_numpy(by_strips(of, messages[0].factor.data, fitted[0])).astype(float)

    within = Q.T @ shown(list(model.summaries.values()))
    return float(np.sum(q * (q @ within)) - 2.0 * np.sum(q * shown(received)))


def _means(model: FusedModel, received: Sequence[Rows], some: Array) -> tuple[float, float]:
    """Mean entry of the fused matrix between new samples and some of the fit, and among those."""
    law, merged = model.law, merging(model)
    fitted = merged(model.summaries.values(), lambda data: pick(data, namespace(data).asarray(some)))

    def beside(strip: slice) -> Array:
        new = merged(received, lambda x: x[strip, :])
        block = law.recombine(mine @ theirs.T for mine, theirs in zip(new, fitted, strict=True))
        return namespace(block).mean(block, axis=1, keepdims=True)

    rows = by_strips(beside, received[0].factor.data, fitted[0])
    # Mean entry beside the new samples strip by strip, and among the samples of the fit at once: they are few.
    among = law.recombine(A @ A.T for A in fitted)
    return float(namespace(rows).mean(rows)), float(namespace(among).mean(among))
