"""Tables with their sample ids: what a party wants read, and what came of it.

Columns of text become numbers where all of the column is numbers: the whole column decides, not its first rows.
"""

import contextlib
import difflib
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl

from dkpca.errors import InputError, StorageError
from dkpca.linalg.arrays import MemoryLimit
from dkpca.settings import Allowed, setting
from dkpca.tables import ids as sample_ids
from dkpca.tables import numerals, text_files
from dkpca.tables.formats import (
    AS_WRITTEN,
    SUFFIXES,
    Stored,
    from_array,
    is_folder,
    open_table,
    stays_in_its_file,
)  # fmt: skip
from dkpca.tables.ids import check_unique, matching_keys
from dkpca.tables.inputs import are_ids, called_as_ids
from dkpca.tables.numerals import is_date, measured
from dkpca.tables.text_files import NAME_OR_NOTHING, NAMES, SEPARATORS, UNNAMED, Dialect, Opened, check_names
from dkpca.wording import counted

TEXT_COLUMNS = ("error", "one-hot", "codes", "ignore")  # what can be done with them
DATE_COLUMNS = ("error", "number", "ignore")
TEXT = (pl.String, pl.Categorical, pl.Enum)
OURS = Dialect(separator=",", decimal=".", thousands="", missing=())  # how we write embeddings

ONLY_DIGITS, LARGE = "^[+-]?[0-9]+$", "^[+-]?[0-9]{16,38}$"
PLAIN_MISSING = ("NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # nobody takes these for a value

WAYS_LISTED = ", ".join(sample_ids.WAYS)
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def _one_of(names: Sequence[str]) -> Allowed:
    return lambda value: value in names, f"write one of {', '.join(names)}"


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
    text: str = setting(  # codes are one number per category, for kernels that only ask whether two values are equal
        "error",
        _one_of(TEXT_COLUMNS),
        "Text columns: one-hot, codes (for the overlap kernel) or ignore; COLUMN=one-hot for a single column "
        "(default: one-hot, unless a column has too many different values).",
        option="--text",
        choices=TEXT_COLUMNS,
    )
    max_missing: float = setting(
        0.1,
        (lambda x: isinstance(x, int | float) and x is not True and 0 <= x <= 1, "write a share from 0 to 1"),
        "Drop columns with more than this share of values missing; fill gaps in others with the mean [default: 0.1].",
        option="--max-missing",
    )
    standardize: bool = setting(
        True,
        (lambda value: isinstance(value, bool), "write true or false"),
        "Give every column mean 0 and standard deviation 1 (default: yes).",
        option="--standardize/--no-standardize",
    )
    text_of: tuple[tuple[str, str], ...] = setting(  # of single columns, by their names
        (),
        (
            lambda value: isinstance(value, dict) and set(value.values()) <= set(TEXT_COLUMNS),
            f"write {{ column = ... }} with one of {', '.join(TEXT_COLUMNS)}",
        ),
        "",
    )
    dates: str = setting(
        "error",
        _one_of(DATE_COLUMNS),
        "Date columns: number (days since 1970-01-01) or ignore (default: left out).",
        option="--dates",
        choices=DATE_COLUMNS,
    )
    id_normalize: tuple[str, ...] = setting(
        (),
        (lambda value: NAMES[0](value) and set(value) <= set(sample_ids.WAYS), f"write some of {WAYS_LISTED}"),
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

    def take(self, rows: Sequence[int]) -> "Table":
        """Rows by number, in that order."""
        ids = None if self.ids is None else [self.ids[row] for row in rows]
        return replace(self, ids=ids, frame=self.frame[list(rows)])


def read(path: Path, reading: Reading, *, by_column: bool = False) -> Table:
    """Read a table; only the columns wanted are loaded: of a large one, by whoever prepares it, one at a time."""
    with opened(path, reading) as table:
        return _select(table, reading, by_column=by_column)


@contextlib.contextmanager
def opened(path: Path, reading: Reading) -> Iterator[Opened]:
    """Open a table; what goes wrong while it is looked at becomes a sentence: which row is too long, if one is."""
    with _explained(path):
        table = open_table(path, reading.dialect, id_column=reading.id_column)
        try:
            yield table
        except pl.exceptions.PolarsError:
            if table.skip is not None:
                text_files.check_widths(table)
            raise


def is_table(path: Path) -> bool:
    """Whether the name of the file is that of a table, or this is a folder of Parquet files."""
    return path.suffix.lower() in SUFFIXES or is_folder(path)


def column_names(path: Path, dialect: Dialect = AS_WRITTEN, *, id_column: str | None = None) -> list[str]:
    """Names of the columns of a table, nothing of it loaded."""
    with _explained(path):
        return open_table(path, _any_numbers(dialect), id_column=id_column).names


def read_ids(path: Path, id_column: str, dialect: Dialect = AS_WRITTEN, ways: Sequence[str] = ()) -> list[str]:
    """Sample ids of a table, in its order; nothing else of it is read."""
    with opened(path, Reading(id_column, dialect=_any_numbers(dialect))) as table:
        check_columns([id_column], table)
        frame = typed(table, [], by_position=False).frame.select(id_column).collect(engine="streaming")
        return _ids(frame[id_column], table.source, ways)


def _any_numbers(dialect: Dialect) -> Dialect:
    """Return the dialect where it does not matter how numbers are written."""
    return replace(dialect, decimal=dialect.decimal or ".")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what goes wrong while reading into a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{path}: there is no such file; check the path") from error
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror or error}); check the file") from error
    except (pl.exceptions.PolarsError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).strip().partition("\n")[0]
        kind = "Parquet" if path.is_dir() else path.suffix
        raise InputError(f"{path}: cannot be read as a {kind} table ({reason}); check the file") from error


