"""All parties under one owner: the rounds as function calls, spread over workers by joblib.

`joblib.parallel_config(backend="loky" | "dask")` around a fit decides where the parties' work runs. A table that is
only named (a path, or a function that loads it) is opened by the worker; its rows do not come back with the answer,
and are opened again when new samples are placed.
"""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from joblib import Parallel, delayed

from dkpca import party
from dkpca.arrays import Array
from dkpca.inputs import Source, is_source, opened
from dkpca.messages import Statistics, Summary
from dkpca.party import PartyState

Answer = TypeVar("Answer")
Tables = Mapping[str, Array | Source]


def statistics(tables: Tables, *, n_jobs: int | None = None) -> list[Statistics]:
    """First round, only where gamma has to be derived."""
    return list(Parallel(n_jobs=n_jobs)(delayed(_statistics)(name, table) for name, table in tables.items()))


def summaries(tables: Tables, *, n_jobs: int | None = None, **settings: Any) -> dict[str, tuple[Summary, PartyState]]:
    """Return what each party would send, and what it would keep: the one numerical round.

    `settings` are those of `dkpca.party.summarise`.
    """
    jobs = (delayed(_summarise)(name, table, settings) for name, table in tables.items())
    return dict(zip(tables, Parallel(n_jobs=n_jobs)(jobs), strict=True))


def new_samples(
    answer: Callable[[PartyState, Array], Answer],
    states: Mapping[str, PartyState],
    fitted: Tables,
    tables: Tables,
    *,
    n_jobs: int | None = None,
) -> list[Answer]:
    """Ask every party about new samples; `answer` is `party.extend` or `party.partials`."""
    jobs = (delayed(_answer)(answer, state, fitted.get(name), name, tables[name]) for name, state in states.items())
    return list(Parallel(n_jobs=n_jobs)(jobs))


def _statistics(name: str, table: Array | Source) -> Statistics:
    return party.statistics(opened(name, table), party=name)


def _summarise(name: str, table: Array | Source, settings: dict[str, Any]) -> tuple[Summary, PartyState]:
    summary, state = party.summarise(opened(name, table), party=name, **settings)
    return summary, state.without_rows() if is_source(table) else state


def _answer(
    answer: Callable[[PartyState, Array], Answer],
    state: PartyState,
    fitted: Array | Source | None,
    name: str,
    table: Array | Source,
) -> Answer:
    if state.anchors is None:
        state = state.with_rows(opened(name, fitted))
    return answer(state, opened(name, table))
