"""Rows in host memory, computed with on a device such as a GPU.

`computing_on` names the device. Rows travel there a group at a time, in the precision in which they lie; only one
group and matrices of landmark size are ever there. What has a row for each sample stays in host memory.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, same_place
from dkpca.linalg.gram import Gram, Index, Opened

_place: ContextVar[Array | None] = ContextVar("place", default=None)


class OnDevice(Gram):
    """A matrix of rows in host memory, of which blocks are evaluated on a device.

    Parameters
    ----------
    base : Gram
        The matrix, evaluated where its rows lie.
    there : Gram
        The same one, evaluated on the device.
    """

    def __init__(self, base: Gram, there: Gram) -> None:
        self.base, self.there = base, there
        self.n, self.reference, self.entry_operations = base.n, there.reference, base.entry_operations

    @property
    def home(self) -> Array:
        return self.base.home

    def diagonal(self) -> Array:
        return self.base.diagonal()

    def trace(self) -> float:
        return self.base.trace()

    def log_largest(self) -> float:
        return self.base.log_largest()

    def evaluation_error(self) -> float:
        return self.base.evaluation_error()

    def noise(self) -> float:
        return self.base.noise()

    def block(self, rows: Index, columns: Index) -> Array:
        return self.there.block(rows, columns)

    def against(self, columns: Array) -> Opened:
        return self.there.against(columns)

    def within(self, group: slice) -> Callable[[Sequence[slice]], Array]:
        return self.there.within(group)

    def among(self, positions: Array) -> Gram:
        return self.there.among(positions)


@contextmanager
def computing_on(device: str | None) -> Iterator[None]:
    """Compute landmarks of tables in host memory on this device, as torch names it, inside; None: where they lie."""
    token = _place.set(None if device is None else _found(device))
    try:
        yield
    finally:
        _place.reset(token)


def away_from(home: Array) -> Array | None:
    """Return an array of the device to compute on; None if that is where this one lives."""
    place = _place.get()
    return None if place is None or same_place(place, home) else place


def _found(device: str) -> Array:
    """An array on a device, or a sentence why there is none."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise InputError(
            f"device={device!r} needs torch; install it with pip install 'dkpca[torch]', or leave device out"
        ) from error
    try:
        return torch.zeros(1, dtype=torch.float64, device=device)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(
            f"device {device!r} cannot be computed on ({reason}); use one that is there, such as 'cuda' with a GPU, "
            "or leave device out"
        ) from error
