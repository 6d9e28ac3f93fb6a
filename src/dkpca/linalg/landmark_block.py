"""The landmarks' own corner of a matrix, and how far arithmetic through it can be from the exact result.

C are the columns of the matrix at the landmarks, L L' is the corner, and F = C inv(L)'. F'F can be had from rows of
F, each by a substitution with L, or as inv(L) C'C inv(L)': half the work, but rounding grows by |inv(L)|^2.
"""

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular

from dkpca.linalg.arrays import (
    SUBTRACTIONS,
    Array,
    growth,
    like,
    namespace,
    or_one,
    solver_error,
    to_numpy,
    unit,
)
from dkpca.linalg.gram import Gram
from dkpca.linalg.rows import SQUARED_SHARE, Moments, groups, strips

Matrix = np.ndarray[Any, Any]
SIZES = 10.0 ** -np.arange(2.0, 16.0, 2.0)  # shares of the most that a landmark adds: it must add so much
BESIDE = 1e-3  # rounding through the corner, as a share of what the landmarks miss, not worth fewer of them ...
NEXT_TO_NOTHING = 1e-9  # ... and as a share of the trace
SMALL = 128  # rows of a block
FEW = 2 * SMALL  # rows for which float32 is precise enough: n^2 / 2 roundings at worst are within ...
WIDER = 1.003  # ... what a bound on a norm is widened by
SINGLE = 2.0**-24  # largest relative error of a rounding in float32
ROUGH = 2e-3  # rounding in float32, as a share of the eigenvalue behind the last, that is not worth twice the time


# How large the part of a matrix is that landmarks do not explain: a bound from blocks on its diagonal.
#
# That part is positive semidefinite, and such a matrix is at most its diagonal blocks together, whichever rows are in
# a block: in its largest eigenvalue, and in the sum of its k largest (Bourin and Lee 2012, *Unitary orbits of
# Hermitian operators with convex or concave functions*). Its trace is the case of blocks of one row.


@dataclass(frozen=True)
class ResidualBound:
    """Bounds on a positive semidefinite matrix R from its diagonal blocks R_b; those of parts of the rows add up.

    For the rows V_b of any V, |R^(1/2) V x| <= sum of |R^(1/2) V_b x|, so V'RV <= sum of c_b times the sum of
    V_b'R_b V_b / c_b (in the order of symmetric matrices) for any c_b > 0: here, c_b^2 = trace V_b'R_b V_b.
    """

    norm: float  # sum of the largest eigenvalues of the blocks
    roots: float  # sum of c_b
    images: Matrix  # (k, k): sum of V_b'R_b V_b / c_b

    def __add__(self, other: "ResidualBound") -> "ResidualBound":
        return ResidualBound(self.norm + other.norm, self.roots + other.roots, self.images + other.images)

    @property
    def within(self) -> Matrix:
        """Matrix above V'RV."""
        return self.roots * self.images


