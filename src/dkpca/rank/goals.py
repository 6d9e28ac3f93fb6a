"""Rules that name what a message may cost, or must be worth, and that only the message itself can answer.

To add one:

1. What it measures becomes one more method of `dkpca.rank.rules.Draft`, where goals see it, and of
   `dkpca.party.drafts.Draft`, which has the message exactly as it would leave (`summary`) and the rows it was made of
   (`table`).
2. The rule is a frozen dataclass here, derived from `Goal` and marked `@travels`: a `name` under which questions
   carry it, `limits = True` if it says how much may be sent at most, and `met_by`. A message coarser than one that
   meets a limit should meet it too: the search is by bisection.
3. `dkpca.rank` exports it, and `dkpca.cli.options.rank_rule` has its option. A party's own limit is added to what is
   asked of it in `dkpca.policy.Policy.limit`: `All((rank, limit))`, before the largest rank is put around it.

Nothing else has to know: `dkpca.party.drafts.settle` finds the message, and names the rule that decided.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from dkpca.errors import InputError
from dkpca.linalg.precision import COMPACT, PRECISIONS
from dkpca.rank.rules import Draft, RankRule, Spectrum, check_number, check_whole, travels
from dkpca.wording import counted


class Goal(RankRule):
    """A rule that is never asked about eigenvalues, since the message has to show whether it is met."""

    def first_guess(self, n_samples: int) -> int:
        return min(63, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        return None

    def measured(self) -> bool:
        return True


@travels
@dataclass(frozen=True)
class Budget(RankRule):
    """As many eigenpairs as fit into so many bytes; in compact precision, numbers as fine as fit.

    Parameters
    ----------
    bytes : int
        What the party is willing to send: of the factor, or in compact precision of the whole message.
    precision : {"float32", "float64", "float16", "compact"}
        How the numbers go over the wire; a party puts in how it sends them. float16 adds a scale of 8 bytes a column.

    Examples
    --------
    >>> import dkpca
    >>> dkpca.rank.Budget(bytes=4000).choose([5.0, 2.0, 1.0], n_samples=100)
    10
    """

    bytes: int
    precision: str = "float32"
    name: ClassVar[str] = "budget"
    limits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_whole("bytes", self.bytes)
        if self.bytes < 1 or self.precision not in PRECISIONS:
            raise InputError(
                f"a budget of {self.bytes} bytes in {self.precision} cannot be kept; "
                f"give a positive number of bytes, and one of {sorted(PRECISIONS)}"
            )

    def rank(self, n_samples: int) -> int:
        """Rank that fits; an error if not even one column does."""
        column = n_samples * PRECISIONS[self.precision] + (8 if self.precision == "float16" else 0)
        if self.bytes < column:
            raise InputError(
                f"a budget of {self.bytes} bytes is less than one eigenpair of {n_samples} samples "
                f"({column} bytes); raise the budget or lower the wire precision"
            )
        return min(self.bytes // column, n_samples)

    def first_guess(self, n_samples: int) -> int:
        return self.rank(n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        return self.rank(n_samples)

    def sent_in(self, precision: str) -> RankRule:
        return replace(self, precision=precision)

    def measured(self) -> bool:
        return self.precision == COMPACT

    def met_by(self, draft: Draft) -> bool:
        return draft.size() <= self.bytes


@travels
@dataclass(frozen=True)
class Error(Goal):
    """The least that keeps the party's error small: what it leaves out, and what rounding does, in spectral norm.

    Parameters
    ----------
    at_most : float
        Of the party's Gram matrix, in its own units. What the certificate bounds is the sum over the parties.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import DKPCA, rank
    >>> X = np.random.default_rng(0).normal(size=(50, 8))
    >>> model = DKPCA(2, parties=2, rank=rank.Error(at_most=0.1), precision="compact").fit(X)
    >>> model.certificate_.kernel_norm_bound < 0.25
    True
    """

    at_most: float
    name: ClassVar[str] = "error"

    def __post_init__(self) -> None:
        check_number("at_most", self.at_most)
        if not 0.0 < self.at_most < float("inf"):
            raise InputError(f"at_most is {self.at_most}; an error must be a positive number")

    def met_by(self, draft: Draft) -> bool:
        return draft.error() <= self.at_most


@travels
@dataclass(frozen=True)
class Recovery(Goal):
    """The most from which somebody who knows some rows recovers no column of the others beyond a limit.

    Parameters
    ----------
    at_most : float
        R squared of the column that is recovered best, on rows that were not known: `dkpca.recovery.measure`.
    known_rows : int
        Rows of the table that the attacker knows.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import DKPCA, rank
    >>> X = np.random.default_rng(0).normal(size=(100, 8))
    >>> model = DKPCA(2, parties=2, rank=[rank.Fixed(40), rank.Recovery(at_most=0.5)]).fit(X)
    >>> model.ledger_[0].rank < 40
    True
    """

    at_most: float
    known_rows: int = 30
    name: ClassVar[str] = "recovery"
    limits: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_number("at_most", self.at_most)
        check_whole("known_rows", self.known_rows)
        if not 0.0 < self.at_most <= 1.0 or self.known_rows < 1:
            raise InputError(
                f"a recovery of at most {self.at_most} by {counted(self.known_rows, 'known row')} is no limit; "
                "give a share between 0 and 1, and at least 1 row"
            )

    def met_by(self, draft: Draft) -> bool:
        return bool(draft.recovery(self.known_rows).worst <= self.at_most)
