"""What differs between array libraries, what memory they may take, and how far they are from the exact result."""

import math
import mmap
import re
import sys
import tempfile
import threading
import weakref
from math import prod
from pathlib import Path
from typing import Any

import array_api_compat
import array_api_compat.numpy
import numpy as np
from scipy.linalg import get_blas_funcs

from dkpca.errors import InputError

NUMPY = {np.ndarray}
ASSUMED_FREE = 4 * 2**30  # bytes, where the system does not tell

Array = Any  # a NumPy array or a torch tensor: whatever follows the array API standard
SUBTRACTIONS = 8  # roundings beside the sums: differences, square roots, products with a scalar
SOLVER_SHARE = 4.0  # backward error of an eigensolver or SVD, in sums as long as the matrix
UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
LEAST_MEMORY = 10**8  # bytes that a process needs before it has read anything
TALL_SHARE = 0.5  # of the memory, for tall arrays: the rest is for work on parts of them


# How much memory a computation may take. Tall arrays beyond half of it lie in files without a name, which the system
# removes as soon as nobody has them open; their pages are given up when memory runs short.


class MemoryLimit:
    """Bytes that may be taken, and those that tall arrays have."""

    def __init__(self, most: int, folder: Path | None) -> None:
        self.most, self.folder = most, folder
        self.taken = self.in_files = 0
        self._lock = threading.Lock()

    @classmethod
    def of(cls, amount: int | str | None, folder: Path | None = None) -> "MemoryLimit | None":
        """Return the limit of an amount; None: what the system has."""
        return None if amount is None else cls(as_bytes(amount), folder)

    def __reduce__(self) -> Any:
        return MemoryLimit, (self.most, self.folder)  # another process counts for itself

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


def as_bytes(amount: int | str) -> int:
    """Return how many bytes of memory an amount is, if a computation can do with so few."""
    size = amount_of(amount)
    if size < LEAST_MEMORY:
        raise InputError(f"{amount!r} is too little memory for anything; allow {LEAST_MEMORY // 10**6} MB at least")
    return size


def amount_of(amount: int | str) -> int:
    """Return how many bytes an amount is: a number of them, or text such as "8GB"."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*", str(amount))
    unit = found.group(2).upper().replace("IB", "B") if found else "?"
    if found is None or unit not in UNITS:
        raise InputError(f"an amount is a number of bytes, or text such as '8GB', not {amount!r}")
    return int(float(found.group(1)) * UNITS[unit])


def let_go(part: Any) -> None:
    """Drop a mapped slice from RAM, if it is read-only and has no gaps; the next access reads it from the file."""
    if not isinstance(part, np.ndarray) or not part.flags.c_contiguous or part.flags.writeable:
        return
    mapped: Any = part
    while isinstance(mapped, np.ndarray | memoryview):
        mapped = mapped.base if isinstance(mapped, np.ndarray) else mapped.obj
    if not isinstance(mapped, mmap.mmap) or not hasattr(mmap, "MADV_DONTNEED"):
        return
    place = part.__array_interface__["data"][0] - np.frombuffer(mapped, np.uint8).__array_interface__["data"][0]
    first, last = -(-place // mmap.PAGESIZE), (place + part.nbytes) // mmap.PAGESIZE  # whole pages: others are shared
    if first < last:
        mapped.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, (last - first) * mmap.PAGESIZE)


# Arrays of any library.

device = array_api_compat.device  # where an array lives
is_dask_array = array_api_compat.is_dask_array


def namespace(*arrays: Array) -> Any:
    """Return the array API namespace shared by the arrays."""
    if set(map(type, arrays)) == NUMPY:  # by far the most often asked, and slow to find out in general
        return array_api_compat.numpy
    return array_api_compat.array_namespace(*arrays)


def to_numpy(x: Array) -> np.ndarray[Any, Any]:
    """Bring an array to the host."""
    return np.asarray(x.detach().cpu() if array_api_compat.is_torch_array(x) else x)


def dtype_name(x: Array) -> str:
    """Name of the precision, the same in every library."""
    return str(x.dtype).rpartition(".")[2]


def like(x: np.ndarray[Any, Any], reference: Array) -> Array:
    """Send a host array to where `reference` lives, in its precision; here, if that is on workers of a cluster."""
    if is_dask_array(reference):
        return np.asarray(x, dtype=reference.dtype)
    return namespace(reference).asarray(x, dtype=reference.dtype, device=device(reference))


def sent_to(x: Array, place: Array) -> Array:
    """Return the same numbers where another array lives; here, if that is on workers of a cluster."""
    if isinstance(place, np.ndarray) or is_dask_array(place):
        return to_numpy(x)
    if isinstance(x, np.ndarray):  # torch takes neither gaps that go backwards nor what must not be written to
        x = np.ascontiguousarray(x) if x.flags.writeable else np.array(x, order="C")
    return namespace(place).asarray(x, device=device(place))


def same_place(x: Array, y: Array) -> bool:
    """Whether two arrays can be computed with together."""
    if is_dask_array(x) or is_dask_array(y):
        return not (on_gpu(x) or on_gpu(y))
    return type(x) is type(y) and device(x) == device(y)


def row_squares(A: Array) -> Array:
    """Squared length of each row, without an array of all squares where the library allows it."""
    return np.einsum("ij,ij->i", A, A) if isinstance(A, np.ndarray) else namespace(A).sum(A * A, axis=1)


def set_diagonal(x: Array, values: Array) -> Array:
    """Write the diagonal of a square array, or of each in a stack, that is not needed any more."""
    places = namespace(x).arange(x.shape[-1], device=device(x))
    x[..., places, places] = values
    return x


def or_one(x: Array) -> Array:
    """The same numbers, with 1 for those that are not above zero: what can be divided by."""
    xp = namespace(x)
    return xp.where(x > 0, x, xp.ones_like(x))


def transposed(x: Array) -> Array:
    """Transposed array, in the order in which products read it fastest."""
    return np.ascontiguousarray(x.T) if isinstance(x, np.ndarray) else x.T


def solve_lower(L: Array, rows: Array) -> Array:
    """Return rows @ inv(L)' for a lower triangular L, by substitution; it may write over the rows."""
    if isinstance(rows, np.ndarray):
        (trsm,) = get_blas_funcs(("trsm",), (rows,))
        return trsm(1.0, L.astype(rows.dtype, copy=False).T, rows.T, trans_a=1, overwrite_b=1).T
    return namespace(rows).linalg.solve_triangular(like(L, rows).T, rows, upper=True, left=False)


