"""The landmark solver: linear in n, from a few columns of the matrix, in two passes over its rows.

Landmarks are chosen by randomly pivoted Cholesky, among a sample of the rows where there are many. With C the columns
at the landmarks and L L' their block of the matrix, F = C inv(L)' has F F' below the matrix, and the leading
eigenpairs of F F' are those of the small F'F. The first pass adds up F'F, from a substitution with L for each row, or
as inv(L) C'C inv(L)': half the work, but rounding grows by |inv(L)|^2. The second makes the eigenvectors.

Chen, Epperly, Tropp, Webber (2022), *Randomly pivoted Cholesky*; and (2024) *Embrace rejection*, for the block form.
"""

import math
import operator
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import pairwise

import numpy as np
from scipy.linalg import solve_triangular

from dkpca.errors import InputError
from dkpca.linalg.arrays import (
    SUBTRACTIONS,
    Array,
    device,
    eps,
    growth,
    like,
    namespace,
    on_gpu,
    or_one,
    sent_to,
    solve_lower,
    solver_error,
    to_numpy,
    unit,
)
from dkpca.linalg.eigenpairs import NEARBY, Eigenpairs, Extension, Nearby, inverse_roots, orthonormalize, signs_of
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.on_dask import memory_of_a_worker, on_one_worker
from dkpca.linalg.rows import (
    SQUARED_SHARE,
    Made,
    Matrix,
    Moments,
    RowGroup,
    as_made,
    cross,
    for_each,
    groups,
    kept,
    moments,
    multiply,
    off,
    over,
    pick,
    strips,
    threads_of_our_own,
    written,
)

LANDMARKS_PER_PAIR = 4
LEAST_LANDMARKS = 100
SAMPLE, SAMPLE_SHARE = 10_000, 20  # rows to choose landmarks among: at least so many, and so many for each landmark
MIN_BLOCK = 32  # pivots that are proposed at a time, at least
ENOUGH = 1e-12  # error of the eigenvalues, as a share of the trace, that is not worth a substitution for each row ...
BESIDE_MISSED = 1e-4  # ... and as a share of the trace that the landmarks miss
MOST_NUMBERS = 2**25  # rows times landmarks for which bounds may take a third of the time ...
AS_LANDMARKS = 160  # ... and blocks take as long as so many landmarks
WORTH_BLOCKS = 0.1  # of the next eigenvalue: what landmarks miss is bounded in blocks where it may be more
TURNED = 0.01  # by which columns may be off from orthonormal ones to know what is missed along these
SIZES = 10.0 ** -np.arange(2.0, 16.0, 2.0)  # shares of the most that a landmark adds: it must add so much
BESIDE = 1e-3  # rounding through the corner, as a share of what the landmarks miss, not worth fewer of them ...
NEXT_TO_NOTHING = 1e-9  # ... and as a share of the trace
SMALL = 128  # rows of a block
FEW = 2 * SMALL  # rows for which float32 is precise enough: n^2 / 2 roundings at worst are within ...
WIDER = 1.003  # ... what a bound on a norm is widened by
SINGLE = 2.0**-24  # largest relative error of a rounding in float32
Rounding = tuple[bool, float, float]  # differences in float32; a share of the trace of a block; what is beside it
IN_SINGLE = 1e-25, 1e35  # traces of matrices whose entries neither vanish nor overflow in float32
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
    within: Callable[[Sequence[slice]], Array], F: Array, V: Array, rounding: Rounding
) -> ResidualBound:
    """Bound K - F F' for some rows by diagonal blocks; its norm lacks the rounding, which the caller adds."""
    rough, share, slack = rounding
    # Rows of a block are far apart: neighbors are often alike, and alike is large.
    height, xp = F.shape[0], namespace(F)
    blocks = max(1, height // SMALL)
    parts = [slice(number, height, blocks) for number in range(blocks)]
    cuts = sorted({0, height % blocks, blocks})  # the first of them may have a row more
    seen: list[tuple[Array, Array, Array, Array]] = []
    for some in (parts[start:stop] for start, stop in pairwise(cuts)):
        K = within(some)
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
    rough = in_single <= ROUGH * next_value and IN_SINGLE[0] < trace < IN_SINGLE[1]
    return (in_single if rough else growth(m) * own * trace), rough


# The corner: C are the columns of the matrix at the landmarks, L L' is the corner, and F = C inv(L)'.


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
        return np.asarray(solve_triangular(self.L, right, lower=True, trans="T"))

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
        self, sums: Moments, start: Matrix, n: int, *, substituted: bool, shown: Matrix | None = None
    ) -> FeatureSpectrum:
        """Eigenpairs of F'(I - QQ')F from sums over rows of F, or C, from a start; `shown` is Z'Q."""
        # sum of (z - c)(z - c)' less n m m' for the mean m of z - c: centered, whatever the start c was.
        square, moved_mean = to_numpy(sums.square).astype(float), to_numpy(sums.total).astype(float) / n
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


