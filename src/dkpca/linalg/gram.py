"""Positive semidefinite matrices known by their entries on demand: only `dense()` stores n x n numbers."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dkpca.linalg.arrays import Array, MemoryLimit, eps, growth, like, namespace, to_numpy, unit
from dkpca.linalg.rows import Distinct, Index, Made, in_order, off, pick, slices, tile_bytes

Within = Callable[[int, Sequence[Array], Sequence[slice]], Array]
SHARES = 8  # of the tiles of a product, each added up on its own: so many, whatever the number of threads


class Gram(ABC):
    """A symmetric positive semidefinite n x n matrix; subclasses say how to evaluate a block."""

    n: int
    entry_operations: float = 2.0  # it takes to evaluate an entry
    reference: Array  # an array of the namespace, precision and device in which the matrix is evaluated
    home: Array  # an array of the library, precision and place where what has a row for each sample is kept
    memory: MemoryLimit | None = None  # that arrays with a row for each sample may take
    solved: Any = None  # `dkpca.linalg.dense.Tridiagonal`, once the dense solver has reduced it

    @abstractmethod
    def diagonal(self) -> Array:
        """Diagonal entries, (n,)."""

    @abstractmethod
    def block(self, rows: Index, columns: Index) -> Array:
        """Entries at the crossing of rows and columns, in a new array: callers write over it."""

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Rows of each chunk, if these are on the workers of a Dask cluster now: on a worker itself they are not."""
        return None

    def sent_to(self, place: Array) -> "Gram":
        """Return the same matrix, evaluated where another array lives: rows travel there a group at a time."""
        raise NotImplementedError

    def against(self, columns: Array) -> Made:
        """Return these columns of the matrix, made where they are looked at."""
        raise NotImplementedError

    def within(self) -> Within:
        """Say how to make blocks on the diagonal, from a strip's first row, its rows of what is stored, and parts."""

        def of(start: int, stored: Sequence[Array], parts: Sequence[slice]) -> Array:
            places = [slice(start + rows.start, start + rows.stop, rows.step) for rows in parts]
            return namespace(self.reference).stack([self.block(rows, rows) for rows in places])

        return of

    @property
    def distinct(self) -> "tuple[Gram, Distinct] | None":
        """Return W^(1/2) U W^(1/2) for the matrix U of distinct samples, which occur W times; None if none repeat."""
        return None

    def among(self, positions: Array) -> "Gram":
        """Return the matrix of some of the samples."""
        raise NotImplementedError

    def dense(self) -> Array:
        """Return the whole matrix, in a new array. Only for small n."""
        return self.block(slice(None), slice(None))

    def log_largest(self) -> float:
        """Logarithm of the largest entry, also where the entry underflows; minus infinity for a zero matrix."""
        diagonal = self.diagonal()
        largest = float(namespace(diagonal).max(diagonal))
        return math.log(largest) if largest > 0 else -math.inf

    def trace(self) -> float:
        """Sum of the diagonal."""
        diagonal = self.diagonal()
        return float(namespace(diagonal).sum(diagonal))

    def evaluation_error(self) -> float:
        """Bound on the Frobenius norm of the matrix as it is evaluated minus the one that is meant."""
        return 0.0

    def noise(self) -> float:
        """Size that rounding in the evaluation of the matrix usually has: no bound, but when to stop refining."""
        return 0.0

    @property
    def factor(self) -> Array | None:
        """F with matrix = F F', if one with fewer than n columns is at hand."""
        return None

    def rough(self, width: int) -> Callable[[Array], Array] | None:
        """Return what multiplies such blocks in few digits, to look around, if that is much faster."""
        return None

    def affine(self, weights: Array) -> tuple[Array, Array, Array | None]:
        """W, c and S with scores = uncentered kernel row @ W + c + covariates @ S for a new sample."""
        return weights, namespace(weights).zeros_like(weights[0, :]), None

    def inside(self, block: Array) -> Array:
        """Columns without what the matrix is known to take to zero."""
        return block

    def taken_trace(self) -> float:
        """Trace of what covariates took out of the matrix."""
        return 0.0

    def __matmul__(self, block: Array) -> Array:
        """Multiply by a thin block, tile by tile; each off-diagonal tile is evaluated once and used twice."""
        # K B = sum over tiles K_ij B_j, and K_ji B_i = K_ij' B_i from the same tile, of which two fit into the cache.
        # Shares are fixed: neither the number of threads nor their order changes a bit.
        side = max(1, int((tile_bytes(self.reference) / (2 * block.dtype.itemsize)) ** 0.5))
        tiles = list(slices(self.n, side))
        shares = [range(first, len(tiles), SHARES) for first in range(min(SHARES, len(tiles)))]

        def of(numbers: Sequence[int]) -> Array:
            out = namespace(block).zeros_like(block)
            for i in numbers:
                rows = tiles[i]
                for columns in tiles[i:]:
                    tile = self.block(rows, columns)
                    out[rows, :] += tile @ block[columns, :]
                    if rows != columns:
                        out[columns, :] += tile.T @ block[rows, :]
            return out

        total = namespace(block).zeros_like(block)
        for part in in_order(of, shares, self.reference):
            total += part
        return total


