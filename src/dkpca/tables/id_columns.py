"""A column of sample ids becomes text, by one rule a type.

Text stays as it is, spaces and all. Whole numbers become their digits, also where they are stored as fractions (`3.0`
is `3`, which is how a workbook or a column with a gap stores `3`). Dates become `2024-01-31`, times
`2024-01-31T08:30:00`, with a fraction only where there is one. Numbers with a fraction are no ids.
"""

import polars as pl

from dkpca.errors import InputError

EXACT = 2**53  # above it, different whole numbers can be one floating point number


def as_text(column: pl.Series, source: str) -> list[str]:
    """Ids of all rows; each has to be there."""
    column = _text(column, source)
    missing = column.is_null() | (column.str.strip_chars() == "")
    if missing.any():
        row = missing.arg_max() or 0
        raise InputError(f"{source}: no id in column {column.name!r}, row {row + 1}; give every sample an id")
    return column.to_list()


def _text(column: pl.Series, source: str) -> pl.Series:
    kind = column.dtype
    if kind == pl.Null or isinstance(kind, pl.String | pl.Categorical | pl.Enum | pl.Boolean) or kind.is_integer():
        return column.cast(pl.String)
    if kind.is_float() or isinstance(kind, pl.Decimal):
        present = column.drop_nulls()
        whole = (
            (present.is_finite() & (present == present.round()) & (present.abs() < EXACT))
            if kind.is_float()
            else (present == present.cast(pl.Int128))
        )
        if whole.all():
            return column.cast(pl.Int128).cast(pl.String)
        example = present.filter(~whole)[0]
        raise InputError(
            f"{source}: id {example} in column {column.name!r} is not a whole number below 2^53; "
            "write ids as text, or name another column with --id"
        )
    if isinstance(kind, pl.Date):
        return column.dt.to_string("%Y-%m-%d")
    if isinstance(kind, pl.Datetime) or kind == pl.Time:  # in old polars the class itself
        fine = column.cast(pl.Datetime("us", kind.time_zone)) if isinstance(kind, pl.Datetime) else column
        return fine.dt.to_string("iso:strict").str.replace(r"\.0+(Z|[+-]\d|$)", "$1")
    raise InputError(
        f"{source}: column {column.name!r} holds {kind} values, which are no ids; name another with --id"
    )
