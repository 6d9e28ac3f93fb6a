"""What the estimator takes as tables: one per party, a list of them, or one that is cut into parties."""

import warnings
from collections.abc import Mapping
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.utils.validation import validate_data

from dkpca.checks import as_input_error
from dkpca.errors import DataWarning, InputError
from dkpca.fields import check_party_name
from dkpca.file_route import as_numbers
from dkpca.fitted import FittedEstimator
from dkpca.linalg.arrays import Array
from dkpca.tables import labels
from dkpca.tables.inputs import (
    Source,
    as_table,
    check_like_fit,
    check_table,
    check_together,
    column_groups,
    is_list_of_tables,
    is_source,
    take_columns,
)

Tables = Any  # one table, a list of tables, or a mapping from party to table


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
        given, _, moved = labels.aligned(given, sample_ids)
        for sentence in moved:
            warnings.warn(sentence, DataWarning, stacklevel=3)
        if not reset:
            self._check_states(list(given))
            given = {name: as_numbers(self._states[name], table) for name, table in given.items()}
        tables = {name: as_table(name, table) for name, table in given.items()}
        if not tables:
            raise InputError("no party was given; pass at least one table")
        here = {name: table for name, table in tables.items() if not is_source(table)}
        check_together(here)
        if reset:
            self.__dict__.pop("feature_names_in_", None)
        else:
            check_like_fit(here, {name: state.origin for name, state in self._states.items()})
        return tables

    def _check_states(self, names: list[str]) -> None:
        """Raise unless the samples are from the parties of the fit, and their states are here."""
        strangers = sorted(set(names) - set(self.party_names_))
        lacking = names and self.missing == "refuse" and set(names) != set(self.party_names_)
        if strangers or lacking:
            raise InputError(f"the fit had the parties {self.party_names_}; these samples are from {names}")
        missing = sorted(set(names) - set(self._states))
        if missing:
            raise InputError(
                f"the private states of {missing} are not here; place new samples with 'dkpca extend' at each party "
                "and 'dkpca project' at the center"
            )

    def _split(self, X: Any, *, reset: bool) -> dict[str, Array]:
        """Cut one table into the parties that `parties` describes."""
        if array_api_compat.is_torch_array(X):
            table = check_table("X", X)
            names = None
            if not reset and table.shape[1] != self.n_features_in_:
                raise InputError(
                    f"X has {table.shape[1]} features, but DKPCA is expecting {self.n_features_in_} features as input"
                )
        else:
            with as_input_error():
                table = validate_data(self, X, reset=reset, dtype=np.float64, ensure_min_samples=2 if reset else 1)
            names = getattr(self, "feature_names_in_", None)
        groups = column_groups(self.parties, table.shape[1], names)
        tables = {name: take_columns(table, columns) for name, columns in groups.items()}
        if not reset:
            self._check_states(list(tables))
            check_like_fit(tables, {name: state.origin for name, state in self._states.items()})
        return tables
