"""What a matrix in few digits shows before it is passed over in all of them.

A block Krylov space of the matrix in few digits, from a start and random columns. Its best vectors are off by the
rounding of the matrix alone; it says how to correct them, once that has been measured in all digits; and since the
random columns know nothing of the start, what the space has outside of the pairs found is a search for missed ones.
"""

from dataclasses import dataclass

import numpy as np

from dkpca.linalg.arrays import Array, like, random_normal, to_numpy
from dkpca.linalg.eigenpairs import Ritz, beside, orthonormal, outside, ritz
from dkpca.linalg.gram import Gram
from dkpca.linalg.missed_pairs import COLUMNS, STEPS, Found
from dkpca.linalg.rows import Progress, cross, times

CORRECTING = 2  # passes to correct what was measured
INDEPENDENT = 1e-4  # squared length that a direction must have outside of the others
MOST_COLUMNS = 8  # blocks as wide as the first one that the space and its corrections may come to


@dataclass(frozen=True)
class LowPrecision:
    """A space of the matrix in few digits, by its Ritz pairs."""

    gram: Gram  # in few digits
    pairs: Ritz
    progress: Progress

    @classmethod
    def of(cls, gram: Gram, start: Array, seed: int, progress: Progress) -> "LowPrecision":
        """Pass over the matrix as often as a search for missed pairs does."""
        random = random_normal((gram.n, COLUMNS), [seed, gram.n], gram.reference)
        block = orthonormal(beside(like(start, gram.reference), random))
        basis = images = block[:, :0]
        for step in range(STEPS):
            image = gram.product(block, progress)
            basis, images = beside(basis, block), beside(images, image)
            if step + 1 < STEPS:
                block = outside(basis, image)
        return cls(gram, ritz(basis, images), progress)

    def corrections(self, found: Ritz, width: int) -> Array:
        """Directions in which the first pairs found are off.

        Rayleigh and Ritz once more, with the pairs and their residuals as measured in all digits, and few digits for
        what the matrix does to all the rest: an error of one is then an error of a correction only.
        """
        few = self.gram.reference
        V, residuals = like(found.vectors[:, :width], few), like(found.residuals()[:, :width], few)
        Z, images = self.pairs.vectors[:, width:], self.pairs.images[:, width:]
        shown = cross(V, Z)
        Z, images = Z - times(V, shown), images - times(like(found.images[:, :width], few), shown)
        chain, block = V, outside(V, residuals)  # not outside of Z: a correction is mostly one of these columns
        for step in range(CORRECTING):
            image = self.gram.product(block, self.progress)
            Z, images, chain = beside(Z, block), beside(images, image), beside(chain, block)
            if step + 1 < CORRECTING:
                block = outside(chain, image)
        square, own, coupling = (
            to_numpy(cross(*both)).astype(float) for both in ((Z, Z), (Z, images), (residuals, Z))
        )
        sizes, Q = np.linalg.eigh(square)
        turned = Q[:, sizes > INDEPENDENT] / np.sqrt(sizes[sizes > INDEPENDENT])[None, :]  # makes Z orthonormal
        coupling, own = coupling @ turned, turned.T @ (own + own.T) @ turned / 2
        H = np.block([[np.diag(to_numpy(found.values[:width])), coupling], [coupling.T, own]])
        Y = np.flip(np.linalg.eigh(H)[1][:, -width:], axis=1)
        return like(times(Z, like(turned @ Y[width:, :], Z)), found.vectors)

    def search(self, V: Array) -> Found:
        """Return the largest Ritz values of the space outside the orthonormal columns of V."""
        n, k = V.shape
        shown = to_numpy(cross(like(V, self.gram.reference), self.pairs.vectors)).astype(float)
        _, _, turned = np.linalg.svd(shown)
        free = turned[k:].T  # what of the space is orthogonal to V
        values, Y = np.linalg.eigh(free.T @ (to_numpy(self.pairs.values).astype(float)[:, None] * free))
        vectors = times(self.pairs.vectors, like(free @ Y[:, ::-1][:, :COLUMNS], self.pairs.vectors))
        return Found(max(0.0, float(values[-1])), orthonormal(like(vectors, V)), COLUMNS, n)
