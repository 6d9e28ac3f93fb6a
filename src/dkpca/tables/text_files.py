"""Text files as people have them: encoding, separator and header are asked for, or found in the head.

A file is opened as columns of text, of which nothing is loaded yet.
"""

import codecs
import csv
import io
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from dkpca.errors import InputError
from dkpca.settings import Allowed, setting
from dkpca.tables import numerals
from dkpca.wording import counted

SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
ROWS = 2000  # of the head that are looked at
ABOVE = 50  # rows in which a header is looked for
FEW = 5  # rows that tell how wide a table is
UNNAMED = "unnamed"
MOST_COLUMNS = 2**20
HEAD = 2**18  # letters that are looked at to find out how a file is written
UTF8 = "utf-8"


# What an entry of party.toml may be, and the words for it.
NAME: Allowed = (lambda value: isinstance(value, str) and bool(value), "write a text that is not empty")
NAME_OR_NOTHING: Allowed = (lambda value: isinstance(value, str), "write a text, perhaps an empty one")
NAMES: Allowed = (
    lambda value: isinstance(value, list | tuple) and all(isinstance(name, str) for name in value),
    "write a list of texts",
)


@dataclass(frozen=True)
class Dialect:
    """How a table is written; None: find out. Fields are options of `dkpca check` and entries of party.toml."""

    separator: str | None = setting(
        None, NAME, "Separator between columns, such as ; or tab (default: detected).", option="--separator"
    )
    decimal: str | None = setting(None, NAME, "Decimal mark: , or . (default: detected).", option="--decimal")
    thousands: str | None = setting(
        None, NAME_OR_NOTHING, "Thousands separator; '' for none (default: detected).", option="--thousands"
    )
    encoding: str | None = setting(
        None, NAME, "Encoding of the file (default: detected, UTF-8 or CP1252).", option="--encoding"
    )
    missing: tuple[str, ...] | None = setting(
        None,
        NAMES,
        "Values to treat as missing, besides empty cells (default: NA, n/a, -, #NV and similar).",
        option="--null-values",
    )
    sheet: str | None = setting(None, NAME, "Sheet to read, if the workbook has several.", option="--sheet")

    def __post_init__(self) -> None:
        if self.separator is not None and len(self.separator) != 1:
            raise InputError(f"the separator is {self.separator!r}; give one character, or the word tab")
        if self.decimal is not None and self.decimal not in numerals.OTHER:
            raise InputError(f"the decimal mark is {self.decimal!r}; give , or .")
        if self.decimal is not None and self.decimal == self.thousands:
            raise InputError(f"{self.decimal!r} cannot be both the decimal mark and the thousands separator")


@dataclass(frozen=True)
class Cut:
    """The head of a file, cut at one separator."""

    separator: str
    rows: list[list[str]]
    ends: list[int]  # line on which each row ends
    width: int  # of most rows
    share: float  # of rows that have this width

    def foreign(self, others: Sequence[str]) -> int:
        """Cells that another separator would cut, and that are no number."""
        cells = [cell for row in self.rows if len(row) == self.width for cell in row]
        return sum(any(mark in cell for mark in others) and not numerals.is_number(cell.strip()) for cell in cells)

    def row_with(self, name: str | None) -> int | None:
        """Return the first row near the top that has this cell."""
        near = enumerate(self.rows[:ABOVE])
        return next((n for n, row in near if name in map(str.strip, row)), None) if name else None


def described(dialect: Dialect) -> list[str]:
    """Say in a few words how a table is written, where it is not with commas, points and UTF-8."""
    words = []
    if dialect.separator not in (None, ","):
        words.append(f"separated by {SEPARATORS.get(dialect.separator, repr(dialect.separator))}")
    if dialect.decimal != ".":
        words.append("decimal comma")
    if dialect.thousands:
        words.append(f"thousands separator {dialect.thousands!r}")
    if dialect.encoding not in (None, UTF8):
        words.append(f"encoding {dialect.encoding}")
    return [f"format: {', '.join(words)}"] if words else []


