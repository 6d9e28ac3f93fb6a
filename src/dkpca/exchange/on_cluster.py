"""An estimator whose tables are Dask arrays or DataFrames: their rows stay on the workers, Dask arrays come out.

Up to `ONE_WORKER` rows, one worker has all of them for a while and does what is done with tables in memory, by the
same code. Beyond, the row engine works chunk by chunk, and nothing with a row for each sample is ever in one place.
"""

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from typing import Any

import numpy as np

from dkpca import party, wire
from dkpca.errors import InputError, warn
from dkpca.fusion import scoring
from dkpca.linalg import on_dask
from dkpca.linalg.on_dask import is_collection
from dkpca.settings import Compute, Fit
from dkpca.tables.inputs import ID_NAME, by_party, check_features, cut, like_fit, names_of_columns, rows_of_samples

ONE_WORKER = 20_000  # rows that one worker may have all of
SHARE = 16  # one part in so many of a worker's memory that the tables may take, to be on one worker


def collections_in(X: Any) -> dict[Any, Any]:
    """Return the tables of parties, or the one table that is cut, if they are Dask collections."""
    tables = by_party(X) or {"": X}
    others = [name for name, table in tables.items() if not is_collection(table)]
    if others and len(others) < len(tables):
        raise InputError(f"the tables of {others} are not Dask collections, the others are; pass all as one kind")
    return {} if others else tables


def fit(estimator: Any, X: Any, y: Any, sample_ids: Any, covariates: Any = None) -> dict[str, Any] | None:
    """Fit a copy of an estimator on a worker that has all rows; return its attributes, or None for too many rows."""
    alone, tables = _alone(estimator), list(collections_in(X).values())
    sizes = on_dask.chunk_sizes(tables[0], estimator.timeout)
    size = 8 * sum(sizes) * sum(table.shape[1] for table in tables)
    if sum(sizes) > ONE_WORKER or SHARE * size > on_dask.memory_of_a_worker():
        return None

    def fitted() -> dict[str, Any]:
        return dict(vars(alone.fit(X, y, covariates=covariates, sample_ids=sample_ids)))

    attributes: dict[str, Any] = on_dask.on_one_worker(fitted, sum(sizes), sizes, estimator.timeout, _tell)
    own = estimator.get_params(deep=False)
    return {name: value for name, value in attributes.items() if name not in own} | {"_cluster": "worker"}


def tables_of(
    X: Any, parties: Any, settings: Fit, sample_ids: Any, compute: Compute
) -> tuple[dict[str, Any], dict[str, tuple[str, ...] | None]]:
    """Tables by party, and names of columns, for a fit whose rows stay; refuse what needs them in one place."""
    import dask

    tables = by_party(X) or cut(X, parties)
    needs_all = {
        f"protect={settings.protect!r}": settings.protect != "none",
        f"projection={settings.projection!r}": settings.projection != "extend",
        f"lacking={settings.lacking!r}": settings.lacking is not None,
        "precision='compact'": settings.precision == "compact",
        "kernel='precomputed'": any(settings.family_of(name).columns_are == "samples" for name in tables),
        f"device={compute.device!r}": compute.device is not None,
        "sample_ids": sample_ids is not None,
    }
    if first := next((what for what, is_given in needs_all.items() if is_given), ""):
        stay = f"beyond {ONE_WORKER} those of Dask collections stay on their workers"
        how = "leave it out, or gather the tables (X.compute())"
        raise InputError(f"{first} needs all rows in one place, and {stay}; {how}")
    frames = {name: table for name, table in tables.items() if hasattr(table, "columns")}
    for name, frame in frames.items():
        check_features(name, frame._meta)
    named = [
        (name, frame[[own]]) for name, frame in frames.items() for own in frame.columns if ID_NAME.search(str(own))
    ]
    on_dask.computed([dask.delayed(check_features)(*each) for each in named], compute.timeout)
    columns = {name: names_of_columns(table) for name, table in tables.items()}
    return on_dask.row_chunks(tables, compute.timeout), columns


def waiting(timeout: float | None) -> Any:
    """Wait so long for each answer of the workers, inside: a setting of Dask's own configuration."""
    import dask

    return dask.config.set({on_dask.TIMEOUT: timeout})


def in_order_of_rows(covariates: Any, X: Any, timeout: float | None) -> Any:
    """Covariates in the order of the rows of collections: by the index of DataFrames, or as they are."""
    if is_collection(covariates):
        (covariates,) = on_dask.computed([covariates], timeout)
    frames = [table for table in collections_in(X).values() if hasattr(table, "columns")]
    if not frames or not hasattr(covariates, "iloc"):
        return covariates
    ids = list(on_dask.computed([frames[0].index], timeout)[0])
    return rows_of_samples(covariates, ids, ids)