class Centered(Gram):
    """H K H with H = I - PP', P the column 1 / sqrt(n), if `mean`, and orthonormal columns Q of the covariates."""

    def __init__(self, base: Gram, Q: Array | None = None, *, mean: bool = True, turned: float = 0.0) -> None:
        self.base, self.memory, self.home = base, base.memory, base.home
        self.n, self.reference, self.entry_operations = base.n, base.reference, base.entry_operations
        self.Q, self.mean, self.turned = Q, mean, turned  # the sine of the angle by which rounding may have turned Q
        self.count = int(mean) + (0 if Q is None else int(Q.shape[1]))  # columns of P
        self._images: Array | None = None  # K P, (n, p); whichever method sees the matrix first fills them in

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return self.base.chunks

    @cached_property
    def taken(self) -> Array:
        """Columns P, (n, p)."""
        constant = [np.full((self.n, 1), 1.0 / math.sqrt(self.n))] if self.mean else []
        return like(np.hstack(constant + ([] if self.Q is None else [to_numpy(self.Q)])), self.home)

    def sent_to(self, place: Array) -> Gram:
        return Centered(self.base.sent_to(place), self.Q, mean=self.mean, turned=self.turned)

    def inside(self, block: Array) -> Array:
        return off(self.taken, block)

    def images(self) -> Array:
        """K P; costs one product, unless it is known already."""
        if self._images is None:
            self._images = self.base @ self.taken
        return self._images

    def dense(self) -> Array:
        K, xp = self.base.dense(), namespace(self.taken)
        self._images = K @ self.taken
        # K - P (KP)' - (H K P) P' in one pass over K.
        K -= xp.concat([self.taken, self._rest()], axis=1) @ xp.concat([self._images, self.taken], axis=1).T
        return K

    def _rest(self) -> Array:
        """H K P."""
        return self.images() - self.taken @ (self.taken.T @ self.images())

    def block(self, rows: Index, columns: Index) -> Array:
        # H K H = K - P (KP)' - (H K P) P'
        taken = pick(self.taken, rows) @ pick(self.images(), columns).T
        return self.base.block(rows, columns) - taken - pick(self._rest(), rows) @ pick(self.taken, columns).T

    def diagonal(self) -> Array:
        return self.base.diagonal() - namespace(self.taken).sum(self.taken * (self.images() + self._rest()), axis=1)

    def evaluation_error(self) -> float:
        # Each column of P rounds as a mean does, and is orthogonal to the others to as many digits; and where P is
        # turned, so is H, on either side of K.
        rounded = 4.0 * self.count * growth(self.n) * unit(self.reference) + 2.0 * self.turned
        return self.base.evaluation_error() + rounded * self.base.trace()

    def noise(self) -> float:
        rounded = 8.0 * self.count * eps(self.reference)
        return self.base.noise() + rounded * self.base.trace() / math.sqrt(self.n)

    def rough(self, width: int) -> Callable[[Array], Array] | None:
        multiply, xp = self.base.rough(width), namespace(self.taken)
        if multiply is None:
            return None
        taken = xp.astype(self.taken, xp.float32)
        return lambda block: off(taken, multiply(off(taken, block)))

    @property
    def factor(self) -> Array | None:
        factor = self.base.factor
        return None if factor is None else off(self.taken, factor)

    def affine(self, weights: Array) -> tuple[Array, Array, Array | None]:
        # (k - m)' H W = k'(H W) - m'(H W) for the row means m: the mean of the new sample's own kernel row drops out.
        # A new sample with covariates c has the kernel row k - KQ c: its scores change by -c'(KQ)' H W.
        weights = off(self.taken, weights)
        slopes = None if self.Q is None else -(self.images()[:, int(self.mean) :].T @ weights)
        return weights, -(self.images()[:, 0] @ weights) * (self.mean / math.sqrt(self.n)), slopes

    def taken_trace(self) -> float:
        if self.Q is None:
            return 0.0
        return float(namespace(self.taken).sum((self.taken * self.images())[:, int(self.mean) :]))

    def __matmul__(self, block: Array) -> Array:
        xp, width, block = namespace(block), block.shape[1], off(self.taken, block)
        if self._images is not None:
            return off(self.taken, self.base @ block)
        # The first product brings K P along, which would otherwise cost a product of its own.
        both = self.base @ xp.concat([block, self.taken], axis=1)
        self._images = both[:, width:]
        return off(self.taken, both[:, :width])
