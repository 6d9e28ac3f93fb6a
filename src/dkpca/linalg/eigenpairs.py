"""What every eigensolver returns, and how its vectors are brought to one form: signs, lengths, repeated rows."""

from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from dkpca.linalg.arrays import Array, MemoryLimit, eps, is_dask_array, like, namespace, tall_empty, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.rows import Distinct, Made, RowGroup, cross, groups, kept, multiply, over, pick, times

RESIDUAL_SHARE = 1.2  # above 2 / sqrt(3)
NEARBY = 5  # pairs behind the leading ones that a solver returns beside them
EVEN = 64.0  # epsilons by which the lengths of eigenvectors may differ from one


@dataclass(frozen=True)
class Extension:
    """How a new sample gets its row of the factor: kernel row against the anchors @ weights + offset."""

    weights: Array  # (n_anchors, k)
    offset: Array  # (k,)
    anchors: Array | None = None  # positions of the samples to compare with; None: all of them
    slopes: Array | None = None  # (q, k): what the covariates of the sample are multiplied by and added

    def rows(self, x: Array) -> Array:
        """Return the anchors' rows of a per-sample array."""
        return x if self.anchors is None else pick(x, self.anchors)

    def head(self, k: int) -> "Extension":
        """Return the extension for the first k columns of the factor."""
        slopes = None if self.slopes is None else self.slopes[:, :k]
        return replace(self, weights=self.weights[:, :k], offset=self.offset[:k], slopes=slopes)


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
    missed_within: np.ndarray[Any, Any] | None = None  # (k, k): above V'RV for what was missed, R; None: not known
    residual_norm: float = 0.0
    residual_nuclear: float = 0.0
    probe: Probe | None = None  # on which `next_value` rests, where no proof says that none was missed
    nearby: Nearby | None = None
    spectrum: Array | None = None  # all eigenvalues that the solver knows; None: those of the pairs
    taken_trace: float = 0.0  # of what covariates took out of the matrix before

    @property
    def left_out_norm(self) -> float:
        """Bound on the largest eigenvalue of the matrix minus the part these pairs span."""
        return self.next_value + self.missed_norm + self.residual_norm

    def head(self, k: int) -> "Eigenpairs":
        """Return only the first k of these pairs."""
        if k >= self.values.shape[0]:
            return self
        near = slice(k, min(k + NEARBY, self.values.shape[0]))
        return replace(
            self,
            values=self.values[:k],
            vectors=self.vectors[:, :k],
            next_value=float(self.values[k]),
            extension=self.extension.head(k),
            missed_within=None if self.missed_within is None else self.missed_within[:k, :k],
            nearby=Nearby(self.values[near], self.vectors[:, near]),
        )

    def known(self) -> Array:
        """Return all eigenvalues that the solver knows."""
        return self.values if self.spectrum is None else self.spectrum

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
    """Size below which eigenvalues of an n x n matrix are most likely noise: no bound, that is `residual_norm`."""
    return float(n**0.5 * eps(values) * abs(values[0]))


def numerical_rank(n: int, values: Array) -> int:
    """Count the eigenvalues of an n x n matrix that are more than rounding."""
    return int(to_numpy(values > rounding_of(n, values)).sum())


def inverse_roots(n: int, values: Array) -> Array:
    """1 / sqrt(lambda), and zero where the eigenvalue is rounding."""
    xp = namespace(values)
    kept = values > rounding_of(n, values)
    return xp.astype(kept, values.dtype) / xp.sqrt(xp.where(kept, values, xp.ones_like(values)))


def from_all_rows(gram: Gram, values: Array, vectors: Array) -> Extension:
    """Extension by comparison with every sample: W = V / sqrt(lambda)."""
    weights = vectors * inverse_roots(vectors.shape[0], values)[None, :]
    weights, offset, slopes = gram.affine(weights)
    return Extension(weights, offset, slopes=slopes)


def signs_of(vectors: Array) -> Array:
    """Signs that make the entry of largest magnitude of each column positive, the first of several."""

    def largest(first: int, part: RowGroup) -> Array:
        own = part[:]
        xp = namespace(own)
        places = xp.argmax(xp.abs(own), axis=0)
        return own[places, xp.arange(own.shape[1])]

    # argmax has the first of several in a group; among groups, a later one has to be larger.
    found = list(over(largest, vectors))
    xp = namespace(found[0])
    entries = reduce(lambda one, other: xp.where(xp.abs(other) > xp.abs(one), other, one), found)
    return xp.where(entries < 0, -xp.ones_like(entries), xp.ones_like(entries))


