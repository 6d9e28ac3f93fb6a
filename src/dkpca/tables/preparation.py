"""A table becomes numbers: missing values, text columns and standardization, learned once and kept for new rows."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.linalg import memory
from dkpca.tables import dates, doubts, numerals
from dkpca.tables.reading import TEXT, Matrix, Reading, Table, some
from dkpca.wording import counted

MOST_CATEGORIES = 200
FARTHEST = float(np.finfo(float).max) / 4


@dataclass(frozen=True)
class Column:
    """One column of numbers: where it comes from, and what is done to it."""

    source: str
    category: str | None  # of a one-hot column
    fill: float  # for missing values
    shift: float
    scale: float
    low: float = math.inf  # of the training values; above `high` where they are not known
    high: float = -math.inf
    codes: tuple[str, ...] = ()  # categories that become their positions here; any other value, and none, follow


@dataclass(frozen=True)
class Preparation:
    """What was learned from the training rows, so that new rows are treated the same. Stays at the party."""

    reading: Reading
    columns: tuple[Column, ...]
    notes: tuple[str, ...]  # what was dropped, filled or expanded, in words

    def reading_of_new(self, id_column: str | None) -> Reading:
        """How to read a table of new rows: as the training rows were written, and only the columns used."""
        sources = tuple(dict.fromkeys(column.source for column in self.columns))
        return replace(self.reading, id_column=id_column, columns=sources, exclude=(), text_of=())

    def raw(self, table: Table) -> Matrix:
        """Numbers of a table as they stand there, NaN where missing."""
        return _numbers(table, self.columns)

    @property
    def has_codes(self) -> bool:
        """Whether a column of text was turned into codes, which are no quantities."""
        return any(column.codes for column in self.columns)

    def apply(self, table: Table) -> Matrix:
        """Numbers of a table, (n_samples, n_columns)."""
        X = self.raw(table)
        for position, column in enumerate(self.columns):  # one at a time: the table may fill the memory
            values = X[:, position]
            values[np.isnan(values)] = column.fill
            with np.errstate(over="ignore"):
                values -= column.shift
                values /= column.scale
            if not np.isfinite(values).all():
                row = int(np.argmin(np.isfinite(values)))
                raise InputError(
                    f"{table.source}: column {column.source!r} has {self.raw(table)[row, position]:.3g} in row "
                    f"{row + 1}, too far beyond the {column.low:.3g} to {column.high:.3g} of the fit to be counted "
                    "in its units; correct that value"
                )
        return X


def reading_for(reading: Reading, columns_are: str) -> Reading:
    """How a table is read whose columns are quantities, categories (of text too) or samples (a kernel matrix)."""
    if columns_are == "categories" and reading.text == "error":
        return replace(reading, text="codes")
    return replace(reading, standardize=False) if columns_are == "samples" else reading


def with_samples_as_columns(table: Table) -> Table:
    """A kernel matrix with its columns in the order of its rows: by the sample ids, where it has them."""
    if table.ids is None:
        return table
    absent = [sample for sample in table.ids if sample not in table.frame.columns]
    if absent:
        raise InputError(
            f"{table.source}: a kernel matrix with sample ids has a column for each sample, under its id; it lacks "
            f"{some(absent)}"
        )
    return replace(table, frame=table.frame.select(table.ids))


def prepare(table: Table, reading: Reading) -> Preparation:
    """Learn from training rows which columns to keep, and their means and scales."""
    if len(table) < 2:
        raise InputError(f"{table.source}: {counted(len(table), 'row')}; kernel PCA needs at least 2 samples")
    notes = list(table.notes)
    table = _without_gaps(table, reading, notes)
    columns = _expand(table, reading, notes)
    X = _numbers(table, columns)
    learned = [_learned(values) for values in X.T]
    low, high, fill, deviations, holes = (np.array(each) for each in zip(*learned, strict=True))
    _refuse_columns(table, columns, high == low, "the same value in every row")
    _refuse_columns(table, columns, high / 2 - low / 2 > FARTHEST, "numbers too far apart to be subtracted")
    if holes.any():
        notes.append(f"missing values filled with their column mean: {holes.sum()}, in {(holes > 0).sum()} columns")
    scale = _scales(columns, deviations)
    finished = tuple(
        replace(
            column,
            fill=float(f),
            shift=float(f) if reading.standardize and not column.codes else 0.0,
            scale=float(s) if reading.standardize and not column.codes else 1.0,
            low=float(least),
            high=float(most),
        )
        for column, f, s, least, most in zip(columns, fill, scale, low, high, strict=True)
    )
    as_read = replace(reading, likely=table.dialect, date_formats=table.date_formats)
    return Preparation(as_read, finished, tuple(notes))


def _without_gaps(table: Table, reading: Reading, notes: list[str]) -> Table:
    """Drop columns with too many missing values, before anything else is said of them."""
    shares = {name: _missing_share(table.frame[name], reading) for name in table.frame.columns}
    empty = [name for name, share in shares.items() if share == 1.0]
    if empty:
        left_out = ",".join(empty[:10])
        raise InputError(
            f"{table.source}: no value at all in column {some(empty)}; leave it out with --exclude {left_out}"
        )
    dropped = [name for name, share in shares.items() if share > reading.max_missing]
    if not dropped:
        return table
    kept = [name for name in shares if name not in dropped]
    if not kept:
        raise InputError(f"{table.source}: no column is left; raise --max-missing above {reading.max_missing:g}")
    notes.append(f"dropped {len(dropped)} columns with more than {reading.max_missing:.0%} missing: {some(dropped)}")
    return replace(table, frame=table.frame.select(kept))


def _missing_share(values: pl.Series, reading: Reading) -> float:
    if _is_text(values) and reading.text_handling(values.name) == "codes":
        return 0.0  # no value is a category too
    gaps = values.is_null() | values.is_nan() if values.dtype.is_float() else values.is_null()
    return float(gaps.sum()) / len(values)


def _learned(values: Any) -> tuple[float, float, float, float, int]:
    """Least and largest value of a column, its mean, its deviation with that filled in, and how many are missing."""
    missing = np.isnan(values)
    present = values[~missing] if missing.any() else values
    low, high = present.min(), present.max()
    size = max(abs(low), abs(high)) or 1.0  # so that neither sums nor squares leave the range
    mean = (present / size).mean()
    deviation = np.where(missing, mean, values / size).std()
    return low, high, mean * size, deviation * size, int(missing.sum())


def _scales(columns: Sequence[Column], deviations: Any) -> Any:
    """Scale of each column; the 0/1 columns of one text column share theirs.

    Together they then weigh as much as one numeric column, and a rare category does not become a giant.
    """
    scales: dict[str, float] = {}
    for column, deviation in zip(columns, deviations, strict=True):
        scales[column.source] = math.hypot(scales.get(column.source, 0.0), float(deviation))
    return [scales[column.source] for column in columns]


def _expand(table: Table, reading: Reading, notes: list[str]) -> list[Column]:
    """Columns of numbers that the table gives, text expanded where asked for."""
    columns: list[Column] = []
    for name in table.frame.columns:
        values = table.frame[name]
        if dates.is_date(values.dtype):
            _check_dates(table, name, reading)
            columns.append(Column(name, None, 0.0, 0.0, 1.0))
            notes.append(f"column {name!r} holds dates, as numbers: {dates.RULE}")
        elif not _is_text(values):
            columns.append(Column(name, None, 0.0, 0.0, 1.0))
        elif reading.text_handling(name) not in ("one-hot", "codes"):
            raise InputError(f"{table.source}: {_about_text(values, table)}")
        elif reading.text_handling(name) == "codes":
            codes = tuple(sorted(values.drop_nulls().cast(pl.String).unique().to_list()))
            columns.append(Column(name, None, 0.0, 0.0, 1.0, codes=codes))
            notes.append(f"text column {name!r} is used as {len(codes)} categories; an empty cell is one more")
        else:
            doubt = None if name in dict(reading.text_of) else doubts.text_among_numbers(values, table.dialect)
            if doubt:
                raise InputError(f"{table.source}: {doubt}")
            categories = sorted(values.drop_nulls().cast(pl.String).unique().to_list())
            if len(categories) > MOST_CATEGORIES:
                raise InputError(
                    f"{table.source}: text column {name!r} has {len(categories)} different values, more than "
                    f"{MOST_CATEGORIES}; leave it out with --exclude {name}"
                )
            columns += [Column(name, category, 0.0, 0.0, 1.0) for category in categories]
            notes.append(f"expanded text column {name!r} into {len(categories)} columns of 0 and 1")
    return columns


def _check_dates(table: Table, name: str, reading: Reading) -> None:
    if reading.dates != "number":
        example = table.frame[name].drop_nulls().head(1).cast(pl.String).to_list()
        raise InputError(
            f"{table.source}: column {name!r} holds dates, as {(example or ['none'])[0]}; use --dates number "
            f"({dates.RULE}) or --dates ignore, or leave it out with --exclude {name}"
        )


def _numbers(table: Table, columns: Iterable[Column]) -> Matrix:
    """Raw numbers, NaN where missing."""
    columns = list(columns)
    missing = sorted({column.source for column in columns} - set(table.frame.columns))
    if missing:
        raise InputError(f"{table.source}: lacks the columns {some(missing)} that the fit used; add them")
    X = memory.tall((len(table), len(columns)))
    plain = [position for position, column in enumerate(columns) if column.category is None and not column.codes]
    if plain:
        _write_plain_numbers(
            table, [columns[position].source for position in plain], [X[:, position] for position in plain]
        )
    for position, column in enumerate(columns):
        if column.codes:
            X[:, position] = _coded(table.frame[column.source], column.codes)
        elif column.category is not None:
            hit = table.frame[column.source].cast(pl.String) == column.category
            X[:, position] = hit.cast(pl.Float64).fill_null(np.nan).to_numpy()
    for values, column in zip(X.T, columns, strict=True):
        if np.isinf(values).any():
            row = int(np.argmax(np.isinf(values))) + 1
            raise InputError(f"{table.source}: column {column.source!r} is infinite in row {row}; correct that value")
    return X


def _coded(values: pl.Series, categories: Sequence[str]) -> Any:
    """Position of each value among the categories; one more for other values, another for no value."""
    known = {category: float(code) for code, category in enumerate(categories)}
    unknown, empty = float(len(known)), float(len(known) + 1)
    listed = values.cast(pl.String).to_list()
    return np.array([empty if value is None else known.get(value, unknown) for value in listed])


def _write_plain_numbers(table: Table, names: list[str], X: Sequence[Any]) -> None:
    """Write columns that are numbers already; NaN where missing."""
    for name, kind in table.frame.select(names).schema.items():
        if _is_text(table.frame[name]):
            raise InputError(f"{table.source}: {_about_text(table.frame[name], table)}")
        if not (kind.is_numeric() or dates.is_date(kind) or isinstance(kind, pl.Boolean | pl.Null | pl.String)):
            raise InputError(
                f"{table.source}: column {name!r} holds {kind} values; "
                f"turn them into numbers, or leave it out with --exclude {name}"
            )
    for place, name in zip(X, names, strict=True):
        column = table.frame[name]
        days = dates.as_days(column) if dates.is_date(column.dtype) else column
        place[:] = days.cast(pl.Float64).fill_null(np.nan).to_numpy()


def _is_text(values: pl.Series) -> bool:
    """Whether a column has text in it; a CSV column without any value has no type of its own."""
    return isinstance(values.dtype, TEXT) and values.null_count() < len(values)


def _about_text(values: pl.Series, table: Table) -> str:
    """Sentence about a text column, or about text in a column that is mostly numbers."""
    doubt = doubts.text_among_numbers(values, table.dialect)
    if doubt:
        return doubt
    present = values.drop_nulls().cast(pl.String)
    row = (values.is_not_null().arg_max() or 0) + 1
    where = f"column {values.name!r} has text {present[0]!r} in row {row}"
    if numerals.is_number(present[0].strip()):
        return f"{where}, which may be a number; say how numbers are written with --decimal and --thousands"
    ways = f"leave it out with --exclude {values.name}, or use --text one-hot or --text ignore"
    if table.ids is None and present.n_unique() == len(values):
        return f"{where}; if these are the ids of the samples, say --id {values.name}; else {ways}"
    return f"{where}; {ways}"


def _refuse_columns(table: Table, columns: Sequence[Column], bad: Any, what: str) -> None:
    named = _sources(columns, bad)
    if named:
        raise InputError(
            f"{table.source}: {what} in column {some(named)}; leave it out with --exclude {','.join(named[:10])}"
        )


def _sources(columns: Sequence[Column], chosen: Any) -> list[str]:
    return list(dict.fromkeys(column.source for column, yes in zip(columns, chosen, strict=True) if yes))
