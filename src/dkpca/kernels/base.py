"""What every kernel says about itself. A new kernel is one class in a file of its own.

A kernel owns everything that depends on which kernel it is: evaluation, the law by which parties' matrices make the
one of the joined table, which settings it takes, and the words for all of it.
"""

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any, ClassVar, Self

from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import Array
from dkpca.linalg.rounding import growth, unit


class Kernel(ABC):
    """A kernel that splits over columns. One of your own is a frozen dataclass that derives from this class.

    Examples
    --------
    >>> import dkpca
    >>> isinstance(dkpca.kernels.RBF(0.5), dkpca.kernels.Kernel)
    True
    """

    name: ClassVar[str]
    has_width: ClassVar[bool] = False  # whether gamma is a setting of it
    law: ClassVar[Law]  # that makes the parties' matrices the kernel of the joined table

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
    def explicit_features(self, X: Array) -> Array | None:
        """F with kernel(X, X) = F F', where a finite one is at hand."""

    def revealed(self, rank: int, n_features: int) -> str:
        """What a factor of this rank tells about the party's columns, in words."""
        return "about the columns, whatever this kernel's values between samples determine"

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters: what parties must agree on."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]
