"""Would other samples show the same? Two fits on halves of the samples, compared where they place all of them."""

from collections.abc import Callable

import numpy as np

from dkpca.linalg.arrays import Array
from dkpca.metrics import principal_angles


def split_half(place: Callable[[np.ndarray], Array], n_samples: int, *, repeats: int, seed: int) -> list[float]:
    """Agreement of the first one, two, ... components, from 0 (nothing in common) to 1 (the same subspace).

    `place` fits on the samples it is given and returns the scores of all. The agreement is the mean squared cosine of
    the principal angles between the two sets of scores, so that neither order nor sign of components matters.
    """
    found = []
    for repeat in range(repeats):
        order = np.random.default_rng([seed, repeat]).permutation(n_samples)
        halves = order[: n_samples // 2], order[n_samples // 2 :]
        one, other = (_basis(place(np.sort(half))) for half in halves)
        found.append([_agreement(one[:, :d], other[:, :d]) for d in range(1, one.shape[1] + 1)])
    return [float(value) for value in np.mean(found, axis=0)]


def _agreement(V: Array, V_hat: Array) -> float:
    return float(np.mean(np.cos(principal_angles(V, V_hat)) ** 2))


def _basis(scores: Array) -> Array:
    """Orthonormal columns; the first d of them span the first d components."""
    return np.linalg.qr(scores - scores.mean(axis=0))[0]
