"""Independent components of a cloud of points: FastICA (Hyvarinen 1999), symmetric, with tanh."""

from typing import Any

import numpy as np

Matrix = np.ndarray[Any, Any]
PASSES, TOLERANCE = 200, 1e-6


def independent_components(points: Matrix, *, random_state: int = 0) -> Matrix:
    """Return centered components of length 1, as many as the points have dimensions, in no order and of any sign."""
    X = points - points.mean(axis=0)
    U, lengths, _ = np.linalg.svd(X, full_matrices=False)
    U = U[:, lengths > 1e-9 * max(float(lengths.max(initial=0.0)), 1e-300)]  # length 1, uncorrelated
    n, k = U.shape
    if k == 0:
        return np.zeros((n, 1))
    white = U * np.sqrt(n)
    W = _orthogonal(np.random.default_rng(random_state).normal(size=(k, k)))
    for _ in range(PASSES):
        found = np.tanh(white @ W)
        turned = _orthogonal(white.T @ found / n - W * (1.0 - (found**2).mean(axis=0)))
        moved = float(np.max(np.abs(np.abs((turned * W).sum(axis=0)) - 1.0)))
        W = turned
        if moved < TOLERANCE:
            break
    return np.asarray(U @ W)


def _orthogonal(W: Matrix) -> Matrix:
    """Nearest orthogonal matrix."""
    left, _, right = np.linalg.svd(W, full_matrices=False)
    return np.asarray(left @ right)