def from_frame(frame: Any, reading: Reading, *, name: str = "table") -> Table:
    """Take a polars, pandas or Arrow table, or anything else polars accepts."""
    if hasattr(frame, "to_pandas") or isinstance(frame, pl.DataFrame | dict):
        table = pl.DataFrame(frame)
    elif hasattr(frame, "columns") and hasattr(frame, "iloc"):
        table = _from_pandas(frame, name)
    else:
        table = from_array(np.asarray(frame))
    return _select(Opened(name, table.lazy(), table.columns), reading)


def _from_pandas(frame: Any, name: str) -> pl.DataFrame:
    """Columns, and the index where it has a name."""
    frame = frame.reset_index() if frame.index.name is not None else frame
    names = [str(key) for key in frame.columns]
    check_names(names, name)
    return pl.DataFrame([_series(key, frame.iloc[:, position]) for position, key in enumerate(names)])


def _series(name: str, column: Any) -> pl.Series:
    values = column.to_numpy()
    if values.dtype != object:
        return pl.Series(name, values, nan_to_null=True)
    present = [None if gone else value for value, gone in zip(values, column.isna(), strict=True)]
    try:
        return pl.Series(name, present)
    except TypeError:  # numbers and text in one column: as text, by the rule for ids
        whole = [int(v) if isinstance(v, float) and v.is_integer() else v for v in present]
        return pl.Series(name, [None if value is None else str(value) for value in whole])


def _select(opened: Opened, reading: Reading, *, by_column: bool = False) -> Table:
    """Load the columns wanted, and check the ids."""
    named = [reading.id_column] if reading.id_column else []
    single = [column for column, _ in reading.text_of]
    check_columns([*named, *reading.columns, *reading.exclude, *single], opened)
    found = typed(opened, wanted_columns(opened, reading), by_position=not named)
    kept, ignored = _without_ignored(found, reading)
    if not kept:
        raise InputError(f"{opened.source}: no feature column is left; check --columns, --exclude and --text")
    if by_column and stays_in_its_file(opened):
        loaded = cast(
            pl.DataFrame, Stored(found.frame, [*named, *kept], opened.source)
        )  # as much of one as is needed
    else:
        loaded = found.frame.select(*named, *kept).collect(engine="streaming")
    ids = _ids(loaded[reading.id_column], opened.source, reading.id_normalize) if reading.id_column else None
    if ids is None:
        _refuse_unnamed_ids(loaded, reading.columns, opened.source)
    return Table(
        source=opened.source,
        ids=ids,
        frame=loaded.select(kept),
        notes=(*found.notes, *ignored),
        dialect=opened.dialect or AS_WRITTEN,
        id_normalize=reading.id_normalize,
    )


