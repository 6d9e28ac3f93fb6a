"""How many eigenpairs a party sends, and how finely.

A rule reads the leading eigenvalues known so far and returns a rank, or None if it needs more of the spectrum. It
never returns 0: a party that sends nothing would erase the product of all kernels. A goal is a rule that is measured
on the message itself: `dkpca.party.candidates` makes the message coarser or finer until the goal is met. Both kinds
state either a need (send at least this much) or a limit (send at most this much).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.precision import COMPACT, PRECISIONS

__all__ = ["Adaptive", "All", "Auto", "Budget", "Error", "Fixed", "RankRule", "Recovery"]

Spectrum = np.ndarray[Any, Any]  # leading eigenvalues, descending
ROUNDING_SHARE = 1 / 16  # of the first eigenvalue left out: the rank, not rounding, should determine the error
AUTO_COMPACT = 0.05  # factor on the share in compact precision, where it pays to send more of the spectrum
WHOLE, NUMBER = int | np.integer, int | float | np.number  # kinds of parameters
BEHIND = 5  # minimum number of eigenpairs that "auto" sends beyond the components


class RankRule:
    """How a party chooses its rank.

    Examples
    --------
    >>> import dkpca
    >>> isinstance(dkpca.rank.Fixed(3), dkpca.rank.RankRule)
    True
    """

    name: ClassVar[str] = ""  # identifies the rule in messages
    limits: ClassVar[bool] = False  # True: an upper limit on the message; False: a need

    def first_guess(self, n_samples: int) -> int:
        """Return how many eigenpairs to compute before `choose` is called."""
        return min(63, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        """Return the rank, or None if these eigenvalues do not determine it."""
        return None

    def cut(self, eigenvalues: Spectrum, rank: int) -> float:
        """Return the cutoff of compact rounding: a small share of the first eigenvalue that is not sent."""
        return ROUNDING_SHARE * float(eigenvalues[rank]) if rank < len(eigenvalues) else 0.0

    def measured(self) -> bool:
        """Return whether the rule must be measured on the message itself."""
        return False

    def met_by(self, candidate: Any) -> bool:
        """Return whether this message meets the rule; called only if `measured()`."""
        raise NotImplementedError

    def parts(self) -> tuple["RankRule", ...]:
        """Return the rules that this one combines."""
        return (self,)

    def sent_in(self, precision: str) -> "RankRule":
        """Return the rule for messages in this precision; only rules that count bytes or bits depend on it."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """Describe the rule for a message; only the rules of this package can be sent or saved."""
        if RULES.get(self.name) is not type(self):
            raise InputError(f"the rank rule {self!r} can be neither sent nor saved; use one of {sorted(RULES)}")
        return {"rule": self.name, **vars(self)}


@dataclass(frozen=True)
class Fixed(RankRule):
    """The same rank for every spectrum, at most the number of samples.

    Parameters
    ----------
    rank : int
        Number of eigenpairs to send.

    Examples
    --------
    >>> import dkpca
    >>> dkpca.rank.Fixed(3).choose([5.0, 2.0, 1.0], n_samples=100)
    3
    """

    rank: int
    name: ClassVar[str] = "fixed"

    def __post_init__(self) -> None:
        _check("rank", self.rank, WHOLE, lambda rank: rank >= 1, "a whole number of at least 1")

    def first_guess(self, n_samples: int) -> int:
        return min(self.rank, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        return min(self.rank, n_samples)


@dataclass(frozen=True)
class Adaptive(RankRule):
    """Eq. (8) of the paper: the smallest D with lambda_{D+1} <= epsilon, at most the number of samples.

    Parameters
    ----------
    epsilon : float
        The threshold.
    relative : bool
        Whether epsilon is a share of the party's own lambda_1 (the paper: 0.04 linear, 0.0005 RBF), or absolute.

    Examples
    --------
    >>> import dkpca
    >>> dkpca.rank.Adaptive(epsilon=0.1).choose([10.0, 5.0, 0.9, 0.1], n_samples=100)
    2
    """

    epsilon: float
    relative: bool = True
    name: ClassVar[str] = "adaptive"

    def __post_init__(self) -> None:
        _check("epsilon", self.epsilon, NUMBER, lambda x: 0.0 <= x < math.inf, "a finite number, not negative")

    def first_guess(self, n_samples: int) -> int:
        return min(31, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        return _first_below(eigenvalues, self._threshold(eigenvalues), at_least=1, n_samples=n_samples)

    def cut(self, eigenvalues: Spectrum, rank: int) -> float:
        return ROUNDING_SHARE * self._threshold(eigenvalues)

    def _threshold(self, eigenvalues: Spectrum) -> float:
        return float(self.epsilon * eigenvalues[0] if self.relative else self.epsilon)


@dataclass(frozen=True)
class Auto(RankRule):
    """The smallest D with lambda_{D+1} <= share * lambda_2, but at least n_components + 5.

    Not lambda_1, since centering removes the first eigenvector of an RBF kernel matrix, which is nearly constant.
    The five extra eigenpairs show whether the spectrum has a gap. In compact precision the share is divided by 20.

    Parameters
    ----------
    n_components : int
        Number of components.
    share : float
        Threshold as a share of lambda_2, between 0 and 1.

    Examples
    --------
    >>> import dkpca
    >>> dkpca.rank.Auto(n_components=1).choose([10.0, 9.0, 8.0, 7.0, 6.0, 5.0, 2.0, 0.01], n_samples=100)
    7
    """

    n_components: int
    share: float = 0.01
    name: ClassVar[str] = "auto"

    def __post_init__(self) -> None:
        _check("n_components", self.n_components, WHOLE, lambda count: count >= 1, "a whole number of at least 1")
        _check("share", self.share, NUMBER, lambda share: 0.0 <= share <= 1.0, "a number between 0 and 1")

    def first_guess(self, n_samples: int) -> int:
        return min(max(63, 2 * self.n_components), n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        least = min(self.n_components + BEHIND, n_samples)
        return _first_below(eigenvalues, self._threshold(eigenvalues), at_least=least, n_samples=n_samples)

    def cut(self, eigenvalues: Spectrum, rank: int) -> float:
        return min(self._threshold(eigenvalues), float(eigenvalues[rank - 1]))

    def sent_in(self, precision: str) -> RankRule:
        return replace(self, share=self.share * AUTO_COMPACT) if precision == COMPACT else self

    def _threshold(self, eigenvalues: Spectrum) -> float:
        return float(self.share * eigenvalues[min(1, len(eigenvalues) - 1)])


@dataclass(frozen=True)
class All(RankRule):
    """Several rules combined: the largest need, capped by the strictest limit.

    Parameters
    ----------
    rules : tuple of RankRule
        At least one.

    Examples
    --------
    >>> from dkpca import rank
    >>> rank.All((rank.Error(at_most=0.1), rank.Budget(bytes=2000))).parts()  # DKPCA(rank=[...]) makes one of a list
    (Error(at_most=0.1), Budget(bytes=2000, precision='float32'))
    """

    rules: tuple[RankRule, ...]
    name: ClassVar[str] = "all"

    def __post_init__(self) -> None:
        if not self.rules or not all(isinstance(rule, RankRule) for rule in self.rules):
            raise InputError(f"{list(self.rules)} cannot be combined; give at least one rule of dkpca.rank")

    def parts(self) -> tuple[RankRule, ...]:
        return tuple(part for rule in self.rules for part in rule.parts())

    def sent_in(self, precision: str) -> RankRule:
        return replace(self, rules=tuple(rule.sent_in(precision) for rule in self.rules))

    def to_dict(self) -> dict[str, Any]:
        return {"rule": self.name, "rules": [rule.to_dict() for rule in self.rules]}


@dataclass(frozen=True)
class Budget(RankRule):
    """As many eigenpairs as fit into a number of bytes; in compact precision, the finest rounding that fits.

    Parameters
    ----------
    bytes : int
        Maximum size of the factor, or in compact precision of the whole message.
    precision : {"float32", "float64", "float16", "compact"}
        Precision of the message; the party sets it to its own. float16 adds a scale of 8 bytes per column.

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
        _check("bytes", self.bytes, WHOLE, lambda count: count >= 1, "a whole number of at least 1")
        _check("precision", self.precision, str, PRECISIONS.__contains__, f"one of {sorted(PRECISIONS)}")

    def first_guess(self, n_samples: int) -> int:
        column = n_samples * PRECISIONS[self.precision] + (8 if self.precision == "float16" else 0)
        if self.bytes < column:
            raise InputError(f"{self.bytes} bytes are less than one eigenpair of {n_samples} samples: give {column}")
        return min(self.bytes // column, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        return self.first_guess(n_samples)

    def sent_in(self, precision: str) -> RankRule:
        return replace(self, precision=precision)

    def measured(self) -> bool:
        return self.precision == COMPACT

    def met_by(self, candidate: Any) -> bool:
        return bool(candidate.size() <= self.bytes)


@dataclass(frozen=True)
class Error(RankRule):
    """The smallest message whose error, from truncation and rounding, stays within a limit in spectral norm.

    Parameters
    ----------
    at_most : float
        Error of the party's kernel matrix, in its own units. The certificate bounds the sum over the parties.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import DKPCA, rank
    >>> model = DKPCA(2, parties=2, rank=rank.Error(at_most=0.1), precision="compact").fit(np.eye(8))
    >>> model.certificate_.kernel_norm_bound < 0.25
    True
    """

    at_most: float
    name: ClassVar[str] = "error"

    def __post_init__(self) -> None:
        _check("at_most", self.at_most, NUMBER, lambda error: 0.0 < error < math.inf, "a positive number")

    def measured(self) -> bool:
        return True

    def met_by(self, candidate: Any) -> bool:
        return bool(candidate.error() <= self.at_most)


@dataclass(frozen=True)
class Recovery(RankRule):
    """The largest message from which an attacker who knows some rows recovers no column beyond a limit.

    Parameters
    ----------
    at_most : float
        R squared of the best recovered column, on the rows that the attacker does not know: `dkpca.recovery.measure`.
    known_rows : int
        Number of rows of the table that the attacker knows.

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
        _check("at_most", self.at_most, NUMBER, lambda share: 0.0 < share <= 1.0, "a share above 0, at most 1")
        _check("known_rows", self.known_rows, WHOLE, lambda count: count >= 1, "a whole number of at least 1")

    def measured(self) -> bool:
        return True

    def met_by(self, candidate: Any, *, roughly: bool = False) -> bool:
        return bool(candidate.recovery(self.known_rows, roughly=roughly).worst <= self.at_most)


RULES: dict[str, type[RankRule]] = {rule.name: rule for rule in (Fixed, Adaptive, Auto, All, Budget, Error, Recovery)}


def family(name: object) -> type[RankRule]:
    """Return the class of rules with this name."""
    if not isinstance(name, str) or name not in RULES:
        raise InputError(f"unknown rank rule {name!r}; use one of {sorted(RULES)}")
    return RULES[name]


def stated(rule: RankRule) -> int | None:
    """Return the largest rank that a rule asks for whatever the spectrum; None: it depends on the spectrum."""
    return max((part.rank for part in rule.parts() if isinstance(part, Fixed)), default=None)


def as_rule(rank: int | RankRule | Sequence[RankRule]) -> RankRule:
    """Return the rule; a number means a fixed rank, and several rules are combined."""
    if isinstance(rank, list | tuple):
        return All(tuple(rank))
    return rank if isinstance(rank, RankRule) else Fixed(int(rank))  # type: ignore[arg-type]


def _check(what: str, value: Any, kind: Any, valid: Callable[[Any], bool], allowed: str) -> None:
    """Raise unless the value is of this kind, and valid."""
    if isinstance(value, bool) or not isinstance(value, kind) or not valid(value):
        raise InputError(f"{what} is {value!r}; give {allowed}")


def _first_below(eigenvalues: Spectrum, threshold: float, *, at_least: int, n_samples: int) -> int | None:
    """Return the smallest D >= at_least with lambda_{D+1} <= threshold; None if these eigenvalues do not reach it."""
    below = np.flatnonzero(np.asarray(eigenvalues) <= threshold)
    below = below[below >= at_least]
    if below.size:
        return int(below[0])
    return n_samples if len(eigenvalues) == n_samples else None
