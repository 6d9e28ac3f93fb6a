"""The RBF (Gaussian) kernel, the paper's subject."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dkpca.kernels.base import Kernel
from dkpca.kernels.distances import best_origin, exponents, relative_error
from dkpca.kernels.laws import PRODUCT, Law
from dkpca.kernels.widths import checked_width, exponents_of, required_width
from dkpca.linalg.arrays import Array, exp_in_place, namespace
from dkpca.linalg.moments import column_variances
from dkpca.linalg.rounding import quiet


@dataclass(frozen=True)
class RBF(Kernel):
    """Squared distances add over parties, so kernels multiply: eq. (3) and (4) of the paper.

    Parameters
    ----------
    gamma : float
        exp(-gamma * squared distance); the paper's text has gamma = 1 / (2 sigma^2).

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.RBF(0.5)(np.zeros((1, 2)), np.ones((1, 2))).round(3)
    array([[0.368]])
    """

    gamma: float
    name: ClassVar[str] = "rbf"
    has_width: ClassVar[bool] = True
    unit_diagonal: ClassVar[bool] = True

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "RBF":
        return cls(required_width(cls.name, gamma))

    def __post_init__(self) -> None:
        checked_width(self)

    @property
    def law(self) -> Law:
        return PRODUCT

    def origin(self, X: Array) -> Array:
        return best_origin(X, self.gamma)

    def __call__(self, X: Array, Y: Array) -> Array:
        """Kernel matrix in one array: this is where a party spends its time."""
        with quiet():
            K = exp_in_place(exponents(X, Y, self.gamma))
        return namespace(K).astype(K, X.dtype, copy=False)

    def blocks(self, X: Array, parts: Sequence[slice]) -> Array:
        tables = namespace(X).stack([X[rows, :] for rows in parts])
        return self(tables, tables)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        moved = origin is not None and bool(namespace(origin).any(origin != 0))
        return relative_error(X, self.gamma, moved=moved)

    def partial(self, X: Array, Y: Array) -> Array:
        xp = namespace(X, Y)
        with quiet():
            return xp.astype(exponents(X, Y, self.gamma) / -self.gamma, X.dtype, copy=False)

    def finish(self, total: Array) -> Array:
        with quiet():
            return namespace(total).exp(total * -self.gamma)

    def squared_distances(self, K: Array, floor: float) -> Array:
        return exponents_of(K, floor) / self.gamma

    def diagonal(self, X: Array) -> Array:
        xp = namespace(X)
        return xp.ones_like(X[:, 0])

    def mean_distance(self, X: Array) -> float:
        return 2.0 * float(namespace(X).sum(column_variances(X))) if X.shape[0] > 1 else 0.0

    def revealed(self, rank: int, n_features: int) -> str:
        return (
            "squared distances between samples over this party's columns, by -log(similarity) / gamma, to the "
            "accuracy of the factor: the columns up to rotation and shift, which whoever knows a few rows can undo"
        )
