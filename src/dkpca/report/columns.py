"""Columns about the samples of a page: labels to color by, and what components mean in a party's own columns."""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
from sklearn.preprocessing import StandardScaler

from dkpca.analysis.importance import associations
from dkpca.errors import InputError
from dkpca.tables import numerals, reading
from dkpca.tables.reading import TEXT, Matrix, Reading, Table
from dkpca.wording import some

MOST_COLUMNS = 24  # of a label table, unless they are named
MOST_CATEGORIES = 200
MANY_VALUES = 8  # numbers with more distinct values than this are colored on a scale
NONE = "no value"
MOST_ASSOCIATED = 2000  # columns, the first, whose distance correlations are computed
MOST_KINDS = 30  # of a text column, each a column of 0 and 1


@dataclass(frozen=True)
class LabelColumn:
    """One value per sample: a number, or one of a few categories."""

    name: str
    group: str  # "labels", "samples"
    numbers: Any = None  # (n_samples,) of float, NaN where there is none
    codes: Any = None  # (n_samples,) of int, into categories
    categories: tuple[str, ...] = ()


class LabelTable(Table):
    """A table with something to know about samples, by their ids."""

    def check_match(self, names: Sequence[str], source: object) -> list[str]:
        """Refuse a table about other samples; say how many of these have no row in it."""
        lacking = [name for name, row in zip(names, self.rows(names), strict=True) if row is None]
        own = self.ids or [""]
        if len(lacking) == len(names):
            raise InputError(
                f"{self.source}: none of its {len(own):,} ids (such as {own[0]!r}) is a sample of {source} (such as "
                f"{names[0]!r}); name the right column with --label-id"
            )
        found = f"{Path(self.source).name} has labels for {len(names) - len(lacking):,} of {len(names):,} samples"
        return [f"{found}; {len(lacking):,} have none, for example {lacking[0]!r}"] if lacking else []

    def values(self, names: Sequence[str]) -> pl.DataFrame:
        """Rows for samples in this order; null where there is none."""
        return self.frame.select(pl.all().gather(pl.Series(self.rows(names), dtype=pl.UInt32)))

    def columns(self, names: Sequence[str]) -> list[LabelColumn]:
        """One value per sample, for samples in this order."""
        return [_column(values) for values in self.values(names).iter_columns()]


def read_labels(path: Path, how: Reading) -> LabelTable:
    """Read the columns named, in that order; without a name all, if they are few."""
    table = reading.read(path, how)
    frame, notes = table.frame, list(table.notes)
    if how.columns:
        frame = frame.select(name for name in how.columns if name in frame.columns)
    elif frame.width > MOST_COLUMNS:
        raise InputError(f"{path}: has {frame.width} columns, too many for one page; name some with --label")
    else:
        texts = frame.select(~cs.numeric())
        crowded = [values.name for values in texts.iter_columns() if values.n_unique() > MOST_CATEGORIES]
        notes += [f"{some(crowded)} left out: more than {MOST_CATEGORIES} different values"] if crowded else []
        frame = frame.drop(crowded)
    return LabelTable(str(path), table.ids, frame, tuple(notes), id_normalize=how.id_normalize)


def category_column(name: str, values: Sequence[str], *, group: str, order: Sequence[str] = ()) -> LabelColumn:
    """Categories, the most frequent first unless their order is given; no value comes last."""
    counts, place = Counter(values), {value: number for number, value in enumerate(order)}
    categories = tuple(sorted(counts, key=lambda own: (own == NONE, place.get(own, 0), -counts[own], own)))
    position = {category: code for code, category in enumerate(categories)}
    codes = np.array([position[value] for value in values], dtype=np.uint32)
    return LabelColumn(name, group, codes=codes, categories=categories)