def _cut_as_asked(head: str, asked: Dialect, source: str, id_column: str | None) -> Cut:
    if asked.separator is not None:
        return _cut(head, asked.separator)
    told = head.partition("\n")[0].strip().strip('"')
    if told.lower().startswith("sep=") and len(told) == 5:  # Excel's own way to say it
        return _cut(head, told[4])
    # A separator cuts most rows into the same number of cells, more than one. Of those that do so about equally
    # often, the right one leaves the fewest cells that another would still cut.
    tried = [_cut(head, mark) for mark in SEPARATORS]
    cuts = [cut for cut in tried if cut.width > 1 and cut.share > 0.5]
    if not cuts:
        return tried[0]
    cuts = [cut for cut in cuts if cut.row_with(id_column) is not None] or cuts
    best = max(cut.share for cut in cuts)
    close = [cut for cut in cuts if cut.share > best - 0.02]
    foreign = [cut.foreign([other.separator for other in close if other is not cut]) for cut in close]
    fewest = [cut for cut, count in zip(close, foreign, strict=True) if count == min(foreign)]
    if len(fewest) > 1:
        candidates = " or ".join(SEPARATORS[cut.separator] for cut in fewest)
        raise InputError(f"{source}: its columns may be separated by {candidates}; choose one with --separator")
    return fewest[0]


def _cut(head: str, separator: str) -> Cut:
    reader = csv.reader(io.StringIO(head, newline=""), delimiter=separator)
    rows, ends = [], []
    try:
        for row in reader:
            rows.append(row)
            ends.append(reader.line_num)
            if len(rows) == ROWS:
                break
    except csv.Error:  # a field too long to be one: this is not the separator
        rows, ends = [], []
    widths = Counter(len(row) for row in rows if any(row))
    width, count = widths.most_common(1)[0] if widths else (1, 0)
    return Cut(separator, rows, ends, width, count / max(1, widths.total()))


def header(cut: Cut, source: str, id_column: str | None) -> tuple[list[str], int, list[str]]:
    """Names, lines above the table; notes."""
    position = cut.row_with(id_column)
    if position is None:
        position = next((n for n, row in enumerate(cut.rows) if not _is_above(cut, n, row)), None)
    if position is None:
        raise InputError(f"{source}: no header row found; add one with the column names")
    row = [name.strip() for name in cut.rows[position]]
    if len(row) > MOST_COLUMNS:
        raise InputError(f"{source}: has {len(row):,} columns, and a table may have {MOST_COLUMNS:,}; check the file")
    above = [" ".join(filter(None, map(str.strip, cells))) for cells in cut.rows[:position]]
    notes = []
    said = [words for words in above if words and not words.lower().startswith("sep=")]
    if said:
        notes.append(f"skipped {counted(len(said), 'line')} above the header, for example {said[0][:60]!r}")
    if len(row) == cut.width - 1:
        raise InputError(
            f"{source}: the header has one name fewer than the rows have values; name the first column too (in R "
            "with col.names = NA)"
        )
    return _named(row, source, notes), cut.ends[position - 1] if position else 0, notes


def _is_above(cut: Cut, position: int, row: list[str]) -> bool:
    """Whether a row stands above the header: empty, a comment, Excel's `sep=`, or a title.

    A row that is shorter than the others is a title if words follow, and the header of R if numbers do.
    """
    cells = [cell.strip() for cell in row]
    filled = sum(map(bool, cells))
    if not filled or cells[0].startswith("#") or (position == 0 and cells[0].lower().startswith("sep=")):
        return True
    if cut.width > 2 and filled == 1:
        return True
    following = [cell.strip() for row in cut.rows[position + 1 : position + 2] for cell in row]
    return len(row) < cut.width and not any(map(numerals.is_number, following))


def check_names(names: Sequence[str], source: str) -> None:
    """Refuse columns of one name."""
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        said = counted(len(twice), "column name")
        raise InputError(f"{source}: the header repeats {said}, for example {twice[0]!r}; rename them")


def _named(row: list[str], source: str, notes: list[str]) -> list[str]:
    """Names of all columns, each once; columns without a name get one by their position."""
    names = [name or f"{UNNAMED}_{position + 1}" for position, name in enumerate(row)]
    check_names(names, source)
    numbers = [name for name in row[1:] if name and numerals.is_number(name) and not name.isdecimal()]
    if numbers:
        notes.append(f"the header has the number {numbers[0]!r}; if it is a row of data, write a header above it")
    return names


