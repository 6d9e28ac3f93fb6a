"""The paper's simulated data: a few equal leading eigenvalues, a step, a floor, then nothing."""

import numpy as np
from numpy.typing import NDArray

LEADING, STEP, FLOOR, RANK = 5000.0, 2500.0, 50.0, 50


def covariance_eigenvalues(n_leading: int, rank: int = RANK) -> NDArray[np.float64]:
    """`n_leading` eigenvalues of 5000, one of 2500, then 50 up to the rank."""
    return np.concatenate([np.full(n_leading, LEADING), [STEP], np.full(rank - n_leading - 1, FLOOR)])


def low_rank(
    n_samples: int, n_features: int, n_leading: int, rng: np.random.Generator, rank: int = RANK
) -> NDArray[np.float64]:
    """X = V S U' with random orthonormal U and V, samples x features."""
    left = _orthonormal(n_samples, rank, rng)
    right = _orthonormal(n_features, rank, rng)
    return (left * np.sqrt(covariance_eigenvalues(n_leading, rank))) @ right.T


def _orthonormal(n: int, k: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Orthonormal columns, uniform among all such."""
    Q, R = np.linalg.qr(rng.standard_normal((n, k)))
    return Q * np.sign(np.diag(R))  # without the signs QR is not uniform
