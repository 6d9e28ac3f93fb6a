"""Text files as people have them: the first line is the header; encoding and separator are asked for, or found.

A file is opened as columns of text, of which nothing is loaded yet.
"""

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path

import polars as pl

from dkpca.errors import InputError
from dkpca.settings import Allowed, are_texts, choice, setting
from dkpca.tables import numerals

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
ROWS, TITLES = 2000, 10  # rows of the head that are looked at; for a title
A_NUMBER = "|".join(numerals.PLAIN.values())
UNNAMED = "unnamed"
MOST_COLUMNS = 2**20
UTF8 = "utf-8-sig"  # with or without its mark


# What an entry of party.toml may be, and the words for it.
NAME: Allowed = (lambda value: isinstance(value, str) and bool(value), "a text that is not empty")
MARK: Allowed = (lambda value: isinstance(value, str) and len(value) == 1, "one character, or the word tab")
POINT = choice((",", "."))
NAME_OR_NOTHING: Allowed = (lambda value: isinstance(value, str), "a text, perhaps an empty one")
NAMES: Allowed = (are_texts, "a list of texts")


@dataclass(frozen=True)
class Dialect:
    """How a table is written; None: find out. Fields are options of `dkpca check` and entries of party.toml."""

    separator: str | None = setting(
        None, MARK, "Separator between columns, such as ; or tab (default: detected).", option="--separator"
    )
    decimal: str | None = setting(None, POINT, "Decimal mark: , or . (default: detected).", option="--decimal")
    thousands: str | None = setting(
        None, NAME_OR_NOTHING, "Thousands separator (default: none).", option="--thousands"
    )
    missing: tuple[str, ...] | None = setting(
        None,
        NAMES,
        "Values to treat as missing, besides empty cells (default: NA, n/a, -, #NV and similar).",
        option="--null-values",
    )
    sheet: str | None = setting(None, NAME, "Sheet to read, if the workbook has several.", option="--sheet")
    encoding: str | None = None  # in states of before 0.3; the file itself says it

    def __post_init__(self) -> None:
        if self.decimal is not None and self.decimal == self.thousands:
            raise InputError(f"{self.decimal!r} cannot be both the decimal mark and the thousands separator")


def described(dialect: Dialect) -> list[str]:
    """Say in a few words how a table is written, where it is not with commas and points."""
    usual = dialect.separator in (None, ",")
    cut = "" if usual else f"separated by {SEPARATORS.get(dialect.separator or '', repr(dialect.separator))}"
    words = ", ".join(filter(None, [cut, "decimal comma" if dialect.decimal == "," else ""]))
    return [f"format: {words}"] if words else []


def header(rows: Sequence[Sequence[str]], source: str) -> tuple[list[str], list[str]]:
    """Names of all columns, each once, and notes; columns without a name get one by their position."""
    check_title(rows, source)
    cells = rows[0]
    if not any(map(str.strip, cells)):
        raise InputError(f"{source}: no header row found; write the names of the columns into the first line")
    if len(cells) > MOST_COLUMNS:
        raise InputError(f"{source}: has {len(cells):,} columns, more than {MOST_COLUMNS:,}; check the file")
    names = [cell.strip() or f"{UNNAMED}_{position + 1}" for position, cell in enumerate(cells)]
    check_names(names, source)
    numbers = [name for name in names[1:] if re.search(A_NUMBER, name) and not name.isdecimal()]
    said = "the header has the number {!r}; if it is a row of data, write a header above it"
    return names, [said.format(number) for number in numbers[:1]]


def check_title(rows: Sequence[Sequence[str]], source: str) -> None:
    """Refuse a table with a title above its header: a row of few cells, above one of many that has no number."""
    filled = [[cell.strip() for cell in row if cell.strip()] for row in rows[:TITLES]]
    below = next((row for row in filled if len(row) >= max(3, 2 * len(filled[0]))), [])
    if filled[0] and below and not any(re.search(A_NUMBER, cell) for cell in below):
        where = f"row 1 looks like a title ({filled[0][0]!r}), and row {filled.index(below) + 1} like the header"
        raise InputError(f"{source}: {where}; delete the rows above the header, or name every column in row 1")


