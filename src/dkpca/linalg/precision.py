"""Factors as they travel: rounded for the wire, and decoded where they are looked at, a few rows at a time."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg import arrays
from dkpca.linalg.arrays import Array, dtype_name, growth, let_go, like, namespace, or_one, sent_to, to_numpy, unit
from dkpca.linalg.rows import (
    Distinct,
    Index,
    Made,
    RowGroup,
    added,
    as_made,
    at_hand,
    away_from,
    cross,
    distinct_rows,
    kept,
    moments,
    over,
    pick,
    slices,
    together,
)

COMPACT = "compact"
PRECISIONS = {"float64": 8, "float32": 4, "float16": 2, COMPACT: 4}  # bytes a number; compact: before it is coded
FLOAT16_EXPONENT = 15  # the largest power of two that float16 holds
DIGITS = {"float64": 30, "float32": 24, "float16": 11, COMPACT: 30}  # bits a number; those of an int32, or fewer
PLAIN_DIGITS = 18  # bits a number for a matrix that is no factor
EXPONENT = np.dtype("<i2")  # of a step; sent as bytes, so that older releases get as far as the version
EXPONENTS = 1000  # powers of two beyond it, or below its negative, are no steps of ours
LARGEST = 2.0**31  # size of a number before its scale, float16 or int32
CHECKED = 2**16  # rows of a matrix that are looked at together
CUT_PER_STEP = 1 / 3  # a column vanishes when its numbers are smaller than this share of its step


@dataclass(frozen=True)
class Rounded:
    """A matrix as it travels."""

    data: Array  # (rows, columns) in the wire precision; whole numbers, int32, if that is compact
    scale: Array | None = None  # (columns,) float64, with float16 and compact only: a power of two per column

    @property
    def precision(self) -> str:
        """Name of the wire precision."""
        name = dtype_name(self.data)
        return COMPACT if name == "int32" else name

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.data.shape  # type: ignore[no-any-return]

    @cached_property
    def distinct(self) -> Distinct | None:
        """Rows that differ, if those are few, and in host memory."""
        return distinct_rows(self.data) if isinstance(self.data, np.ndarray) else None

    def to_arrays(self) -> dict[str, Array]:
        """Return what travels, by the end of its name."""
        if self.scale is None:
            return {"": self.data}
        if self.precision == COMPACT:
            exponent = np.frexp(to_numpy(self.scale))[1] - 1
            return {"": self.data, ".exponent": exponent.astype(EXPONENT).view(np.uint8)}
        return {"": self.data, ".scale": self.scale}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "Rounded":
        """Rebuild what `to_arrays` gave, if it is a matrix of finite numbers in one of the wire precisions."""
        data, scale = arrays[""], None
        kind = COMPACT if data.dtype == np.int32 else data.dtype.name
        if (
            data.ndim != 2
            or 0 in data.shape
            or kind not in PRECISIONS
            or not (kind == COMPACT or all(np.isfinite(data[rows]).all() for rows in slices(len(data), CHECKED)))
        ):
            raise InputError(f"{name} is not a matrix of finite numbers (shape {data.shape})")
        let_go(data)
        own = {"float16": {".scale"}, COMPACT: {".exponent"}}.get(kind, set())
        if set(arrays) != {"", *own}:
            raise InputError(f"{name} does not have the arrays of its kind, {kind}")
        if kind == COMPACT:
            exponent = arrays[".exponent"]
            if exponent.dtype != np.uint8 or exponent.shape != (2 * data.shape[1],):
                raise InputError(f"the exponent of {name} does not have two bytes per column")
            powers = exponent.view(EXPONENT)
            if powers.min() < -EXPONENTS or powers.max() > EXPONENTS:  # the size of the least int16 is negative
                raise InputError(f"the exponent of {name} exceeds {EXPONENTS} in size")
            scale = np.ldexp(1.0, powers)
        elif kind == "float16":
            scale = arrays[".scale"]
            one_each = scale.dtype == np.float64 and scale.shape == data.shape[1:]
            if not (one_each and np.isfinite(scale).all() and (scale > 0).all()):
                raise InputError(f"the scale of {name} is not one positive float64 per column")
        if scale is not None and not math.isfinite(float(scale.max()) * LARGEST):
            raise InputError(f"{name} has numbers times a scale that exceed float64")
        return cls(data, scale)

    def columns(self, index: Index) -> "Rounded":
        """Return some of the columns."""
        return Rounded(pick(self.data.T, index).T, None if self.scale is None else pick(self.scale, index))

    def entry_error(self) -> tuple[float, Array]:
        """Bounds on what rounding did to a number: a share of it, and beside that so much, by column."""
        if self.precision == COMPACT:
            return 0.0, self.scale * 0.5  # type: ignore[operator]
        xp = namespace(self.data)
        share, least = unit(self.data), float(xp.finfo(self.data.dtype).smallest_normal)
        if self.scale is not None:
            return share, self.scale * (share * least)
        return share, xp.zeros_like(self.data[0, :], dtype=xp.float64) + share * least

    def decode(self, dtype: str = "float64") -> Array:
        """Return the matrix for computing."""
        xp = namespace(self.data)
        values = xp.astype(self.data, getattr(xp, dtype))
        return values if self.scale is None else values * xp.astype(self.scale, values.dtype)[None, :]


def round_to(
    A: "Factor", precision: str, *, digits: int = DIGITS[COMPACT], memory: arrays.MemoryLimit | None = None
) -> Rounded:
    """Round a matrix to the wire precision, a compact one to at most so many digits; twice changes nothing."""
    if precision not in PRECISIONS:
        raise InputError(f"wire precision {precision!r} is unknown; use one of {sorted(PRECISIONS)}")
    if precision == COMPACT:  # with no spectrum to go by, as fine for every column
        return round_by(whole(A), np.zeros(A.shape[1]), digits=min(digits, PLAIN_DIGITS))
    reference, reach = reference_of(A), largest(A)
    xp = namespace(reference)
    if not reach <= (float(xp.finfo(getattr(xp, precision)).max) if precision != "float16" else math.inf):
        raise InputError(
            f"numbers of size {reach:.1e} cannot be sent in {precision}; scale the columns, or send float64"
        )
    if isinstance(A, np.ndarray) and dtype_name(A) == precision:
        return Rounded(np.ascontiguousarray(A))
    if precision != "float16":
        few = xp.astype(reference[:1, :], getattr(xp, precision))
        return Rounded(kept(as_made(A).then(lambda start, rows: xp.astype(rows, few.dtype)), few, memory))
    # A power of two per column takes its largest number to the top of the range of float16, without rounding.
    A = whole(A)
    sizes, xp = _largest(A), namespace(A)
    scale = 2.0 ** (namespace(sizes).ceil(namespace(sizes).log2(sizes)) - FLOAT16_EXPONENT)
    half = np.float16 if arrays.is_dask_array(A) else xp.float16  # of which Dask's namespace knows nothing
    return Rounded(xp.astype(xp.astype(A, xp.float64) / scale[None, :], half), scale)


def steps_for(values: Array, cut: float, n: int) -> Array:
    """Steps by which the columns of a factor with these eigenvalues are rounded; those at the cut just survive.

    A column of length sqrt(lambda), rounded by a step s, moves the Gram matrix by about sqrt(lambda) s sqrt(n / 12).
    Steps in proportion to 1 / sqrt(lambda) move it equally by every column: for so many bits, that is the least.
    """
    # s_i = 3 cut / sqrt(lambda_i n): at lambda_i = cut, the numbers sqrt(lambda_i / n) are a third of a step.
    xp = namespace(values)
    return cut / (CUT_PER_STEP * xp.sqrt(or_one(xp.astype(values, xp.float64))) * math.sqrt(n))


def round_by(A: Array, steps: Array, *, digits: int = DIGITS[COMPACT]) -> Rounded:
    """Round every column to whole multiples of a power of two near its step, coarser where it needs more digits."""
    xp = namespace(A)
    if not bool(xp.all(xp.isfinite(A))):
        raise InputError("numbers that are not finite cannot be sent; scale the columns")
    # Step 2^e with e = round(log2 s), and no finer than the digits allow for the largest number of the column.
    largest = _largest(A)
    coarse_enough = np.ceil(np.log2(to_numpy(largest))) - digits
    with np.errstate(divide="ignore"):  # a step of zero: as fine as the digits allow
        exponent = np.maximum(np.round(np.log2(to_numpy(steps))), coarse_enough)
    exponent = np.clip(exponent, -EXPONENTS, EXPONENTS)
    scale = like(np.ldexp(1.0, exponent.astype(int)), largest)  # on the host, where it is exact
    return Rounded(xp.astype(xp.round(xp.astype(A, xp.float64) / scale[None, :]), xp.int32), scale)


def _largest(A: Array) -> Array:
    """Largest magnitude of each column, 1 where all are zero."""
    xp = namespace(A)
    return or_one(at_hand(xp.astype(xp.max(xp.abs(A), axis=0), xp.float64)))


# Factors as they were received: decoded where they are looked at, a few rows at a time.


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
        scale, dtype, scales = self.sent.scale, self.dtype, self.scales  # without the data: that is handed in

        def decoded(start: int, part: Array) -> Array:
            rows = Rounded(part, scale).decode(dtype)
            return rows if scales is None else rows[:, : scales.shape[0]] * scales[None, :]

        return Made((self.sent.data,), decoded, self.shape[1], self.place)

    def rows(self, index: Index) -> Array:
        """Some rows, decoded."""
        if self.place is not None and not isinstance(index, slice):
            index = sent_to(index, self.sent.data)
        part = pick(self.sent.data, index)
        there = part if self.place is None else sent_to(part, self.place)
        decoded: Array = self.made.make(0, there)
        let_go(part)
        return decoded


Factor = Array | Tall  # a matrix at hand, or one that is decoded where it is looked at


def rows_of(A: Factor, index: Index) -> Array:
    """Some rows; a view of a matrix at hand for a slice."""
    return A.rows(index) if isinstance(A, Tall) else pick(A, index)


def whole(A: Factor) -> Array:
    """All rows; not computed yet, if they lie on workers of a cluster."""
    return kept(A, reference_of(A)) if isinstance(A, Tall) else A


def reference_of(A: Factor) -> Array:
    """Some array of the namespace, precision and device in which it is computed with."""
    if isinstance(A, Tall):
        return A.rows(slice(0, 1))
    return np.zeros((1, *A.shape[1:]), A.dtype) if arrays.is_dask_array(A) else A


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


def where_computed(A: Factor, device: str | None) -> Factor:
    """The same matrix, its rows on the device where this is computed."""
    place = away_from(device, reference_of(A))
    return A if place is None else placed(A, place)


def square(A: Factor, device: str | None = None) -> Array:
    """A'A."""
    there = where_computed(A, device)
    return moments(there, reference_of(there)[0, :], centered=False).square


