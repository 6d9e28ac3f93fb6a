"""What a careful person would ask about a table: text among numbers, a second header, a row of totals."""

import re
from collections.abc import Sequence

import polars as pl

from dkpca.errors import InputError
from dkpca.tables import numerals
from dkpca.tables.column_rules import are_ids, called_as_ids
from dkpca.tables.dialect import Dialect

TOTALS = (
    "total", "totals", "grand total", "sum", "summe", "gesamt", "gesamtsumme", "insgesamt", "average", "mean",
    "mittelwert", "mittel", "durchschnitt",
)  # fmt: skip
FEWEST = 5  # rows: of fewer, one may well be the sum of the others
EXACT, NEAR = 1e-3, 0.02  # of the last value: what rounding in an export leaves; NEAR where its id says what it is


def text_among_numbers(values: pl.Series, dialect: Dialect) -> str | None:
    """Sentence about a column of text most of which is numbers; None for any other."""
    text = values.cast(pl.String).str.strip_chars()
    numbers = pl.select(
        numerals.as_number(numerals.without_unit(pl.lit(text)), dialect.decimal or ".", dialect.thousands or "")
    ).to_series()
    odd = text.is_not_null() & numbers.is_null()
    if not odd.any() or 2 * odd.sum() >= text.count():
        return None
    rows, texts = odd.arg_true() + 1, text.filter(odd).unique(maintain_order=True)
    shown = ", ".join(map(repr, texts.head(3).to_list())) + (" and others" if len(texts) > 3 else "")
    what = f"column {values.name!r} holds numbers, but for {shown}"
    if texts.to_list() == [values.name]:
        return f"{what} in row {rows[0]}: the header stands there again; remove that row"
    if rows.to_list() == [1]:
        return f"{what} in row 1, perhaps a second row of the header; remove that row"
    where = f"row {rows[0]}" if len(rows) == 1 else f"{len(rows):,} rows, first row {rows[0]}"
    mark = texts[0] if len(texts) == 1 else "..."
    return (
        f"{what} in {where}; if that means missing, give --null-values {mark!r} with the other marks that the table "
        f"uses; else correct it, or leave the column out with --exclude {values.name!r}"
    )


def totals_row(frame: pl.DataFrame, ids: Sequence[str] | None) -> str | None:
    """Sentence about a last row that sums up the others; None where it is a sample."""
    if frame.height < FEWEST:
        return None
    numeric = [name for name, kind in frame.schema.items() if kind.is_numeric() and frame[name][-1] is not None]
    named = ids is not None and re.sub(r"\W+", " ", ids[-1]).strip().casefold() in TOTALS
    if named:
        found = next((name for name in numeric if _sums_up(frame[name], NEAR, mean_too=True)), None)
    else:  # one column at a time: nearly always the first says no
        every = len(numeric) > 1 and all(_is_sum(frame[name]) for name in numeric)
        found = numeric[0] if every else None
    if found is None:
        return None
    called = f", {ids[-1]!r}," if ids is not None else ""
    return f"the last row{called} sums up the rows above it (column {found!r}), so that it is no sample; remove it"


def refuse_unnamed_ids(frame: pl.DataFrame, chosen: Sequence[str], source: str) -> None:
    """Raise if rows match by position though a column is called as ids are, and is different in every row."""
    for name in called_as_ids(frame.columns):
        if name not in chosen and are_ids(frame[name].to_numpy()):
            raise InputError(
                f"{source}: {name!r} looks like the ids of the samples, and rows would match by position; match them "
                f"by it with --id {name!r}, or leave it out with --exclude {name!r} if all parties' rows are in one "
                "order"
            )


def refuse_totals(frame: pl.DataFrame, ids: Sequence[str] | None, source: str) -> None:
    """Raise if the last row is no sample."""
    said = totals_row(frame, ids)
    if said:
        raise InputError(f"{source}: {said}")


def _sums_up(values: pl.Series, tolerance: float, *, mean_too: bool = False) -> bool:
    """Whether the last value is the sum of the others, or their mean."""
    others, last = _others(values), float(values[-1])
    targets = [others.sum(), *([others.mean()] if mean_too else [])]
    close = [abs(last - float(t)) <= tolerance * abs(last) for t in targets if isinstance(t, float)]
    return last != 0.0 and any(close)


def _is_sum(values: pl.Series) -> bool:
    """Whether the last value is the sum of the others beyond doubt: most of them are not 0, and it exceeds each."""
    others = _others(values)
    largest = others.abs().max()
    if not isinstance(largest, float) or 2 * (others != 0.0).sum() < len(others):
        return False
    return abs(float(values[-1])) > largest and _sums_up(values, EXACT)


def _others(values: pl.Series) -> pl.Series:
    return values.head(-1).cast(pl.Float64).drop_nulls().drop_nans()
