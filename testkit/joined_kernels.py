"""What scikit-learn makes of a joined table, for every kernel of ours, and tables that suit it."""

import numpy as np
from sklearn.metrics.pairwise import (
    chi2_kernel,
    cosine_similarity,
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)

T, NEW = 40, 7


def overlap_kernel(X, Y, gamma):
    return np.exp(-gamma * (X[:, None, :] != Y[None, :, :]).sum(-1))


JOINED = {
    "rbf": lambda X, Y: rbf_kernel(X, Y, gamma=1 / X.shape[1]),
    "linear": linear_kernel,
    "laplacian": lambda X, Y: laplacian_kernel(X, Y, gamma=1 / X.shape[1]),
    "poly": lambda X, Y: polynomial_kernel(X, Y, degree=3, gamma=1 / X.shape[1], coef0=1),
    "cosine": cosine_similarity,
    "chi2": lambda X, Y: chi2_kernel(X, Y, gamma=1.0),
    "overlap": lambda X, Y: overlap_kernel(X, Y, 1 / X.shape[1]),
}


def table(rng, kernel, n=T + NEW):
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, 12)) + 0.3 * rng.standard_normal((n, 12))
    if kernel == "overlap":
        return np.round(X / 2)
    return np.abs(X) if kernel == "chi2" else X


def fused_matrix(model):
    """The matrix that a model is about, uncentered."""
    fused, summaries = model.model_, model.model_.summaries.values()
    factors = [s.factor.decode() * fused.weights[s.party] ** 0.5 for s in summaries]
    diagonals = [s.diagonal.decode()[:, 0] for s in summaries if s.diagonal is not None]
    merged = fused.law.merge(fused.law.parts(factors, diagonals))
    return fused.law.recombine(A @ A.T for A in merged)
