"""The linear kernel: ordinary PCA of the joined table."""

import math
from dataclasses import dataclass
from typing import ClassVar

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import SUM, Law
from dkpca.linalg.arrays import Array, namespace
from dkpca.linalg.moments import column_means
from dkpca.linalg.rounding import growth, quiet, unit


@dataclass(frozen=True)
class Linear(Kernel):
    """Inner products add over parties, so Gram matrices add: eq. (2) of the paper.

    Parameters
    ----------
    centered : bool
        Measure each column from its mean. The centered global Gram matrix is the sum of the parties'
        centered ones, so a party spends none of its rank on the mean. The paper's experiments do not center.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.Linear()(np.eye(2), np.eye(2))
    array([[1., 0.],
           [0., 1.]])
    """

    centered: bool = True
    name: ClassVar[str] = "linear"
    takes_sparse: ClassVar[bool] = True

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "Linear":
        return cls(centered=centered)

    @property
    def law(self) -> Law:
        return SUM

    def __post_init__(self) -> None:
        if not isinstance(self.centered, bool):
            raise InputError(f"centered is {self.centered!r}; the linear kernel needs True or False")

    def origin(self, X: Array) -> Array:
        xp = namespace(X)
        with quiet():
            mean = column_means(X)
        return mean if self.centered else xp.zeros_like(mean)

    def __call__(self, X: Array, Y: Array) -> Array:
        return X @ Y.T

    def partial(self, X: Array, Y: Array) -> Array:
        return X @ Y.T

    def finish(self, total: Array) -> Array:
        return total

    def diagonal(self, X: Array) -> Array:
        return namespace(X).sum(X * X, axis=1)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        measured = self.centered and origin is not None
        return super().relative_error(X, origin) + (_mean_error(X) if measured else 0.0)

    def explicit_features(self, X: Array) -> Array | None:
        return X

    def revealed(self, rank: int, n_features: int) -> str:
        what = "all columns" if rank >= n_features else f"the {rank} leading directions of the {n_features} columns"
        return f"{what} up to a rotation: whoever knows the values of a few samples can work out those of the others"


def _mean_error(X: Array) -> float:
    """What a mean that is itself rounded adds to inner products, as a share of their trace.

    The mean that is left in the columns tells how far the one subtracted was from the true one.
    """
    xp = namespace(X)
    left = xp.abs(xp.mean(X, axis=0)) + 2.0 * growth(X.shape[0]) * unit(X) * xp.mean(xp.abs(X), axis=0)
    size = float(xp.max(xp.abs(X)))
    if size == 0.0:
        return 0.0
    left, X = left / size, X / size  # squares of very small numbers would vanish
    share = math.sqrt(float(X.shape[0] * xp.sum(left * left) / xp.sum(X * X)))
    return 2.0 * share + share * share
