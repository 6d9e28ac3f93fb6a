"""What the estimator takes as tables: one per party, a list of them, or one that is cut into parties."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from dkpca.checks import as_input_error
from dkpca.concerns import warn
from dkpca.errors import InputError
from dkpca.estimator.fitted import FittedEstimator
from dkpca.fields import check_party_name
from dkpca.file_route import as_numbers
from dkpca.kernels import Kernel, family
from dkpca.linalg.arrays import Array
from dkpca.party.state import PartyState
from dkpca.tables import labels
from dkpca.tables.categories import coded_columns
from dkpca.tables.column_rules import check_features
from dkpca.tables.inputs import (
    Source,
    as_table,
    check_like_fit,
    check_table,
    check_together,
    column_groups,
    explained,
    in_columns,
    is_list_of_tables,
    is_source,
    named_columns,
    take_columns,
    without_zeros_left_out,
)

Tables = Any  # one table, a list of tables, or a mapping from party to table


def as_precise_as(X: Tables, scores: Array) -> Array:
    """Scores in float32, if all tables were; what was computed in between was not."""
    tables = list(X.values()) if isinstance(X, Mapping) else list(X) if is_list_of_tables(X) else [X]
    single = isinstance(scores, np.ndarray) and all(_is_single(table) for table in tables)
    return scores.astype(np.float32) if single else scores


def _is_single(table: Any) -> bool:
    kinds = list(table.dtypes) if hasattr(table, "columns") else [getattr(table, "dtype", None)]
    return {str(kind).lower() for kind in kinds} == {"float32"}


class TakesTables(FittedEstimator):
    """The estimator's tables by party, checked against the fit where there was one."""

    def _tables(self, X: Tables, *, reset: bool, sample_ids: Any) -> dict[str, Array | Source]:
        """Tables by party, their rows in one order, checked unless a worker is to open them."""
        if isinstance(X, Mapping) and not scipy.sparse.issparse(X):  # a sparse DOK array is a dict too
            given = {check_party_name(name): table for name, table in X.items()}
        elif is_list_of_tables(X):
            given = {f"party{j}": table for j, table in enumerate(X)}
        else:
            return self._split(X, reset=reset)
        if not reset:
            self._check_states(list(given))
        kinds = {name: self._columns_are(name, reset) for name in given}
        given = {
            name: without_zeros_left_out(name, table, taken=self._family(name, reset).takes_sparse)
            for name, table in given.items()
        }
        matrices = [name for name, kind in kinds.items() if kind == "samples" and reset]
        for name in [name for name in given if reset and name not in matrices]:
            check_features(name, given[name])
        given |= {name: labels.matrix_like_its_rows(name, given[name]) for name in matrices}
        given, _, moved = labels.aligned(given, sample_ids, matrices=matrices)
        warn(moved)
        if reset:
            self._names = {
                name: labels.names_of_columns(table) or named_columns(name, table) for name, table in given.items()
            }
        else:
            given = {
                name: as_numbers(self._states[name], self._in_order(name, table)) for name, table in given.items()
            }
        tables = {name: as_table(name, table, columns_are=kinds[name]) for name, table in given.items()}
        if not tables:
            raise InputError("no party was given; pass at least one table")
        here = {name: table for name, table in tables.items() if not is_source(table)}
        check_together(here)
        if reset:
            self.__dict__.pop("feature_names_in_", None)
        else:
            check_like_fit(here, {name: state.origin for name, state in self._states.items()})
        return tables

    def _in_order(self, name: str, table: Any) -> Any:
        """Return a table in a file with its columns as the fit had them, by their names."""
        state = self._states[name]
        names = named_columns(name, table) if state.preparation is None else None
        if names is None or state.columns is None or names == state.columns:
            return table
        labels.check_same_columns(name, names, state.columns)
        return in_columns(name, table, state.columns)

    def _columns_are(self, party: str, reset: bool) -> str:
        """Whether the party's columns are quantities, categories or samples, as its kernel says."""
        return self._family(party, reset).columns_are

    def _family(self, party: str, reset: bool) -> Kernel | type[Kernel]:
        """Kernel of a party, asked for or fitted."""
        if not reset:
            return self._states[party].kernel
        kernel = self.kernel.get(party, "linear") if isinstance(self.kernel, Mapping) else self.kernel
        return kernel if isinstance(kernel, Kernel) else family(kernel)

    def _families(self) -> list[Kernel | type[Kernel]]:
        """All kernels asked for."""
        asked = self.kernel.values() if isinstance(self.kernel, Mapping) else [self.kernel]
        return [kernel if isinstance(kernel, Kernel) else family(kernel) for kernel in asked]

    def _with_names(self, states: Mapping[str, PartyState]) -> dict[str, PartyState]:
        """States that know the names of their columns, where the tables of the fit had some."""
        return {name: replace(state, columns=self._names.get(name)) for name, state in states.items()}

    def _check_states(self, names: list[str]) -> None:
        """Raise unless the samples are from the parties of the fit, and their states are here."""
        strangers = sorted(set(names) - set(self.party_names_))
        lacking = names and self.missing == "refuse" and set(names) != set(self.party_names_)
        if strangers or lacking:
            raise InputError(
                f"the fit had the parties {self.party_names_}; these samples are from {names}; name those"
            )
        missing = sorted(set(names) - set(self._states))
        if missing:
            raise InputError(
                f"the private states of {missing} are not here; place new samples with dkpca.extend at each party "
                "and dkpca.project at the center"
            )

    def _coded(self, X: Any, reset: bool) -> Any:
        """One table whose columns of categories are numbers."""
        if not hasattr(X, "shape") or len(X.shape) != 2:
            return X
        if all(kernel.columns_are != "categories" for kernel in self._families()):
            return X
        groups = column_groups(self.parties, X.shape[1], getattr(X, "columns", None))
        kinds = {name: self._columns_are(name, reset) for name in groups}
        return coded_columns(X, [c for name, group in groups.items() if kinds[name] == "categories" for c in group])

    def _split(self, X: Any, *, reset: bool) -> dict[str, Array]:
        """Cut one table into the parties that `parties` describes."""
        if reset:
            self._names = {}
        if array_api_compat.is_torch_array(X):
            table = check_table("X", X)
            names = None
            if not reset and table.shape[1] != self.n_features_in_:
                raise InputError(
                    f"X has {table.shape[1]} features, but DKPCA is expecting {self.n_features_in_} features as input"
                )
        else:
            X = without_zeros_left_out("X", X, taken=all(kernel.takes_sparse for kernel in self._families()))
            check_features("X", X, ids=reset)
            X = self._coded(X, reset)
            try:
                with as_input_error():
                    table = validate_data(
                        self, X, reset=reset, dtype=np.float64, ensure_min_samples=2 if reset else 1
                    )
            except InputError as error:
                raise type(error)(explained(X, error)) from error
            names = getattr(self, "feature_names_in_", None)
        groups = column_groups(self.parties, table.shape[1], names)
        tables = {name: take_columns(table, columns) for name, columns in groups.items()}
        if not reset:
            self._check_states(list(tables))
            check_like_fit(tables, {name: state.origin for name, state in self._states.items()})
        return tables
