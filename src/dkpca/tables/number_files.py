"""Parquet and Arrow tables as the library takes them: every column a number as it is, loaded one column at a time."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl

from dkpca.errors import InputError, StorageError
from dkpca.linalg import memory
from dkpca.tables import reading
from dkpca.tables.column_rules import are_ids, called_as_ids
from dkpca.tables.reading import Matrix, Reading, some
from dkpca.tables.stored import Stored

AS_IT_IS = Reading()


def column_names(party: str, path: Path) -> tuple[str, ...]:
    """Names of the columns, nothing of them loaded."""
    with _about(party):
        return tuple(reading.column_names(path))


def read_numbers(party: str, path: Path, columns: Sequence[str] | None = None) -> Matrix:
    """Columns of a table of numbers, in its own order or in this one."""
    with _about(party), reading.opened(path, AS_IT_IS) as table:
        stored = Stored(table.frame, columns or table.names, table.source)
        others = [name for name, kind in stored.schema.items() if not (kind.is_numeric() or kind == pl.Boolean)]
        if others:
            raise InputError(
                f"{table.source}: the columns {some(others)} are no numbers; leave them out of the file, pass a "
                "DataFrame, or use the dkpca command, which turns text and dates into numbers"
            )
        called = called_as_ids(stored.columns) if columns is None else []
        ids = [name for name in called if are_ids(stored[name].to_numpy())]
        if ids:
            raise InputError(
                f"{table.source}: column {ids[0]!r} looks like the ids of the samples, which are no features; leave "
                "it out of the file, or use the dkpca command with --id"
            )
        X = memory.tall((stored.height, len(stored.columns)))
        for place, name in zip(X.T, stored.columns, strict=True):
            place[:] = _numbers(stored[name], table.source)
    return X


def _numbers(column: pl.Series, source: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    values = column.cast(pl.Float64).fill_null(np.nan).to_numpy()
    if not np.isfinite(values).all():
        row = int(np.argmin(np.isfinite(values)))
        what = "is missing" if np.isnan(values[row]) else "is infinite"
        raise InputError(
            f"{source}: column {column.name!r} {what} in row {row + 1}; fill in such values, or use the dkpca "
            "command, which does so"
        )
    return values


@contextlib.contextmanager
def _about(party: str) -> Iterator[None]:
    """Name the party in what goes wrong."""
    try:
        yield
    except (InputError, StorageError) as error:
        raise InputError(f"party {party!r}: {error}") from error
