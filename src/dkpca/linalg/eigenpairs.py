"""What every eigensolver returns."""

from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from dkpca.linalg.arrays import Array, eps, namespace, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.moments import groups
from dkpca.linalg.parallel import in_order

RESIDUAL_SHARE = 1.2
NEARBY = 5  # pairs behind the leading ones that a solver returns beside them


@dataclass(frozen=True)
class Extension:
    """How a new sample gets its row of the factor: kernel row against the anchors @ weights + offset."""

    weights: Array  # (n_anchors, k)
    offset: Array  # (k,)
    anchors: Array | None = None  # positions of the samples to compare with; None: all of them

    def rows(self, x: Array) -> Array:
        """Return the anchors' rows of a per-sample array."""
        return x if self.anchors is None else namespace(x).take(x, self.anchors, axis=0)

    def head(self, k: int) -> "Extension":
        """Return the extension for the first k columns of the factor."""
        return replace(self, weights=self.weights[:, :k], offset=self.offset[:k])


@dataclass(frozen=True)
class Probe:
    """A random search for eigenvalues that a solver missed. It found none."""

    factor: float  # one of more than so many times the next eigenvalue would have been found ...
    confidence: float  # ... with at least this probability


@dataclass(frozen=True)
class Nearby:
    """Eigenpairs behind the leading ones, as good as the solver has them: for estimates, never for a proof."""

    values: Array  # (q,), descending, none negative
    vectors: Array  # (n, q)


@dataclass(frozen=True)
class Eigenpairs:
    """The leading part of a Gram matrix, and how much was left out.

    The pairs are exact for a matrix S close to the one asked about: that one minus S is positive semidefinite
    with trace `missed_trace`, apart from a symmetric residual. An exact solver misses nothing, and its residual is
    the rounding of all it did.
    """

    values: Array  # (k,), descending, none negative
    vectors: Array  # (n, k), orthonormal columns
    next_value: float  # eigenvalue k + 1 of S, zero if there is none
    trace: float  # of the matrix asked about; where that would take a pass over it, an upper bound
    extension: Extension
    solver: str  # which one, and what it did
    missed_trace: float = 0.0
    missed_norm: float = 0.0  # bound on the largest eigenvalue of what was missed
    missed_leading: float = 0.0  # bound on the sum of its k largest
    residual_norm: float = 0.0
    residual_nuclear: float = 0.0
    probe: Probe | None = None  # on which `next_value` rests, where no proof says that none was missed
    nearby: Nearby | None = None

    @property
    def left_out_norm(self) -> float:
        """Bound on the largest eigenvalue of the matrix minus the part these pairs span."""
        return self.next_value + self.missed_norm + self.residual_norm

    def head(self, k: int) -> "Eigenpairs":
        """Return only the first k of these pairs."""
        if k >= self.values.shape[0]:
            return self
        return replace(
            self,
            values=self.values[:k],
            vectors=self.vectors[:, :k],
            next_value=float(self.values[k]),
            extension=self.extension.head(k),
            nearby=Nearby(self.values[k : k + NEARBY], self.vectors[:, k : k + NEARBY]),
        )

    def numerical_rank(self) -> int:
        """Count the eigenvalues that are more than rounding."""
        xp = namespace(self.values)
        return int(xp.sum(xp.astype(self.values > rounding_of(self.vectors.shape[0], self.values), xp.int64)))

    def with_residual(self, norm: float) -> "Eigenpairs":
        """Return the pairs with the rounding that makes |K V - V Lambda| as large as this added to the residual.

        With R = K V - V Lambda the matrix is V Lambda V' + (I - VV') K (I - VV') + N, where N has the blocks V'R and
        (I - VV')R: its norm is at most 2 / sqrt(3) times that of R, and its rank at most 2 k.
        """
        return replace(
            self,
            residual_norm=self.residual_norm + RESIDUAL_SHARE * norm,
            residual_nuclear=self.residual_nuclear + 2 * self.values.shape[0] * RESIDUAL_SHARE * norm,
        )

    def factor(self) -> Array:
        """A = V sqrt(lambda), so that A A' is the part of the matrix these pairs span."""
        return self.vectors * namespace(self.values).sqrt(self.values)[None, :]


def rounding_of(n: int, values: Array) -> float:
    """Eigenvalues of an n x n matrix below this are most likely noise, and not worth sending.

    Entries that are wrong by a share eps move a matrix of positive entries by eps lambda_1; errors of sums of n terms
    grow like sqrt(n). No bound: that one is in `residual_norm`, and would declare most of a large spectrum noise.
    """
    return float(n**0.5 * eps(values) * abs(values[0]))


def inverse_roots(n: int, values: Array) -> Array:
    """1 / sqrt(lambda), and zero where the eigenvalue is rounding."""
    xp = namespace(values)
    kept = values > rounding_of(n, values)
    return xp.astype(kept, values.dtype) / xp.sqrt(xp.where(kept, values, xp.ones_like(values)))


def from_all_rows(gram: Gram, values: Array, vectors: Array) -> Extension:
    """Extension by comparison with every sample: W = V / sqrt(lambda)."""
    weights, offset = gram.affine(vectors * inverse_roots(vectors.shape[0], values)[None, :])
    return Extension(weights, offset)


def signs_of(vectors: Array) -> Array:
    """Signs that make the entry of largest magnitude of each column positive, the first of several."""
    xp = namespace(vectors)

    def extremes(group: slice) -> tuple[Array, Array]:
        return xp.max(vectors[group, :], axis=0), xp.min(vectors[group, :], axis=0)

    parts = list(in_order(extremes, groups(vectors.shape[0]), vectors))
    highest = reduce(xp.maximum, (high for high, _ in parts))
    lowest = reduce(xp.minimum, (low for _, low in parts))
    signs = xp.where(highest < -lowest, -xp.ones_like(highest), xp.ones_like(highest))
    for column in np.flatnonzero(to_numpy(highest == -lowest)).tolist():
        if int(xp.argmin(vectors[:, column])) < int(xp.argmax(vectors[:, column])):
            signs[column] = -1.0
    return signs
