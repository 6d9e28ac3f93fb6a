"""The Gram matrices that need a kernel: a party's, and the fused one."""

from collections.abc import Sequence

from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import Array, namespace
from dkpca.linalg.gram import Gram, Index, pick, thinner
from dkpca.linalg.progress import Progress, silent
from dkpca.linalg.strips import cross, times


class KernelGram(Gram):
    """A party's Gram matrix: a kernel on its own columns."""

    def __init__(self, kernel: Kernel, X: Array) -> None:
        self.kernel, self.X = kernel, X
        self.n, self.reference = X.shape[0], X

    def diagonal(self) -> Array:
        return self.kernel.diagonal(self.X)

    def block(self, rows: Index, columns: Index) -> Array:
        return self.kernel(pick(self.X, rows), pick(self.X, columns))

    @property
    def factor(self) -> Array | None:
        return thinner(self.kernel.explicit_features(self.X))


class FusedGram(Gram):
    """The matrix the center works with: what the law makes of the parties' factors."""

    def __init__(self, law: Law, factors: Sequence[Array]) -> None:
        self.law, self.factors = law, law.merge(factors)
        self.n, self.reference = factors[0].shape[0], factors[0]

    def diagonal(self) -> Array:
        xp = namespace(self.reference)
        return self.law.recombine(xp.sum(A * A, axis=1) for A in self.factors)

    def block(self, rows: Index, columns: Index) -> Array:
        return self.law.recombine(pick(A, rows) @ pick(A, columns).T for A in self.factors)

    @property
    def factor(self) -> Array | None:
        return thinner(self.factors[0]) if len(self.factors) == 1 else None

    def product(self, block: Array, progress: Progress = silent) -> Array:
        factor = self.factor
        if factor is not None:
            return times(factor, cross(factor, block))
        fast = self.law.fused_product(self.factors, block)
        return super().product(block, progress) if fast is None else fast
