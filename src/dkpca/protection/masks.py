"""Numbers as whole steps modulo a power of two, under masks that cancel in the sum over all parties.

For each pair of parties both derive the same stream; the one that comes first in the roster adds it, the other one
subtracts it. The stream's key is bound to the question that is answered, hence to the run, the step, the roster, the
samples, the ring and the piece: numbers of one question are comparable with nothing said elsewhere.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.messages import Packed
from dkpca.protection.keys import Numbers, hkdf, stream

MASKS = b"dkpca masks 2\0"
DTYPES: dict[int, Any] = {32: np.dtype("<u4"), 64: np.dtype("<u8")}
EXACT_BITS = 53  # beyond them a float64 has no digits


@dataclass(frozen=True)
class ModularRing:
    """Whole numbers modulo 2 ** bits, each worth one step; the upper half stands for numbers below zero."""

    bits: int
    step: float

    @classmethod
    def for_sum(cls, bits: int, bound: float, n_parties: int) -> "ModularRing":
        """Return the ring with the finest step on which a sum of this size at most cannot overflow."""
        # The upper half of the ring is for numbers below zero, so |sum| must stay below 2^(bits - 1) steps.
        levels = 2.0 ** (min(bits, EXACT_BITS) - 1) - 1 - n_parties  # each addend may round up by half a step
        return cls(bits, max(bound, 2.0**-1000) / levels)

    def encode(self, values: Numbers, bound: float) -> Numbers:
        """Round to whole steps; a value beyond the bound is refused, since clipping would change the sum unseen."""
        largest = float(np.max(np.abs(values), initial=0.0))
        if not largest <= bound:
            raise InputError(f"a number of size {largest:.3g} is beyond the bound {bound:.3g} of the sum")
        # round(x / step) modulo 2^bits: sums of these are exact, whatever wraps around on the way.
        whole = np.rint(np.asarray(values, dtype=np.float64) / self.step).astype(np.int64)
        return whole.astype(DTYPES[self.bits])  # modulo 2 ** bits

    def decode(self, total: Numbers) -> Numbers:
        """Return the numbers that a sum stands for."""
        return total.view(np.dtype(f"<i{self.bits // 8}")).astype(np.float64) * self.step


def under_masks(
    numbers: Numbers, party: str, roster: Sequence[str], pair_keys: Mapping[str, bytes], question: str, part: str = ""
) -> Packed:
    """Return ring numbers of a party with the masks of all its pairs, for one part of the answer to a question."""
    # Numbers + sum of masks s_jk over later parties - sum over earlier ones: each s_jk is added once and subtracted
    # once, so that the sum over all parties has none.
    total = numbers.copy()
    for other in roster:
        if other == party:
            continue
        key = hkdf(pair_keys[other], MASKS + f"{question}\0{part}\0{total.size}".encode())
        mask = np.frombuffer(stream(key, total.nbytes), dtype=total.dtype)  # that both parties of a pair derive
        total = total + mask if roster.index(party) < roster.index(other) else total - mask
    return total.view(np.uint8)


def added(received: Sequence[Packed], ring: ModularRing, count: int) -> Numbers:
    """Return the sum of all parties' numbers: all parties or noise."""
    total = np.zeros(count, dtype=DTYPES[ring.bits])
    for packed in received:
        total += packed.view(total.dtype)
    return ring.decode(total)


POWERS = np.arange(-1000, 1024)  # of two: between them lie the bounds of all numbers that can be added up
BITS = ModularRing(64, 1.0)  # on which whole numbers are added to find the largest power


def bits_of(largest: float, random: Numbers) -> Numbers:
    """A party's part in finding the largest power of two: random numbers below its own bound, zero from there on."""
    if not math.isfinite(largest):
        raise InputError("the numbers to be added are not finite; scale the columns")
    # Entry i is random while 2^p_i is below the party's largest number. In the sum over parties an entry is zero just
    # when it is zero for all, but for a chance of 2^-64: the sum says the largest bound of all, and not whose it is.
    return np.where(2.0 ** POWERS.astype(float) < largest, random, np.uint64(0)).astype(DTYPES[64])


def largest_power(received: Sequence[Packed]) -> float:
    """Bound that the sum of all parties' `bits_of` stands for."""
    beyond = np.flatnonzero(added(received, BITS, len(POWERS)))
    return float(2.0 ** POWERS[0] if not len(beyond) else 2.0 ** float(POWERS[min(beyond[-1] + 1, len(POWERS) - 1)]))
