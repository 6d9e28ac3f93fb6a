"""The rounds of a fit without their messages: what each party would send, found as the fit finds it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkpca import party, wire
from dkpca.errors import InputError
from dkpca.exchange import rounds
from dkpca.exchange.questions import Question, StatisticsWanted, SummaryWanted
from dkpca.exchange.rounds import Fit
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array, to_numpy
from dkpca.linalg.precision import COMPACT
from dkpca.messages import Statistics, Summary
from dkpca.party.drafts import Draft
from dkpca.party.state import PartyState
from dkpca.rank import All, Auto, Budget, Error, Fixed, RankRule
from dkpca.rank.rules import Draft as SeenByRules
from dkpca.wire.compact import code

WHOLE = 3000  # samples up to which a table is looked at as a whole
PROBE_ROWS = 400  # of a larger one: enough to see where a spectrum falls off, in well under a second
COMPACT_PROBE_ROWS = 3000  # the bytes of compact numbers need more of the spectrum, and more exactly
CODED_ROWS = 2**14  # and of what repeats among the rows
TRIES, CLOSE = 3, 0.03  # to come as close to a limit of bytes as a message does that has to keep it


@dataclass(frozen=True)
class Planned:
    """What a party would send."""

    kernel: Kernel
    rank: int
    exact: bool  # whether the fit has this rank for certain; else it is judged by a few hundred rows
    bytes: int | None = None  # None: they follow from the rank


@dataclass(frozen=True)
class Parties:
    """Parties by their statistics, and by their columns where these are at hand."""

    statistics: Mapping[str, Statistics]
    columns: Mapping[str, Array]

    @property
    def names(self) -> list[str]:
        """Who they are."""
        return list(self.statistics)

    def ask(self, question: Question) -> dict[str, Any]:
        """Answer as in a fit, but for the factors."""
        if isinstance(question, StatisticsWanted):
            return {name: self._told(name, question.kernel_of(name)) for name in self.names}
        if isinstance(question, SummaryWanted):
            return {name: self._planned(name, question) for name in self.names}
        raise TypeError(f"a rehearsal is not asked for {question}")

    def _told(self, name: str, kernel: Kernel) -> Statistics:
        """Statistics for the party's kernel, of its columns if they are at hand; messages are for the rbf kernel."""
        at_hand = name in self.columns
        return party.statistics(self.columns[name], party=name, kernel=kernel) if at_hand else self.statistics[name]

    def _planned(self, name: str, question: SummaryWanted) -> Planned:
        kernel, n_samples = question.kernel_of(name), self.statistics[name].n_samples
        compact = question.precision == COMPACT
        if isinstance(question.rank, Fixed) and not compact and name not in self.columns:
            return Planned(kernel, question.rank.first_guess(n_samples), exact=False)
        if name not in self.columns:
            wanted = ("bytes", "give its table, or another --precision") if compact else ("rank", "give --rank")
            raise InputError(f"the {wanted[0]} of {name!r} cannot be judged from statistics; {wanted[1]}")
        if n_samples <= WHOLE:
            summary, _ = self._sent(name, question, np.arange(n_samples), question.rank)
            return Planned(summary.kernel, summary.rank, True, wire.size(summary) if compact else None)
        order = np.random.default_rng(0).permutation(n_samples)
        rows = np.sort(order[: COMPACT_PROBE_ROWS if compact else PROBE_ROWS])
        summary, state = self._sent(name, question, rows, _for_few(question.rank, len(rows), n_samples))
        if not compact:
            return Planned(summary.kernel, summary.rank, False)
        size = _compact_size(self.columns[name], summary, state)
        limits = [part.bytes for part in question.rank.parts() if isinstance(part, Budget)]
        over = 1.0
        for _ in range(TRIES):
            if not state.decided.startswith("Budget(") or size > (1.0 - CLOSE) * min(limits):
                break
            over *= size / min(limits)
            summary, state = self._sent(name, question, rows, _for_few(question.rank, len(rows), n_samples, over))
            size = _compact_size(self.columns[name], summary, state)
        return Planned(summary.kernel, summary.rank, False, min([size, *limits]))

    def _sent(self, name: str, question: SummaryWanted, rows: Array, rule: RankRule) -> tuple[Summary, PartyState]:
        """Summary of some of the rows."""
        X, kernel = self.columns[name], question.kernel_of(name)
        return party.summarize(
            X if len(rows) == X.shape[0] else kernel.rows(X, rows),
            party=name,
            kernel=kernel,
            rank=rule,
            precision=question.precision,
            solver=question.solver,
            balance=question.balance,
        )


def rehearse(parties: Parties, fit: Fit) -> dict[str, Planned]:
    """Kernel and rank of each party, as the fit would choose them."""
    answers, _ = rounds.summaries(parties, fit)
    return dict(answers)  # type: ignore[arg-type]  # not summaries, but what is planned of them


def _compact_size(X: Array, summary: Summary, state: PartyState) -> int:
    """Bytes of a compact message about all rows, from one about some.

    Eigenvalues grow with the rows, all of them alike, so steps and bits stay: more rows are more of the same.
    """
    seen = summary.factor
    others = wire.size(summary) - code(to_numpy(seen.data)).size
    if state.kernel.columns_are != "samples":  # which have no columns for the other rows
        more = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:CODED_ROWS])
        seen = party.extend(state, X[more]).factor
    return int(others + code(to_numpy(seen.data)).size * X.shape[0] / seen.shape[0])


@dataclass(frozen=True, repr=False)
class _BudgetOfAll(Budget):
    """A budget for all rows, kept by what a message about some of them says of one about all."""

    times: float = 1.0  # as many rows in all, or bytes of coded numbers

    def __repr__(self) -> str:
        return repr(Budget(self.bytes, self.precision))

    def rank(self, n_samples: int) -> int:
        return super().rank(round(n_samples * self.times))

    def met_by(self, draft: SeenByRules) -> bool:
        assert isinstance(draft, Draft)
        coded = code(to_numpy(draft.factor.data)).size
        return draft.size() - coded + coded * self.times <= self.bytes


def _for_few(rule: RankRule, n_rows: int, n_samples: int, over: float = 1.0) -> RankRule:
    """Return the rule for fewer rows; `over`: how much the bytes of all are overestimated from them."""
    if isinstance(rule, Auto):
        return replace(rule, n_components=min(rule.n_components, n_rows))
    if isinstance(rule, Error):
        return replace(rule, at_most=rule.at_most * n_rows / n_samples)
    if isinstance(rule, Budget):
        return _BudgetOfAll(rule.bytes, rule.precision, over * n_samples / n_rows)
    if isinstance(rule, All):
        return replace(rule, rules=tuple(_for_few(part, n_rows, n_samples, over) for part in rule.rules))
    return rule
