"""A table becomes numbers: missing values, text and standardization, learned once and kept for new rows.

Means and scales are applied in place, since a table may fill the memory.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.linalg.arrays import tall_empty
from dkpca.party.state import ANOTHER_VERSION, State
from dkpca.tables import inputs, numerals
from dkpca.tables.reading import TEXT, Matrix, Reading, Table, from_frame, text_among_numbers
from dkpca.wire import codec
from dkpca.wording import counted, some

MOST_CATEGORIES = 200
FARTHEST = float(np.finfo(float).max) / 4
TOGETHER = 64  # columns that are copied at a time


@dataclass(frozen=True)
class Column:
    """One column of numbers: where it comes from, and what is done to it."""

    source: str
    category: str | None = None  # of a one-hot column
    fill: float = 0.0  # for missing values
    shift: float = 0.0
    scale: float = 1.0
    low: float = math.inf  # of the training values
    high: float = -math.inf
    coded: bool = False  # whether each value is a category (`dkpca.tables.inputs`), and no value is one too


@dataclass(frozen=True)
class Preparation:
    """What was learned from the training rows, so that new rows are treated the same. Stays at the party."""

    reading: Reading
    columns: tuple[Column, ...]
    notes: tuple[str, ...]  # what was dropped, filled or expanded, in words

    @property
    def reading_of_new(self) -> Reading:
        """How to read a table of new rows: as the training rows were written, and only the columns used."""
        sources, asked = tuple(dict.fromkeys(column.source for column in self.columns)), self.reading.dialect
        dialect = replace(asked, decimal=asked.decimal or self.reading.likely.decimal)
        return replace(self.reading, columns=sources, exclude=(), text_of=(), dialect=dialect)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each column that a table becomes."""
        return tuple(c.source if c.category is None else f"{c.source} = {c.category}" for c in self.columns)

    def apply(self, table: Table) -> Matrix:
        """Numbers of a table, (n_samples, n_columns)."""
        X = _numbers(table, self.columns)
        for values, column in zip(X.T, self.columns, strict=True):
            values[np.isnan(values)] = column.fill
            with np.errstate(over="ignore"):
                values -= column.shift
                values /= column.scale
            if not np.isfinite(values).all():
                row = int(np.argmin(np.isfinite(values))) + 1
                raise InputError(
                    f"{table.source}: column {column.source!r} in row {row} is too far outside the fit's "
                    f"{column.low:.3g} to {column.high:.3g} to be scaled the same way; correct that value"
                )
        return X

    def about_new_rows(self, table: Table) -> list[str]:
        """Say what new rows have that the training rows had not: gaps and categories."""
        holes = np.isnan(_numbers(table, self.columns))
        notes = list(table.notes)
        if holes.any():
            columns = counted(holes.any(axis=0).sum(), "column")
            notes.append(f"missing values filled with the training mean: {holes.sum():,}, in {columns}")
        for source in dict.fromkeys(column.source for column in self.columns if column.category is not None):
            present = table.frame[source].drop_nulls().cast(pl.String)
            strange = present.filter(~present.is_in([own.category for own in self.columns if own.source == source]))
            if len(strange):
                names = some(strange.unique(maintain_order=True))
                notes.append(f"column {source!r}: {len(strange):,} rows have categories that the fit lacks: {names}")
        return notes


def numbers_for(table: Table, reading: Reading, columns_are: str) -> tuple[Matrix, Preparation]:
    """Numbers of a table as a kernel takes its columns, and how they were made."""
    if columns_are == "samples":  # in the order of the rows: by the sample ids, where it has them
        absent = [sample for sample in table.ids or () if sample not in table.frame.columns]
        if absent:
            raise InputError(f"{table.source}: a kernel matrix lacks a column for the sample ids {some(absent)}")
        table = replace(table, frame=table.frame.select(table.ids or pl.all()))
        reading = replace(reading, standardize=False)
    elif columns_are == "categories":
        text = "codes" if reading.text == "error" else reading.text
        reading = replace(reading, text=text, standardize=reading.standardize and text != "codes")
    preparation = prepare(table, reading)
    if any(column.coded for column in preparation.columns) and columns_are != "categories":
        raise InputError("text codes are not quantities, and this kernel needs quantities; use --text one-hot")
    return preparation.apply(table), preparation


