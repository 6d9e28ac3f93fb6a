"""One engine for matrices with a row for each sample: do this for groups of rows, and add up in a fixed order.

Threads work on NumPy arrays, one thread feeds a GPU, and the workers of a Dask cluster keep their chunks of rows.
Groups follow from the number of rows (on Dask, of each chunk) alone: neither jobs nor BLAS threads change a bit.
"""

import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache, reduce
from itertools import islice
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import threadpoolctl

from dkpca.errors import InputError
from dkpca.linalg import on_dask
from dkpca.linalg.arrays import (
    Array,
    MemoryLimit,
    device,
    dtype_name,
    free_memory,
    growth,
    is_dask_array,
    let_go,
    namespace,
    on_gpu,
    quiet,
    same_place,
    sent_to,
    tall_empty,
    to_numpy,
    unit,
)

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")
Matrix = np.ndarray[Any, Any]
Index = Any  # a slice, or an array of integers

GROUPS, LEAST_ROWS, MOST_ROWS = 16, 2**10, 2**15  # groups of rows: about so many, of so many rows
TILE_BYTES = 2**20  # what stays in the second-level cache of a core
SCRATCH_BYTES = 2**26  # what a product may take beyond its result, where one large block is faster than many small
SQUARED_SHARE = 4  # tiles that are squared at a time: the sum is written once for each
TRIANGLE_SHARE = 8  # rows for each column, or stacked triangles are nearly as large as what they stand for
REPEATED_FROM = 2**12  # rows of a table in which it pays to look for equal ones
CACHED_ROWS = 64  # of a product with hundreds of columns, to be used at once
GPU_ROWS = 2**17  # of a group on a GPU: fewer and larger ones, since each launch costs as much as a million sums
GPU_TILE_BYTES = 2**26
GPU_SHARE = 16  # scratch on a GPU: one part in this many of the free memory
SQUARED = 1e-10  # share of an eigenvalue of A'A that its rounding may be, for its vectors to be those of A
SHORT = 500  # columns of a strip, at most: a row more costs less than a strip more


def at_hand(x: Any) -> Any:
    """Return an array that is small: computed, if it is a Dask array."""
    return on_dask.computed([x])[0] if is_dask_array(x) else x


def pick(x: Array, index: Index) -> Array:
    """Rows of x: a view for a slice, a copy for an array of integers."""
    if is_dask_array(x):
        return at_hand(x[index])
    if isinstance(index, slice):
        return x[index, ...]
    picked = namespace(x).take(x, index, axis=0)
    let_go(x)  # the system maps the neighbors of every row that is looked at: of a few thousand rows, nearly all
    return picked


def away_from(name: str | None, home: Array) -> Array | None:
    """Return an array of the device of this name, as torch has it; None for no name, or if `home` lives there."""
    if name is None:
        return None
    try:
        import torch

        place = torch.zeros(1, dtype=torch.float64, device=name)
    except ModuleNotFoundError as error:
        raise InputError(f"device={name!r} needs torch; install it with pip install 'dkpca[torch]'") from error
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0].rstrip(".")
        raise InputError(f"device {name!r} cannot be computed on ({reason}); leave device out") from error
    return None if same_place(place, home) else place


# Cuts


