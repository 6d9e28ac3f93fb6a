"""Build the matrix and solve it: the reference, for small n."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from dkpca.linalg.arrays import Array, device, like, namespace, solver_error, to_numpy
from dkpca.linalg.eigenpairs import NEARBY, Eigenpairs, from_all_rows, signs_of
from dkpca.linalg.gram import Gram
from dkpca.linalg.rows import one_blas_thread, right_vectors, times

LANCZOS_SHARE = 20  # Lanczos pays when fewer than one eigenpair in this many is asked for
LANCZOS_FROM = 300  # rows; below that LAPACK is done before Lanczos has started
LAPACK_BLOCK = 64  # columns at a time
FEW = 4  # times as many columns as pairs, before it pays not to know all left vectors
Enough = Callable[[Array], int | None]  # of all eigenvalues, descending: the number of pairs that suffice


@dataclass(frozen=True)
class Dense:
    """Exact, n x n numbers of memory, n^3 operations at worst."""

    enough: Enough | None = None  # replaces the number of pairs where all eigenvalues are known before any vector

    def __call__(self, gram: Gram, k: int) -> Eigenpairs:
        # The leading eigenpairs of K, and a few more for the norm of what is left out and for estimates.
        wanted = min(k + NEARBY, gram.n)
        if gram.factor is not None:
            spectrum, vectors = _of_factor(gram.factor, wanted)
        else:
            with one_blas_thread():  # so that no bit depends on how many threads BLAS has
                few = _lanczos(gram, wanted)
                if few is not None:
                    spectrum, vectors = few
                else:
                    spectrum, leading = eigh(gram)
                    k = (None if self.enough is None else self.enough(spectrum)) or k
                    beyond = NEARBY if self.enough is None else 1  # a party estimates nothing
                    vectors = leading(min(k + beyond, gram.n))
        spectrum = namespace(spectrum).clip(spectrum, 0.0, None)
        values, vectors = spectrum[: vectors.shape[1]], vectors * signs_of(vectors)[None, :]
        extension = from_all_rows(gram, values, vectors)
        pairs = Eigenpairs(values, vectors, 0.0, gram.trace(), extension, solver="dense", spectrum=spectrum).head(k)
        pairs = replace(pairs, taken_trace=gram.taken_trace())
        return pairs.with_residual(solver_error(gram.n, float(values[0]), vectors))


def _of_factor(factor: Array, k: int) -> tuple[Array, Array]:
    """Eigenpairs of F F' from the singular values of F, whose condition number is not squared."""
    xp = namespace(factor)
    if FEW * k <= factor.shape[1] <= factor.shape[0]:
        # A few, without the left singular vectors of all of F. With right ones W, columns of F W are left ones, wrong
        # by rounding of the size of the largest: QR takes out of each, in their order, what lies along larger ones,
        # and what is left lies where F F' is small, so that the residual is that of an SVD.
        Q, T = xp.linalg.qr(times(factor, like(right_vectors(factor, k)[1], factor)))
        U, s, _ = xp.linalg.svd(T)
        return s**2, Q @ U
    missing = k - factor.shape[1]
    if missing > 0:
        nothing = xp.zeros((factor.shape[0], missing), dtype=factor.dtype, device=device(factor))
        factor = xp.concat([factor, nothing], axis=1)
    U, s, _ = xp.linalg.svd(factor, full_matrices=False)
    return s[:k] ** 2, U[:, :k]


