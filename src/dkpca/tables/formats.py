"""Tables by their suffix, opened without loading more than has to be."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.tables import delimited, dialect, folders, numerals, numpy_files, workbooks
from dkpca.tables.delimited import Delimited
from dkpca.tables.dialect import Dialect

TEXT_FILES = (".csv", ".tsv", ".tab", ".txt")
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
SUFFIXES = (*TEXT_FILES, ".parquet", ".pq", ".arrow", ".ipc", ".feather", ".npy", ".npz", *WORKBOOKS)
BY_COLUMN = (".parquet", ".pq", ".arrow", ".ipc", ".feather")  # formats that keep columns apart
AS_WRITTEN = Dialect()


@dataclass(frozen=True)
class Opened:
    """A table that was opened, and what is known of it before it is read."""

    source: str
    frame: pl.LazyFrame
    names: list[str]
    notes: list[str] = field(default_factory=list)
    dialect: Dialect | None = None  # None: the format itself says what is a number
    text_file: Delimited | None = None
    proved: bool = True  # whether the decimal mark is certain
    parts: tuple[Path, ...] = ()  # files that keep types, and columns apart

    def written(self, names: Sequence[str]) -> list[str]:
        """Those columns whose text may be numbers as people write them."""
        if self.dialect is None:
            return []
        schema = self.frame.collect_schema()
        return [name for name in names if schema[name] == pl.String]


def open_table(
    path: Path, asked: Dialect = AS_WRITTEN, *, id_column: str | None = None, likely: Dialect = AS_WRITTEN
) -> Opened:
    """Open a table; `likely` decides what the file leaves open."""
    if not path.exists():
        raise FileNotFoundError(path)
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise InputError(f"{path}: is a directory or a pipe, not a table; give a file")
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty; check the file")
    kind = path.suffix.lower()
    if kind in TEXT_FILES:
        return _text_file(path, asked, id_column, likely)
    if kind in WORKBOOKS:
        return _workbook(path, asked, id_column, likely)
    frame = _typed(path, kind)
    return Opened(str(path), frame, frame.collect_schema().names(), parts=(path,) if kind in BY_COLUMN else ())


def from_array(array: np.ndarray[Any, Any], name: str = "x") -> pl.DataFrame:
    """Columns x0, x1, ... of a matrix; a vector is one column of its own name."""
    if array.ndim == 1:
        return pl.DataFrame({name: array})
    if array.ndim != 2:
        raise InputError(f"array {name!r} has {array.ndim} dimensions; a table has rows and columns")
    return pl.DataFrame({f"{name}{j}": array[:, j] for j in range(array.shape[1])})


def _text_file(path: Path, asked: Dialect, id_column: str | None, likely: Dialect) -> Opened:
    found = delimited.open_text(path, asked, id_column=id_column, likely=likely)
    said = dialect.described(found.dialect)
    notes = [*([f"read as {said}"] if said else []), *found.layout.notes]
    return Opened(str(path), found.frame, found.names, notes, found.dialect, found, found.layout.proved)


def _workbook(path: Path, asked: Dialect, id_column: str | None, likely: Dialect) -> Opened:
    frame, sheet, notes = workbooks.open_workbook(path, asked.sheet, id_column=id_column)
    evidence = numerals.Evidence()
    for name in frame.columns:
        if name != id_column and frame[name].dtype == pl.String:
            evidence.add_column(name, frame[name].drop_nulls().head(dialect.ROWS))
    if asked.decimal is None:
        decimal, thousands = numerals.decide(evidence, str(path), likely=likely.decimal)
    else:
        decimal, thousands = asked.decimal, asked.thousands or ""
    missing = numerals.USUAL_MISSING if asked.missing is None else asked.missing
    how = replace(asked, decimal=decimal, thousands=thousands, missing=missing, sheet=sheet)
    return Opened(str(path), frame.lazy(), frame.columns, [f"read sheet {sheet!r}", *notes], how)


def _folder(path: Path) -> Opened:
    files = folders.parts(path)
    frame = pl.scan_parquet(files)
    names = frame.collect_schema().names()
    return Opened(str(path), frame, names, [folders.words(files)], parts=tuple(files))


def _typed(path: Path, kind: str) -> pl.LazyFrame:
    if kind in (".parquet", ".pq"):
        return pl.scan_parquet(path)
    if kind in (".arrow", ".ipc", ".feather"):
        return pl.scan_ipc(path)
    if kind == ".npy":
        with numpy_files.reading():
            return from_array(np.load(path, mmap_mode="r", allow_pickle=False)).lazy()
    if kind == ".npz":
        with numpy_files.reading(), np.load(path, allow_pickle=False) as arrays:
            return pl.concat([from_array(arrays[key], key) for key in arrays], how="horizontal").lazy()
    raise InputError(f"{path}: not a table by its suffix {kind!r}; use one of {', '.join(SUFFIXES)}")
