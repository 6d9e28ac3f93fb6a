"""Matrices written down."""

import numpy as np

from dkpca.linalg.gram import Gram
from dkpca.linalg.rows import Made


class Given(Gram):
    """A matrix written down."""

    def __init__(self, K):
        self.K, self.n, self.reference, self.home = K, K.shape[0], K, K

    def diagonal(self):
        return np.diagonal(self.K)

    def block(self, rows, columns):
        return self.K[rows][:, columns].copy()

    def against(self, columns):
        def make(start, numbers):
            return self.block(numbers, columns)

        return Made((np.arange(self.n),), make, columns.shape[0])

    def among(self, positions):
        return Given(self.block(positions, positions))


def with_spectrum(values, rng):
    """A matrix with these eigenvalues, and its eigenvectors."""
    Q, _ = np.linalg.qr(rng.standard_normal((len(values), len(values))))
    return Given((Q * values) @ Q.T), Q


def centered(K):
    """Rows and columns that sum to zero."""
    return K - K.mean(0) - K.mean(1)[:, None] + K.mean()
