"""Columns of text become numbers where all of the column is numbers: the whole column decides, not its first rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from dkpca.errors import InputError
from dkpca.tables import numerals, text_files
from dkpca.tables.formats import Opened
from dkpca.tables.text_files import Dialect

NUMBER, WHOLE, TRUTH, DATE, TEXT = "number", "large whole number", "truth", "date", "text"
ONLY_DIGITS, LARGE = "^[+-]?[0-9]+$", "^[+-]?[0-9]{16,38}$"
NO_FORMATS: Mapping[str, str] = {}
PLAIN_MISSING = ("NA", "N/A", "NaN", "nan", "null", "NULL", "None")  # nobody takes these for a value


@dataclass(frozen=True)
class Typed:
    """A table whose columns have their types, not yet loaded."""

    frame: pl.LazyFrame
    names: list[str]  # without those that have neither a name nor a value
    notes: list[str]
    date_formats: dict[str, str]  # of columns of text that hold dates


def typed(
    opened: Opened, wanted: Sequence[str], *, by_position: bool, date_formats: Mapping[str, str] = NO_FORMATS
) -> Typed:
    """Give the columns wanted their types; the others stay as they are. Rows without any value are left out.

    Columns of dates that are known from an earlier table are read in the form they had there.
    """
    if opened.dialect is None:
        return Typed(opened.frame, list(wanted), [], {})
    # A column is numbers if all its values are; of the rest, dates and truth values are looked for.
    frame, notes = _without_empty_rows(opened, by_position)
    written = opened.written(wanted)
    present, numbers, marked = _counts(frame, written, opened.dialect)
    unused = set(text_files.empty_columns(present))
    kinds = {name: NUMBER for name in written if name not in unused and numbers[name] == present[name]}
    formats: dict[str, str] = {}
    for name in written:
        if name not in unused and name not in kinds:
            text = numerals.as_text(name, opened.dialect.missing or ())
            form = _date_format(frame, text, present[name], name, opened, date_formats)
            kinds[name] = DATE if form else _truth_or_text(frame, text, present[name])
            formats |= {name: form} if form else {}
    # The head of the file may have left the decimal mark open; the whole columns decide now, or it is refused.
    if not opened.proved:
        _refuse_unclear(frame, [name for name, kind in kinds.items() if kind == NUMBER], opened)
    notes += _about_marks(frame, [name for name, count in marked.items() if count], opened.dialect)
    kinds |= dict.fromkeys(_large(frame, [n for n, kind in kinds.items() if kind == NUMBER], opened.dialect), WHOLE)
    expressions = [_converted(name, kind, opened.dialect, formats) for name, kind in kinds.items()]
    return Typed(frame.with_columns(expressions), [name for name in wanted if name not in unused], notes, formats)


def _converted(name: str, kind: str, dialect: Dialect, formats: Mapping[str, str]) -> pl.Expr:
    text = numerals.as_text(name, dialect.missing or ())
    if kind == NUMBER:
        text = numerals.as_number(text, dialect.decimal or ".", dialect.thousands or "")
    elif kind == WHOLE:
        text = text.cast(pl.Int128, strict=False)
    elif kind == TRUTH:
        text = numerals.as_truth(text)
    elif kind == DATE:
        text = numerals.as_date(text, formats[name])
    return text.alias(name)


def _large(frame: pl.LazyFrame, names: Sequence[str], dialect: Dialect) -> list[str]:
    """Columns of nothing but whole numbers, some of which have more digits than a double does."""
    texts = {name: numerals.as_text(name, dialect.missing or ()) for name in names}
    asked = [text.str.contains(LARGE).any().alias(name) for name, text in texts.items()]
    found = frame.select(asked).collect(engine="streaming").row(0, named=True) if asked else {}
    some = [name for name, large in found.items() if large]
    whole = [texts[name].str.contains(ONLY_DIGITS).all().alias(name) for name in some]
    only = frame.select(whole).collect(engine="streaming").row(0, named=True) if whole else {}
    return [name for name, all_of_it in only.items() if all_of_it]


def _counts(
    frame: pl.LazyFrame, names: Sequence[str], dialect: Dialect
) -> tuple[dict[str, int], dict[str, int], dict[str, int]]:
    """How many values each column has, how many of them are numbers, and how many marks of missing ones."""
    missing = dialect.missing or ()
    asked = [
        expression
        for name in names
        for expression in (
            numerals.as_text(name, missing).count().alias(f"present {name}"),
            numerals.as_number(numerals.as_text(name, missing), dialect.decimal or ".", dialect.thousands or "")
            .count()
            .alias(f"numbers {name}"),
            pl.col(name).str.strip_chars().is_in(list(missing)).sum().alias(f"marked {name}"),
        )
    ]
    found = frame.select(asked).collect(engine="streaming").row(0, named=True) if asked else {}
    present, numbers, marked = (
        {name: found[f"{what} {name}"] for name in names} for what in ("present", "numbers", "marked")
    )
    return present, numbers, marked


def _truth_or_text(frame: pl.LazyFrame, text: pl.Expr, present: int) -> str:
    truths = frame.select(numerals.as_truth(text).count()).collect(engine="streaming").item()
    return TRUTH if truths == present else TEXT


def _date_format(
    frame: pl.LazyFrame, text: pl.Expr, present: int, name: str, opened: Opened, known: Mapping[str, str]
) -> str | None:
    if name not in known:
        return numerals.date_format(frame, text, present, name, opened.source)
    fitting = frame.select(numerals.as_date(text, known[name]).count()).collect(engine="streaming").item()
    return known[name] if fitting == present else None


def _without_empty_rows(opened: Opened, by_position: bool) -> tuple[pl.LazyFrame, list[str]]:
    """Leave out rows without any value; say so, and how many rows are too short."""
    empty = pl.all_horizontal(pl.all().is_null())
    last = pl.col(opened.names[-1]).is_null()
    counts = opened.frame.select(empty.sum().alias("empty"), last.sum().alias("last"), pl.len().alias("rows"))
    found = counts.collect(engine="streaming").row(0, named=True)
    notes = []
    frame = opened.frame
    if opened.text_file is not None and found["last"] > found["empty"]:
        notes += text_files.short_rows(opened.text_file)
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
    texts = {name: pl.col(name).str.strip_chars() for name in names}
    if not texts:
        return
    marks = [text.str.contains(mark, literal=True).sum().alias(name) for name, text in texts.items()]
    unclear = [numerals.unclear_count(text, mark).alias(name) for name, text in texts.items()]
    with_mark, open_ones = (frame.select(e).collect(engine="streaming").row(0, named=True) for e in (marks, unclear))
    if sum(open_ones.values()) and sum(open_ones.values()) == sum(with_mark.values()):
        name = next(name for name, count in open_ones.items() if count)
        raise InputError(
            f"{opened.source}: the numbers in column {name!r} have {mark!r} before three digits, as decimal mark or "
            "between thousands; nothing in the file says which: give --decimal , or --decimal ."
        )


def _about_marks(frame: pl.LazyFrame, names: Sequence[str], dialect: Dialect) -> list[str]:
    """Name what was counted as a missing value, where it might have been one."""
    marks = [mark for mark in dialect.missing or () if mark not in PLAIN_MISSING]
    if not names or not marks:
        return []
    cells = frame.select(pl.col(names).str.strip_chars()).unpivot().filter(pl.col("value").is_in(marks))
    counts: Mapping[str, int] = dict(cells.group_by("value").len().collect(engine="streaming").rows())
    return [numerals.missing_words(counts)] if counts else []
