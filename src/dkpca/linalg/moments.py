"""Sums over the rows of a tall matrix that is never kept: made strip by strip, added up in an order that is fixed.

Rows are cut into groups by their number alone; threads take whole groups, and the sums of groups are added in their
order. So nothing here depends on how many threads there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from dkpca.linalg.arrays import Array, add_square, device, full_from_lower, namespace, sent_to
from dkpca.linalg.gram import Opened
from dkpca.linalg.parallel import in_order
from dkpca.linalg.rounding import growth, quiet
from dkpca.linalg.strips import slices, strips

GROUPS, LEAST_ROWS, MOST_ROWS = 16, 2**10, 2**15
SHORT = 500  # columns of a strip, where nobody says how many


SeenT = TypeVar("SeenT")
Done = Callable[[float], None]  # told which share of the rows is done


def nobody(share: float) -> None:
    """Tell nobody."""


@dataclass(frozen=True)
class Moments:
    """Sums over all rows, measured from a given row."""

    total: Array  # (m,)
    square: Array  # (m, m)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.total + other.total, self.square + other.square)

    def head(self, m: int) -> "Moments":
        """Sums of the first columns."""
        return Moments(self.total[:m], self.square[:m, :m])

    def from_zero(self, n: int, start: Array) -> Array:
        """Sum of squares of the n rows themselves, if these were measured from a start."""
        return self.square + self.total[:, None] * start + start[:, None] * (self.total + n * start)


def groups(n: int) -> list[slice]:
    """Cut n rows into groups of a size to work on."""
    return list(slices(n, min(max(-(-n // GROUPS), LEAST_ROWS), MOST_ROWS)))


def additions(n: int, width: int, reference: Array) -> float:
    """Most roundings that a term of a sum over n rows of this width meets: in its strip, its group, among groups."""
    parts = groups(n)
    within = strips(parts[0].stop, width, reference)
    return min(growth(n), growth(within[0].stop) + len(within) + len(parts))


def moments(opened: Opened, n: int, start: Array, *, centered: bool, progress: Done = nobody) -> Moments:
    """Return the sums of z - start and of their squares over the n rows z of a matrix; of z, if not centered."""
    xp, width = namespace(start), start.shape[0]

    def of(group: slice) -> Moments:
        rows_of = opened(group)
        total = xp.zeros_like(start)
        square = xp.zeros((width, width), dtype=start.dtype, device=device(start))
        for rows in strips(group.stop - group.start, width, start):
            Z = rows_of(rows)
            if centered:
                Z -= start[None, :]
                total += xp.sum(Z, axis=0)
            square = add_square(square, Z)
        return Moments(total, square)

    total = xp.zeros_like(start)
    square = xp.zeros((width, width), dtype=start.dtype, device=device(start))
    for group, part in zip(groups(n), in_order(of, groups(n), start), strict=True):
        total += part.total
        square += part.square
        progress(group.stop / n)
    return Moments(total, full_from_lower(square))


def write_products(
    opened: Opened,
    n: int,
    weights: Array,
    shift: Array,
    out: Callable[[slice, Array], None],
    *,
    looked_at: Callable[[slice], Callable[[slice, Array], SeenT]] | None = None,
    progress: Done = nobody,
) -> tuple[Array, list[SeenT]]:
    """Hand z W - shift for all rows z to `out`, group by group in order.

    Return the sum of their squares, and what was seen of each strip of z by whoever wants to look at it: given the
    group, and then which rows it is, and the strip to write over.
    """
    xp, width = namespace(weights), weights.shape[1]

    def of(group: slice) -> tuple[Array, Array, list[SeenT]]:
        rows_of = opened(group)
        made = xp.empty((group.stop - group.start, width), dtype=weights.dtype, device=device(weights))
        square = xp.zeros((width, width), dtype=weights.dtype, device=device(weights))
        look = None if looked_at is None else looked_at(group)
        seen: list[SeenT] = []
        for rows in strips(group.stop - group.start, weights.shape[0], weights):
            Z = rows_of(rows)
            made[rows, :] = Z @ weights
            made[rows, :] -= shift[None, :]
            square = add_square(square, made[rows, :])
            if look is not None:
                seen.append(look(slice(group.start + rows.start, group.start + rows.stop), Z))
        return made, square, seen

    total = xp.zeros((width, width), dtype=weights.dtype, device=device(weights))
    everything: list[SeenT] = []
    for group, (made, square, seen) in zip(groups(n), in_order(of, groups(n), weights), strict=True):
        out(group, made)
        total += square
        everything += seen
        progress(group.stop / n)
    return full_from_lower(total), everything


def column_means(X: Array) -> Array:
    """Mean of each column."""
    xp = namespace(X)
    return sum(in_order(lambda group: xp.sum(X[group, :], axis=0), groups(X.shape[0]), X)) / X.shape[0]


def column_variances(X: Array) -> Array:
    """Variance of each column, of samples: over one row less than there are."""
    xp, mean = namespace(X), column_means(X)

    def of(group: slice) -> Array:
        with quiet():
            off = X[group, :] - mean[None, :]
            return xp.sum(off * off, axis=0)

    return sum(in_order(of, groups(X.shape[0]), X)) / (X.shape[0] - 1)


def crossed(opened: Opened, n: int, block: Array, reference: Array | None = None) -> Array:
    """Z' B for the n rows of Z and of a thin B: some rows of a symmetric matrix times B, if Z are its columns.

    Products of a strip are made in the precision of Z, and added up in that of B. The reference is an array where Z
    lives; None: where B does.
    """
    reference = block if reference is None else reference
    xp = namespace(reference)

    def of(group: slice) -> Array:
        rows_of, own = opened(group), sent_to(block[group, :], reference)
        total = 0.0
        for rows in strips(group.stop - group.start, SHORT, reference):
            Z = rows_of(rows)
            total = total + xp.astype(Z.T @ xp.astype(own[rows, :], Z.dtype, copy=False), own.dtype)
        return total

    return sum(in_order(of, groups(n), reference))
