"""From scores back to a party's own columns: kernel ridge regression, by the party alone, as KernelPCA does it.

The party has its columns, and the scores that the center sent back. Columns are measured from their means, so that
the ridge shrinks towards those. With up to `CENTERS` samples this is kernel ridge on all of them; with more, on
features made of so many, so that it stays linear in the samples.
"""

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels import RBF, Kernel
from dkpca.linalg.arrays import Array, like, to_numpy
from dkpca.party.state import PartyState

CENTERS = 500
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


def columns_of(state: PartyState, fitted: Matrix, scores: Matrix, *, kernel: Kernel, alpha: float) -> Array:
    """Estimate the party's columns for samples with these scores, by a kernel between scores and a ridge `alpha`.

    The state has its rows; `fitted` are the scores of the samples of the fit.
    """
    if state.anchors is None or state.kernel.columns_are != "quantities":
        raise InputError(f"party {state.party!r} has no numeric columns to reconstruct")
    positions = slice(None) if state.positions is None else to_numpy(state.positions)
    Z, X = fitted[positions], np.asarray(to_numpy(state.anchors), dtype=np.float64)
    # Nystroem features of the scores, F = k(Z, C) k(C, C)^(-1/2), then ridge: W = (F'F + alpha I)^-1 F'(X - mean).
    # With all samples as centers this is kernel ridge regression itself.
    centers = Z[np.sort(np.random.default_rng(0).permutation(len(Z))[:CENTERS])]
    values, vectors = np.linalg.eigh(np.asarray(kernel(centers, centers)))
    kept = values > len(values) * np.finfo(float).eps * values[-1]
    root = vectors[:, kept] / np.sqrt(values[kept])
    features = np.asarray(kernel(Z, centers)) @ root
    ridge = features.T @ features + alpha * np.eye(features.shape[1])
    middle = X.mean(axis=0)
    X_new = np.asarray(kernel(scores, centers)) @ (root @ np.linalg.solve(ridge, features.T @ (X - middle)))
    X_new = X_new + middle + to_numpy(state.origin)
    if state.shift is not None and state.scale is not None:
        X_new = X_new * to_numpy(state.scale) + to_numpy(state.shift)
    return like(X_new, state.origin)


def kernel_of_scores(kernels: list[Kernel], fitted: Matrix) -> Kernel:
    """The kernel of the fit, if it is one RBF or linear kernel; else RBF by the mean squared distance of scores."""
    same = kernels[0].on_scores() if len(set(kernels)) == 1 else None
    return same or RBF(1.0 / max(2.0 * float(fitted.var(axis=0).sum()), np.finfo(float).tiny))
