"""The Gram matrices that need a kernel: a party's, and the fused one."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import Law
from dkpca.linalg import hadamard_on_gpu
from dkpca.linalg.arrays import (
    Array,
    MemoryLimit,
    device,
    dtype_name,
    growth,
    namespace,
    quiet,
    row_squares,
    same_place,
    sent_to,
    set_diagonal,
    transposed,
    unit,
)
from dkpca.linalg.gram import Gram, Within
from dkpca.linalg.precision import Factor, Tall, placed, reference_of, rows_of, whole
from dkpca.linalg.rows import (
    Distinct,
    Index,
    Made,
    as_made,
    at_hand,
    cross,
    distinct_rows,
    kept,
    one_blas_thread,
    pick,
    row_chunks,
    slices,
    tile_bytes,
    times,
    together,
)

FUNCTION = 40.0  # operations of an exponential, or what else a kernel makes of an inner product
TABLE_BYTES = 2**27  # of products that are looked up, for each party ...
TABLE_SHARE = 64  # ... and at most one part in this many of the memory that may be taken
MOST_PRODUCTS = 64  # columns of a thin factor of the fused matrix: more are not worth writing down


@dataclass(eq=False)
class KernelGram(Gram):
    """A party's Gram matrix: a kernel on its own columns."""

    kernel: Kernel
    X: Factor
    origin: Array | None = None  # X is measured from it already
    place: Array | None = None  # an array where rows are computed with, if not where they lie
    standardized: float = 0.0  # share of itself by which each number may be off
    memory: MemoryLimit | None = None
    counts: Array | None = None  # how often each row occurs, W: then W^(1/2) K W^(1/2)

    def __post_init__(self) -> None:
        self.there = self.X if self.place is None else placed(self.X, self.place)
        self.n, self.reference, self.home = self.X.shape[0], reference_of(self.there), reference_of(self.X)
        self.entry_operations = 2.0 * self.X.shape[1] + FUNCTION
        self._roots = None if self.counts is None else namespace(self.counts).sqrt(self.counts)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return row_chunks(self.X)

    def diagonal(self) -> Array:
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Array:
        own = self.kernel.diagonal(self.X)
        return own if self.counts is None else own * self.counts

    def block(self, rows: Index, columns: Index) -> Array:
        # Entries k(x_i, x_j) for some rows and columns; on the diagonal they are replaced by the kernel's own exact
        # values, from which matrix products differ by a rounding.
        K, X = self.kernel.block(self.there, rows, columns), self.there
        if self._roots is not None:
            K = _weighed(K, pick(self._roots, rows), pick(self._roots, columns))
        if not (rows is columns or (isinstance(rows, slice) and isinstance(columns, slice) and rows == columns)):
            return K
        own = self.kernel.diagonal(X.rows(rows)) if isinstance(X, Tall) else pick(self.diagonal(), rows)
        return set_diagonal(K, own)

    def sent_to(self, place: Array) -> Gram:
        if self.kernel.columns_are == "samples":
            raise InputError("a precomputed kernel matrix is used where it is stored; leave device out")
        return replace(self, place=place)

    @cached_property
    def distinct(self) -> tuple[Gram, Distinct] | None:
        # K = E U E' for the matrix U of the distinct rows and the E that repeats them, and W = E'E.
        X = self.there
        if not isinstance(X, np.ndarray) or self.counts is not None or self.kernel.columns_are == "samples":
            return None
        if (found := distinct_rows(X)) is None:
            return None
        return replace(self, X=X[found.first], counts=found.counts.astype(X.dtype)), found

    def against(self, columns: Array) -> Made:
        kernel, anchors = self.kernel, self.kernel.anchors(self.there, columns)  # what goes to the rows: no table
        made = as_made(self.there).then(lambda start, rows: kernel(rows, anchors), columns.shape[0])
        if (roots := self._roots) is None:
            return made
        own = pick(roots, columns)
        return made.then(lambda start, K: _weighed(K, roots[start : start + K.shape[0]], own))

    def within(self) -> Within:
        if self.kernel.columns_are == "samples" or self.counts is not None:
            return super().within()
        kernel, make = self.kernel, as_made(self.there).make

        def of(start: int, stored: Sequence[Array], parts: Sequence[slice]) -> Array:
            X = make(start, *stored)
            diagonal, xp = kernel.diagonal(X), namespace(X)
            return set_diagonal(kernel.blocks(X, parts), xp.stack([diagonal[rows] for rows in parts]))

        return of

    def among(self, positions: Array) -> Gram:
        counts = None if self.counts is None else pick(self.counts, positions)
        return replace(self, X=self.kernel.rows(self.there, positions), place=None, counts=counts)

    def evaluation_error(self) -> float:
        # An entry is off by at most this share of sqrt(k(x, x) k(y, y)), so the matrix is off by at most this share
        # of its trace in Frobenius norm.
        return self._share * self.trace()

    @cached_property
    def _share(self) -> float:  # takes a pass over the rows
        error = self.kernel.relative_error(self.X, self.origin)
        if self.standardized:
            error += self.kernel.error_of_rows(self.X, self.standardized)
        return error + (0.0 if self.counts is None else 4.0 * unit(self.X))  # two roots and two products

    @property
    def factor(self) -> Array | None:
        features = self.kernel.explicit_features(self.X)
        if features is None or features.shape[1] >= self.n:
            return None
        return features if self._roots is None else features * self._roots[:, None]