def typed(opened: Opened, wanted: Sequence[str], *, by_position: bool) -> Opened:
    """Return the columns wanted with their types, not yet loaded; the others stay as they are.

    Rows without any value are left out, and columns that have neither a name nor a value.
    """
    if opened.dialect is None:
        return replace(opened, names=list(wanted))
    # A column is numbers if all its values are; of the rest, dates and truth values are looked for.
    frame, notes = _without_empty_rows(opened, by_position)
    text = {name: numerals.as_text(name, opened.dialect.missing or ()) for name in opened.written(wanted)}
    decimal, thousands = opened.dialect.decimal or ".", opened.dialect.thousands or ""
    as_numbers = {name: numerals.as_number(own, decimal, thousands) for name, own in text.items()}
    present, numbers, marked = _counts(frame, text, as_numbers, opened.dialect)
    # Columns with neither a name nor a value: separators at the ends of lines make them.
    unused = {name for name, count in present.items() if name.startswith(f"{UNNAMED}_") and not count}
    whole = [name for name in text if name not in unused and numbers[name] == present[name]]
    converted = {name: as_numbers[name] for name in whole}
    # The head of the file may have left the decimal mark open; the whole columns decide now, or it is refused.
    if not opened.proved:
        _refuse_unclear(frame, whole, opened)
    converted |= {name: text[name].cast(pl.Int128, strict=False) for name in _large(frame, text, whole)}
    for name in [name for name in text if name not in unused and name not in converted]:
        truths = numerals.as_truth(text[name])
        dates = numerals.dates_in(frame, text[name], present[name], name, opened.source)
        is_truth = dates is None and measured(frame, {name: truths.count()})[name] == present[name]
        converted[name] = dates if dates is not None else truths if is_truth else text[name]
    notes += _about_marks(frame, [name for name, count in marked.items() if count], opened.dialect)
    return replace(
        opened,
        frame=frame.with_columns(own.alias(name) for name, own in converted.items()),
        names=[name for name in wanted if name not in unused],
        notes=[*opened.notes, *notes],
    )


def _large(frame: pl.LazyFrame, text: Mapping[str, pl.Expr], names: Iterable[str]) -> list[str]:
    """Columns of nothing but whole numbers, some of which have more digits than a double does."""
    some = measured(frame, {name: text[name].str.contains(LARGE).any() for name in names})
    asked = {name: text[name].str.contains(ONLY_DIGITS).all() for name, large in some.items() if large}
    return [name for name, whole in measured(frame, asked).items() if whole]


def _counts(
    frame: pl.LazyFrame, text: Mapping[str, pl.Expr], as_numbers: Mapping[str, pl.Expr], dialect: Dialect
) -> list[dict[str, int]]:
    """How many values each column has, how many of them are numbers, and how many marks of missing ones."""
    asked: dict[str, pl.Expr] = {}
    for name, own in text.items():
        marked = pl.col(name).str.strip_chars().is_in(list(dialect.missing or ()))
        asked |= {f"0 {name}": own.count(), f"1 {name}": as_numbers[name].count(), f"2 {name}": marked.sum()}
    found = measured(frame, asked)
    return [{name: found[f"{what} {name}"] for name in text} for what in range(3)]


def _without_empty_rows(opened: Opened, by_position: bool) -> tuple[pl.LazyFrame, list[str]]:
    """Leave out rows without any value; say so, and how many rows are too short."""
    empty = pl.all_horizontal(pl.all().is_null())
    last = pl.col(opened.names[-1]).is_null()
    frame, notes = opened.frame, list[str]()
    found = measured(frame, {"empty": empty.sum(), "last": last.sum()})
    if opened.skip is not None and found["last"] > found["empty"]:
        notes += text_files.check_widths(opened)
    if not found["empty"]:
        return frame, notes
    flags = frame.select(empty.alias("empty")).collect(engine="streaming")["empty"]
    inside = flags.head(len(flags) - int(flags.sum()))
    if by_position and inside.any():
        row = inside.arg_max() or 0
        raise InputError(
            f"{opened.source}: row {row + 1} is empty, and rows match by position; remove it, or name an id column "
            "with --id"
        )
    if inside.any():
        notes.append(f"{flags.sum():,} empty rows left out")
    return frame.filter(~empty), notes


def _refuse_unclear(frame: pl.LazyFrame, names: Sequence[str], opened: Opened) -> None:
    """Refuse numbers that all leave open whether their mark is a decimal one; the head of the file had none."""
    assert opened.dialect is not None
    mark = opened.dialect.decimal or "."
    shape = rf"^[+-]?[1-9][0-9]{{0,2}}{re.escape(mark)}[0-9]{{3}}$"
    unclear = {name: pl.col(name).str.strip_chars().str.contains(shape) for name in names}
    proofs = [pl.col(name).str.contains(mark, literal=True) & ~own for name, own in unclear.items()]
    found = measured(frame, {name: own.any() for name, own in unclear.items()})
    if any(found.values()) and not measured(frame, {"proved": pl.any_horizontal(proofs).any()})["proved"]:
        name = next(name for name, is_open in found.items() if is_open)
        raise InputError(
            f"{opened.source}: {mark!r} in column {name!r} could be a decimal mark or a thousands separator; choose "
            "with --decimal ',' or --decimal '.'"
        )


