"""Block Krylov iteration on tiles: exact leading eigenpairs without the matrix."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dkpca.errors import ConvergenceError
from dkpca.linalg.arrays import Array, like, namespace, on_gpu, solver_error, to_numpy
from dkpca.linalg.dense import Dense
from dkpca.linalg.eigenpairs import NEARBY, Eigenpairs, Nearby, Probe, from_all_rows, rounding_of, signs_of
from dkpca.linalg.gram import Gram
from dkpca.linalg.landmark import LEAST_LANDMARKS, Landmark
from dkpca.linalg.rows import cross, threads_of_our_own, times

NOISE = 1e-6  # random part of the start: below the tolerance, but the next block is made of it
MOST_LANDMARKS = 500  # for the start: more cost as much as a pass
MIN_PASSES = 4  # the start may consist of eigenvectors that are not the leading ones; two or three miss some
ROUGH = 1e-3  # share of an eigenvalue by which few digits can err
WORTHWHILE = 0.1  # of the residual before, to which a correction in few digits must have brought it to be made again
SPARE = 10  # directions carried beyond the pairs, or half as many as these: they decide how fast the last converges
MANY = 6  # blocks: a basis of so many that has as many columns as the matrix takes more memory and time than it
MOST_BLOCKS = 8  # blocks kept before the basis is cut back to its best part
CORRECTING = 2  # passes to correct what was measured
INDEPENDENT = 1e-4  # squared length that a direction must have outside of the others
WELL_CONDITIONED = 1e-4  # smallest eigenvalue of the cross product of columns of length one
MOST_COLUMNS = 8  # blocks as wide as the first one that the space and its corrections may come to
Multiply = Callable[[Array], Array]  # a thin block by the matrix
STEPS, COLUMNS, CONFIDENCE = 4, 16, 1.0 - 1e-6  # of the search for missed pairs


# Rayleigh and Ritz: the best eigenpairs inside a subspace, and bases of such spaces.


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

    def worst(self, k: int) -> float:
        """Largest residual of the first k pairs, each relative to its own eigenvalue."""
        xp = namespace(self.values)
        floor, least = self.noise(), float(xp.finfo(self.values.dtype).smallest_normal)  # which keeps 0 / 0 out
        sizes = xp.clip(self.sizes()[:k] - floor, 0.0, None)
        return float(xp.max(sizes / xp.clip(self.values[:k], floor + least, None)))

    def noise(self) -> float:
        """An eigenvalue or a residual of this size is rounding."""
        return max(rounding_of(self.vectors.shape[0], self.values), self.floor)


def ritz(basis: Array, images: Array, floor: float = 0.0) -> Ritz:
    """Pairs of the matrix whose products with an orthonormal basis are given."""
    # H = Q'K Q for the basis Q; with H Y = Y Theta, the Ritz vectors are Q Y and their images K Q Y. On the host in
    # float64: the float32 eigensolver of a GPU is off by a hundred units in the last place.
    H = to_numpy(cross(basis, images)).astype(float)
    values, Y = np.linalg.eigh((H + H.T) / 2)
    Y = like(np.flip(Y, axis=1).copy(), basis)
    return Ritz(like(np.flip(values).copy(), basis), times(basis, Y), times(images, Y), floor)


def outside(basis: Array, block: Array) -> Array:
    """Orthonormal columns outside a basis: the block's, and random ones in place of those that vanish there."""
    # B - Q Q'B, then orthonormal columns: Gram and Schmidt for a whole block.
    for _ in range(3):
        block = orthonormal(block - times(basis, cross(basis, block)))
    return block