# The solver.


@dataclass(frozen=True)
class Chosen:
    """Landmarks, and how to get the features of all rows."""

    pivots: Array  # (m,) positions
    block: LandmarkBlock
    features: Made  # rows of F, or of C
    substituted: bool  # whether they are those of F
    start: Array  # (m,) near the mean of the features
    among: int  # rows they were chosen among; F is at hand if these are all

    def head(self, m: int) -> "Chosen":
        """Return the first of them, where the features are those of F."""
        pivots, block = self.pivots[:m], self.block.head(m)
        features = self.features.then(lambda start, F: F[:, :m], m)
        return replace(self, pivots=pivots, block=block, features=features, start=self.start[:m])


@dataclass(frozen=True)
class Landmark:
    """Leading eigenpairs of the best approximation through a few landmark samples; never more than the matrix."""

    n_landmarks: int | None = None
    random_state: int = 0
    bounded: bool = True

    def __post_init__(self) -> None:
        if self.n_landmarks is not None and self.n_landmarks < 1:
            raise InputError(f"{self.n_landmarks} landmarks were asked for; give a positive number, or none")

    def __call__(self, gram: Gram, k: int) -> Eigenpairs:
        wanted = default_landmarks(k) if self.n_landmarks is None else self.n_landmarks
        if _fits_one_worker(gram, min(max(wanted, k), gram.n)):
            found: Eigenpairs = on_one_worker(lambda: self(gram, k), gram.n, gram.chunks or ())
            return found
        base, Q, centered = (gram.base, gram.Q, gram.mean) if isinstance(gram, Centered) else (gram, None, False)
        with threads_of_our_own():
            chosen = self._choose(base, min(max(wanted, k), gram.n))
            return _pairs(base, chosen, k, centered=centered, Q=Q, bounded=self.bounded)

    def factorize(self, gram: Gram, most: int) -> tuple[Array, Array, float]:
        """Return F, pivots and the trace of gram - F F', which is positive semidefinite; F[pivots] is triangular."""
        # What is left of the diagonal of K - F F' says how likely a sample is to be the next landmark; blocks of them
        # are proposed, thinned, and appended as columns of F.
        xp, rng = namespace(gram.reference), np.random.default_rng(self.random_state)
        left = xp.asarray(sent_to(gram.diagonal(), gram.reference), copy=True)
        scale = float(xp.max(xp.abs(left)))
        _check_diagonal(left, scale)
        trace, allowed = float(xp.sum(left)), most * eps(left)
        F = xp.zeros((gram.n, most), dtype=left.dtype, device=device(left))
        pivots: list[int] = []
        block = min(most, max(MIN_BLOCK, most // 8))
        while len(pivots) < most and float(xp.sum(left)) > allowed * trace:
            chosen, L = _propose(gram, F, len(pivots), left, block, rng, floor=eps(left) * scale)
            done, chosen = len(pivots), chosen[: most - len(pivots)]
            if not len(chosen):  # the first proposal is always accepted, unless what is left is rounding
                break
            _append(gram, F, done, xp.asarray(chosen, device=device(left)), L[: len(chosen), : len(chosen)], left)
            _check_diagonal(left, scale)
            left[...] = xp.clip(left, 0.0, None)
            pivots += chosen.tolist()
        pivots = pivots or [0]  # a zero matrix: any sample will do
        return F[:, : len(pivots)], xp.asarray(pivots, dtype=xp.int64, device=device(left)), float(xp.sum(left))

    def _sampled(self, gram: Gram, most: int) -> tuple[Array, Array, LandmarkBlock, float]:
        """Features of all rows, or of a sample of many; landmarks; their block; and the trace missed there."""
        sample, trace, positions = _sample(most), gram.trace(), None
        sample = sample if gram.chunks is None else min(sample, (gram.n - 1) // 2)  # not all rows in one place
        if gram.n > 2 * sample and trace > 0.0:
            positions = draw_rows(gram, sample, self.random_state)
        among = gram if positions is None else gram.among(positions)
        F, pivots, missed = self.factorize(among, min(most, among.n) if trace > 0.0 else 1)
        block = LandmarkBlock(to_numpy(pick(F, pivots)), gram)
        return F, pivots if positions is None else pick(positions, pivots), block, missed

    def _choose(self, gram: Gram, most: int) -> Chosen:
        F, pivots, block, missed = self._sampled(gram, most)
        if F.shape[0] == gram.n:
            return Chosen(pivots, block, as_made(F), True, namespace(F).mean(F, axis=0), gram.n)
        # Rounding of C'C grows by |inv(L)|^2: is it next to nothing beside the trace, or beside what is missed?
        L, as_large, columns = like(block.L, F), gram.n / F.shape[0], gram.against(pivots)
        some = F[::8, :] @ L.T  # columns of the matrix at a few rows, to know how long they are
        length = (8.0 * as_large * float(namespace(F).sum(some * some))) ** 0.5
        allowed = max(ENOUGH * block.trace, BESIDE_MISSED * as_large * missed)
        mean = namespace(F).mean(F, axis=0)
        if block.error_by_columns(gram.n, length) > allowed:
            return Chosen(pivots, block, columns.then(substitution(block, pivots)), True, mean, F.shape[0])
        return Chosen(pivots, block, columns, False, L @ mean, F.shape[0])


def part_below(gram: Gram, n_landmarks: int) -> tuple[Array, float]:
    """Return F and a number e with F F' <= gram + e I (in the order of symmetric matrices), through landmarks."""
    if _fits_one_worker(gram, min(n_landmarks, gram.n)):
        found: tuple[Array, float] = on_one_worker(lambda: part_below(gram, n_landmarks), gram.n, gram.chunks or ())
        return found
    F, pivots, block, _ = Landmark()._sampled(gram, min(n_landmarks, gram.n))
    if F.shape[0] < gram.n:
        F = kept(gram.against(pivots).then(substitution(block, pivots)), F, gram.memory)
    square = to_numpy(moments(F, like(np.zeros(F.shape[1]), F), centered=False).square).astype(float)
    sound, beside = block.sound(square)
    return F[:, :sound], beside


def _fits_one_worker(gram: Gram, landmarks: int) -> bool:
    """Whether landmarks are chosen among all rows, and one worker of a cluster has room for their features."""
    if gram.chunks is None or gram.n > 2 * _sample(landmarks):
        return False
    return 16.0 * gram.n * (3.0 * landmarks + gram.entry_operations) <= memory_of_a_worker()


def _sample(landmarks: int) -> int:
    """Rows to choose so many landmarks among."""
    return max(SAMPLE, SAMPLE_SHARE * landmarks)


def default_landmarks(k: int) -> int:
    """How many samples to pick for so many eigenpairs."""
    return max(LANDMARKS_PER_PAIR * k, LEAST_LANDMARKS)


def _pairs(gram: Gram, chosen: Chosen, k: int, *, centered: bool, Q: Array | None, bounded: bool) -> Eigenpairs:
    """Leading pairs of F F', centered and off covariates Q if asked, and how far they may be from the matrix's."""
    # 1) One pass over the rows adds up F'F, or C'C where inv(L) C'C inv(L)' is as good; landmarks whose rounding is
    # more than what they explain go.
    n, home = gram.n, gram.home
    chosen = replace(chosen, start=chosen.start * centered)
    sums, start = moments(chosen.features, chosen.start, centered=centered), chosen.start
    if chosen.substituted:  # of the rows themselves, which were measured from the start
        square = sums.square + sums.total[:, None] * start + start[:, None] * (sums.total + n * start)
        sound, _ = chosen.block.sound(to_numpy(square).astype(float))
        if sound < chosen.block.m:
            chosen, sums = chosen.head(sound), Moments(sums.total[:sound], sums.square[:sound, :sound])
    # 2) With F'F = U Theta U', the eigenvalues of F F' are Theta and its eigenvectors F U Theta^(-1/2).
    block, start = chosen.block, chosen.start
    # F'HF = F'F - F'QQ'F: what covariates show of the features is taken out of the sum of squares.
    shown = None if Q is None else to_numpy(cross(chosen.features, Q, start)).astype(float)
    found = block.spectrum(sums, to_numpy(start), n, substituted=chosen.substituted, shown=shown)
    values, U = _at_least(k, like(found.values, home), like(found.U, home))
    next_value = float(values[k]) if values.shape[0] > k else 0.0
    scaled, behind = U * inverse_roots(n, values)[None, :], slice(k, k + NEARBY)
    near_values, near = values[behind], scaled[:, behind]
    values, U, scaled = values[:k], U[:, :k], scaled[:, :k]
    # 3) What is left of the matrix, K - F F', is positive semidefinite: its trace is known, and blocks on its
    # diagonal bound its norm where the trace is too much.
    rounded = growth(n) * unit(start) * block.trace
    unexplained = max(0.0, block.trace - found.trace)
    left = unexplained + found.beside + rounded + block.m**0.5 * found.moved
    in_products, rough = rounding_in_blocks(block.m, block.trace, next_value, unit(start))
    in_entries = in_products + gram.evaluation_error() + found.beside
    affordable = on_gpu(start) or n * max(block.m, AS_LANDMARKS) <= MOST_NUMBERS
    in_blocks = bounded and affordable and left > WORTH_BLOCKS * next_value and unexplained > in_entries
    # 4) A second pass makes the eigenvectors, which are then orthonormal to the last digit and have their signs.
    share = in_products / block.trace if block.trace > 0 else 0.0
    rounding = (rough, share, gram.evaluation_error() + found.beside) if in_blocks else None
    vectors, nearby, missed = _lifted(gram, scaled, near, chosen, found, rounding)
    if Q is not None:
        vectors, nearby = off(Q, vectors), off(Q, nearby) if nearby.shape[1] else nearby
    within = None if missed is None or Q is not None else _turned(missed.within, cross(vectors, vectors))
    vectors, turned = orthonormalize(vectors, found.values[:k])
    signs = signs_of(vectors)
    flips = to_numpy(signs).astype(float)
    vectors = multiply(vectors, namespace(signs).eye(k, dtype=signs.dtype, device=device(signs)) * signs[None, :])
    U = U * signs[None, :]
    # 5) A new sample's row of the factor is k(y, landmarks) inv(L)'U, less the mean.
    weights = block.solve_transposed(to_numpy(U))
    made = block.product_error(found, weights, n, k, substituted=chosen.substituted)
    slopes = None if found.shown is None else -(like(found.shown.T, home) @ U)
    among = "" if chosen.among == n else f", chosen among {chosen.among}"
    pairs = Eigenpairs(
        values,
        vectors,
        next_value,
        found.centered_trace + left,
        Extension(like(weights, home), -(like(found.factor_mean, home) @ U), sent_to(chosen.pivots, home), slopes),
        solver=f"landmark: {block.m} of {n} samples{among}{'' if gram.memory is None else gram.memory.words()}",
        missed_trace=left,
        missed_norm=left if missed is None else min(missed.norm + in_entries, left),
        missed_within=None if within is None else within * np.outer(flips, flips),
        residual_norm=found.beside,
        residual_nuclear=2.0 * block.m**0.5 * found.beside,
        nearby=Nearby(near_values, nearby),
        taken_trace=0.0 if found.shown is None else float(np.sum(found.shown**2)),
    )
    return pairs.with_residual(found.moved + made + turned)


def _turned(within: Matrix, square: Array) -> Matrix | None:
    """Matrix above T'WT, for the T near I that makes columns with this Gram matrix orthonormal; None if it is far."""
    # With |T - I| <= d: T'WT <= (1 + d) W + (1 + 1/d) d^2 |W| I.
    d = 2.0 * float(np.linalg.norm(to_numpy(square).astype(float) - np.eye(len(within))))
    if not d < TURNED:
        return None
    return (1.0 + d) * (within + d * float(np.trace(within)) * np.eye(len(within)))


def _lifted(
    gram: Gram, leading: Array, behind: Array, chosen: Chosen, found: FeatureSpectrum, rounding: Rounding | None
) -> tuple[Array, Array, ResidualBound | None]:
    """Products of the centered factor with leading columns, and with those behind; a bound on what is left."""
    xp, k = namespace(leading), leading.shape[1]
    weights = xp.concat([leading, behind], axis=1)
    if not chosen.substituted:
        weights = like(chosen.block.solve_transposed(to_numpy(weights)), weights)
    weights = sent_to(weights, chosen.start)
    shift = like(found.mean, weights) @ weights
    solved, substituted = substitution(chosen.block, chosen.pivots), chosen.substituted
    blocks = gram.within() if chosen.among < gram.n else Gram.within(gram)  # from rows of F there is no other way

    def of(part: RowGroup, rows: slice) -> tuple[Array, ResidualBound | None]:
        Z = part[rows]
        V = Z @ weights - shift[None, :]
        if rounding is None:
            return V, None
        F = Z if substituted else solved(part.start + rows.start, Z)
        within = partial(blocks, part.start + rows.start, [x[rows, ...] for x in part.stored])
        return V, residual_bound(within, F, V[:, :k], rounding)

    V, parts = written(of, chosen.features, weights.shape[1], weights, gram.home, gram.memory)
    return V[:, :k], V[:, k:], None if rounding is None else reduce(operator.add, parts)


def _at_least(k: int, values: Array, U: Array) -> tuple[Array, Array]:
    """Return these pairs, made up to k with zeros if there are fewer."""
    if values.shape[0] >= k:
        return values, U
    xp = namespace(values)
    nothing = xp.zeros((U.shape[0], k - values.shape[0]), dtype=U.dtype, device=device(U))
    return xp.concat([values, xp.zeros_like(nothing[0, :])]), xp.concat([U, nothing], axis=1)


# Features: rows of F = C inv(L)'


def substitution(block: LandmarkBlock, pivots: Array) -> Callable[[int, Array], Array]:
    """Return what makes rows of F of rows of C, given the number of the first; the landmarks' own are exact."""
    own, L = to_numpy(pivots), like(block.L, block.reference)

    def solved(start: int, C: Array) -> Array:
        F = solve_lower(L, C)
        places = own - start
        here = np.flatnonzero((places >= 0) & (places < F.shape[0]))
        F[sent_to(places[here], F), :] = like(block.L[here], F)
        return F

    return solved


# Pivots: which samples are landmarks


def draw_rows(gram: Gram, size: int, random_state: int) -> Array:
    """Positions of about so many rows: one for each share of the diagonal, so that none of a larger one is missed."""

    # Sums of all groups of rows come here; each group then finds the draws that fall between its edges.
    def summed(part: RowGroup) -> Matrix:
        return np.cumsum(to_numpy(part[:]), dtype=float)

    diagonal = gram.diagonal()
    totals = dict(over(lambda first, part: (first, float(summed(part)[-1])), diagonal))
    ends = dict(zip(totals, np.cumsum([*totals.values()]).tolist(), strict=True))
    shares = np.arange(size) + np.random.default_rng(random_state).random(size)
    draws = shares * (max(ends.values()) / size)

    def of(first: int, part: RowGroup) -> Matrix:
        before = ends[first] - totals[first]
        own = draws[(draws >= before) & (draws < ends[first])] - before
        return np.asarray(first + np.minimum(np.searchsorted(summed(part), own, side="right"), len(part) - 1))

    positions = np.concatenate(list(over(of, diagonal)))
    return sent_to(positions[np.append(True, np.diff(positions) > 0)], gram.reference)


def _propose(
    gram: Gram, F: Array, done: int, left: Array, block: int, rng: np.random.Generator, *, floor: float
) -> tuple[Matrix, Matrix]:
    """Draw samples in proportion to what is left of their diagonal; return the accepted and their Cholesky factor."""
    xp = namespace(left)
    edges = xp.cumulative_sum(xp.astype(left, xp.float64))
    draws = like(rng.random(block) * float(edges[-1]), edges)
    # Rounding can put a draw behind the last edge.
    proposed = xp.clip(xp.searchsorted(edges, draws, side="right"), 0, gram.n - 1)
    rows = xp.take(F, proposed, axis=0)[:, :done]  # in this order: taking from a slice would copy the slice
    residual = to_numpy(gram.block(proposed, proposed) - rows @ rows.T).astype(float)
    # Accept each with the share of its diagonal that those before it left, if that is more than rounding: one column
    # of their Cholesky factor for each.
    names, promised = to_numpy(proposed), to_numpy(xp.take(left, proposed)).astype(float)
    L, accepted = np.zeros_like(residual), list[int]()
    for j, u in enumerate(rng.random(len(names))):
        count = len(accepted)
        remaining = residual[j, j] - L[j, :count] @ L[j, :count]
        if max(u * promised[j], floor) < remaining and names[j] not in names[accepted]:
            L[j:, count] = (residual[j:, j] - L[j:, :count] @ L[j, :count]) / np.sqrt(remaining)
            accepted.append(j)
    return names[accepted], L[np.ix_(accepted, range(len(accepted)))]


def _append(gram: Gram, F: Array, done: int, chosen: Array, L: Matrix, left: Array) -> None:
    """Write the new columns of F, and take them off the diagonal, strip by strip."""
    xp = namespace(F)
    columns = slice(done, done + L.shape[0])
    above = xp.take(F, chosen, axis=0)[:, :done].T

    def of(rows: slice) -> None:
        # (K - F F') at the new landmarks, divided by their own Cholesky factor.
        tile = gram.block(rows, chosen)
        tile -= F[rows, :done] @ above
        tile = solve_lower(L, tile)
        F[rows, columns] = tile
        left[rows] -= xp.sum(tile * tile, axis=1)

    for_each(of, strips(gram.n, L.shape[0], F), F)
    F[chosen, columns] = like(L, F)  # triangular, and nothing left, to the last digit
    left[chosen] = 0.0


def _check_diagonal(left: Array, scale: float) -> None:
    """A positive semidefinite matrix never has less than nothing left."""
    lowest = float(namespace(left).min(left))
    if lowest < -(eps(left) ** 0.5) * scale:
        raise InputError(f"the matrix is not positive semidefinite: its diagonal has {lowest:.3g}; check the kernel")
