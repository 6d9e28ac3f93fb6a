"""Block Krylov iteration on tiles: exact leading eigenpairs without the matrix."""

from dataclasses import dataclass

import numpy as np

from dkpca.errors import ConvergenceError
from dkpca.linalg.arrays import Array, like, namespace
from dkpca.linalg.eigenpairs import Eigenpairs, from_all_rows, rounding_of, signs_of
from dkpca.linalg.gram import Gram
from dkpca.linalg.landmark import Landmark
from dkpca.linalg.progress import Progress, silent
from dkpca.linalg.strips import cross, times

NOISE = 1e-6  # random part of the start: below the tolerance, but the next block is made of it
MIN_PASSES = 2  # the start may consist of eigenvectors that are not the leading ones
TINY = 1e-30  # keeps 0 / 0 out, in float32 too
SPARE = 10  # directions carried beyond the pairs wanted: they decide how fast the last pair converges
MOST_BLOCKS = 8  # blocks kept before the basis is cut back to its best part


@dataclass(frozen=True)
class Streamed:
    """Exact leading eigenpairs from products with thin blocks.

    The start comes from landmarks, with a little noise so that nothing is orthogonal to it. Every further pass adds
    the residual of the present answer to the basis (Rayleigh and Ritz on a block Krylov space), so that residuals are
    measured and not estimated. It stops when the pairs wanted have converged and none of the others, residual
    included, reaches up to them. As with every Krylov method that is a proof for the pairs, but only strong evidence
    that none is missing: on a spectrum with no decay an eigenvector that no landmark touches can be overlooked.

    Parameters
    ----------
    tolerance : float
        Stop when each pair has a residual |K v - lambda v| of at most this share of its own eigenvalue.
    max_passes : int
        Products with the matrix before giving up.
    n_landmarks : int, optional
        Landmarks for the start; if not given, so many that they cost a fraction of a pass.
    random_state : int
        Seed for picking them.
    progress : Progress
        Told how much of the present pass is done.
    """

    tolerance: float = 1e-6
    max_passes: int = 100
    n_landmarks: int | None = None
    random_state: int = 0
    progress: Progress = silent

    def __call__(self, gram: Gram, k: int) -> Eigenpairs:
        width = min(gram.n, k + max(SPARE, k // 2))
        basis = _orthonormal(self._first_block(gram, width))
        images = gram.product(basis, self.progress)
        for passes in range(1, self.max_passes + 1):
            pairs = _ritz(basis, images)
            worst = pairs.worst(k)
            settled = pairs.following(k) <= (1 + self.tolerance) * float(pairs.values[k - 1]) + pairs.noise()
            if (worst <= self.tolerance and settled and passes >= MIN_PASSES) or basis.shape[1] == gram.n:
                return _result(gram, pairs, k, f"streamed: {passes} passes, residual {worst:.1e}")
            if basis.shape[1] + width > MOST_BLOCKS * width:
                basis, images = pairs.vectors[:, : 2 * width], pairs.images[:, : 2 * width]
            fresh = _outside(basis, pairs.residuals()[:, : min(width, gram.n - basis.shape[1])])
            basis = _beside(basis, fresh)
            images = _beside(images, gram.product(fresh, self.progress))
        raise ConvergenceError(
            f"residual {worst:.1e} after {self.max_passes} passes over the matrix; wanted {self.tolerance:.1e}, "
            "and no other pair that may still reach up; raise the tolerance or ask for another number of components"
        )

    def _first_block(self, gram: Gram, width: int) -> Array:
        """Landmark eigenvectors with a little noise, so that no eigenvector is orthogonal to the start."""
        landmarks = max(4 * width, int(4 * gram.n**0.5)) if self.n_landmarks is None else self.n_landmarks
        start = Landmark(min(landmarks, gram.n), random_state=self.random_state)(gram, width).vectors
        noise = np.random.default_rng(self.random_state).standard_normal((gram.n, width))
        return start + like(noise, gram.reference) * (NOISE / gram.n**0.5)


@dataclass(frozen=True)
class Ritz:
    """Best approximations to eigenpairs inside a subspace."""

    values: Array  # (m,) descending
    vectors: Array  # (n, m)
    images: Array  # (n, m): the matrix times the vectors

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

    def worst(self, k: int) -> float:
        """Largest residual of the first k pairs, each relative to its own eigenvalue."""
        xp = namespace(self.values)
        sizes = self.sizes()[:k]
        floor = self.noise()
        return float(xp.max(xp.clip(sizes - floor, 0.0, None) / xp.clip(self.values[:k], floor + TINY, None)))

    def noise(self) -> float:
        """An eigenvalue or a residual of this size is rounding."""
        return rounding_of(self.vectors, self.values)


def _ritz(basis: Array, images: Array) -> Ritz:
    xp = namespace(basis)
    H = cross(basis, images)
    values, Y = xp.linalg.eigh((H + H.T) / 2)
    Y = xp.flip(Y, axis=1)
    return Ritz(xp.flip(values), times(basis, Y), times(images, Y))


def _result(gram: Gram, pairs: Ritz, k: int, note: str) -> Eigenpairs:
    xp = namespace(pairs.values)
    values = xp.clip(pairs.values[:k], 0.0, None)
    vectors = pairs.vectors[:, :k] * signs_of(pairs.vectors[:, :k])[None, :]
    return Eigenpairs(
        values,
        vectors,
        next_value=pairs.following(k),
        trace=gram.trace(),
        extension=from_all_rows(gram, values, vectors),
        solver=note,
        residual_norm=float(xp.sqrt(xp.sum(pairs.sizes()[:k] ** 2))),
    )


def _outside(basis: Array, block: Array) -> Array:
    """Orthonormal basis of the block's part outside a basis; once more, since the first time rounds."""
    for _ in range(2):
        block = _orthonormal(block - times(basis, cross(basis, block)))
    return block - times(basis, cross(basis, block))


def _orthonormal(block: Array) -> Array:
    xp = namespace(block)
    lengths = xp.sqrt(xp.sum(block * block, axis=0))
    block = block / xp.where(lengths > 0, lengths, xp.ones_like(lengths))[None, :]
    return xp.linalg.qr(block)[0]


def _beside(left: Array, right: Array) -> Array:
    return namespace(left, right).concat([left, right], axis=1)
