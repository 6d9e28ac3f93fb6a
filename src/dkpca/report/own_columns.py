"""What each component means in a party's own columns; computed where those columns are, and nowhere else."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError
from dkpca.store import storage
from dkpca.tables import reading
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import TEXT, Matrix, Reading, some

MOST_CATEGORIES = 30  # of a text column, each a column of 0 and 1
AT_A_TIME = 256  # columns in memory as numbers


@dataclass(frozen=True)
class OwnColumns:
    """Correlation of each column with each component, over the samples that both have."""

    names: tuple[str, ...]
    correlations: Matrix  # (n_columns, n_components)
    n_samples: int
    notes: tuple[str, ...]

    @property
    def chance(self) -> float:
        """Correlation that the best of as many unrelated columns would reach by chance, about."""
        tries = max(2, len(self.names))
        return min(1.0, math.sqrt(2.0 * math.log(2.0 * tries) / self.n_samples))

    def top(self, component: int, count: int) -> list[tuple[str, float]]:
        """Columns with the largest correlation in size, the largest first."""
        values = self.correlations[:, component]
        order = np.argsort(-np.abs(values), kind="stable")[:count]
        return [(self.names[row], float(values[row])) for row in order.tolist()]

    def as_file(self, path: Path) -> bytes:
        """All correlations as CSV, or as JSON, by the suffix of the file."""
        components = [f"component_{d + 1}" for d in range(self.correlations.shape[1])]
        if path.suffix.lower() == ".json":
            rows = [dict(zip(components, row, strict=True)) for row in self.correlations.tolist()]
            columns = [{"column": name, **row} for name, row in zip(self.names, rows, strict=True)]
            return storage.as_json({"n_samples": self.n_samples, "notes": self.notes, "columns": columns})
        if path.suffix.lower() != ".csv":
            raise InputError(f"{path}: correlations are written as .csv or .json; choose one of these")
        frame = pl.DataFrame({"column": self.names}).hstack(
            [pl.Series(name, self.correlations[:, d]) for d, name in enumerate(components)]
        )
        csv = BytesIO()
        frame.write_csv(csv)
        return csv.getvalue()


def own_columns(path: Path, how: Reading, names: Sequence[str], scores: Matrix) -> OwnColumns:
    """Correlate every column of a table with every component."""
    table = reading.read(path, how)
    assert table.ids is not None
    position = {key: row for row, key in enumerate(matching_keys(names, how.id_normalize))}
    own = matching_keys(table.ids, how.id_normalize)
    pairs = [(row, position[key]) for row, key in enumerate(own) if key in position]
    if len(pairs) < 3:
        raise InputError(f"{path}: {len(pairs)} of its ids are samples of the result; correlations need at least 3")
    rows, samples = (list(part) for part in zip(*pairs, strict=True))
    components, _ = _standardized(scores[samples])
    found: list[Matrix] = []
    kept: list[str] = []
    left_out: list[str] = []
    for labels, X in _blocks(table.frame[rows], left_out):
        Z, varies = _standardized(X)
        kept += [label for label, varied in zip(labels, varies.tolist(), strict=True) if varied]
        left_out += [label for label, varied in zip(labels, varies.tolist(), strict=True) if not varied]
        found.append((Z.T @ components)[varies] / len(rows))
    if not kept:
        raise InputError(f"{path}: none of its columns has numbers, or a few categories, that vary")
    notes = [*table.notes, f"{len(rows):,} samples in common"]
    if left_out:
        notes.append(f"left out, since constant or text of many kinds: {some(left_out)}")
    return OwnColumns(tuple(kept), np.clip(np.vstack(found), -1.0, 1.0), len(rows), tuple(notes))


def _blocks(frame: pl.DataFrame, left_out: list[str]) -> Iterator[tuple[list[str], Matrix]]:
    """Columns as numbers, a few at a time; text as one column of 0 and 1 for each category."""
    labels: list[str] = []
    numbers: list[Any] = []
    for values in frame.iter_columns():
        for label, column in _as_numbers(values, left_out):
            labels.append(label)
            numbers.append(column)
        if len(labels) >= AT_A_TIME:
            yield labels, np.column_stack(numbers)
            labels, numbers = [], []
    if labels:
        yield labels, np.column_stack(numbers)


def _as_numbers(values: pl.Series, left_out: list[str]) -> list[tuple[str, Any]]:
    if values.dtype.is_numeric() or values.dtype == pl.Boolean or values.dtype.is_temporal():
        physical = values.to_physical().cast(pl.Float64)
        return [(values.name, physical.fill_null(float("nan")).to_numpy())]
    if not isinstance(values.dtype, TEXT) or values.n_unique() > MOST_CATEGORIES:
        left_out.append(values.name)
        return []
    texts = values.cast(pl.String)
    categories = sorted(texts.drop_nulls().unique().to_list())
    return [
        (f"{values.name} = {category}", (texts == category).cast(pl.Float64).fill_null(float("nan")).to_numpy())
        for category in categories
    ]


def _standardized(X: Matrix) -> tuple[Matrix, Any]:
    """Columns with mean 0 and deviation 1, missing values at the mean; and which of them vary."""
    X = np.where(np.isfinite(X), X, np.nan)
    known = np.maximum((~np.isnan(X)).sum(axis=0), 1)
    mean = np.nansum(X, axis=0) / known
    Z = np.where(np.isnan(X), 0.0, X - mean)
    size = np.sqrt((Z * Z).mean(axis=0))
    varies = size > 1e-12 * np.maximum(np.abs(mean), 1e-300)
    return Z / np.where(varies, size, 1.0), varies
