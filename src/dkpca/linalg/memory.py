"""How much memory a computation may take. Tall arrays beyond half of it lie in files without a name.

Such a file is removed by the system as soon as nobody has it open, also if the process is killed. Its pages are
read and written as they are needed, and given up when memory runs short.
"""

import mmap
import re
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dkpca.errors import InputError

UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LEAST = 10**8  # bytes that a process needs before it has read anything
TALL_SHARE = 0.5  # of the memory, for tall arrays: the rest is for work on parts of them


class Limit:
    """Bytes that may be taken, and those that tall arrays have."""

    def __init__(self, most: int, folder: Path | None) -> None:
        self.most, self.folder = most, folder
        self.taken = self.in_files = 0
        self._lock = threading.Lock()

    def empty(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray[Any, Any]:
        """Return an array in memory, or in a file if there is no room for it."""
        size = prod(shape) * np.dtype(dtype).itemsize
        with self._lock:
            in_memory = self.taken + size <= TALL_SHARE * self.most
            if in_memory:
                self.taken += size
            else:
                self.in_files += size
        if not in_memory:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                return np.memmap(file, dtype=dtype, mode="w+", shape=shape).view(np.ndarray)
        made = np.empty(shape, dtype)
        weakref.finalize(made, self._give_back, size)
        return made

    def _give_back(self, size: int) -> None:
        with self._lock:
            self.taken -= size

    def words(self) -> str:
        """What was done to keep to it, if anything."""
        if not self.in_files:
            return ""
        return f", {self.in_files / 1e9:.1f} GB in files to keep within {self.most / 1e9:.1f} GB of memory"


_limit: ContextVar[Limit | None] = ContextVar("limit", default=None)


def as_bytes(amount: int | str) -> int:
    """Return how many bytes of memory an amount is, if a computation can do with so few."""
    size = amount_of(amount)
    if size < LEAST:
        raise InputError(f"{amount!r} is too little memory for anything; allow {LEAST // 10**6} MB at least")
    return size


def amount_of(amount: int | str) -> int:
    """Return how many bytes an amount is: a number of them, or text such as "8GB"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(amount))
    unit = found.group(2).upper().replace("IB", "B") if found else "?"
    if found is None or unit not in UNITS:
        raise InputError(f"an amount is a number of bytes, or text such as '8GB', not {amount!r}")
    return int(float(found.group(1)) * UNITS[unit])


@contextmanager
def limited(amount: int | str | None, folder: Path | None = None) -> Iterator[None]:
    """Keep what is done inside to an amount of memory; None: to what the system has."""
    token = _limit.set(None if amount is None else Limit(as_bytes(amount), folder))
    try:
        yield
    finally:
        _limit.reset(token)


def available(free: int) -> int:
    """Bytes that may still be taken of those that are free."""
    limit = _limit.get()
    return free if limit is None else max(0, min(free, limit.most - limit.taken))


def tall(shape: tuple[int, ...], dtype: Any = np.float64) -> np.ndarray[Any, Any]:
    """Return an array with a row for each sample."""
    limit = _limit.get()
    return np.empty(shape, dtype) if limit is None else limit.empty(shape, dtype)


def let_go(part: Any) -> None:
    """Give back the memory of a part of a mapped file that was looked at; it is read again if it is looked at again.

    Only within a limit: elsewhere the system may keep what it has room for.
    """
    mapped = _mapping(part) if _limit.get() is not None else None
    if mapped is None or not hasattr(mmap, "MADV_DONTNEED"):
        return
    place = part.__array_interface__["data"][0] - np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    first, last = -(-place // mmap.PAGESIZE), (place + part.nbytes) // mmap.PAGESIZE  # whole pages: others are shared
    if first < last:
        mapped.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


def _mapping(part: Any) -> mmap.mmap | None:
    """Return the mapped file that an array without gaps lies in, if it can be read only."""
    if not isinstance(part, np.ndarray) or not part.flags.c_contiguous or part.flags.writeable:
        return None
    base: Any = part
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    return base if isinstance(base, mmap.mmap) else None


def words() -> str:
    """What was done so far to keep within the memory, for a sentence about a solver."""
    limit = _limit.get()
    return "" if limit is None else limit.words()
