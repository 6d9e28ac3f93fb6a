"""Everything about a table at once, where reading it for use stops at the first thing that is wrong."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.tables import inputs, numerals
from dkpca.tables.ids import found_in
from dkpca.tables.preparation import FARTHEST, MOST_CATEGORIES
from dkpca.tables.reading import (
    TEXT,
    Reading,
    check_columns,
    column_names,
    opened,
    text_among_numbers,
    typed,
    wanted_columns,
)
from dkpca.tables.text_files import Dialect

AS_IT_IS, AS_DAYS, LEAVE_OUT, DECIDE = "as is", "as days", "leave out", "decide"
ONE_HOT, CODES = "one-hot", "codes"
IDENTIFIER = "different in every row: perhaps an identifier"
WHEN = "dates are left out; --dates number uses them as days since 1970-01-01"
STAND_INS = (-9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)  # numbers that often mean there is none


@dataclass(frozen=True)
class ColumnFinding:
    """What there is to say about one column."""

    name: str
    kind: str  # number, true/false, text, date, empty, other
    n_missing: int
    n_different: int
    low: float | None
    high: float | None
    remarks: tuple[str, ...]
    use: str  # what is suggested: as is, one-hot, codes, as days, leave out; decide: nothing


@dataclass(frozen=True)
class Findings:
    """What there is to say about a table."""

    source: str
    n_rows: int
    id_column: str | None
    notes: tuple[str, ...]  # how the file is written, what was counted as missing
    id_problems: tuple[str, ...]
    problems: tuple[str, ...]  # of columns, which somebody has to decide
    columns: tuple[ColumnFinding, ...]
    suggested: Reading

    @property
    def usable(self) -> bool:
        """Whether the table can be used as suggested."""
        return not (self.id_problems or self.problems)


def examine(path: Path, reading: Reading) -> Findings:
    """Look at all of a table; where no id column is named, the only one that is called id is taken."""
    called = [] if reading.id_column else [*filter(inputs.ID_NAME.search, column_names(path, reading.dialect))]
    how = replace(reading, id_column=called[0]) if len(called) == 1 else reading
    with opened(path, how) as table:
        check_columns([name for name in (how.id_column, *how.columns, *how.exclude) if name], table)
        found = typed(table, wanted_columns(table, how), [how.id_column] if how.id_column else [])
        frame = found.frame.collect(engine="streaming")
    doubts = {name: _doubt(frame[name], how, found.dialect) for name in found.names}
    columns = tuple(_column(frame[name], how, doubts[name]) for name in found.names)
    nothing = [f"{path}: no column is left to use"] * all(column.use == LEAVE_OUT for column in columns)
    notes, id_problems = found.notes, list[str]()
    if how.id_column is None:
        likely = [column.name for column in columns if IDENTIFIER in column.remarks]
        notes += [f"No id column found; if {inputs.some(likely)} holds the ids, name it with --id"] if likely else []
    else:
        try:
            id_problems = found_in(frame[how.id_column], how.id_normalize, str(path))[1]
        except InputError as error:  # no ids at all
            id_problems = [str(error)]
        notes += [f"using {how.id_column!r} as the id column; choose another with --id"] if how is not reading else []
    return Findings(
        source=str(path),
        n_rows=frame.height,
        id_column=how.id_column,
        notes=tuple(notes),
        id_problems=tuple(id_problems),
        problems=(*filter(None, doubts.values()), *nothing),
        columns=columns,
        suggested=replace(  # so that nothing of it is refused
            how,
            exclude=(*how.exclude, *(column.name for column in columns if column.use == LEAVE_OUT)),
            text_of=tuple((column.name, column.use) for column in columns if column.use in (ONE_HOT, CODES)),
            dialect=replace(found.dialect, missing=how.dialect.missing) if found.dialect else how.dialect,
        ),
    )


def _doubt(values: pl.Series, how: Reading, dialect: Dialect | None) -> str | None:
    """What somebody has to decide about a column of text before the table is used."""
    decided = values.name in dict(how.text_of) or how.text == "ignore"
    return None if decided or not isinstance(values.dtype, TEXT) else text_among_numbers(values, dialect)


def _column(values: pl.Series, reading: Reading, doubt: str | None) -> ColumnFinding:
    kind = _kind(values)
    n_missing, n_different = values.null_count(), 0 if kind == "other" else values.drop_nulls().n_unique()
    numbers = numerals.as_floats(values) if kind in ("number", "true/false", "date") else np.empty(0)
    numbers = numbers[~np.isnan(numbers)]
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (None, None)
    asked = reading.text_handling(values.name)
    share = 0.0 if asked == CODES else n_missing / max(1, len(values))  # a gap among codes is a category too
    remarks = [f"{len(numbers) - len(finite):,} infinite"] if len(finite) < len(numbers) else []
    leave_out = bool(remarks) or kind == "empty" or n_different < 2 or share > reading.max_missing
    for value in STAND_INS if n_different > 2 else ():
        count = int((finite == value).sum())
        if count > 1 and value in (low, high):
            remarks.append(f"{value:g} occurs {count:,} times: missing? (--null-values)")
    if n_missing:
        filled = "a category of their own" if asked == CODES else "filled with the mean"
        dropped = share > reading.max_missing
        remarks.append(f"{share:.0%} missing, dropped" if dropped else f"{n_missing:,} missing, {filled}")
    if n_different == 1:
        remarks.append("the same in every row")
    reasons = []
    if doubt is None and _is_identifier(values, kind, numbers):
        reasons.append(IDENTIFIER)
    if kind == "date" and reading.dates != "number":
        reasons.append(WHEN)
    if kind == "other":
        reasons.append(f"{values.dtype} values, not numbers")
    if asked != CODES and values.dtype.is_integer() and inputs.beyond_doubles([values.min(), values.max()]):
        reasons.append("whole numbers beyond 2^53, which double precision cannot distinguish")
    if low is not None and high is not None and high / 2 - low / 2 > FARTHEST:
        reasons.append("numbers too far apart to be subtracted")
    as_asked = {"error": ONE_HOT, "ignore": LEAVE_OUT}.get(asked, asked)
    if kind == "text" and as_asked == ONE_HOT and n_different > MOST_CATEGORIES:
        reasons.append(f"{n_different:,} different texts")
    use = {"text": as_asked, "date": AS_DAYS}.get(kind, AS_IT_IS)
    use = DECIDE if doubt else LEAVE_OUT if leave_out or reasons else use
    remarks += [*reasons, *([f"{n_different} columns of 0 and 1"] if use == ONE_HOT else [])]
    return ColumnFinding(values.name, kind, n_missing, n_different, low, high, tuple(remarks), use)


def _kind(values: pl.Series) -> str:
    if values.null_count() == len(values):
        return "empty"
    if isinstance(values.dtype, TEXT):
        return "text"
    if numerals.is_date(values.dtype):
        return "date"
    return "true/false" if values.dtype == pl.Boolean else "number" if values.dtype.is_numeric() else "other"


def _is_identifier(values: pl.Series, kind: str, numbers: Any) -> bool:
    """Whole numbers or texts of which no two are the same, in more rows than chance would do it."""
    if kind not in ("number", "text") or len(values) < 20 or values.drop_nulls().n_unique() < len(values):
        return False
    if kind == "text":
        return True
    whole = bool((numbers == np.round(numbers)).all())
    return whole and bool(np.ptp(numbers) == len(numbers) - 1 or numbers.min() >= 1e5)
