"""The estimator on Dask arrays and DataFrames: rows stay with their workers, and scores come back as a Dask array."""

from collections.abc import Mapping
from numbers import Integral
from typing import Any, Self

import numpy as np

from dkpca.disclosure import LedgerEntry
from dkpca.errors import InputError
from dkpca.estimator.party_tables import Tables
from dkpca.estimator.protecting import Protects
from dkpca.exchange import on_dask, row_rounds
from dkpca.exchange.rounds import Fit
from dkpca.fields import check_party_name
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array
from dkpca.linalg.precision import PRECISIONS
from dkpca.store.estimator_file import Shield
from dkpca.tables import labels
from dkpca.tables.inputs import column_groups, opened

# Parameters that must be as by default.
REFUSED = {"protect": "none", "projection": "extend", "audit": None, "device": None}


class OnCluster(Protects):
    """Fits whose rows are chunks of Dask collections."""

    def _collections(self, X: Tables) -> dict[str, Any] | None:
        """Tables by party, if they are Dask collections; None if none of them is."""
        if on_dask.is_collection(X):
            groups = column_groups(self.parties, X.shape[1], getattr(X, "columns", None))
            names = getattr(X, "columns", None)
            return {
                name: X[:, columns] if names is None else X[[names[c] for c in columns]]
                for name, columns in groups.items()
            }
        listed = isinstance(X, list | tuple)
        given = {f"party{j}": table for j, table in enumerate(X)} if listed else X
        if not isinstance(given, Mapping) or not any(on_dask.is_collection(table) for table in given.values()):
            return None
        others = [name for name, table in given.items() if not on_dask.is_collection(table)]
        if others:
            raise InputError(f"the tables of {others} are no Dask collections, the others are; pass all in one way")
        return {check_party_name(name): table for name, table in given.items()}

    def _fit_on_cluster(self, tables: Mapping[str, Any], settings: Fit, sample_ids: Any) -> Self:
        for name, value in REFUSED.items():
            if getattr(self, name) != value:
                raise InputError(
                    f"{name}={getattr(self, name)!r} needs rows in one place, and those of Dask collections stay on "
                    "their workers; leave it out, or gather the tables (X.compute())"
                )
        if sample_ids is not None:
            raise InputError("rows of Dask collections match by position; leave sample_ids out")
        if not isinstance(self.n_components, Integral):
            raise InputError(f"n_components={self.n_components!r} needs the whole spectrum; give a number")
        chunks = on_dask.chunked(tables, self.timeout)
        fitted = row_rounds.fit(
            chunks,
            settings,
            standardize=self.standardize,
            n_landmarks=self.n_landmarks,
            n_components=int(self.n_components),
            random_state=self.random_state or 0,
        )
        self._names = dict(chunks.columns)
        self._states, self._sources, self._shield = self._with_names(fitted.states), {}, Shield()
        self._by_rows = fitted
        self.party_names_ = list(tables)
        self.n_features_in_ = sum(chunks.widths.values())
        self.solvers_ = {name: state.solver for name, state in fitted.states.items()} | {"center": fitted.solver}
        self.kernel_: Kernel = next(iter(fitted.states.values())).kernel
        self.gamma_ = getattr(self.kernel_, "gamma", None)
        self.eigenvalues_ = fitted.eigenvalues
        roots = np.sqrt(fitted.eigenvalues)
        inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
        self.eigenvectors_ = row_rounds.scores(chunks, fitted) * inverse[None, :]
        self.explained_variance_ratio_ = fitted.explained_variance_ratio
        self.certificate_ = fitted.certificate
        self.ledger_ = [self._not_sent(name, sum(chunks.sizes)) for name in tables]
        return self

    def _not_sent(self, name: str, n_samples: int) -> LedgerEntry:
        """What a party's factor would take: it is made on the workers, a chunk at a time."""
        state = self._states[name]
        size = PRECISIONS[state.precision] * n_samples
        rank, columns = state.weights.shape[1], len(state.origin)  # type: ignore[union-attr]
        return LedgerEntry(name, columns, rank, size * rank, size * columns, state.decided)

    def _place_on_cluster(self, X: Tables, sample_ids: Any) -> Array:
        """Place new samples after such a fit; every party is needed."""
        tables = self._collections(X)
        given = self._tables(X, reset=False, sample_ids=sample_ids) if tables is None else tables
        if set(given) != set(self.party_names_):
            raise InputError(f"the fit had the parties {self.party_names_}; these samples are from {list(given)}")
        if tables is None:
            return row_rounds.scores_here({name: opened(name, given[name]) for name in given}, self._by_rows)
        placed = {name: labels.like_fit(name, table, self._states[name].columns) for name, table in tables.items()}
        chunks = on_dask.chunked({name: placed[name] for name in self.party_names_}, self.timeout)
        widths = {name: len(state.origin) for name, state in self._states.items()}
        if dict(chunks.widths) != widths:
            raise InputError(f"the fit had parties and column counts {widths}; these samples have {chunks.widths}")
        return row_rounds.scores(chunks, self._by_rows)
