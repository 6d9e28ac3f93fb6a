"""The landmark solver where rows stay elsewhere: landmarks from a sample at hand, the rest from sums over all rows.

What is added up is made of a chunk of rows wherever that lies, by `Features.sums`; chunks are added in an order that
depends on their number alone.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dkpca.linalg.arrays import Array, solve_lower, to_numpy
from dkpca.linalg.eigenpairs import NEARBY, RESIDUAL_SHARE, inverse_roots
from dkpca.linalg.gram import Gram
from dkpca.linalg.landmark import factorize, features_to_add_up
from dkpca.linalg.landmark_block import LandmarkBlock as Corner
from dkpca.linalg.landmark_block import Spectrum
from dkpca.linalg.rounding import growth, solver_error, unit
from dkpca.linalg.rows import Made, Moments, additions, moments

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Whole:
    """What is known of a matrix whose rows are elsewhere."""

    sizes: tuple[int, ...]  # rows of each chunk
    total: float  # of its diagonal
    error: float = 0.0  # of its entries: bound on the Frobenius norm
    reference: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def n(self) -> int:
        """Rows of all chunks."""
        return sum(self.sizes)

    def trace(self) -> float:
        """Sum of the diagonal."""
        return self.total

    def evaluation_error(self) -> float:
        """Bound on the Frobenius norm of the matrix as it is evaluated minus the one that is meant."""
        return self.error

    def additions(self, width: int) -> float:
        """Most roundings that a term of a sum meets: in its chunk, and where chunks are added two by two."""
        in_chunk = max(additions(size, width, self.reference) for size in set(self.sizes))
        return min(growth(self.n), in_chunk + math.ceil(math.log2(len(self.sizes))) + 1)


class CornerOfChunks(Corner):
    """A corner of a matrix whose rows are added up in chunks."""

    def __init__(self, L: Matrix, whole: Whole) -> None:
        super().__init__(L, whole)
        self.whole = whole

    def additions(self, n: int) -> float:
        return self.whole.additions(self.m)


@dataclass(frozen=True)
class Features:
    """What is made of the rows of a matrix at its landmarks before they are added up."""

    pivots: Matrix  # (m,) positions in the sample
    L: Matrix  # (m, m) triangular factor of the corner
    substituted: bool  # whether rows of F = C inv(L)' are added up, or those of C
    start: Matrix  # (m,) from which they are measured, if that is wanted

    def sums(self, columns: Made, *, centered: bool) -> Moments:
        """Sums over the rows of a chunk, given its columns at the landmarks."""
        features = columns.then(lambda start, C: solve_lower(self.L, C)) if self.substituted else columns
        return moments(features, self.start, centered=centered)


def choose(sample: Gram, whole: Whole, most: int, random_state: int) -> Features:
    """Choose landmarks among a sample of the rows, and whether their columns can be added up as they are."""
    F, pivots, missed = factorize(sample, min(most, sample.n), random_state=random_state)
    L = to_numpy(F[pivots, :])
    substituted, start = features_to_add_up(F, CornerOfChunks(L, whole), whole.n, missed)
    return Features(to_numpy(pivots), L, substituted, to_numpy(start))


@dataclass(frozen=True)
class Pairs:
    """Leading eigenpairs as weights on the columns at the landmarks, and how far they may be from the matrix.

    Eigenvectors times the roots of their values are C @ weights + offset.
    """

    values: Matrix  # (k,)
    weights: Matrix  # (m, k)
    offset: Matrix  # (k,)
    next_value: float
    near_values: Matrix  # (q,) of the pairs behind
    near_weights: Matrix  # (m, q) of their eigenvectors, of length one
    near_offset: Matrix
    trace: float
    missed: float  # bound on the trace of what the landmarks miss
    residual_norm: float
    residual_nuclear: float

    def turned(self, square: Matrix, signs: Matrix) -> "Pairs":
        """Return the pairs with eigenvectors orthonormal, given V'V as it was added up, and signs as wanted."""
        sizes, Q = np.linalg.eigh(square)
        # Pairs that are rounding are zero: there is nothing to be made orthonormal.
        even = (Q / np.sqrt(sizes)) @ Q.T if sizes[0] > 0.5 else np.eye(len(sizes))
        Lambda = np.diag(self.values)
        moved = float(np.linalg.norm(np.linalg.solve(even, np.linalg.solve(even, Lambda).T) - Lambda, 2))
        roots = np.sqrt(self.values)
        inverse = inverse_roots(1, self.values)
        change = inverse[:, None] * even * (roots * signs)[None, :]
        even_pairs = replace(self, weights=self.weights @ change, offset=self.offset @ change)
        return even_pairs.with_residual(moved)

    def with_residual(self, norm: float) -> "Pairs":
        """Return the pairs with |K V - V Lambda| as large as this added; see `Eigenpairs.with_residual`."""
        return replace(
            self,
            residual_norm=self.residual_norm + RESIDUAL_SHARE * norm,
            residual_nuclear=self.residual_nuclear + 2 * len(self.values) * RESIDUAL_SHARE * norm,
        )


