"""A kernel matrix that the party brings itself: of strings, graphs, images, whatever it can compare."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.linalg.arrays import Array, eps, namespace, to_numpy
from dkpca.linalg.rows import Index, pick

ROUNDED_TO = 2.0**-24  # a matrix whose numbers are float32 may have eigenvalues so far below zero, by its trace


@dataclass(frozen=True)
class Precomputed(Kernel):
    """The table is the kernel matrix; rows of new samples are their kernel values with the samples of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> similar = np.array([[1.0, 0.9, 0.1], [0.9, 1.0, 0.2], [0.1, 0.2, 1.0]])
    >>> dkpca.DKPCA(2, kernel="precomputed", law="sum").fit_transform({"lab": similar}).shape
    (3, 2)
    """

    name: ClassVar[str] = "precomputed"
    columns_are: ClassVar[str] = "samples"
    law = None
    reveals: ClassVar[str] = "how similar any two samples are by the party's own measure"

    def check(self, X: Array) -> None:
        xp = namespace(X)
        if X.shape[0] != X.shape[1]:
            raise InputError(f"a precomputed kernel matrix must be square; this one is {X.shape[0]} x {X.shape[1]}")
        if float(xp.max(xp.abs(X - X.T))) > max(100 * eps(X), 2.0 * ROUNDED_TO) * float(xp.max(xp.abs(X))):
            raise InputError("a precomputed kernel matrix must be symmetric, but this one is not")
        allowed, below = ROUNDED_TO * float(np.sum(np.abs(np.diagonal(to_numpy(X)).astype(float)))), _below_zero(X)
        if below > allowed:
            raise InputError(
                f"a precomputed kernel matrix is positive semidefinite; this one has an eigenvalue of {-below:.3g}; "
                f"use another measure of similarity, or add {below:.3g} to the diagonal"
            )

    def __call__(self, X: Array, Y: Array) -> Array:
        """Columns of X at the positions in Y, as `anchors` gives them."""
        xp = namespace(X, Y)
        return xp.take(X, xp.astype(Y[:, 0], xp.int64), axis=1)

    def diagonal(self, X: Array) -> Array:
        return namespace(X).linalg.diagonal(X)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        # The matrix is what it is, but for eigenvalues below zero, as many as it has rows, in either norm; and for
        # entries that differ from those across the diagonal: solvers read one of the two, and their mean is meant.
        xp = namespace(X)
        trace = float(xp.sum(self.diagonal(X)))
        if not trace > 0:
            return 0.0
        asymmetry = float(xp.linalg.matrix_norm((X - X.T) / trace))
        return float(2.0 * X.shape[0] * _below_zero(X) / trace + asymmetry)

    def block(self, X: Array, rows: Index, columns: Index) -> Array:
        return namespace(X).asarray(pick(pick(X, rows).T, columns).T, copy=True)  # solvers write over what they get

    def rows(self, X: Array, positions: Array) -> Array:
        return self.block(X, positions, positions)

    def anchors(self, X: Array, positions: Array | None) -> Array:
        xp = namespace(X)
        if positions is None:
            positions = xp.arange(X.shape[0], device=X.device)
        return xp.astype(positions, X.dtype)[:, None]


def _below_zero(X: Array) -> float:
    """How far the least eigenvalue is below zero; 0 if it is not, but for the rounding of its computation."""
    # A Cholesky factor of K + slack I exists if and only if no eigenvalue is below -slack; else they are computed.
    K = to_numpy(X).astype(float)
    diagonal = np.diagonal(K)
    slack = len(diagonal) * np.finfo(float).eps * max(float(np.abs(diagonal).max()), np.finfo(float).tiny)
    try:
        np.linalg.cholesky(K + np.diag(np.full(len(diagonal), slack)))
    except np.linalg.LinAlgError:
        size = max(float(np.abs(K).max()), np.finfo(float).tiny)
        return max(0.0, -float(np.linalg.eigvalsh((K / size + K.T / size) / 2)[0]) * size)
    return 0.0
