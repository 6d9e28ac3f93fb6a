"""Block Krylov iteration on tiles: exact leading eigenpairs without the matrix."""

import math
from dataclasses import dataclass, replace

import numpy as np

from dkpca.errors import ConvergenceError
from dkpca.linalg.arrays import Array, like, namespace
from dkpca.linalg.dense import Dense
from dkpca.linalg.eigenpairs import (
    NEARBY,
    Eigenpairs,
    Nearby,
    Ritz,
    beside,
    from_all_rows,
    orthonormal,
    outside,
    ritz,
    signs_of,
)
from dkpca.linalg.gram import Gram
from dkpca.linalg.landmark import LEAST_LANDMARKS, Landmark
from dkpca.linalg.low_precision import MOST_COLUMNS, LowPrecision
from dkpca.linalg.missed_pairs import COLUMNS, STEPS, Found, search, statement
from dkpca.linalg.rounding import solver_error
from dkpca.linalg.rows import Progress, silent, threads_of_our_own

NOISE = 1e-6  # random part of the start: below the tolerance, but the next block is made of it
MOST_LANDMARKS = 500  # for the start: more cost as much as a pass
MIN_PASSES = 4  # the start may consist of eigenvectors that are not the leading ones; two or three miss some
ROUGH = 1e-3  # share of an eigenvalue by which few digits can err
WORTHWHILE = 0.1  # of the residual before, to which a correction in few digits must have brought it to be made again
SPARE = 10  # directions carried beyond the pairs wanted: they decide how fast the last pair converges
MANY = 6  # a basis of so many blocks as large as the matrix takes more memory and time than the matrix
MOST_BLOCKS = 8  # blocks kept before the basis is cut back to its best part


@dataclass(frozen=True)
class Streamed:
    """Exact leading eigenpairs from products with thin blocks.

    The start comes from landmarks, with a little noise so that nothing is orthogonal to it; where products in few
    digits are much faster, from passes in these (`low_precision`). Every further pass adds the residual of the
    present answer to the basis (Rayleigh and Ritz on a block Krylov space), or what few digits make of it, so that
    residuals are measured and not estimated. It stops when the pairs wanted have converged, none of the others,
    residual included, reaches up to them, and a random search of the rest (`missed_pairs`) finds none that
    does. As with every Krylov method that is a proof for the pairs; that none is missing holds with the probability
    of the search.

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
        if MANY * width >= gram.n:
            return replace(Dense()(gram, k), solver=f"dense: {k} pairs of {gram.n} samples are too many to stream")
        with threads_of_our_own():
            return self._streamed(gram, k, width)

    def _streamed(self, gram: Gram, k: int, width: int) -> Eigenpairs:
        preview, since = self._preview(gram, k), 0  # passes since the last find, or the start
        if preview is None:
            basis = orthonormal(self._first_block(gram, width))
        else:
            width, since = k + NEARBY, STEPS
            basis = orthonormal(like(preview.pairs.vectors[:, :width], gram.reference))
        before, few = math.inf, preview
        images = gram.product(basis, self.progress)
        for passes in range(1, self.max_passes + 1):
            since += 1
            pairs = ritz(basis, images, gram.noise())
            worst = pairs.worst(k)
            settled = pairs.following(k) <= (1 + self.tolerance) * float(pairs.values[k - 1]) + pairs.noise()
            note = f"streamed: {passes} passes, residual {worst:.1e}"
            if basis.shape[1] == gram.n:
                return _result(gram, pairs, k, note)
            following = None
            if worst <= self.tolerance and settled and since >= MIN_PASSES:
                rest = gram.trace() - pairs.total(k)
                if rest <= pairs.noise():  # nothing is left to be missed
                    return _result(gram, pairs, k, note, at_least=rest)
                found, margin = self._search(gram, few, pairs.vectors[:, :k], self.random_state + passes)
                if found.highest <= (1 + margin) * max(float(pairs.values[k - 1]), 0.0) + pairs.noise():
                    return replace(_result(gram, pairs, k, note, at_least=found.highest), probe=found.said())
                since, following, few = 0, found.vectors, None  # what few digits show must hold in all of them
            if basis.shape[1] + width > MOST_BLOCKS * width:
                basis, images = pairs.vectors[:, : 2 * width], pairs.images[:, : 2 * width]
            if following is None and preview is not None and worst <= WORTHWHILE * before:
                following, before = preview.corrections(pairs, width), worst
            following = pairs.residuals() if following is None else following
            fresh = outside(basis, following[:, : min(width, gram.n - basis.shape[1])])
            basis = beside(basis, fresh)
            images = beside(images, gram.product(fresh, self.progress))
        raise ConvergenceError(
            f"residual {worst:.1e} after {self.max_passes} passes over the matrix; wanted {self.tolerance:.1e}, "
            "and no other pair that may still reach up; raise the tolerance or ask for another number of components"
        )

    def _preview(self, gram: Gram, k: int) -> LowPrecision | None:
        """Look around in few digits, where that is much faster: what is left to do in all digits is then little."""
        width = k + NEARBY + COLUMNS
        rough = gram.rough(width) if MOST_COLUMNS * width < gram.n else None
        if rough is None:
            return None
        start = self._by_landmarks(gram, k + NEARBY, max(4 * (k + NEARBY), LEAST_LANDMARKS))
        return LowPrecision.of(rough, start, self.random_state, self.progress)

    def _search(self, gram: Gram, preview: LowPrecision | None, V: Array, seed: int) -> tuple[Found, float]:
        """Search outside V; in few digits where the search is too short for so many samples to be a statement."""
        if preview is None or math.isfinite(statement(gram.n, COLUMNS).factor):
            return search(gram, V, seed, self.progress), self.tolerance
        return preview.search(V), ROUGH

    def _first_block(self, gram: Gram, width: int) -> Array:
        """Landmark eigenvectors with a little noise, so that no eigenvector is orthogonal to the start."""
        enough = max(4 * width, min(int(4 * gram.n**0.5), MOST_LANDMARKS))
        start = self._by_landmarks(gram, width, enough)
        noise = np.random.default_rng(self.random_state).standard_normal((gram.n, width))
        return start + like(noise, gram.reference) * (NOISE / gram.n**0.5)

    def _by_landmarks(self, gram: Gram, width: int, enough: int) -> Array:
        landmarks = enough if self.n_landmarks is None else self.n_landmarks
        return Landmark(min(landmarks, gram.n), random_state=self.random_state, bounded=False)(gram, width).vectors


def _result(gram: Gram, pairs: Ritz, k: int, note: str, at_least: float = 0.0) -> Eigenpairs:
    xp = namespace(pairs.values)
    values = xp.clip(pairs.values[:k], 0.0, None)
    vectors = pairs.vectors[:, :k] * signs_of(pairs.vectors[:, :k])[None, :]
    return Eigenpairs(
        values,
        vectors,
        next_value=max(pairs.following(k), at_least),
        trace=gram.trace(),
        extension=from_all_rows(gram, values, vectors),
        solver=note,
        nearby=Nearby(xp.clip(pairs.values[k : k + NEARBY], 0.0, None), pairs.vectors[:, k : k + NEARBY]),
    ).with_residual(float(xp.sqrt(xp.sum(pairs.sizes()[:k] ** 2))) + solver_error(gram.n, float(values[0]), values))
