"""Factors as they were received: decoded where they are looked at, a few rows at a time."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dkpca.linalg.arrays import Array, namespace, tall_empty
from dkpca.linalg.gram import Index, pick
from dkpca.linalg.memory import let_go
from dkpca.linalg.moments import groups, moments
from dkpca.linalg.parallel import in_order, split_work
from dkpca.linalg.precision import Rounded, check_reach, norms_of_rounding, round_to


@dataclass(frozen=True)
class Tall:
    """A matrix on the wire, and what its first columns are multiplied by."""

    sent: Rounded
    dtype: str  # to compute in
    scales: Array | None = None  # (columns,), or none are changed

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.sent.shape if self.scales is None else (self.sent.shape[0], int(self.scales.shape[0]))

    def rows(self, index: Index) -> Array:
        """Some rows, decoded."""
        part = pick(self.sent.data, index)
        decoded = Rounded(part, self.sent.scale).decode(self.dtype)
        let_go(part)
        return decoded if self.scales is None else decoded[:, : self.scales.shape[0]] * self.scales[None, :]


Factor = Array | Tall  # a matrix at hand, or one that is decoded where it is looked at


def rows_of(A: Factor, index: Index) -> Array:
    """Some rows; a view of a matrix at hand for a slice."""
    return A.rows(index) if isinstance(A, Tall) else pick(A, index)


def whole(A: Factor) -> Array:
    """All rows."""
    return A.rows(slice(None)) if isinstance(A, Tall) else A


def reference_of(A: Factor) -> Array:
    """Some array of the namespace, precision and device in which it is computed with."""
    return A.rows(slice(0, 1)) if isinstance(A, Tall) else A


def scaled(A: Factor, scales: Array) -> Factor:
    """First columns, each multiplied by a number."""
    width = scales.shape[0]
    if not isinstance(A, Tall):
        return A[:, :width] * scales[None, :]
    return replace(A, scales=scales if A.scales is None else A.scales[:width] * scales)


def as_received(sent: Rounded, dtype: str) -> Factor:
    """A factor for computing: as it is, if that is how it came, and else decoded where it is looked at."""
    return sent.data if sent.precision == dtype else Tall(sent, dtype)


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

    def opened(group: slice) -> Callable[[slice], Array]:
        part = rows_of(A, group)
        return lambda rows: part[rows, :]

    start = reference_of(A)[0, :]
    return moments(opened, A.shape[0], start, centered=False).square


def largest(A: Factor) -> float:
    """Largest magnitude; not a number if any entry is none."""
    reference = reference_of(A)
    xp = namespace(reference)
    parts = in_order(lambda group: float(xp.max(xp.abs(rows_of(A, group)))), groups(A.shape[0]), reference)
    found = [*parts]
    return math.nan if any(map(math.isnan, found)) else max(found)


def rounded(A: Factor, precision: str) -> Rounded:
    """Round a factor to the wire precision, as `round_to` does, a group of rows at a time where that is possible."""
    if precision not in ("float64", "float32"):
        return round_to(whole(A), precision)
    reference = reference_of(A)
    xp = namespace(reference)
    check_reach(largest(A), precision, reference)
    data = tall_empty(A.shape, xp.astype(reference, getattr(xp, precision)))

    def share(parts: Sequence[slice]) -> None:
        for rows in parts:
            data[rows, :] = xp.astype(rows_of(A, rows), data.dtype)

    split_work(share, groups(A.shape[0]), reference)
    return Rounded(data)


def rounding_norms(A: Factor, sent: Rounded) -> tuple[float, float]:
    """Spectral and nuclear norm of B B' - A A' for the B that was sent; A has orthogonal columns."""
    return norms_of_rounding(lambda rows: rows_of(A, rows), largest(A), reference_of(A), sent)


def row_squares(A: Factor) -> Array:
    """Squared length of each row."""
    reference = reference_of(A)
    xp = namespace(reference)

    def of(group: slice) -> Array:
        part = rows_of(A, group)
        return xp.sum(part * part, axis=1)

    return xp.concat(list(in_order(of, groups(A.shape[0]), reference)))


def column_squares(A: Factor) -> Array:
    """Squared length of each column."""
    reference = reference_of(A)
    xp = namespace(reference)

    def of(group: slice) -> Array:
        part = rows_of(A, group)
        return xp.sum(part * part, axis=0)

    return sum(in_order(of, groups(A.shape[0]), reference))
