"""The cosine kernel: inner products of samples of length 1."""

from dataclasses import dataclass, replace
from typing import ClassVar

from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import COSINE, Law
from dkpca.linalg.arrays import Array, namespace


@dataclass(frozen=True)
class CosineKernel(Kernel):
    """Inner products and squared lengths add over parties; the center divides one by the other.

    Parameters
    ----------
    own : bool
        False: the kernel of the joined table, for which a party sends inner products and squared lengths. True: the
        cosine kernel of the party's own columns.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> dkpca.kernels.CosineKernel(own=True)(np.array([[2.0, 0.0]]), np.array([[5.0, 0.0]]))
    array([[1.]])
    """

    own: bool = False
    name: ClassVar[str] = "cosine"

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> "CosineKernel":
        return cls()

    @property
    def law(self) -> Law | None:
        return None if self.own else COSINE

    def __call__(self, X: Array, Y: Array) -> Array:
        return _unit(X) @ _unit(Y).T if self.own else X @ Y.T

    def diagonal(self, X: Array) -> Array:
        X = _unit(X) if self.own else X
        return namespace(X).sum(X * X, axis=1)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        return super().relative_error(X, origin) * (3 if self.own else 1)  # the lengths are rounded too

    def explicit_features(self, X: Array) -> Array | None:
        return _unit(X) if self.own else X

    def alone(self) -> "CosineKernel":
        return replace(self, own=True)

    def revealed(self, rank: int, n_features: int) -> str:
        if self.own:
            return "the angle between any two samples over this party's columns, to the accuracy of the factor"
        return "inner products of any two samples over this party's columns, and the length of each sample"


def _unit(X: Array) -> Array:
    xp = namespace(X)
    largest = xp.max(xp.abs(X), axis=1, keepdims=True)  # first to size one, so that no square over- or underflows
    X = X / xp.where(largest > 0, largest, xp.ones_like(largest))
    lengths = xp.sqrt(xp.sum(X * X, axis=1, keepdims=True))
    return X / xp.where(lengths > 0, lengths, xp.ones_like(lengths))
