"""The polynomial kernel: (gamma * <x, y> + coef0) ** degree."""

import math
from dataclasses import dataclass, replace
from typing import ClassVar

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import Law, Power
from dkpca.kernels.widths import checked_width, required_width
from dkpca.linalg.arrays import Array, dtype_name, namespace
from dkpca.linalg.rounding import quiet


@dataclass(frozen=True)
class Polynomial(Kernel):
    """Inner products add over parties; the center raises their sum to the power.

    Parameters
    ----------
    gamma : float
        Factor of the inner product.
    degree : int
        At least 1.
    coef0 : float
        Not negative, or the kernel is not positive semidefinite.
    own : bool
        False: the kernel of the joined table, for which a party sends inner products and their diagonal. True: the
        polynomial kernel of the party's own columns.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.Polynomial(1.0, degree=2, own=True)(np.array([[2.0]]), np.array([[1.0]]))
    array([[9.]])
    """

    gamma: float
    degree: int = 3
    coef0: float = 1.0
    own: bool = False
    name: ClassVar[str] = "poly"
    has_width: ClassVar[bool] = True

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "Polynomial":
        return cls(required_width(cls.name, gamma))

    def __post_init__(self) -> None:
        checked_width(self)
        if isinstance(self.degree, bool) or not isinstance(self.degree, int) or not 1 <= self.degree <= 20:
            raise InputError(f"degree is {self.degree!r}; the poly kernel needs a whole number from 1 to 20")
        if isinstance(self.coef0, bool) or not 0.0 <= self.coef0 < float("inf"):
            raise InputError(f"coef0 is {self.coef0!r}; below 0 the poly kernel is not positive semidefinite")
        object.__setattr__(self, "coef0", float(self.coef0))

    @property
    def law(self) -> Law | None:
        return None if self.own else Power(self.degree, self.gamma, self.coef0)

    def check(self, X: Array) -> None:
        if not self.own:
            return
        xp = namespace(X)
        with quiet():
            largest = self.gamma * float(xp.max(xp.sum(X * X, axis=1))) + self.coef0
        least = math.log(float(xp.finfo(X.dtype).smallest_normal))
        if largest > 0.0 and self.degree * math.log(largest) < least:
            raise InputError(f"powers of its inner products vanish in {dtype_name(X)}; scale the columns up")

    def __call__(self, X: Array, Y: Array) -> Array:
        return self.finish(X @ Y.T) if self.own else X @ Y.T

    def diagonal(self, X: Array) -> Array:
        squared = namespace(X).sum(X * X, axis=1)
        return self.finish(squared) if self.own else squared

    def relative_error(self, X: Array, origin: Array | None) -> float:
        # By Cauchy and Schwarz gamma |x| |y| + coef0 <= sqrt of the two diagonals, so the power multiplies the error.
        return super().relative_error(X, origin) * (2 * self.degree if self.own else 1)

    def squared_distances(self, K: Array, floor: float) -> Array:
        if not self.own:
            return super().squared_distances(K, floor)
        xp = namespace(K)
        root = xp.sign(K) * xp.abs(K) ** (1.0 / self.degree)  # an even power hides a sign that coef0 makes rare
        return super().squared_distances((root - self.coef0) / self.gamma, floor)

    def explicit_features(self, X: Array) -> Array | None:
        return None if self.own else X

    def partial(self, X: Array, Y: Array) -> Array:
        return super().partial(X, Y) if self.own else X @ Y.T

    def finish(self, total: Array) -> Array:
        return (total * self.gamma + self.coef0) ** self.degree

    def alone(self) -> "Polynomial":
        return replace(self, own=True)

    def revealed(self, rank: int, n_features: int) -> str:
        return (
            "inner products of any two samples over this party's columns, and the length of each sample: once the "
            "rank reaches the number of columns, all of them up to a rotation"
        )
