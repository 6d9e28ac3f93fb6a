"""Columns by which the samples of a page can be colored."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.tables import reading
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import Reading, some

MOST_COLUMNS = 24  # of a label table, unless they are named
MOST_CATEGORIES = 200
MANY_VALUES = 8  # numbers with more distinct values than this are colored on a scale
NONE = "no value"


@dataclass(frozen=True)
class LabelColumn:
    """One value per sample: a number, or one of a few categories."""

    name: str
    group: str  # "labels", "clusters", "comparison"
    note: str = ""
    numbers: Any = None  # (n_samples,) of float, NaN where there is none
    codes: Any = None  # (n_samples,) of int, into categories
    categories: tuple[str, ...] = ()

    def take(self, rows: Any) -> "LabelColumn":
        """Keep these samples."""
        if self.numbers is not None:
            return replace(self, numbers=self.numbers[rows])
        return replace(self, codes=self.codes[rows])


@dataclass(frozen=True)
class LabelTable:
    """A table with something to know about samples, by their ids."""

    path: Path
    ids: list[str]
    frame: pl.DataFrame
    notes: tuple[str, ...]  # how the file is written, and what was left out, in words
    id_normalize: tuple[str, ...] = ()

    def check_match(self, names: Sequence[str], source: object) -> list[str]:
        """Refuse a table about other samples; say how many of these have no row in it."""
        known = set(matching_keys(self.ids, self.id_normalize))
        lacking = [
            name for name, key in zip(names, matching_keys(names, self.id_normalize), strict=True) if key not in known
        ]
        if len(lacking) == len(names):
            raise InputError(
                f"{self.path}: none of its {len(self.ids):,} ids is a sample of {source}; ids there are "
                f"{self.ids[0]!r}, samples here {names[0]!r}; name the right column with --label-id"
            )
        if not lacking:
            return []
        return [
            f"{self.path.name} has labels for {len(names) - len(lacking):,} of {len(names):,} samples; "
            f"{len(lacking):,} have none, as {lacking[0]!r}"
        ]

    def columns(self, names: Sequence[str]) -> list[LabelColumn]:
        """One value per sample, for samples in this order."""
        row = {key: number for number, key in enumerate(matching_keys(self.ids, self.id_normalize))}
        rows = np.array([row.get(key, -1) for key in matching_keys(names, self.id_normalize)])
        return [_column(self.frame[name], rows) for name in self.frame.columns]


def read_labels(path: Path, how: Reading, wanted: Sequence[str]) -> LabelTable:
    """Read the columns named; without a name all, if they are few."""
    table = reading.read(path, replace(how, columns=tuple(wanted)))
    frame = table.frame
    if not wanted and frame.width > MOST_COLUMNS:
        raise InputError(
            f"{path}: has {frame.width} columns, too many for one page; name those to color by with --label, "
            f"as --label {frame.columns[0]!r}"
        )
    crowded = [
        name
        for name in frame.columns
        if not frame[name].dtype.is_numeric() and frame[name].n_unique() > MOST_CATEGORIES
    ]
    if wanted:
        frame = frame.select(name for name in wanted if name in frame.columns)  # in the order asked for
        crowded = []
    left_out = [f"{some(crowded)} left out: more than {MOST_CATEGORIES} different values"] if crowded else []
    assert table.ids is not None
    return LabelTable(path, table.ids, frame.drop(crowded), (*table.notes, *left_out), how.id_normalize)


def category_column(
    name: str, values: Sequence[str], *, group: str, note: str = "", order: Sequence[str] = ()
) -> LabelColumn:
    """Categories, the most frequent first unless their order is given."""
    counted = (
        pl.Series("value", values, dtype=pl.String).value_counts().sort(["count", "value"], descending=[True, False])
    )
    categories = tuple(order) or (*(value for value in counted["value"].to_list() if value != NONE),)
    if NONE in values and NONE not in categories:
        categories = (*categories, NONE)
    position = {category: code for code, category in enumerate(categories)}
    codes = np.array([position[value] for value in values], dtype=np.uint32)
    return LabelColumn(name, group, note, codes=codes, categories=categories)


def _column(values: pl.Series, rows: Any) -> LabelColumn:
    """One value per sample; row -1 has none."""
    if values.dtype.is_numeric():
        numbers = values.cast(pl.Float64).fill_null(float("nan")).to_numpy()
        found = np.where(rows >= 0, numbers[rows], np.nan)
        if len(np.unique(found[~np.isnan(found)])) > MANY_VALUES:
            return LabelColumn(values.name, "labels", numbers=found)
    texts = [NONE if value is None or value != value else str(value) for value in values.to_list()]
    order = (
        [str(value) for value in sorted(values.drop_nulls().unique().to_list())] if values.dtype.is_numeric() else []
    )
    picked = [texts[row] if row >= 0 else NONE for row in rows.tolist()]
    return category_column(values.name, picked, group="labels", order=[text for text in order if text in set(picked)])