def transform(estimator: Any, X: Any, sample_ids: Any) -> Any:
    """Place new samples of Dask collections chunk by chunk."""
    tables = collections_in(X)
    if sample_ids is not None:
        raise InputError("rows of Dask collections match by position; leave sample_ids out")
    if estimator._cluster == "rows":
        return _transform_rows(estimator, X)
    alone, names, single = _alone(estimator), list(tables), not isinstance(X, Mapping | list | tuple)
    chunks = on_dask.cut_alike(tables, estimator.timeout)

    def placed(start: int, *own: Any) -> tuple[Any, Any]:
        tables = own[0] if single else dict(zip(names, own, strict=True))
        (scores, *_, outside), told = on_dask.recorded(lambda: alone._placed(tables, None))
        return np.asarray(scores, dtype=np.float64), (outside, told)

    return _placed_in_chunks(estimator, placed, chunks)


def _transform_rows(estimator: Any, X: Any) -> Any:
    """Place chunks of new samples by the landmarks of a fit whose rows stayed where they were."""
    model, given = estimator.model_, by_party(X) or cut(X, estimator.parties)
    if set(given) != set(model.summaries):
        needed = "rows on workers need every party: gather the new samples (X.compute()) to place them without one"
        raise InputError(f"the fit had the parties {list(model.summaries)}, not {list(given)}, and {needed}")
    # Parties in the order of the model. Landmarks have a row for each sample if every sample is one of them.
    states = {name: estimator._states[name] for name in model.summaries}
    states, placed = on_dask.here((states, scoring.placing(model)))
    lengths, kernels = scoring.lengths_in_fit(model), {name: state.kernel for name, state in states.items()}
    tables = {name: like_fit(name, given[name], state.columns) for name, state in states.items()}
    arrays = on_dask.row_chunks(tables, estimator.timeout)

    def placed_by_all(start: int, *own: Any) -> tuple[Any, Any]:
        rows = [party.extend(state, X_own) for state, X_own in zip(states.values(), own, strict=True)]
        return np.asarray(placed(rows), dtype=np.float64), (scoring.outside(kernels, lengths, rows), [])

    return _placed_in_chunks(estimator, placed_by_all, on_dask.chunks_of(list(arrays.values())))


def _placed_in_chunks(estimator: Any, work: Any, chunks: on_dask.Chunks) -> Any:
    """Scores as a Dask array; samples outside the fit are said once for all chunks, other warnings each once."""
    width = len(estimator.eigenvalues_)
    scores, seen = on_dask.chunks_made(work, chunks, width, np.float64, timeout=estimator.timeout)
    warn(scoring.about_new_samples(np.concatenate([outside for outside, _ in seen])))
    _tell(list(dict.fromkeys(each for _, told in seen for each in told))[:5])  # chunk by chunk they say alike
    return scores


def on_a_worker(estimator: Any, method: str, *arguments: Any, **named: Any) -> Any:
    """Call a method of a fitted estimator on a worker, with all rows that it refers to."""
    rows = next((table for given in arguments for table in collections_in(given).values()), None)
    sizes = () if rows is None else on_dask.chunk_sizes(rows, estimator.timeout)
    alone, training = _alone(estimator), estimator._training

    def called() -> Any:
        alone._training = training
        return getattr(_renamed(alone), method)(*arguments, **named)

    return on_dask.on_one_worker(called, sum(sizes) or -1, sizes, estimator.timeout, _tell)


def here(estimator: Any) -> Any:
    """Return the same estimator, its arrays in files without a name that were written chunk by chunk."""
    found = _renamed(on_dask.here(_alone(estimator)))
    found.n_jobs, found.timeout = estimator.n_jobs, estimator.timeout
    return found


def _renamed(estimator: Any) -> Any:
    """States that name the summaries as these are named where all their rows are."""
    if estimator._shield.protect == "none":
        names = {name: wire.fingerprint(summary) for name, summary in estimator.model_.summaries.items()}
        estimator._states = {name: replace(s, summary_id=names[name]) for name, s in estimator._states.items()}
    return estimator


def _alone(estimator: Any) -> Any:
    """A copy that looks neither for a cluster nor for other workers."""
    alone = copy(estimator)
    alone._cluster = alone.n_jobs = alone.timeout = None
    return alone


def _tell(told: Iterable[tuple[str, type[Warning]]]) -> None:
    """Give warnings again where the library was called."""
    for message, category in told:
        warn([message], category)
