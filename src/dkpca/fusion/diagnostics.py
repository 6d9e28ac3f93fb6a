"""What a person should know before trusting a picture, read off the factors of the messages.

A kernel that says nothing, a party that outweighs the others, and new samples that lie outside.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from dkpca.fusion.fused_model import FusedModel
from dkpca.fusion.scoring import MEANS_OVER, some_samples, training_block
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array, to_numpy
from dkpca.linalg.precision import as_received, row_squares
from dkpca.linalg.rows import at_hand, pick
from dkpca.messages import Partials, Rows

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


def about_kernel(model: FusedModel) -> list[str]:
    """Say so if the fused kernel matrix is nearly diagonal or nearly constant, with what helps."""
    n_samples, rows = model.n_samples, some_samples(model.n_samples, SAMPLED)
    K = to_numpy(training_block(model, rows))
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
    """Which new samples lie outside the range of the fit, as far as the messages show it."""
    known = list(received)
    if isinstance(known[0], Partials):
        return np.zeros(len(known[0].partial.data), dtype=bool)
    rows = [message for message in known if isinstance(message, Rows)]
    lengths = {m.party: _norms(model.summaries[m.party].factor.decode()) for m in rows}
    return outside(model.kernels, lengths, rows)


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
