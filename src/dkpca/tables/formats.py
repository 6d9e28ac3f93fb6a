"""Tables by their suffix, opened without loading more than has to be: text, Parquet, Arrow, NumPy and workbooks.

Files of AnnData and MuData are read whole.
"""

import csv
import glob
import logging
import lzma
import math
import re
import subprocess
import sys
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import polars as pl

from dkpca.errors import InputError, needed_from
from dkpca.linalg.arrays import free_memory
from dkpca.tables import inputs, scverse, text_files
from dkpca.tables.text_files import TITLES, Dialect, Opened, check_names

TEXT_FILES = (".csv", ".tsv", ".tab", ".txt")
WORKBOOKS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
TYPED = (".parquet", ".pq", ".arrow", ".ipc", ".feather")  # formats that say what a column holds
SUFFIXES = (*TEXT_FILES, *TYPED, ".npy", scverse.ANNDATA, *WORKBOOKS)
BROKEN = (LookupError, RuntimeError, EOFError, csv.Error, zlib.error, lzma.LZMAError, zipfile.BadZipFile)  # of files
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
LARGEST_STYLES = 2**26  # bytes
AS_WRITTEN = Dialect()
Writer = Callable[[BinaryIO], object]


def open_table(path: Path, asked: Dialect = AS_WRITTEN, *, id_column: str | None = None) -> Opened:
    """Open a table, written as asked for or as it is found."""
    kind, inside = path.suffix.lower(), path.parent.suffix.lower() == scverse.MUDATA  # FILE.h5mu/NAME is a modality
    if not (path.parent if inside else path).exists():
        raise FileNotFoundError(path)
    if str(path) != str(path).encode(errors="replace").decode():
        raise InputError(f"{path}: its name is not UTF-8; rename it")
    if inside or kind in (scverse.ANNDATA, scverse.MUDATA):
        return _annotated(path)
    if not path.is_file():
        raise InputError(f"{path}: is a directory or a pipe, not a table; give a file")
    if not path.stat().st_size:
        raise InputError(f"{path}: is empty; check the file")
    if kind in TEXT_FILES:
        return text_files.open_text(path, asked)
    if kind in WORKBOOKS:
        return _workbook(path, asked, id_column)
    if kind == ".npy":
        return _array_file(path)
    if kind not in TYPED:
        raise InputError(f"{path}: cannot read {kind!r} files; use one of {', '.join(SUFFIXES)}")
    # A name with brackets is a name, and no pattern.
    parquet = kind in (".parquet", ".pq")
    scanned = pl.scan_parquet(path, glob=False) if parquet else pl.scan_ipc(glob.escape(str(path)))
    names = scanned.collect_schema().names()  # constant columns take no bytes of the file
    inputs.check_room(path, 8 * len(names) * int(scanned.select(pl.len()).collect().item()), math.inf)
    return Opened(str(path), scanned, names)


def _array_file(path: Path) -> Opened:
    inputs.check_room(path, path.stat().st_size)
    try:
        frame = from_array(np.load(path, mmap_mode="r", allow_pickle=False))
    except (*BROKEN, tokenize.TokenError, SyntaxError, TypeError, OverflowError, SystemError) as error:
        raise ValueError(f"it is damaged: {error}") from error
    return Opened(str(path), frame.lazy(), frame.columns)


def from_array(array: Any) -> pl.DataFrame:
    """Columns x0, x1, ... of a matrix; a vector is the column x."""
    if not array.nbytes or array.ndim > 2:
        raise InputError(f"array of shape {array.shape} has no values, or is no table of rows and columns")
    return pl.DataFrame(array, schema=["x"] if array.ndim == 1 else [f"x{j}" for j in range(array.shape[1])])


def _annotated(path: Path) -> Opened:
    """X of an AnnData file, or of a modality of a MuData file, beside the names of its observations."""
    ids, names, X = scverse.read(path)
    check_names([scverse.IDS, *names], str(path))
    frame = pl.DataFrame(X, schema=names).insert_column(0, pl.Series(scverse.IDS, ids, dtype=pl.String))
    return Opened(str(path), frame.lazy(), frame.columns)


def _workbook(path: Path, asked: Dialect, id_column: str | None) -> Opened:
    """Open one sheet; cells of text in it may be numbers as people write them."""
    with needed_from("excel", f"{path}: unless it is saved as CSV, it"):
        import fastexcel

    _try_workbook(path)
    book = fastexcel.read_excel(path)
    logging.getLogger("fastexcel").setLevel(logging.ERROR)  # a column without a value is reported in our own words
    sheet, rows = _sheet(book, asked.sheet, path)
    names, notes = text_files.header([[cell or "" for cell in row] for row in rows], str(path))
    frame = book.load_sheet(sheet, header_row=0, schema_sample_rows=None).to_polars()
    frame.columns = names
    if id_column in names and frame[id_column].dtype.is_numeric():
        _refuse_padding(path, id_column)
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


def _sheet(book: Any, asked: str | None, path: Path) -> tuple[str, list[Sequence[Any]]]:
    """The sheet asked for, or the only one with something on it; and its first rows, as text."""
    names = list(book.sheet_names)
    if asked is not None and asked not in names:
        raise InputError(f"{path}: has no sheet {asked!r}; it has {names}")
    heads = {
        name: book.load_sheet(name, header_row=None, n_rows=TITLES, dtypes="string", skip_rows=0).to_polars()
        for name in ([asked] if asked is not None else names)
    }
    filled = {name: head.rows() for name, head in heads.items() if head.height}
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
        padded = PADDED.search(archive.open("xl/styles.xml").read(LARGEST_STYLES) if named else b"")
    if padded:
        raise InputError(
            f"{path}: the ids in column {id_column!r} are numbers, and some cells show leading zeros (format "
            f"{padded[1].decode()}), which a workbook does not store; turn that column into text, or save as CSV; "
            "or pass --id-normalize zeros, as all other parties then have to"
        )


def embedding_files(ids: Sequence[str], scores: np.ndarray[Any, Any], **marks: Sequence[bool]) -> dict[str, Writer]:
    """Scores as CSV and Parquet: the first column has the sample ids, the last ones the marks of new samples."""
    components = {f"component_{d + 1}": scores[:, d] for d in range(scores.shape[1])}
    table = pl.DataFrame({"sample": list(ids), **components, **marks})
    return {"embedding.csv": table.write_csv, "embedding.parquet": table.write_parquet}
