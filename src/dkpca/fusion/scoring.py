"""Scores of new samples, from what the parties say about them; parties may be missing, or lack some of the samples.

A new sample is one more row of each factor: the law makes its kernel with the samples of the fit from these rows, and
the extension makes the scores. Under the sum law score(y) = sum over parties of a_j(y) W_j + offset, with a_j(y) the
sample's row of the party's factor and W_j = w_j A_j' V / sqrt(lambda).

In place of a missing party or row stands the party's mean row over the samples of the fit: under the sum this leaves
out its addend; under other laws it takes part in every term, so that it has to be asked for.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from dkpca import wire
from dkpca.errors import FusionError, InputError
from dkpca.fusion.completion import complete, held_by
from dkpca.fusion.fused_model import FusedModel
from dkpca.fusion.plausibility import by_name, check_samples, one_per_party
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array, dtype_name, like, namespace, sent_to, to_numpy
from dkpca.linalg.precision import Rounded, as_received, row_squares
from dkpca.linalg.rows import at_hand, by_strips, pick, threads_of_our_own
from dkpca.messages import Partials, Rows, Summary, row_number_digest

MEANS_OVER = 2000  # samples of the fit; with more of them, means and predictions are over so many
SAMPLED = 300  # rows that stand for all
ALIKE = 0.02  # of the diagonal: samples that have less in common, on the root of the mean square, are strangers
DIFFERENT = 1e-3  # of the diagonal: samples that differ by less are one sample
DIAGONAL = (
    "the kernel matrix is nearly diagonal: every sample is similar only to itself, and gamma is too large; use "
    "standardized columns, or a smaller gamma, such as gamma='scale' (1 / mean distance)"
)
CONSTANT = (
    "the kernel matrix is nearly constant: all samples look the same, and {}; check that the columns vary and, if "
    "gamma was set, use a larger gamma, such as gamma='scale' (1 / mean distance)"
)

Flags = np.ndarray[tuple[int], np.dtype[np.bool_]]
Norms = np.ndarray[tuple[int], np.dtype[np.float64]]


@dataclass(frozen=True)
class Placed:
    """Scores of new samples, and what they lack where parties were missing."""

    scores: Array  # (n_new, n_components)
    rows: Sequence[Rows | Partials]  # of the parties that sent any, with what stands in for those they lack
    missing: tuple[str, ...] = ()  # parties whose mean row stands in for all rows
    words: str = ""  # what stands in for whom; empty: nothing was lacking


def place(
    model: FusedModel,
    received: Iterable[Rows | Partials],
    missing: Collection[str] = (),
    *,
    lacking: str | None = None,
    places: Mapping[str, Sequence[int]] | None = None,
) -> Placed:
    """Place new samples in the way that the parties answered; effects of covariates are still in: see `adjusted`.

    What a party lacks is its mean row, or a mixture as in the fit (`lacking` is "mean" or "complete"). `places` says
    where the samples that a party has are among all; None: each has all of them.
    """
    sent: dict[str, Any] = by_name(received, "message about new samples", set(model.summaries) - set(missing))
    kinds = {type(message) for message in sent.values()}
    if len(kinds) > 1:
        raise FusionError("some parties sent factor rows and others distances; let all answer the same way")
    if places is None and not missing:
        scores = (project_exact if kinds == {Partials} else project)(model, sent.values())
        return Placed(scores, list(sent.values()))
    if kinds != {Rows}:
        raise FusionError(f"the exact projection needs every party, and {sorted(missing)} are missing")
    if not model.law.scores_add and lacking not in ("mean", "complete"):
        absent = f"no new samples from {', '.join(sorted(missing))}, and the fit is {model.meaning}"
        raise InputError(f"{absent}: wait for them, or use their mean rows (lacking='mean')")
    if places is None:  # a party has all new samples, or none
        check_samples(sent)
    own = {name: np.arange(m.n_samples) if places is None else np.asarray(places[name]) for name, m in sent.items()}
    n_new = 1 + max(int(each.max()) for each in own.values())
    rows = _filled_in(model, sent, own, n_new, lacking)
    counts = {name: n_new - len(own.get(name, ())) for name in model.summaries}
    listed = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    what = "rows completed from the other parties" if lacking == "complete" else "mean rows"
    return Placed(
        project(model, rows.values()),
        [rows[name] for name in sent],
        () if places is not None or lacking == "complete" else tuple(sorted(missing)),
        f"of {n_new:,} new samples, parties lack: {listed}; {what} are used instead",
    )


def project(model: FusedModel, rows: Iterable[Rows]) -> Array:
    """Scores of new samples from their factor rows; for training samples `model.scores`, up to rounding."""
    by_party = one_per_party(model.received, rows, lambda m, s: m.factor.shape[1] == s.rank)
    return placing(model)([by_party[name] for name in model.summaries])


def placing(model: FusedModel) -> Callable[[Sequence[Rows]], Array]:
    """Return a function from factor rows of new samples (a message per party, in the model's order) to scores."""
    law, merged, extension = model.law, merging(model), model.extension
    anchors = merged(model.summaries.values(), extension.rows)

    def placed(received: Sequence[Rows]) -> Array:
        # k(y, anchors) by the law from factor rows of both, and then W and c of the extension.
        def scores(strip: slice) -> Array:
            new = merged(received, lambda x: x[strip, :])
            blocks = (mine @ theirs.T for mine, theirs in zip(new, anchors, strict=True))
            return law.recombine(blocks) @ extension.weights + extension.offset[None, :]

        return _finite(by_strips(scores, received[0].factor.data, extension.weights))

    return placed


@threads_of_our_own()
def project_exact(model: FusedModel, partials: Iterable[Partials]) -> Array:
    """Scores of new samples by the paper's method: true kernel rows, centered with the fused matrix."""
    by_party = one_per_party(model.received, partials, lambda m, s: m.partial.shape[1] == s.n_samples)
    if any(kernel != model.kernel for kernel in model.kernels.values()) or set(model.weights.values()) != {1.0}:
        raise FusionError("the exact projection needs one kernel of the joined table; use projection='extend'")
    # The paper's way: partial distances (or inner products) add up to those of the joined table, and the kernel is
    # applied to the sum. A law that is not the kernel's own combines the kernels of the parties instead.
    parts = [by_party[name].partial.decode(model.dtype) for name in model.summaries]
    kernel, law = model.kernel, model.law
    K = kernel.finish(sum(parts)) if law == kernel.law else law.recombine(kernel.finish(part) for part in parts)
    rows = model.extension.rows(K.T).T
    return _finite(rows @ model.extension.weights + model.extension.offset[None, :])


def adjusted(model: FusedModel, scores: Array, table: Any) -> Array:
    """Scores of new samples after removing the effect of their covariates, as in the fit."""
    known, slopes = model.covariates, model.extension.slopes
    if known is None or slopes is None:
        return scores
    rows = known.rows(table)
    if len(rows) != scores.shape[0]:
        raise InputError(f"there are covariates of {len(rows)} samples, and {scores.shape[0]} new samples")
    return scores + like(rows, slopes) @ slopes


def _finite(scores: Array) -> Array:
    """Refuse scores that are NaN or infinite: the samples are so far away that kernel values overflow."""
    if not bool(namespace(scores).all(namespace(scores).isfinite(scores))):
        far = f"kernel values of the new samples are beyond the range of {dtype_name(scores)}"
        raise InputError(f"{far}: they lie too far from those of the fit; correct or scale their columns")
    return scores


def some_samples(n_samples: int, most: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """A fixed random subset of at most `most` samples."""
    return np.sort(np.random.default_rng(0).permutation(n_samples)[:most])


def merging(model: FusedModel) -> Callable[[Iterable[Summary | Rows], Callable[[Array], Array]], list[Array]]:
    """Return a function that gives some rows of factors, weighted and in the form in which they recombine."""
    law, scales, dtype = model.law, [model.weights[name] ** 0.5 for name in model.summaries], model.dtype

    def merged(messages: Iterable[Summary | Rows], pick: Callable[[Array], Array]) -> list[Array]:
        messages = list(messages)
        picked = [replace(message.factor, data=pick(message.factor.data)).decode(dtype) for message in messages]
        factors = [A * scale for A, scale in zip(picked, scales, strict=True)]
        sent = [message.diagonal for message in messages if message.diagonal is not None]
        return law.merge(law.parts(factors, [pick(d.decode(dtype))[:, 0] for d in sent]))

    return merged


def _filled_in(
    model: FusedModel, sent: Mapping[str, Any], places: Mapping[str, Any], n_new: int, mode: str | None
) -> dict[str, Any]:
    """Messages of every party about every new sample."""

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
        made[name] = partial(Rows, name, summary_id, row_number_digest(n_new), diagonal=diagonal)
    if mode == "complete":
        # By the weights of the fit; where it completed no rows, they are learned from its samples.
        if model.lacking is not None and model.lacking.mode == "complete":
            weights = model.lacking.completion
        else:
            everything = np.arange(model.n_samples)
            known = dict.fromkeys(model.summaries, everything) if model.lacking is None else model.lacking.places
            held = {name: held_by(summary, known[name], model.dtype) for name, summary in model.received.items()}
            weights = complete(held, model.n_samples, seed=model.settings.random_state)
        absent = {name: np.setdiff1d(np.arange(n_new), places.get(name, ())) for name in rows}
        rows = weights.place(rows, absent)
    return {name: made[name](factor=Rounded(sent_to(rows[name], home))) for name in made}


def party_shares(model: FusedModel) -> dict[str, np.ndarray]:
    """Share of each party in each component, v'K_j v beside that of the others: under a product to first order."""
    # v'K_j v = |A_j'v|^2 for each component v, which is centered where the matrix is: under the sum law these add up
    # to the eigenvalue.
    V, parts = model.eigenvectors, {}
    for name, summary in model.summaries.items():
        squares = (summary.factor.decode(model.dtype).T @ V) ** 2
        parts[name] = model.weights[name] * to_numpy(namespace(V).sum(squares, axis=0)).astype(float)
    total = np.sum(list(parts.values()), axis=0)
    return {name: part / np.where(total > 0, total, 1.0) for name, part in parts.items()}


def captured_share(
    model: FusedModel, rows: Mapping[str, Rows], diagonals: Mapping[str, Array], covariates: Any = None
) -> float:
    """Squared scores of new samples over their squared distances from the mean, or from what covariates predict."""
    # |scores|^2 over the sum of |phi(y) - p(y)|^2 = k(y, y) - 2 p'phi(y) + |p|^2, with p the mean or the prediction.
    scores = adjusted(model, project(model, rows.values()), covariates)
    seen = float(np.sum(to_numpy(scores) ** 2))
    own = {name: np.asarray(to_numpy(diagonals[name]), dtype=float) for name in model.summaries}
    traces = [model.weights[name] * float(own[name].sum()) for name in model.summaries]
    total = model.law.total_trace(traces, list(own.values()))
    if model.settings.center or model.covariates is not None:
        total += _predicted(model, [rows[name] for name in model.summaries], covariates)
    return seen / total if total > 0 else 0.0


def _predicted(model: FusedModel, received: Sequence[Rows], covariates: Any) -> float:
    """Sum of |p|^2 - 2 p'phi(y) over new samples, p(y) = sum_i phi(x_i) (Q q(y))_i over samples x_i of the fit."""
    law, merged = model.law, merging(model)
    some = some_samples(model.n_samples, MEANS_OVER)
    fitted = merged(model.summaries.values(), lambda data: pick(data, sent_to(some, data)))
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


# What a person should know before trusting a picture.


def about_kernel(model: FusedModel) -> list[str]:
    """Say so if the fused kernel matrix is nearly diagonal or nearly constant, with what helps."""
    n_samples, rows = model.n_samples, some_samples(model.n_samples, SAMPLED)
    picked = merging(model)(model.summaries.values(), lambda data: pick(data, sent_to(rows, data)))
    K = to_numpy(model.law.recombine(A @ A.T for A in picked))
    diagonal = float(np.mean(np.diagonal(K))) + max(0.0, model.certificate.trace_gap) / n_samples
    # Root mean square of off-diagonal entries over the diagonal: near 0 every sample is alone, near 1 all are one.
    if len(K) < 2 or not diagonal > 0:
        return [] if any(model.certificate.eigenvalues) else [CONSTANT.format("only rounding is left")]
    K /= diagonal  # before it is squared, so that no scale of the columns overflows
    others = len(K) * (len(K) - 1)
    np.fill_diagonal(K, 0.0)
    if np.linalg.norm(K) < ALIKE * others**0.5:
        return [DIAGONAL]
    np.fill_diagonal(K, 1.0)
    if np.linalg.norm(K - 1.0) < DIFFERENT * others**0.5:
        green = model.certificate.color == "green"
        return [CONSTANT.format("the components rest on its last digits" if green else "only rounding is left")]
    return []


def about_new_samples(outside: Flags) -> list[str]:
    """Say how many new samples lie outside the range of the fit, if any do."""
    if not outside.any():
        return []
    return [
        f"{outside.sum()} of {len(outside)} new samples lie outside the range of the fit, first row "
        f"{outside.argmax()}; they are unlike all training samples, and their scores say little: check their units"
    ]


def outside_at_center(model: FusedModel, received: Iterable[Rows | Partials]) -> Flags:
    """Which new samples lie outside the range of the fit; empty for distances, which do not show it."""
    rows = [message for message in received if isinstance(message, Rows)]
    lengths = {m.party: _norms(model.summaries[m.party].factor.decode()) for m in rows}
    return outside(model.kernels, lengths, rows) if rows else np.zeros(0, dtype=bool)


def outside(kernels: Mapping[str, Kernel], lengths: Mapping[str, Norms], received: Iterable[Rows]) -> Flags:
    """Which new samples lie outside, given the squared lengths of the factor rows of samples of the fit."""
    flags = [kernels[m.party].outside(lengths[m.party], _norms(m.factor.decode())) for m in received]
    return np.asarray(np.logical_or.reduce(flags))


def lengths_in_fit(model: FusedModel) -> dict[str, Norms]:
    """Squared lengths of factor rows on Dask: of some samples of the fit, and the largest of all."""
    some = some_samples(model.n_samples, MEANS_OVER)
    found = {name: row_squares(as_received(summary.factor, model.dtype)) for name, summary in model.summaries.items()}
    return {name: np.append(pick(each, some), at_hand(each.max())) for name, each in found.items()}


def _norms(factor: Array) -> Norms:
    return np.asarray(np.sum(to_numpy(factor) ** 2, axis=1))
