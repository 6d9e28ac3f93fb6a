"""Factors as they were received: decoded where they are looked at, a few rows at a time."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from dkpca.linalg import arrays
from dkpca.linalg.arrays import Array, device, dtype_name, namespace, sent_to, tall_empty, to_numpy
from dkpca.linalg.memory import let_go
from dkpca.linalg.on_dask import is_dask_array
from dkpca.linalg.precision import Rounded, check_reach, norms_by_squares, round_to
from dkpca.linalg.rounding import power_of_four
from dkpca.linalg.rows import (
    Index,
    Made,
    Part,
    added,
    away_from,
    for_each,
    groups,
    kept,
    moments,
    on_workers,
    over,
    pick,
)


@dataclass(frozen=True)
class Tall:
    """A matrix on the wire, and what its first columns are multiplied by."""

    sent: Rounded
    dtype: str  # to compute in
    scales: Array | None = None  # (columns,), or none are changed
    place: Array | None = None  # an array where rows are decoded and computed with, if not where they lie

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.sent.shape if self.scales is None else (self.sent.shape[0], int(self.scales.shape[0]))

    @property
    def made(self) -> Made:
        """How its rows are made, for the engine."""
        decode = partial(_decoded, self.sent.scale, self.dtype, self.scales)  # without the data: that is handed in
        return Made((self.sent.data,), lambda start, part: decode(part), self.shape[1], self.place)

    def rows(self, index: Index) -> Array:
        """Some rows, decoded."""
        part = pick(self.sent.data, index if isinstance(index, slice) else self._at_home(index))
        return _decoded(
            self.sent.scale, self.dtype, self.scales, part if self.place is None else sent_to(part, self.place), part
        )

    @cached_property
    def largest(self) -> float:
        """Largest magnitude; not a number if any entry is none."""
        return _largest_of(self)

    def _at_home(self, positions: Array) -> Array:
        return positions if self.place is None else sent_to(positions, self.sent.data)


def _decoded(
    scale: Array | None, dtype: str, scales: Array | None, received: Array, stored: Array | None = None
) -> Array:
    decoded = Rounded(received, scale).decode(dtype)
    let_go(received if stored is None else stored)
    return decoded if scales is None else decoded[:, : scales.shape[0]] * scales[None, :]


Factor = Array | Tall  # a matrix at hand, or one that is decoded where it is looked at


def rows_of(A: Factor, index: Index) -> Array:
    """Some rows; a view of a matrix at hand for a slice."""
    return A.rows(index) if isinstance(A, Tall) else pick(A, index)


def whole(A: Factor) -> Array:
    """All rows; not computed yet, if they lie on workers of a cluster."""
    if isinstance(A, Tall) and is_dask_array(A.sent.data):
        return kept(A, reference_of(A))
    return A.rows(slice(None)) if isinstance(A, Tall) else A


def reference_of(A: Factor) -> Array:
    """Some array of the namespace, precision and device in which it is computed with."""
    if isinstance(A, Tall):
        return A.rows(slice(0, 1))
    return np.zeros((1, *A.shape[1:]), A.dtype) if is_dask_array(A) else A


def scaled(A: Factor, scales: Array) -> Factor:
    """First columns, each multiplied by a number."""
    width = scales.shape[0]
    if not isinstance(A, Tall):
        return A[:, :width] * scales[None, :]
    return replace(A, scales=scales if A.scales is None else A.scales[:width] * scales)


def as_received(sent: Rounded, dtype: str) -> Factor:
    """A factor for computing: as it is, if that is how it came, and else decoded where it is looked at."""
    return sent.data if sent.precision == dtype else Tall(sent, dtype)


def placed(A: Factor, place: Array) -> Tall:
    """A matrix that stays where it lies, and of which rows travel to where another array lives."""
    tall = A if isinstance(A, Tall) else Tall(Rounded(A), dtype_name(A))
    scale, scales = (None if x is None else sent_to(x, place) for x in (tall.sent.scale, tall.scales))
    return Tall(Rounded(tall.sent.data, scale), tall.dtype, scales, place)


def where_computed(A: Factor) -> Factor:
    """The same matrix, its rows on the device where this is computed; see `computing_on`."""
    place = away_from(reference_of(A))
    return A if place is None else placed(A, place)


def as_sent(A: Factor) -> Factor:
    """For estimates: a factor that came in float32 is computed with in float32, at twice the speed."""
    if not isinstance(A, Tall) or A.sent.precision != "float32":
        return A
    scales = None if A.scales is None else namespace(A.sent.data).astype(A.scales, A.sent.data.dtype)
    return Tall(A.sent, "float32", scales)


def reweighed(A: Factor, root: float) -> Factor:
    """All columns multiplied by one number."""
    reference = reference_of(A)
    return scaled(A, namespace(reference).full_like(reference[0, :], root))


def square(A: Factor) -> Array:
    """A'A."""
    there = where_computed(A)
    return moments(there, reference_of(there)[0, :], centered=False).square


