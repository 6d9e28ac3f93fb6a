"""At the center: the sum of all parties' quantities becomes the summary of one party that has all columns.

The summary says how far rounding on the ring, and what landmarks leave out, can have moved it.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from dkpca import wire
from dkpca.errors import FusionError
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import growth, solver_error
from dkpca.linalg.precision import Rounded
from dkpca.linalg.rows import slices, threads_of_our_own
from dkpca.messages import Rows, Summary
from dkpca.protection import quantities
from dkpca.protection.keys import Numbers
from dkpca.protection.masks import ModularRing
from dkpca.protection.quantities import Addends

JOINED = "joined"  # name of the party that nobody is
DOUBLE = float(np.finfo(np.float64).eps)
KEPT = 1e-10  # eigenvalues of the landmarks' matrix, as a share of the largest, that can be divided by
SAFE = 100.0  # and how many times larger they have to be than the errors of that matrix
WORTH = 1e-3  # of what landmarks leave out anyway: so much more may be left out for a smaller rank
STRIP = 2**22  # numbers that are turned into kernel values at a time


@dataclass(frozen=True)
class Joined:
    """Sums of all parties' numbers."""

    what: Addends
    total: Numbers  # (rows, columns)
    rings: tuple[ModularRing, ModularRing]  # of the numbers, and of the lengths of samples
    n_parties: int
    n_features: int  # over all parties
    sample_digest: str
    run: str  # by which landmarks were drawn

    def strips(self) -> Iterator[tuple[slice, Numbers]]:
        """Some rows at a time."""
        for rows in slices(self.what.rows, max(1, STRIP // self.what.columns)):
            yield rows, self.total[rows]


@threads_of_our_own()
def summary_of(kernel: Kernel, joined: Joined) -> Summary:
    """Return the summary of the joined table; the width of the kernel may be chosen now."""
    return (_of_pairs if joined.what.kind == "pairs" else _of_landmarks)(kernel, joined)


def width_of(kernel: Kernel, joined: Joined) -> float:
    """Return one over the mean of what gamma multiplies, or of the squared lengths of samples; 1 if all is zero."""
    n = joined.what.rows
    if not kernel.unit_diagonal:
        total, count = float(np.trace(joined.total)), n
    elif joined.what.kind == "pairs":
        total, count = float(_quantities(kernel, joined).sum()), n * (n - 1)
    else:
        total, count = float(joined.total.sum()), (n - 1) * joined.what.columns
    return count / total if total > 0 else 1.0


@threads_of_our_own()
def rows_of(summary: Summary, joined: Joined, positions: Numbers | None) -> Rows:
    """Return new samples as rows of the joint factor; `positions` are those of the landmarks of the fit."""
    A = np.asarray(summary.factor.decode())
    anchors = A if positions is None else A[positions]
    # Rows of the joint factor: a(y) (A_anchors)' = k(y, anchors), solved for a(y) by least squares.
    weights = np.linalg.pinv(anchors.T)
    rows = [_gram(summary.kernel, values) @ weights for _, values in joined.strips()]
    return Rows(JOINED, wire.fingerprint(summary), joined.sample_digest, Rounded(np.vstack(rows)))


def _quantities(kernel: Kernel, joined: Joined) -> Numbers:
    """What the kernel is formed of, for all pairs of samples."""
    total = joined.total.copy()
    return quantities.as_distances(total) if joined.what.lengths and kernel.unit_diagonal else total


def _of_pairs(kernel: Kernel, joined: Joined) -> Summary:
    # The exact kernel matrix of the joined table, and all its eigenpairs that are more than rounding.
    n, total = joined.what.rows, _quantities(kernel, joined)
    entry = _entry_error(kernel, total, _uncertainty(joined, kernel))
    K = _gram(kernel, total)
    own = np.diagonal(K).copy()
    values, vectors = (each[..., ::-1] for each in scipy.linalg.eigh(K, overwrite_a=True, check_finite=False))
    noise = max(math.sqrt(n) * DOUBLE * float(values[0]), -float(values[-1]))
    rank = max(1, int((values > noise).sum()))
    factor = vectors[:, :rank] * np.sqrt(np.maximum(values[:rank], 0.0))
    # Entries off by so much, twice: the matrix, and the eigenvalues below zero that this gave it.
    moved = 2.0 * n * entry + solver_error(n, float(values[0]), factor)
    below_zero = -float(np.minimum(values[rank:], 0.0).sum())
    return _summary(
        kernel,
        joined,
        factor,
        own,
        left_out_norm=max(0.0, float(values[rank])) if rank < n else 0.0,
        rounding_norm=moved,
        rounding_nuclear=math.sqrt(n) * moved + below_zero,
    )


def _of_landmarks(kernel: Kernel, joined: Joined) -> Summary:
    """Nystrom in two passes over the rows: matrices of the landmarks' size, then the factor."""
    # First pass: W, the landmarks' own matrix, and C'C for the columns C at the landmarks.
    n, m = joined.what.rows, joined.what.columns
    positions = np.asarray(quantities.positions(joined.what, joined.run))
    uncertainty = _uncertainty(joined, kernel)
    among, products, entry = np.zeros((m, m)), np.zeros((m, m)), 0.0
    for rows, values in joined.strips():
        entry = max(entry, _entry_error(kernel, values, uncertainty))
        C = _gram(kernel, values)
        inside = (positions >= rows.start) & (positions < rows.stop)
        among[inside] = C[positions[inside] - rows.start]
        products += C.T @ C
    # K ~ C W^+ C' = F F' with F = C W^(-1/2): its eigenpairs are those of W^(-1/2) C'C W^(-1/2).
    lengths, U = np.linalg.eigh(0.5 * (among + among.T))
    kept = lengths > max(KEPT * float(lengths[-1]), SAFE * m * entry)
    if not kept.any():
        raise FusionError("landmarks cannot be told apart; use precision='float64', or a wider kernel")
    roots = U[:, kept] / np.sqrt(lengths[kept])
    spectrum, Z = np.linalg.eigh(roots.T @ products @ roots)
    spectrum, Z = np.maximum(spectrum[::-1], 0.0), Z[:, ::-1]
    rest = np.append(np.cumsum(spectrum[::-1])[::-1][1:], 0.0)
    rank = int(np.argmax(rest <= WORTH * max(0.0, n - float(spectrum.sum())))) + 1
    # Second pass: the factor C M with M = W^(-1/2) Z, and how far errors of the entries can have moved it.
    weights = roots @ Z[:, :rank]
    factor = np.empty((n, rank))
    for rows, values in joined.strips():
        factor[rows] = _gram(kernel, values) @ weights
    stretch = m * entry * float(np.linalg.norm(weights, 2)) ** 2
    # With C the true columns and W the true matrix of the landmarks, M' W M <= (1 + stretch) I, so that
    # K >= C M M' C' / (1 + stretch); and the computed factor differs from C M by `columns` in norm at most.
    trace, root = float((factor**2).sum()), math.sqrt(float(spectrum[0]))
    columns = math.sqrt(n * m) * entry * float(np.linalg.norm(weights, 2))
    moved = 2.0 * root * columns + columns**2 + stretch * (root + columns) ** 2
    moved += solver_error(m, float(spectrum[0]), factor) * growth(m)
    return _summary(
        kernel,
        joined,
        factor,
        np.ones(n),
        left_out_norm=max(0.0, n - trace) + stretch * trace,
        rounding_norm=moved,
        rounding_nuclear=2 * rank * moved,
    )


def _summary(kernel: Kernel, joined: Joined, factor: Numbers, diagonal: Numbers, **bounds: Any) -> Summary:
    return Summary(
        party=JOINED,
        kernel=kernel,
        sample_digest=joined.sample_digest,
        n_features=joined.n_features,
        factor=Rounded(factor),
        trace_left_out=float(diagonal.sum()) - float((factor**2).sum()),
        diagonal=Rounded(diagonal[:, None]) if kernel.sends_diagonal else None,
        **bounds,
    )


def _gram(kernel: Kernel, total: Numbers) -> Numbers:
    """Entries of the joint Gram matrix; a kernel that the law finishes stays as it is."""
    if kernel.sends_diagonal:
        return total
    return np.asarray(kernel.finish(np.maximum(total, 0.0) if kernel.unit_diagonal else total))


def _uncertainty(joined: Joined, kernel: Kernel) -> float:
    """Most by which a number can be wrong: half a step per party, and what their own arithmetic may have lost."""
    # A party loses `ARITHMETIC` of its own spread at most. Its longest sample is within the longest of the sum; and a
    # distance to any sample within four times the largest distance to a landmark.
    values, lengths = joined.rings
    rounding, largest = 0.5 * joined.n_parties * values.step, np.max(joined.total, initial=0.0)
    if joined.what.lengths:
        rounding, largest = rounding + 0.5 * joined.n_parties * lengths.step, np.max(np.diagonal(joined.total))
        rounding *= 2.0 if kernel.unit_diagonal else 1.0  # a squared distance is two lengths less twice a product
    return rounding + joined.n_parties * quantities.ARITHMETIC * 4.0 * float(largest)


def _entry_error(kernel: Kernel, total: Numbers, uncertainty: float) -> float:
    """Most by which an entry of the Gram matrix can be wrong; what finishes a kernel of distances is monotone."""
    if kernel.sends_diagonal or not kernel.unit_diagonal:
        return uncertainty
    # k is monotone in the distance d: k(d - u) - k(d + u) bounds the error of an entry whose d is off by u.
    lows = (kernel.finish(np.maximum(row - uncertainty, 0.0)) for row in total)
    return max(float(np.max(low - kernel.finish(row + uncertainty))) for low, row in zip(lows, total, strict=True))