def prepare(table: Table, reading: Reading) -> Preparation:
    """Learn from training rows which columns to keep, and their means and scales."""
    if len(table) < 2:
        raise InputError(f"{table.source}: {counted(len(table), 'row')}; kernel PCA needs at least 2 samples")
    # 1) Which columns stay, and how many columns of numbers each of them gives.
    notes = list(table.notes)
    table = _without_gaps(table, reading, notes)
    columns = [column for name in table.frame.columns for column in _expanded(table, name, reading, notes)]
    # 2) The raw numbers, NaN where missing; columns that say nothing, or too much for a double, are refused.
    X = _numbers(table, columns)
    low, high = (np.array([reduce(values) for values in X.T]) for reduce in (np.nanmin, np.nanmax))
    holes = np.array([int(np.isnan(values).sum()) for values in X.T])
    sources = np.array([column.source for column in columns], dtype=object)
    _refuse(table, sources[high == low], "the same value in every row")
    _refuse(table, sources[high / 2 - low / 2 > FARTHEST], "numbers too far apart to be subtracted")
    if holes.any():
        filled = counted(holes.sum(), "missing value")
        notes.append(f"filled {filled} in {counted((holes > 0).sum(), 'column')} with the column mean")
    # 3) Mean and scale of each column. Codes of categories keep their values: they are no quantities. The 0/1 columns
    # of one text column share their scale, sqrt(sum_c p_c (1 - p_c)), and weigh as much as a numeric one.
    means, deviations = _means_and_deviations(X, low, high)
    scales: dict[str, float] = {}
    for column, deviation in zip(columns, deviations, strict=True):
        scales[column.source] = math.hypot(scales.get(column.source, 0.0), float(deviation))
    finished = tuple(
        replace(
            column,
            fill=float(mean),
            shift=float(mean) if reading.standardize and not column.coded else 0.0,
            scale=scales[column.source] if reading.standardize and not column.coded else 1.0,
            low=float(least),
            high=float(most),
        )
        for column, mean, least, most in zip(columns, means, low, high, strict=True)
    )
    return Preparation(replace(reading, likely=table.dialect), finished, tuple(notes))


def _means_and_deviations(X: Matrix, low: Any, high: Any) -> tuple[Any, Any]:
    """Mean of each column, and its deviation with the mean filled in."""
    # (x / 2 - low / 2) / width lies between 0 and 1: neither a difference nor a square overflows, and the digits of a
    # small spread around a large mean are kept.
    means, deviations = np.empty(X.shape[1]), np.empty(X.shape[1])
    widths = high / 2 - low / 2
    sizes = np.where(widths > 0.0, widths, 1.0)
    for start in range(0, X.shape[1], TOGETHER):
        part = slice(start, start + TOGETHER)
        away = (X[:, part] / 2 - low[part] / 2) / sizes[part]
        center = np.nanmean(away, axis=0)
        means[part] = 2 * (low[part] / 2 + center * sizes[part])
        deviations[part] = 2 * (np.sqrt(np.mean(np.nan_to_num(away - center) ** 2, axis=0)) * sizes[part])
    return means, deviations


def _without_gaps(table: Table, reading: Reading, notes: list[str]) -> Table:
    """Drop columns with too many missing values, before anything else is said of them."""
    shares = {name: share_missing(table.frame[name], reading) for name in table.frame.columns}
    _refuse(table, [name for name, share in shares.items() if share == 1.0], "no value at all")
    dropped = [name for name, share in shares.items() if share > reading.max_missing]
    if not dropped:
        return table
    kept = [name for name in shares if name not in dropped]
    if not kept:
        raise InputError(f"{table.source}: no column is left; raise --max-missing above {reading.max_missing:g}")
    what = f"{counted(len(dropped), 'column')} with more than {reading.max_missing:.0%} of values missing"
    notes.append(f"dropped {what}: {some(dropped)}")
    return replace(table, frame=table.frame.select(kept))


def share_missing(values: pl.Series, reading: Reading) -> float:
    """Share of the values of a column that are missing."""
    gaps = values.null_count() + (int(values.is_nan().sum()) if values.dtype.is_float() else 0)
    coded = reading.text_handling(values.name) == "codes" and gaps < len(values)  # no value is a category too
    return 0.0 if coded else gaps / max(1, len(values))


