"""Kernels whose value on all columns follows from their values on each party's columns.

A kernel owns everything that depends on which kernel it is: evaluation, recombination over parties, how
a party's error enters the fused matrix. A new kernel is one class here.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Any, ClassVar

from dkpca.arrays import Array, exp_in_place, namespace
from dkpca.errors import InputError


class Kernel(ABC):
    """A kernel that splits over columns."""

    name: ClassVar[str]

    def __call__(self, X: Array, Y: Array) -> Array:
        """Kernel matrix of the rows of X against the rows of Y, over the columns given."""
        return self.finish(self.partial(X, Y))

    @abstractmethod
    def origin(self, X: Array) -> Array:
        """Point from which a party measures its columns; the centered kernel does not depend on it."""

    @abstractmethod
    def partial(self, X: Array, Y: Array) -> Array:
        """What adds up over parties before the kernel value is formed."""

    @abstractmethod
    def finish(self, total: Array) -> Array:
        """Kernel values from the added-up partial quantities."""

    @abstractmethod
    def diagonal(self, X: Array) -> Array:
        """Kernel value of each row with itself."""

    @abstractmethod
    def recombine(self, parts: Iterable[Array]) -> Array:
        """Entries of the global Gram matrix from the same entries of the parties' matrices."""

    @abstractmethod
    def merge(self, factors: Sequence[Array]) -> list[Array]:
        """Fewest factors whose Gram matrices recombine to the same matrix."""

    @abstractmethod
    def explicit_features(self, X: Array) -> Array | None:
        """F with kernel(X, X) = F F', where a finite one is at hand."""

    @abstractmethod
    def amplification(self, diagonals: Sequence[Array]) -> list[float]:
        """Largest factor by which each party's error enters the fused matrix, in the order given."""

    @abstractmethod
    def total_trace(self, n_samples: int, party_traces: Sequence[float]) -> float:
        """Trace of the true global Gram matrix from the traces of the parties' true ones."""

    @abstractmethod
    def theorem_1_dimension(self, n_samples: int, n_components: int) -> int:
        """What stands under the square root in Theorem 1 of the paper."""

    def revealed(self, rank: int, n_features: int) -> str:
        """What a factor of this rank tells about the party's columns, in words."""
        return "about the columns, whatever this kernel's values between samples determine"

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters: what parties must agree on."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Linear(Kernel):
    """Inner products add over parties, so Gram matrices add: eq. (2) of the paper.

    Parameters
    ----------
    centered : bool
        Measure each column from its mean. The centered global Gram matrix is the sum of the parties'
        centered ones, so a party spends none of its rank on the mean. The paper's experiments do not center.
    """

    centered: bool = True
    name: ClassVar[str] = "linear"

    def __post_init__(self) -> None:
        if not isinstance(self.centered, bool):
            raise InputError(f"centered is {self.centered!r}; the linear kernel needs True or False")

    def origin(self, X: Array) -> Array:
        xp = namespace(X)
        mean = xp.mean(X, axis=0)
        return mean if self.centered else xp.zeros_like(mean)

    def partial(self, X: Array, Y: Array) -> Array:
        return X @ Y.T

    def finish(self, total: Array) -> Array:
        return total

    def diagonal(self, X: Array) -> Array:
        return namespace(X).sum(X * X, axis=1)

    def recombine(self, parts: Iterable[Array]) -> Array:
        total, rest = _fresh_first(parts)
        for part in rest:
            total += part
        return total

    def merge(self, factors: Sequence[Array]) -> list[Array]:
        return [namespace(*factors).concat(list(factors), axis=1)]

    def explicit_features(self, X: Array) -> Array | None:
        return X

    def amplification(self, diagonals: Sequence[Array]) -> list[float]:
        return [1.0] * len(diagonals)

    def total_trace(self, n_samples: int, party_traces: Sequence[float]) -> float:
        return float(sum(party_traces))

    def theorem_1_dimension(self, n_samples: int, n_components: int) -> int:
        return n_samples - n_components

    def revealed(self, rank: int, n_features: int) -> str:
        what = "all columns" if rank >= n_features else f"the {rank} leading directions of the {n_features} columns"
        return f"{what} up to a rotation: whoever knows the values of a few samples can work out those of the others"