def pairs(features: Features, whole: Whole, sums: Moments, k: int, *, centered: bool) -> Pairs:
    """Leading pairs of F F', or of the same after centering, from sums over all rows."""
    corner, n, start = _sound(features, whole, sums, centered=centered)
    sums = sums.head(corner.m)
    found = corner.spectrum(sums, start if centered else None, n, substituted=features.substituted)
    k = min(k, len(found.values))
    rounded = growth(n) * unit(whole.reference) * corner.trace
    missed = max(0.0, corner.trace - found.trace) + found.beside + rounded + corner.m**0.5 * found.moved
    lengths = np.sqrt(found.values[: k + NEARBY])
    scaled = found.U[:, : k + NEARBY] * inverse_roots(n, found.values)[None, : k + NEARBY]
    vectors = np.zeros((len(features.L), scaled.shape[1]))  # landmarks that are not sound count nothing
    vectors[: corner.m] = corner.solve_transposed(scaled)
    offset = -(found.factor_mean @ scaled)
    weights = vectors[:, :k] * lengths[None, :k]
    made = _product_error(corner, found, weights, n)
    plain = Pairs(
        values=found.values[:k],
        weights=weights,
        offset=offset[:k] * lengths[:k],
        next_value=float(found.values[k]) if len(found.values) > k else 0.0,
        near_values=found.values[k : k + NEARBY],
        near_weights=vectors[:, k:],
        near_offset=offset[k:],
        trace=found.centered_trace + missed,
        missed=missed,
        residual_norm=found.beside,
        residual_nuclear=2.0 * corner.m**0.5 * found.beside,
    )
    return plain.with_residual(found.moved + made + whole.error)


def _sound(features: Features, whole: Whole, sums: Moments, *, centered: bool) -> tuple[Corner, int, Matrix]:
    """Corner of the landmarks that explain more than their rounding, rows of all chunks, and the start for them."""
    corner, n = CornerOfChunks(features.L, whole), whole.n
    if not features.substituted:
        return corner, n, features.start
    square = sums.from_zero(n, features.start) if centered else sums.square
    kept, _ = corner.sound(to_numpy(square).astype(float))
    return corner.head(kept), n, features.start[:kept]


def _product_error(corner: Corner, found: Spectrum, weights: Matrix, n: int) -> float:
    """Bound on the norm of A A' - (F U)(F U)' for the product A = C weights as each chunk computes it."""
    through_L = found.trace**0.5 * float(np.linalg.norm(corner.L))
    long = max(found.full_length, through_L)
    terms = growth(corner.m) * (4.0 * long + through_L) + 4.0 * corner.additions(n) * long
    off = corner.unit * terms * float(np.linalg.norm(weights))
    return float((2.0 * float(found.values[0]) ** 0.5 + off) * off)


def exact_pairs(whole: Whole, sums: Moments, start: Matrix, k: int, *, centered: bool) -> Pairs:
    """Leading pairs of Z Z' for features Z that are all there is, from sums over all their rows."""
    square, n = to_numpy(sums.square).astype(float), whole.n
    m = len(square)
    moved_mean = to_numpy(sums.total).astype(float) / n if centered else np.zeros(m)
    mean = start + moved_mean if centered else moved_mean
    trace = float(np.trace(square))
    square = square - n * moved_mean[:, None] * moved_mean
    values, U = np.linalg.eigh((square + square.T) / 2)
    values, U = np.clip(values[::-1], 0.0, None), U[:, ::-1]
    full = trace + n * float(mean @ mean)
    error = (2.0 * whole.additions(m) + 4.0 * growth(m)) * unit(whole.reference) * full
    error += solver_error(m, trace, whole.reference)
    k = min(k, m)
    lengths = np.sqrt(values[: k + NEARBY])
    scaled = U[:, : k + NEARBY] * inverse_roots(n, values)[None, : k + NEARBY]
    plain = Pairs(
        values=values[:k],
        weights=U[:, :k] * (inverse_roots(n, values)[:k] * lengths[:k] > 0)[None, :],
        offset=-(mean @ scaled[:, :k]) * lengths[:k],
        next_value=float(values[k]) if m > k else 0.0,
        near_values=values[k : k + NEARBY],
        near_weights=scaled[:, k:],
        near_offset=-(mean @ scaled[:, k:]),
        trace=float(values.sum()),
        missed=0.0,
        residual_norm=0.0,
        residual_nuclear=0.0,
    )
    return plain.with_residual(error + whole.error)
