"""How many eigenpairs a party sends.

A rule reads the leading eigenvalues known so far and answers with a rank, or with None when it has to see
more of the spectrum. It never answers 0: a party that sends nothing would erase the product of all kernels.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.precision import PRECISIONS

__all__ = ["Adaptive", "Auto", "Budget", "Fixed", "RankRule"]

Spectrum = np.ndarray[Any, Any]  # leading eigenvalues, descending


class RankRule(ABC):
    """How a party finds its rank. A rule of your own derives from this class; it cannot travel between parties.

    Examples
    --------
    >>> import dkpca
    >>> class Half(dkpca.rank.RankRule):
    ...     def first_guess(self, n_samples):
    ...         return n_samples // 2
    ...
    ...     def choose(self, eigenvalues, n_samples):
    ...         return n_samples // 2
    >>> Half().choose([3.0, 1.0], n_samples=4)
    2
    """

    name: ClassVar[str] = ""  # under which it travels

    @abstractmethod
    def first_guess(self, n_samples: int) -> int:
        """How many eigenpairs to compute before asking."""

    @abstractmethod
    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        """Rank, or None if these eigenvalues do not decide it."""

    def stated(self) -> int | None:
        """Return the rank that the rule names beforehand; None if the spectrum decides."""
        return None

    def sent_in(self, precision: str) -> "RankRule":
        """Return the rule for numbers that are sent in this precision: only what counts bytes depends on it."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Describe the rule so that it can travel; only the rules of this module can."""
        if RULES.get(self.name) is not type(self):
            raise InputError(f"the rank rule {self!r} cannot be sent to a party; use one of {sorted(RULES)}")
        return {"rule": self.name, **vars(self)}


@dataclass(frozen=True)
class Fixed(RankRule):
    """The same rank whatever the spectrum; at most the number of samples.

    Parameters
    ----------
    rank : int
        Eigenpairs to send.

    Examples
    --------
    >>> import dkpca
    >>> dkpca.rank.Fixed(3).choose([5.0, 2.0, 1.0], n_samples=100)
    3
    """

    rank: int
    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        _check_whole("rank", self.rank)
        if self.rank < 1:
            raise InputError(f"rank is {self.rank}; a party sends at least 1 eigenpair")

    def first_guess(self, n_samples: int) -> int:
        return min(self.rank, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        return min(self.rank, n_samples)

    def stated(self) -> int | None:
        return self.rank


@dataclass(frozen=True)
class Adaptive(RankRule):
    """Eq. (8) of the paper: the smallest D with lambda_{D+1} <= epsilon, at most the number of samples.

    Parameters
    ----------
    epsilon : float
        The threshold.
    relative : bool
        Whether epsilon is a share of the party's own lambda_1, as in the paper's experiments (0.04 linear,
        0.0005 RBF), or absolute, as eq. (8) is printed.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.rank.Adaptive(epsilon=0.1).choose(np.array([10.0, 5.0, 0.9, 0.1]), n_samples=100)
    2
    """

    epsilon: float
    relative: bool = True
    name: ClassVar[str] = "adaptive"

    def __post_init__(self) -> None:
        _check_number("epsilon", self.epsilon)
        if not 0.0 <= self.epsilon < float("inf"):
            raise InputError(f"epsilon is {self.epsilon}; it must be a finite number, not negative")

    def first_guess(self, n_samples: int) -> int:
        return min(31, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        threshold = self.epsilon * eigenvalues[0] if self.relative else self.epsilon
        return _first_below(eigenvalues, threshold, at_least=1, n_samples=n_samples)


@dataclass(frozen=True)
class Auto(RankRule):
    """The smallest D with lambda_{D+1} <= share * lambda_2, but no fewer than the components wanted.

    lambda_2, because the first eigenvector of an RBF Gram matrix is close to constant and centering removes
    it: lambda_2 is where the information begins, however many parties share it.

    Parameters
    ----------
    n_components : int
        Components wanted.
    share : float
        Of lambda_2, between 0 and 1.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.rank.Auto(n_components=1).choose(np.array([10.0, 5.0, 2.0, 0.01]), n_samples=100)
    3
    """

    n_components: int
    share: float = 0.01
    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        _check_whole("n_components", self.n_components)
        _check_number("share", self.share)
        if self.n_components < 1 or not 0.0 <= self.share <= 1.0:
            raise InputError(
                f"{self.n_components} components and a share of {self.share} make no rule; "
                "give at least 1 component, and a share between 0 and 1"
            )

    def first_guess(self, n_samples: int) -> int:
        return min(max(63, 2 * self.n_components), n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        threshold = self.share * eigenvalues[min(1, len(eigenvalues) - 1)]
        return _first_below(eigenvalues, threshold, at_least=self.n_components, n_samples=n_samples)


@dataclass(frozen=True)
class Budget(RankRule):
    """As many eigenpairs as fit into so many bytes of factor.

    Parameters
    ----------
    bytes : int
        What the party is willing to send, header not counted.
    precision : {"float32", "float64", "float16"}
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

    def __post_init__(self) -> None:
        _check_whole("bytes", self.bytes)
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


@dataclass(frozen=True)
class AtMost(RankRule):
    """Another rule, stopped at a limit: what a party's policy makes of a rule.

    Parameters
    ----------
    rule : RankRule
        The rule asked for.
    limit : int
        Largest rank.
    """

    rule: RankRule
    limit: int

    def first_guess(self, n_samples: int) -> int:
        return min(self.rule.first_guess(n_samples), self.limit)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        rank = self.rule.choose(eigenvalues, n_samples)
        if rank is None:
            return self.limit if len(eigenvalues) >= self.limit else None
        return min(rank, self.limit)

    def sent_in(self, precision: str) -> RankRule:
        return replace(self, rule=self.rule.sent_in(precision))


RULES: dict[str, type[RankRule]] = {cls.name: cls for cls in (Fixed, Adaptive, Auto, Budget)}


def family(name: object) -> type[RankRule]:
    """Return the class of rules of this name."""
    if not isinstance(name, str) or name not in RULES:
        raise InputError(f"unknown rank rule {name!r}; use one of {sorted(RULES)}")
    return RULES[name]


def as_rule(rank: "int | RankRule") -> RankRule:
    """Return the rule; a number is a fixed rank."""
    return rank if isinstance(rank, RankRule) else Fixed(int(rank))


def _check_whole(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise InputError(f"{what} is {value!r}; give a whole number")


def _check_number(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.number):
        raise InputError(f"{what} is {value!r}; give a number")


def _first_below(eigenvalues: Spectrum, threshold: float, *, at_least: int, n_samples: int) -> int | None:
    """Smallest D >= at_least with eigenvalue D + 1 at or under the threshold."""
    below = np.flatnonzero(eigenvalues <= threshold)
    below = below[below >= at_least]
    if below.size:
        return int(below[0])
    return n_samples if len(eigenvalues) == n_samples else None
