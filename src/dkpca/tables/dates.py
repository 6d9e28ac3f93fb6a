"""Dates in columns: found in text where all of a column is dates of one form, and made numbers by one rule.

As numbers, dates and times are days since 1970-01-01 (1970-01-02 12:00 is 1.5), times of day a share of the day, and
durations days.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from dkpca.errors import InputError

RULE = "days since 1970-01-01"
FORMATS = (
    "%Y-%m-%d", "%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S%.f", "%Y/%m/%d",
    "%d.%m.%Y", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S",
    "%d/%m/%Y", "%d/%m/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y", "%m/%d/%Y %H:%M", "%m/%d/%Y %H:%M:%S",
)  # fmt: skip
WORDS: Mapping[str, str] = {"%Y": "year", "%m": "month", "%d": "day"}
DAY = 86_400_000_000  # microseconds


def find_format(frame: pl.LazyFrame, text: pl.Expr, present: int, name: str, source: str) -> str | None:
    """The form in which all values of a text column are dates, if there is one."""
    looks = frame.select(text.str.contains(r"^\d{1,4}[-./]\d{1,2}[-./]\d{1,4}").sum()).collect(engine="streaming")
    if looks.item() != present:
        return None
    counts = frame.select(parsed(text, form).count().alias(form) for form in FORMATS)
    found = counts.collect(engine="streaming").row(0, named=True)
    fitting = [form for form in FORMATS if found[form] == present]
    if len(fitting) > 1:
        candidates = " or ".join(_said(form) for form in fitting)
        raise InputError(
            f"{source}: the dates in column {name!r} can be read as {candidates}; write them as 2024-01-31, or leave "
            f"the column out with --exclude {name}"
        )
    return fitting[0] if fitting else None


def parsed(text: pl.Expr, form: str) -> pl.Expr:
    """Dates in text of this form, null where there is something else."""
    if "%H" not in form:
        return text.str.strptime(pl.Date, form, strict=False).cast(pl.Datetime("us"))
    return text.str.strptime(pl.Datetime("us"), form, strict=False)


def is_date(kind: Any) -> bool:
    """Whether a column of this type holds dates, times or durations."""
    return isinstance(kind, pl.Date | pl.Datetime | pl.Time | pl.Duration)


def as_days(column: pl.Series) -> pl.Series:
    """Numbers by the rule of this module, null where there is no date."""
    if isinstance(column.dtype, pl.Date):
        return column.to_physical().cast(pl.Float64)
    if isinstance(column.dtype, pl.Time):
        return column.to_physical().cast(pl.Float64) / (1000 * DAY)
    unit = pl.Duration("us") if isinstance(column.dtype, pl.Duration) else pl.Datetime("us")
    naive = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None) if _has_zone(column.dtype) else column
    return naive.cast(unit).to_physical().cast(pl.Float64) / DAY


def _has_zone(kind: Any) -> bool:
    return isinstance(kind, pl.Datetime) and kind.time_zone is not None


def _said(form: str) -> str:
    """Order of day, month and year, in words."""
    return "-".join(
        sorted(WORDS.values(), key=lambda word: form.index(next(m for m, w in WORDS.items() if w == word)))
    )
