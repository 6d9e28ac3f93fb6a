"""The Gram matrices that need a kernel: a party's, and the fused one."""

import math
from collections.abc import Sequence
from copy import copy

from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import Array, device, dtype_name, itemsize, namespace, set_diagonal
from dkpca.linalg.gram import Gram, Index, pick, thinner
from dkpca.linalg.progress import Progress, silent
from dkpca.linalg.rounding import growth, quiet, unit
from dkpca.linalg.strips import cross, slices, times

STRIP_BYTES = 2**23  # of the matrix made at a time, beside the matrix itself
FUNCTION = 40.0  # operations of an exponential, or what else a kernel makes of an inner product
MOST_PRODUCTS = 64  # columns of a thin factor of the fused matrix: more are not worth writing down


class KernelGram(Gram):
    """A party's Gram matrix: a kernel on its own columns."""

    def __init__(self, kernel: Kernel, X: Array, origin: Array | None = None) -> None:
        self.kernel, self.X, self.origin = kernel, X, origin  # X is measured from the origin already
        self.n, self.reference, self.entry_operations = X.shape[0], X, 2.0 * X.shape[1] + FUNCTION

    def diagonal(self) -> Array:
        return self.kernel.diagonal(self.X)

    def block(self, rows: Index, columns: Index) -> Array:
        K = self.kernel.block(self.X, rows, columns)
        return set_diagonal(K, pick(self.diagonal(), rows)) if _same(rows, columns) else K

    def evaluation_error(self) -> float:
        return self.kernel.relative_error(self.X, self.origin) * self.trace()

    @property
    def factor(self) -> Array | None:
        return thinner(self.kernel.explicit_features(self.X))


class FusedGram(Gram):
    """The matrix the center works with: what the law makes of the parties' factors."""

    def __init__(self, law: Law, factors: Sequence[Array], diagonals: Sequence[Array] | None = None) -> None:
        self.law, self.factors = law, law.merge(factors, diagonals)
        self.n, self.reference = factors[0].shape[0], factors[0]
        self.entry_operations = sum(2.0 * A.shape[1] for A in self.factors)
        self._trace: float | None = None
        self._is_rough = False

    def rough(self) -> Gram | None:
        xp = namespace(self.reference)
        if dtype_name(self.reference) != "float64" or not self.law.has_rough_product(self.factors):
            return None
        same = copy(self)
        same.factors, same._is_rough = [xp.astype(A, xp.float32) for A in self.factors], True
        same.reference = same.factors[0]
        return same

    def trace(self) -> float:
        self._trace = super().trace() if self._trace is None else self._trace
        return self._trace

    def diagonal(self) -> Array:
        xp = namespace(self.reference)
        return self.law.recombine(xp.sum(A * A, axis=1) for A in self.factors)

    def log_largest(self) -> float:
        xp = namespace(self.reference)
        with quiet():
            return float(xp.max(self.law.log_diagonal([xp.sum(A * A, axis=1) for A in self.factors])))

    def evaluation_error(self) -> float:
        roundings = self.law.powers * sum(growth(A.shape[1]) + 2 for A in self.factors)
        return roundings * unit(self.reference) * self.trace()

    def dense(self) -> Array:
        xp = namespace(self.reference)
        K = xp.empty((self.n, self.n), dtype=self.reference.dtype, device=device(self.reference))
        for rows in slices(self.n, max(1, STRIP_BYTES // (self.n * itemsize(K)))):
            K[rows, :] = self.block(rows, slice(None))
        return K

    def block(self, rows: Index, columns: Index) -> Array:
        return self.law.recombine(pick(A, rows) @ pick(A, columns).T for A in self.factors)

    @property
    def factor(self) -> Array | None:
        return thinner(column_products(self.factors)) if self.law.keeps_factors else None

    def product(self, block: Array, progress: Progress = silent) -> Array:
        factor = self.factor
        if factor is not None:
            return times(factor, cross(factor, block))
        fast = self.law.fused_product(self.factors, block, rough=self._is_rough)
        return super().product(block, progress) if fast is None else fast


def column_products(factors: Sequence[Array]) -> Array | None:
    """C with C C' = (A A') o (B B') o ...: all products of a column of each; None if they are too many."""
    if len(factors) > 1 and math.prod(A.shape[1] for A in factors) > MOST_PRODUCTS:
        return None
    joined = factors[0]
    for A in factors[1:]:
        joined = namespace(A).reshape(joined[:, :, None] * A[:, None, :], (A.shape[0], -1))
    return joined


def _same(rows: Index, columns: Index) -> bool:
    """Whether a block lies on the diagonal."""
    return rows is columns or (isinstance(rows, slice) and isinstance(columns, slice) and rows == columns)
