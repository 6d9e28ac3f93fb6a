"""Kernels of a distance that adds up over columns, exp(-gamma d): they multiply over parties.

Squared distances keep their digits whatever the scale of the columns and the width of the kernel.
|x|^2 + |y|^2 - 2 x'y is one matrix product, but what x and y have in common is lost: the error is about
eps (|x| + |y|)^2. Where that would show in the kernel, the differences are taken column by column instead, whose
error is a few eps of the distance itself; this costs several times as much. Both are computed in float64.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from dkpca.kernels.base import Kernel, checked_width
from dkpca.kernels.laws import PRODUCT
from dkpca.linalg.arrays import SUBTRACTIONS, Array, device, growth, namespace, or_one, quiet, row_squares, unit
from dkpca.linalg.rows import RowGroup, at_hand, column_means, column_variances, for_each, over, strips

LOSS = 1e-10  # largest error of an exponent for which the matrix product is good enough
UNDERFLOW = 1e-290  # squares below this have lost digits
ZERO_BEYOND = 750.0  # exp(-750) is below the smallest double
LARGEST_EXPONENT = 1000  # power of two up to which columns are scaled: squares may overflow, differences never
HALF_EPS = 2.0**-53
FEW = 8  # roundings of one term, its product with gamma and the exponential
MOST_ROWS = 1000  # of which the chi-squared kernel takes its mean distance
READ = "between samples over this party's columns, by -log(similarity) / gamma, to the accuracy of the factor"


@dataclass(frozen=True)
class OfDistance(Kernel):
    """exp(-gamma * distance), where the distance is a sum over columns."""

    gamma: float
    has_width: ClassVar[bool] = True
    unit_diagonal: ClassVar[bool] = True
    by_inner_products: ClassVar[bool] = False
    law = PRODUCT

    def __post_init__(self) -> None:
        checked_width(self)

    def __call__(self, X: Array, Y: Array) -> Array:
        return exponential_of(self.partial(X, Y), self.gamma)

    def finish(self, total: Array) -> Array:
        return exponential_of(namespace(total).asarray(total, copy=True), self.gamma)

    def diagonal(self, X: Array) -> Array:
        return namespace(X).ones_like(X[:, 0])

    def relative_error(self, X: Array, origin: Array | None) -> float:
        # Each term has a relative error of a few roundings, so has their sum, and x exp(-x) is below 1.
        return (growth(X.shape[1]) + FEW) * unit(X)

    def error_of_rows(self, X: Array, share: float) -> float:
        # gamma sum |x - y| changes by at most gamma share (|x|_1 + |y|_1), and a little more: twice that.
        xp = namespace(X)
        with quiet():
            farthest = self.gamma * float(xp.max(xp.sum(xp.abs(X), axis=1)))
        return math.expm1(min(4.0 * share * farthest, 1.0))

    def undone(self, K: Array, floor: float) -> Array:
        xp = namespace(K)
        return -xp.log(xp.clip(K, floor, 1.0)) / self.gamma

    def squared_distances(self, K: Array, floor: float) -> Array:
        return self.undone(K, floor) * (1.0 - namespace(K).eye(K.shape[0], dtype=K.dtype))


@dataclass(frozen=True)
class RBF(OfDistance):
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

    name: ClassVar[str] = "rbf"
    by_inner_products: ClassVar[bool] = True
    reveals: ClassVar[str] = (
        f"squared distances {READ}: the columns up to rotation and shift, which anyone who knows a few rows can undo"
    )

    def origin(self, X: Array) -> Array:
        xp = namespace(X)
        with quiet():
            mean = column_means(X)
            if not bool(xp.all(xp.isfinite(mean))):
                return xp.zeros_like(mean)
            # |x - y| does not depend on the origin, its rounding does: small |x| are good for the matrix product, and
            # subtracting a mean rounds each number once. The smaller of the two bounds decides.
            return mean if self._error(X, moved=True, origin=mean) < self._error(X) else xp.zeros_like(mean)

    def __call__(self, X: Array, Y: Array) -> Array:
        """Kernel matrix in one array: this is where a party spends its time."""
        K = exponents(X, Y, self.gamma)
        with quiet():
            namespace(K).exp(K, out=K)
        return namespace(K).astype(K, X.dtype, copy=False)

    def blocks(self, X: Array, parts: Sequence[slice]) -> Array:
        tables = namespace(X).stack([X[rows, :] for rows in parts])
        return self(tables, tables)

    def slopes(self, times: Callable[[Array], Array], X: Array, V: Array) -> Array:
        # -4 gamma [sum_a x_a^2 v_a (K v)_a - (v o x)' K (v o x)], for all columns x at once.
        xp = namespace(X)
        first = (X**2).T @ (V * times(V))
        stretched = [V[:, d : d + 1] * X for d in range(V.shape[1])]
        second = xp.stack([xp.sum(each * times(each), axis=0) for each in stretched], axis=1)
        return -4.0 * self.gamma * (first - second)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        return self._error(X, moved=origin is not None and bool(namespace(origin).any(origin != 0)))

    def _error(self, X: Array, *, moved: bool = False, origin: Array | None = None) -> float:
        """The same for rows from which a point was subtracted (`moved`), and one that is still to be subtracted."""
        # First the error of the exponent, by whichever way `exponents` takes; then |e^(x + d) - e^x| <=
        # e^x (e^|d| - 1), and the roundings of the exponential itself.
        width, square = X.shape[1], self.gamma * largest_square(X, origin)
        by_product = _product_error(width, square)
        by_differences = ZERO_BEYOND * growth(width) * 2.0 * HALF_EPS  # wherever the kernel is more than zero
        error = by_product if by_product <= LOSS else max(LOSS, by_differences)
        error += 2.0 * SUBTRACTIONS * unit(X) * square if moved else 0.0  # each number was rounded once
        return math.expm1(min(error, 1.0)) + SUBTRACTIONS * unit(X)

    def error_of_rows(self, X: Array, share: float) -> float:
        # |x - y|^2 changes by at most 2 |x - y| share (|x| + |y|) <= 8 share max |x|^2, and a little more: here 16.
        return math.expm1(min(2.0 * SUBTRACTIONS * share * self.gamma * largest_square(X), 1.0))

    def partial(self, X: Array, Y: Array) -> Array:
        xp = namespace(X, Y)
        with quiet():
            return xp.astype(exponents(X, Y, self.gamma) / -self.gamma, X.dtype, copy=False)

    def scale_by_column(self, X: Array) -> Array:
        # Mean of (x - y)^2 over pairs of different samples is twice the variance with n - 1 below it.
        return 2.0 * column_variances(X) if X.shape[0] > 1 else namespace(X).zeros_like(X[0, :])


@dataclass(frozen=True)
class Laplacian(OfDistance):
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

    name: ClassVar[str] = "laplacian"
    by_whole_columns: ClassVar[bool] = True
    reveals: ClassVar[str] = f"sums of absolute differences {READ}"

    def partial(self, X: Array, Y: Array) -> Array:
        xp = namespace(X, Y)
        return summed_over_columns(lambda x, y: xp.abs(x - y), X, Y)

    def scale_by_column(self, X: Array) -> Array:
        xp = namespace(X)
        n = X.shape[0]
        # In sorted order the value of rank i is the larger one of i pairs and the smaller one of n - 1 - i, so that
        # sum over pairs |x - y| = sum_i (2 i - (n - 1)) x_(i).
        place = xp.astype(xp.arange(n, device=X.device), X.dtype)
        weights = (2 * place - (n - 1))[:, None]
        return xp.sum(xp.sort(X, axis=0) * weights, axis=0) * (2.0 / max(n * (n - 1), 1))


@dataclass(frozen=True)
class Overlap(OfDistance):
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

    name: ClassVar[str] = "overlap"
    by_whole_columns: ClassVar[bool] = True
    columns_are: ClassVar[str] = "categories"
    reveals: ClassVar[str] = "in how many of this party's columns any two samples differ, to the factor's accuracy"

    def partial(self, X: Array, Y: Array) -> Array:
        xp = namespace(X, Y)
        return summed_over_columns(lambda x, y: xp.astype(x != y, X.dtype), X, Y)

    def scale_by_column(self, X: Array) -> Array:
        # Pairs that differ: all n^2 less those within one category, sum of c^2.
        xp, n = namespace(X), X.shape[0]
        counts = [xp.astype(xp.unique_counts(X[:, k])[1], xp.float64) for k in range(X.shape[1])]
        return xp.stack([n * n - xp.sum(each * each) for each in counts]) / max(n * (n - 1), 1)


@dataclass(frozen=True)
class ChiSquared(OfDistance):
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
    default_gamma: ClassVar[float | None] = 1.0
    of_counts: ClassVar[bool] = True

    def partial(self, X: Array, Y: Array) -> Array:
        xp = namespace(X, Y)  # zero where both are
        return summed_over_columns(lambda x, y: xp.where(x + y > 0, (x - y) / or_one(x + y), 0.0) * (x - y), X, Y)

    def scale_by_column(self, X: Array) -> Array:
        # No closed form: the mean over all pairs of at most MOST_ROWS evenly spaced rows, column by column.
        n = min(X.shape[0], MOST_ROWS)
        step = max(1, X.shape[0] // n)
        rows = at_hand(X[: n * step : step, :])
        columns, xp = [rows[:, k : k + 1] for k in range(X.shape[1])], namespace(rows)
        return xp.stack([xp.sum(self.partial(x, x)) for x in columns]) / max(n * (n - 1), 1)


def exponential_of(distances: Array, gamma: float) -> Array:
    """exp(-gamma * distances) in place, also where gamma is beyond the range of the precision."""
    # Such a gamma is multiplied in by several steps, none of which overflows unless the exponent does: exp is 0 then.
    most = float(namespace(distances).finfo(distances.dtype).max) ** 0.5
    with quiet():
        while gamma > most:
            distances *= most
            gamma /= most
        distances *= -gamma
        return namespace(distances).exp(distances, out=distances)


def summed_over_columns(term: Callable[[Array, Array], Array], X: Array, Y: Array) -> Array:
    """Matrix of sums over k of term(X[i, k], Y[j, k])."""
    xp = namespace(X, Y)
    # One pass over the n x m result for each column: no array of n x m x columns is ever made.
    total = xp.zeros((X.shape[0], Y.shape[0]), dtype=X.dtype, device=X.device)
    for k in range(X.shape[1]):
        total += term(X[:, k][:, None], Y[:, k][None, :])
    return total


def exponents(X: Array, Y: Array, gamma: float) -> Array:
    """Return -gamma |x - y|^2 for the rows of X against those of Y, in float64, none above zero; or for stacks."""
    xp = namespace(X, Y)
    X, Y = xp.astype(X, xp.float64, copy=False), xp.astype(Y, xp.float64, copy=False)
    with quiet():
        # |x|^2 + |y|^2 - 2 x'y, unless its error shows in the exponent or the squares underflow (module docstring).
        of_X, of_Y = (xp.sum(A * A, axis=-1, keepdims=True) for A in (X, Y))
        largest = float(xp.maximum(xp.max(of_X), xp.max(of_Y)))  # at once: a GPU is waited for
        if not _product_error(X.shape[-1], gamma * largest) <= LOSS or 0.0 < largest < UNDERFLOW:
            if X.ndim == 2:
                return _by_differences(X, Y, gamma)
            return xp.stack([_by_differences(X[i, ...], Y[i, ...], gamma) for i in range(X.shape[0])])
        # The squares as two more columns: one product instead of four passes over the result.
        left = [(2.0 * gamma) * X, -gamma * of_X, xp.ones_like(of_X)]
        right = [Y, xp.ones_like(of_Y), -gamma * of_Y]
        found = xp.concat(left, axis=-1) @ xp.matrix_transpose(xp.concat(right, axis=-1))
        return np.minimum(found, 0.0, out=found) if isinstance(found, np.ndarray) else found.clamp_(max=0.0)


def largest_square(X: Array, origin: Array | None = None) -> float:
    """Squared distance of the farthest row from the origin; infinite where it overflows."""
    xp = namespace(X)

    def of(first: int, part: RowGroup) -> float:
        with quiet():
            own = part[:] if origin is None else part[:] - origin[None, :]
            return float(xp.max(row_squares(xp.astype(own, xp.float64, copy=False))))

    return float(np.max([*over(of, X)]))


def _product_error(width: int, square: float) -> float:
    """Error of the exponent by the matrix product; `square` is gamma times the largest |x|^2."""
    # Its terms add up to four times the square at most; those that are squares have been added up once before.
    return 6.0 * growth(width) * HALF_EPS * square


def _by_differences(X: Array, Y: Array, gamma: float) -> Array:
    """Column by column, strip by strip; a power of two takes the width of the kernel into the columns."""
    xp = namespace(X, Y)
    # gamma = weight * 4^power: the columns times 2^power lose no digit, and neither their squares nor the product
    # with what is left of gamma over- or underflows where the exponent does not.
    largest = max(float(xp.max(xp.abs(X))), float(xp.max(xp.abs(Y))))
    power = min(math.frexp(math.sqrt(gamma))[1], LARGEST_EXPONENT - math.frexp(largest)[1])
    mantissa, exponent = math.frexp(gamma)
    weight = math.ldexp(mantissa, min(exponent - 2 * power, LARGEST_EXPONENT))
    X, Y = X * 2.0**power, Y * 2.0**power
    out = xp.empty((X.shape[0], Y.shape[0]), dtype=X.dtype, device=device(X))

    def of(rows: slice) -> None:
        with quiet():
            # SciPy makes the same sums without a pass over memory for each column.
            if isinstance(X, np.ndarray):
                out[rows, :] = -weight * cdist(X[rows], Y, "sqeuclidean")
            else:
                out[rows, :] = -weight * summed_over_columns(lambda x, y: (x - y) ** 2, X[rows, :], Y)

    for_each(of, strips(X.shape[0], Y.shape[0], X), X)
    return out