def check_names(names: Sequence[str], source: str) -> None:
    """Refuse columns of one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(f"{source}: the header has {twice[0]!r} more than once; rename these columns")


@dataclass(frozen=True)
class Opened:
    """A table that was opened, and what is known of it before it is read."""

    source: str
    frame: pl.LazyFrame
    names: list[str]
    notes: list[str] = field(default_factory=list)
    dialect: Dialect | None = None  # None: the format itself says what is a number
    encoding: str | None = None  # None: it is no text file


def open_text(path: Path, asked: Dialect) -> Opened:
    """Find out how a text file is written, and open it."""
    encoding = _encoding(path)
    with path.open(encoding=encoding, newline="") as file:
        first = file.readline()
    if first.endswith("\r"):
        raise InputError(f"{path}: has old Macintosh line endings (CR); save it with other line endings")
    separator = asked.separator or _separator(path, encoding, first)
    rows = _rows(path, encoding, separator, ROWS)
    (width, _), *_ = Counter(len(row) for row in rows[1:] if row).most_common(1) or [(len(rows[0]), 0)]
    if not asked.separator and (width == 1 or width != len(rows[0])):  # a title says nothing about the separator
        for mark in SEPARATORS:
            check_title(_rows(path, encoding, mark, TITLES), str(path))
    names, notes = header(rows, str(path))
    if len(names) < width:
        raise InputError(
            f"{path}: the first line has {len(names)} names, but most rows have {width} values; remove lines above "
            "the header, and name every column"
        )
    # polars reads UTF-8 from the file itself.
    frame = pl.scan_csv(
        path if encoding == UTF8 else io.BytesIO(path.read_bytes().decode(encoding).encode()),
        glob=False,  # data[1].csv is a name, no pattern
        separator=separator,
        infer_schema=False,
        with_column_names=lambda _: names,
    )
    said = [] if encoding == UTF8 else [f"encoding: {encoding}"]
    return Opened(str(path), frame, names, [*said, *notes], replace(asked, separator=separator), encoding)


def _rows(path: Path, encoding: str, separator: str, most: int) -> list[list[str]]:
    with path.open(encoding=encoding, newline="") as file:
        return [*islice(csv.reader(file, delimiter=separator), most)] or [[]]


def _separator(path: Path, encoding: str, first: str) -> str:
    """The one mark that cuts the header; of several, the one that cuts all rows into as many cells."""
    rows = {mark: _rows(path, encoding, mark, ROWS) for mark in SEPARATORS if mark in first}
    marks = [mark for mark, cut in rows.items() if len(cut[0]) > 1]
    if len(marks) > 1:
        marks = [mark for mark in marks if len({len(row) for row in rows[mark] if row}) == 1] or marks
    if len(marks) > 1:
        candidates = " or ".join(SEPARATORS[mark] for mark in marks)
        raise InputError(f"{path}: its columns may be separated by {candidates}; choose one with --separator")
    return marks[0] if marks else ","


def check_widths(opened: Opened) -> None:
    """Refuse a text file with a row that is longer or shorter than its header."""
    assert opened.dialect is not None
    width, used = len(opened.names), opened.dialect.separator or ","
    with Path(opened.source).open(encoding=opened.encoding, newline="") as file:
        for number, row in enumerate(csv.reader(file, delimiter=used)):
            if len(row) not in (0, width):
                raise InputError(
                    f"{opened.source}: row {number} has {len(row)} values, but the header has {width} names; correct "
                    f"that row, get the whole file, or set --separator ({used!r} was used)"
                )


def _encoding(path: Path) -> str:
    """UTF-16 by its mark, UTF-8, or Windows-1252."""
    data = path.read_bytes()
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and data[2:4] != b"\0\0"
    for name in ["utf-16"] if utf16 else [] if b"\0" in data else [UTF8, "cp1252"]:
        with suppress(UnicodeDecodeError):
            data.decode(name)
            return name
    raise InputError(f"{path}: is neither UTF-8, UTF-16 with its mark, nor Windows-1252; save it as UTF-8")
