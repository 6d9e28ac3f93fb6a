"""Rows on the workers of a Dask cluster: chunks that stay there, and work that goes to them.

Work is pickled without the Dask arrays that it refers to; the worker puts their rows in the place. What has a row for
each sample stays there, as Dask arrays. Without a cluster, Dask computes in threads of this process.
"""

import hashlib
import io
import operator
import pickle
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np

from dkpca.errors import InputError, NoAnswerError, TooLateError
from dkpca.linalg.arrays import is_dask_array

Numbers = np.ndarray[Any, Any]
Task = Any  # what Dask calls delayed
TIMEOUT = "dkpca.timeout"  # in Dask's configuration: seconds to wait for an answer, where nobody says
LEAST_TALL = 32  # rows of an array that stays on its worker, at least; a smaller one comes back


def is_collection(table: Any) -> bool:
    """Whether a table is a Dask array or DataFrame."""
    return type(table).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(table, "__dask_graph__")


# Tables


@dataclass(frozen=True)
class Chunks:
    """Rows of several tables, cut alike."""

    sizes: tuple[int, ...]
    blocks: Sequence[Sequence[Task]]  # by table


def chunk_sizes(table: Any, timeout: float | None = None) -> tuple[int, ...]:
    """Rows of each chunk of a Dask collection."""
    if hasattr(table, "columns"):
        return tuple(size for _, size in _partitions(table, timeout))
    found = (table.compute_chunk_sizes() if np.isnan(table.shape[0]) else table).chunks[0]
    return tuple(int(size) for size in found if size)


def cut_alike(tables: Mapping[Any, Any], timeout: float | None = None) -> Chunks:
    """Cut the rows of Dask collections as those of the first; rows of DataFrames are what their index says."""
    _check_labels(tables, timeout)
    if all(hasattr(table, "columns") for table in tables.values()):
        found = [_partitions(table, timeout) for table in tables.values()]
        return Chunks(tuple(size for _, size in found[0]), [[part for part, _ in parts] for parts in found])
    return chunks_of([_as_array(name, table) for name, table in tables.items()])


def _partitions(frame: Any, timeout: float | None) -> list[tuple[Task, int]]:
    """Partitions that have rows, and how many."""
    from dask import delayed

    parts = frame.to_delayed()
    sizes = computed([delayed(len)(part) for part in parts], timeout)
    return [(part, int(size)) for part, size in zip(parts, sizes, strict=True) if size]


def chunks_of(arrays: Sequence[Any]) -> Chunks:
    """Chunks of rows of arrays, as those of the first Dask array among them."""
    sizes = tuple(size for size in next(filter(is_dask_array, arrays)).chunks[0] if size)
    blocks = [_aligned(array, sizes).to_delayed().reshape(len(sizes)).tolist() for array in arrays]
    return Chunks(sizes, blocks)


def _aligned(array: Any, sizes: tuple[int, ...]) -> Any:
    """Return an array as a Dask array with chunks of rows of these sizes."""
    if not is_dask_array(array):
        import dask.array as da

        return da.from_array(array, chunks=(sizes, *((size,) for size in array.shape[1:])))
    if array.chunks[0] == sizes and array.numblocks[1:] in ((), (1,)):
        return array
    if sum(array.chunks[0]) != sum(sizes):
        raise InputError(f"tables have {sum(sizes)} and {sum(array.chunks[0])} rows; row i must be one sample in all")
    return array.rechunk((sizes, *((-1,) * (array.ndim - 1))))


def row_chunks(tables: Mapping[str, Any], timeout: float | None = None) -> dict[str, Any]:
    """Return the tables as Dask arrays of float64, their rows cut as those of the first and columns not at all."""
    _check_labels(tables, timeout)
    arrays = {name: _as_array(name, table) for name, table in tables.items()}
    sizes = tuple(size for size in next(iter(arrays.values())).chunks[0] if size)
    return {
        name: _aligned(array, sizes).map_blocks(_numbers, name, dtype=np.float64, meta=np.zeros((0, 0)))
        for name, array in arrays.items()
    }


def _as_array(name: str, table: Any) -> Any:
    array = table.to_dask_array(lengths=True) if hasattr(table, "columns") else table
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"party {name!r}: expected a table with rows and columns, got shape {array.shape}")
    return array.compute_chunk_sizes() if np.isnan(array.shape[0]) else array


