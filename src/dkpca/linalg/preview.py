"""What a matrix in few digits shows before it is passed over in all of them.

A block Krylov space of the matrix in few digits, from a start and random columns. Its best vectors are off by the
rounding of the matrix alone; it says how to correct them, once that has been measured in all digits; and since the
random columns know nothing of the start, what the space has outside of the pairs found is a search for missed ones.
"""

from dataclasses import dataclass

import numpy as np

from dkpca.linalg.arrays import Array, like, random_normal, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.probe import COLUMNS, STEPS, Found
from dkpca.linalg.progress import Progress
from dkpca.linalg.ritz import Ritz, beside, orthonormal, outside, ritz
from dkpca.linalg.strips import cross, times

CORRECTING = 2  # passes to correct what was measured
MOST_COLUMNS = 8  # blocks as wide as the first one that the space and its corrections may come to


@dataclass(frozen=True)
class Preview:
    """A space of the matrix in few digits, by its Ritz pairs."""

    gram: Gram  # in few digits
    pairs: Ritz
    progress: Progress

    @classmethod
    def of(cls, gram: Gram, start: Array, seed: int, progress: Progress) -> "Preview":
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
        what the matrix does to all the rest: an error of one is then an error of a correction only. The space is that
        of the first passes, the residuals, and their images; what the matrix does to the last is left out as small.
        """
        few = self.gram.reference
        V, residuals = like(found.vectors[:, :width], few), like(found.residuals()[:, :width], few)
        Z, images = self.pairs.vectors[:, width:], self.pairs.images[:, width:]
        shown = cross(V, Z)
        Z, images = Z - times(V, shown), images - times(like(found.images[:, :width], few), shown)
        block = outside(beside(V, Z), residuals)
        for _ in range(CORRECTING):
            image = self.gram.product(block, self.progress)
            Z, images = beside(Z, block), beside(images, image)
            block = outside(beside(V, Z), image)
        Z, imaged = beside(Z, block), images.shape[1]
        coupling, own = (to_numpy(x).astype(float) for x in (cross(residuals, Z), cross(Z, images)))
        H = np.zeros((width + Z.shape[1],) * 2)
        H[:width, :width] = np.diag(to_numpy(found.values[:width]))
        H[:width, width:] = coupling
        H[width : width + imaged, width : width + imaged] = (own[:imaged] + own[:imaged].T) / 2
        H[width : width + imaged, width + imaged :] = own[imaged:].T
        Y = np.flip(np.linalg.eigh(H, UPLO="U")[1][:, -width:], axis=1)
        return like(times(Z, like(Y[width:, :].copy(), Z)), found.vectors)

    def search(self, V: Array) -> Found:
        """Return the largest Ritz values of the space outside the orthonormal columns of V."""
        n, k = V.shape
        shown = to_numpy(cross(like(V, self.gram.reference), self.pairs.vectors)).astype(float)
        _, _, turned = np.linalg.svd(shown)
        free = turned[k:].T  # what of the space is orthogonal to V
        values, Y = np.linalg.eigh(free.T @ (to_numpy(self.pairs.values).astype(float)[:, None] * free))
        vectors = times(self.pairs.vectors, like(free @ Y[:, ::-1][:, :COLUMNS], self.pairs.vectors))
        return Found(max(0.0, float(values[-1])), orthonormal(like(vectors, V)), COLUMNS, n)