class FusedGram(Gram):
    """The matrix the center works with: what the law makes of the parties' factors."""

    def __init__(
        self, law: Law, parts: Sequence[Factor], place: Array | None = None, *, memory: MemoryLimit | None = None
    ) -> None:
        self.law, self.memory = law, memory
        self.parts = list(parts) if place is None else [placed(A, place) for A in parts]  # `Law.parts`
        self.n, self.reference, self.home = parts[0].shape[0], reference_of(self.parts[0]), reference_of(parts[0])
        self.widths = [A.shape[1] for A in self.rows(slice(0, 1))]  # columns of the merged factors
        self.entry_operations = 2.0 * sum(self.widths)

    @property
    def chunks(self) -> tuple[int, ...] | None:
        return row_chunks(self.parts[0])

    @cached_property
    def factors(self) -> list[Array]:
        """Merged factors with all their rows."""
        return self.law.merge([whole(A) for A in self.parts])

    def rows(self, index: Index) -> list[Array]:
        """Some rows of the merged factors; not all are decoded for it."""
        if "factors" in vars(self) or not any(isinstance(A, Tall) for A in self.parts):
            return [pick(A, index) for A in self.factors]
        return self.law.merge([rows_of(A, index) for A in self.parts])

    @property
    def table(self) -> Made:
        """Rows of the merged factors, made where they are looked at."""
        law = self.law
        return together(self.parts, lambda start, *rows: law.merge(rows), 0)

    def sent_to(self, place: Array) -> "FusedGram":
        return FusedGram(self.law, self.parts, place, memory=self.memory)

    def rough(self, width: int) -> Callable[[Array], Array] | None:
        if dtype_name(self.reference) != "float64" or not self.law.multiplies:
            return None
        return hadamard_on_gpu.rough(self.factors, width)

    def diagonal(self) -> Array:
        return self._lengths[0]

    def log_largest(self) -> float:
        return self._lengths[1]

    @cached_property
    def _lengths(self) -> tuple[Array, float]:
        """Diagonal, and the logarithm of its largest entry."""
        # diag(A A') are squared lengths of rows; the law combines them as it does all entries.
        law = self.law

        def squares(start: int, merged: Sequence[Array]) -> Array:
            with quiet():
                lengths = [row_squares(A) for A in merged]
                return namespace(*lengths).stack([law.recombine(lengths), law.log_diagonal(lengths)], axis=1)

        both = kept(self.table.then(squares, 2), self.reference, self.memory)
        diagonal, logs = both[:, 0], both[:, 1]
        diagonal = diagonal if same_place(both, self.home) else sent_to(diagonal, self.home)
        return diagonal, float(at_hand(namespace(logs).max(logs)))

    @property
    def roundings(self) -> float:
        """How many an entry can have."""
        # Inner products of r_j numbers have growth(r_j) each, the law adds two per party, and a power repeats them.
        return self.law.powers * sum(growth(width) + 2 for width in self.widths)

    def evaluation_error(self) -> float:
        return self.roundings * unit(self.reference) * self.trace()  # |K| <= trace K

    def against(self, columns: Array) -> Made:
        # Rows of the merged factors times the landmarks' rows, party by party, and then the law: n x m, in strips.
        law, parts, table = self.law, self.parts, self.table
        right = [transposed(A) for A in self.rows(columns)]
        found = [self._repeated(A, columns.shape[0]) for A in parts]
        if not any(found):
            return table.then(lambda start, merged: law.crossed(merged, right), columns.shape[0])

        def looked_up(start: int, *stored: Array) -> Array:
            rows = slice(start, start + stored[0].shape[0])
            left = (
                rows_of(A, rows) if own is None else own.numbers[rows] for A, own in zip(parts, found, strict=True)
            )
            return law.crossed(list(left), right)

        both = zip(parts, found, right, strict=True)
        with one_blas_thread():  # products with distinct rows are made once
            right = [B if own is None else rows_of(A, own.first) @ B for A, own, B in both]
        return replace(table, make=looked_up, width=columns.shape[0])

    def _repeated(self, A: Factor, columns: int) -> Distinct | None:
        """Rows of a party's factor that differ, if products of these with so many columns are to be looked up."""
        if not self.law.multiplies or not isinstance(A, Tall) or A.place is not None:
            return None
        room = TABLE_BYTES if self.memory is None else min(TABLE_BYTES, self.memory.most // TABLE_SHARE)
        found, of_a_row = A.sent.distinct, columns * self.reference.dtype.itemsize
        return found if found is not None and len(found.first) * of_a_row <= room else None

    def within(self) -> Within:
        law, make = self.law, self.table.make

        def of(start: int, stored: Sequence[Array], parts: Sequence[slice]) -> Array:
            # Small blocks on the diagonal, all in one batched product: A_j A_j' of each slice, then the law.
            xp = namespace(stored[0])
            stacks = (xp.stack([A[rows, :] for rows in parts]) for A in make(start, *stored))
            return law.recombine(A @ xp.matrix_transpose(A) for A in stacks)

        return of

    def among(self, positions: Array) -> "FusedGram":
        return FusedGram(self.law, [rows_of(A, positions) for A in self.parts])

    def dense(self) -> Array:
        xp, factors = namespace(self.reference), self.factors  # decoded once, and not for every tile
        K = xp.empty((self.n, self.n), dtype=self.reference.dtype, device=device(factors[0]))
        # Tile by tile, each entry once: the parties' own products stay in the cache.
        tiles = list(slices(self.n, max(1, int((tile_bytes(K) / (4 * K.dtype.itemsize)) ** 0.5))))
        for i, rows in enumerate(tiles):
            for columns in tiles[i:]:
                tile = self.block(rows, columns)
                K[columns, rows], K[rows, columns] = tile.T, tile
        return K

    def block(self, rows: Index, columns: Index) -> Array:
        # Eq. (4) or (2) of the paper for some entries: the law over A_j[rows] A_j[columns]'.
        return self.law.recombine(A @ B.T for A, B in zip(self.rows(rows), self.rows(columns), strict=True))

    @property
    def factor(self) -> Array | None:
        # (A A') o (B B') = C C', where the columns of C are all products of a column of A and one of B: for few
        # columns that is a thin factor of the fused matrix, and a product with it needs no tiles.
        width = math.prod(self.widths)
        few = len(self.widths) == 1 or (self.law.multiplies and width <= MOST_PRODUCTS)
        if self.law.powers > 1 or not few or width >= self.n:
            return None
        first, *others = self.factors
        xp = namespace(first)
        return reduce(lambda C, A: xp.reshape(C[:, :, None] * A[:, None, :], (self.n, -1)), others, first)

    def __matmul__(self, block: Array) -> Array:
        factor, _ = self.factor, self.factors  # decoded once, and not for every tile
        if factor is not None:
            return times(factor, cross(factor, block))
        fast = hadamard_on_gpu.product(self.factors, block) if self.law.multiplies else None
        return super().__matmul__(block) if fast is None else fast


def _weighed(K: Array, left: Array, right: Array) -> Array:
    """Entries times a number for their row and one for their column, written over them."""
    K *= left[:, None]
    K *= right[None, :]
    return K