def slices(n: int, step: int) -> Iterator[slice]:
    """Cut n rows into slices of so many."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def groups(n: int, reference: Array | None = None) -> list[slice]:
    """Cut n rows into groups of a size to work on, where the reference lives."""
    on_host = min(max(-(-n // GROUPS), LEAST_ROWS), MOST_ROWS)
    return list(slices(n, GPU_ROWS if reference is not None and on_gpu(reference) else on_host))


def tile_bytes(reference: Array) -> int:
    """Bytes to work on at a time."""
    return GPU_TILE_BYTES if on_gpu(reference) else TILE_BYTES


def strips(n: int, width: int, reference: Array, tiles: int = 1) -> list[slice]:
    """Cut n rows so that strips of so many columns are of a size to work on, or of several such tiles."""
    size = tile_bytes(reference) * (1 if on_gpu(reference) else tiles)
    return list(slices(n, max(1, size // (max(width, 1) * reference.dtype.itemsize))))


# Tables and the engine


@dataclass(frozen=True)
class Made:
    """A matrix whose rows are made where they are looked at, from rows of arrays that are stored."""

    stored: tuple[Array, ...]  # each with a row for each sample
    make: Callable[..., Array]  # from the number of the first row and rows of what is stored, in a new array
    width: int
    place: Array | None = None  # an array where rows are made, if that is not where they are stored

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.stored[0].shape[0], self.width

    def then(self, change: Callable[[int, Array], Array], width: int | None = None) -> "Made":
        """Change the rows further, given the number of the first; to another width, if that is given."""
        make, width = self.make, self.width if width is None else width
        return Made(self.stored, lambda start, *rows: change(start, make(start, *rows)), width, self.place)


class RowGroup:
    """Some consecutive rows of a table; a slice of it is an array."""

    def __init__(self, table: Any, group: slice, offset: int = 0) -> None:
        made = as_made(table)
        self.start, self.make = offset + group.start, made.make
        self.read: list[Array] = [x[group, ...] for x in made.stored]
        self.stored = self.read if made.place is None else [sent_to(x, made.place) for x in self.read]

    def __len__(self) -> int:
        return int(self.stored[0].shape[0])

    def __getitem__(self, rows: slice) -> Array:
        return self.make(self.start + (rows.start or 0), *(x[rows, ...] for x in self.stored))


def as_made(table: Any) -> Made:
    """Return how rows of a table are made: one that is made, or has a way, or an array."""
    found = table if isinstance(table, Made) else getattr(table, "made", None)
    if isinstance(found, Made):
        return found
    return Made((table,), lambda start, rows: rows, table.shape[1] if table.ndim > 1 else 1)


def together(tables: Sequence[Any], make: Callable[..., Any], width: int) -> Made:
    """Rows made of those of several tables: `make(start, *rows)`."""
    found = [as_made(table) for table in tables]
    makes = [each.make for each in found]

    def of(start: int, *stored: Array) -> Array:
        return make(start, *(own(start, x) for own, x in zip(makes, stored, strict=True)))

    return Made(tuple(x for each in found for x in each.stored), of, width, found[0].place)


def on_workers(*tables: Any) -> bool:
    """Whether rows of the tables lie on the workers of a Dask cluster."""
    return any(is_dask_array(x) for table in tables for x in as_made(table).stored)


def over(work: Callable[..., ResultT], *tables: Any, reference: Array | None = None) -> Iterator[ResultT]:
    """Yield what is made of each group of rows, in order: `work(start, *parts)`, with a `RowGroup` of each table."""
    if on_workers(*tables):
        chunk, arrays = _of_chunk(work, tables)
        for results in on_dask.chunk_results(lambda *own: list(chunk(*own)), on_dask.chunks_of(arrays)):
            yield from results
        return

    def of(group: slice) -> ResultT:
        parts = [RowGroup(table, group) for table in tables]
        result = work(group.start, *parts)
        for x in (x for part in parts for x in part.read):
            let_go(x)  # a whole group: a strip is shorter than what the system maps around it
        return result

    first = as_made(tables[0])
    if reference is None:
        reference = first.stored[0] if first.place is None else first.place
    yield from in_order(of, groups(tables[0].shape[0], reference), reference, sent=first.place is not None)


def added(work: Callable[..., Any], *tables: Any, reference: Array | None = None) -> Any:
    """Return the sum of what `work(start, *parts)` makes of groups of rows, added in their order."""
    if on_workers(*tables):
        chunk, arrays = _of_chunk(work, tables)
        return on_dask.chunks_added(lambda *own: reduce(operator.add, chunk(*own)), on_dask.chunks_of(arrays))
    return reduce(operator.add, over(work, *tables, reference=reference))


def _of_chunk(
    work: Callable[..., ResultT], tables: Sequence[Any]
) -> tuple[Callable[..., Iterator[ResultT]], list[Array]]:
    """Work on the groups of a chunk of rows, and the arrays of which it takes chunks."""
    made = [as_made(table) for table in tables]
    how = [(len(each.stored), each.make, each.width) for each in made]

    def chunk(start: int, *blocks: Array) -> Iterator[ResultT]:
        rest = iter(blocks)
        own = [Made(tuple(islice(rest, count)), make, width) for count, make, width in how]
        with one_blas_thread():
            for group in groups(blocks[0].shape[0]):
                yield work(start + group.start, *(RowGroup(x, group, start) for x in own))

    return chunk, [x for each in made for x in each.stored]


def row_chunks(table: Any) -> tuple[int, ...] | None:
    """Rows of each chunk of a table, if these stay on the workers of a Dask cluster."""
    stored = as_made(table).stored[0]
    return tuple(stored.chunks[0]) if is_dask_array(stored) else None


def in_order(
    work: Callable[[ItemT], ResultT], items: Sequence[ItemT], reference: Array, *, sent: bool = False
) -> Iterator[ResultT]:
    """Yield what is made of each item, in order, by threads if on the host, or one that feeds a GPU (`sent`)."""
    several = len(items) > 1 and isinstance(reference, np.ndarray)  # most are small: BLAS need not be asked
    threads = min(_threads.available(), len(items)) if several else 1
    if threads <= 1 and not sent:
        yield from map(work, items)
        return
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[ResultT]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for task in waiting:
                task.cancel()


def for_each(work: Callable[[ItemT], Any], items: Sequence[ItemT], reference: Array) -> None:
    """Do the work for each item, for what it writes."""
    for _ in in_order(work, items, reference):
        pass


# Threads: ours, each with BLAS to itself, instead of those of BLAS for every small product


class _Threads:
    """BLAS keeps to one thread while anybody is inside; the first to come sets the limit, the last to go lifts it."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.inside: list[int] = []  # threads that each user leaves to ours: 0, whose own are at work
        self.limit: Any = None

    @contextmanager
    def limited(self, given: int) -> Iterator[None]:
        with self.lock:
            if not self.inside:
                _take_control()
                self.limit = controller().limit(limits=1)
            self.inside.append(given)
        try:
            yield
        finally:
            with self.lock:
                self.inside.remove(given)
                if not self.inside:
                    _take_control()
                    self.limit.restore_original_limits()

    def available(self) -> int:
        with self.lock:
            if self.inside:
                return self.inside[0] if all(self.inside) else 1  # 1: somebody else's threads are at work already
        return max((int(library.num_threads) for library in controller().lib_controllers), default=1)


