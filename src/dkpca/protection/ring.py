"""Numbers as whole multiples of one step, added modulo a power of two: sums there are exact."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError

Numbers = np.ndarray[Any, Any]
DTYPES = {16: np.uint16, 20: np.uint32, 32: np.uint32, 64: np.uint64}
EXACT_BITS = 53  # beyond them a float64 has no digits
LENGTHS = 16.0  # times the reach of its other numbers, at most: the length of a party's longest sample


@dataclass(frozen=True)
class Ring:
    """Whole numbers modulo 2 ** bits, each worth one step."""

    bits: int
    step: float
    signed: bool = True  # whether numbers below zero have a place

    @classmethod
    def for_sum(cls, bits: int, reaches: Iterable[float], *, signed: bool = True) -> "Ring":
        """Return the ring with the finest step on which a sum of numbers of these sizes cannot overflow."""
        sizes = list(reaches)
        levels = 2 ** (min(bits, EXACT_BITS) - signed) - 1 - len(sizes)  # each of them may round up by half a step
        if levels < len(sizes):
            raise InputError(f"{bits} bits are too few for a sum of {len(sizes)} parties; take more")
        return cls(bits, math.fsum(sizes) / levels, signed)

    def for_lengths(self) -> "Ring":
        """Return the ring of 64 bits on which lengths of samples are added: `LENGTHS` times what this one holds."""
        return Ring(64, self.step * 2.0 * LENGTHS * 2.0 ** (min(self.bits, EXACT_BITS) - EXACT_BITS))

    @property
    def dtype(self) -> type[Any]:
        """Type that holds one number."""
        return DTYPES[self.bits]

    def encode(self, values: Numbers, reach: float) -> Numbers:
        """Round to whole steps; a value beyond the reach is refused, since clipping would change the sum unseen."""
        largest = float(np.max(np.abs(values), initial=0.0))
        if not largest <= reach:
            raise InputError(
                f"a value of size {largest:.3g} is beyond the {reach:.3g} that was offered; make a new offer"
            )
        if not self.signed and float(np.min(values, initial=0.0)) < 0:
            raise InputError("a value is below zero, where the offer says that none is; make a new offer")
        whole = np.rint(np.asarray(values, dtype=np.float64) / self.step).astype(np.int64)
        return self.reduced(whole.view(np.uint64))

    def decode(self, total: Numbers) -> Numbers:
        """Return the numbers that a sum stands for."""
        if not self.signed:
            return total.astype(np.float64) * self.step
        shift = np.uint64(64 - self.bits)
        signed = (total.astype(np.uint64) << shift).view(np.int64) >> shift.astype(np.int64)
        return signed * self.step

    def reduced(self, numbers: Numbers) -> Numbers:
        """Modulo 2 ** bits, in the type of the ring."""
        return (numbers & np.uint64(2**self.bits - 1)).astype(self.dtype)

    def pack(self, numbers: Numbers) -> Numbers:
        """Bytes without gaps, the same on every machine."""
        if self.bits != 20:
            return numbers.astype(np.dtype(self.dtype).newbyteorder("<")).view(np.uint8)
        pairs = np.append(numbers, np.zeros(len(numbers) % 2, dtype=np.uint32)).reshape(-1, 2).astype(np.uint64)
        joined = (pairs[:, 0] | (pairs[:, 1] << np.uint64(20))).astype("<u8")
        return np.ascontiguousarray(joined.view(np.uint8).reshape(-1, 8)[:, :5]).reshape(-1)

    def unpack(self, data: Numbers, count: int) -> Numbers:
        """Return what `pack` was given; `InputError` unless the bytes are those of so many numbers."""
        if data.shape != (self.packed_bytes(count),):
            raise InputError(f"{data.shape[0]} bytes are not {count} numbers of {self.bits} bits")
        if self.bits != 20:
            return np.ascontiguousarray(data).view(np.dtype(self.dtype).newbyteorder("<")).astype(self.dtype)
        wide = np.zeros((len(data) // 5, 8), dtype=np.uint8)
        wide[:, :5] = data.reshape(-1, 5)
        joined = wide.reshape(-1).view("<u8")
        mask = np.uint64(2**20 - 1)
        pairs = np.stack([joined & mask, (joined >> np.uint64(20)) & mask], axis=1)
        return pairs.reshape(-1)[:count].astype(np.uint32)

    def packed_bytes(self, count: int) -> int:
        """Length of so many numbers, packed."""
        return -(-count // 2) * 5 if self.bits == 20 else count * self.bits // 8


def reach_of(largest: float) -> float:
    """Next of eight numbers per power of two: a party tells its largest value to a tenth, and no more."""
    if not math.isfinite(largest):
        raise InputError("the quantities to be added are not finite; scale the columns")
    if largest <= 0:
        return 2.0**-1000
    eighths = math.ceil(8.0 * math.log2(largest))
    reach = 2.0 ** (eighths / 8.0)
    return float(reach if reach >= largest else 2.0 ** ((eighths + 1) / 8.0))  # a logarithm that was rounded down