@dataclass(frozen=True)
class RBF(Kernel):
    """Squared distances add over parties, so kernels multiply: eq. (3) and (4) of the paper.

    Parameters
    ----------
    gamma : float
        exp(-gamma * squared distance); the paper's text has gamma = 1 / (2 sigma^2).
    """

    gamma: float
    name: ClassVar[str] = "rbf"

    def __post_init__(self) -> None:
        if not isinstance(self.gamma, float | int) or not 0.0 < self.gamma < float("inf"):
            raise InputError(f"gamma is {self.gamma!r}; the RBF kernel needs a positive, finite number")

    def origin(self, X: Array) -> Array:
        return namespace(X).mean(X, axis=0)

    def __call__(self, X: Array, Y: Array) -> Array:
        """Kernel matrix in one array: this is where a party spends its time."""
        xp = namespace(X, Y)
        exponent = X @ Y.T
        exponent *= 2.0 * self.gamma
        exponent -= self.gamma * xp.sum(X * X, axis=1)[:, None]
        exponent -= self.gamma * xp.sum(Y * Y, axis=1)[None, :]
        return exp_in_place(exponent)

    def partial(self, X: Array, Y: Array) -> Array:
        xp = namespace(X, Y)
        squared = X @ Y.T
        squared *= -2.0
        squared += xp.sum(X * X, axis=1)[:, None]
        squared += xp.sum(Y * Y, axis=1)[None, :]
        return xp.clip(squared, 0.0, None)

    def finish(self, total: Array) -> Array:
        return namespace(total).exp(total * -self.gamma)

    def diagonal(self, X: Array) -> Array:
        xp = namespace(X)
        return xp.ones_like(X[:, 0])

    def recombine(self, parts: Iterable[Array]) -> Array:
        total, rest = _fresh_first(parts)
        for part in rest:
            total *= part
        return total

    def merge(self, factors: Sequence[Array]) -> list[Array]:
        return list(factors)

    def explicit_features(self, X: Array) -> Array | None:
        return None

    def amplification(self, diagonals: Sequence[Array]) -> list[float]:
        # Telescoping the product puts the received matrices of the parties before, and the true ones (whose
        # diagonal is 1) of the parties behind, around each party's error; Schur: |A o E| <= max diag(A) |E|.
        xp = namespace(*diagonals)
        before = accumulate(diagonals[:-1], lambda a, b: a * b, initial=xp.ones_like(diagonals[0]))
        return [float(xp.max(product)) for product in before]

    def total_trace(self, n_samples: int, party_traces: Sequence[float]) -> float:
        return float(n_samples)

    def theorem_1_dimension(self, n_samples: int, n_components: int) -> int:
        return n_samples

    def revealed(self, rank: int, n_features: int) -> str:
        return (
            "squared distances between samples over this party's columns, by -log(similarity) / gamma, to the "
            "accuracy of the factor: the columns up to rotation and shift, in the limit of a high rank"
        )


KERNELS: dict[str, type[Linear] | type[RBF]] = {"linear": Linear, "rbf": RBF}


def from_dict(description: dict[str, Any]) -> Kernel:
    """Rebuild the kernel that `Kernel.to_dict` described."""
    parameters = dict(description)
    name = parameters.pop("name", None)
    if name not in KERNELS:
        raise InputError(f"kernel {name!r} is unknown; use one of {sorted(KERNELS)}")
    try:
        return KERNELS[name](**parameters)
    except TypeError as error:
        raise InputError(f"kernel {name!r} does not take parameters {sorted(parameters)}") from error


def _fresh_first(parts: Iterable[Array]) -> tuple[Array, Iterable[Array]]:
    """Return a copy of the first part, since parts belong to the caller, and the others."""
    rest = iter(parts)
    first = next(rest)
    return namespace(first).asarray(first, copy=True), rest
