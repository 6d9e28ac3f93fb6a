"""How a matrix is rounded for the wire, and what the rounding did to it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, dtype_name, namespace, to_numpy
from dkpca.linalg.rounding import growth, power_of_four, unit
from dkpca.linalg.strips import cross

PRECISIONS = {"float64": 8, "float32": 4, "float16": 2}  # bytes a number
FLOAT16_EXPONENT = 15  # the largest power of two that float16 holds


@dataclass(frozen=True)
class Rounded:
    """A matrix as it travels."""

    data: Array  # (rows, columns) in the wire precision
    scale: Array | None = None  # (columns,) float64, with float16 only: a power of two a column

    @property
    def precision(self) -> str:
        """Name of the wire precision."""
        return dtype_name(self.data)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.data.shape  # type: ignore[no-any-return]

    def to_arrays(self) -> dict[str, Array]:
        """Return what travels, by the end of its name."""
        return {"": self.data} if self.scale is None else {"": self.data, ".scale": self.scale}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "Rounded":
        """Rebuild what `to_arrays` gave, if it is a matrix of finite numbers in one of the wire precisions."""
        data, scale = arrays[""], arrays.get(".scale")
        if data.ndim != 2 or 0 in data.shape or data.dtype.name not in PRECISIONS or not np.isfinite(data).all():
            raise InputError(f"{name} is not a matrix of finite numbers (shape {data.shape})")
        if (scale is not None) != (data.dtype == np.float16):
            raise InputError(f"{name} must have a scale if it is float16, and only then")
        if scale is not None and not (
            scale.dtype == np.float64
            and scale.shape == data.shape[1:]
            and np.isfinite(scale).all()
            and (scale > 0).all()
        ):
            raise InputError(f"the scale of {name} is not one positive float64 per column")
        if set(arrays) - {"", ".scale"}:
            raise InputError("does not have the arrays of its kind")
        return cls(data, scale)

    def rows(self, strip: slice) -> "Rounded":
        """Return some of the rows."""
        return replace(self, data=self.data[strip, :])

    def entry_error(self) -> tuple[float, Array]:
        """Bounds on what rounding did to a number: a share of it, and beside that so much, by column."""
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


def round_to(A: Array, precision: str) -> Rounded:
    """Round a matrix to the wire precision. Rounding what was rounded before changes nothing."""
    if precision not in PRECISIONS:
        raise InputError(f"wire precision {precision!r} is unknown; use one of {sorted(PRECISIONS)}")
    xp = namespace(A)
    reach = float(xp.max(xp.abs(A)))
    if not reach <= (float(xp.finfo(getattr(xp, precision)).max) if precision != "float16" else math.inf):
        raise InputError(
            f"numbers of size {reach:.1e} cannot be sent in {precision}; scale the columns, or send float64"
        )
    if precision != "float16":
        return Rounded(xp.astype(A, getattr(xp, precision)))
    largest = xp.astype(xp.max(xp.abs(A), axis=0), xp.float64)
    safe = xp.where(largest > 0, largest, xp.ones_like(largest))
    scale = 2.0 ** (xp.ceil(xp.log2(safe)) - FLOAT16_EXPONENT)
    return Rounded(xp.astype(xp.astype(A, xp.float64) / scale[None, :], xp.float16), scale)


def rounding_norms(A: Array, sent: Rounded) -> tuple[float, float]:
    """Spectral and nuclear norm of B B' - A A' for the B that was sent; A has orthogonal columns.

    With R = B - A the difference is [A R] M [A R]' with M = [[0, I], [I, I]]: its eigenvalues are those of a
    matrix of twice the rank, so no n x n matrix and no cancellation.
    """
    xp = namespace(A)
    if sent.precision == dtype_name(A):
        return 0.0, 0.0
    size = power_of_four(float(xp.max(xp.abs(A)))) if bool(xp.any(A != 0)) else 1.0
    R = (sent.decode(dtype_name(A)) - A) / size
    A = A / size  # of ordinary size, so that the squares of what was rounded do not vanish
    joined = xp.concat([A, R], axis=1)
    lengths = xp.sqrt(xp.sum(joined * joined, axis=0))
    lengths = xp.where(lengths > 0, lengths, xp.ones_like(lengths))
    joined = joined / lengths[None, :]  # unit columns: R is millions of times smaller than A
    # Small from here on, and in double: solvers in float32 fail where eigenvalues repeat.
    lengths = to_numpy(lengths).astype(float)
    eigenvalues, Q = np.linalg.eigh(to_numpy(cross(joined, joined)).astype(float))
    root = (Q * np.sqrt(np.clip(eigenvalues, 0.0, None))[None, :]) @ Q.T
    one = np.eye(A.shape[1])
    M = np.block([[np.zeros_like(one), one], [one, one]]) * lengths[None, :] * lengths[:, None]
    values = np.abs(np.linalg.eigvalsh(root @ M @ root))
    # The norms themselves were computed in floating point, and a root has half as many digits.
    slack = 4.0 * (joined.shape[1] * growth(A.shape[0]) * unit(A)) ** 0.5
    largest = float(values.max())
    nuclear = float(values.sum()) + joined.shape[1] * slack * largest
    return largest * (1.0 + slack) * size * size, nuclear * size * size
