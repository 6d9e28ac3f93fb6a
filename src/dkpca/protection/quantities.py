"""What adds up over parties before a kernel is formed: inner products or distances, piece by piece.

All pairs of samples make the exact kernel matrix of the joined table; the columns of landmarks, drawn by the name of
the sum, an approximation for many samples. A piece is some rows of it, so that none needs more memory than it takes.

Squared distances between all pairs travel as inner products of samples measured from the mean, which say the same:
one sample far from all others makes all its distances large, but only its own length among the products. Lengths go
with more bits, so that a ring of few bits need not reach them.
"""

import hashlib
from dataclasses import replace
from typing import Literal

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels import Kernel
from dkpca.kernels.distances import LOSS
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import Agreed
from dkpca.protection.ring import LENGTHS, Numbers

PIECE = 2**22  # numbers in a piece: 16 MB in a message, some times as much while it is made
MOST_PAIRED = 10_000  # samples whose whole matrix a center can hold
ARITHMETIC = 4e-13  # of the reach: most that a party's own arithmetic loses of a distance
PAIRS: Literal["pairs"] = "pairs"
COLUMNS: Literal["columns"] = "columns"
NEW: Literal["new"] = "new"
SCORES: Literal["scores"] = "scores"


def landmarks(run: str, n_samples: int, n_landmarks: int) -> Numbers:
    """Positions of landmarks, ascending: the same for everybody who knows the name of the sum."""
    order = np.frombuffer(hashlib.shake_256(b"dkpca landmarks\0" + run.encode()).digest(8 * n_samples), dtype="<u8")
    return np.sort(np.argsort(order, kind="stable")[:n_landmarks])


def positions(agreed: Agreed) -> Numbers | None:
    """Positions of the landmarks of a sum; None where all samples are compared."""
    return landmarks(agreed.run, agreed.rows, agreed.columns) if agreed.kind == COLUMNS else None


def has_diagonal(kernel: Kernel) -> bool:
    """Whether a sample with itself says anything: an inner product does, a distance does not."""
    return not kernel.unit_diagonal


def are_products(kernel: Kernel) -> bool:
    """Whether pairs of samples travel as inner products, and not as distances that are no such thing."""
    return kernel.by_inner_products


def have_lengths(agreed: Agreed) -> bool:
    """Whether the length of each sample goes along."""
    return agreed.kind == PAIRS and agreed.signed


def pieces(agreed: Agreed) -> list[slice]:
    """Rows of each piece."""
    if agreed.kind == PAIRS and agreed.rows > MOST_PAIRED:
        raise InputError(
            f"all pairs of {agreed.rows:,} samples are too many (at most {MOST_PAIRED:,}); use landmarks"
        )
    found, start = [], 0
    while start < agreed.rows:
        width = agreed.rows - start if agreed.kind == PAIRS else agreed.columns
        stop = min(agreed.rows, start + max(1, PIECE // max(1, width)))
        if agreed.kind == PAIRS and stop == agreed.rows - 1:
            stop += 1  # the last row has no pairs of its own
        found.append(slice(start, stop))
        start = stop
    return found


def count(agreed: Agreed, rows: slice) -> int:
    """How many numbers a piece has, but for the lengths of its rows."""
    n = int(rows.stop - rows.start)
    if agreed.kind != PAIRS:
        return n * agreed.columns
    after_first = agreed.rows - int(rows.start) - 1  # pairs of the first row; one less in each that follows
    return n * after_first - n * (n - 1) // 2


def addend(
    agreed: Agreed, kernel: Kernel, rows: slice, X: Numbers, anchors: Numbers | None = None
) -> tuple[Numbers, Numbers | None]:
    """A party's own numbers of one piece, and the lengths of its rows where they go along.

    Parameters
    ----------
    agreed : Agreed
        What is added up.
    kernel : Kernel
        Whose partial quantities these are, from `for_rows`.
    rows : slice
        Of the piece.
    X : array of shape (rows, n_features)
        Measured from the kernel's origin.
    anchors : array of shape (columns, n_features), optional
        What rows are compared with, unless with each other.
    """
    others = X[rows.start :] if agreed.kind == PAIRS else anchors
    block = np.asarray(to_numpy(kernel.partial(X[rows], others)))
    if agreed.kind != PAIRS:
        return np.ravel(_not_negative(kernel, block)), None
    pairs = _pairs_in(block)
    if not have_lengths(agreed):
        return _not_negative(kernel, block)[pairs], None
    if has_diagonal(kernel):
        return block[pairs], np.diagonal(block).copy()
    lengths = np.ravel(to_numpy(kernel.partial(others, X.mean(axis=0)[None, :])))
    own = lengths[: len(block)]
    return (0.5 * (own[:, None] + lengths[None, :] - block))[pairs], own


def largest(agreed: Agreed, kernel: Kernel, X: Numbers, anchors: Numbers | None = None) -> float:
    """Size of the largest of a party's numbers, a length taken for a sixteenth of it; not finite if one is not."""
    exact, found = for_rows(kernel, X), [0.0]
    for rows in pieces(agreed):
        values, lengths = addend(agreed, exact, rows, X, anchors)
        found.append(float(np.max(np.abs(values), initial=0.0)))
        if lengths is not None:
            found.append(float(np.max(np.abs(lengths))) / LENGTHS)
    return float(np.max(found))


def fill(matrix: Numbers, rows: slice, values: Numbers, lengths: Numbers | None) -> None:
    """Put a piece of all pairs where it belongs, in a symmetric matrix."""
    n = rows.stop - rows.start
    block = np.zeros((n, matrix.shape[0] - rows.start))
    block[_pairs_in(block)] = values
    block[:, :n] += block[:, :n].T
    if lengths is not None:
        np.fill_diagonal(block, lengths)
    matrix[rows, rows.start :] = block
    matrix[rows.start :, rows] = block.T


def as_distances(products: Numbers) -> Numbers:
    """Squared distances from inner products, in their place."""
    lengths = np.diagonal(products).copy()
    products *= -2.0
    products += lengths[:, None]
    products += lengths[None, :]
    np.fill_diagonal(products, 0.0)
    return products


def _pairs_in(block: Numbers) -> Numbers:
    """Where each pair lies once, and no sample with itself, in a block that begins on the diagonal."""
    return np.asarray(np.tri(*block.shape) == 0.0)


def _not_negative(kernel: Kernel, block: Numbers) -> Numbers:
    """No distance is below zero, whatever rounding says."""
    return block if has_diagonal(kernel) else np.maximum(block, 0.0)


def for_rows(kernel: Kernel, X: Numbers) -> Kernel:
    """Kernel with a width at which partial quantities of these rows keep their digits; they do not depend on it.

    The spread is within the reach of distances: the farthest row is at least as far from some other row as from the
    mean; and within that of lengths, which are measured from the mean.
    """
    spread = float(np.max(np.sum((X - X.mean(axis=0)) ** 2, axis=1), initial=0.0))
    if not kernel.has_width or not 1e-290 < spread < 1e290:
        return kernel
    return replace(kernel, gamma=LOSS / (ARITHMETIC * spread))  # type: ignore[type-var]