def largest(A: Factor) -> float:
    """Largest magnitude; not a number if any entry is none."""
    return A.largest if isinstance(A, Tall) else _largest_of(A)


def _largest_of(A: Factor) -> float:
    def of(first: int, part: Part) -> tuple[float, float]:
        own = part[:]
        return float(namespace(own).max(own)), -float(namespace(own).min(own))

    found = [size for part in over(of, A) for size in part]
    return math.nan if any(map(math.isnan, found)) else max(found)


def rounded(A: Factor, precision: str) -> Rounded:
    """Round a factor to the wire precision, as `round_to` does, a group of rows at a time where that is possible."""
    if precision not in ("float64", "float32"):
        return round_to(whole(A), precision)
    reference = reference_of(A)
    xp = namespace(reference)
    check_reach(largest(A), precision, reference)
    if on_workers(A):
        return Rounded(whole(A).astype(precision))
    data = tall_empty(A.shape, xp.astype(reference, getattr(xp, precision)))

    def of(rows: slice) -> None:
        data[rows, :] = xp.astype(rows_of(A, rows), data.dtype)

    for_each(of, groups(A.shape[0]), reference)
    return Rounded(data)


def rounding_norms(A: Factor, sent: Rounded) -> tuple[float, float]:
    """Spectral and nuclear norm of B B' - A A' for the B that was sent; A has orthogonal columns."""
    dtype, (n, rank), reach = dtype_name(reference_of(A)), sent.shape, largest(A)
    if sent.precision == dtype:
        return 0.0, 0.0
    size = power_of_four(reach) if reach > 0 else 1.0  # ordinary, so that squares of what was rounded do not vanish
    exact, decoded = where_computed(A), where_computed(Tall(sent, dtype))
    reference = reference_of(exact)
    xp = namespace(reference)

    (before_stored, before_of), (after_stored, after_of) = _parts(exact), _parts(decoded)

    def both(start: int, before: Array, after: Array) -> Array:
        before, after = before_of(start, before), after_of(start, after)
        return xp.concat([before, after - before], axis=1) / size

    place = decoded.place if isinstance(decoded, Tall) else None
    start = xp.zeros(2 * rank, dtype=reference.dtype, device=device(reference))
    found = moments(Made((before_stored, after_stored), both, 2 * rank, place), start, centered=False)
    spectral, nuclear = norms_by_squares(to_numpy(found.square).astype(float), n, reference)
    return spectral * size * size, nuclear * size * size


def _parts(A: Factor) -> tuple[Array, Callable[[int, Array], Array]]:
    """What a factor is stored as, and how its rows are made of that."""
    return (A.sent.data, A.made.make) if isinstance(A, Tall) else (A, lambda start, rows: rows)


def row_squares(A: Factor) -> Array:
    """Squared length of each row."""
    if on_workers(A):
        one = kept(made_of(A, lambda start, rows: arrays.row_squares(rows)[:, None], 1), reference_of(A))
        return one[:, 0]
    found = list(over(lambda first, part: arrays.row_squares(part[:]), A))
    return namespace(found[0]).concat(found)


def column_squares(A: Factor) -> Array:
    """Squared length of each column."""
    return added(lambda first, part: arrays.column_squares(part[:]), A)


def made_of(A: Factor, change: Callable[[int, Array], Array], width: int) -> Made:
    """Rows of so many columns, made of those of a factor."""
    stored, make = _parts(A)
    return Made((stored,), lambda start, rows: change(start, make(start, rows)), width)