def on_gpu(x: Array) -> bool:
    """Whether the array lives on a CUDA device."""
    return bool(array_api_compat.is_torch_array(x) and x.device.type == "cuda")


def free_memory(x: Array, memory: MemoryLimit | None = None) -> int:
    """Bytes that can still be taken where the array lives, and within a limit on the host."""
    if on_gpu(x):
        import torch

        return int(torch.cuda.mem_get_info(x.device)[0])
    meminfo = Path("/proc/meminfo")
    known = meminfo.exists()  # not on Linux: nobody says without another package
    free = 1024 * int(meminfo.read_text().partition("MemAvailable:")[2].split()[0]) if known else ASSUMED_FREE
    return free if memory is None else max(0, min(free, memory.most - memory.taken))


def tall_empty(shape: tuple[int, ...], reference: Array, memory: MemoryLimit | None = None) -> Array:
    """Array with a row for each sample, where `reference` lives; on the host within the memory that may be taken."""
    if isinstance(reference, np.ndarray) and memory is not None:
        return memory.empty(shape, reference.dtype)
    return namespace(reference).empty(shape, dtype=reference.dtype, device=device(reference))


def memory_errors() -> tuple[type[BaseException], ...]:
    """What the array libraries in use raise when memory runs out."""
    torch = sys.modules.get("torch")
    return (MemoryError,) if torch is None else (MemoryError, torch.OutOfMemoryError)


def eps(x: Array) -> float:
    """Distance from 1 to the next number in the precision of `x`."""
    return float(namespace(x).finfo(x.dtype).eps)


# How far floating point can be from the exact result: the counts behind every allowance of the certificate.


def unit(x: Array) -> float:
    """Largest relative error of one rounding in the precision of `x`."""
    return 0.5 * eps(x)


def growth(terms: int) -> float:
    """How many roundings a sum of so many products can add up to, relative to the sum of absolute values.

    Every one of them at worst. Sums of more than a hundred terms are made in blocks (of tiles here, of registers and
    cache lines in BLAS), and then 10 sqrt(terms) is as many as can meet; without any blocking it would be exceeded
    with a probability below 1e-20 (Higham and Mary 2019, *A new approach to probabilistic rounding error analysis*).
    """
    return min(float(terms), 10.0 * math.sqrt(terms)) + SUBTRACTIONS


def solver_error(n: int, largest_value: float, reference: Array) -> float:
    """Bound on what a backward stable solver does to an n x n matrix with this largest eigenvalue."""
    return SOLVER_SHARE * growth(n) * unit(reference) * largest_value


def quiet() -> np.errstate:
    """Let overflow and underflow pass where they are meant: exp(-inf) is the right answer."""
    return np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
