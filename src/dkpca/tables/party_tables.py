"""Tables by party, checked: from what a caller gives as X to arrays, or names of tables that a worker opens."""

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse

from dkpca.errors import InputError
from dkpca.fields import check_party_name
from dkpca.linalg.arrays import Array
from dkpca.party.state import PartyState
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


@dataclass(frozen=True)
class PartyTables:
    """Tables of all parties, their rows in one order."""

    tables: dict[str, Array | Source]
    ids: list[Any] | None  # labels of the rows in that order; None: they have none
    columns: dict[str, tuple[str, ...] | None]  # their names, by party
    moved: list[str]  # sentences about rows that were put into another order


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
    placed, ids, moved = labels.aligned(dense, sample_ids, matrices=matrices)
    columns = {name: labels.names_of_columns(table) or named_columns(name, table) for name, table in placed.items()}
    tables = {name: as_table(name, table, columns_are=families[name].columns_are) for name, table in placed.items()}
    if not tables:
        raise InputError("no party was given; pass at least one table")
    check_together({name: table for name, table in tables.items() if not is_source(table)})
    return PartyTables(tables, ids, columns, moved)


def for_new_samples(given: Mapping[str, Any], states: Mapping[str, PartyState], sample_ids: Any) -> PartyTables:
    """Check tables of new samples against those of the fit."""
    dense = {
        name: without_zeros_left_out(name, table, taken=states[name].kernel.takes_sparse)
        for name, table in given.items()
    }
    placed, ids, moved = labels.aligned(dense, sample_ids)
    numbers = {name: as_numbers(states[name], _in_order(states[name], table)) for name, table in placed.items()}
    tables = {
        name: as_table(name, table, columns_are=states[name].kernel.columns_are) for name, table in numbers.items()
    }
    if not tables:
        raise InputError("no party was given; pass at least one table")
    here = {name: table for name, table in tables.items() if not is_source(table)}
    check_together(here)
    check_like_fit(here, {name: state.origin for name, state in states.items()})
    return PartyTables(tables, ids, {name: states[name].columns for name in tables}, moved)


def as_numbers(state: PartyState, table: Any) -> Any:
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


def _in_order(state: PartyState, table: Any) -> Any:
    """Return a table in a file with its columns as the fit had them, by their names."""
    names = named_columns(state.party, table) if state.preparation is None else None
    if names is None or state.columns is None or names == state.columns:
        return table
    labels.check_same_columns(state.party, names, state.columns)
    return in_columns(state.party, table, state.columns)


def _is_single(table: Any) -> bool:
    kinds = list(table.dtypes) if hasattr(table, "columns") else [getattr(table, "dtype", None)]
    return {str(kind).lower() for kind in kinds} == {"float32"}
