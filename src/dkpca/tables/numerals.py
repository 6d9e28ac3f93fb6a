"""Numbers and dates as people write them: which mark is the decimal one, and text turned into numbers or dates.

A mark is proved by one number that can be read in one way only: `0,5` and `12,34` have a decimal comma. `1,234`
proves nothing. As numbers, dates and times are days since 1970-01-01 (1970-01-02 12:00 is 1.5), times of day a share
of the day, and durations days.
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
OTHER = {",": ".", ".": ","}
UNCLEAR = r"^[+-]?[1-9][0-9]{0,2}[,.][0-9]{3}$"  # is its mark the decimal one?
PLAIN = {mark: rf"^[+-]?(?:[0-9]+(?:[{mark}][0-9]*)?|[{mark}][0-9]+)(?:[eE][+-]?[0-9]+)?$" for mark in OTHER}
MOST_EXACT, MOST_WHOLE = 1e15, 1e38  # beyond the first a double may lose digits; the second is the most of Int128
GROUPED = r"^[+-]?[0-9]{1,3}([.,' \u00a0\u202f\u2019][0-9]{3})+([.,][0-9]+)?$"  # with thousands marks
DATE_RULE = "days since 1970-01-01"
LIKE_DATES = r"^(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./]\d{1,2}[-./]\d{4})([ T]|$)"
DATE_FORMATS = (
    *("%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f"),
    *("%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S"),
)
DAY = 86_400_000_000  # microseconds


def decimal_mark(columns: Iterable[pl.Series], source: str) -> str:
    """Decimal mark of the numbers in columns of text: a number that can be read in one way only proves it."""
    proofs, unclear = dict[str, str](), list[str]()
    for text in columns:
        read_as = {mark: text.str.contains(plain) for mark, plain in PLAIN.items()}
        if 2 * (read_as[","] | read_as["."]).sum() <= text.count():
            continue
        for mark, other in OTHER.items():
            only = text.filter(read_as[mark] & ~read_as[other])
            doubtful = only.str.contains(UNCLEAR)
            said = [f"{cells[0]!r} in column {text.name!r}" for cells in (only.filter(~doubtful), only) if len(cells)]
            if len(said) == 2:
                proofs.setdefault(mark, said[0])
            else:
                unclear += said
    if len(proofs) > 1:
        examples = " and ".join(proofs[mark] for mark in sorted(proofs))
        raise InputError(f"{source}: has decimal commas and points, {examples}; choose one with --decimal")
    if not proofs and unclear:
        raise InputError(
            f"{source}: the mark in {unclear[0]} could be a decimal mark or a thousands separator; choose with "
            "--decimal ',' or --decimal '.'"
        )
    return next(iter(proofs), ".")


def as_number(text: pl.Series, decimal: str, thousands: str) -> pl.Series:
    """Numbers in text; null where there is something else."""
    if decimal == "." and not thousands:
        return text.cast(pl.Float64, strict=False)
    point, mark = re.escape(decimal), re.escape(thousands)
    grouped = rf"^[+-]?[1-9][0-9]{{0,2}}(?:{mark}[0-9]{{3}})+(?:{point}[0-9]+)?$"
    written = text.str.contains(rf"{PLAIN[decimal]}|{grouped}" if thousands else PLAIN[decimal])
    plain = text.str.replace_all(thousands, "", literal=True) if thousands else text
    return plain.str.replace(decimal, ".", literal=True).cast(pl.Float64, strict=False).set(~written, None)


def typed(text: pl.Series, decimal: str, thousands: str, source: str) -> pl.Series:
    """Numbers, dates or truth values, where all of a column of text is so; else the text."""
    gaps, numbers = text.null_count(), as_number(text, decimal, thousands)
    # A number is not written with leading zeros: 00123 is a code, and text.
    if numbers.null_count() == gaps and not text.str.contains("^0[0-9]+$").any():
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
    if not text.str.contains(LIKE_DATES).all():
        return None
    cells = pl.col(text.name)
    kinds = [(form, pl.Datetime("us") if "%H" in form else pl.Date) for form in DATE_FORMATS]
    read = (cells.str.strptime(kind, form, strict=False).cast(pl.Datetime("us")) for form, kind in kinds)
    dates = text.to_frame().select(pl.coalesce(read)).to_series()
    if dates.null_count() > text.null_count():
        raise InputError(
            f"{source}: column {text.name!r} holds dates such as {text.drop_nulls()[0]!r}; write all as 2024-01-31 "
            f"or 31.01.2024, or leave the column out with --exclude {text.name}"
        )
    return dates


def is_date(kind: Any) -> bool:
    """Whether a column of this type holds dates, times or durations."""
    return isinstance(kind, pl.Date | pl.Datetime | pl.Time | pl.Duration)


def as_floats(column: pl.Series) -> Any:
    """Numbers of a column, NaN where there is none; dates by the rule above."""
    if isinstance(column.dtype, pl.Date | pl.Time):
        column = column.cast(pl.Datetime("us") if isinstance(column.dtype, pl.Date) else pl.Duration("us"))
    if is_date(column.dtype):
        column = column.dt.cast_time_unit("us").to_physical().cast(pl.Float64) / DAY
    return column.cast(pl.Float64, strict=False).fill_null(float("nan")).to_numpy()
