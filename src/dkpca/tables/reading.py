"""Tables with their sample ids: what a party wants read, and what came of it.

Columns of text become numbers where all of the column is numbers: the whole column decides, not its first rows.
"""

import contextlib
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError, StorageError
from dkpca.linalg.arrays import MemoryLimit
from dkpca.settings import FLAG, SHARE, one_of, setting
from dkpca.tables import numerals, text_files
from dkpca.tables.formats import AS_WRITTEN, BROKEN, from_array, open_table
from dkpca.tables.ids import WAYS, found_in, matching_keys
from dkpca.tables.inputs import ID_NAME, are_ids
from dkpca.tables.numerals import is_date
from dkpca.tables.text_files import NAME_OR_NOTHING, NAMES, UNNAMED, Dialect, Opened, check_names
from dkpca.wording import counted, some

TEXT_COLUMNS = ("error", "one-hot", "codes", "ignore")  # what can be done with them
DATE_COLUMNS = ("error", "number", "ignore")
TEXT = (pl.String, pl.Categorical, pl.Enum)
OURS = Dialect(separator=",", decimal=".", thousands="", missing=())  # how we write embeddings

EMPTY, LAST = "\0empty", "\0last"  # flags of rows, beside their columns
PLAIN_MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # nobody takes these for a value

SHOWN = 8  # words among numbers
WAYS_LISTED = ", ".join(WAYS)
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


@dataclass(frozen=True)
class Reading:
    """How a party wants its table read: fields are options of `dkpca check` and entries of party.toml."""

    id_column: str | None = setting(
        None, NAME_OR_NOTHING, "Column with the sample ids (default: rows match by position).", option="--id"
    )
    columns: tuple[str, ...] = setting(
        (), NAMES, "Columns to use, separated by commas (default: all).", option="--columns"
    )
    exclude: tuple[str, ...] = setting((), NAMES, "Columns to leave out, separated by commas.", option="--exclude")
    text: str = one_of(  # codes are one number per category, for kernels that only ask whether two values are equal
        "error",
        TEXT_COLUMNS,
        "Text columns: one-hot, codes (for the overlap kernel) or ignore; COLUMN=one-hot for a single column "
        "(default: one-hot, unless a column has too many different values).",
        "--text",
    )
    max_missing: float = setting(
        0.1,
        (SHARE, "a share from 0 to 1"),
        "Drop columns with more than this share of values missing; fill gaps in others with the mean [default: 0.1].",
        option="--max-missing",
    )
    standardize: bool = setting(
        True,
        FLAG,
        "Give every column mean 0 and standard deviation 1 (default: yes).",
        option="--standardize/--no-standardize",
    )
    text_of: tuple[tuple[str, str], ...] = setting(  # of single columns, by their names
        (),
        (
            lambda value: isinstance(value, dict) and set(value.values()) <= set(TEXT_COLUMNS),
            f"{{ column = ... }} with one of {', '.join(TEXT_COLUMNS)}",
        ),
        "",
    )
    dates: str = one_of(
        "error",
        DATE_COLUMNS,
        "Date columns: number (days since 1970-01-01) or ignore (default: left out).",
        "--dates",
    )
    id_normalize: tuple[str, ...] = setting(
        (),
        (lambda value: NAMES[0](value) and set(value) <= set(WAYS), f"some of {WAYS_LISTED}"),
        f"Normalize ids before matching, the same way at all parties: {WAYS_LISTED}.",
        option="--id-normalize",
    )
    dialect: Dialect = AS_WRITTEN  # how the file is written, as far as the party says it
    likely: Dialect = AS_WRITTEN  # how the training rows were written
    date_formats: tuple[tuple[str, str], ...] = ()  # in states of 0.2.0; the columns themselves say it

    def text_handling(self, column: str) -> str:
        """What to do with this column, if it is text."""
        return dict(self.text_of).get(column, self.text)


@dataclass(frozen=True)
class Table:
    """Feature columns with their sample ids, as read."""

    source: str
    ids: list[str] | None
    frame: pl.DataFrame
    notes: tuple[str, ...] = ()  # what was found out about the file, or left out, in words
    dialect: Dialect = AS_WRITTEN  # how it is written
    id_normalize: tuple[str, ...] = ()
    memory: MemoryLimit | None = None  # that its numbers may take

    def __len__(self) -> int:
        return self.frame.height

    @property
    def keys(self) -> list[str] | None:
        """Return what the samples are matched by."""
        return None if self.ids is None else matching_keys(self.ids, self.id_normalize)

    def rows(self, names: Sequence[str]) -> list[int | None]:
        """Row of each of these samples; None where there is none."""
        row = {key: number for number, key in enumerate(self.keys or ())}
        return [row.get(key) for key in matching_keys(names, self.id_normalize)]

    def take(self, rows: Sequence[int]) -> "Table":
        """Rows by number, in that order."""
        ids = None if self.ids is None else [self.ids[row] for row in rows]
        return replace(self, ids=ids, frame=self.frame[list(rows)])


