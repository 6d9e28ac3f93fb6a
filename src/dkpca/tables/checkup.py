"""Everything about a table at once, where reading it for use stops at the first thing that is wrong."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.tables import column_rules, numerals
from dkpca.tables.columns import typed
from dkpca.tables.formats import Opened
from dkpca.tables.ids import as_text, matching_keys, oddities
from dkpca.tables.preparation import MOST_CATEGORIES
from dkpca.tables.reading import (
    TEXT,
    Reading,
    check_columns,
    column_names,
    opened,
    some,
    text_among_numbers,
    wanted_columns,
)  # fmt: skip
from dkpca.tables.text_files import Dialect

IDENTIFIER = "perhaps an identifier"
LABEL = "perhaps a label: color by it (report --labels), do not send it"
WHEN = "dates are left out; --dates number takes them as days since 1970-01-01"
FEW = 10  # different values of a label
STAND_INS = (-9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)  # numbers that often mean there is none


@dataclass(frozen=True)
class ColumnFinding:
    """What there is to say about one column."""

    name: str
    kind: str  # number, truth, text, date, nothing
    n_missing: int
    n_different: int
    low: float | None
    high: float | None
    remarks: tuple[str, ...]
    use: str  # what is suggested: as it is, one-hot, as days, leave out


@dataclass(frozen=True)
class Findings:
    """What there is to say about a table."""

    source: str
    n_rows: int
    id_column: str | None
    notes: tuple[str, ...]  # how the file is written, what was counted as missing
    id_problems: tuple[str, ...]
    problems: tuple[str, ...]  # of rows and columns, which somebody has to decide
    columns: tuple[ColumnFinding, ...]
    suggested: Reading

    @property
    def usable(self) -> bool:
        """Whether the table can be used as suggested."""
        return not (self.id_problems or self.problems) and any(column.use != LEAVE_OUT for column in self.columns)


AS_IT_IS, ONE_HOT, AS_DAYS, LEAVE_OUT, DECIDE = "as it is", "one-hot", "as days", "leave out", "decide"


def examine(path: Path, reading: Reading) -> Findings:
    """Look at all of a table; where no id column is named, one that is called so is taken."""
    guessed = None if reading.id_column else _likely_id(column_names(path, reading.dialect))
    how = replace(reading, id_column=reading.id_column or guessed)
    with opened(path, how) as table:
        check_columns([name for name in (how.id_column, *how.columns, *how.exclude) if name], table)
        typed_table = typed(table, wanted_columns(table, how), by_position=how.id_column is None)
        chosen = [*([how.id_column] if how.id_column else []), *typed_table.names]
        frame = typed_table.frame.select(chosen).collect(engine="streaming")
    padded = _padded(table, typed_table.names)
    columns = tuple(_column(frame[name], how, table.dialect, name in padded) for name in typed_table.names)
    problems = [] if how.id_column is None else _id_problems(frame[how.id_column], how)
    notes = [*table.notes, *typed_table.notes]
    if how.id_column is None:
        notes += _perhaps_ids(columns)
    if guessed:
        notes.append(f"{guessed!r} is taken for the ids; name another with --id")
    if how.id_column and not problems:
        notes += oddities(as_text(frame[how.id_column], str(path)), how.id_normalize)
    return Findings(
        source=str(path),
        n_rows=frame.height,
        id_column=how.id_column,
        notes=tuple(notes),
        id_problems=tuple(problems),
        problems=tuple(_doubts(frame, how, table.dialect)),
        columns=columns,
        suggested=_suggested(how, columns, table.dialect),
    )


def _likely_id(names: Sequence[str]) -> str | None:
    """A column that is called as ids are; None if there is none, or more than one."""
    called = column_rules.called_as_ids(names)
    return called[0] if len(called) == 1 else None


def _id_problems(column: pl.Series, reading: Reading) -> list[str]:
    """Ids that are missing, twice, or none."""
    gone = column.is_null()
    if isinstance(column.dtype, pl.String):
        gone = gone | (column.str.strip_chars() == "")
    problems = [f"{gone.sum():,} rows have no id, first row {(gone.arg_max() or 0) + 1}"] if gone.any() else []
    try:
        ids = as_text(column.filter(~gone), column.name)
    except InputError as error:
        return [*problems, str(error)]
    keys = matching_keys(ids, reading.id_normalize)
    twice = [key for key, count in Counter(keys).items() if count > 1]
    if twice:
        example = next(text for text, key in zip(ids, keys, strict=True) if key == twice[0])
        problems.append(f"{len(twice):,} ids stand in several rows, as {example!r}; keep one row of each")
    return problems


def _padded(table: Opened, names: Sequence[str]) -> set[str]:
    """Columns of digits with leading zeros, which numbers have not."""
    written = table.written(names)
    zeros = [pl.col(name).str.strip_chars().str.contains(r"^0[0-9]+$").sum() for name in written]
    counts = table.frame.select(zeros).collect(engine="streaming").row(0) if written else ()
    return {name for name, count in zip(written, counts, strict=True) if count > 1}


def _perhaps_ids(columns: Sequence[ColumnFinding]) -> list[str]:
    likely = [column.name for column in columns if any(IDENTIFIER in remark for remark in column.remarks)]
    return [f"no column is called as ids are; if {some(likely)} holds them, say so with --id"] if likely else []


def _doubts(frame: pl.DataFrame, how: Reading, dialect: Dialect | None) -> Iterator[str]:
    """Columns about which somebody has to decide before the table is used."""
    for name in frame.columns:
        decided = name == how.id_column or name in dict(how.text_of) or how.text == "ignore"
        doubt = (
            None if decided or not isinstance(frame[name].dtype, TEXT) else text_among_numbers(frame[name], dialect)
        )
        if doubt:
            yield doubt


def _column(values: pl.Series, reading: Reading, dialect: Dialect | None, padded: bool) -> ColumnFinding:
    kind = _kind(values)
    n_missing, n_different = values.null_count(), values.drop_nulls().n_unique()
    if kind in ("number", "truth", "date"):
        numbers = _as_numbers(values)
        remarks, low, high = _about_numbers(numbers)
    else:
        remarks, low, high = [], None, None
    share = n_missing / max(1, len(values))
    if share > reading.max_missing:
        remarks.append(f"{share:.0%} missing, dropped")
    elif n_missing:
        remarks.append(f"{n_missing:,} missing, filled with the mean")
    if n_different == 1:
        remarks.append("the same in every row")
    mixed = kind == "text" and text_among_numbers(values, dialect) is not None
    if padded and kind == "number":
        remarks.append("some have leading zeros: perhaps a code, not a number")
    if not mixed and (_is_identifier(values, kind) or (padded and values.n_unique() == len(values))):
        remarks.append(f"different in every row: {IDENTIFIER}")
    if 2 <= n_different <= FEW and kind != "date" and column_rules.called_as_labels(values.name):
        remarks.append(LABEL)
    if kind == "date" and reading.dates != "number":
        remarks.append(WHEN)
    if kind == "text" and n_different > MOST_CATEGORIES:
        remarks.append(f"{n_different:,} different texts")
    use = DECIDE if mixed else _use(kind, n_different, share > reading.max_missing, remarks)
    if use == ONE_HOT:
        remarks.append(f"{n_different} columns of 0 and 1")
    return ColumnFinding(values.name, kind, n_missing, n_different, low, high, tuple(remarks), use)


def _kind(values: pl.Series) -> str:
    if values.null_count() == len(values):
        return "nothing"
    if isinstance(values.dtype, TEXT):
        return "text"
    if numerals.is_date(values.dtype):
        return "date"
    return "truth" if values.dtype == pl.Boolean else "number"


def _as_numbers(values: pl.Series) -> np.ndarray[Any, np.dtype[np.float64]]:
    plain = numerals.as_days(values) if numerals.is_date(values.dtype) else values.cast(pl.Float64, strict=False)
    return plain.drop_nulls().drop_nans().to_numpy()


def _about_numbers(numbers: np.ndarray[Any, np.dtype[np.float64]]) -> tuple[list[str], float | None, float | None]:
    finite = numbers[np.isfinite(numbers)]
    remarks = [f"{len(numbers) - len(finite):,} infinite"] if len(finite) < len(numbers) else []
    if not len(finite):
        return remarks, None, None
    low, high = float(finite.min()), float(finite.max())
    for value in STAND_INS:
        count = int((finite == value).sum())
        if count > 1 and value in (low, high) and len(np.unique(finite)) > 2:
            remarks.append(f"{value:g} stands {count:,} times: missing? (--null-values)")
    return remarks, low, high


def _is_identifier(values: pl.Series, kind: str) -> bool:
    """Whole numbers or texts of which no two are the same, in more rows than chance would do it."""
    if kind not in ("number", "text") or len(values) < 20 or values.drop_nulls().n_unique() < len(values):
        return False
    if kind == "text":
        return True
    numbers = _as_numbers(values)
    return bool((numbers == np.round(numbers)).all()) and (
        np.ptp(numbers) == len(numbers) - 1 or numbers.min() >= 1e5
    )


def _use(kind: str, n_different: int, dropped: bool, remarks: Sequence[str]) -> str:
    doubtful = any(words in remark for remark in remarks for words in ("identifier", "infinite", LABEL, WHEN))
    too_many = kind == "text" and n_different > MOST_CATEGORIES
    if kind == "nothing" or n_different < 2 or dropped or doubtful or too_many:
        return LEAVE_OUT
    return {"text": ONE_HOT, "date": AS_DAYS}.get(kind, AS_IT_IS)


def _suggested(reading: Reading, columns: Sequence[ColumnFinding], dialect: Dialect | None) -> Reading:
    """How the table can be read so that nothing of it is refused."""
    left_out = tuple(column.name for column in columns if column.use == LEAVE_OUT)
    texts = tuple((column.name, ONE_HOT) for column in columns if column.use == ONE_HOT)
    has_dates = any(column.use == AS_DAYS for column in columns)
    asked = reading.dialect
    found = asked if dialect is None else replace(dialect, missing=asked.missing, encoding=dialect.encoding)
    return replace(
        reading,
        exclude=(*reading.exclude, *left_out),
        text_of=texts,
        dates="number" if has_dates else reading.dates,
        dialect=found,
    )