def orthonormal(block: Array) -> Array:
    """Orthonormal basis of the columns; a column that is zero is replaced by a random one."""
    xp = namespace(block)
    # Unit columns first, so that none is lost beside a longer one; zero columns are filled with random numbers.
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
    # B'B = Q diag(values) Q', so that B Q / sqrt(values) has orthonormal columns.
    for _ in range(2):  # the second time takes out what the first rounded
        values, Q = np.linalg.eigh(to_numpy(cross(block, block)))  # small: a GPU takes longer
        if not values[0] > WELL_CONDITIONED:
            return None
        block = times(block, like(Q / np.sqrt(values)[None, :], block))
    return block


def beside(left: Array, right: Array) -> Array:
    """Columns of both."""
    return namespace(left, right).concat([left, right], axis=1)


# Was an eigenvector missed? A random search of what the pairs found leave of the matrix.
#
# A few steps of block Lanczos with a random start on (I - VV') K (I - VV'). Kuczynski and Wozniakowski (1992),
# *Estimating the largest eigenvalue by the power and Lanczos algorithms with a random start*: after q steps from one
# random vector the largest Ritz value is below (1 - e) times the largest eigenvalue with probability at most
# 1.648 sqrt(n) exp(-sqrt(e) (2 q - 1)); several independent vectors at once can only do better than each of them.


def statement(n: int) -> Probe:
    """Say how much larger than all found an eigenvalue must be not to be missed; of very many samples, nothing."""
    per_column = math.log(1.648 * math.sqrt(n)) - math.log(1.0 - CONFIDENCE) / COLUMNS
    share = (per_column / (2 * STEPS - 1)) ** 2
    return Probe(1.0 / (1.0 - share) if share < 1.0 else math.inf, CONFIDENCE)


def search(gram: Gram, V: Array, seed: int) -> tuple[float, Array]:
    """Largest Ritz value outside the orthonormal columns of V, and Ritz vectors; `MANY` has left room there."""
    # Block Lanczos on (I - VV') K (I - VV') from random columns: its largest Ritz value is what may have been missed.
    start = like(np.random.default_rng([seed, gram.n]).standard_normal((gram.n, COLUMNS)), gram.reference)
    basis, images = _krylov(gram.__matmul__, outside(V, start), V, STEPS)
    pairs = ritz(basis, images - times(V, cross(V, images)))
    return max(0.0, float(pairs.values[0])), orthonormal(pairs.vectors[:, :COLUMNS])


def _krylov(multiply: Multiply, block: Array, V: Array, steps: int) -> tuple[Array, Array]:
    """Orthonormal basis of the Krylov space of a block outside the columns of V, and the images of the basis."""
    basis = images = block[:, :0]
    for step in range(steps):
        image = multiply(block)
        basis, images = beside(basis, block), beside(images, image)
        if step + 1 < steps:
            block = outside(beside(V, basis), image)
    return basis, images


# What a matrix in few digits shows before it is passed over in all of them.
#
# A block Krylov space of the matrix in few digits, from a start and random columns. Its best vectors are off by the
# rounding of the matrix alone; it says how to correct them, once that has been measured in all digits; and since the
# random columns know nothing of the start, what the space has outside of the pairs found is a search for missed ones.


