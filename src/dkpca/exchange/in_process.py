"""All parties under one owner: the rounds as function calls, spread over workers by joblib.

`joblib.parallel_config(backend="loky" | "dask")` around a fit decides where the parties' work runs. A table that is
only named (a path, or a function that loads it) is opened by the worker; its rows do not come back with the answer,
and are opened again when new samples are placed.
"""

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from joblib import Parallel, delayed

from dkpca import party
from dkpca.errors import TooLateError
from dkpca.exchange.questions import Question, RowsWanted, StatisticsWanted, SummaryWanted
from dkpca.linalg.arrays import Array
from dkpca.messages import Statistics, Summary
from dkpca.party import PartyState
from dkpca.tables.inputs import Source, is_source, opened

AnswerT = TypeVar("AnswerT")
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

    def ask(self, question: Callable[..., AnswerT], arguments: Mapping[str, Sequence[Any]]) -> dict[str, AnswerT]:
        """Put the question to every party; arguments by party."""
        jobs = (delayed(question)(*given) for given in arguments.values())
        try:
            answers = Parallel(n_jobs=self.n_jobs, timeout=self.timeout)(jobs)
        except (TimeoutError, multiprocessing.TimeoutError) as error:
            raise TooLateError(
                f"no answer within {self.timeout} s from one of {list(arguments)}; "
                "look at that party's worker, or allow more time"
            ) from error
        return dict(zip(arguments, answers, strict=True))


@dataclass
class Parties:
    """Parties whose tables this process can open, or name to its workers."""

    tables: Tables
    workers: Workers
    random_state: int = 0
    states: dict[str, PartyState] = field(default_factory=dict)  # what each would keep; filled by a fit
    fitted: Tables = field(default_factory=dict)  # tables of the fit that workers open again

    def ask(self, question: Question) -> dict[str, Any]:
        """Answer for each party."""
        if isinstance(question, StatisticsWanted):
            return self.workers.ask(_statistics, {name: (name, table) for name, table in self.tables.items()})
        if isinstance(question, SummaryWanted):
            settings = {
                "kernel": question.kernel,
                "rank": question.rank,
                "precision": question.precision,
                "solver": question.solver,
                "keep_training": question.keep_training,
                "random_state": self.random_state,
            }
            given = {name: (name, table, settings) for name, table in self.tables.items()}
            answers = self.workers.ask(_summarize, given)
            self.states = {name: state for name, (_, state) in answers.items()}
            return {name: summary for name, (summary, _) in answers.items()}
        if isinstance(question, RowsWanted):
            answer = party.partials if question.exact else party.extend
            rows: dict[str, tuple[Any, ...]] = {
                name: (answer, state, self.fitted.get(name), name, self.tables[name])
                for name, state in self.states.items()
            }
            return self.workers.ask(_answer, rows)
        raise TypeError(f"parties in one process match rows by position; they are not asked for {question}")


def _statistics(name: str, table: Array | Source) -> Statistics:
    return party.statistics(opened(name, table), party=name)


def _summarize(name: str, table: Array | Source, settings: dict[str, Any]) -> tuple[Summary, PartyState]:
    summary, state = party.summarize(opened(name, table), party=name, **settings)
    return summary, state.without_rows() if is_source(table) else state


def _answer(
    answer: Callable[[PartyState, Array], AnswerT],
    state: PartyState,
    fitted: Array | Source | None,
    name: str,
    table: Array | Source,
) -> AnswerT:
    if state.anchors is None:
        state = state.with_rows(opened(name, fitted))
    return answer(state, opened(name, table))
