"""CSV files as people have them, opened as columns of text; nothing of a file in UTF-8 is held in memory."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from dkpca.errors import InputError
from dkpca.tables import dialect as dialects
from dkpca.tables.dialect import UNNAMED, Dialect, Layout
from dkpca.tables.encodings import UTF8, encoding_of

HEAD = 2**18  # letters that are looked at to find out how a file is written


@dataclass(frozen=True)
class Delimited:
    """A text file opened as columns of text."""

    path: Path
    layout: Layout
    frame: pl.LazyFrame  # all columns text; rows as in the file, empty ones too

    @property
    def dialect(self) -> Dialect:
        """How it is written."""
        return self.layout.dialect

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self.layout.names)

    def field_counts(self) -> Iterator[tuple[int, int]]:
        """Number of each row below the header, from 1 on, and how many fields it has; 0 for an empty line."""
        encoding = self.dialect.encoding
        with self.path.open(encoding=encoding, newline="") as file:
            for _ in range(self.layout.skip):
                file.readline()
            rows = csv.reader(file, delimiter=self.dialect.separator or ",")
            next(rows, None)
            yield from ((number, len(row)) for number, row in enumerate(rows, start=1))

    def ends_in_a_line(self) -> bool:
        """Whether the last line is whole."""
        with self.path.open("rb") as file:
            file.seek(max(0, self.path.stat().st_size - 4))
            return file.read().rstrip(b"\0")[-1:] in (b"\n", b"\r")  # zeros: the other half of a letter in UTF-16


def open_text(path: Path, asked: Dialect, *, id_column: str | None, likely: Dialect) -> Delimited:
    """Find out how a text file is written, and open it."""
    encoding = encoding_of(path, asked.encoding)
    with path.open(encoding=encoding, newline="") as file:
        head = file.read(HEAD)
        whole = not file.read(1)
    only_returns = "\r" in head and "\n" not in head  # as old Macintosh programs end lines
    if not whole:
        head = head[: max(head.rfind("\n"), head.rfind("\r")) + 1] or head
    layout = dialects.find(head, asked, str(path), id_column=id_column, likely=likely)
    layout = replace(layout, dialect=replace(layout.dialect, encoding=encoding.removesuffix("-sig")))
    if encoding in UTF8 and not only_returns:
        source: Path | io.BytesIO = path
    else:
        text = path.read_bytes().decode(encoding).removeprefix("\ufeff")
        source = io.BytesIO((text.replace("\r", "\n") if only_returns else text).encode())
    names = list(layout.names)
    frame = pl.scan_csv(
        source,
        separator=layout.dialect.separator or ",",
        has_header=layout.has_header,
        skip_lines=layout.skip + (not layout.has_header),
        infer_schema=False,
        with_column_names=lambda _: names,
    )
    return Delimited(path, layout, frame)


def check_width(opened: Delimited) -> None:
    """Say which row has more values than the header has names, if one has."""
    width = len(opened.names)
    for number, count in opened.field_counts():
        if count > width:
            raise InputError(
                f"{opened.path}: row {number} has {count} values, the header has {width} names; correct that row, or "
                f"check the separator ({opened.dialect.separator!r} was used; set it with --separator)"
            )


def short_rows(opened: Delimited) -> tuple[int, list[str]]:
    """Rows of the table, and words about those that end before the last column; one that breaks off is refused.

    Lines of a single value below a wide table are words about it, as titles above it are.
    """
    width = len(opened.names)
    n_rows, short, below = 0, list[int](), list[int]()  # rows of the table, those too short, lines of one value below
    last = 0, width
    for number, count in opened.field_counts():
        last = number, count
        if count == 1 and width > 2:
            below.append(number)
        elif count:
            short += [*below, *([number] if count < width else [])]
            n_rows, below = number, []
    if 0 < last[1] < width and not opened.ends_in_a_line():
        raise InputError(
            f"{opened.path}: breaks off in row {last[0]}, after {last[1]} of {width} values; get the whole file"
        )
    notes = [f"{len(below):,} lines below the table left out, as line {below[0]} under the header"] if below else []
    if short:
        notes.append(
            f"{len(short):,} rows have fewer values than the header has names, first row {short[0]}; "
            "the rest is missing"
        )
    return n_rows, notes


def empty_columns(present: dict[str, int]) -> list[str]:
    """Columns that have neither a name nor a value, as separators at the ends of lines make them."""
    return [name for name, count in present.items() if name.startswith(f"{UNNAMED}_") and not count]
