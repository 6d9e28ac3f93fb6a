"""What adds up over parties before a kernel is formed: inner products or distances, piece by piece.

All pairs of samples make the exact kernel matrix of the joined table; the columns of landmarks, drawn by the name of
the run, an approximation for many samples. Squared distances between all pairs travel as inner products of samples
measured from the mean: one sample far from all others makes all its distances large, but only its own length among
the products. Lengths go on a ring of 64 bits, with a bound of their own.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels import Kernel
from dkpca.kernels.distances import LOSS
from dkpca.linalg.arrays import quiet, to_numpy
from dkpca.linalg.rows import threads_of_our_own
from dkpca.messages import Bits, Count
from dkpca.protection.keys import Numbers

PIECE = 2**22  # numbers in a piece: 16 MB in a message, some times as much while it is made
MOST_PAIRED = 10_000  # samples whose whole matrix a center can hold
PAIRS_UP_TO = 4_000  # samples: beyond, their pairs would take more bytes than a message should
FINE_UP_TO = 16_000  # samples: beyond, bounds without data leave too few of 32 bits
ARITHMETIC = 4e-13  # of the spread: most that a party's own arithmetic loses of a distance
SLACK = 1.0 + 1e-9  # of a bound, for rounding
SumKind = Literal["pairs", "columns", "new", "scores", "statistic"]


@dataclass(frozen=True)
class Addends:
    """Numbers that all parties add up: for each row, with each column."""

    kind: SumKind  # pairs of samples, samples with landmarks, new samples with these, shares of scores, one number
    rows: Count
    columns: Count
    bits: Bits  # of the ring on which numbers are added
    lengths: bool = False  # whether the length of each sample goes along, since pairs are inner products

    @property
    def pieces(self) -> list[slice]:
        """Rows of each piece."""
        found, start = [], 0
        while start < self.rows:
            width = self.rows - start if self.kind == "pairs" else self.columns
            stop = min(self.rows, start + max(1, PIECE // max(1, width)))
            if self.kind == "pairs" and stop == self.rows - 1:
                stop += 1  # the last row has no pairs of its own
            found.append(slice(start, stop))
            start = stop
        return found

    def count(self, rows: slice) -> int:
        """How many numbers a piece has, but for the lengths of its rows."""
        n = int(rows.stop - rows.start)
        if self.kind != "pairs":
            return n * self.columns
        after_first = self.rows - int(rows.start) - 1  # pairs of the first row; one less in each that follows
        return n * after_first - n * (n - 1) // 2


def of_fit(kernel: Kernel, n_samples: int, n_landmarks: int, precision: str) -> Addends:
    """What a fit of so many samples adds up: all pairs, or samples with landmarks where they are many."""
    bits = 64 if precision == "float64" or n_samples > FINE_UP_TO else 32
    if n_samples <= (PAIRS_UP_TO if kernel.unit_diagonal else MOST_PAIRED):
        return Addends("pairs", n_samples, n_samples, bits, lengths=kernel.by_inner_products)
    if not kernel.unit_diagonal:
        raise InputError(f"{n_samples:,} samples are too many for sums of {kernel.name} kernels; use protect='blind'")
    return Addends("columns", n_samples, min(n_landmarks, n_samples), bits)


def positions(what: Addends, run: str) -> Numbers | None:
    """Positions of the landmarks of a fit, ascending; None where all samples are compared."""
    if what.kind != "columns":
        return None
    # Every sample gets 64 random bits from the name of the run; the smallest win: a draw without replacement that all
    # parties make alike.
    order = np.frombuffer(hashlib.shake_256(b"dkpca landmarks\0" + run.encode()).digest(8 * what.rows), dtype="<u8")
    return np.sort(np.argsort(order, kind="stable")[: what.columns])


@dataclass(frozen=True)
class Compared:
    """A party's rows and those that they are compared with, measured from the kernel's origin."""

    kernel: Kernel  # of the fit
    X: Numbers
    anchors: Numbers

    @cached_property
    def exact(self) -> Kernel:
        """Kernel with a width at which partial quantities of the rows keep their digits; they do not depend on it."""
        # RBF.partial divides exponents by gamma; this gamma makes `exponents` take differences wherever a product
        # would lose more than ARITHMETIC of the spread.
        spread = float(np.max(np.sum((self.X - self.X.mean(axis=0)) ** 2, axis=1), initial=0.0))
        if not self.kernel.has_width or not 1e-290 < spread < 1e290:
            return self.kernel
        return replace(self.kernel, gamma=LOSS / (ARITHMETIC * spread))  # type: ignore[type-var]

    def between(self, rows: Numbers, others: Numbers) -> Numbers:
        """Inner products or distances of rows with others; no distance is below zero."""
        block = np.asarray(to_numpy(self.exact.partial(rows, others)))
        return np.maximum(block, 0.0) if self.kernel.unit_diagonal else block

    def lengths(self, rows: Numbers) -> Numbers:
        """Squared lengths from the mean of the columns."""
        return np.asarray(np.ravel(to_numpy(self.exact.partial(rows, self.anchors.mean(axis=0)[None, :]))))


@threads_of_our_own()
@quiet()
def addend(what: Addends, compared: Compared, rows: slice) -> tuple[Numbers, Numbers | None]:
    """A party's own numbers of one piece, and the lengths of its rows where they go along."""
    X = compared.X
    others = X[rows.start :] if what.kind == "pairs" else compared.anchors
    block = compared.between(X[rows], others)
    if what.kind != "pairs":
        return np.ravel(block), None
    pairs = _pairs_in(block)
    if not what.lengths:
        return block[pairs], None
    if not compared.kernel.unit_diagonal:
        return block[pairs], np.diagonal(block).copy()
    # x'y from the mean = (|x|^2 + |y|^2 - |x - y|^2) / 2: one sample far away makes only its own length large.
    lengths = compared.lengths(others)
    own = lengths[: len(block)]
    return (0.5 * (own[:, None] + lengths[None, :] - block))[pairs], own