@dataclass(frozen=True)
class LowPrecision:
    """A space of the matrix in few digits, by its Ritz pairs."""

    multiply: Multiply  # by the matrix, in few digits
    pairs: Ritz

    @classmethod
    def of(cls, multiply: Multiply, start: Array, seed: int) -> "LowPrecision":
        """Pass over the matrix as often as a search for missed pairs does."""
        few, n = namespace(start).astype(start, namespace(start).float32), start.shape[0]
        random = like(np.random.default_rng([seed, n]).standard_normal((n, COLUMNS)), few)
        block = orthonormal(beside(few, random))
        return cls(multiply, ritz(*_krylov(multiply, block, block[:, :0], STEPS)))

    def corrections(self, found: Ritz, width: int) -> Array:
        """Directions in which the first pairs are off: Rayleigh and Ritz in few digits, but for these."""
        # In the basis [V, Z]: [[Theta, R'Z], [Z'R, Z'K Z]], with Z what few digits know and R the residuals measured.
        few = self.pairs.vectors
        V, residuals = like(found.vectors[:, :width], few), like(found.residuals()[:, :width], few)
        Z, images = self.pairs.vectors[:, width:], self.pairs.images[:, width:]
        shown = cross(V, Z)
        Z, images = Z - times(V, shown), images - times(like(found.images[:, :width], few), shown)
        # Not outside of Z: a correction is mostly one of its columns.
        added, their_images = _krylov(self.multiply, outside(V, residuals), V, CORRECTING)
        Z, images = beside(Z, added), beside(images, their_images)
        square, own, coupling = (
            to_numpy(cross(*both)).astype(float) for both in ((Z, Z), (Z, images), (residuals, Z))
        )
        sizes, Q = np.linalg.eigh(square)
        turned = Q[:, sizes > INDEPENDENT] / np.sqrt(sizes[sizes > INDEPENDENT])[None, :]  # makes Z orthonormal
        coupling, own = coupling @ turned, turned.T @ (own + own.T) @ turned / 2
        H = np.block([[np.diag(to_numpy(found.values[:width])), coupling], [coupling.T, own]])
        Y = np.flip(np.linalg.eigh(H)[1][:, -width:], axis=1)
        return like(times(Z, like(turned @ Y[width:, :], Z)), found.vectors)

    def search(self, V: Array) -> tuple[float, Array]:
        """The same in the space of few digits."""
        # Right singular vectors of V'Z beyond the first k span what of the space Z is orthogonal to V; Rayleigh and
        # Ritz on it gives the largest eigenvalues outside of V.
        k = V.shape[1]
        shown = to_numpy(cross(like(V, self.pairs.vectors), self.pairs.vectors)).astype(float)
        _, _, turned = np.linalg.svd(shown)
        free = turned[k:].T  # what of the space is orthogonal to V
        values, Y = np.linalg.eigh(free.T @ (to_numpy(self.pairs.values).astype(float)[:, None] * free))
        vectors = times(self.pairs.vectors, like(free @ Y[:, ::-1][:, :COLUMNS], self.pairs.vectors))
        return max(0.0, float(values[-1])), orthonormal(like(vectors, V))


# The solver.