def _about_marks(frame: pl.LazyFrame, names: Sequence[str], dialect: Dialect) -> list[str]:
    """Name what was counted as a missing value, where it might have been one."""
    marks = [mark for mark in dialect.missing or () if mark not in PLAIN_MISSING]
    if not names or not marks:
        return []
    cells = frame.select(pl.col(names).str.strip_chars()).unpivot().filter(pl.col("value").is_in(marks))
    counts: Mapping[str, int] = dict(cells.group_by("value").len().collect(engine="streaming").rows())
    said = ", ".join(f"{mark!r} {count:,} times" for mark, count in sorted(counts.items()))
    return [f"counted as missing: {said}"] if counts else []


def text_among_numbers(values: pl.Series, dialect: Dialect | None) -> str | None:
    """Sentence about a column of text most of which is numbers; None for any other."""
    how = dialect or AS_WRITTEN
    text = values.cast(pl.String).str.strip_chars()
    numbers = pl.select(numerals.as_number(pl.lit(text), how.decimal or ".", how.thousands or "")).to_series()
    odd = text.is_not_null() & numbers.is_null()
    if not odd.any() or 2 * odd.sum() >= text.count():
        return None
    rows, texts = odd.arg_true() + 1, text.filter(odd).unique(maintain_order=True)
    shown = ", ".join(map(repr, texts.head(3).to_list())) + (" and others" if len(texts) > 3 else "")
    what = f"column {values.name!r} holds numbers, but for {shown}"
    where = f"data row {rows[0]}" if len(rows) == 1 else f"{len(rows):,} rows, first in data row {rows[0]}"
    mark = texts[0] if len(texts) == 1 else "..."
    return (
        f"{what} in {where}; if that means missing, give --null-values {mark!r} with the other marks that the table "
        f"uses; otherwise correct it, or leave the column out with --exclude {values.name!r}"
    )


def _refuse_unnamed_ids(frame: pl.DataFrame, chosen: Sequence[str], source: str) -> None:
    """Raise if rows match by position although a column has a name such as 'id' and differs in every row."""
    for name in frame.columns:
        if name not in chosen and called_as_ids(name) and are_ids(frame[name].to_numpy()):
            raise InputError(
                f"{source}: {name!r} looks like an id column, but no id column was given; add "
                f"--id {name!r}; if all tables list the same samples in the same order, exclude it with 'dkpca check "
                f"{source} --exclude {name} --write party.toml'"
            )


def _without_ignored(found: Opened, reading: Reading) -> tuple[list[str], list[str]]:
    """Columns without those of text and dates that are not wanted, and words about these; one that is named stays."""
    schema = found.frame.collect_schema()
    free = [name for name in found.names if name not in reading.columns]
    texts = [name for name in free if isinstance(schema[name], TEXT) and reading.text_handling(name) == "ignore"]
    days = [name for name in free if is_date(schema[name]) and reading.dates == "ignore"]
    said = [
        f"left out {counted(len(names), 'column')} of {what}: {some(names)}"
        for what, names in (("text", texts), ("dates", days))
        if names
    ]
    return [name for name in found.names if name not in {*texts, *days}], said


def _ids(column: pl.Series, source: str, ways: Sequence[str]) -> list[str]:
    """Sample ids as text, each there and each once."""
    ids = sample_ids.as_text(column, source)
    check_unique(ids, ways, source, column.name)
    return ids


def wanted_columns(opened: Opened, reading: Reading) -> list[str]:
    """Columns that are to be used, in their order."""
    unwanted = {reading.id_column, *reading.exclude}
    return [n for n in opened.names if n not in unwanted and (not reading.columns or n in reading.columns)]


def check_columns(wanted: Sequence[str], opened: Opened) -> None:
    """Raise if a column that was named is not there."""
    for name in wanted:
        if name not in opened.names:
            raise InputError(f"{opened.source}: has no column {name!r}; {_did_you_mean(name, opened)}")


def _did_you_mean(name: str, opened: Opened) -> str:
    used = opened.dialect.separator if opened.dialect else None
    if used is not None and len(opened.names) == 1:
        inside = [word for mark, word in SEPARATORS.items() if mark != used and mark in opened.names[0]]
        if inside:
            return f"its header has {' and '.join(inside)}, and {used!r} was taken for the separator; set --separator"
    close = difflib.get_close_matches(name, opened.names, n=1)
    return f"did you mean {close[0]!r}?" if close else f"it has {some(opened.names)}"


def some(names: Sequence[str]) -> str:
    """Names for a sentence, not more than a reader wants."""
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
