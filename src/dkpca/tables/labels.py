"""Rows of several tables are brought into one order by their labels: the index of a DataFrame, or ids beside it.

Arrays have no labels; their rows match by position, and only where nobody's rows have to move.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError

Labels = list[Any]
MOST_CLASSES = 50  # different values that are taken for classes
LEAST_COMMON = 10  # samples that all parties must have where the others are dropped


def aligned(
    tables: Mapping[str, Any], sample_ids: Any = None, *, matrices: Collection[str] = ()
) -> tuple[dict[str, Any], Labels | None, list[str]]:
    """Put the rows of all tables into the order of the first that has labels.

    Parameters
    ----------
    tables : mapping of party to table
        DataFrames with an index, arrays, or sources that a worker opens.
    sample_ids : mapping of party to sequence, or sequence, optional
        Labels of rows, in their order; one sequence is about every table. They win over an index.
    matrices : collection of str
        Parties whose columns are the samples too, in the order of the rows.

    Returns
    -------
    (tables, labels, notes)
        Tables in the common order, the labels of that order if there are any, and what was moved, in words.
    """
    labels = _labels(tables, sample_ids)
    if not labels:
        return dict(tables), None, []
    first, *others = labels
    _check_each(labels)
    moved = [name for name in others if labels[name] != labels[first]]
    for name in moved:
        _check_same_samples(first, labels[first], name, labels[name])
    nameless = [name for name in tables if name not in labels]
    if moved and nameless:
        raise InputError(
            f"the rows of {moved} are in another order than those of {first!r}, and {nameless} have no labels that "
            "say in which order theirs are; give them with sample_ids, or pass all tables in one order"
        )
    placed = dict(tables)
    for name in moved:
        row = {label: number for number, label in enumerate(labels[name])}
        placed[name] = _taken(tables[name], name, [row[label] for label in labels[first]], name in matrices)
    notes = [
        f"party {name!r}: its rows were put into the order of party {first!r}, by their labels" for name in moved
    ]
    return placed, labels[first], notes


@dataclass(frozen=True)
class Matched:
    """Tables of several parties, matched by the labels of their rows."""

    tables: dict[str, Any]
    ids: Labels | None  # labels of the samples, in order; None: there are none, rows match by position
    notes: list[str]  # what was moved or dropped, in words
    places: dict[str, list[int]] | None = None  # of each table's rows among the samples; None: all have all, in order


def matched(
    tables: Mapping[str, Any], sample_ids: Any = None, *, lacking: str | None, matrices: Collection[str] = ()
) -> Matched:
    """Match rows by their labels where parties may lack samples.

    Parameters
    ----------
    tables, sample_ids, matrices
        As for `aligned`.
    lacking : {"drop", "mean", "complete"}, optional
        What to do about samples that not all have: keep only the common ones, or all of them. None refuses.
    """
    labels = _labels(tables, sample_ids)
    if lacking is None or len({frozenset(own) for own in labels.values()}) <= 1:
        return Matched(*aligned(tables, sample_ids, matrices=matrices))
    _check_each(labels)
    nameless = [name for name in tables if name not in labels]
    if nameless:
        raise InputError(
            f"parties have different samples, and {nameless} have no labels that say which theirs are; give them "
            "with sample_ids"
        )
    union: Labels = list(dict.fromkeys(label for own in labels.values() for label in own))
    lacked = {name: len(union) - len(own) for name, own in labels.items()}
    listed = ", ".join(f"{name} {count:,}" for name, count in lacked.items() if count)
    common = set(union).intersection(*map(set, labels.values()))
    if lacking == "drop":
        if len(common) < LEAST_COMMON:
            raise InputError(
                f"all parties have {len(common)} of {len(union):,} samples in common (lacking: {listed}), and a fit "
                f"needs {LEAST_COMMON}; check that labels are of one kind, or use lacking='complete'"
            )
        kept = [label for label in next(iter(labels.values())) if label in common]
        placed = {}
        for name, table in tables.items():
            row = {label: number for number, label in enumerate(labels[name])}
            placed[name] = _taken(table, name, [row[label] for label in kept], name in matrices)
        note = f"used the {len(kept):,} of {len(union):,} samples that all parties have; lacking: {listed}"
        return Matched(placed, kept, [note])
    position = {label: number for number, label in enumerate(union)}
    places = {name: [position[label] for label in own] for name, own in labels.items()}
    return Matched(dict(tables), union, [], places)


def check_outcome(y: Any, tables: Mapping[str, Any], sample_ids: Any, ids: Labels | None) -> None:
    """Refuse values for each sample that are in another order than the samples `ids`: they would go with others."""
    if y is None or ids is None:
        return
    given = list(y.index) if hasattr(y, "iloc") and hasattr(y, "index") else None
    if given is not None and set(given).isdisjoint(ids):
        given = None  # row numbers, beside tables with names
    if given is None:
        given = next(iter(_labels(tables, sample_ids).values()))
    if given != ids:
        raise InputError(
            f"y has {len(given):,} values for other samples, or in another order, than the {len(ids):,} of the fit; "
            "fit without y, and take y.loc[model.sample_ids_] afterwards"
        )


def rows_of_samples(values: Any, tables: Mapping[str, Any], sample_ids: Any, ids: Labels | None, what: str) -> Any:
    """Return a table with a row for each of the samples `ids`, in their order: by its index, or as it is."""
    if values is None:
        return None
    labeled = ids is not None and hasattr(values, "iloc") and hasattr(values, "index")
    if ids is not None and labeled and not set(values.index).isdisjoint(ids):
        lacking = [label for label in ids if label not in set(values.index)]
        if lacking or not values.index.is_unique:
            said = (
                f"no row for {len(lacking):,} of {len(ids):,} samples, such as {lacking[0]!r}" if lacking else "twins"
            )
            raise InputError(f"{what} have {said}; give one row for each sample")
        return values.loc[ids]
    if ids is not None and next(iter(_labels(tables, sample_ids).values()), ids) != ids:
        raise InputError(f"{what} have no labels, and rows were dropped, added or reordered; give them an index")
    return values


def outcome_columns(y: Any) -> tuple[np.ndarray, list[str]]:
    """Values for each sample as columns of numbers, and their names: one per class, or the numbers themselves."""
    values = np.asarray(y)
    values = values[:, 0] if values.ndim == 2 else values
    classes = np.unique(values.astype(str))
    if values.dtype.kind in "fiu" and len(classes) > MOST_CLASSES:
        return values.astype(float)[:, None], ["y"]
    shown = classes[:MOST_CLASSES]
    return (values.astype(str)[:, None] == shown[None, :]).astype(float), [f"y = {name}" for name in shown]


def of_rows(table: Any, sample_ids: Any) -> Labels | None:
    """Labels of the rows of one table: those given, or its index."""
    if sample_ids is not None:
        return aligned({"X": table}, sample_ids)[1]
    return list(table.index) if hasattr(table, "iloc") and hasattr(table, "index") else None


def _labels(tables: Mapping[str, Any], sample_ids: Any) -> dict[str, Labels]:
    """Labels by party, of those that have some."""
    if sample_ids is not None and not isinstance(sample_ids, Mapping):
        sample_ids = dict.fromkeys(tables, sample_ids)
    given = dict(sample_ids or {})
    strangers = sorted(set(given) - set(tables))
    if strangers:
        raise InputError(f"sample_ids names {strangers}; the tables are of {sorted(tables)}")
    found: dict[str, Labels] = {}
    for name, table in tables.items():
        if name in given:
            found[name] = _listed(given[name])
            if hasattr(table, "shape") and len(found[name]) != table.shape[0]:
                raise InputError(
                    f"party {name!r}: {len(found[name])} sample ids for {table.shape[0]} rows; give one for each row"
                )
        elif hasattr(table, "iloc") and hasattr(table, "index"):
            found[name] = list(table.index)
    return found


def _listed(ids: Sequence[Any]) -> Labels:
    return ids.tolist() if isinstance(ids, np.ndarray) else list(ids)


def _check_each(labels: Mapping[str, Labels]) -> None:
    for name, own in labels.items():
        missing = [row for row, label in enumerate(own) if label is None or label != label]
        if missing:
            raise InputError(f"party {name!r}: row {missing[0] + 1} has no label; give every sample an id")
        if len(set(own)) < len(own) and any(other != own for other in labels.values()):
            twice = Counter(own).most_common(1)[0][0]
            raise InputError(
                f"party {name!r}: label {twice!r} occurs in several rows, and its rows differ from those of other "
                "parties; labels must be unique, keep one of these rows"
            )


def _check_same_samples(first: str, ours: Labels, name: str, theirs: Labels) -> None:
    common = len(set(ours) & set(theirs))
    if common == len(ours) == len(theirs):
        return
    kinds = sorted({type(own[0]).__name__ for own in (ours, theirs) if own})
    hint = f" (labels of types {' and '.join(kinds)})" if len(kinds) > 1 else ""
    raise InputError(
        f"parties {first!r} and {name!r} have different samples: {len(ours)} and {len(theirs)}, {common} in common "
        f"by their labels{hint}; keep the common ones with lacking='drop', complete the others with "
        "lacking='complete', or, if rows match by position, pass arrays (table.to_numpy())"
    )


def names_of_columns(table: Any) -> tuple[str, ...] | None:
    """Names of a DataFrame's columns; None where there are none."""
    return tuple(map(str, table.columns)) if hasattr(table, "columns") and hasattr(table, "shape") else None


