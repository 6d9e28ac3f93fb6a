"""How many eigenpairs a party sends, and how finely.

A rule reads the leading eigenvalues known so far and answers with a rank, or with None when it has to see
more of the spectrum. It never answers 0: a party that sends nothing would erase the product of all kernels.

A goal is a rule that is measured on the message itself: `dkpca.party.drafts` makes the message coarser or finer until
it is met. Either kind names a need (send at least this much) or a limit (send at most this much).
"""

from collections.abc import Sequence

from dkpca.errors import InputError
from dkpca.rank.goals import Budget, Error, Recovery
from dkpca.rank.rules import RULES, Adaptive, All, Auto, Fixed, RankRule
from dkpca.rank.rules import AtMost as AtMost

__all__ = ["Adaptive", "All", "Auto", "Budget", "Error", "Fixed", "RankRule", "Recovery"]


def family(name: object) -> type[RankRule]:
    """Return the class of rules of this name."""
    if not isinstance(name, str) or name not in RULES:
        raise InputError(f"unknown rank rule {name!r}; use one of {sorted(RULES)}")
    return RULES[name]


def as_rule(rank: int | RankRule | Sequence[RankRule]) -> RankRule:
    """Return the rule; a number is a fixed rank, several rules hold together."""
    if isinstance(rank, list | tuple):
        return All(tuple(rank))
    return rank if isinstance(rank, RankRule) else Fixed(int(rank))  # type: ignore[arg-type]
