"""Everything about a table at once, where reading it for use stops at the first thing that is wrong."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.tables import inputs, numerals
from dkpca.tables import reading as readings
from dkpca.tables.ids import in_words, looked_through, matching_keys
from dkpca.tables.preparation import prepare, share_missing
from dkpca.tables.reading import TEXT, Reading, Table, null_values, opened, typed
from dkpca.tables.text_files import Opened
from dkpca.wording import some

AS_IT_IS, AS_DAYS, LEAVE_OUT, DECIDE = "as is", "as days", "leave out", "decide"
ONE_HOT, EXCLUDED = "one-hot", "in exclude"
IDENTIFIER, NO_IDS = "perhaps an identifier", "No id column found"
NEARLY = 0.95  # of the rows that differ: an identifier with repeats
STANDS_IN = "missing?"
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
    problems: tuple[str, ...]  # of ids, and of columns that somebody has to decide about
    columns: tuple[ColumnFinding, ...]
    suggested: Reading


def examine(path: Path, reading: Reading) -> Findings:
    """Look at all of a table; where no id column is named, the only one that is called id is taken."""
    names = [] if reading.id_column else readings.column_names(path, reading.dialect)
    called = [*filter(inputs.ID_NAME.search, names)]
    how = replace(reading, id_column=called[0]) if len(called) == 1 else reading
    with opened(path, how) as table:
        readings.check_columns([name for name in (how.id_column, *how.columns, *how.exclude) if name], table)
        found = typed(table, readings.wanted_columns(table, how), [how.id_column] if how.id_column else [])
        frame = found.frame.collect(engine="streaming")
        excluded = _excluded(replace(table, dialect=found.dialect), how) if how.exclude else ()
    texts = [name for name in found.names if isinstance(frame[name].dtype, TEXT)]
    free = [name for name in texts if name not in dict(how.text_of) and how.text != "ignore"]
    doubts = {name: doubt for name in free if (doubt := readings.text_among_numbers(frame[name], found.dialect))}
    columns = tuple(_column(frame[name], how, decide=name in doubts) for name in found.names)
    # What is too empty is left out by `max_missing` alone, whenever the table is read.
    out = [each.name for each in columns if each.use == LEAVE_OUT and not _too_empty(frame[each.name], how)]
    handled = {name: how.text_handling(name) for name in texts if name not in out and name not in doubts}
    nothing = [f"{path}: no column is left to use"] * all(column.use == LEAVE_OUT for column in columns)
    notes, problems = found.notes, list[str]()
    marks = sorted({said.split()[0] for each in columns for said in each.remarks if said.endswith(STANDS_IN)})
    if marks and found.dialect:
        notes += [f"to count {some(marks, written=str)} as missing: {null_values(marks, found.dialect)}"]
    if how.id_column is None:
        likely = [column.name for column in columns if any(IDENTIFIER in said for said in column.remarks)]
        notes += [f"{NO_IDS}; if {some(likely)} holds the ids, name it with --id"] if likely else []
    else:
        ids, problems = looked_through(frame[how.id_column], how.id_normalize, str(path))
        notes += [] if problems else [in_words(how.id_column, matching_keys(ids, how.id_normalize))]
        notes += [f"using {how.id_column!r} as the id column; choose another with --id"] if how is not reading else []
    return Findings(
        source=str(path),
        n_rows=frame.height,
        id_column=how.id_column,
        notes=tuple(notes),
        problems=(*problems, *doubts.values(), *nothing),
        columns=columns + excluded,
        suggested=replace(  # so that nothing of it is refused
            how,
            exclude=(*how.exclude, *out),
            text_of=tuple((name, ONE_HOT if asked == "error" else asked) for name, asked in handled.items()),
            dialect=replace(found.dialect, missing=how.dialect.missing) if found.dialect else how.dialect,
        ),
    )


def _too_empty(values: pl.Series, how: Reading) -> str:
    """Why a column is dropped whenever the table is read; empty: it is not. One without any value is refused."""
    share = share_missing(values, how)
    most = f"more than --max-missing {how.max_missing:g}"
    return f"{100 * share:.3g}% missing, {most}: left out" if how.max_missing < share < 1 else ""


def _excluded(table: Opened, how: Reading) -> tuple[ColumnFinding, ...]:
    """What `exclude` leaves out, and why it would be left out anyway, where that can be told."""
    names = [name for name in dict.fromkeys(how.exclude) if name != how.id_column]
    try:
        frame = typed(table, names).frame.collect(engine="streaming")
    except (InputError, pl.exceptions.PolarsError):  # as of dates in another form, for which one may be excluded
        return tuple(ColumnFinding(name, "other", 0, 0, None, None, (EXCLUDED,), LEAVE_OUT) for name in names)
    found = [_column(frame[name], how, decide=False) for name in names]
    why = [[words.partition("; leave")[0] for words in each.remarks] * (each.use == LEAVE_OUT) for each in found]
    return tuple(replace(each, use=LEAVE_OUT, remarks=(EXCLUDED, *own)) for each, own in zip(found, why, strict=True))


def _column(values: pl.Series, how: Reading, *, decide: bool) -> ColumnFinding:
    """What preparing a column alone says of it, and what nobody could know who only prepares it."""
    kind, handling = _kind(values), how.text_handling(values.name)
    asked = ONE_HOT if handling == "error" else handling
    low, high, remarks = None, None, list[str]()
    try:
        learned = prepare(Table("", None, values.to_frame()), replace(how, text_of=((values.name, asked),)))
        use, remarks = {"text": asked, "date": AS_DAYS}.get(kind, AS_IT_IS), [*learned.notes]
        if kind != "text":
            low, high = learned.columns[0].low, learned.columns[0].high
    except InputError as refusal:
        use, remarks = LEAVE_OUT, [_too_empty(values, how) or str(refusal).removeprefix(": ")]
    n_different = 0 if kind == "other" else values.drop_nulls().n_unique()
    for value in {low, high} & set(STAND_INS) if n_different > 2 else ():
        count = int((values == value).sum())
        if count > 1:
            remarks.append(f"{value:g} occurs {count:,} times: {STANDS_IN}")
    every = n_different == len(values)
    if not decide and n_different >= NEARLY * len(values) >= NEARLY * 20 and _identifies(values, kind, every=every):
        said = f"different in {'every' if every else 'nearly every'} row: {IDENTIFIER}"
        use, remarks = LEAVE_OUT if every or kind == "text" else use, [*remarks * (kind != "text"), said]
    use = DECIDE if decide else use
    return ColumnFinding(values.name, kind, values.null_count(), n_different, low, high, tuple(remarks), use)


def _kind(values: pl.Series) -> str:
    if values.null_count() == len(values):
        return "empty"
    if isinstance(values.dtype, TEXT):
        return "text"
    if numerals.is_date(values.dtype):
        return "date"
    return "true/false" if values.dtype == pl.Boolean else "number" if values.dtype.is_numeric() else "other"


def _identifies(values: pl.Series, kind: str, *, every: bool) -> bool:
    """Texts, or whole numbers that nearly count the rows, or have six digits; eight if a few are alike."""
    numbers = numerals.as_floats(values.drop_nulls()) if kind == "number" else np.array([0.5])
    whole, least = bool((numbers == np.round(numbers)).all()), 1e5 if every else 1e7
    return kind == "text" or (whole and bool(np.ptp(numbers) * NEARLY < len(numbers) or numbers.min() >= least))
