"""Numbers and dates as people write them: which mark is the decimal one, and text turned into numbers or dates.

A mark is proved by one number that can be read in one way only: `0,5` and `12,34` have a decimal comma, `1.234.567`
has points between thousands. `1,234` proves nothing. As numbers, dates and times are days since 1970-01-01
(1970-01-02 12:00 is 1.5), times of day a share of the day, and durations days.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
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


def _written(decimal: str) -> re.Pattern[str]:
    """Return how numbers are written with this decimal mark: thousands in groups, or plain, perhaps with exponent."""
    point, mark = re.escape(decimal), f"[{OTHER[decimal]}{GROUPING}]"
    grouped = rf"[1-9]\d{{0,2}}(?P<group>{mark})\d{{3}}(?:(?P=group)\d{{3}})*(?:{point}\d+)?"
    return re.compile(rf"[+-]?(?:{grouped}|(?:\d+(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?)")


WRITTEN = {decimal: _written(decimal) for decimal in OTHER}


def is_number(cell: str) -> bool:
    """Whether some people would write a number so."""
    return any(written.fullmatch(cell) for written in WRITTEN.values())


def marks_in(columns: Mapping[str, Iterable[str]], source: str, asked: str | None) -> tuple[str, str, bool]:
    """Decimal mark, mark between thousands (none: empty), and whether the decimal mark is certain.

    A number that can be read in one way only proves its decimal mark. What all numbers leave open is refused, unless
    a decimal mark is asked for.
    """
    proofs, unclear, groups = dict[str, str](), dict[str, str](), {mark: dict[str, None]() for mark in OTHER}
    for name, cells in columns.items():
        present = [cell for cell in map(str.strip, cells) if cell and cell not in USUAL_MISSING]
        if 2 * sum(map(is_number, present)) <= len(present):
            continue
        for cell in present:
            read_as = {mark: found for mark, own in WRITTEN.items() if (found := own.fullmatch(cell))}
            example = f"{cell!r} in column {name!r}"
            if len(read_as) == 1:
                proofs.setdefault(next(iter(read_as)), example)
            elif read_as and any(mark in cell for mark in OTHER):
                unclear.setdefault("," if "," in cell else ".", example)
            for mark, found in read_as.items():
                groups[mark] |= {found["group"]: None} if found["group"] else {}
    if asked is None and len(proofs) > 1:
        examples = " and ".join(proofs[mark] for mark in sorted(proofs))
        raise InputError(f"{source}: has decimal commas and points, {examples}; choose one with --decimal")
    decimal = asked or next(iter(proofs), None)
    if decimal is None and unclear:
        mark, example = next(iter(unclear.items()))
        raise InputError(
            f"{source}: the {mark!r} in {example} could be a decimal mark or a thousands separator; choose with "
            "--decimal ',' or --decimal '.'"
        )
    return decimal or ".", next(iter(groups[decimal or "."]), ""), decimal is not None


def measured(frame: pl.LazyFrame, asked: Mapping[str, pl.Expr]) -> dict[str, Any]:
    """Values of some expressions over all rows of a table, in one pass."""
    named = [expression.alias(name) for name, expression in asked.items()]
    return frame.select(named).collect(engine="streaming").row(0, named=True) if named else {}


def as_text(column: str, missing: Sequence[str]) -> pl.Expr:
    """Text without the spaces around it; null where it says that a value is missing."""
    text = pl.col(column).str.strip_chars()
    return pl.when(text.is_in(["", *missing])).then(None).otherwise(text).alias(column)


def as_number(text: pl.Expr, decimal: str, thousands: str) -> pl.Expr:
    """Numbers in text; null where there is something else."""
    if decimal == "." and not thousands:
        return text.cast(pl.Float64, strict=False)
    group = f"[{GROUPING}]" if thousands in GROUPING else re.escape(thousands)
    whole = rf"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]*)" if thousands else "[0-9]*"
    shape = rf"^[+-]?{whole}(?:{re.escape(decimal)}[0-9]*)?(?:[eE][+-]?[0-9]+)?$"
    plain = text.str.replace_all(group, "") if thousands else text
    number = plain.str.replace(decimal, ".", literal=True).cast(pl.Float64, strict=False)
    return pl.when(text.str.contains(shape)).then(number).otherwise(None)


def as_truth(text: pl.Expr) -> pl.Expr:
    """True and false in text, null where there is something else."""
    return text.str.to_lowercase().replace_strict(TRUTHS, default=None, return_dtype=pl.Boolean)


def dates_in(frame: pl.LazyFrame, text: pl.Expr, present: int, name: str, source: str) -> pl.Expr | None:
    """Dates of a column of text; None if it holds anything else."""
    if measured(frame, {name: text.str.contains(r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}").sum()})[name] != present:
        return None
    orders = {order: pl.coalesce([_dates(text, form) for form in forms]) for order, forms in DATE_FORMATS.items()}
    found = measured(frame, {order: own.count() for order, own in orders.items()})
    fitting = [order for order in orders if found[order] == present]
    if len(fitting) > 1:
        raise InputError(
            f"{source}: the dates in column {name!r} can be read as {' or '.join(fitting)}; write them as "
            f"2024-01-31, or leave the column out with --exclude {name}"
        )
    return orders[fitting[0]] if fitting else None


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