_threads = _Threads()


def _take_control() -> None:
    """Let this thread limit OpenBLAS: since threadpoolctl 3.8, only the thread that did so first may do so again."""
    if hasattr(threadpoolctl.OpenBLASController, "clear_controlling_thread"):
        threadpoolctl.OpenBLASController.clear_controlling_thread(force=True)


@cache
def controller() -> threadpoolctl.ThreadpoolController:
    """BLAS libraries of this process; `controller().limit(limits=1)` keeps them to one thread from now on."""
    return threadpoolctl.ThreadpoolController().select(user_api="blas")


def one_blas_thread() -> AbstractContextManager[None]:
    """Keep BLAS to one thread: for our own threads, and for products too small to be worth sharing."""
    return _threads.limited(0)


@contextmanager
def threads_of_our_own() -> Iterator[None]:
    """Leave all threads to the engine for a while, so that no product in between depends on how many BLAS has."""
    with _threads.limited(_threads.available()):
        yield


# Sums over rows


@dataclass(frozen=True)
class Moments:
    """Sums over all rows, measured from a given row."""

    total: Array  # (m,)
    square: Array  # (m, m)

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(self.total + other.total, self.square + other.square)


def moments(Z: Any, start: Array, *, centered: bool) -> Moments:
    """Return the sums of y and y y' over rows of a table, y = z - start for a row z; not centered, only of z z'."""
    width = start.shape[0]

    def of(first: int, part: RowGroup) -> Moments:
        xp = namespace(start)
        # A strip at a time, so that it stays in the cache: sum of z - c, and of (z - c)(z - c)'.
        total = xp.zeros_like(start)
        square = xp.zeros((width, width), dtype=start.dtype, device=device(start))
        for rows in strips(len(part), width, start, SQUARED_SHARE):
            z = part[rows]
            if centered:
                z = z - start[None, :]
                total += xp.sum(z, axis=0)
            square += z.T @ z  # NumPy calls syrk for a matrix and its own transpose, without Python's lock
        return Moments(total, square)

    found: Moments = added(of, Z, reference=start)
    return found


