"""Columns in units of their own deviations."""

from dkpca.linalg.arrays import Array, namespace
from dkpca.linalg.on_dask import at_hand
from dkpca.linalg.rounding import SUBTRACTIONS, growth, unit


def column_scales(X: Array) -> tuple[Array, Array]:
    """Mean and deviation of each column; a column that does not vary keeps its unit.

    Both are those of the differences to the first row, which are exact where the numbers of a column are close to
    each other and far from zero: the deviation has all its digits there, too.
    """
    xp = namespace(X)
    away = X * 0.5 - X[:1, :] * 0.5  # halves do not overflow
    largest = xp.max(xp.abs(away), axis=0)
    size = xp.where(largest > 0, largest, xp.ones_like(largest))
    away /= size[None, :]  # so that neither sums nor squares leave the range
    center, deviation = xp.mean(away, axis=0), 2.0 * (xp.std(away, axis=0) * size)
    mean = 2.0 * (X[0, :] * 0.5 + center * size)
    noise = 10 * xp.finfo(X.dtype).eps * xp.abs(mean)
    return at_hand(mean), at_hand(xp.where(deviation > noise, deviation, xp.ones_like(deviation)))


def standardized(X: Array, shift: Array | None, scale: Array | None) -> Array:
    """Columns measured from a point in units of their scales; None: as they are."""
    return X if shift is None or scale is None else (X - shift[None, :]) / scale[None, :]


def standardizing_error(X: Array) -> float:
    """Share of itself by which a standardized number may be off: its deviation is a root of a sum over all rows."""
    return (growth(X.shape[0]) + SUBTRACTIONS) * unit(X)