def matrix_like_its_rows(name: str, table: Any) -> Any:
    """Return a kernel matrix with its columns in the order of its rows, by the labels of both if it has them."""
    if not (hasattr(table, "iloc") and hasattr(table, "index")) or list(table.columns) == list(table.index):
        return table
    if not table.index.is_unique or set(table.columns) != set(table.index):
        raise InputError(
            f"party {name!r}: the columns of a kernel matrix are its samples, and these are labeled otherwise than "
            "its rows; give both the same labels, or pass an array (table.to_numpy()) with both in one order"
        )
    return table.loc[:, table.index]


def like_fit(name: str, table: Any, columns: tuple[str, ...] | None) -> Any:
    """Return new rows with the columns of the fit, by their names where both have names."""
    given = names_of_columns(table)
    if columns is None or given is None or given == columns:
        return table
    check_same_columns(name, given, columns)
    return table[[table.columns[given.index(column)] for column in columns]]


def check_same_columns(name: str, given: Sequence[str], columns: Sequence[str]) -> None:
    """Refuse new rows that have other columns than the fit."""
    if len(set(given)) < len(given) or set(given) != set(columns):
        strange, absent = sorted(set(given) - set(columns)), sorted(set(columns) - set(given))
        raise InputError(
            f"party {name!r}: these samples have other columns than the fit: {strange[:5]} are new, {absent[:5]} are "
            "missing; name them as in the fit, or pass arrays with the columns of the fit in their order"
        )


def _taken(table: Any, name: str, rows: list[int], matrix: bool) -> Any:
    if hasattr(table, "iloc"):
        return table.iloc[rows, rows] if matrix else table.iloc[rows]
    if not hasattr(table, "shape"):
        raise InputError(
            f"party {name!r}: its table is opened elsewhere and cannot be put into another order; "
            "pass all tables in one order"
        )
    return table[rows][:, rows] if matrix else table[rows]