def _expanded(table: Table, name: str, reading: Reading, notes: list[str]) -> list[Column]:
    """Columns of numbers that one column of the table gives, text expanded where asked for."""
    values, how = table.frame[name], reading.text_handling(name)
    if numerals.is_date(values.dtype):
        if reading.dates != "number":
            raise InputError(
                f"{table.source}: column {name!r} holds dates; use --dates number ({numerals.DATE_RULE}) or --dates "
                f"ignore, or leave it out with --exclude {name}"
            )
        notes.append(f"column {name!r} holds dates, as numbers: {numerals.DATE_RULE}")
        return [Column(name)]
    if not _is_text(values):
        return [Column(name, coded=how == "codes")]
    found = sorted(values.drop_nulls().cast(pl.String).unique().to_list())
    if how == "codes":
        notes.append(f"text column {name!r} is used as {len(found)} categories; an empty cell is one more")
        return [Column(name, coded=True)]
    if how != "one-hot" or (name not in dict(reading.text_of) and text_among_numbers(values, table.dialect)):
        raise InputError(f"{table.source}: {_about_text(values, table)}")
    if len(found) > MOST_CATEGORIES:
        what = f"text column {name!r} has {len(found)} different values, more than {MOST_CATEGORIES}"
        raise InputError(f"{table.source}: {what}; leave it out with --exclude {name}")
    notes.append(f"expanded text column {name!r} into {len(found)} columns of 0 and 1")
    return [Column(name, category) for category in found]


def _numbers(table: Table, columns: Sequence[Column]) -> Matrix:
    """Raw numbers, NaN where missing."""
    absent = sorted({column.source for column in columns} - set(table.frame.columns))
    if absent:
        raise InputError(f"{table.source}: lacks the columns {some(absent)} that the fit used; add them")
    X: Matrix = tall_empty((len(table), len(columns)), np.empty(0), table.memory)
    for values, column in zip(X.T, columns, strict=True):
        values[:] = _as_numbers(table.frame[column.source], column, table)
        if (infinite := np.isinf(values)).any():
            row = int(np.argmax(infinite)) + 1
            raise InputError(f"{table.source}: column {column.source!r} is infinite in row {row}; correct that value")
    return X


def _as_numbers(values: pl.Series, column: Column, table: Table) -> Any:
    """One column of numbers, NaN where missing."""
    if column.coded:
        return inputs.coded(np.array(values.to_list(), dtype=object)[:, None])[:, 0]
    if column.category is not None:
        return numerals.as_floats(values.cast(pl.String) == column.category)
    if _is_text(values):
        raise InputError(f"{table.source}: {_about_text(values, table)}")
    kind = values.dtype
    if not (kind.is_numeric() or numerals.is_date(kind) or isinstance(kind, pl.Boolean | pl.Null | pl.String)):
        raise InputError(f"{table.source}: column {values.name!r} holds {kind} values; use --exclude {values.name}")
    if kind.is_integer():
        inputs.check_exact(f"{table.source}: column {values.name!r}", [values.min(), values.max()])
    return numerals.as_floats(values)


def preparation_of(state: State) -> Preparation:
    """How the table of a party became numbers, as its state says."""
    if state.preparation is None:
        raise InputError(f"party {state.party!r}: this state is of the Python library; place new samples in Python")
    return codec.decode(Preparation, state.preparation, what=ANOTHER_VERSION)


def new_rows(state: State, table: Any) -> Any:
    """Numbers of new rows in a DataFrame or array, as the party's state says; labels of rows stay."""
    preparation = preparation_of(state)
    how = replace(preparation.reading_of_new, id_column=None)
    X = preparation.apply(from_frame(table, how, name=f"party {state.party!r}"))
    return type(table)(X, index=table.index) if hasattr(table, "iloc") else X


def _is_text(values: pl.Series) -> bool:
    """Whether a column has text in it; a CSV column without any value has no type of its own."""
    return isinstance(values.dtype, TEXT) and values.null_count() < len(values)


def _about_text(values: pl.Series, table: Table) -> str:
    """Sentence about a text column, or about text in a column that is mostly numbers."""
    doubt = text_among_numbers(values, table.dialect)
    row = (values.is_not_null().arg_max() or 0) + 1
    as_ids = f"if these are the sample ids, use --id {values.name}; else " * (values.n_unique() == len(values))
    return doubt or (
        f"column {values.name!r} has text {values.cast(pl.String)[row - 1]!r} in row {row}; {as_ids}give a "
        f"party.toml in place of {table.source}, written by 'dkpca check --write' with --text, --exclude, or "
        "--decimal and --thousands"
    )


def _refuse(table: Table, names: Iterable[str], what: str) -> None:
    """Refuse a table with columns that say nothing, or too much."""
    named = list(dict.fromkeys(names))
    if named:
        out = ",".join(named[:10])
        raise InputError(f"{table.source}: {what} in column {some(named)}; leave it out with --exclude {out}")
