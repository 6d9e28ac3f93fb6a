"""A fit on Dask arrays and DataFrames: rows stay with their workers, and scores come back as a Dask array."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np

from dkpca.certificate import Certificate
from dkpca.disclosure import LedgerEntry
from dkpca.errors import InputError
from dkpca.exchange import on_dask, row_rounds
from dkpca.exchange.row_rounds import Fitted
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array
from dkpca.linalg.precision import PRECISIONS
from dkpca.messages import check_party_name
from dkpca.party.state import PartyState
from dkpca.settings import Compute, Fit
from dkpca.tables import labels
from dkpca.tables.inputs import column_groups, opened

# Settings that must be as by default.
REFUSED = {"protect": "none", "projection": "extend", "audit": None, "device": None, "max_memory": None}


@dataclass(frozen=True)
class ClusterModel:
    """What such a fit gives, by the names that a fused model has."""

    fitted: Fitted
    states: dict[str, PartyState]
    ledger: list[LedgerEntry]
    eigenvectors: Any  # a Dask array

    @property
    def eigenvalues(self) -> Array:
        """Of the fused kernel, descending."""
        return self.fitted.eigenvalues

    @property
    def explained_variance_ratio(self) -> Array:
        """Of the fused kernel."""
        return self.fitted.explained_variance_ratio

    @property
    def certificate(self) -> Certificate:
        """What is proved about it."""
        return self.fitted.certificate

    @property
    def n_samples(self) -> int:
        """Samples of the fit."""
        return int(self.eigenvectors.shape[0])

    @property
    def n_features(self) -> int:
        """Columns over all parties."""
        return sum(len(state.origin) for state in self.states.values())

    @property
    def solver(self) -> str:
        """Which one, and why."""
        return self.fitted.solver

    @property
    def kernels(self) -> dict[str, Kernel]:
        """Kernel of each party."""
        return {name: state.kernel for name, state in self.states.items()}


def collections(X: Any, parties: Any) -> dict[str, Any] | None:
    """Tables by party, if they are Dask collections; None if none of them is."""
    if on_dask.is_collection(X):
        groups = column_groups(parties, X.shape[1], getattr(X, "columns", None))
        names = getattr(X, "columns", None)
        return {
            name: X[:, columns] if names is None else X[[names[c] for c in columns]]
            for name, columns in groups.items()
        }
    given = {f"party{j}": table for j, table in enumerate(X)} if isinstance(X, list | tuple) else X
    if not isinstance(given, Mapping) or not any(on_dask.is_collection(table) for table in given.values()):
        return None
    others = [name for name, table in given.items() if not on_dask.is_collection(table)]
    if others:
        raise InputError(f"the tables of {others} are no Dask collections, the others are; pass all in one way")
    return {check_party_name(name): table for name, table in given.items()}


def fit(tables: Mapping[str, Any], settings: Fit, compute: Compute, sample_ids: Any) -> ClusterModel:
    """Fit on the rows of all parties, where they are."""
    for name, value in REFUSED.items():
        asked = getattr(settings if hasattr(settings, name) else compute, name)
        if asked != value:
            raise InputError(
                f"{name}={asked!r} needs rows in one place, and those of Dask collections stay on their workers; "
                "leave it out, or gather the tables (X.compute())"
            )
    if sample_ids is not None:
        raise InputError("rows of Dask collections match by position; leave sample_ids out")
    if not isinstance(settings.n_components, Integral):
        raise InputError(f"n_components={settings.n_components!r} needs the whole spectrum; give a number")
    chunks = on_dask.chunked(tables, compute.timeout)
    fitted = row_rounds.fit(
        chunks,
        settings,
        standardize=settings.standardize,
        n_landmarks=settings.n_landmarks,
        n_components=int(settings.n_components),
        random_state=settings.seed,
    )
    states = {name: replace(state, columns=chunks.columns.get(name)) for name, state in fitted.states.items()}
    roots = np.sqrt(fitted.eigenvalues)
    inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
    ledger = [_not_sent(states[name], sum(chunks.sizes)) for name in tables]
    return ClusterModel(fitted, states, ledger, row_rounds.scores(chunks, fitted) * inverse[None, :])


def place(model: ClusterModel, X: Any, timeout: float | None) -> Array:
    """Place new samples of Dask collections; every party is needed."""
    check_parties(model, X)
    placed = {name: labels.like_fit(name, table, model.states[name].columns) for name, table in X.items()}
    chunks = on_dask.chunked({name: placed[name] for name in model.states}, timeout)
    widths = {name: len(state.origin) for name, state in model.states.items()}
    if dict(chunks.widths) != widths:
        raise InputError(f"the fit had parties and column counts {widths}; these samples have {chunks.widths}")
    return row_rounds.scores(chunks, model.fitted)


def place_here(model: ClusterModel, tables: Mapping[str, Any]) -> Array:
    """Place new samples that are here."""
    check_parties(model, tables)
    return row_rounds.scores_here({name: opened(name, table) for name, table in tables.items()}, model.fitted)


def check_parties(model: ClusterModel, given: Mapping[str, Any]) -> None:
    """Refuse new samples that lack a party."""
    if set(given) != set(model.states):
        raise InputError(f"the fit had the parties {list(model.states)}; these samples are from {list(given)}")


def _not_sent(state: PartyState, n_samples: int) -> LedgerEntry:
    """What a party's factor would take: it is made on the workers, a chunk at a time."""
    size = PRECISIONS[state.precision] * n_samples
    rank, columns = state.weights.shape[1], len(state.origin)
    return LedgerEntry(state.party, columns, rank, size * rank, size * columns, state.decided)
