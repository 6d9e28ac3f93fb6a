"""Kernels made of inner products, which add up over parties: linear, polynomial, cosine."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel, checked_width
from dkpca.kernels.laws import COSINE, SUM, Law, Power
from dkpca.linalg.arrays import Array, dtype_name, growth, namespace, or_one, quiet, to_numpy, unit
from dkpca.linalg.rows import column_means

SLIGHT = 0.1  # coef0 as a share of a sample's gamma |x|^2 + coef0: with less, an even power is mostly that of squares
PRODUCTS = "inner products of any two samples over this party's columns, and the length of each sample"


class OfInnerProducts(Kernel):
    """Inner products of features of the samples: of their columns, unless a kernel says otherwise."""

    def explicit_features(self, X: Array) -> Array:
        return X

    def __call__(self, X: Array, Y: Array) -> Array:
        return self.explicit_features(X) @ self.explicit_features(Y).T

    def diagonal(self, X: Array) -> Array:
        F = self.explicit_features(X)
        return namespace(F).sum(F * F, axis=1)


@dataclass(frozen=True)
class Linear(OfInnerProducts):
    """Inner products add over parties, so kernel matrices add: eq. (2) of the paper.

    Parameters
    ----------
    centered : bool
        Measure each column from its mean. The centered global Gram matrix is the sum of the parties'
        centered ones, so a party spends none of its rank on the mean. The paper's experiments do not center.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.Linear()(np.eye(2), np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """

    centered: bool = True
    name: ClassVar[str] = "linear"
    takes_sparse: ClassVar[bool] = True
    law = SUM

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "Linear":
        return cls(centered=centered)

    def __post_init__(self) -> None:
        if not isinstance(self.centered, bool):
            raise InputError(f"centered is {self.centered!r}; the linear kernel needs True or False")

    def origin(self, X: Array) -> Array:
        xp = namespace(X)
        with quiet():
            mean = column_means(X)
        # H (sum_j X_j X_j') H = sum_j (X_j - m_j)(X_j - m_j)': centering the columns at each party centers eq. (2).
        return mean if self.centered else xp.zeros_like(mean)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        xp, error = namespace(X), super().relative_error(X, origin)
        size = float(xp.max(xp.abs(X))) if self.centered and origin is not None else 0.0
        if size == 0.0:
            return error
        # What is left of the mean in the columns, m, enters x'y as m'x + m'y + m'm; over the trace that is
        # 2 s + s^2 for s = sqrt(n) |m| / |X|, by Cauchy and Schwarz. The mean of the columns is itself rounded.
        left = xp.abs(xp.mean(X, axis=0)) + 2.0 * growth(X.shape[0]) * unit(X) * xp.mean(xp.abs(X), axis=0)
        left, X = left / size, X / size  # squares of very small numbers would vanish
        share = math.sqrt(float(X.shape[0] * xp.sum(left * left) / xp.sum(X * X)))
        return error + (2.0 * share + share * share)

    def slopes(self, times: Callable[[Array], Array], X: Array, V: Array) -> Array:
        return 2.0 * (X.T @ V) ** 2

    def revealed(self, rank: int, n_features: int) -> str:
        what = "all columns" if rank >= n_features else f"the {rank} leading directions of the {n_features} columns"
        return f"{what} up to a rotation: anyone who knows the values of a few samples can recover the others"


