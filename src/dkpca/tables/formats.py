"""Tables by their suffix, opened without loading more than has to be: text, Parquet, Arrow, NumPy and workbooks.

A folder of Parquet files, as Spark and Dask write it, is one table, file after file by their names.
Files of AnnData and MuData are read whole.
"""

import glob
import logging
import math
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

from dkpca.errors import InputError
from dkpca.linalg.arrays import free_memory
from dkpca.tables import inputs, scverse, text_files
from dkpca.tables.text_files import UNNAMED, Cut, Dialect, Opened, check_names

TEXT_FILES = (".csv", ".tsv", ".tab", ".txt")
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
BY_COLUMN = (".parquet", ".pq", ".arrow", ".ipc", ".feather")  # formats that keep columns apart
SUFFIXES = (*TEXT_FILES, *BY_COLUMN, ".npy", ".npz", scverse.ANNDATA, *WORKBOOKS)
PARQUET = (".parquet", ".pq")
ASIDE = ("_", ".")  # first letters of files that are about the others: _SUCCESS, _metadata, .part-0.parquet.crc
SHEET_HEAD = 50  # rows that are looked at to find the header
PADDED = re.compile(rb'formatCode="(00+)"')  # a number format that shows leading zeros
TRY_WORKBOOK = """
import contextlib, sys, fastexcel
with contextlib.suppress(ImportError):
    import resource
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
try:
    book = fastexcel.read_excel(sys.argv[1])
    for name in book.sheet_names:
        book.load_sheet(name, header_row=None, n_rows=1, dtypes="string")
except fastexcel.FastExcelError as error:
    sys.exit(print(str(error).splitlines()[0]) or 1)
"""
SHEET_COPIES = 3  # of the cells of a sheet, until they are columns
LARGE = 2**26  # bytes of its files
AS_WRITTEN = Dialect()
ROWS = 2**17  # of a group of an embedding
Writer = Callable[[BinaryIO], object]


def open_table(path: Path, asked: Dialect = AS_WRITTEN, *, id_column: str | None = None) -> Opened:
    """Open a table, written as asked for or as it is found."""
    inside = path.parent.suffix.lower() == scverse.MUDATA  # FILE.h5mu/NAME is a modality
    if not (path.parent if inside else path).exists():
        raise FileNotFoundError(path)
    if str(path) != str(path).encode(errors="replace").decode():
        raise InputError(f"{path}: its name is not UTF-8; rename it")
    if inside or path.suffix.lower() in (scverse.ANNDATA, scverse.MUDATA):
        return _annotated(path)
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise InputError(f"{path}: is a directory or a pipe, not a table; give a file")
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty; check the file")
    kind = path.suffix.lower()
    if kind in TEXT_FILES:
        return text_files.open_text(path, asked, id_column=id_column)
    if kind in WORKBOOKS:
        return _workbook(path, asked, id_column)
    frame = _typed(path, kind)
    opened = Opened(str(path), frame, frame.collect_schema().names(), parts=(path,) if kind in BY_COLUMN else ())
    if kind in BY_COLUMN:  # of a large file, one column is read at a time; constant columns take no bytes
        columns = 1 if stays_in_its_file(opened) else len(opened.names)
        inputs.check_room(path, 8 * columns * int(frame.select(pl.len()).collect().item()), math.inf)
    return opened


def from_array(array: np.ndarray[Any, Any], name: str = "x") -> pl.DataFrame:
    """Columns x0, x1, ... of a matrix; a vector is one column of its own name."""
    if not array.nbytes:
        raise InputError(f"array {name!r} of shape {array.shape} has no values")
    if array.ndim == 1:
        return pl.DataFrame({name: array})
    if array.ndim != 2:
        raise InputError(f"array {name!r} has {array.ndim} dimensions; a table has rows and columns")
    return pl.DataFrame({f"{name}{j}": array[:, j] for j in range(array.shape[1])})


def _annotated(path: Path) -> Opened:
    """X of an AnnData file, or of a modality of a MuData file, beside the names of its observations."""
    ids, names, X = scverse.read(path)
    check_names([scverse.IDS, *names], str(path))
    columns = [pl.Series(name, X[:, j]) for j, name in enumerate(names)]
    frame = pl.DataFrame([pl.Series(scverse.IDS, ids, dtype=pl.String), *columns])
    return Opened(str(path), frame.lazy(), frame.columns)


