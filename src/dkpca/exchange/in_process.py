"""All parties under one owner: the rounds as function calls, spread over workers by joblib.

`joblib.parallel_config(backend="loky" | "dask")` around a fit decides where the parties' work runs. A table that is
only named (a path, or a function that loads it) is opened by the worker; its rows do not come back with the answer,
and are opened again when new samples are placed.
"""

import multiprocessing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from joblib import Parallel, delayed

from dkpca import party
from dkpca.errors import TooLateError
from dkpca.exchange.questions import AuditWanted, Question, RowsWanted, StatisticsWanted, SummaryWanted
from dkpca.linalg import memory
from dkpca.linalg.arrays import Array
from dkpca.linalg.rows import computing_on
from dkpca.messages import AuditRows, Partials, Rows, Statistics, Summary
from dkpca.party.state import PartyState
from dkpca.party.true_rows import true_rows
from dkpca.tables.inputs import Source, is_source, opened

Tables = Mapping[str, Array | Source]


@dataclass
class Parties:
    """Parties whose tables this process can open, or name to its workers.

    Parameters
    ----------
    tables : mapping of party to array or source
        What each party is asked about.
    n_jobs : int, optional
        Parties at the same time, as joblib understands it.
    timeout : float, optional
        Seconds to wait for a party's answer. Without it, a table that takes down every worker that opens it makes
        joblib wait for ever on a Dask cluster.
    random_state : int
        Seed for the parties' solvers.
    states : dict of party to PartyState
        What each would keep; filled by a fit.
    fitted : mapping of party to source
        Tables of the fit that workers open again.
    standardize : bool
        Whether each party gives its columns mean 0 and deviation 1.
    max_memory : int or str, optional
        Memory that each party may take.
    device : str, optional
        Where each party computes landmarks of its table, and rows of new samples.
    """

    tables: Tables
    n_jobs: int | None = None
    timeout: float | None = None
    random_state: int = 0
    states: dict[str, PartyState] = field(default_factory=dict)
    fitted: Tables = field(default_factory=dict)
    standardize: bool = False
    max_memory: int | str | None = None
    device: str | None = None

    @property
    def names(self) -> list[str]:
        """Parties, in the order of their tables."""
        return list(self.tables)

    def ask(self, question: Question) -> dict[str, Any]:
        """Answer for each party."""
        names = list(self.tables)
        if isinstance(question, StatisticsWanted):
            return self._all(
                delayed(_statistics)(name, self.tables[name], question, self.standardize) for name in names
            )
        if isinstance(question, SummaryWanted):
            return self._summaries(question)
        if isinstance(question, RowsWanted):
            return self._all(
                delayed(_extend)(
                    name,
                    self.tables[name],
                    question,
                    self.states[name],
                    self.fitted.get(name),
                    self.max_memory,
                    self.device,
                )
                for name in names
            )
        if isinstance(question, AuditWanted):
            return self._true_rows(question)
        raise TypeError(f"parties in one process match rows by position; they are not asked for {question}")

    def _summaries(self, question: SummaryWanted, blind: Any = None) -> dict[str, Summary]:
        """Summaries of all; their states stay here."""
        answers = self._all(
            delayed(_summarize)(
                name,
                self.tables[name],
                question,
                self.random_state,
                self.standardize,
                blind,
                self.max_memory,
                self.device,
            )
            for name in self.names
        )
        self.states = {name: state for name, (_, state) in answers.items()}
        return {name: summary for name, (summary, _) in answers.items()}

    def _true_rows(self, question: AuditWanted) -> dict[str, Any]:
        """Rows of tables at hand are made where they are looked at; those of a worker's table come as a message."""
        if any(map(is_source, self.tables.values())):
            return self._all(
                delayed(_sent_rows)(name, table, question, self.states[name]) for name, table in self.tables.items()
            )
        return {name: true_rows(self.states[name], X, question.request) for name, X in self.tables.items()}

    def _all(self, jobs: Iterable[Any]) -> dict[str, Any]:
        """Answers of all parties, in their order."""
        try:
            answers = Parallel(n_jobs=self.n_jobs, timeout=self.timeout)(jobs)
        except (TimeoutError, multiprocessing.TimeoutError) as error:
            raise TooLateError(
                f"no answer within {self.timeout} s from one of {list(self.tables)}; "
                "look at that party's worker, or allow more time"
            ) from error
        return dict(zip(self.tables, answers, strict=True))


def _statistics(name: str, table: Array | Source, question: StatisticsWanted, standardize: bool) -> Statistics:
    kernel = question.kernel_of(name)
    X = opened(name, table, columns_are=kernel.columns_are)
    return party.statistics(X, party=name, kernel=kernel, standardize=standardize)


def _summarize(
    name: str,
    table: Array | Source,
    question: SummaryWanted,
    random_state: int,
    standardize: bool,
    blind: Any,
    max_memory: int | str | None,
    device: str | None,
) -> tuple[Summary, PartyState]:
    kernel = question.kernel_of(name)
    with memory.limited(max_memory), computing_on(device):
        summary, state = party.summarize(
            opened(name, table, columns_are=kernel.columns_are),
            party=name,
            kernel=kernel,
            rank=question.rank,
            precision=question.precision,
            solver=question.solver,
            random_state=random_state,
            keep_training=question.keep_training,
            standardize=standardize,
            balance=question.balance,
            law=question.law,
            blind=blind,
        )
    return summary, state.without_rows() if is_source(table) else state


def _sent_rows(name: str, table: Array | Source, question: AuditWanted, state: PartyState) -> AuditRows:
    return true_rows(state, opened(name, table, columns_are=state.kernel.columns_are), question.request).sent()


def _extend(
    name: str,
    table: Array | Source,
    question: RowsWanted,
    state: PartyState,
    fitted: Array | Source | None,
    max_memory: int | str | None,
    device: str | None,
) -> Rows | Partials:
    columns_are = state.kernel.columns_are
    answer = party.partials if question.exact else party.extend
    with memory.limited(max_memory), computing_on(device):
        if state.anchors is None:
            state = state.with_rows(opened(name, fitted, columns_are=columns_are))
        return answer(state, opened(name, table, columns_are=columns_are))