def written(
    work: Callable[[RowGroup, slice], tuple[Array, ResultT]],
    Z: Any,
    width: int,
    reference: Array,
    home: Array,
    memory: MemoryLimit | None = None,
) -> tuple[Array, list[ResultT]]:
    """Array of the rows that `work(part, rows)` makes of strips, at home or on workers; and what else it returns."""
    dtype, columns = home.dtype, Z.shape[1]  # what goes to workers must not refer to Z, or all rows go along
    whole = None if on_workers(Z) else tall_empty((Z.shape[0], width), home, memory)

    def of(first: int, part: RowGroup) -> tuple[Array, list[ResultT]]:
        made = np.empty((len(part), width), dtype) if whole is None else whole[first : first + len(part), :]
        others = []
        for rows in strips(len(part), columns, reference):
            own, other = work(part, rows)
            made[rows, :] = sent_to(own, made)
            others.append(other)
        return made, others

    def of_chunk(start: int, *blocks: Array) -> tuple[Array, list[list[ResultT]]]:
        rows, others = zip(*chunk(start, *blocks), strict=True)
        return np.concatenate(rows), list(others)

    if whole is not None:
        return whole, [other for _, some in over(of, Z, reference=reference) for other in some]
    chunk, arrays = _of_chunk(of, [Z])
    made, others = on_dask.chunks_made(of_chunk, on_dask.chunks_of(arrays), width, dtype)
    return made, [other for own in others for some in own for other in some]


def column_means(X: Array) -> Array:
    """Mean of each column."""
    return added(lambda first, part: namespace(part[:0]).sum(part[:], axis=0), X) / X.shape[0]


def column_variances(X: Array) -> Array:
    """Variance of each column, of samples: over one row less than there are."""
    # sum (x - mean)^2 / (n - 1) in a second pass: a difference of sums of squares would lose digits.
    mean = column_means(X)

    def of(first: int, part: RowGroup) -> Array:
        with quiet():
            off = part[:] - mean[None, :]
            return namespace(off).sum(off * off, axis=0)

    return added(of, X) / (X.shape[0] - 1)


# Products with tall, thin matrices


def place_of(x: Array) -> Array:
    """An empty array of the library, precision and place of x, or of its chunks where these are computed with."""
    return np.empty(0, x.dtype) if is_dask_array(x) else x[:0, ...]


def cross(A: Any, B: Array, reference: Array | None = None) -> Array:
    """A'B for a table A and a thin B: made in the precision of A, where the reference lives, and added in B's."""
    place = place_of(B) if reference is None else reference
    width = min(max(A.shape[1], B.shape[1]), SHORT)

    def of(first: int, part: RowGroup, own: RowGroup) -> Array:
        xp, total, theirs = namespace(place), 0.0, sent_to(own[:], place)
        for rows in strips(len(part), width, place):
            z = part[rows]
            total = total + xp.astype(z.T @ xp.astype(theirs[rows, :], z.dtype, copy=False), theirs.dtype)
        return total

    return added(of, A, B, reference=place)


def times(A: Array, B: Array) -> Array:
    """A B, B small."""
    return kept(Made((A,), lambda start, rows: rows @ B, B.shape[1]), place_of(A))


def off(Q: Array, block: Array) -> Array:
    """(I - QQ') B for orthonormal columns Q."""
    shown = cross(Q, block)
    return kept(Made((block, Q), lambda start, own, q: own - q @ shown, block.shape[1]), place_of(block))


