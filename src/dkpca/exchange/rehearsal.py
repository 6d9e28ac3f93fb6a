"""The rounds of a fit without their messages: what each party would send, found as the fit finds it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkpca import party
from dkpca.errors import InputError
from dkpca.exchange import rounds
from dkpca.exchange.questions import Question, StatisticsWanted, SummaryWanted
from dkpca.exchange.rounds import Fit
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import Array
from dkpca.messages import Statistics
from dkpca.rank import Auto, Fixed, RankRule

WHOLE = 3000  # samples up to which a table is looked at as a whole
PROBE_ROWS = 400  # of a larger one: enough to see where a spectrum falls off, in well under a second


@dataclass(frozen=True)
class Planned:
    """What a party would send."""

    kernel: Kernel
    rank: int
    exact: bool  # whether the fit has this rank for certain; else it is judged by a few hundred rows


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
            return dict(self.statistics)
        if isinstance(question, SummaryWanted):
            return {name: self._planned(name, question) for name in self.names}
        raise TypeError(f"a rehearsal is not asked for {question}")

    def _planned(self, name: str, question: SummaryWanted) -> Planned:
        kernel, n_samples = question.kernel_of(name), self.statistics[name].n_samples
        if isinstance(question.rank, Fixed) and name not in self.columns:
            return Planned(kernel, question.rank.first_guess(n_samples), exact=False)
        if name not in self.columns:
            raise InputError(f"the rank of {name!r} cannot be judged from statistics; give --rank")
        X = self.columns[name]
        rule = question.rank
        if n_samples > WHOLE:
            rows = np.sort(np.random.default_rng(0).permutation(n_samples)[:PROBE_ROWS])
            X, rule = kernel.rows(X, rows), _for_few(rule, len(rows))
        summary, _ = party.summarize(
            X,
            party=name,
            kernel=kernel,
            rank=rule,
            precision=question.precision,
            solver=question.solver,
            balance=question.balance,
        )
        return Planned(summary.kernel, summary.rank, exact=n_samples <= WHOLE)


def rehearse(parties: Parties, fit: Fit) -> dict[str, Planned]:
    """Kernel and rank of each party, as the fit would choose them."""
    answers, _ = rounds.summaries(parties, fit)
    return dict(answers)  # type: ignore[arg-type]  # not summaries, but what is planned of them


def _for_few(rule: RankRule, n_rows: int) -> RankRule:
    """Return the rule for fewer rows than components, if it is about components."""
    return replace(rule, n_components=min(rule.n_components, n_rows)) if isinstance(rule, Auto) else rule
