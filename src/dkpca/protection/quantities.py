"""What adds up over parties before a kernel is formed: squared distances or inner products, piece by piece.

All pairs of samples make the exact kernel matrix of the joined table; the columns of landmarks, drawn by the name of
the sum, an approximation for many samples. A piece is some rows of it, so that none needs more memory than it takes.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Literal

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels import Kernel
from dkpca.kernels.distances import LOSS
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import Agreed
from dkpca.protection.ring import Numbers

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


def pieces(agreed: Agreed, kernel: Kernel | None) -> list[slice]:
    """Rows of each piece; the kernel matters only where these are pairs."""
    if agreed.kind == PAIRS and agreed.rows > MOST_PAIRED:
        raise InputError(
            f"all pairs of {agreed.rows:,} samples are too many (at most {MOST_PAIRED:,}); use landmarks"
        )
    found, start = [], 0
    while start < agreed.rows:
        width = agreed.rows - start if agreed.kind == PAIRS else agreed.columns
        stop = min(agreed.rows, start + max(1, PIECE // max(1, width)))
        found.append(slice(start, stop))
        start = stop
    return [piece for piece in found if count(agreed, kernel, piece)] or found[:1]


def count(agreed: Agreed, kernel: Kernel | None, rows: slice) -> int:
    """How many numbers a piece has."""
    n = int(rows.stop - rows.start)
    if agreed.kind != PAIRS or kernel is None:
        return n * agreed.columns
    left = agreed.rows - int(rows.start)  # of the first row; one less in each that follows
    return n * left - n * (n - 1) // 2 - (0 if has_diagonal(kernel) else n)


def addends(agreed: Agreed, kernel: Kernel, X: Numbers, anchors: Numbers | None = None) -> Iterator[Numbers]:
    """A party's own numbers, piece by piece.

    Parameters
    ----------
    agreed : Agreed
        What is added up.
    kernel : Kernel
        Whose partial quantities these are.
    X : array of shape (rows, n_features)
        Measured from the kernel's origin.
    anchors : array of shape (columns, n_features), optional
        What rows are compared with, unless with each other.
    """
    exact = for_rows(kernel, X)
    for rows in pieces(agreed, kernel):
        yield addend(agreed, exact, rows, X, anchors)


def addend(agreed: Agreed, kernel: Kernel, rows: slice, X: Numbers, anchors: Numbers | None = None) -> Numbers:
    """A party's own numbers of one piece; see `addends`."""
    others = X[rows.start :] if agreed.kind == PAIRS else anchors
    block = np.asarray(to_numpy(kernel.partial(X[rows], others)))
    if not has_diagonal(kernel):
        block = np.maximum(block, 0.0)  # no square is below zero, whatever rounding says
    return block[_upper(block.shape, has_diagonal(kernel))] if agreed.kind == PAIRS else np.ravel(block)


def largest(agreed: Agreed, kernel: Kernel, X: Numbers, anchors: Numbers | None = None) -> float:
    """Size of the largest of a party's numbers."""
    return max(float(np.max(np.abs(piece), initial=0.0)) for piece in addends(agreed, kernel, X, anchors))


def fill(matrix: Numbers, rows: slice, values: Numbers, *, diagonal: bool) -> None:
    """Put a piece of all pairs where it belongs, in a symmetric matrix."""
    n = rows.stop - rows.start
    block = np.zeros((n, matrix.shape[0] - rows.start))
    block[_upper(block.shape, diagonal)] = values
    block[:, :n] += np.triu(block[:, :n], 1).T
    matrix[rows, rows.start :] = block
    matrix[rows.start :, rows] = block.T


def _upper(shape: tuple[int, ...], diagonal: bool) -> Numbers:
    """Where the pairs of a block lie whose first row is that of its first column."""
    rows, columns = shape
    return ~np.tri(rows, columns, k=-1 if diagonal else 0, dtype=bool)


def for_rows(kernel: Kernel, X: Numbers) -> Kernel:
    """Kernel with a width at which partial quantities of these rows keep their digits; they do not depend on it.

    The farthest row is at least as far from some other row as from the mean, so that the spread is within the reach.
    """
    spread = float(np.max(np.sum((X - X.mean(axis=0)) ** 2, axis=1), initial=0.0))
    if not kernel.has_width or not 1e-290 < spread < 1e290:
        return kernel
    return replace(kernel, gamma=LOSS / (ARITHMETIC * spread))  # type: ignore[type-var]
