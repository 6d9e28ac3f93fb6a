"""A kernel for categories: how many columns differ, whatever the categories are called."""

from dataclasses import dataclass
from typing import ClassVar

from dkpca.kernels.base import Kernel
from dkpca.kernels.columnwise import exponential_error, summed_over_columns
from dkpca.kernels.laws import PRODUCT, Law
from dkpca.kernels.widths import checked_width, exponential_of, exponents_of, required_width
from dkpca.linalg.arrays import Array, namespace


@dataclass(frozen=True)
class Overlap(Kernel):
    """exp(-gamma * number of columns in which two samples differ): the counts add over parties, so kernels multiply.

    Columns hold categories as numbers; only whether two are equal counts, so none is expanded into zeros and ones.

    Parameters
    ----------
    gamma : float
        What one differing column costs.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> colors = np.array([[1.0, 3.0], [2.0, 3.0]])
    >>> dkpca.kernels.Overlap(np.log(2.0))(colors, colors)
    array([[1. , 0.5],
           [0.5, 1. ]])
    """

    gamma: float
    name: ClassVar[str] = "overlap"
    has_width: ClassVar[bool] = True
    unit_diagonal: ClassVar[bool] = True
    columns_are: ClassVar[str] = "categories"

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "Overlap":
        return cls(required_width(cls.name, gamma))

    def __post_init__(self) -> None:
        checked_width(self)

    @property
    def law(self) -> Law:
        return PRODUCT

    def __call__(self, X: Array, Y: Array) -> Array:
        return exponential_of(self.partial(X, Y), self.gamma)

    def squared_distances(self, K: Array, floor: float) -> Array:
        return exponents_of(K, floor) / self.gamma

    def diagonal(self, X: Array) -> Array:
        return namespace(X).ones_like(X[:, 0])

    def relative_error(self, X: Array, origin: Array | None) -> float:
        return exponential_error(X)

    def partial(self, X: Array, Y: Array) -> Array:
        xp = namespace(X, Y)
        return summed_over_columns(lambda x, y: xp.astype(x != y, X.dtype), X, Y)

    def finish(self, total: Array) -> Array:
        return exponential_of(namespace(total).asarray(total, copy=True), self.gamma)

    def mean_distance(self, X: Array) -> float:
        xp = namespace(X)
        n = X.shape[0]
        total = 0.0
        for k in range(X.shape[1]):
            counts = xp.astype(xp.unique_counts(X[:, k])[1], xp.float64)
            total += n * n - float(xp.sum(counts * counts))
        return total / (n * (n - 1)) if n > 1 else 0.0

    def revealed(self, rank: int, n_features: int) -> str:
        return "in how many of this party's columns any two samples differ, to the accuracy of the factor"
