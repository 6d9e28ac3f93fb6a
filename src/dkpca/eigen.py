"""Leading eigenpairs of a Gram matrix: one contract, several solvers."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from dkpca.arrays import Array, device, eps, namespace
from dkpca.errors import InputError
from dkpca.gram import Gram

LANCZOS_SHARE = 20  # Lanczos pays when fewer than one eigenpair in this many is asked for
LANCZOS_FROM = 300  # rows; below that LAPACK is done before Lanczos has started


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
    solver: str
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
        return replace(self, values=self.values[:k], vectors=self.vectors[:, :k], next_value=float(self.values[k]))

    def numerical_rank(self) -> int:
        """Count the eigenvalues that are more than rounding."""
        xp = namespace(self.values)
        return int(xp.sum(xp.astype(self.values > self.rounding(), xp.int64)))

    def rounding(self) -> float:
        """Size of what the arithmetic alone can do to the matrix."""
        return float(self.vectors.shape[0] * eps(self.values) * self.values[0])

    def factor(self) -> Array:
        """A = V sqrt(lambda), so that A A' is the part of the matrix these pairs span."""
        return self.vectors * namespace(self.values).sqrt(self.values)[None, :]

    def weights(self) -> Array:
        """W with matrix @ W = factor, zero where the eigenvalue is rounding."""
        xp = namespace(self.values)
        kept = self.values > self.rounding()
        safe = xp.where(kept, self.values, xp.ones_like(self.values))
        return self.vectors * (xp.astype(kept, self.values.dtype) / xp.sqrt(safe))[None, :]


def leading(gram: Gram, k: int, *, solver: str = "auto") -> Eigenpairs:
    """Return the k leading eigenpairs of a Gram matrix, eigenvalues descending.

    The sign of each eigenvector is fixed: its entry of largest magnitude is positive. Inside an eigenspace
    of equal eigenvalues the basis is whatever the solver found.
    """
    if not 1 <= k <= gram.n:
        raise InputError(f"{k} eigenpairs of a {gram.n} x {gram.n} matrix were asked for; ask for 1 to {gram.n}")
    if solver not in SOLVERS:
        raise InputError(f"solver {solver!r} is unknown; use one of {sorted(SOLVERS)}")
    return SOLVERS[solver](gram, k)


def dense(gram: Gram, k: int) -> Eigenpairs:
    """Build the matrix and solve it: the reference, for small n."""
    wanted = min(k + 1, gram.n)  # one more, for the norm of what is left out
    factor = gram.factor
    if factor is not None:
        values, vectors = _from_factor(factor, wanted)
    else:
        values, vectors = _from_matrix(gram.dense(), wanted)
    xp = namespace(values)
    values = xp.clip(values, 0.0, None)
    pairs = Eigenpairs(values, vectors * _signs(vectors)[None, :], next_value=0.0, solver="dense")
    return pairs.head(k)


SOLVERS = {"auto": dense, "dense": dense}


def _from_factor(factor: Array, k: int) -> tuple[Array, Array]:
    """Eigenpairs of F F' from the singular values of F, whose condition number is not squared."""
    xp = namespace(factor)
    U, s, _ = xp.linalg.svd(factor, full_matrices=False)
    missing = k - s.shape[0]
    if missing > 0:  # Householder QR continues an orthonormal basis whatever is appended to it
        extra = xp.eye(U.shape[0], missing, dtype=U.dtype, device=device(U))
        Q, _ = xp.linalg.qr(xp.concat([U, extra], axis=1))
        U = xp.concat([U, Q[:, s.shape[0] :]], axis=1)
        s = xp.concat([s, xp.zeros_like(extra[0, :])])
    return s[:k] ** 2, U[:, :k]


def _from_matrix(K: Array, k: int) -> tuple[Array, Array]:
    """Leading eigenpairs of a matrix held in memory."""
    if not isinstance(K, np.ndarray):
        values, vectors = namespace(K).linalg.eigh(K)  # no other library offers a partial solver
        return namespace(K).flip(values)[:k], namespace(K).flip(vectors, axis=1)[:, :k]
    n = K.shape[0]
    if n >= LANCZOS_FROM and k * LANCZOS_SHARE <= n:
        pairs = _lanczos(K, k)
        if pairs is not None:
            return pairs
    values, vectors = scipy.linalg.eigh(K, subset_by_index=[n - k, n - 1], check_finite=False)
    return values[::-1], vectors[:, ::-1]


def _lanczos(K: np.ndarray[Any, Any], k: int) -> tuple[Array, Array] | None:
    """Lanczos, kept only if it provably missed nothing.

    Krylov methods can overlook one of several equal eigenvalues. A Cholesky factorization shows that none
    above the last one found is left: it exists just when (lambda_k + slack) I - (K - V Lambda V') is positive.
    """
    n = K.shape[0]
    start = np.random.default_rng(0).standard_normal(n).astype(K.dtype)
    try:
        values, vectors = scipy.sparse.linalg.eigsh(K, k=k, v0=start)
    except scipy.sparse.linalg.ArpackError:  # no convergence, or a zero matrix
        return None
    rest = (vectors * values) @ vectors.T - K
    rest.flat[:: n + 1] += values[0] + n * eps(K) * values[-1]
    (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), (rest,))
    _, info = potrf(rest, lower=1, overwrite_a=1)
    return (values[::-1], vectors[:, ::-1]) if info == 0 else None


def _signs(vectors: Array) -> Array:
    """Sign that makes the entry of largest magnitude of each column positive."""
    xp = namespace(vectors)
    largest = xp.argmax(xp.abs(vectors), axis=0)
    entries = xp.take_along_axis(vectors, largest[None, :], axis=0)[0, :]
    return xp.where(entries < 0, -xp.ones_like(entries), xp.ones_like(entries))
