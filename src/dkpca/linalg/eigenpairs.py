"""What every eigensolver returns."""

from dataclasses import dataclass, replace

from dkpca.linalg.arrays import Array, eps, namespace
from dkpca.linalg.gram import Gram


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
class Eigenpairs:
    """The leading part of a Gram matrix, and how much was left out.

    The pairs are exact for a matrix S close to the one asked about: that one minus S is positive semidefinite
    with trace `missed_trace`, apart from a symmetric residual of norm `residual_norm`. Both are zero for an
    exact solver.
    """

    values: Array  # (k,), descending, none negative
    vectors: Array  # (n, k), orthonormal columns
    next_value: float  # eigenvalue k + 1 of S, zero if there is none
    trace: float  # of the matrix asked about; where that would take a pass over it, an upper bound
    extension: Extension
    solver: str  # which one, and what it did
    missed_trace: float = 0.0
    residual_norm: float = 0.0

    @property
    def left_out_norm(self) -> float:
        """Bound on the largest eigenvalue of the matrix minus the part these pairs span."""
        return self.next_value + self.missed_trace + self.residual_norm

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
        )

    def numerical_rank(self) -> int:
        """Count the eigenvalues that are more than rounding."""
        xp = namespace(self.values)
        return int(xp.sum(xp.astype(self.values > self.rounding(), xp.int64)))

    def rounding(self) -> float:
        """Size of what the arithmetic alone can do to the matrix."""
        return rounding_of(self.vectors, self.values)

    def factor(self) -> Array:
        """A = V sqrt(lambda), so that A A' is the part of the matrix these pairs span."""
        return self.vectors * namespace(self.values).sqrt(self.values)[None, :]


def rounding_of(vectors: Array, values: Array) -> float:
    """Eigenvalues below this are noise.

    Entries that are wrong by a share eps move a matrix of positive entries by eps lambda_1; errors of sums of n terms
    grow like sqrt(n). A bound of n eps lambda_1 would declare most of a large spectrum noise in float32.
    """
    return float(vectors.shape[0] ** 0.5 * eps(values) * abs(values[0]))


def inverse_roots(vectors: Array, values: Array) -> Array:
    """1 / sqrt(lambda), and zero where the eigenvalue is rounding."""
    xp = namespace(values)
    kept = values > rounding_of(vectors, values)
    return xp.astype(kept, values.dtype) / xp.sqrt(xp.where(kept, values, xp.ones_like(values)))


def from_all_rows(gram: Gram, values: Array, vectors: Array) -> Extension:
    """Extension by comparison with every sample: W = V / sqrt(lambda)."""
    weights, offset = gram.affine(vectors * inverse_roots(vectors, values)[None, :])
    return Extension(weights, offset)


def signs_of(vectors: Array) -> Array:
    """Signs that make the entry of largest magnitude of each column positive."""
    xp = namespace(vectors)
    largest = xp.argmax(xp.abs(vectors), axis=0)
    entries = xp.take_along_axis(vectors, largest[None, :], axis=0)[0, :]
    return xp.where(entries < 0, -xp.ones_like(entries), xp.ones_like(entries))
