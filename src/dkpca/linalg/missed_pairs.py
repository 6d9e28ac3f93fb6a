"""Was an eigenvector missed? A random search of what the pairs found leave of the matrix.

A few steps of block Lanczos with a random start on (I - VV') K (I - VV'). Kuczynski and Wozniakowski (1992),
*Estimating the largest eigenvalue by the power and Lanczos algorithms with a random start*: after q steps from one
random vector the largest Ritz value is below (1 - e) times the largest eigenvalue with probability at most
1.648 sqrt(n) exp(-sqrt(e) (2 q - 1)); several independent vectors at once can only do better than each of them.
"""

import math
from dataclasses import dataclass

import numpy as np

from dkpca.linalg.arrays import Array, like, namespace
from dkpca.linalg.eigenpairs import Probe, beside, orthonormal, outside, ritz
from dkpca.linalg.gram import Gram
from dkpca.linalg.rows import Progress, cross, times

STEPS = 4
COLUMNS = 16
CONFIDENCE = 1.0 - 1e-6


@dataclass(frozen=True)
class Found:
    """What a search came upon."""

    highest: float  # largest Ritz value
    vectors: Array  # Ritz vectors, those of the largest values first
    columns: int  # random vectors it started from
    n: int

    def said(self) -> Probe:
        """Return how much larger than everything found an eigenvalue must be not to be missed."""
        return statement(self.n, self.columns)


def statement(n: int, columns: int) -> Probe:
    """Return what a search from so many random vectors says; of very many samples, nothing."""
    per_column = math.log(1.648 * math.sqrt(n)) - math.log(1.0 - CONFIDENCE) / max(columns, 1)
    share = (per_column / (2 * STEPS - 1)) ** 2
    return Probe(1.0 / (1.0 - share) if share < 1.0 else math.inf, CONFIDENCE)


def search(gram: Gram, V: Array, seed: int, progress: Progress) -> Found:
    """Search outside the orthonormal columns of V."""
    xp = namespace(V)
    n, k = V.shape
    columns = min(COLUMNS, (n - k) // STEPS)
    if columns < 1:
        return Found(0.0, V[:, :0], 0, n)
    start = like(np.random.default_rng([seed, n]).standard_normal((n, columns)), gram.reference)
    block, basis, images = outside(V, start), V[:, :0], V[:, :0]
    for step in range(STEPS):
        image = gram.product(block, progress)
        image = image - times(V, cross(V, image))
        basis, images = beside(basis, block), beside(images, image)
        if step + 1 < STEPS:
            block = outside(beside(V, basis), image)
    pairs = ritz(basis, images)
    return Found(max(0.0, float(xp.max(pairs.values))), orthonormal(pairs.vectors[:, :columns]), columns, n)
