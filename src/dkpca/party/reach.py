"""Numbers that a precision cannot hold are refused where a party meets them, with its name and what to do."""

import math

from dkpca.errors import InputError
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array, dtype_name, namespace, tall_empty
from dkpca.linalg.lazy_factor import Factor, largest
from dkpca.linalg.on_dask import is_dask_array
from dkpca.linalg.precision import COMPACT, DIGITS, Rounded, round_by, round_to
from dkpca.linalg.rounding import quiet
from dkpca.linalg.rows import groups, in_order

LEAST = {"float32": 1e-30, COMPACT: 2.0**-900}  # a factor smaller than this has lost digits


def scale_statistic(kernel: Kernel, X: Array, party: str) -> float:
    """Mean of what gamma multiplies, over all pairs of different samples."""
    with quiet():
        scale = kernel.scale_statistic(X)
    smallest = float(namespace(X).finfo(X.dtype).smallest_normal)
    if not math.isfinite(scale) or (kernel.has_width and scale < smallest and bool(namespace(X).any(X[:1, :] != X))):
        raise InputError(
            f"party {party!r}: distances between its samples are beyond the range of {dtype_name(X)} "
            f"({scale:.1e}); scale the columns, or give gamma"
        )
    return scale


def moved(X: Array, origin: Array, party: str) -> Array:
    """Rows measured from a point, if the numbers allow it."""
    if is_dask_array(X):
        return X - origin[None, :]  # not computed yet: a chunk that overflows shows when the kernel is evaluated
    xp = namespace(X)
    moved = tall_empty(X.shape, X)

    def part_moved(rows: slice) -> Array:
        with quiet():
            moved[rows, :] = X[rows, :] - origin[None, :]
        return xp.astype(~xp.all(xp.isfinite(moved[rows, :]), axis=0), xp.int64)

    beyond = sum(in_order(part_moved, groups(X.shape[0]), X))
    if bool(xp.any(beyond > 0)):
        column = int(xp.argmax(xp.astype(beyond > 0, xp.int64)))
        raise InputError(
            f"party {party!r}: the numbers of its column {column + 1} are too large for their mean to be taken in "
            f"{dtype_name(X)}; scale the column down"
        )
    return moved


def check_not_vanished(trace: float, X: Array, party: str) -> None:
    """Refuse a kernel matrix that is zero only because its numbers are too small for the precision."""
    if trace == 0.0 and bool(namespace(X).any(X != 0)):
        raise InputError(f"party {party!r}: squares of its numbers vanish in {dtype_name(X)}; scale the columns up")


def rounded(
    A: Array, precision: str, party: str, *, steps: Array | None = None, digits: int = DIGITS[COMPACT]
) -> Rounded:
    """Matrix as the party sends it: by these steps, or else as fine as the precision has it."""
    try:
        return round_to(A, precision, digits=digits) if steps is None else round_by(A, steps, digits=digits)
    except InputError as error:
        raise InputError(f"party {party!r}: {error}") from error


def check_not_lost(factor: Factor, sent: Rounded, party: str) -> None:
    """Refuse a factor that the wire precision turns into nothing."""
    reach = largest(factor)
    if 0.0 < reach < LEAST.get(sent.precision, 0.0):
        raise InputError(
            f"party {party!r}: numbers of size {reach:.1e} are lost in {sent.precision}; "
            "scale the columns, or send float64"
        )
