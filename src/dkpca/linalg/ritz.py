"""Rayleigh and Ritz: the best eigenpairs inside a subspace, and bases of subspaces."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.linalg.arrays import Array, eps, like, namespace, on_gpu, to_numpy
from dkpca.linalg.eigenpairs import rounding_of
from dkpca.linalg.strips import cross, multiply, times

WELL_CONDITIONED = 1e-4  # smallest eigenvalue of the cross product of columns of length one
EVEN = 64.0  # epsilons by which the lengths of eigenvectors may differ from one
TINY = 1e-30  # keeps 0 / 0 out, in float32 too


@dataclass(frozen=True)
class Ritz:
    """Best approximations to eigenpairs inside a subspace."""

    values: Array  # (m,) descending
    vectors: Array  # (n, m)
    images: Array  # (n, m): the matrix times the vectors
    floor: float = 0.0  # below which the matrix itself is rounding

    def residuals(self) -> Array:
        """What the pairs lack to be eigenpairs."""
        return self.images - self.vectors * self.values[None, :]

    def sizes(self) -> Array:
        """Lengths of the residuals."""
        xp = namespace(self.values)
        return xp.sqrt(xp.sum(self.residuals() ** 2, axis=0))

    def following(self, k: int) -> float:
        """Largest eigenvalue that the pairs behind the first k may still turn out to be."""
        xp = namespace(self.values)
        rest = (self.values + self.sizes())[k:]
        return max(0.0, float(xp.max(rest))) if rest.shape[0] else 0.0

    def total(self, k: int) -> float:
        """Sum of the first k values: no eigenvalue left out exceeds what the trace has beyond it."""
        return float(namespace(self.values).sum(self.values[:k]))

    def worst(self, k: int) -> float:
        """Largest residual of the first k pairs, each relative to its own eigenvalue."""
        xp = namespace(self.values)
        sizes = self.sizes()[:k]
        floor = self.noise()
        return float(xp.max(xp.clip(sizes - floor, 0.0, None) / xp.clip(self.values[:k], floor + TINY, None)))

    def noise(self) -> float:
        """An eigenvalue or a residual of this size is rounding."""
        return max(rounding_of(self.vectors.shape[0], self.values), self.floor)


def ritz(basis: Array, images: Array, floor: float = 0.0) -> Ritz:
    """Pairs of the matrix whose products with an orthonormal basis are given."""
    xp = namespace(basis)
    H = cross(basis, images)
    values, Y = xp.linalg.eigh((H + H.T) / 2)
    Y = xp.flip(Y, axis=1)
    return Ritz(xp.flip(values), times(basis, Y), times(images, Y), floor)


def outside(basis: Array, block: Array) -> Array:
    """Orthonormal columns outside a basis: the block's, and random ones in place of those that vanish there.

    Three times: the first rounds what it takes away, and what had vanished is only rounding until it is made anew.
    """
    for _ in range(3):
        block = orthonormal(block - times(basis, cross(basis, block)))
    return block


def orthonormal(block: Array) -> Array:
    """Orthonormal basis of the columns; a column that is zero is replaced by a random one."""
    xp = namespace(block)
    lengths = xp.sqrt(xp.sum(block * block, axis=0))
    if not bool(xp.all(lengths > 0)):
        filler = like(np.random.default_rng(block.shape[1]).standard_normal(tuple(block.shape)), block)
        block = xp.where(lengths[None, :] > 0, block, filler)
        lengths = xp.sqrt(xp.sum(block * block, axis=0))
    block = block / lengths[None, :]
    quick = _by_cross_product(block) if on_gpu(block) else None
    return xp.linalg.qr(block)[0] if quick is None else quick


def _by_cross_product(block: Array) -> Array | None:
    """Orthonormal basis by B'B: QR of a tall block is slow on a GPU. None if digits would be lost."""
    for _ in range(2):  # the second time takes out what the first rounded
        values, Q = np.linalg.eigh(to_numpy(cross(block, block)))  # small: a GPU takes longer
        if not values[0] > WELL_CONDITIONED:
            return None
        block = times(block, like(Q / np.sqrt(values)[None, :], block))
    return block


def beside(left: Array, right: Array) -> Array:
    """Columns of both."""
    return namespace(left, right).concat([left, right], axis=1)


def orthonormalize(vectors: Array, square: Array, values: np.ndarray[Any, Any]) -> float:
    """Make columns orthonormal to the last digit, directions kept; return how far that moves the matrix they span.

    The symmetric way, V (V'V)^(-1/2): twice is enough. Zero columns are filled in.
    """
    moved = 0.0
    Lambda = np.diag(np.append(values, np.zeros(vectors.shape[1] - len(values))))
    for _ in range(2):
        sizes, Q = np.linalg.eigh(to_numpy(square).astype(float))
        if np.abs(sizes - 1.0).max() <= EVEN * eps(vectors):
            return moved
        if sizes[0] < 0.5:
            return moved + _filled(vectors, Lambda)
        root = (Q * np.sqrt(sizes)) @ Q.T
        moved += float(np.linalg.norm(root @ Lambda @ root - Lambda, 2))
        multiply(vectors, like((Q / np.sqrt(sizes)) @ Q.T, vectors))
        square = cross(vectors, vectors)
    return moved


def _filled(vectors: Array, Lambda: np.ndarray[Any, Any]) -> float:
    """Make columns orthonormal one after the other, in place."""
    xp = namespace(vectors)
    Q, R = xp.linalg.qr(vectors)
    diagonal = xp.linalg.diagonal(R)
    signs = xp.where(diagonal < 0, -xp.ones_like(diagonal), xp.ones_like(diagonal))
    vectors[...] = Q * signs[None, :]
    R = to_numpy(R).astype(float)
    return float(np.linalg.norm(R @ Lambda @ R.T - Lambda, 2))