@dataclass(frozen=True)
class Polynomial(OfInnerProducts):
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
    reveals: ClassVar[str] = f"{PRODUCTS}: once the rank reaches the number of columns, all of them up to a rotation"

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

    def forgets(self, value: float) -> str:
        slight = self.coef0 <= SLIGHT * value ** (1.0 / self.degree)
        return "signs" * (self.own and slight and self.degree % 2 == 0)

    def check(self, X: Array) -> None:
        if not self.own:
            return
        xp = namespace(X)
        with quiet():
            largest = self.gamma * float(xp.max(xp.sum(X * X, axis=1))) + self.coef0
        # (gamma |x|^2 + coef0)^degree of the longest row: if even that is subnormal, all of the matrix is lost.
        least = math.log(float(xp.finfo(X.dtype).smallest_normal))
        if largest > 0.0 and self.degree * math.log(largest) < least:
            raise InputError(f"powers of its inner products vanish in {dtype_name(X)}; scale the columns up")

    def __call__(self, X: Array, Y: Array) -> Array:
        return self.finish(X @ Y.T) if self.own else X @ Y.T

    def partial(self, X: Array, Y: Array) -> Array:
        return super().partial(X, Y) if self.own else X @ Y.T

    def finish(self, total: Array) -> Array:
        return (total * self.gamma + self.coef0) ** self.degree

    def diagonal(self, X: Array) -> Array:
        squares = namespace(X).sum(X * X, axis=1)
        return self.finish(squares) if self.own else squares

    def scale_by_column(self, X: Array) -> Array:
        """Mean square of each column: gamma="scale" is 1 / mean squared norm of the joined table's rows."""
        return namespace(X).mean(X * X, axis=0)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        # By Cauchy and Schwarz gamma |x| |y| + coef0 <= sqrt of the two diagonals, so the power multiplies the error.
        return super().relative_error(X, origin) * (2 * self.degree if self.own else 1)

    def error_of_rows(self, X: Array, share: float) -> float:
        return super().error_of_rows(X, share) * (2 * self.degree if self.own else 1)

    def undone(self, K: Array, floor: float) -> Array:
        if not self.own:
            return K
        xp = namespace(K)
        # The d-th root of a value gives gamma x'y + coef0 back, and inner products give distances.
        root = xp.sign(K) * xp.abs(K) ** (1.0 / self.degree)  # an even power hides a sign that coef0 makes rare
        return (root - self.coef0) / self.gamma

    def explicit_features(self, X: Array) -> Array | None:
        return None if self.own else X


@dataclass(frozen=True)
class CosineKernel(OfInnerProducts):
    """Inner products and squared lengths add over parties; the center divides one by the other.

    Parameters
    ----------
    own : bool
        False: the kernel of the joined table, for which a party sends inner products and squared lengths. True: the
        cosine kernel of the party's own columns.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.CosineKernel(own=True)(np.array([[2.0, 0.0]]), np.array([[5.0, 0.0]]))
    array([[1.]])
    """

    own: bool = False
    name: ClassVar[str] = "cosine"

    @property
    def law(self) -> Law | None:
        return None if self.own else COSINE

    def forgets(self, value: float) -> str:
        return "lengths" * self.own

    def explicit_features(self, X: Array) -> Array:
        if not self.own:
            return X
        # x / |x|, and zero for zero, as scikit-learn has it; to size one first, so that no square leaves the range.
        xp = namespace(X)
        X = X / or_one(xp.max(xp.abs(X), axis=1, keepdims=True))
        return X / or_one(xp.sqrt(xp.sum(X * X, axis=1, keepdims=True)))

    def diagonal(self, X: Array) -> Array:
        # A row whose squares vanish has a direction all the same. With the length 0 it would count as a row of zeros
        # and as free of error; the least length says that rounding has taken its direction.
        xp, squares = namespace(X), super().diagonal(X)
        least = xp.astype(xp.any(X != 0, axis=1), X.dtype) * float(xp.finfo(X.dtype).smallest_normal)
        return xp.maximum(squares, least)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        return super().relative_error(X, origin) * (3 if self.own else 1)  # the lengths are rounded too

    def error_of_rows(self, X: Array, share: float) -> float:
        if not self.own:
            return super().error_of_rows(X, share)
        # The direction of row i is off by s_i <= 4 share (1 + M / |x_i|), M the length of the largest entries: the
        # mean is rounded too, and a row that is next to the mean has no direction. |E_ij| <= s_i + s_j.
        xp = namespace(X)
        lengths = to_numpy(xp.sqrt(xp.sum(X * X, axis=1))).astype(float)
        reach = float(xp.sqrt(xp.sum(xp.max(xp.abs(X), axis=0) ** 2)))
        if not reach > 0.0:
            return 0.0
        off = np.full(len(lengths), 2.0)
        np.divide(4.0 * share * (lengths + reach), lengths, out=off, where=lengths > 0.0)
        spread = float(np.linalg.norm(np.minimum(off, 2.0)) * np.sqrt(len(lengths)))
        return 2.0 * spread / int(np.count_nonzero(lengths))

    def revealed(self, rank: int, n_features: int) -> str:
        if self.own:
            return "the angle between any two samples over this party's columns, to the accuracy of the factor"
        return PRODUCTS