def residual_bound(
    within: Callable[[Sequence[slice]], Array], rows: slice, F: Array, V: Array, rounding: tuple[bool, float, float]
) -> ResidualBound:
    """Bound K - F F' for some rows by diagonal blocks; its norm lacks the rounding, which the caller adds.

    Of the rounding: whether differences are taken in float32, its share of the trace of a block, and what is beside.
    """
    rough, share, slack = rounding
    # Rows of a block are far apart: neighbors are often alike, and alike is large.
    height, xp = F.shape[0], namespace(F)
    blocks = max(1, height // SMALL)
    parts = [slice(number, height, blocks) for number in range(blocks)]
    cuts = sorted({0, height % blocks, blocks})  # the first of them may have a row more
    seen: list[tuple[Array, Array, Array, Array]] = []
    for some in (parts[start:stop] for start, stop in pairwise(cuts)):
        K = within([slice(rows.start + own.start, rows.stop, blocks) for own in some])
        traces = xp.sum(xp.linalg.diagonal(K), axis=1)
        P, own_F = K, xp.stack([F[own, :] for own in some])
        if rough:
            P, own_F = xp.astype(K, xp.float32), xp.astype(own_F, xp.float32)
        P = P - own_F @ xp.matrix_transpose(own_F)
        # V_b'R_b V_b and V_b'V_b, beside the norms.
        own_V = xp.stack([V[own, :] for own in some])
        images = xp.matrix_transpose(own_V) @ (xp.astype(P, own_V.dtype) @ own_V)
        left = xp.sum(xp.clip(xp.linalg.diagonal(P), 0.0, None), axis=1, dtype=xp.float64)
        seen.append((traces, images, xp.matrix_transpose(own_V) @ own_V, xp.minimum(_norms(P), left)))
    # What rounding may hide is added to V_b'R_b V_b; c_b is the root of its trace. A GPU is waited for only here.
    all_traces, all_images, all_lengths, norms = (
        to_numpy(xp.concat(own)).astype(float) for own in zip(*seen, strict=True)
    )
    above = all_images + (4.0 * share * all_traces + slack)[:, None, None] * all_lengths
    c = np.sqrt(np.clip(np.einsum("bii->b", above), 0.0, None))
    scaled = np.einsum("bij,b->ij", above, np.divide(1.0, c, out=np.zeros_like(c), where=c > 0))
    return ResidualBound(float(norms.sum()), float(c.sum()), scaled)


def _norms(P: Array) -> Array:
    """Bounds on the largest eigenvalues of the symmetric matrices of a stack: at most n^(1/8) too much."""
    # |P| <= |P^4|_F^(1/4), of matrices divided by their largest entries.
    xp = namespace(P)
    sizes = xp.max(xp.reshape(xp.abs(P), (P.shape[0], -1)), axis=1)
    even = xp.astype(P / or_one(sizes)[:, None, None], xp.float32 if P.shape[1] <= FEW else xp.float64, copy=False)
    second = even @ even
    flat = xp.reshape(second @ second, (P.shape[0], 1, -1))
    roots = xp.sqrt(xp.astype((flat @ xp.matrix_transpose(flat))[:, 0, 0], xp.float64)) ** 0.25
    return WIDER * xp.astype(sizes, xp.float64) * roots


def rounding_in_blocks(m: int, trace: float, next_value: float, own: float) -> tuple[float, bool]:
    """Bound on the rounding of F F' with m columns, and whether float32 is good enough; `own` is the unit of F."""
    in_single = growth(m) * SINGLE * trace
    rough = in_single <= ROUGH * next_value
    return (in_single if rough else growth(m) * own * trace), rough


# The corner itself.


@dataclass(frozen=True)
class FeatureSpectrum:
    """Eigenpairs of F'F, after centering if the sums were, and what they rest on."""

    values: Matrix  # (m,), descending, none negative
    U: Matrix  # (m, m)
    mean: Matrix  # (m,) of the features that were added up
    factor_mean: Matrix  # (m,) of F
    trace: float  # of F'F before centering
    centered_trace: float
    length: float  # of the features from the start that was given
    full_length: float  # of the features from zero
    moved: float  # bound on the norm of what rounding did to F'F
    beside: float  # bound on how far F F' is from a factor of what the landmarks explain
    shown: Matrix | None = None  # (m, q): F'Q for the covariates Q that were taken out


class LandmarkBlock:
    """Triangular factor of the corner of a matrix, and the roundings that its entries have had."""

    def __init__(self, L: Matrix, gram: Gram) -> None:
        self.L, self.m = np.tril(L.astype(float)), L.shape[0]  # above the diagonal is rounding alone
        self.reference, self.unit, self.trace = gram.reference, unit(gram.reference), gram.trace()
        evaluated = gram.evaluation_error() / self.trace if self.trace > 0 else 0.0
        self.entries = 2.0 * growth(self.m) * self.unit + evaluated  # of sqrt(K_ii K_jj)
        self.chosen = float(np.sum(self.L**2))  # trace of the corner
        self.groups = sum(len(groups(size, self.reference)) for size in gram.chunks or (gram.n,))

    @cached_property
    def inverse_norm(self) -> float:
        """Bound on the spectral norm of inv(L)."""
        sizes = np.linalg.svd(self.L, compute_uv=False)
        least = float(sizes[-1]) - solver_error(self.m, float(sizes[0]), self.L)
        return 1.0 / least if least > 0.0 else np.inf

    def solve_transposed(self, right: Matrix) -> Matrix:
        """Return inv(L)' right, or zero for a zero matrix."""
        if not self.L.any():
            return np.zeros_like(right)
        solved: Matrix = solve_triangular(self.L, right, lower=True, trans="T")
        return solved

    def additions(self, n: int) -> float:
        """Most roundings that a term of a sum over all rows meets: in its strip, its group, and among the groups."""
        within = strips(groups(n, self.reference)[0].stop, self.m, self.reference, SQUARED_SHARE)
        return min(growth(n), growth(within[0].stop) + len(within) + self.groups)

    def head(self, m: int) -> "LandmarkBlock":
        """Corner of the first landmarks."""
        same: LandmarkBlock = copy(self)
        same.L, same.m = self.L[:m, :m], m
        same.chosen = float(np.sum(same.L**2))
        vars(same).pop("inverse_norm", None)
        return same

    def sound(self, square: Matrix) -> tuple[int, float]:
        """How many landmarks to keep, given F'F, so that the bound on the rest is least; what is `beside` them."""

        def rest(m: int) -> tuple[float, float]:
            return max(0.0, self.trace - float(np.trace(square[:m, :m]))), self.head(m).beside(square[:m, :m])

        # Fewer landmarks miss more and round less: the sum of both decides among a few numbers of them.
        missed, beside = rest(self.m)
        if beside <= max(BESIDE * missed, NEXT_TO_NOTHING * self.trace):
            return self.m, beside
        added = np.diagonal(self.L) ** 2
        small = added[None, :] < SIZES[:, None] * added.max()
        candidates: set[int] = {self.m, *small.argmax(axis=1)[small.any(axis=1)].tolist()} - {0}
        bounds = {m: rest(m) for m in sorted(candidates, reverse=True)}
        best = min(bounds, key=lambda m: sum(bounds[m]))
        return best, bounds[best][1]

    def error_by_columns(self, n: int, length: float) -> float:
        """Bound on the error of F'F from C'C for columns of this length."""
        return self.inverse_norm**2 * (self._square_error(n, length, length) + self._own_error(length))

    def spectrum(
        self, sums: Moments, start: Matrix | None, n: int, *, substituted: bool, shown: Matrix | None = None
    ) -> FeatureSpectrum:
        """Eigenpairs of F'(I - QQ')F from sums over rows of F, or C, from a start if centered; `shown` is Z'Q."""
        # sum of (z - c)(z - c)' less n m m' for the mean m of z - c: centered, whatever the start c was.
        square, moved_mean = to_numpy(sums.square).astype(float), to_numpy(sums.total).astype(float) / n
        if start is None:
            start = moved_mean = np.zeros(self.m)
        mean = start.astype(float) + moved_mean
        length = float(np.trace(square)) ** 0.5
        full_length = (max(0.0, length**2 + n * float(mean @ mean - moved_mean @ moved_mean))) ** 0.5
        full_length = max(length, full_length)
        square = square - n * moved_mean[:, None] * moved_mean
        rounded = self._square_error(n, length, full_length, n**0.5 * float(np.linalg.norm(moved_mean)))
        if shown is not None:
            square, rounded = square - shown @ shown.T, rounded + self._shown_error(n, full_length, shown)
        factor_mean = mean
        if not substituted:
            shown = None if shown is None else solve_triangular(self.L, shown, lower=True, check_finite=False)
            square, factor_mean, rounded = self._through(square, mean, rounded + self._own_error(length))
        square = (square + square.T) / 2
        xp = namespace(self.reference)
        values, U = map(to_numpy, xp.linalg.eigh(like(square, self.reference)))
        of_mean = n * factor_mean[:, None] * factor_mean
        centered_trace = float(np.trace(square))
        if shown is not None:  # of the features before anything was taken out of them
            of_mean = of_mean + shown @ shown.T
        return FeatureSpectrum(
            values=np.clip(values[::-1], 0.0, None).astype(float),
            U=U[:, ::-1].astype(float),
            mean=mean,
            factor_mean=factor_mean,
            trace=centered_trace + float(np.trace(of_mean)),
            centered_trace=centered_trace,
            length=length,
            full_length=full_length,
            moved=rounded + solver_error(self.m, centered_trace, self.reference),
            beside=self.beside(square + of_mean),
            shown=shown,
        )

    def product_error(self, found: FeatureSpectrum, weights: Matrix, n: int, k: int, *, substituted: bool) -> float:
        """Bound on the norm of A A' - (F U)(F U)' for the product A = F U or C weights as it is computed."""
        root = float(found.values[0]) ** 0.5
        if substituted:
            off = growth(self.m) * found.full_length * k**0.5
        else:
            through_L = found.trace**0.5 * float(np.linalg.norm(self.L))
            terms = growth(self.m) * (4.0 * found.full_length + through_L) + 4.0 * self.additions(n) * found.length
            off = terms * float(np.linalg.norm(weights))
        off *= self.unit
        return float((2.0 * root + off) * off)

    def _square_error(self, n: int, length: float, full_length: float, of_mean: float = 0.0) -> float:
        """Bound on the error of the sum of squares of features, measured from a start, less that of their mean."""
        terms = self.additions(n)
        return self.unit * (terms * (length + 2.0 * of_mean) + 2.0 * SUBTRACTIONS * full_length) * length

    def _shown_error(self, n: int, full_length: float, shown: Matrix) -> float:
        """Bound on the error of F'QQ'F: of the sums in F'Q, and of columns Q that are orthonormal to rounding."""
        q = int(shown.shape[1])
        off = self.unit * (self.additions(n) + growth(n)) * full_length * math.sqrt(q)
        size = float(np.linalg.norm(shown))
        return (2.0 * size + off) * off + 4.0 * q * growth(n) * self.unit * size**2

    def _own_error(self, length: float) -> float:
        """Bound on what it does to the sum of squares that the landmarks' own rows are evaluated once more."""
        return 2.0 * self.entries * self.chosen * length

    def _through(self, square: Matrix, mean: Matrix, rounded: float) -> tuple[Matrix, Matrix, float]:
        """inv(L) square inv(L)', inv(L) mean, and a bound on the error of the first."""
        # Each substitution adds growth(m) u |L| |inv(L)| of its result, and the error of the square goes through
        # both.
        half = solve_triangular(self.L, square, lower=True, check_finite=False)
        whole = solve_triangular(self.L, half.T, lower=True, check_finite=False)
        norm = np.linalg.norm
        substitutions = growth(self.m) * self.unit * float(norm(self.L)) * self.inverse_norm
        error = self.inverse_norm**2 * rounded
        error += substitutions * (self.inverse_norm * float(norm(half)) + float(norm(whole)))
        return whole, solve_triangular(self.L, mean, lower=True, check_finite=False), error

    def beside(self, square: Matrix) -> float:
        """Bound on how far F F' can be from an exact factor of the part of the matrix that the landmarks explain.

        F is exact for a matrix that differs in the landmarks' rows and columns, by D: a few roundings of
        sqrt(K_ii K_jj) for each entry. What that matrix leaves unexplained is Z' (K + D) Z with Z' = [-W, I] and
        W = F inv(L): a positive semidefinite part, and one of at most (1 + |W|^2) |D|. K itself is off by |D|.
        """
        # (2 + |W|^2) |D| with |W|^2 = |inv(L)' F'F inv(L)|, and |D| by the traces of the corner and of all.
        if not self.L.any():
            return 0.0
        if not np.diagonal(self.L).all():
            return self.trace  # a landmark that explains nothing: no bound but the trivial one
        spread = self.solve_transposed(self.solve_transposed(square).T)
        if not np.isfinite(spread).all():
            return self.trace
        norm = (2.0 + float(_norms(np.ascontiguousarray(spread)[None])[0])) * 2.0 * self.entries
        return float(min(norm * (self.trace * self.chosen) ** 0.5, self.trace))
