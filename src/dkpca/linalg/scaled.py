"""Matrices of any size brought to size one, by a power of four, so that no square under- or overflows."""

import math
from collections.abc import Callable
from dataclasses import replace

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, dtype_name, namespace
from dkpca.linalg.eigenpairs import Eigenpairs
from dkpca.linalg.gram import Centered, Gram, Index, Opened
from dkpca.linalg.progress import Progress, silent
from dkpca.linalg.rounding import power_of_four, quiet

HEADROOM = 1e-4  # share of the range of a precision that sums and rounding are left
ORDINARY = (1e-6, 1e6)  # diagonal entries whose squares, and those of their rounding, are far from any limit


class Scaled(Gram):
    """A matrix divided by a power of four: exact."""

    def __init__(self, base: Gram, size: float) -> None:
        self.base, self.size, self.root = base, size, size**0.5
        self.n, self.reference, self.entry_operations = base.n, base.reference, base.entry_operations

    @property
    def home(self) -> Array:
        return self.base.home

    def diagonal(self) -> Array:
        return self.base.diagonal() / self.size

    def block(self, rows: Index, columns: Index) -> Array:
        return self.base.block(rows, columns) / self.size

    def against(self, columns: Array) -> Opened:
        of_base = self.base.against(columns)

        def opened(group: slice) -> Callable[[slice], Array]:
            rows_of = of_base(group)
            return lambda rows: rows_of(rows) / self.size

        return opened

    def among(self, positions: Array) -> Gram:
        return Scaled(self.base.among(positions), self.size)

    def dense(self) -> Array:
        K = self.base.dense()
        K /= self.size
        return K

    def evaluation_error(self) -> float:
        return self.base.evaluation_error() / self.size

    @property
    def factor(self) -> Array | None:
        factor = self.base.factor
        return None if factor is None else factor / self.root

    def product(self, block: Array, progress: Progress = silent) -> Array:
        return self.base.product(block / self.root, progress) / self.root


def ordinary(gram: Gram) -> tuple[Gram, float]:
    """Return a matrix whose numbers are of ordinary size, and by what the given one is larger."""
    base = gram.base if isinstance(gram, Centered) else gram
    xp = namespace(gram.reference)
    with quiet():
        size = float(namespace(gram.home).max(base.diagonal()))
        trace, log_size = base.trace(), base.log_largest()
    limits = xp.finfo(gram.reference.dtype)
    if not trace <= float(limits.max) * HEADROOM:
        reach = math.inf if math.isnan(size) else size
        raise InputError(f"numbers of the kernel matrix reach {reach:.1e}, {_beyond(gram)}; scale the columns down")
    if -math.inf < log_size < math.log(float(limits.smallest_normal) / HEADROOM):
        raise InputError(
            f"numbers of the kernel matrix are of size 10^{log_size / math.log(10):.0f}, {_beyond(gram)}; "
            "scale the columns up"
        )
    if size <= 0.0 or ORDINARY[0] <= size <= ORDINARY[1]:
        return gram, 1.0
    size = power_of_four(size)
    scaled = Scaled(base, size)
    return (Centered(scaled) if base is not gram else scaled), size


def as_large(pairs: Eigenpairs, size: float) -> Eigenpairs:
    """Return the pairs of the matrix that is so many times larger."""
    if size == 1.0:
        return pairs
    root = size**0.5
    extension = replace(pairs.extension, weights=pairs.extension.weights / root, offset=pairs.extension.offset * root)
    nearby = None if pairs.nearby is None else replace(pairs.nearby, values=pairs.nearby.values * size)
    return replace(
        pairs,
        nearby=nearby,
        values=pairs.values * size,
        next_value=pairs.next_value * size,
        trace=pairs.trace * size,
        missed_trace=pairs.missed_trace * size,
        missed_norm=pairs.missed_norm * size,
        missed_leading=pairs.missed_leading * size,
        residual_norm=pairs.residual_norm * size,
        residual_nuclear=pairs.residual_nuclear * size,
        extension=extension,
    )


def _beyond(gram: Gram) -> str:
    return f"which {dtype_name(gram.reference)} cannot compute with"
