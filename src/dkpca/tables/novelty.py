"""What new rows have that the training rows had not, said at the party: values out of range, categories, gaps.

A value is out of range if it lies farther outside the training values than half of their spread.
"""

import numpy as np
import polars as pl

from dkpca.tables.preparation import Preparation
from dkpca.tables.reading import Table, some

MARGIN = 0.5


def about_new_rows(preparation: Preparation, table: Table) -> list[str]:
    """Say what is new in a table that is prepared as the training rows were; ids and values stay here."""
    X = preparation.raw(table)
    holes = np.isnan(X)
    notes = list(table.notes)
    if holes.any():
        notes.append(
            f"missing values filled with the training mean: {holes.sum():,}, in {holes.any(axis=0).sum()} columns"
        )
    return [*notes, *_unknown_categories(preparation, table), *_out_of_range(preparation, X)]


def _unknown_categories(preparation: Preparation, table: Table) -> list[str]:
    known: dict[str, set[str]] = {}
    for column in preparation.columns:
        if column.category is not None:
            known.setdefault(column.source, set()).add(column.category)
    notes = []
    for source, categories in known.items():
        present = table.frame[source].drop_nulls().cast(pl.String)
        strange = present.filter(~present.is_in(list(categories)))
        if len(strange):
            names = some(strange.unique(maintain_order=True).to_list())
            notes.append(f"column {source!r}: {len(strange):,} rows with categories the fit had not: {names}")
    return notes


def _out_of_range(preparation: Preparation, X: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> list[str]:
    numeric = [(n, column) for n, column in enumerate(preparation.columns) if column.category is None]
    found = []
    for position, column in numeric:
        if not column.low <= column.high:  # a state from before ranges were kept
            continue
        spread = MARGIN * (column.high - column.low)
        values = X[:, position]
        out = (values < column.low - spread) | (values > column.high + spread)
        if out.any():
            seen = values[out]
            found.append((int(out.sum()), column, float(seen.min()), float(seen.max()), out))
    if not found:
        return []
    rows = int(np.logical_or.reduce([out for *_, out in found]).sum())
    found.sort(key=lambda each: -each[0])
    named = ", ".join(
        f"{column.source!r} ({count:,} rows, {low:g} to {high:g}; the fit had {column.low:g} to {column.high:g})"
        for count, column, low, high, _ in found[:5]
    )
    more = f" and {len(found) - 5} more columns" if len(found) > 5 else ""
    return [f"{rows:,} of {len(X):,} new rows leave the range of the fit, in {named}{more}"]