def repeated(pairs: Eigenpairs, rows: Distinct, memory: MemoryLimit | None) -> Eigenpairs:
    """Pairs of the matrix E U E' of all rows, from those of W^(1/2) U W^(1/2) of the distinct ones, W = E'E."""
    # E W^(-1/2) has orthonormal columns and takes eigenvectors to eigenvectors. For a new sample y,
    # k(y, X) E W^(-1/2) = k(y, distinct rows) W^(1/2).
    roots, n = np.sqrt(rows.counts).astype(pairs.vectors.dtype), len(rows.numbers)
    signs = signs_of(pairs.vectors / roots[:, None])
    flips = to_numpy(signs)

    def everywhere(V: Array) -> Array:
        out, own = tall_empty((n, V.shape[1]), V, memory), V / roots[:, None]
        for group in groups(n):
            np.take(own, rows.numbers[group], axis=0, out=out[group], mode="clip")
        return out

    own, nearby = pairs.extension, pairs.nearby
    weights = own.weights * signs * own.rows(roots)[:, None]
    return replace(
        pairs,
        vectors=everywhere(pairs.vectors * signs),
        extension=replace(own, weights=weights, offset=own.offset * signs, anchors=own.rows(rows.first)),
        missed_within=None if pairs.missed_within is None else pairs.missed_within * np.outer(flips, flips),
        nearby=None if nearby is None else replace(nearby, vectors=everywhere(nearby.vectors)),
        solver=f"{pairs.solver}; {len(roots)} of {n} samples are distinct",
    ).with_residual(4.0 * len(signs) ** 0.5 * eps(signs) * float(pairs.values[0]))


def orthonormalize(vectors: Array, values: np.ndarray[Any, Any]) -> tuple[Array, float]:
    """Return columns V (V'V)^(-1/2), maybe written over V, and how far that moves the matrix they span."""
    # V = W root with W orthonormal and root = (V'V)^(1/2): the matrix spanned moves by |root Lambda root - Lambda|.
    moved = 0.0
    Lambda = np.diag(np.append(values, np.zeros(vectors.shape[1] - len(values))))
    for _ in range(2):
        sizes, Q = np.linalg.eigh(to_numpy(cross(vectors, vectors)).astype(float))
        if np.abs(sizes - 1.0).max() <= EVEN * eps(vectors):
            break
        if sizes[0] < 0.5:
            vectors, change = _filled(vectors, Lambda)
            return vectors, moved + change
        root = (Q * np.sqrt(sizes)) @ Q.T
        moved += float(np.linalg.norm(root @ Lambda @ root - Lambda, 2))
        vectors = multiply(vectors, like((Q / np.sqrt(sizes)) @ Q.T, vectors))
    return vectors, moved


def _filled(vectors: Array, Lambda: np.ndarray[Any, Any]) -> tuple[Array, float]:
    """Make columns orthonormal one after the other; those that are zero are filled in."""
    if is_dask_array(vectors):
        return _filled_on_workers(vectors, Lambda)
    xp = namespace(vectors)
    # V = Q R, and a positive diagonal of R keeps directions; V Lambda V' moves by |R Lambda R' - Lambda|.
    Q, R = xp.linalg.qr(vectors)
    diagonal = xp.linalg.diagonal(R)
    signs = xp.where(diagonal < 0, -xp.ones_like(diagonal), xp.ones_like(diagonal))
    vectors[...] = Q * signs[None, :]
    R = to_numpy(R).astype(float)
    return vectors, float(np.linalg.norm(R @ Lambda @ R.T - Lambda, 2))


def _filled_on_workers(vectors: Array, Lambda: np.ndarray[Any, Any]) -> tuple[Array, float]:
    """The same for rows on workers: QR by Cholesky, of the columns or, where these vanish, of random numbers."""
    lacking, length = np.diagonal(cross(vectors, vectors)) < 0.5, (12.0 / vectors.shape[0]) ** 0.5

    def filled(start: int, rows: Array) -> Array:
        # Numbers of a row depend on its number alone, and not on how the rows are cut.
        out = np.array(rows)
        for column in np.flatnonzero(lacking).tolist():
            drawn = np.random.Generator(np.random.PCG64(column).advance(start)).random(len(out))
            out[:, column] = (drawn - 0.5) * length
        return out

    vectors, whole = kept(Made((vectors,), filled, len(lacking)), np.empty(0)), np.eye(len(lacking))
    # V'V = R'R (Cholesky), and V inv(R) is orthonormal; twice, and the R's multiply to that of V.
    for _ in range(2):
        R = np.linalg.cholesky(cross(vectors, vectors)).T
        vectors, whole = times(vectors, np.linalg.inv(R)), R @ whole
    change = float(np.linalg.norm(whole @ Lambda @ whole.T - Lambda, 2))
    return vectors, change + float(np.max(np.diagonal(Lambda)[lacking], initial=0.0))