Piecewise = Callable[[slice], tuple[Numbers, Numbers | None]]  # a party's own numbers of a piece, and lengths


def largest(what: Addends, numbers: Piecewise) -> tuple[float, float]:
    """Size of the largest of a party's numbers, and of its lengths."""
    most = np.zeros(2)
    for rows in what.pieces:
        sizes = (0.0 if each is None else np.max(np.abs(each), initial=0.0) for each in numbers(rows))
        most = np.maximum(most, [*sizes])
    return float(most[0]), float(most[1])


def bounds_without_data(what: Addends, kernel: Kernel, n_features: int) -> tuple[float, float] | None:
    """Bounds that follow from standardized columns: x_i^2 + x_k^2 <= T in each of them; None: none do."""
    if not kernel.by_inner_products or kernel.columns_are != "quantities" or what.kind not in ("pairs", "columns"):
        return None
    # Squares of a standardized column add up to the number of samples: x'y <= T / 2, |x|^2 <= T, |x - y|^2 <= 2 T.
    T = what.rows * n_features * SLACK
    return (0.5 * T, T) if what.kind == "pairs" else (2.0 * T, 0.0)


def fill(total: Numbers, what: Addends, rows: slice, values: Numbers, lengths: Numbers | None) -> None:
    """Put the sums of a piece where they belong; all pairs make a symmetric matrix."""
    if what.kind != "pairs":
        total[rows] = values.reshape(-1, what.columns)
        return
    # Pairs lie above the diagonal of the strip that starts at it; mirrored inside, and the strip's transpose outside.
    n = rows.stop - rows.start
    block = np.zeros((n, what.rows - rows.start))
    block[_pairs_in(block)] = values
    block[:, :n] += block[:, :n].T
    if lengths is not None:
        np.fill_diagonal(block, lengths)
    total[rows, rows.start :] = block
    total[rows.start :, rows] = block.T


def as_distances(products: Numbers) -> Numbers:
    """Squared distances from inner products, in their place."""
    # |x - y|^2 = |x|^2 + |y|^2 - 2 x'y.
    lengths = np.diagonal(products).copy()
    products *= -2.0
    products += lengths[:, None]
    products += lengths[None, :]
    np.fill_diagonal(products, 0.0)
    return products


@quiet()
def spread_of(what: Addends, compared: Compared) -> tuple[float, float]:
    """Deviation and size of what a party adds, over a sample of its pairs; a few that differ are no deviation."""
    # A party whose addend hardly varies would leave the others' sum in the open; 300 x 300 entries tell.
    rows, others = (Z[:: max(1, len(Z) // 300)][:300] for Z in (compared.X, compared.anchors))
    others = rows if what.kind == "pairs" else others
    block = compared.between(rows, others)
    size = float(np.sqrt(np.mean(block**2)))
    if what.kind == "pairs":
        return _deviation(block[np.triu_indices(len(block), 1)]), size
    return max(map(_deviation, block.T)) if len(rows) > 1 else _deviation(block), size


def _deviation(values: Numbers) -> float:
    """As a normal distribution has it between these quantiles: of which one in twenty is beyond on either side."""
    low, high = np.quantile(values, (0.05, 0.95))
    return float(high - low) / 3.29


def _pairs_in(block: Numbers) -> Numbers:
    """Where each pair lies once, and no sample with itself, in a block that begins on the diagonal."""
    return np.asarray(np.tri(*block.shape) == 0.0)
