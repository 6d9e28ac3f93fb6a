"""How many eigenpairs a party sends.

A rule reads the leading eigenvalues known so far and answers with a rank, or with None when it has to see
more of the spectrum. It never answers 0: a party that sends nothing would erase the product of all kernels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.precision import PRECISIONS

Spectrum = np.ndarray[Any, Any]  # leading eigenvalues, descending


@runtime_checkable
class RankRule(Protocol):
    """What `party.summarize` needs of a rule."""

    def first_guess(self, n_samples: int) -> int:
        """How many eigenpairs to compute before remote."""

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        """Rank, or None if these eigenvalues do not decide it."""


@dataclass(frozen=True)
class Fixed:
    """The same rank whatever the spectrum; at most the number of samples."""

    rank: int

    def __post_init__(self) -> None:
        if self.rank < 1:
            raise InputError(f"rank is {self.rank}; a party sends at least 1 eigenpair")

    def first_guess(self, n_samples: int) -> int:
        return min(self.rank, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        return min(self.rank, n_samples)


@dataclass(frozen=True)
class Adaptive:
    """Eq. (8) of the paper: the smallest D with lambda_{D+1} <= epsilon, at most the number of samples.

    Parameters
    ----------
    epsilon : float
        The threshold.
    relative : bool
        Whether epsilon is a share of the party's own lambda_1, as in the paper's experiments (0.04 linear,
        0.0005 RBF), or absolute, as eq. (8) is printed.
    """

    epsilon: float
    relative: bool = True

    def __post_init__(self) -> None:
        if not 0.0 <= self.epsilon < float("inf"):
            raise InputError(f"epsilon is {self.epsilon}; it must be a finite number, not negative")

    def first_guess(self, n_samples: int) -> int:
        return min(31, n_samples)

    def choose(self, eigenvalues: Spectrum, n_samples: int) -> int | None:
        threshold = self.epsilon * eigenvalues[0] if self.relative else self.epsilon
        return _first_below(eigenvalues, threshold, at_least=1, n_samples=n_samples)


@dataclass(frozen=True)
class Auto:
    """The smallest D with lambda_{D+1} <= share * lambda_2, but no fewer than the components wanted.

    lambda_2, because the first eigenvector of an RBF Gram matrix is close to constant and centering removes
    it: lambda_2 is where the information begins, however many parties share it.
    """

    n_components: int
    share: float = 0.01

    def __post_init__(self) -> None:
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
class Budget:
    """As many eigenpairs as fit into so many bytes of factor.

    Parameters
    ----------
    bytes : int
        What the party is willing to send, header not counted.
    precision : {"float32", "float64", "float16"}
        How the numbers go over the wire; a party puts in how it sends them. float16 adds a scale of 8 bytes a column.
    """

    bytes: int
    precision: str = "float32"

    def __post_init__(self) -> None:
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


@dataclass(frozen=True)
class AtMost:
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


def sent_in(rule: RankRule, precision: str) -> RankRule:
    """Return the rule for numbers that are sent in a precision: only what counts bytes depends on it."""
    if isinstance(rule, AtMost):
        return replace(rule, rule=sent_in(rule.rule, precision))
    return replace(rule, precision=precision) if isinstance(rule, Budget) else rule


RULES: dict[str, type[Any]] = {"fixed": Fixed, "adaptive": Adaptive, "auto": Auto, "budget": Budget}


def to_dict(rule: RankRule) -> dict[str, Any]:
    """Describe a rule so that it can travel; only the rules of this module can."""
    for name, cls in RULES.items():
        if is_dataclass(rule) and type(rule) is cls:
            return {"rule": name} | {field.name: getattr(rule, field.name) for field in fields(rule)}
    raise InputError(f"the rank rule {rule!r} cannot be sent to a party; use one of {sorted(RULES)}")


def from_dict(described: Mapping[str, Any]) -> RankRule:
    """Rebuild a rule; the rule itself checks its values, since they may come from somebody else."""
    values = dict(described)
    cls = RULES.get(str(values.pop("rule", None)))
    if cls is None:
        raise InputError(f"unknown rank rule {described.get('rule')!r}; use one of {sorted(RULES)}")
    expected = {field.name: field.type for field in fields(cls)}
    if set(values) != set(expected) or any(type(values[name]) is not kind for name, kind in expected.items()):
        raise InputError(f"the rank rule {described!r} does not have the values {sorted(expected)}")
    rule: RankRule = cls(**values)
    return rule


def _first_below(eigenvalues: Spectrum, threshold: float, *, at_least: int, n_samples: int) -> int | None:
    """Smallest D >= at_least with eigenvalue D + 1 at or under the threshold."""
    below = np.flatnonzero(eigenvalues <= threshold)
    below = below[below >= at_least]
    if below.size:
        return int(below[0])
    return n_samples if len(eigenvalues) == n_samples else None