class Tridiagonal:
    """K = Q T Q' with T tridiagonal, and T = Z diag(values) Z': eigenvectors of K are columns of Q Z."""

    def __init__(self, K: np.ndarray[Any, Any]) -> None:
        """Reduce a matrix, which is written over, and compute all eigenvalues."""
        sytrd, self.ormqr = scipy.linalg.get_lapack_funcs(("sytrd", "ormqr"), (K,))
        # Transposed: LAPACK's own layout, so that nothing is copied.
        reflectors, self.d, self.e, self.scales, _ = sytrd(K.T, lower=1, lwork=LAPACK_BLOCK * len(K), overwrite_a=1)
        self.reflectors = np.asfortranarray(reflectors[1:, :-1])
        values = scipy.linalg.eigvalsh_tridiagonal(self.d, self.e, check_finite=False, lapack_driver="sterf")
        self.values: np.ndarray[Any, Any] = values[::-1]

    def leading(self, k: int) -> Array:
        """Return the k leading eigenvectors of K."""
        Z = np.array(self._all[:, -k:], order="F")
        if len(Z) > 1:
            room = LAPACK_BLOCK * (k + LAPACK_BLOCK + 1)  # with less, LAPACK goes column by column
            Z[1:] = self.ormqr("L", "N", self.reflectors, self.scales, Z[1:], room)[0]
        return Z[:, ::-1]

    @cached_property
    def _all(self) -> np.ndarray[Any, Any]:
        """All of Z, by divide and conquer."""
        return np.asarray(scipy.linalg.eigh_tridiagonal(self.d, self.e, check_finite=False, lapack_driver="stevd")[1])


def eigh(gram: Gram) -> tuple[Array, Callable[[int], Array]]:
    """All eigenvalues, descending, and a function for the k leading vectors; solved once, where that is possible."""
    if isinstance(gram.reference, np.ndarray):
        gram.solved = Tridiagonal(gram.dense()) if gram.solved is None else gram.solved
        return gram.solved.values, gram.solved.leading
    K, xp = gram.dense(), namespace(gram.reference)
    try:
        values, vectors = xp.linalg.eigh(K)
    except RuntimeError as error:
        if "LinAlgError" not in type(error).__name__:
            raise
        # Divide and conquer in float32 may not converge where many eigenvalues are equal; QR in float64 does.
        values, vectors = (
            like(part, K)
            for part in scipy.linalg.eigh(to_numpy(K).astype(np.float64), driver="ev", check_finite=False)
        )
    return xp.flip(values), lambda k: xp.flip(vectors, axis=1)[:, :k]


def _lanczos(gram: Gram, k: int) -> tuple[Array, Array] | None:
    """Lanczos for few pairs of a large matrix, kept only if it provably missed nothing.

    Krylov methods can overlook one of several equal eigenvalues. A Cholesky factorization shows that none
    above the last one found is left: it exists if and only if (lambda_k + slack) I - (K - V Lambda V') is positive.
    """
    n = gram.n
    pays = n >= LANCZOS_FROM and k * LANCZOS_SHARE <= n and isinstance(gram.reference, np.ndarray)
    if not pays or gram.solved is not None:
        return None
    K = gram.dense().T  # LAPACK's own layout, so that nothing is copied
    (potrf,) = scipy.linalg.get_lapack_funcs(("potrf",), (K,))
    symv, syrk = scipy.linalg.get_blas_funcs(("symv", "syrk"), (K,))
    # Eigenpairs by ARPACK; then V Lambda V' - K + (lambda_k + slack) I is written over K, and factorized: one half of
    # a symmetric matrix is read, and not both.
    product = scipy.sparse.linalg.LinearOperator(K.shape, lambda x: symv(1.0, K, x, lower=1), dtype=K.dtype)
    start = np.random.default_rng(0).standard_normal(n).astype(K.dtype)
    try:
        values, vectors = scipy.sparse.linalg.eigsh(product, k=k, v0=start)
    except scipy.sparse.linalg.ArpackError:  # no convergence, or a zero matrix
        return None
    K = syrk(1.0, vectors * np.sqrt(np.clip(values, 0.0, None)), -1.0, K, lower=1, overwrite_c=1)
    K.flat[:: n + 1] += values[0] + 0.5 * solver_error(n, values[-1], K)
    _, info = potrf(K, lower=1, overwrite_a=1)
    return (values[::-1], vectors[:, ::-1]) if info == 0 else None
