"""Excel workbooks (.xlsx, .xlsm, .xls, .xlsb) and LibreOffice's .ods, read by calamine through `fastexcel`."""

import contextlib
import logging
import re
import zipfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import polars as pl

from dkpca.errors import InputError
from dkpca.tables.dialect import UNNAMED

HEAD = 50  # rows that are looked at to find the header
PADDED = re.compile(rb'formatCode="(00+)"')  # a number format that shows leading zeros


def open_workbook(path: Path, sheet: str | None, *, id_column: str | None) -> tuple[pl.DataFrame, str, list[str]]:
    """Return the table, the name of its sheet, and notes; text in it is left as it is."""
    if find_spec("fastexcel") is None:
        raise InputError(
            f"{path}: to read workbooks, install fastexcel: pip install 'dkpca[excel]'; or save it as CSV"
        )
    import fastexcel

    try:
        book = fastexcel.read_excel(path)
    except fastexcel.FastExcelError as error:
        raise InputError(
            f"{path}: cannot be read as a workbook ({str(error).splitlines()[0]}); check the file"
        ) from error
    with _quiet():
        name, head = _sheet(book, sheet, path)
        position, notes = _header(head, path)
        loaded = book.load_sheet(name, header_row=position, schema_sample_rows=None).to_polars()
    frame = _named(loaded, head.row(position), path)
    if id_column in frame.columns and frame[id_column].dtype.is_numeric():
        _refuse_padding(path, id_column)
    return frame, name, notes


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep to ourselves that a column without a value has no type; we report such a column in our own words."""
    log = logging.getLogger("fastexcel")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _sheet(book: Any, asked: str | None, path: Path) -> tuple[str, pl.DataFrame]:
    """The sheet asked for, or the only one with something on it; and its first rows, as text."""
    names = list(book.sheet_names)
    if asked is not None and asked not in names:
        raise InputError(f"{path}: has no sheet {asked!r}; it has {names}")
    heads = {
        name: book.load_sheet(name, header_row=None, n_rows=HEAD, dtypes="string", skip_rows=0).to_polars()
        for name in ([asked] if asked is not None else names)
    }
    filled = {name: head for name, head in heads.items() if head.height}
    if len(filled) != 1:
        what = "nothing on its sheets" if not filled else f"tables on the sheets {list(filled)}"
        raise InputError(f"{path}: has {what}; say which to read with --sheet")
    return next(iter(filled.items()))


def _header(head: pl.DataFrame, path: Path) -> tuple[int, list[str]]:
    """Row of the header: the first with more than a title in it."""
    filled = [sum(cell is not None and bool(cell.strip()) for cell in row) for row in head.rows()]
    wanted = 2 if head.width > 2 else 1
    position = next((row for row, count in enumerate(filled) if count >= wanted), None)
    if position is None:
        raise InputError(f"{path}: has no header; the first row of a table names its columns")
    titles = sum(map(bool, filled[:position]))
    return position, [f"{titles} lines above the header left out"] if titles else []


def _named(frame: pl.DataFrame, header: tuple[Any, ...], path: Path) -> pl.DataFrame:
    names = [(cell or "").strip() or f"{UNNAMED}_{n + 1}" for n, cell in enumerate(header)]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: {len(twice)} names stand over several columns, as {twice[0]!r}; rename them")
    frame.columns = names
    empty = [name for name in names if name.startswith(f"{UNNAMED}_") and frame[name].null_count() == frame.height]
    return frame.drop(empty)


def _refuse_padding(path: Path, id_column: str) -> None:
    """Ids that are numbers may be shown with zeros that are not in the file."""
    if not zipfile.is_zipfile(path):
        return
    with zipfile.ZipFile(path) as archive:
        styles = archive.read("xl/styles.xml") if "xl/styles.xml" in archive.namelist() else b""
    padded = PADDED.search(styles)
    if padded:
        raise InputError(
            f"{path}: the ids in column {id_column!r} are numbers, and the workbook shows numbers with leading zeros "
            f"(format {padded[1].decode()}), which are not part of them; turn that column into text, or save as CSV"
        )