def _folder(path: Path) -> Opened:
    files = folder_parts(path)
    frame = pl.scan_parquet(files, glob=False)
    between = f", from {files[0].name} to {files[-1].name}" if len(files) > 1 else f", {files[0].name}"
    said = f"read {len(files)} Parquet files in the order of their names{between}"
    return Opened(str(path), frame, frame.collect_schema().names(), [said], parts=tuple(files))


def _typed(path: Path, kind: str) -> pl.LazyFrame:
    if kind in PARQUET:
        return pl.scan_parquet(path, glob=False)  # data[1].parquet is a name, no pattern
    if kind in BY_COLUMN:
        return pl.scan_ipc(glob.escape(str(path)))
    if kind == ".npy":
        inputs.check_room(path, path.stat().st_size)
        with inputs.numpy_errors():
            return from_array(np.load(path, mmap_mode="r", allow_pickle=False)).lazy()
    if kind == ".npz":
        with inputs.numpy_errors(), np.load(path, allow_pickle=False) as arrays:
            inputs.check_room(path, 2 * sum(part.file_size for part in arrays.zip.infolist()))
            named = {key: arrays[key] for key in arrays}
            other = [key for key, array in named.items() if not isinstance(array, np.ndarray)]
            if other or not named:
                raise InputError(f"{path}: has {f'{other[0]!r}, which is no array' if other else 'no arrays'}")
            return pl.concat([from_array(array, key) for key, array in named.items()], how="horizontal").lazy()
    raise InputError(f"{path}: cannot read {kind!r} files; use one of {', '.join(SUFFIXES)}")


def is_folder(path: Path) -> bool:
    """Whether this is a folder with Parquet files in it."""
    return path.is_dir() and any(_is_part(file) for file in path.iterdir())


def folder_parts(folder: Path) -> list[Path]:
    """Return the files of a table in their order: by name, with numbers in names by their size."""
    found = sorted(file for file in folder.iterdir() if not file.name.startswith(ASIDE))
    others = [file for file in found if not _is_part(file)]
    if others:
        inner = "folders (such as those of a partitioned table)" if others[0].is_dir() else "other files"
        raise InputError(
            f"{folder}: a table in a folder consists of Parquet files, and this one has {inner} in it "
            f"({others[0].name}); move them away, or write the table again without them"
        )
    if not found:
        raise InputError(
            f"{folder}: is a directory or a pipe, not a table; give a file, or a folder of Parquet files"
        )
    found.sort(key=_as_people_count)
    _check_alike(folder, found)
    return found


def _is_part(file: Path) -> bool:
    return file.suffix.lower() in PARQUET and not file.name.startswith(ASIDE) and file.is_file()


def _as_people_count(file: Path) -> list[tuple[int, int, str]]:
    """Names in the order in which part.2 is before part.10."""
    pieces = re.split(r"(\d+)", file.name)
    return [(int(piece), len(piece), "") if piece.isdecimal() else (-1, 0, piece) for piece in pieces]


def _check_alike(folder: Path, files: list[Path]) -> None:
    """Refuse files whose columns differ: what one of them lacks would be missing in a part of the rows."""
    first = [*pl.read_parquet_schema(files[0]).items()]  # in their order, with any release of polars
    for file in files[1:]:
        schema = [*pl.read_parquet_schema(file).items()]
        if schema != first:
            odd = next((pair for pair in [*first, *schema] if pair not in first or pair not in schema), None)
            what = "are in another order" if odd is None else f"differ, for example {odd[0]!r} ({odd[1]})"
            raise InputError(
                f"{folder}: the columns of {files[0].name} and {file.name} {what}; write the same columns to all"
            )


def _workbook(path: Path, asked: Dialect, id_column: str | None) -> Opened:
    """Open one sheet; cells of text in it may be numbers as people write them."""
    if find_spec("fastexcel") is None:
        raise InputError(
            f"{path}: to read workbooks, install fastexcel: pip install 'dkpca[excel]'; or save it as CSV"
        )
    import fastexcel

    _try_workbook(path)
    book = fastexcel.read_excel(path)
    logging.getLogger("fastexcel").setLevel(logging.ERROR)  # a column without a value is reported in our own words
    sheet, head = _sheet(book, asked.sheet, path)
    rows = [[cell or "" for cell in row] for row in head.rows()]
    cut = Cut("", rows, list(range(1, len(rows) + 1)), head.width, 1.0)
    names, position, notes = text_files.header(cut, str(path), id_column)
    frame = book.load_sheet(sheet, header_row=position, schema_sample_rows=None).to_polars()
    frame.columns = names
    if id_column in names and frame[id_column].dtype.is_numeric():
        _refuse_padding(path, id_column)
    empty = [name for name in names if name.startswith(f"{UNNAMED}_") and frame[name].null_count() == frame.height]
    frame = frame.drop(empty)
    said, how = [f"read sheet {sheet!r}", *notes], replace(asked, sheet=sheet)
    return Opened(str(path), frame.lazy(), frame.columns, said, how)


