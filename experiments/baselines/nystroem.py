"""One-shot vertical Nystroem: all parties use the same uniformly drawn landmark samples.

A party sends what adds up over parties (squared distances, inner products) between all samples and the
landmarks, T x L numbers; the center forms those columns of the global Gram matrix and completes it as
C W^+ C'.
"""

from collections.abc import Sequence

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from dkpca.kernels import Kernel, Linear
from dkpca.kernels.grams import FusedGram
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.precision import Rounded, round_to

Matrix = NDArray[np.float64]


def landmarks(n_samples: int, n_landmarks: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Positions that all parties agree on before they look at data."""
    return np.sort(rng.choice(n_samples, n_landmarks, replace=False))


def message(X: Matrix, chosen: NDArray[np.intp], kernel: Kernel, precision: str = "float64") -> Rounded:
    """What a party sends, (n_samples, n_landmarks)."""
    X = X - kernel.origin(X)
    return round_to(kernel.partial(X, X[chosen]), precision)


def fuse(received: Sequence[Rounded], chosen: NDArray[np.intp], kernel: Kernel, *, center: bool = True) -> Gram:
    """The completed Gram matrix, known by its factor C W^(-1/2)."""
    C = kernel.finish(sum(part.decode() for part in received))
    W = 0.5 * (C[chosen] + C[chosen].T)
    values, V = scipy.linalg.eigh(W)
    rounding = max(np.finfo(received[0].data.dtype).eps, np.finfo(float).eps)
    kept = values > values[-1] * len(values) * rounding  # an eigenvalue that is only rounding would be inverted
    gram = FusedGram(Linear().law, [(C @ V[:, kept]) / np.sqrt(values[kept])])
    return Centered(gram) if center else gram
