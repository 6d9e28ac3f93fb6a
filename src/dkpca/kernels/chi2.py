"""Kernels for histograms and counts: the chi-squared kernel, and its additive relative."""

from dataclasses import dataclass
from typing import ClassVar

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.columnwise import exponential_error, ratio, summed_over_columns
from dkpca.kernels.laws import PRODUCT, SUM, Law
from dkpca.kernels.widths import checked_width, exponential_of, exponents_of
from dkpca.linalg.arrays import Array, namespace

MOST_ROWS = 1000  # from which the mean distance is judged


@dataclass(frozen=True)
class ChiSquared(Kernel):
    """exp(-gamma * sum of (x - y)^2 / (x + y)): the exponents add over parties, so kernels multiply.

    Parameters
    ----------
    gamma : float
        1 in scikit-learn unless given.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.ChiSquared()(np.array([[2.0, 0.0]]), np.array([[2.0, 0.0]]))
    array([[1.]])
    """

    gamma: float = 1.0
    name: ClassVar[str] = "chi2"
    has_width: ClassVar[bool] = True
    default_gamma: ClassVar[float | None] = 1.0
    unit_diagonal: ClassVar[bool] = True

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "ChiSquared":
        return cls(1.0 if gamma is None else gamma)

    def __post_init__(self) -> None:
        checked_width(self)

    @property
    def law(self) -> Law:
        return PRODUCT

    def check(self, X: Array) -> None:
        _check_not_negative(self.name, X)

    def __call__(self, X: Array, Y: Array) -> Array:
        return exponential_of(self.partial(X, Y), self.gamma)

    def squared_distances(self, K: Array, floor: float) -> Array:
        return exponents_of(K, floor) / self.gamma

    def diagonal(self, X: Array) -> Array:
        return namespace(X).ones_like(X[:, 0])

    def relative_error(self, X: Array, origin: Array | None) -> float:
        return exponential_error(X)

    def partial(self, X: Array, Y: Array) -> Array:
        return summed_over_columns(lambda x, y: ratio(x - y, x + y) * (x - y), X, Y)

    def finish(self, total: Array) -> Array:
        return exponential_of(namespace(total).asarray(total, copy=True), self.gamma)

    def mean_distance(self, X: Array) -> float:
        n = min(X.shape[0], MOST_ROWS)
        step = max(1, X.shape[0] // n)
        rows = X[: n * step : step, :]
        return float(namespace(X).sum(self.partial(rows, rows))) / (n * (n - 1)) if n > 1 else 0.0


@dataclass(frozen=True)
class AdditiveChiSquared(Kernel):
    """Sum of 4 x y / (x + y): kernels add over parties.

    Centered, it is scikit-learn's `additive_chi2`, minus the sum of (x - y)^2 / (x + y), which is positive
    semidefinite only after centering: the two differ by numbers of each sample alone.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.AdditiveChiSquared()(np.array([[2.0, 0.0]]), np.array([[2.0, 4.0]]))
    array([[4.]])
    """

    name: ClassVar[str] = "additive_chi2"

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "AdditiveChiSquared":
        return cls()

    @property
    def law(self) -> Law:
        return SUM

    def check(self, X: Array) -> None:
        _check_not_negative(self.name, X)

    def __call__(self, X: Array, Y: Array) -> Array:
        return summed_over_columns(lambda x, y: 4.0 * x * ratio(y, x + y), X, Y)

    def diagonal(self, X: Array) -> Array:
        return 2.0 * namespace(X).sum(X, axis=1)

    def partial(self, X: Array, Y: Array) -> Array:
        return self(X, Y)

    def finish(self, total: Array) -> Array:
        return total


def _check_not_negative(name: str, X: Array) -> None:
    lowest = float(namespace(X).min(X))
    if lowest < 0:
        raise InputError(
            f"the {name} kernel is for counts and histograms, and there is a value {lowest:g} below 0; "
            "use columns as they are (standardize=False, --no-standardize)"
        )