def _numbers(chunk: Any, party: str) -> Numbers:
    """Return a chunk as numbers, all of them finite."""
    try:
        X = np.asarray(chunk, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"party {party!r}: its table is not numeric ({error}); convert it first") from error
    if not np.isfinite(X).all():
        column = int(np.argmin(np.isfinite(X).all(axis=0)))
        raise InputError(f"party {party!r}: column {column + 1} contains NaN or infinity; leave such rows out")
    return X


def _check_labels(tables: Mapping[Any, Any], timeout: float | None) -> None:
    """Refuse DataFrames whose partitions do not have the same labels in the same order."""
    frames = {name: table for name, table in tables.items() if hasattr(table, "columns")}
    if len(frames) < 2:
        return
    from dask import delayed

    digest = delayed(lambda part: hashlib.sha256(repr(list(part.index)).encode()).hexdigest())
    digests = [delayed(list)([digest(part) for part in each.to_delayed()]) for each in frames.values()]
    found = dict(zip(frames, computed(digests, timeout), strict=True))
    first = next(iter(found))
    others = [name for name, digest in found.items() if digest != found[first]]
    if others:
        raise InputError(
            f"the indexes of {others} differ from that of {first!r}, or are cut otherwise; sort and partition all "
            "tables alike, or pass arrays whose rows match by position (table.to_dask_array(lengths=True))"
        )


# Work that goes to the rows


def on_one_worker(
    work: Callable[[], Any],
    n: int,
    sizes: Sequence[int],
    timeout: float | None = None,
    tell: Callable[[list[tuple[str, type[Warning]]]], None] | None = None,
) -> Any:
    """Do work on one worker, with all rows; n rows come back as Dask arrays, and warnings are passed to `tell`."""
    from dask import delayed, persist

    data, arrays = _pickled(work, is_collection)
    task = delayed(_worked, pure=False)(data, n, *arrays)
    (task,) = persist(task)  # a cluster keeps what is tall; without one, this process does
    pickled, shapes, told = computed([task[0]], timeout)[0]
    slices = [slice(end - size, end) for size, end in zip(sizes, np.cumsum(sizes).tolist(), strict=True)]
    if tell is not None:
        tell(told)
    kept = [_cut([task[1][j][own] for own in slices], shape, dtype, sizes) for j, (shape, dtype) in enumerate(shapes)]
    return _unpickled(pickled, *kept)


def chunk_results(work: Callable[..., Any], chunks: Chunks) -> list[Any]:
    """Return what `work(start, *chunks)` makes of each chunk of rows, in order."""
    return computed(_chunk_tasks(work, chunks))