def read(path: Path, reading: Reading) -> Table:
    """Read a table; only the columns wanted are loaded."""
    with opened(path, reading) as table:
        return _select(table, reading)


@contextlib.contextmanager
def opened(path: Path, reading: Reading) -> Iterator[Opened]:
    """Open a table; what goes wrong while it is looked at becomes a sentence: which row is too long, if one is."""
    with explained(path):
        padded = reading.id_column if "zeros" not in reading.id_normalize else None  # then zeros do not matter
        table = open_table(path, reading.dialect, id_column=padded)
        try:
            yield table
        except pl.exceptions.PolarsError:
            if table.encoding is not None:
                text_files.check_widths(table)
            raise


def column_names(path: Path, dialect: Dialect = AS_WRITTEN) -> list[str]:
    """Names of the columns of a table, nothing of it loaded."""
    with explained(path):
        return open_table(path, dialect).names


def read_ids(path: Path, reading: Reading) -> list[str]:
    """Sample ids of a table, in its order; nothing else of it is read."""
    with opened(path, reading) as table:
        ids = [reading.id_column or ""]
        check_columns(ids, table)
        (column,) = typed(table, [], ids).frame.collect(engine="streaming").get_columns()
        return found_in(column, reading.id_normalize, table.source)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn what goes wrong while reading into a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{path}: there is no such file; check the path") from error
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror or error}); check the file") from error
    except MemoryError as error:
        raise InputError(f"{path}: does not fit into memory; give a smaller file, or Parquet") from error
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, *BROKEN) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{path}: cannot be read as a {path.suffix} table ({reason}); check the file") from error


def from_frame(frame: Any, reading: Reading, *, name: str = "table") -> Table:
    """Take a polars, pandas or Arrow table, or an array."""
    if hasattr(frame, "iloc"):
        check_names([str(key) for key in frame.columns], name)
        present = {str(key): own.astype(object).where(own.notna(), None).tolist() for key, own in frame.items()}
        table = pl.DataFrame(present, strict=False)  # numbers and text in one column: as text
    elif hasattr(frame, "to_pandas") or isinstance(frame, pl.DataFrame):
        table = pl.DataFrame(frame)
    else:
        table = from_array(np.asarray(frame))
    return _select(Opened(name, table.lazy(), table.columns), reading)


def _select(opened: Opened, reading: Reading) -> Table:
    """Load the columns wanted, and check the ids."""
    named = [reading.id_column] if reading.id_column else []
    single = [column for column, _ in reading.text_of]
    check_columns([*named, *reading.columns, *reading.exclude, *single], opened)
    found = typed(opened, wanted_columns(opened, reading), named)
    kept, ignored = _without_ignored(found, reading)
    if not kept:
        raise InputError(f"{opened.source}: no feature column is left; check --columns, --exclude and --text")
    loaded = found.frame.select(*named, *kept).collect(engine="streaming")
    ids = found_in(loaded[reading.id_column], reading.id_normalize, opened.source) if reading.id_column else None
    for name in kept if ids is None else ():
        if name not in reading.columns and ID_NAME.search(name) and are_ids(loaded[name].to_numpy()):
            raise InputError(
                f"{opened.source}: {name!r} looks like an id column, but no id column was given; add --id {name!r}, "
                "or exclude it with 'dkpca check --exclude'"
            )
    return Table(
        source=opened.source,
        ids=ids,
        frame=loaded.select(kept),
        notes=(*found.notes, *ignored),
        dialect=found.dialect or AS_WRITTEN,
        id_normalize=reading.id_normalize,
    )


