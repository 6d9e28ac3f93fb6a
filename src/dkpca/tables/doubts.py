"""What a careful person would ask about a table: text among numbers, a second header, a row of totals."""

import re
from collections.abc import Sequence

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.tables import numerals
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
    numbers = frame.select(pl.col(name).cast(pl.Float64) for name in _numeric(frame))
    last = {name: values[-1] for name, values in numbers.to_dict(as_series=True).items() if values[-1] is not None}
    others = {name: numbers[name].head(-1).drop_nulls().drop_nans().to_numpy() for name in last}
    named = ids is not None and re.sub(r"\W+", " ", ids[-1]).strip().casefold() in TOTALS
    if named:
        found = [name for name in last if _close(last[name], others[name], NEAR, mean_too=True)]
    else:
        found = [name for name in last if _is_sum(last[name], others[name])]
        found = found if 2 <= len(found) == len(last) else []
    if not found:
        return None
    called = f", {ids[-1]!r}," if ids is not None else ""
    return f"the last row{called} sums up the rows above it (column {found[0]!r}), so that it is no sample; remove it"


def refuse_totals(frame: pl.DataFrame, ids: Sequence[str] | None, source: str) -> None:
    """Raise if the last row is no sample."""
    said = totals_row(frame, ids)
    if said:
        raise InputError(f"{source}: {said}")


def _numeric(frame: pl.DataFrame) -> list[str]:
    return [name for name, kind in frame.schema.items() if kind.is_numeric()]


def _close(last: float, others: np.ndarray, tolerance: float, *, mean_too: bool = False) -> bool:
    targets = [others.sum(), *([others.mean()] if mean_too and len(others) else [])]
    return any(abs(last - target) <= tolerance * abs(last) for target in targets) and last != 0.0


def _is_sum(last: float, others: np.ndarray) -> bool:
    """Whether the last value is the sum of the others beyond doubt: most of them are not 0, and it exceeds each."""
    if 2 * np.count_nonzero(others) < len(others) or not len(others):
        return False
    return bool(abs(last) > np.abs(others).max()) and _close(last, others, EXACT)
