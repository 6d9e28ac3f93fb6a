"""Numbers and dates as people write them: which mark is the decimal one, and text turned into numbers or dates.

A mark is proved by one number that can be read in one way only: `0,5` and `12,34` have a decimal comma, `1.234.567`
has points between thousands. `1,234` proves nothing. As numbers, dates and times are days since 1970-01-01
(1970-01-02 12:00 is 1.5), times of day a share of the day, and durations days.
"""

import re
from collections.abc import Iterable
from typing import Any

import polars as pl

from dkpca.errors import InputError

USUAL_MISSING = (
    "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "#NA", "#NV", "-", "--", ".", "?",
    "n.a.", "N.A.", "k.A.", "k. A.", "<NA>", "NaT", "#DIV/0!", "#VALUE!", "#WERT!", "#REF!", "#BEZUG!",
)  # fmt: skip
TRUTHS = {"true": True, "false": False}
GROUPING = " '\u00a0\u202f\u2009\u2019"  # marks between thousands that are nothing else
OTHER = {",": ".", ".": ","}
UNCLEAR = r"^[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}$"  # is its mark the decimal one?
MOST_EXACT, MOST_WHOLE = 1e15, 1e38  # beyond the first a double may lose digits; the second is the most of Int128
DATE_RULE = "days since 1970-01-01"
DATE_FORMATS = {  # of each order of day, month and year
    "year-month-day": (
        "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f", "%Y/%m/%d",
    ),
    "day-month-year": (
        "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S", "%d/%m/%Y", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S",
    ),
    "month-day-year": ("%m/%d/%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S"),
}  # fmt: skip
DAY = 86_400_000_000  # microseconds


def _written(decimal: str, marks: str) -> str:
    """Return how numbers are written: plain, perhaps with exponent, or with one of the marks between thousands."""
    point = re.escape(decimal)
    grouped = "|".join(rf"(?:{re.escape(mark)}[0-9]{{3}})+" for mark in marks)
    plain = rf"(?:[0-9]+(?:{point}[0-9]*)?|{point}[0-9]+)(?:[eE][+-]?[0-9]+)?"
    return rf"^[+-]?(?:[1-9][0-9]{{0,2}}(?:{grouped})(?:{point}[0-9]+)?|{plain})$"


WRITTEN = {decimal: _written(decimal, other + GROUPING) for decimal, other in OTHER.items()}


def is_number(cell: str) -> bool:
    """Whether some people would write a number so."""
    return any(re.search(written, cell) for written in WRITTEN.values())


def marks_in(columns: Iterable[pl.Series], source: str, asked: str | None) -> tuple[str, str]:
    """Decimal mark, and mark between thousands (none: empty), of the numbers in columns of text.

    A number that can be read in one way only proves its decimal mark. What all numbers leave open is refused, unless
    a decimal mark is asked for.
    """
    proofs, numbers = dict[str, str](), list[pl.Series]()
    for text in columns:
        read_as = {mark: text.str.contains(written) for mark, written in WRITTEN.items()}
        if 2 * (read_as[","] | read_as["."]).sum() <= text.count():
            continue
        numbers.append(text)
        for mark, other in OTHER.items():
            only = read_as[mark] & ~read_as[other]
            if only.any():
                proofs.setdefault(mark, f"{text.filter(only)[0]!r} in column {text.name!r}")
    if asked is None and len(proofs) > 1:
        examples = " and ".join(proofs[mark] for mark in sorted(proofs))
        raise InputError(f"{source}: has decimal commas and points, {examples}; choose one with --decimal")
    decimal = asked or next(iter(proofs), None)
    for text in numbers if decimal is None else ():
        unclear = text.filter(text.str.contains(UNCLEAR))
        if len(unclear):
            mark = "," if "," in unclear[0] else "."
            raise InputError(
                f"{source}: the {mark!r} in {unclear[0]!r} in column {text.name!r} could be a decimal mark or a "
                "thousands separator; choose with --decimal ',' or --decimal '.'"
            )
    group = rf"^[+-]?[1-9][0-9]{{0,2}}([{OTHER[decimal or '.']}{GROUPING}])[0-9]{{3}}"
    found = (mark for text in numbers for mark in text.str.extract(group).drop_nulls().head(1))
    return decimal or ".", next(found, "")


def as_number(text: pl.Series, decimal: str, thousands: str) -> pl.Series:
    """Numbers in text; null where there is something else."""
    if decimal == "." and not thousands:
        return text.cast(pl.Float64, strict=False)
    marks = GROUPING if thousands and thousands in GROUPING else thousands
    plain = text.str.replace_all(f"[{re.escape(marks)}]", "") if marks else text
    number = plain.str.replace(decimal, ".", literal=True).cast(pl.Float64, strict=False)
    return number.set(~text.str.contains(_written(decimal, marks)), None)


def typed(text: pl.Series, decimal: str, thousands: str, source: str) -> pl.Series:
    """Numbers, dates or truth values, where all of a column of text is so; else the text."""
    gaps, numbers = text.null_count(), as_number(text, decimal, thousands)
    if numbers.null_count() == gaps:
        # Whole numbers of more digits than a double has stay whole.
        most = numbers.abs().max()
        large = isinstance(most, float) and MOST_EXACT <= most < MOST_WHOLE
        return text.cast(pl.Int128) if large and text.str.contains("^[+-]?[0-9]+$").all() else numbers
    dates = dates_in(text, source)
    if dates is not None:
        return dates
    truths = text.str.to_lowercase().replace_strict(TRUTHS, default=None, return_dtype=pl.Boolean)
    return truths if truths.null_count() == gaps else text


def dates_in(text: pl.Series, source: str) -> pl.Series | None:
    """Dates of a column of text; None if it holds anything else."""
    if not text.str.contains(r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}").all():
        return None
    cells = pl.col(text.name)
    found = text.to_frame().select(
        pl.coalesce(_dates(cells, form) for form in forms).alias(order) for order, forms in DATE_FORMATS.items()
    )
    fitting = [own for own in found if own.null_count() == text.null_count()]
    if len(fitting) > 1:
        raise InputError(
            f"{source}: the dates in column {text.name!r} can be read as {' or '.join(own.name for own in fitting)}; "
            f"write them as 2024-01-31, or leave the column out with --exclude {text.name}"
        )
    return fitting[0].alias(text.name) if fitting else None


def _dates(text: pl.Expr, form: str) -> pl.Expr:
    kind = pl.Datetime("us") if "%H" in form else pl.Date
    return text.str.strptime(kind, form, strict=False).cast(pl.Datetime("us"))


def is_date(kind: Any) -> bool:
    """Whether a column of this type holds dates, times or durations."""
    return isinstance(kind, pl.Date | pl.Datetime | pl.Time | pl.Duration)


def as_days(column: pl.Series) -> pl.Series:
    """Numbers by the rule above, null where there is no date."""
    if isinstance(column.dtype, pl.Date | pl.Time):
        column = column.cast(pl.Datetime("us") if isinstance(column.dtype, pl.Date) else pl.Duration("us"))
    return column.dt.cast_time_unit("us").to_physical().cast(pl.Float64) / DAY


def as_floats(column: pl.Series) -> Any:
    """Numbers of a column, NaN where there is none; dates by the rule above."""
    numbers = as_days(column) if is_date(column.dtype) else column.cast(pl.Float64, strict=False)
    return numbers.fill_null(float("nan")).to_numpy()


def as_indicator(column: pl.Series, category: str) -> Any:
    """1 where a column of text has this category, 0 where another, NaN where none."""
    return as_floats(column.cast(pl.String) == category)
