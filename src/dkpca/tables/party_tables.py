"""Tables by party, checked: from what a caller gives as X to arrays, or names of tables that a worker opens."""

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse

from dkpca.errors import DataWarning, InputError
from dkpca.linalg.arrays import Array
from dkpca.messages import check_party_name
from dkpca.party.state import State
from dkpca.settings import Fit
from dkpca.tables import labels
from dkpca.tables.column_rules import check_features
from dkpca.tables.inputs import (
    Source,
    as_table,
    check_like_fit,
    check_together,
    in_columns,
    is_list_of_tables,
    is_source,
    named_columns,
    without_zeros_left_out,
)


class Tables(Mapping[str, Any]):
    """Tables of several parties that are cut by rows together, so that scikit-learn can split them.

    Parameters
    ----------
    tables : mapping of party to table, or list of tables
        Arrays or DataFrames. Rows of DataFrames are put into the order of the first table, by their labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import DKPCA, Tables
    >>> from sklearn.model_selection import GridSearchCV
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> tables = Tables({"bank": X[:, :4], "shop": X[:, 4:]})
    >>> tables.shape, tables["bank"].shape, tables[:10].shape
    ((60, 8), (60, 4), (10, 8))
    >>> GridSearchCV(DKPCA(2, kernel="linear"), {"n_components": [1, 2]}, cv=2).fit(tables).best_params_
    {'n_components': 2}
    """

    def __init__(self, tables: Any) -> None:
        given = by_party(tables)
        if not given or not all(hasattr(table, "shape") for table in given.values()):
            raise InputError("Tables takes one table for each party: a dict or a list of arrays or DataFrames")
        self._tables, self.sample_ids, moved = labels.aligned(given)
        rows = {name: table.shape[0] for name, table in self._tables.items()}
        if len(set(rows.values())) > 1:
            raise InputError(
                f"parties have different numbers of rows {rows}; row i must be the same sample everywhere"
            )
        for sentence in moved:
            warnings.warn(sentence, DataWarning, stacklevel=2)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns over all parties."""
        widths = [table.shape[1] for table in self._tables.values()]
        return next(iter(self._tables.values())).shape[0], sum(widths)

    def __getitem__(self, key: Any) -> Any:
        """Return the table of a party by its name; else these rows of all tables."""
        if isinstance(key, str):
            return self._tables[key]
        rows = key[0] if isinstance(key, tuple) else key  # scikit-learn says [rows, ...]
        rows = rows if isinstance(rows, slice) else np.atleast_1d(np.asarray(rows))
        return Tables({name: _rows_of(table, rows) for name, table in self._tables.items()})

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def _rows_of(table: Any, rows: Any) -> Any:
    return table.iloc[rows] if hasattr(table, "iloc") else table[rows]


@dataclass(frozen=True)
class PartyTables:
    """Tables of all parties, their rows in one order."""

    tables: dict[str, Array | Source]
    ids: list[Any] | None  # labels of the rows in that order; None: they have none
    columns: dict[str, tuple[str, ...] | None]  # their names, by party
    moved: list[str]  # sentences about rows that were put into another order, or dropped
    places: dict[str, list[int]] | None = None  # of each party's rows among the samples; None: all have all


def by_party(X: Any) -> dict[str, Any] | None:
    """Return the tables of a mapping or a list by party; None if X is one table."""
    if isinstance(X, Mapping) and not scipy.sparse.issparse(X):  # a sparse DOK array is a dict too
        return {check_party_name(name): table for name, table in X.items()}
    if is_list_of_tables(X):
        return {f"party{j}": table for j, table in enumerate(X)}
    return None


def for_fit(given: Mapping[str, Any], fit: Fit, sample_ids: Any) -> PartyTables:
    """Check the tables of a fit."""
    families = {name: fit.family_of(name) for name in given}
    dense = {
        name: without_zeros_left_out(name, table, taken=families[name].takes_sparse) for name, table in given.items()
    }
    matrices = [name for name, family in families.items() if family.columns_are == "samples"]
    for name in [name for name in dense if name not in matrices]:
        check_features(name, dense[name])
    dense |= {name: labels.matrix_like_its_rows(name, dense[name]) for name in matrices}
    found = labels.matched(dense, sample_ids, lacking=fit.lacking, matrices=matrices)
    placed = found.tables
    columns = {name: labels.names_of_columns(table) or named_columns(name, table) for name, table in placed.items()}
    tables, _ = _checked(placed, families, same_rows=found.places is None)
    return PartyTables(tables, found.ids, columns, found.notes, found.places)


def _checked(
    given: Mapping[str, Any], kernels: Mapping[str, Any], *, same_rows: bool
) -> tuple[dict[str, Array | Source], dict[str, Array]]:
    """Arrays, or names of tables that a worker opens; and those that are here."""
    if not given:
        raise InputError("no party was given; pass at least one table")
    tables = {name: as_table(name, table, columns_are=kernels[name].columns_are) for name, table in given.items()}
    here = {name: table for name, table in tables.items() if not is_source(table)}
    check_together(here, same_rows=same_rows)
    return tables, here


def for_new_samples(
    given: Mapping[str, Any], states: Mapping[str, State], sample_ids: Any, lacking: str | None = None
) -> PartyTables:
    """Check tables of new samples against those of the fit."""
    dense = {
        name: without_zeros_left_out(name, table, taken=states[name].kernel.takes_sparse)
        for name, table in given.items()
    }
    found = labels.matched(dense, sample_ids, lacking=lacking)
    placed = found.tables
    numbers = {name: as_numbers(states[name], _in_order(states[name], table)) for name, table in placed.items()}
    kernels = {name: states[name].kernel for name in numbers}
    tables, here = _checked(numbers, kernels, same_rows=found.places is None)
    check_like_fit(here, {name: state.origin for name, state in states.items()})
    columns = {name: states[name].columns for name in tables}
    return PartyTables(tables, found.ids, columns, found.notes, found.places)


def as_numbers(state: State, table: Any) -> Any:
    """New rows in the form that the state expects: as they are, or prepared as the commands did at the fit."""
    if state.preparation is None:
        return labels.like_fit(state.party, table, state.columns)
    try:
        # By name: reading tables as the commands do is the one step that needs their extra.
        files = import_module("dkpca.exchange.files")
    except ModuleNotFoundError as error:
        raise InputError(
            f"party {state.party!r}: its table was prepared by the dkpca command, which needs {error.name}; "
            "install it with pip install 'dkpca[cli]'"
        ) from error
    return files.prepared(state, table)


def as_precise_as(X: Any, scores: Array) -> Array:
    """Scores in float32, if all tables were; what was computed in between was not."""
    tables = list(X.values()) if isinstance(X, Mapping) else list(X) if is_list_of_tables(X) else [X]
    single = isinstance(scores, np.ndarray) and all(_is_single(table) for table in tables)
    return scores.astype(np.float32) if single else scores


def _in_order(state: State, table: Any) -> Any:
    """Return a table in a file with its columns as the fit had them, by their names."""
    names = named_columns(state.party, table) if state.preparation is None else None
    if names is None or state.columns is None or names == state.columns:
        return table
    labels.check_same_columns(state.party, names, state.columns)
    return in_columns(state.party, table, state.columns)


def _is_single(table: Any) -> bool:
    kinds = list(table.dtypes) if hasattr(table, "columns") else [getattr(table, "dtype", None)]
    return {str(kind).lower() for kind in kinds} == {"float32"}