def chunks_added(work: Callable[..., Any], chunks: Chunks) -> Any:
    """Return the sum of that over all chunks, added two by two on the workers."""
    from dask import delayed

    parts = _chunk_tasks(work, chunks)
    while len(parts) > 1:
        pairs = [delayed(operator.add)(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
        parts = [*pairs, *parts[2 * len(pairs) :]]
    return computed(parts)[0]


def chunks_made(
    work: Callable[..., tuple[Numbers, Any]], chunks: Chunks, width: int, dtype: Any, timeout: float | None = None
) -> tuple[Any, list[Any]]:
    """Return a Dask array of the rows that `work(start, *chunks)` makes, and what else it returns, in order."""
    from dask import persist

    tasks = _chunk_tasks(work, chunks)
    if cluster() is not None:
        tasks = list(persist(*tasks))
    others = computed([task[1] for task in tasks], timeout)
    return _cut([task[0] for task in tasks], (sum(chunks.sizes), width), dtype, chunks.sizes), others


def _chunk_tasks(work: Callable[..., Any], chunks: Chunks) -> list[Task]:
    from dask import delayed

    data, taken = _pickled(work, is_collection)
    shared = delayed(_unpickled, pure=False)(data, *taken)
    starts = np.append(0, np.cumsum(chunks.sizes))[:-1].tolist()
    return [delayed(operator.call)(shared, start, *own) for start, *own in zip(starts, *chunks.blocks, strict=True)]


def by_column(work: Callable[[Numbers], Any], array: Any) -> list[Any]:
    """Return what is made of each column of a Dask array, by one worker that has all of it."""
    from dask import delayed

    return computed([delayed(work)(array[:, j : j + 1]) for j in range(array.shape[1])])


def digest(array: Any) -> str:
    """Fingerprint of an array, from those of its chunks."""

    def of(start: int, rows: Any) -> str:
        return hashlib.sha256(np.ascontiguousarray(rows).tobytes()).hexdigest()

    parts = chunk_results(of, chunks_of([array])) if is_dask_array(array) else [of(0, array)]
    return hashlib.sha256(repr((str(array.dtype), array.shape, parts)).encode()).hexdigest()


def here(holder: Any) -> Any:
    """Return the same object with its Dask arrays in files without a name, written a chunk at a time."""
    data, arrays = _pickled(holder, is_dask_array)
    return _unpickled(data, *map(_in_file, arrays))


def _in_file(array: Any) -> Numbers:
    with tempfile.TemporaryFile() as file:
        out = np.memmap(file, dtype=array.dtype, mode="w+", shape=array.shape).view(np.ndarray)
    start = 0
    for block in array.to_delayed().reshape(-1):
        (rows,) = computed([block])
        out[start : start + len(rows)] = rows
        start += len(rows)
    return out


def _cut(parts: Sequence[Task], shape: tuple[int, ...], dtype: Any, sizes: Sequence[int]) -> Any:
    """Dask array of chunks of rows, each by a task."""
    import dask.array as da

    blocks = [da.from_delayed(part, (size, *shape[1:]), dtype) for part, size in zip(parts, sizes, strict=True)]
    return da.concatenate(blocks, axis=0)


def _worked(data: bytes, n: int, *arrays: Numbers) -> tuple[tuple[bytes, list[Any], list[Any]], list[Numbers]]:
    """Do the work where its rows are now."""

    def tall(x: Any) -> bool:
        if type(x) is not np.ndarray or n < LEAST_TALL or x.ndim == 0 or x.shape[0] != n:
            return False
        return x.ndim > 1 or x.dtype.kind != "f"  # flat ones may be eigenvalues, of which n may be asked

    result, told = recorded(_unpickled(data, *arrays))
    pickled, kept = _pickled(result, tall)
    return (pickled, [(x.shape, x.dtype) for x in kept], told), kept


_recording = Lock()  # Python records warnings for all threads at once


def recorded(work: Callable[[], Any]) -> tuple[Any, list[tuple[str, type[Warning]]]]:
    """Do work, and return its result and its warnings."""
    with _recording, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        result = work()
    return result, [(str(each.message), each.category) for each in told]


def _pickled(what: Any, take: Callable[[Any], bool]) -> tuple[bytes, list[Any]]:
    """Pickle an object without what is taken out of it, and return that apart."""
    import cloudpickle

    taken: list[Any] = []

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def persistent_id(self, x: Any) -> int | None:
            if not take(x):
                return None
            taken.append(x)
            return len(taken) - 1

    file = io.BytesIO()
    Pickler(file).dump(what)
    return file.getvalue(), taken


def _unpickled(data: bytes, *arrays: Any) -> Any:
    class Unpickler(pickle.Unpickler):
        def persistent_load(self, number: int) -> Any:
            return arrays[number]

    return Unpickler(io.BytesIO(data)).load()


# The cluster


def computed(wanted: Sequence[Task], timeout: float | None = None) -> list[Any]:
    """Return what was wanted, small enough to come here."""
    import dask

    client = cluster()
    if client is None:
        return list(dask.compute(*wanted))
    from distributed import KilledWorker, wait

    timeout = dask.config.get(TIMEOUT, None) if timeout is None else timeout
    futures = client.compute(list(wanted))
    try:
        wait(futures, timeout=timeout)
        return list(client.gather(futures))
    except TimeoutError as error:
        raise TooLateError(f"no answer within {timeout} s from the workers of a cluster; allow more time") from error
    except KilledWorker as error:
        raise NoAnswerError(f"a chunk took down every worker that had it ({error}); use smaller chunks") from error
    finally:
        client.cancel(futures)


def memory_of_a_worker() -> float:
    """Bytes that the smallest worker of the cluster in use may take; infinite where there is none, or no limit."""
    client = cluster()
    workers = [] if client is None else client.scheduler_info(n_workers=-1)["workers"].values()
    return min((float(each["memory_limit"]) for each in workers if each["memory_limit"]), default=float("inf"))


def cluster() -> Any:
    """Return the client of the cluster in use, if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None
