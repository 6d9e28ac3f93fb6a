"""The linear kernel: ordinary PCA of the joined table."""

from dataclasses import dataclass
from typing import ClassVar

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import SUM, Law
from dkpca.linalg.arrays import Array, namespace


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
    law: ClassVar[Law] = SUM

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "Linear":
        return cls(centered=centered)

    def __post_init__(self) -> None:
        if not isinstance(self.centered, bool):
            raise InputError(f"centered is {self.centered!r}; the linear kernel needs True or False")

    def origin(self, X: Array) -> Array:
        xp = namespace(X)
        mean = xp.mean(X, axis=0)
        return mean if self.centered else xp.zeros_like(mean)

    def partial(self, X: Array, Y: Array) -> Array:
        return X @ Y.T

    def finish(self, total: Array) -> Array:
        return total

    def diagonal(self, X: Array) -> Array:
        return namespace(X).sum(X * X, axis=1)

    def explicit_features(self, X: Array) -> Array | None:
        return X

    def revealed(self, rank: int, n_features: int) -> str:
        what = "all columns" if rank >= n_features else f"the {rank} leading directions of the {n_features} columns"
        return f"{what} up to a rotation: whoever knows the values of a few samples can work out those of the others"
