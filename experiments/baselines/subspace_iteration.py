"""Exact linear PCA of vertically partitioned data by subspace iteration: many rounds instead of one.

A round: the center sends a T x D basis to every party, each answers with its Gram matrix times the basis,
the center adds the answers up and orthonormalizes. It works because linear Gram matrices add; a product of
kernels cannot be applied to a basis party by party, so there is no such iteration for the RBF kernel.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


def answer(X: Matrix, basis: Matrix) -> Matrix:
    """What a party with columns X returns in a round, (n_samples, n_components)."""
    return X @ (X.T @ basis)


def iterate(parties: Sequence[Matrix], start: Matrix) -> Iterator[Matrix]:
    """Orthonormal basis after each round, without end, from a start of shape (n_samples, n_components)."""
    basis = np.linalg.qr(start)[0]
    while True:
        basis = np.linalg.qr(sum(answer(X, basis) for X in parties))[0]
        yield basis


def numbers_per_round(n_samples: int, n_components: int) -> int:
    """Numbers a party sends in a round; it receives as many."""
    return n_samples * n_components
