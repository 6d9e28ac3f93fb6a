"""Distributed PCA for horizontally partitioned data: every party holds some samples with all features.

Fan, Wang, Wang, Zhu, "Distributed estimation of principal eigenspaces", Annals of Statistics 47, 2019.
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def local_eigenvectors(X: Matrix, n_components: int) -> Matrix:
    """What a party sends: leading eigenvectors of the covariance of its samples, (n_features, n_components)."""
    covariance = X.T @ X / X.shape[0]
    n = covariance.shape[0]
    _, V = scipy.linalg.eigh(covariance, subset_by_index=[n - n_components, n - 1])
    return V[:, ::-1]


def fuse(received: Sequence[Matrix], n_components: int) -> Matrix:
    """Leading eigenvectors of the mean of the parties' projections, (n_features, n_components)."""
    n = received[0].shape[0]
    projection = sum((V @ V.T for V in received), np.zeros((n, n))) / len(received)
    _, V = scipy.linalg.eigh(projection, subset_by_index=[n - n_components, n - 1])
    return V[:, ::-1]
