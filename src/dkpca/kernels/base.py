"""What every kernel says about itself. A new kernel is one class in a file of its own.

A kernel owns everything that depends on which kernel it is: evaluation, recombination over parties, how a party's
error enters the fused matrix, which settings it takes, and the words for all of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, Self

from dkpca.linalg.arrays import Array, namespace
from dkpca.linalg.rounding import growth, unit


class Kernel(ABC):
    """A kernel that splits over columns."""

    name: ClassVar[str]
    has_width: ClassVar[bool] = False  # whether gamma is a setting of it
    shares: ClassVar[str] = "to first order"  # how true the shares of parties in a component are, in words

    @classmethod
    @abstractmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> Self:
        """Make the kernel from what the parties of a fit agree on."""

    def __call__(self, X: Array, Y: Array) -> Array:
        """Kernel matrix of the rows of X against the rows of Y, over the columns given."""
        return self.finish(self.partial(X, Y))

    @abstractmethod
    def origin(self, X: Array) -> Array:
        """Point from which a party measures its columns; the centered kernel does not depend on it."""

    @abstractmethod
    def partial(self, X: Array, Y: Array) -> Array:
        """What adds up over parties before the kernel value is formed."""

    @abstractmethod
    def finish(self, total: Array) -> Array:
        """Kernel values from the added-up partial quantities."""

    @abstractmethod
    def diagonal(self, X: Array) -> Array:
        """Kernel value of each row with itself."""

    def relative_error(self, X: Array, origin: Array | None) -> float:
        """Bound on the error of a computed kernel value of two rows of X, as a share of sqrt(k(x, x) k(y, y)).

        `origin` was subtracted from the rows, if it is given, which rounded each number once. This is the bound for
        kernels made of one inner product; a kernel that amplifies its rounding says so.
        """
        return 2.0 * growth(X.shape[1]) * unit(X)

    @abstractmethod
    def recombine(self, parts: Iterable[Array]) -> Array:
        """Entries of the global Gram matrix from the same entries of the parties' matrices."""

    @abstractmethod
    def merge(self, factors: Sequence[Array]) -> list[Array]:
        """Fewest factors whose Gram matrices recombine to the same matrix."""

    def fused_product(self, factors: Sequence[Array], block: Array) -> Array | None:
        """Return the recombined matrix times a thin block, where there is a faster way than tile by tile."""
        return None

    @abstractmethod
    def explicit_features(self, X: Array) -> Array | None:
        """F with kernel(X, X) = F F', where a finite one is at hand."""

    @abstractmethod
    def amplification(self, diagonals: Sequence[Array]) -> list[float]:
        """Largest factor by which each party's error enters the fused matrix, in the order given."""

    @abstractmethod
    def total_trace(self, n_samples: int, party_traces: Sequence[float]) -> float:
        """Trace of the true global Gram matrix from the traces of the parties' true ones."""

    @abstractmethod
    def theorem_1_dimension(self, n_samples: int, n_components: int) -> int:
        """What stands under the square root in Theorem 1 of the paper."""

    def revealed(self, rank: int, n_features: int) -> str:
        """What a factor of this rank tells about the party's columns, in words."""
        return "about the columns, whatever this kernel's values between samples determine"

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters: what parties must agree on."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


def fresh_first(parts: Iterable[Array]) -> tuple[Array, Iterable[Array]]:
    """Return a copy of the first part, since parts belong to the caller, and the others."""
    rest = iter(parts)
    first = next(rest)
    return namespace(first).asarray(first, copy=True), rest