@dataclass(frozen=True)
class Opened:
    """A table that was opened, and what is known of it before it is read."""

    source: str
    frame: pl.LazyFrame
    names: list[str]
    notes: list[str] = field(default_factory=list)
    dialect: Dialect | None = None  # None: the format itself says what is a number
    skip: int | None = None  # lines above the table in a text file; None: it is none
    parts: tuple[Path, ...] = ()  # files that keep types, and columns apart


def open_text(path: Path, asked: Dialect, *, id_column: str | None) -> Opened:
    """Find out how a text file is written, and open it."""
    text, encoding = _decoded(path, asked.encoding)
    end = len(text) if len(text) <= HEAD else text.rfind("\n", 0, HEAD) + 1
    for _ in range(FEW if text.count("\n", 0, end) < ABOVE else 0):  # a header of many columns is longer by itself
        end = text.find("\n", end) + 1 or len(text)
    head = text[:end]
    if "\r" in head and "\n" not in head:
        raise InputError(f"{path}: has old Macintosh line endings (CR); save it with other line endings")
    cut = _cut_as_asked(head, asked, str(path), id_column)
    names, skip, notes = header(cut, str(path), id_column)
    dialect = replace(asked, separator=cut.separator, encoding=encoding)
    # polars reads UTF-8 from the file itself.
    source = path if encoding == UTF8 else io.BytesIO(text.encode())
    frame = pl.scan_csv(
        source,
        glob=False,  # data[1].csv is a name, no pattern
        separator=cut.separator,
        skip_lines=skip,
        infer_schema=False,
        with_column_names=lambda _: names,
    )
    return Opened(str(path), frame, names, notes, dialect, skip)


def check_widths(opened: Opened) -> list[str]:
    """Words about rows of a text file that end before the last column.

    A row that is longer than the header is refused, and a last row that is shorter.
    """
    assert opened.dialect is not None
    width, used = len(opened.names), opened.dialect.separator or ","
    short, last = list[tuple[int, int]](), 0
    with Path(opened.source).open(encoding=opened.dialect.encoding, newline="") as file:
        rows = csv.reader(itertools.islice(file, opened.skip, None), delimiter=used)
        next(rows, None)  # the header
        for number, count in enumerate(map(len, rows), start=1):
            if count > width:
                raise InputError(
                    f"{opened.source}: row {number} has {count} values, but the header has {width} names; correct "
                    f"that row, or check the separator ({used!r} was used; set it with --separator)"
                )
            short += [(number, count)] if 0 < count < width else []
            last = number if count else last
    if not short:
        return []
    if short[-1][0] == last:
        raise InputError(
            f"{opened.source}: breaks off in row {last}, after {short[-1][1]} of {width} values; get the whole file, "
            "or remove lines of text below the table"
        )
    return [
        f"rows with fewer values than the header has names: {len(short):,}, first row {short[0][0]}; "
        "the absent values count as missing"
    ]


def _decoded(path: Path, asked: str | None) -> tuple[str, str]:
    """Text of a file, and its encoding: as asked for, UTF-16 by its mark, UTF-8, or Windows-1252."""
    data = path.read_bytes()
    utf16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) and data[2:4] != b"\0\0"
    if asked is None and b"\0" in data and not utf16:
        raise InputError(f"{path}: contains NUL bytes: it may be UTF-16; try --encoding utf-16-le, or utf-32")
    try:
        b"".decode(asked or UTF8)  # refuses what is no encoding of text
        names = [codecs.lookup(asked).name] if asked else ["utf-16"] if utf16 else [UTF8, "cp1252"]
    except LookupError as error:
        raise InputError(
            f"{path}: --encoding {asked!r} is not known; use utf-8, utf-16, cp1252, iso-8859-1 or similar"
        ) from error
    failure = 0
    for name in names:
        try:
            return data.decode(name).removeprefix("\ufeff"), name
        except UnicodeDecodeError as error:
            failure = error.start + 1
    if asked or utf16:
        raise InputError(f"{path}: is not valid {names[0]} at byte {failure:,}; correct --encoding, or leave it out")
    raise InputError(f"{path}: its text is neither UTF-8 nor Windows-1252; name the encoding with --encoding")
