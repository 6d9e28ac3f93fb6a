"""Squared distances that keep their digits, whatever the scale of the columns and the width of the kernel.

|x|^2 + |y|^2 - 2 x'y is one matrix product, but what x and y have in common is lost: the error is about
eps (|x| + |y|)^2. Where that would show in the kernel, the differences are taken column by column instead, whose
error is a few eps of the distance itself; this costs several times as much. Everything is computed in float64.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.spatial.distance import cdist

from dkpca.linalg.arrays import Array, at_most_in_place, device, namespace, row_squares
from dkpca.linalg.moments import column_means, groups
from dkpca.linalg.parallel import in_order, split_work
from dkpca.linalg.rounding import SUBTRACTIONS, growth, quiet, unit
from dkpca.linalg.strips import strips

LOSS = 1e-10  # largest error of an exponent for which the matrix product is good enough
UNDERFLOW = 1e-290  # squares below this have lost digits
ZERO_BEYOND = 750.0  # exp(-750) is below the smallest double
LARGEST_EXPONENT = 1000  # powers of two that leave room for squares to overflow, never for differences
HALF_EPS = 2.0**-53


def exponents(X: Array, Y: Array, gamma: float) -> Array:
    """Return -gamma |x - y|^2 for the rows of X against those of Y, in float64, none above zero; or for stacks."""
    xp = namespace(X, Y)
    X, Y = xp.astype(X, xp.float64, copy=False), xp.astype(Y, xp.float64, copy=False)
    with quiet():
        of_X, of_Y = (xp.sum(A * A, axis=-1, keepdims=True) for A in (X, Y))
        largest = float(xp.maximum(xp.max(of_X), xp.max(of_Y)))  # at once: a GPU is waited for
        if not _product_error(X.shape[-1], gamma * largest) <= LOSS or 0.0 < largest < UNDERFLOW:
            if X.ndim == 2:
                return _by_differences(X, Y, gamma)
            return xp.stack([_by_differences(X[i, ...], Y[i, ...], gamma) for i in range(X.shape[0])])
        # The squares as two more columns: one product instead of four passes over the result.
        left = [(2.0 * gamma) * X, -gamma * of_X, xp.ones_like(of_X)]
        right = [Y, xp.ones_like(of_Y), -gamma * of_Y]
        return at_most_in_place(xp.concat(left, axis=-1) @ xp.matrix_transpose(xp.concat(right, axis=-1)), 0.0)


def largest_square(X: Array, origin: Array | None = None) -> float:
    """Squared distance of the farthest row from the origin; infinite where it overflows."""
    xp = namespace(X)

    def of(group: slice) -> float:
        with quiet():
            part = X[group, :] if origin is None else X[group, :] - origin[None, :]
            part = xp.astype(part, xp.float64, copy=False)
            return float(xp.max(row_squares(part)))

    found = [*in_order(of, groups(X.shape[0]), X)]
    return math.nan if any(map(math.isnan, found)) else max(found)


def relative_error(X: Array, gamma: float, *, moved: bool, origin: Array | None = None) -> float:
    """Bound on the relative error of exp(exponents(X, X)) against the kernel of the rows as they were given.

    `moved` says whether a point was subtracted from the rows, each number being rounded once in its own precision; an
    origin is still to be subtracted.
    """
    width, square = X.shape[1], gamma * largest_square(X, origin)
    by_product = _product_error(width, square)
    error = by_product if by_product <= LOSS else max(LOSS, _difference_error(width))
    if moved:
        error += 2.0 * SUBTRACTIONS * unit(X) * square
    return math.expm1(min(error, 1.0)) + SUBTRACTIONS * unit(X)


def best_origin(X: Array, gamma: float) -> Array:
    """Point from which distances lose least: the mean, or zero where subtracting the mean would round too much."""
    xp = namespace(X)
    with quiet():
        mean = column_means(X)
        if not bool(xp.all(xp.isfinite(mean))):
            return xp.zeros_like(mean)
        errors = [relative_error(X, gamma, moved=True, origin=mean), relative_error(X, gamma, moved=False)]
    return mean if errors[0] < errors[1] else xp.zeros_like(mean)


def _product_error(width: int, square: float) -> float:
    """Error of the exponent by the matrix product; `square` is gamma times the largest |x|^2.

    Its terms add up to four times the square at most; those that are squares have been added up once before.
    """
    return 6.0 * growth(width) * HALF_EPS * square


def _difference_error(width: int) -> float:
    """Error of the exponent by differences, wherever the kernel is more than zero."""
    return ZERO_BEYOND * growth(width) * 2.0 * HALF_EPS


def _by_differences(X: Array, Y: Array, gamma: float) -> Array:
    """Column by column, strip by strip; a power of two takes the width of the kernel into the columns."""
    xp = namespace(X, Y)
    largest = max(float(xp.max(xp.abs(X))), float(xp.max(xp.abs(Y))))
    power = min(math.frexp(math.sqrt(gamma))[1], LARGEST_EXPONENT - math.frexp(largest)[1])
    mantissa, exponent = math.frexp(gamma)
    weight = math.ldexp(mantissa, min(exponent - 2 * power, LARGEST_EXPONENT))
    X, Y = X * 2.0**power, Y * 2.0**power
    out = xp.empty((X.shape[0], Y.shape[0]), dtype=X.dtype, device=device(X))

    def share(parts: Sequence[slice]) -> None:
        with quiet():
            for rows in parts:
                out[rows, :] = -weight * _sums_of_squares(X[rows, :], Y)

    split_work(share, strips(X.shape[0], Y.shape[0], X), X)
    return out


def _sums_of_squares(X: Array, Y: Array) -> Array:
    """Squared distances of the rows of X from those of Y."""
    if isinstance(X, np.ndarray):
        total: Array = cdist(X, Y, "sqeuclidean")  # the same sums, without a pass over memory for each column
        return total
    total = (X[:, 0][:, None] - Y[:, 0][None, :]) ** 2
    for column in range(1, X.shape[1]):
        difference = X[:, column][:, None] - Y[:, column][None, :]
        difference *= difference
        total += difference
    return total
