"""How the parties' Gram matrices combine: entry by entry as a product, as a sum, or as a function of the sum.

The center needs nothing else of a kernel. `merge` brings the parties' factors into the form in which their Gram
matrices recombine; new samples' factor rows go through the same function.
"""

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import ClassVar

import numpy as np

from dkpca.linalg.arrays import Array, namespace, or_one, quiet
from dkpca.linalg.precision import Factor
from dkpca.linalg.rows import multiplied


class Law:
    """What the center has to know to combine matrices; `diagonals` are those of the parties' true Gram matrices."""

    name: ClassVar[str]
    needs_diagonals: ClassVar[bool] = False  # whether the center computes with them
    multiplies: ClassVar[bool] = False  # whether matrices, and nothing more, are multiplied: factors stay apart
    scores_add: ClassVar[bool] = False  # whether matrices, and so scores, are sums over parties and nothing more
    linear: ClassVar[bool] = False  # whether a change of the fused matrix is one of its merged factor alone

    @property
    def powers(self) -> int:
        """Factor by which powers of entries multiply their rounding; 1: entries are those of merged factors."""
        return 1

    def parts(self, factors: Sequence[Factor], diagonals: Sequence[Array]) -> list[Factor]:
        """Tables that `merge` takes rows of: the parties' factors, and what else the center needs of each sample."""
        return list(factors)

    def merge(self, parts: Sequence[Array]) -> list[Array]:
        """Fewest factors whose Gram matrices recombine to the matrix wanted; where no thin one does, all of them."""
        return list(parts)

    def merge_changes(self, parts: Sequence[Array]) -> list[Array]:
        """Bring factors of changes to the parties' matrices into the form of `merge`."""
        return self.merge(parts)

    def recombine(self, parts: Iterable[Array]) -> Array:
        """Entries of the global Gram matrix from the same entries of the merged factors' Gram matrices."""
        return _added(parts)

    def log_diagonal(self, received: Sequence[Array]) -> Array:
        """Logarithm of the recombined diagonal, or of a product on the way to it that is smaller; zero: -inf."""
        return namespace(*received).log(self.recombine(received))

    def combine(self, parts: Sequence[Array], rows: Sequence[Array], columns: Sequence[Array]) -> Array:
        """Entries of the global Gram matrix from the parties' own, and the diagonals at their rows and columns."""
        return self.diagonal(parts)

    def diagonal(self, diagonals: Sequence[Array]) -> Array:
        """Diagonal of the global Gram matrix."""
        return self.recombine(diagonals)

    def crossed(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        """Entries of the fused matrix from rows of the merged factors, and others as columns; in a new array."""
        return self.recombine(A @ B for A, B in zip(left, right, strict=True))

    def error_weights(self, received: Sequence[Array], diagonals: Sequence[Array]) -> list[Array]:
        """Factors by which diagonals of the parties' errors enter that of the fused matrix; `received` were sent."""
        raise NotImplementedError  # a slope, which is no law of parties, has none

    def derivative(self, parts: Iterable[Array], changes: Iterable[Array]) -> Array:
        """Entries of the change of the fused matrix, to first order."""
        # What multiplies a party's change, entry by entry, is a positive semidefinite matrix, below the one that
        # multiplies the party's error but for the rounding of the parties behind it.
        return _added(changes)

    def total_trace(self, party_traces: Sequence[float], diagonals: Sequence[Array]) -> float:
        """Trace of the true global Gram matrix."""
        if self.scores_add:
            return float(sum(party_traces))
        true = self.diagonal(diagonals)
        return float(namespace(true).sum(true))


@dataclass(frozen=True)
class Product(Law):
    """Matrices multiply entry by entry: eq. (4) of the paper."""

    name: ClassVar[str] = "product"
    multiplies: ClassVar[bool] = True

    def recombine(self, parts: Iterable[Array]) -> Array:
        # Eq. (4): the fused matrix is the entrywise product of the parties' low-rank matrices; no thin factor has it.
        return _folded(parts, operator.mul, operator.imul)

    def crossed(self, left: Sequence[Array], right: Sequence[Array]) -> Array:
        return multiplied(left, right) if isinstance(left[0], np.ndarray) else super().crossed(left, right)

    def log_diagonal(self, received: Sequence[Array]) -> Array:
        # log of a product of factors of at most 1: a product itself could underflow.
        xp = namespace(*received)
        return _added(xp.clip(xp.log(part), None, 0.0) for part in received)

    def error_weights(self, received: Sequence[Array], diagonals: Sequence[Array]) -> list[Array]:
        # Telescoping the product puts the received matrices of the parties before, and the true ones of the parties
        # behind, around each party's error.
        ones = namespace(*received).ones_like(received[0])
        before = accumulate(received[:-1], operator.mul, initial=ones)
        behind = list(accumulate(reversed(diagonals[1:]), operator.mul, initial=ones))[::-1]
        return [a * b for a, b in zip(before, behind, strict=True)]

    def derivative(self, parts: Iterable[Array], changes: Iterable[Array]) -> Array:
        # One factor after the other: (u v)' = u' v + u v'.
        pairs = zip(parts, changes, strict=True)
        total, slope = next(pairs)
        for part, change in pairs:
            total, slope = total * part, slope * part + change * total
        return slope


@dataclass(frozen=True)
class Sum(Law):
    """Matrices add: eq. (2) of the paper."""

    name: ClassVar[str] = "sum"
    linear: ClassVar[bool] = True
    scores_add: ClassVar[bool] = True

    def merge(self, parts: Sequence[Array]) -> list[Array]:
        # sum_j A_j A_j' = [A_1 ... A_J] [A_1 ... A_J]'.
        return [namespace(*parts).concat(list(parts), axis=1)]

    def error_weights(self, received: Sequence[Array], diagonals: Sequence[Array]) -> list[Array]:
        return [namespace(each).ones_like(each) for each in received]


@dataclass(frozen=True)
class Power(Law):
    """(gamma * sum of inner products + coef0) ** degree: the polynomial kernel, a product of equal matrices."""

    degree: int
    gamma: float
    coef0: float
    name: ClassVar[str] = "sum"
    needs_diagonals: ClassVar[bool] = True

    @property
    def powers(self) -> int:
        return 2 * self.degree

    def merge(self, parts: Sequence[Array]) -> list[Array]:
        # gamma sum_j A_j A_j' + coef0 1 1' = B B' for B = [sqrt(gamma) A_1, ..., sqrt(gamma) A_J, sqrt(coef0) 1]; the
        # center takes the power of its entries.
        xp = namespace(*parts)
        return [xp.concat([*self.merge_changes(parts), xp.full_like(parts[0][:, :1], self.coef0**0.5)], axis=1)]

    def merge_changes(self, parts: Sequence[Array]) -> list[Array]:
        return [namespace(*parts).concat([A * self.gamma**0.5 for A in parts], axis=1)]

    def recombine(self, parts: Iterable[Array]) -> Array:
        return _added(parts) ** self.degree

    def log_diagonal(self, received: Sequence[Array]) -> Array:
        return namespace(*received).log(_added(received)) * self.degree

    def error_weights(self, received: Sequence[Array], diagonals: Sequence[Array]) -> list[Array]:
        # a^d - b^d = (a - b) sum_i a^i b^(d - 1 - i), where a and b are positive semidefinite matrices and powers are
        # entry by entry: Schur's theorem bounds each term by its diagonal.
        fused, true = self._inner(received), self._inner(diagonals)
        with quiet():  # columns of 1e-137 have a width of 1e+275: who adds up what is stated sees that it is infinite
            terms = _added(fused**i * true ** (self.degree - 1 - i) for i in range(self.degree))
            return [self.gamma * terms] * len(received)

    def derivative(self, parts: Iterable[Array], changes: Iterable[Array]) -> Array:
        # (s^d)' = d s^(d - 1) s', entry by entry.
        return self.degree * _added(parts) ** (self.degree - 1) * _added(changes)

    def diagonal(self, diagonals: Sequence[Array]) -> Array:
        return self._inner(diagonals) ** self.degree

    def _inner(self, sums: Sequence[Array]) -> Array:
        return _added(sums) * self.gamma + self.coef0


@dataclass(frozen=True)
class Cosine(Law):
    """The sum of inner products over the lengths of the whole samples: the cosine kernel, finished at the center."""

    name: ClassVar[str] = "sum"
    needs_diagonals: ClassVar[bool] = True
    linear: ClassVar[bool] = True

    def parts(self, factors: Sequence[Factor], diagonals: Sequence[Array]) -> list[Factor]:
        return [*factors, _inverse_lengths(diagonals)[:, None]]

    def merge(self, parts: Sequence[Array]) -> list[Array]:
        # Rows of [A_1 ... A_J] over the true lengths of the whole samples, from the diagonals: D^-1 K D^-1.
        *factors, inverse_lengths = parts
        return [namespace(*factors).concat(factors, axis=1) * inverse_lengths]

    def error_weights(self, received: Sequence[Array], diagonals: Sequence[Array]) -> list[Array]:
        # diag(D^-1 E D^-1) = diag(E) / |x_i|^2.
        return [_inverse_lengths(diagonals) ** 2] * len(received)

    def combine(self, parts: Sequence[Array], rows: Sequence[Array], columns: Sequence[Array]) -> Array:
        return _added(parts) * _inverse_lengths(rows)[:, None] * _inverse_lengths(columns)[None, :]

    def diagonal(self, diagonals: Sequence[Array]) -> Array:
        total = _added(diagonals)
        return namespace(total).astype(total > 0, total.dtype)


@dataclass(frozen=True)
class Slope(Law):
    """The change of another law's matrix, from its merged factors and behind them as many of changes."""

    law: Law
    name: ClassVar[str] = "slope"

    @property
    def powers(self) -> int:
        return self.law.powers

    def recombine(self, parts: Iterable[Array]) -> Array:
        both = list(parts)
        return self.law.derivative(both[: len(both) // 2], both[len(both) // 2 :])


PRODUCT, SUM, COSINE = Product(), Sum(), Cosine()
LAWS: dict[str, Law] = {"product": PRODUCT, "sum": SUM}


def _inverse_lengths(diagonals: Sequence[Array]) -> Array:
    """1 / length of each sample; zero for a sample that is zero everywhere, as in scikit-learn."""
    total = _added(diagonals)
    xp = namespace(total)
    return xp.astype(total > 0, total.dtype) / xp.sqrt(or_one(total))


def _added(parts: Iterable[Array]) -> Array:
    return _folded(parts, operator.add, operator.iadd)


def _folded(parts: Iterable[Array], two: Callable[[Array, Array], Array], into: Callable[..., Array]) -> Array:
    """Combine arrays one after the other; those given belong to the caller, so the first two make a new one."""
    rest = iter(parts)
    first, second = next(rest), next(rest, None)
    total = namespace(first).asarray(first, copy=True) if second is None else two(first, second)
    for part in rest:
        total = into(total, part)
    return total