def largest(A: Factor) -> float:
    """Largest magnitude; not a number if any entry is none."""

    def of(first: int, part: RowGroup) -> float:
        own = part[:]
        return max(float(namespace(own).max(own)), -float(namespace(own).min(own)))

    return float(np.max([*over(of, A)]))


def rounding_norms(
    A: Factor, sent: Rounded, device: str | None = None, *, enough: tuple[float, float] = (0.0, 0.0)
) -> tuple[float, float]:
    """Spectral and nuclear norm of B B' - A A' for the B that was sent, or bounds that are `enough`."""
    dtype, (n, rank) = dtype_name(reference_of(A)), sent.shape
    if sent.precision == dtype:
        return 0.0, 0.0
    size = ordinary_size(A)  # so that squares of what was rounded do not vanish
    exact, decoded = where_computed(A, device), where_computed(Tall(sent, dtype), device)
    reference = reference_of(exact)
    xp = namespace(reference)

    def both(start: int, before: Array, after: Array) -> Array:
        return xp.concat([before, after - before], axis=1) / size

    table = together([exact, decoded], both, 2 * rank)
    # With R = B - A: |A R' + R A' + R R'| <= 2 |A| |R|_F + |R|_F^2, and with |A|_F in the nuclear norm.
    squares = to_numpy(added(lambda first, part: arrays.row_squares(part[:].T), table)).astype(float)
    moved = float(squares[rank:].sum()) ** 0.5
    lengths = np.array([squares[:rank].max(), squares[:rank].sum()]) ** 0.5
    bounds = (2.0 * lengths + moved) * moved * (1.0 + 4.0 * growth(n) * unit(reference)) * size * size
    if bounds[0] <= enough[0] and bounds[1] <= enough[1]:
        return float(bounds[0]), float(bounds[1])
    # The difference is [A R] M [A R]' with M = [[0, I], [I, I]]. Its eigenvalues are those of L'M L for
    # L L' = [A R]'[A R], since A has orthogonal columns: no n x n matrix and no cancellation. Small, and in double:
    # solvers in float32 fail where eigenvalues repeat.
    start = xp.zeros(2 * rank, dtype=reference.dtype, device=arrays.device(reference))
    square = to_numpy(moments(table, start, centered=False).square).astype(float)
    lengths = or_one(np.sqrt(np.diagonal(square)))
    square = square / lengths / lengths[:, None]  # those that rounding left are millions of times smaller
    try:
        L = np.linalg.cholesky(square)
    except np.linalg.LinAlgError:  # singular: a factor has at most as many columns as rows
        sizes, Q = np.linalg.eigh(square)
        L = Q * np.sqrt(np.clip(sizes, 0.0, None))[None, :]
    one = np.eye(rank)
    M = np.block([[np.zeros_like(one), one], [one, one]]) * lengths[None, :] * lengths[:, None]
    values = np.abs(np.linalg.eigvalsh(L.T @ M @ L))
    # The norms themselves were computed in floating point, and a root has half as many digits.
    slack = 4.0 * (2 * rank * growth(n) * unit(reference)) ** 0.5
    spectral = float(values.max())
    nuclear = float(values.sum()) + 2 * rank * slack * spectral
    return spectral * (1.0 + slack) * size * size, nuclear * size * size


def ordinary_size(A: Factor) -> float:
    """Power of four next to the largest magnitude: division by it rounds nothing, and fourth powers stay in range."""
    reach = largest(A)
    return float(4.0 ** min(math.frexp(reach)[1] // 2, 511)) if reach > 0 else 1.0


def centered_factor(A: Factor, centered: bool) -> tuple[Array, float]:
    """A factor over its size, less the mean of its rows unless it came `centered`; and the size."""
    A, size = whole(A), ordinary_size(A)
    A = A / size
    return A if centered else A - namespace(A).mean(A, axis=0, keepdims=True), size


def inner_product(A: Array, B: Array) -> float:
    """<A A', B B'> = |A' B|_F^2, without an n x n matrix."""
    C = cross(A, B)
    return float(namespace(C).sum(C * C))


def row_squares(A: Factor) -> Array:
    """Squared length of each row."""
    lengths = as_made(A).then(lambda start, rows: arrays.row_squares(rows)[:, None], 1)
    return kept(lengths, reference_of(A))[:, 0]


def column_squares(A: Factor) -> Array:
    """Squared length of each column."""
    return added(lambda first, part: arrays.row_squares(part[:].T), A)
