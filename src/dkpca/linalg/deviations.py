"""Columns in units of their own deviations."""

from dkpca.linalg.arrays import Array, namespace


def column_scales(X: Array) -> tuple[Array, Array]:
    """Mean and deviation of each column; a column that does not vary keeps its unit."""
    xp = namespace(X)
    largest = xp.max(xp.abs(X), axis=0)
    size = xp.where(largest > 0, largest, xp.ones_like(largest))
    of_size_one = X / size[None, :]  # so that neither sums nor squares leave the range
    mean, deviation = xp.mean(of_size_one, axis=0), xp.std(of_size_one, axis=0)
    noise = 10 * xp.finfo(X.dtype).eps * xp.abs(mean)
    return mean * size, xp.where(deviation > noise, deviation * size, xp.ones_like(deviation))


def standardized(X: Array, shift: Array | None, scale: Array | None) -> Array:
    """Columns measured from a point in units of their scales; None: as they are."""
    return X if shift is None or scale is None else (X - shift[None, :]) / scale[None, :]