@dataclass(frozen=True)
class Streamed:
    """Exact leading eigenpairs from products with thin blocks.

    Each pass adds the residual to the basis (Rayleigh and Ritz on a block Krylov space). It stops when the pairs have
    converged and a random search finds no other that reaches up to them: with its probability, none is missing.
    """

    tolerance: float = 1e-6  # of each pair: its residual |K v - lambda v| as a share of its own eigenvalue
    max_passes: int = 100  # products with the matrix before giving up
    random_state: int = 0  # seed of landmarks and random columns

    def __call__(self, gram: Gram, k: int) -> Eigenpairs:
        width = k + max(SPARE, k // 2)
        if MANY * width >= gram.n:
            return replace(Dense()(gram, k), solver=f"dense: {k} pairs of {gram.n} samples are too many to stream")
        with threads_of_our_own():
            return self._streamed(gram, k, width)

    def _streamed(self, gram: Gram, k: int, width: int) -> Eigenpairs:
        # The basis begins with landmark eigenvectors, or with those of the matrix in few digits.
        preview, since = self._preview(gram, k), 0  # passes since the last find, or the start
        if preview is None:
            enough = max(4 * width, min(int(4 * gram.n**0.5), MOST_LANDMARKS))
            noise = np.random.default_rng(self.random_state).standard_normal((gram.n, width))
            start = self._by_landmarks(gram, width, enough) + like(noise, gram.reference) * (NOISE / gram.n**0.5)
            basis = orthonormal(gram.inside(start))
        else:
            width, since = k + NEARBY, STEPS
            basis = orthonormal(gram.inside(like(preview.pairs.vectors[:, :width], gram.reference)))
        before, few = math.inf, preview
        images = gram @ basis
        for passes in range(1, self.max_passes + 1):
            # Rayleigh and Ritz on the basis: how far are the pairs from being eigenpairs, and do others reach up?
            since += 1
            pairs = ritz(basis, images, gram.noise())
            worst = pairs.worst(k)
            settled = pairs.following(k) <= (1 + self.tolerance) * float(pairs.values[k - 1]) + pairs.noise()
            note = f"streamed: {passes} passes, residual {worst:.1e}"
            if basis.shape[1] == gram.n:
                return _result(gram, pairs, k, note)
            following = None
            if worst <= self.tolerance and settled and since >= MIN_PASSES:
                rest = gram.trace() - float(namespace(pairs.values).sum(pairs.values[:k]))
                if rest <= pairs.noise():  # nothing is left to be missed
                    return _result(gram, pairs, k, note, at_least=rest)
                V, margin = pairs.vectors[:, :k], self.tolerance
                # In few digits where the search is too short for so many samples to be a statement.
                if few is None or math.isfinite(statement(gram.n).factor):
                    highest, following = search(gram, V, self.random_state + passes)
                else:
                    (highest, following), margin = few.search(V), ROUGH
                if highest <= (1 + margin) * max(float(pairs.values[k - 1]), 0.0) + pairs.noise():
                    return replace(_result(gram, pairs, k, note, at_least=highest), probe=statement(gram.n))
                since, few = 0, None  # what few digits show must hold in all of them
            # The next block: residuals, or what few digits make of them, outside of the basis.
            if basis.shape[1] + width > MOST_BLOCKS * width:
                basis, images = pairs.vectors[:, : 2 * width], pairs.images[:, : 2 * width]
            if following is None and preview is not None and worst <= WORTHWHILE * before:
                following, before = preview.corrections(pairs, width), worst
            following = pairs.residuals() if following is None else gram.inside(following)
            fresh = outside(basis, following[:, : min(width, gram.n - basis.shape[1])])
            basis = beside(basis, fresh)
            images = beside(images, gram @ fresh)
        raise ConvergenceError(
            f"residual {worst:.1e} after {self.max_passes} passes over the matrix, not {self.tolerance:.1e}; raise "
            "the tolerance or ask for another number of components"
        )

    def _preview(self, gram: Gram, k: int) -> LowPrecision | None:
        """Look around in few digits, where that is much faster: what is left to do in all digits is then little."""
        width = k + NEARBY + COLUMNS
        rough = gram.rough(width) if MOST_COLUMNS * width < gram.n else None
        if rough is None:
            return None
        start = self._by_landmarks(gram, k + NEARBY, max(4 * (k + NEARBY), LEAST_LANDMARKS))
        return LowPrecision.of(rough, start, self.random_state)

    def _by_landmarks(self, gram: Gram, width: int, landmarks: int) -> Array:
        return Landmark(min(landmarks, gram.n), random_state=self.random_state, bounded=False)(gram, width).vectors


def _result(gram: Gram, pairs: Ritz, k: int, note: str, at_least: float = 0.0) -> Eigenpairs:
    xp = namespace(pairs.values)
    values = xp.clip(pairs.values[:k], 0.0, None)
    vectors = gram.inside(pairs.vectors[:, :k])  # rounding of residuals that were scaled up to unit length
    vectors = vectors * signs_of(vectors)[None, :]
    return Eigenpairs(
        values,
        vectors,
        next_value=max(pairs.following(k), at_least),
        trace=gram.trace(),
        extension=from_all_rows(gram, values, vectors),
        solver=note,
        taken_trace=gram.taken_trace(),
        nearby=Nearby(xp.clip(pairs.values[k : k + NEARBY], 0.0, None), pairs.vectors[:, k : k + NEARBY]),
    ).with_residual(float(xp.sqrt(xp.sum(pairs.sizes()[:k] ** 2))) + solver_error(gram.n, float(values[0]), values))