def multiply(A: Array, B: Array) -> Array:
    """A B for a square B, written over A where A can be written to."""
    if is_dask_array(A):
        return times(A, B)

    def of(rows: slice) -> None:
        A[rows, :] = A[rows, :] @ B

    for_each(of, groups(A.shape[0], A), A)
    return A


def triangle(A: Array) -> Array:
    """R of A = Q R, from those of strips and in their order, so that it does not depend on the number of threads."""
    if is_dask_array(A):
        return triangle(np.concatenate(list(over(lambda first, part: _triangle(part[:]), A))))
    # R of the stacked R's of strips is R of A, but for signs: |A x| = |R x| for every x.
    height = max(TRIANGLE_SHARE * A.shape[1], tile_bytes(A) // (max(A.shape[1], 1) * A.dtype.itemsize))
    parts = list(slices(A.shape[0], height))
    if len(parts) == 1:
        with one_blas_thread():  # its columns are too short to be shared: threads would only wait for each other
            return _triangle(A)
    return triangle(namespace(A).concat(list(in_order(lambda rows: _triangle(A[rows, :]), parts, A)), axis=0))


def _triangle(A: Array) -> Array:
    return np.linalg.qr(A, mode="r") if isinstance(A, np.ndarray) else namespace(A).linalg.qr(A)[1]


def right_vectors(A: Array, k: int) -> tuple[Matrix, Matrix, float]:
    """Leading squared singular values of a tall A, right singular vectors, and what rounding did to A'A."""
    # A'A = V diag(values) V'. Where its rounding, as large as that of its trace, would show in the last of these,
    # they are those of R of A = Q R, whose condition number is not squared.
    values, V = (np.flip(part, axis=-1) for part in np.linalg.eigh(to_numpy(cross(A, A))))
    moved = growth(A.shape[0]) * unit(A) * float(np.sum(values, dtype=float))
    if moved < SQUARED * float(values[k - 1]):
        return values[:k], V[:, :k].copy(), moved  # torch takes none that go backwards
    _, s, right = np.linalg.svd(to_numpy(triangle(A)), full_matrices=False)
    return s[:k].astype(float) ** 2, right[:k].T, 0.0


@dataclass(frozen=True)
class Distinct:
    """Rows of a table that differ, in the order in which they come."""

    first: Matrix  # (u,): where each comes first
    numbers: Matrix  # (n,): which of them each row is
    counts: Matrix  # (u,)


def distinct_rows(X: Matrix) -> Distinct | None:
    """Find the rows that are equal to the last bit; None if more than half are distinct, or there are few rows."""
    # A row's hash: the bits of each number, mixed and multiplied by a random odd number, added up modulo 2^64.
    if len(X) < REPEATED_FROM:
        return None
    rng = np.random.default_rng(0)
    odd = rng.integers(2**63, size=(2, X.shape[1]), dtype=np.uint64) * np.uint64(2) + np.uint64(1)

    def hashed(own: Matrix) -> Matrix:
        bits = np.ascontiguousarray(own).view(f"u{own.itemsize}").astype(np.uint64) * odd[0]
        bits ^= bits >> np.uint64(32)
        return np.asarray((bits * odd[1]).sum(axis=1))

    # Were half of the rows repeated, 4 sqrt(n) random ones would have about 16 equal pairs.
    some = np.unique(rng.integers(len(X), size=int(4.0 * len(X) ** 0.5)))
    if len(np.unique(hashed(pick(X, some)))) == len(some):
        return None
    hashes = np.concatenate(list(over(lambda start, part: hashed(part[:]), X)))
    _, first, numbers, counts = np.unique(hashes, return_index=True, return_inverse=True, return_counts=True)
    if 2 * len(first) > len(X):
        return None
    # Distinct rows in the order in which they come first; rows of one hash are compared.
    order = np.argsort(first)
    numbers, few = np.argsort(order)[numbers], pick(X, first[order])
    same = over(lambda start, part: np.array_equal(few[numbers[start : start + len(part)]], part[:]), X)
    return Distinct(first[order], numbers, counts[order]) if all(same) else None


def multiplied(left: Sequence[Matrix], right: Sequence[Matrix]) -> Matrix:
    """Products A B of each pair, multiplied entry by entry; where A are row numbers, B has the products already."""

    def product(A: Matrix, B: Matrix, place: Matrix) -> Matrix:
        return B.take(A, axis=0, out=place, mode="clip") if A.ndim == 1 else np.matmul(A, B, out=place)

    # (A1 B1) o (A2 B2) o ... for 64 rows: each further product is multiplied in while the first is in the cache.
    out = np.empty((left[0].shape[0], right[0].shape[1]), dtype=right[0].dtype)
    scratch = np.empty((CACHED_ROWS, out.shape[1]), dtype=out.dtype)
    for rows in slices(out.shape[0], CACHED_ROWS):
        own, factor = out[rows], scratch[: rows.stop - rows.start]
        product(left[0][rows], right[0], own)
        for A, B in zip(left[1:], right[1:], strict=True):
            own *= product(A[rows], B, factor)
    return out


@threads_of_our_own()
def by_strips(work: Callable[[slice], Array], X: Array, weights: Array) -> Array:
    """Stack what a function makes of strips of rows of X; a row costs it as many numbers as the weights have rows."""
    scratch = free_memory(X) // GPU_SHARE if on_gpu(X) else SCRATCH_BYTES
    rows = max(1, scratch // (weights.shape[0] * weights.dtype.itemsize))
    return namespace(X).concat([work(strip) for strip in slices(X.shape[0], rows)], axis=0)


def kept(Z: Any, reference: Array, memory: MemoryLimit | None = None) -> Array:
    """Rows of a table, all of them: where the reference lives, or on their workers."""
    return written(lambda part, rows: (part[rows], None), Z, Z.shape[1], reference, reference, memory)[0]


# Columns in units of their own deviations.


def column_scales(X: Array) -> tuple[Array, Array]:
    """Mean and deviation of each column, from differences to the first row: exact far from zero, too."""
    # With c the first row: mean = c + mean(x - c), and the deviation is that of x - c.
    xp = namespace(X)
    away = X * 0.5 - X[:1, :] * 0.5  # halves do not overflow
    largest = xp.max(xp.abs(away), axis=0)
    size = xp.where(largest > 0, largest, xp.ones_like(largest))
    away /= size[None, :]  # so that neither sums nor squares leave the range
    center, deviation = xp.mean(away, axis=0), 2.0 * (xp.std(away, axis=0) * size)
    mean = 2.0 * (X[0, :] * 0.5 + center * size)
    noise = 10 * xp.finfo(X.dtype).eps * xp.abs(mean)
    return at_hand(mean), at_hand(xp.where(deviation > noise, deviation, xp.ones_like(deviation)))


def standardized(X: Array, shift: Array | None, scale: Array | None) -> Array:
    """Columns measured from a point in units of their scales; None: as they are."""
    return X if shift is None or scale is None else (X - shift[None, :]) / scale[None, :]


def moved(X: Array, origin: Array, whose: str, memory: MemoryLimit | None = None) -> Array:
    """Rows minus the origin; raises if a column overflows."""
    if is_dask_array(X):
        return X - origin[None, :]  # not computed yet: a chunk that overflows shows when the kernel is evaluated
    xp = namespace(X)

    def of(part: RowGroup, rows: slice) -> tuple[Array, bool]:
        with quiet():
            own = part[rows] - origin[None, :]
        return own, bool(xp.all(xp.isfinite(own)))

    moved, finite = written(of, X, X.shape[1], X, X, memory)
    if not all(finite):
        column = 1 + [bool(xp.all(xp.isfinite(moved[:, j]))) for j in range(X.shape[1])].index(False)
        raise InputError(
            f"{whose}: the numbers of its column {column} are too large to compute their mean in {dtype_name(X)}; "
            "scale the column down"
        )
    return moved
