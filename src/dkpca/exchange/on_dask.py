"""Tables whose rows lie on the workers of a Dask cluster: work on chunks, added up in the order of their numbers.

Nothing is kept on a worker between passes, so that one that dies costs the tasks it had. Without a cluster, Dask
computes in threads of this process.
"""

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError, NoAnswerError, TooLateError

Key = Any  # what Dask calls delayed


def is_collection(table: Any) -> bool:
    """Whether a table is a Dask array or DataFrame."""
    return type(table).__module__.partition(".")[0] in ("dask", "dask_expr") and hasattr(table, "__dask_graph__")


@dataclass(frozen=True)
class Chunks:
    """Tables of all parties, their rows cut alike."""

    blocks: Mapping[str, Sequence[Key]]  # by party
    sizes: tuple[int, ...]  # rows of each chunk
    columns: Mapping[str, tuple[str, ...] | None]  # names, where the tables have some
    widths: Mapping[str, int]
    timeout: float | None = None

    @property
    def words(self) -> str:
        """Where the rows are, for a sentence about a solver."""
        return f"in {len(self.sizes)} chunks of rows that stay on their workers"

    def reduced(self, leaf: Callable[[int], Key]) -> Any:
        """What is made of each chunk, given its number, added up two by two."""
        from dask import delayed

        parts = [leaf(number) for number in range(len(self.sizes))]
        while len(parts) > 1:
            pairs = [delayed(_sum)(*parts[i : i + 2]) for i in range(0, len(parts) - 1, 2)]
            parts = [*pairs, *parts[2 * len(pairs) :]]
        return self.computed(parts)[0]

    def computed(self, wanted: Sequence[Key]) -> list[Any]:
        """Return what was wanted, small enough to come here."""
        client = _client()
        if client is None:
            import dask

            return list(dask.compute(*wanted))
        futures = client.compute(list(wanted))
        try:
            return list(client.gather(_waited(futures, self.timeout)))
        except Exception as error:
            if type(error).__name__ == "KilledWorker":
                raise NoAnswerError(
                    f"a chunk of rows took down every worker that had it ({error}); use smaller chunks of rows, or "
                    "workers with more memory"
                ) from error
            raise
        finally:
            client.cancel(futures)


def shared(value: Any) -> Key:
    """Send what all tasks of a pass need once, and not with each of them."""
    from dask import delayed

    return delayed(value, traverse=False)


def task(work: Callable[..., Any], *arguments: Any) -> Key:
    """Return work that a worker is to do."""
    from dask import delayed

    return delayed(work)(*arguments)


def chunked(tables: Mapping[str, Any], timeout: float | None = None) -> Chunks:
    """Cut the rows of all tables as those of the first are."""
    labels = {name: _label_digests(table) for name, table in tables.items()}
    _check_labels({name: key for name, key in labels.items() if key is not None}, timeout)
    arrays = {name: _as_array(name, table) for name, table in tables.items()}
    rows = {name: array.shape[0] for name, array in arrays.items()}
    if len(set(rows.values())) > 1:
        raise InputError(f"parties have different numbers of rows {rows}; row i must be the same sample everywhere")
    sizes = tuple(size for size in next(iter(arrays.values())).chunks[0] if size)
    if sum(sizes) < 2:
        raise InputError(f"the tables have {sum(sizes)} rows; a fit needs at least 2 samples")
    blocks = {name: array.rechunk((sizes, -1)).to_delayed()[:, 0].tolist() for name, array in arrays.items()}
    columns = {
        name: tuple(map(str, table.columns)) if hasattr(table, "columns") else None for name, table in tables.items()
    }
    return Chunks(blocks, sizes, columns, {name: int(array.shape[1]) for name, array in arrays.items()}, timeout)


def as_array(parts: Sequence[Key], sizes: Sequence[int], width: int) -> Any:
    """Return a Dask array of the same chunks of rows, not computed yet."""
    import dask.array as da

    blocks = [da.from_delayed(part, (size, width), np.float64) for part, size in zip(parts, sizes, strict=True)]
    return da.concatenate(blocks, axis=0)


def _sum(a: Any, b: Any) -> Any:
    return a + b


def _as_array(name: str, table: Any) -> Any:
    array = table.to_dask_array(lengths=True) if hasattr(table, "columns") else table
    if array.ndim != 2 or 0 in array.shape:
        raise InputError(f"party {name!r}: expected a table with rows and columns, got shape {array.shape}")
    return array.compute_chunk_sizes() if np.isnan(array.shape[0]) else array


def _label_digests(table: Any) -> Key | None:
    """Fingerprints of the index of a DataFrame, one for each of its partitions."""
    if not hasattr(table, "columns"):
        return None
    return task(list, [task(_index_digest, part) for part in table.to_delayed()])


def _index_digest(frame: Any) -> tuple[int, str]:
    digest = hashlib.sha256()
    for label in frame.index:
        digest.update(repr(label).encode() + b"\n")
    return len(frame), digest.hexdigest()


def _check_labels(digests: Mapping[str, Key], timeout: float | None) -> None:
    """Refuse DataFrames whose partitions do not have the same labels in the same order."""
    if len(digests) < 2:
        return
    found = dict(zip(digests, Chunks({}, (), {}, {}, timeout).computed(list(digests.values())), strict=True))
    first = next(iter(found))
    others = [name for name, digest in found.items() if digest != found[first]]
    if others:
        raise InputError(
            f"the indexes of {others} differ from that of {first!r}, or are cut otherwise, and rows on a cluster are "
            "not moved; sort and partition all tables alike first, or, if rows match by position, pass arrays "
            "(table.to_dask_array(lengths=True))"
        )


def _client() -> Any:
    """Return the cluster in use, if there is one."""
    distributed = sys.modules.get("distributed")
    if distributed is None:
        return None
    try:
        return distributed.get_client()
    except ValueError:
        return None


def _waited(futures: list[Any], timeout: float | None) -> list[Any]:
    from distributed import wait

    try:
        wait(futures, timeout=timeout)
    except TimeoutError as error:
        raise TooLateError(
            f"no answer within {timeout} s from the workers of the cluster; look at its dashboard, or allow more time"
        ) from error
    return futures