def typed(opened: Opened, wanted: Sequence[str], ids: Sequence[str] = ()) -> Opened:
    """Return the columns wanted, with their types, and the column of ids, as it is; empty rows below are left out."""
    if opened.dialect is None:
        return replace(opened, frame=opened.frame.select(*ids, *wanted), names=list(wanted))
    empty, last = pl.all_horizontal(pl.all().is_null()), pl.col(opened.names[-1]).is_null()
    frame = opened.frame.select(*ids, *wanted, empty.alias(EMPTY), last.alias(LAST)).collect(engine="streaming")
    if opened.encoding is not None and frame[LAST].sum() > frame[EMPTY].sum():
        text_files.check_widths(opened)
    filled = (~frame[EMPTY]).arg_true()
    n_rows = int(filled[-1]) + 1 if len(filled) else 0
    if len(filled) < n_rows:
        row = int(frame[EMPTY].arg_max() or 0) + 1
        raise InputError(f"{opened.source}: row {row} is empty; remove it")
    columns = frame.head(n_rows).drop(EMPTY, LAST).get_columns()
    del frame
    missing = numerals.USUAL_MISSING if opened.dialect.missing is None else opened.dialect.missing
    # Columns of text lose the marks of missing values, and become numbers, each in place of the one before.
    places, marks = list[int](), Counter[str]()
    numbers = [float(mark) for mark in missing if re.search(numerals.PLAIN["."], mark)]
    for place, own in enumerate(columns):
        if own.dtype == pl.String and own.name not in ids:
            text = own.str.strip_chars()
            gone = text.is_in(["", *missing])
            marks.update(dict(text.filter(gone).value_counts().iter_rows()))
            columns[place] = text.set(gone, None)
            places.append(place)
        elif numbers and own.dtype.is_numeric() and own.name not in ids:  # of a workbook
            columns[place] = own.set(own.cast(pl.Float64).is_in(numbers), None)
    # The whole columns decide about the marks in numbers, and a column is numbers if all its values are.
    thousands = opened.dialect.thousands or ""
    decimal = opened.dialect.decimal or numerals.OTHER.get(thousands)
    decimal = decimal or numerals.decimal_mark([columns[p] for p in places], opened.source)
    for place in places:
        columns[place] = numerals.typed(columns[place], decimal, thousands, opened.source)
    # Separators at the ends of lines make columns that have neither a name nor a value.
    unused = {own.name for own in columns if own.name.startswith(f"{UNNAMED}_") and own.null_count() == len(own)}
    dialect = replace(opened.dialect, decimal=decimal, thousands=thousands, missing=missing)
    odd = [f"{mark!r} {marks[mark]:,} times" for mark in sorted(marks) if mark not in PLAIN_MISSING]
    notes = [f"counted as missing: {', '.join(odd)}"] if odd else []
    return replace(
        opened,
        frame=pl.LazyFrame(columns),
        names=[name for name in wanted if name not in unused],
        notes=[*text_files.described(dialect), *opened.notes, *notes],
        dialect=dialect,
    )


def text_among_numbers(values: pl.Series, dialect: Dialect | None) -> str | None:
    """Sentence about a column of text most of which is numbers; None for any other."""
    how = dialect or AS_WRITTEN
    text = values.cast(pl.String).str.strip_chars()
    numbers = numerals.as_number(text, how.decimal or ".", how.thousands or "")
    odd = text.is_not_null() & numbers.is_null()
    if not odd.any():
        return None
    if 2 * odd.sum() >= text.count():
        marked = text.filter(odd & text.str.contains(numerals.GROUPED))
        if 2 * (len(marked) + numbers.count()) <= text.count() or not len(marked):
            return None
        what = f"column {values.name!r} holds numbers with thousands marks such as {marked[0]!r}"
        return f"{what}; say which (--thousands), or leave it out (--exclude {values.name!r})"
    rows, words = odd.arg_true() + 1, text.filter(odd).unique(maintain_order=True)[:SHOWN]
    where = f"data row {rows[0]}" if len(rows) == 1 else f"{len(rows):,} rows, first in data row {rows[0]}"
    return (
        f"column {values.name!r} holds numbers, but for {text[rows[0] - 1]!r} in {where}; correct it, say that it "
        f"means missing ({null_values(words, how)}) or how numbers are written (--thousands, --decimal), or leave "
        f"the column out (--exclude {values.name!r})"
    )


def null_values(more: Iterable[str], dialect: Dialect) -> str:
    """Option that counts more values as missing: the whole of it, since it replaces the usual ones."""
    known = numerals.USUAL_MISSING if dialect.missing is None else dialect.missing
    words = (f'"{word}"' if "," in word else word for word in (*more, *known))
    return f"--null-values {shlex.quote(','.join(words))}"


def _without_ignored(found: Opened, reading: Reading) -> tuple[list[str], list[str]]:
    """Columns without those of text and dates that are not wanted, and words about these; one that is named stays."""
    schema = found.frame.collect_schema()
    free = [name for name in found.names if name not in reading.columns]
    texts = [name for name in free if isinstance(schema[name], TEXT) and reading.text_handling(name) == "ignore"]
    days = [name for name in free if is_date(schema[name]) and reading.dates == "ignore"]
    groups = ((texts, "text"), (days, "dates"))
    said = [f"left out {counted(len(names), 'column')} of {what}: {some(names)}" for names, what in groups if names]
    return [name for name in found.names if name not in {*texts, *days}], said


def wanted_columns(opened: Opened, reading: Reading) -> list[str]:
    """Columns that are to be used, in their order."""
    unwanted = {reading.id_column, *reading.exclude}
    return [n for n in opened.names if n not in unwanted and (not reading.columns or n in reading.columns)]


def check_columns(wanted: Sequence[str], opened: Opened) -> None:
    """Raise if a column that was named is not there."""
    absent = [name for name in wanted if name not in opened.names]
    if absent:
        raise InputError(f"{opened.source}: has no column {absent[0]!r}; it has {some(opened.names)}")