def _try_workbook(path: Path) -> None:
    """Read it in another process first: one stray cell can ask for 500 GB, and the reader then ends its process."""
    most = max(2**30, free_memory(np.empty(0)) // SHEET_COPIES)
    tried = subprocess.run(
        [sys.executable, "-P", "-c", TRY_WORKBOOK, str(path), str(most)], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        reason = tried.stdout.strip() or "it is damaged, or its cells take more memory than is free"
        raise InputError(f"{path}: cannot be read as a workbook ({reason}); check the file")


def _sheet(book: Any, asked: str | None, path: Path) -> tuple[str, pl.DataFrame]:
    """The sheet asked for, or the only one with something on it; and its first rows, as text."""
    names = list(book.sheet_names)
    if asked is not None and asked not in names:
        raise InputError(f"{path}: has no sheet {asked!r}; it has {names}")
    heads = {
        name: book.load_sheet(name, header_row=None, n_rows=SHEET_HEAD, dtypes="string", skip_rows=0).to_polars()
        for name in ([asked] if asked is not None else names)
    }
    filled = {name: head for name, head in heads.items() if head.height}
    if len(filled) != 1:
        several = f"tables on the sheets {list(filled)}; choose one with --sheet"
        raise InputError(f"{path}: has {several if filled else 'no table on any sheet; check the file'}")
    return next(iter(filled.items()))


def _refuse_padding(path: Path, id_column: str) -> None:
    """Ids that are numbers may be shown with zeros that are not in the file."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        named = "xl/styles.xml" in archive.namelist()
        styles = archive.open("xl/styles.xml").read(LARGE) if named else b""
    padded = PADDED.search(styles)
    if padded:
        raise InputError(
            f"{path}: the ids in column {id_column!r} are numbers, and the workbook shows numbers with leading zeros "
            f"(format {padded[1].decode()}), which it does not store; turn that column into text, or save as CSV"
        )


class Stored:
    """As much of a DataFrame as preparing a table needs."""

    def __init__(self, frame: pl.LazyFrame, columns: Sequence[str], source: str) -> None:
        self._frame, self.columns, self._source = frame, list(columns), source
        known = frame.collect_schema()
        self.schema = {name: known[name] for name in self.columns}
        self.height = int(frame.select(pl.len()).collect().item())

    def __getitem__(self, wanted: Any) -> Any:
        """One column by its name, or rows by their numbers."""
        if not isinstance(wanted, str):
            return pl.DataFrame([self[name][wanted] for name in self.columns])
        try:
            return self._frame.select(wanted).collect(engine="streaming")[wanted]
        except (pl.exceptions.PolarsError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise InputError(f"{self._source}: column {wanted!r} cannot be read ({reason}); check it") from error

    def select(self, columns: Sequence[str]) -> "Stored":
        """Some of the columns."""
        return Stored(self._frame, columns, self._source)


def stays_in_its_file(opened: Opened) -> bool:
    """Whether a table is better left where it is."""
    return sum(part.stat().st_size for part in opened.parts) >= LARGE


def embedding_files(
    sample_ids: Sequence[str], scores: np.ndarray[Any, Any], **marks: Sequence[bool]
) -> dict[str, Writer]:
    """Scores as CSV and Parquet: the first column has the sample ids, the last ones the marks of new samples."""

    def rows(start: int, end: int) -> pl.DataFrame:
        columns = [pl.Series(f"component_{d + 1}", scores[start:end, d]) for d in range(scores.shape[1])]
        frame = pl.DataFrame([pl.Series("sample", list(sample_ids[start:end]), dtype=pl.String), *columns])
        return frame.with_columns(
            pl.Series(mark, list(of[start:end]), dtype=pl.Boolean) for mark, of in marks.items()
        )

    def groups(columns: list[str] | None, *unused: object) -> Iterator[pl.DataFrame]:
        for start in range(0, max(len(scores), 1), ROWS):
            yield rows(start, start + ROWS).select(columns or pl.all())

    table = register_io_source(groups, schema=rows(0, 0).schema)
    return {
        "embedding.csv": table.sink_csv,
        "embedding.parquet": lambda file: table.sink_parquet(file, row_group_size=ROWS),
    }
