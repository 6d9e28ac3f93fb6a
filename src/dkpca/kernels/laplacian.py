"""The Laplacian kernel: exp(-gamma * sum of absolute differences)."""

from dataclasses import dataclass
from typing import ClassVar

from dkpca.kernels.base import Kernel
from dkpca.kernels.columnwise import exponential_error, summed_over_columns
from dkpca.kernels.laws import PRODUCT, Law
from dkpca.kernels.widths import checked_width, exponential_of, exponents_of, required_width
from dkpca.linalg.arrays import Array, namespace


@dataclass(frozen=True)
class Laplacian(Kernel):
    """Absolute differences add over parties, so kernels multiply.

    Parameters
    ----------
    gamma : float
        exp(-gamma * L1 distance).

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.Laplacian(1.0)(np.array([[0.0, 0.0]]), np.array([[0.0, 0.0]]))
    array([[1.]])
    """

    gamma: float
    name: ClassVar[str] = "laplacian"
    has_width: ClassVar[bool] = True
    unit_diagonal: ClassVar[bool] = True

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "Laplacian":
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
        return summed_over_columns(lambda x, y: xp.abs(x - y), X, Y)

    def finish(self, total: Array) -> Array:
        return exponential_of(namespace(total).asarray(total, copy=True), self.gamma)

    def mean_distance(self, X: Array) -> float:
        xp = namespace(X)
        n = X.shape[0]
        place = xp.astype(xp.arange(n, device=X.device), X.dtype)
        weights = (2 * place - (n - 1))[:, None]  # how often a value of this rank is the larger less the smaller
        return float(xp.sum(xp.sort(X, axis=0) * weights)) * 2.0 / (n * (n - 1)) if n > 1 else 0.0

    def revealed(self, rank: int, n_features: int) -> str:
        return (
            "sums of absolute differences between samples over this party's columns, by -log(similarity) / gamma, to "
            "the accuracy of the factor"
        )
