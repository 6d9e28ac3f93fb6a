"""Block Krylov iteration on tiles: exact leading eigenpairs without the matrix."""

from dataclasses import dataclass, field

import numpy as np

from dkpca.arrays import Array, eps, like, namespace
from dkpca.eigenpairs import Eigenpairs, from_all_rows, signs_of
from dkpca.errors import ConvergenceError
from dkpca.gram import Gram
from dkpca.progress import Progress, silent
from dkpca.solvers.landmark import Landmark

NOISE = 1e-3  # random part of the start
MIN_PASSES = 2  # the start may consist of eigenvectors that are not the leading ones
TINY = 1e-300
SPARE = 10  # directions carried beyond the pairs wanted: they decide how fast the last pair converges
MOST_BLOCKS = 8  # blocks kept before the basis is cut back to its best part


@dataclass(frozen=True)
class Streamed:
    """Exact leading eigenpairs from products with thin blocks.

    The start comes from landmarks, with a few random directions so that nothing can be orthogonal to it. Every
    further pass adds the residual of the present answer to the basis (Rayleigh and Ritz on a block Krylov
    space), so that the residual is measured and not estimated. The eigenvalue behind the last pair is a Ritz
    value plus its residual: a bound unless an eigenvector is orthogonal to a random block.

    Parameters
    ----------
    tolerance : float
        Stop when each pair has a residual |K v - lambda v| of at most this share of its own eigenvalue.
    max_passes : int
        Products with the matrix before giving up.
    start : Landmark
        Solver for the start.
    progress : Progress
        Told how much of the present pass is done.
    """

    tolerance: float = 1e-6
    max_passes: int = 100
    start: Landmark = field(default_factory=Landmark)
    progress: Progress = silent

    def __call__(self, gram: Gram, k: int) -> Eigenpairs:
        width = min(gram.n, k + max(SPARE, k // 2))
        basis = _orthonormal(self._first_block(gram, width))
        images = gram.product(basis, self.progress)
        for passes in range(1, self.max_passes + 1):
            pairs = _ritz(basis, images)
            worst = pairs.worst(k)
            if (worst <= self.tolerance and passes >= MIN_PASSES) or basis.shape[1] == gram.n:
                return _result(gram, pairs, k, f"streamed: {passes} passes, residual {worst:.1e}")
            if basis.shape[1] + width > MOST_BLOCKS * width:
                basis, images = pairs.vectors[:, : 2 * width], pairs.images[:, : 2 * width]
            fresh = _outside(basis, pairs.residuals()[:, : min(width, gram.n - basis.shape[1])])
            basis = _beside(basis, fresh)
            images = _beside(images, gram.product(fresh, self.progress))
        raise ConvergenceError(
            f"residual {worst:.1e} after {self.max_passes} passes over the matrix, above {self.tolerance:.1e}; "
            "raise the tolerance or ask for another number of components"
        )

    def _first_block(self, gram: Gram, width: int) -> Array:
        """Landmark eigenvectors with a little noise, so that no eigenvector is orthogonal to the start."""
        rng = np.random.default_rng(self.start.random_state)
        noise = like(rng.standard_normal((gram.n, width)), gram.reference)
        return self.start(gram, width).vectors + noise * (NOISE / gram.n**0.5)


@dataclass(frozen=True)
class Ritz:
    """Best approximations to eigenpairs inside a subspace."""

    values: Array  # (m,) descending
    vectors: Array  # (n, m)
    images: Array  # (n, m): the matrix times the vectors

    def residuals(self) -> Array:
        """What the pairs lack to be eigenpairs."""
        return self.images - self.vectors * self.values[None, :]

    def worst(self, k: int) -> float:
        """Largest residual of the first k pairs, each relative to its own eigenvalue."""
        xp = namespace(self.values)
        sizes = xp.sqrt(xp.sum(self.residuals()[:, :k] ** 2, axis=0))
        floor = eps(self.values) * self.vectors.shape[0] * xp.abs(self.values[0])  # an eigenvalue of zero is rounding
        return float(xp.max(xp.clip(sizes - floor, 0.0, None) / xp.maximum(self.values[:k], floor + TINY)))


def _ritz(basis: Array, images: Array) -> Ritz:
    xp = namespace(basis)
    H = basis.T @ images
    values, Y = xp.linalg.eigh((H + H.T) / 2)
    Y = xp.flip(Y, axis=1)
    return Ritz(xp.flip(values), basis @ Y, images @ Y)


def _result(gram: Gram, pairs: Ritz, k: int, note: str) -> Eigenpairs:
    xp = namespace(pairs.values)
    residuals = pairs.residuals()
    following = 0.0
    if pairs.values.shape[0] > k:
        following = max(0.0, float(pairs.values[k])) + float(xp.sqrt(xp.sum(residuals[:, k] ** 2)))
    values = xp.clip(pairs.values[:k], 0.0, None)
    vectors = pairs.vectors[:, :k] * signs_of(pairs.vectors[:, :k])[None, :]
    return Eigenpairs(
        values,
        vectors,
        next_value=following,
        trace=gram.trace(),
        extension=from_all_rows(gram, values, vectors),
        solver=note,
        residual_norm=float(xp.sqrt(xp.sum(residuals[:, :k] ** 2))),
    )


def _outside(basis: Array, block: Array) -> Array:
    """Orthonormal basis of the block's part outside a basis; once more, since the first time rounds."""
    for _ in range(2):
        block = _orthonormal(block - basis @ (basis.T @ block))
    return block - basis @ (basis.T @ block)


def _orthonormal(block: Array) -> Array:
    xp = namespace(block)
    lengths = xp.sqrt(xp.sum(block * block, axis=0))
    block = block / xp.where(lengths > 0, lengths, xp.ones_like(lengths))[None, :]
    return xp.linalg.qr(block)[0]


def _beside(left: Array, right: Array) -> Array:
    return namespace(left, right).concat([left, right], axis=1)
