"""How the parties' Gram matrices combine into the one of the joined table: a product (RBF) or a sum (linear)."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import ClassVar

from dkpca.linalg import hadamard
from dkpca.linalg.arrays import Array, namespace


class Law(ABC):
    """What the center has to know to combine matrices, whichever kernels made them."""

    name: ClassVar[str]
    shares: ClassVar[str]  # how true the shares of parties in a component are, in words

    @abstractmethod
    def recombine(self, parts: Iterable[Array]) -> Array:
        """Entries of the global Gram matrix from the same entries of the parties' matrices."""

    @abstractmethod
    def merge(self, factors: Sequence[Array]) -> list[Array]:
        """Fewest factors whose Gram matrices recombine to the same matrix."""

    @abstractmethod
    def amplification(self, diagonals: Sequence[Array]) -> list[float]:
        """Largest factor by which each party's error enters the fused matrix, in the order given."""

    @abstractmethod
    def total_trace(self, n_samples: int, party_traces: Sequence[float]) -> float:
        """Trace of the true global Gram matrix from the traces of the parties' true ones."""

    @abstractmethod
    def theorem_1_dimension(self, n_samples: int, n_components: int) -> int:
        """What stands under the square root in Theorem 1 of the paper."""

    def fused_product(self, factors: Sequence[Array], block: Array) -> Array | None:
        """Return the recombined matrix times a thin block, where there is a faster way than tile by tile."""
        return None


class Product(Law):
    """Matrices multiply entry by entry: eq. (4) of the paper. The parties' matrices have ones on their diagonals."""

    name: ClassVar[str] = "product"
    shares: ClassVar[str] = "for a product of kernels, to first order"

    def recombine(self, parts: Iterable[Array]) -> Array:
        total, rest = _fresh_first(parts)
        for part in rest:
            total *= part
        return total

    def merge(self, factors: Sequence[Array]) -> list[Array]:
        return list(factors)

    def amplification(self, diagonals: Sequence[Array]) -> list[float]:
        # Telescoping the product puts the received matrices of the parties before, and the true ones (whose
        # diagonal is 1) of the parties behind, around each party's error; Schur: |A o E| <= max diag(A) |E|.
        xp = namespace(*diagonals)
        before = accumulate(diagonals[:-1], lambda a, b: a * b, initial=xp.ones_like(diagonals[0]))
        return [float(xp.max(product)) for product in before]

    def total_trace(self, n_samples: int, party_traces: Sequence[float]) -> float:
        return float(n_samples)

    def theorem_1_dimension(self, n_samples: int, n_components: int) -> int:
        return n_samples

    def fused_product(self, factors: Sequence[Array], block: Array) -> Array | None:
        return hadamard.product(factors, block) if hadamard.supported(factors, block) else None


class Sum(Law):
    """Matrices add: eq. (2) of the paper."""

    name: ClassVar[str] = "sum"
    shares: ClassVar[str] = "exact for a sum of kernels"

    def recombine(self, parts: Iterable[Array]) -> Array:
        total, rest = _fresh_first(parts)
        for part in rest:
            total += part
        return total

    def merge(self, factors: Sequence[Array]) -> list[Array]:
        return [namespace(*factors).concat(list(factors), axis=1)]

    def amplification(self, diagonals: Sequence[Array]) -> list[float]:
        return [1.0] * len(diagonals)

    def total_trace(self, n_samples: int, party_traces: Sequence[float]) -> float:
        return float(sum(party_traces))

    def theorem_1_dimension(self, n_samples: int, n_components: int) -> int:
        return n_samples - n_components


PRODUCT, SUM = Product(), Sum()


def _fresh_first(parts: Iterable[Array]) -> tuple[Array, Iterable[Array]]:
    """Return a copy of the first part, since parts belong to the caller, and the others."""
    rest = iter(parts)
    first = next(rest)
    return namespace(first).asarray(first, copy=True), rest
