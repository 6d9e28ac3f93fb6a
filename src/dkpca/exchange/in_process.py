"""All parties under one owner: the rounds as function calls, spread over workers by joblib.

`joblib.parallel_config(backend="loky" | "dask")` around a fit decides where the parties' work runs. A table that is
only named (a path, or a function that loads it) is opened by the worker; its rows do not come back with the answer,
and are opened again when new samples are placed.
"""

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from joblib import Parallel, delayed

from dkpca import party
from dkpca.arrays import Array
from dkpca.errors import NoAnswerError
from dkpca.inputs import Source, is_source, opened
from dkpca.messages import Statistics, Summary
from dkpca.party import PartyState

Answer = TypeVar("Answer")
Tables = Mapping[str, Array | Source]


@dataclass(frozen=True)
class Workers:
    """How the parties' work is spread.

    Parameters
    ----------
    n_jobs : int, optional
        Parties at the same time, as joblib understands it.
    timeout : float, optional
        Seconds to wait for a party's answer. Without it, a table that takes down every worker that opens it makes
        joblib wait for ever on a Dask cluster.
    """

    n_jobs: int | None = None
    timeout: float | None = None

    def ask(self, question: Callable[..., Answer], arguments: Mapping[str, Sequence[Any]]) -> dict[str, Answer]:
        """Put the question to every party; arguments by party."""
        jobs = (delayed(question)(*given) for given in arguments.values())
        try:
            answers = Parallel(n_jobs=self.n_jobs, timeout=self.timeout)(jobs)
        except (TimeoutError, multiprocessing.TimeoutError) as error:
            raise NoAnswerError(
                f"no answer within {self.timeout} s from one of {list(arguments)}; "
                "look at that party's worker, or allow more time"
            ) from error
        return dict(zip(arguments, answers, strict=True))


def statistics(tables: Tables, workers: Workers) -> list[Statistics]:
    """First round, only where gamma has to be derived."""
    return list(workers.ask(_statistics, {name: (name, table) for name, table in tables.items()}).values())


def summaries(tables: Tables, workers: Workers, **settings: Any) -> dict[str, tuple[Summary, PartyState]]:
    """Return what each party would send, and what it would keep: the one numerical round.

    `settings` are those of `dkpca.party.summarise`.
    """
    return workers.ask(_summarise, {name: (name, table, settings) for name, table in tables.items()})


def new_samples(
    answer: Callable[[PartyState, Array], Answer],
    states: Mapping[str, PartyState],
    fitted: Tables,
    tables: Tables,
    workers: Workers,
) -> list[Answer]:
    """Ask every party about new samples; `answer` is `party.extend` or `party.partials`."""
    arguments = {name: (answer, state, fitted.get(name), name, tables[name]) for name, state in states.items()}
    return list(workers.ask(_answer, arguments).values())


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