def _column(values: pl.Series) -> LabelColumn:
    """One value per sample: numbers, if there are many different ones, or categories."""
    order: list[str] = []
    if values.dtype.is_numeric():
        numbers = numerals.as_floats(values)
        different = np.unique(numbers[~np.isnan(numbers)])
        if len(different) > MANY_VALUES:
            return LabelColumn(values.name, "labels", numbers=numbers)
        whole = values.drop_nulls().drop_nans() if values.dtype.is_float() else values.clear()
        if len(whole) and (whole == whole.cast(pl.Int64, strict=False)).all():  # 2.0 of a file is a 2 to its reader
            values = values.fill_nan(None).cast(pl.Int64)
        order = [str(value) for value in sorted(values.drop_nulls().unique().to_list())]
    texts = [NONE if value is None or value != value else str(value) for value in values.to_list()]
    return category_column(values.name, texts, group="labels", order=order)


@dataclass(frozen=True)
class OwnColumns:
    """Correlation of each column with each component, over the samples that both have."""

    names: tuple[str, ...]
    correlations: Matrix  # (n_columns, n_components)
    chance: float  # correlation that the best of as many unrelated columns would reach by chance, about
    associations: Matrix  # (up to MOST_ASSOCIATED columns, n_components): distance correlations
    shuffled: float  # largest of them when the samples are shuffled
    notes: tuple[str, ...]

    def top(self, values: Any, count: int) -> list[tuple[str, float]]:
        """Columns with the largest values in size, the largest first."""
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(self.names[row], float(values[row])) for row in order.tolist()]


def own_columns(path: Path, how: Reading, names: Sequence[str], scores: Matrix) -> OwnColumns:
    """Correlate every column of a table with every component."""
    table = reading.read(path, how)
    rows = {sample: row for sample, row in enumerate(table.rows(names)) if row is not None}
    if len(rows) < 3:
        raise InputError(f"{path}: {len(rows)} of its ids are samples of the result; correlations need at least 3")
    components, found, left_out = StandardScaler().fit_transform(scores[[*rows]]), dict[str, Any](), list[str]()
    for values in table.frame[list(rows.values())].iter_columns():
        varying = {label: z for label, numbers in _as_numbers(values) if (z := _standardized(numbers)) is not None}
        found |= varying
        left_out += [] if varying else [values.name]
    if not found:
        raise InputError(f"{path}: no column has varying numbers or a small number of categories")
    notes = list(table.notes)
    if left_out:
        notes.append(f"left out as constant, or as text with too many different values: {some(left_out)}")
    # Pearson's correlation: standardized columns times standardized components, over the common samples. Distance
    # correlations of the same columns, and the largest by chance: of components whose samples are shuffled.
    Z, shuffled = np.column_stack(list(found.values())), np.random.default_rng(0).permutation(components)
    correlations, X = np.clip(Z.T @ components / len(rows), -1.0, 1.0), Z[:, :MOST_ASSOCIATED]
    nonlinear, by_chance = associations(X, components), float(associations(X, shuffled).max())
    chance = min(1.0, math.sqrt(2.0 * math.log(2.0 * max(2, len(found))) / len(rows)))
    return OwnColumns(tuple(found), correlations, chance, nonlinear, by_chance, tuple(notes))


def _as_numbers(values: pl.Series) -> Iterator[tuple[str, Any]]:
    """A column as numbers; text of few kinds as one column of 0 and 1 for each."""
    if values.dtype.is_numeric() or values.dtype == pl.Boolean or values.dtype.is_temporal():
        yield values.name, numerals.as_floats(values)
    elif isinstance(values.dtype, TEXT) and values.n_unique() <= MOST_KINDS:
        for category in sorted(values.cast(pl.String).drop_nulls().unique().to_list()):
            yield f"{values.name} = {category}", numerals.as_floats(values.cast(pl.String) == category)


def _standardized(values: Any) -> Any:
    """Mean 0 and deviation 1, missing values at the mean; None where nothing varies."""
    there = np.isfinite(values)
    mean = float(values[there].mean()) if there.any() else 0.0
    z = np.where(there, values - mean, 0.0)
    size = math.sqrt(float((z * z).mean()))
    return z / size if size > 1e-12 * max(abs(mean), 1e-300) else None
