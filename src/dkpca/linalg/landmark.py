"""The landmark solver: linear in n, from a few columns of the matrix, in two passes over its rows.

Landmarks are chosen by randomly pivoted Cholesky, among a sample of the rows where there are many. With C the columns
at the landmarks and L L' their block of the matrix, F = C inv(L)' has F F' below the matrix, and the leading
eigenpairs of F F' are those of the small F'F. The first pass adds up C'C or F'F, the second makes the eigenvectors.

Chen, Epperly, Tropp, Webber (2022), *Randomly pivoted Cholesky*; and (2024) *Embrace rejection*, for the block form.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.arrays import (
    Array,
    device,
    eps,
    growth,
    like,
    namespace,
    on_gpu,
    sent_to,
    set_rows,
    solve_lower,
    to_numpy,
    unit,
)
from dkpca.linalg.eigenpairs import (
    NEARBY,
    Eigenpairs,
    Extension,
    Nearby,
    inverse_roots,
    orthonormalize,
    signs_of,
)
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.landmark_block import (
    FeatureSpectrum,
    LandmarkBlock,
    ResidualBound,
    residual_bound,
    rounding_in_blocks,
)
from dkpca.linalg.on_dask import memory_of_a_worker, on_one_worker
from dkpca.linalg.rows import (
    Made,
    RowGroup,
    cross,
    for_each,
    kept,
    moments,
    multiply,
    off,
    over,
    pick,
    products,
    strips,
    threads_of_our_own,
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
            at_hand = Made((F,), lambda start, rows: rows, F.shape[1])
            return Chosen(pivots, block, at_hand, True, namespace(F).mean(F, axis=0), gram.n)
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
    sums = moments(chosen.features, chosen.start, centered=centered)
    if chosen.substituted:
        square, start = sums.square, chosen.start
        if centered:  # of the rows themselves, which were measured from the start
            square = square + sums.total[:, None] * start + start[:, None] * (sums.total + n * start)
        sound, _ = chosen.block.sound(to_numpy(square).astype(float))
        chosen, sums = (chosen.head(sound), sums.head(sound)) if sound < chosen.block.m else (chosen, sums)
    # 2) With F'F = U Theta U', the eigenvalues of F F' are Theta and its eigenvectors F U Theta^(-1/2).
    block, start = chosen.block, chosen.start
    # F'HF = F'F - F'QQ'F: what covariates show of the features is taken out of the sum of squares.
    shown = None if Q is None else to_numpy(cross(chosen.features, Q, start)).astype(float)
    origin = to_numpy(start) if centered else None
    found = block.spectrum(sums, origin, n, substituted=chosen.substituted, shown=shown)
    values, U = like(found.values, home), like(found.U, home)
    next_value = float(values[k]) if values.shape[0] > k else 0.0
    scaled, behind = U * inverse_roots(n, values)[None, :], slice(k, k + NEARBY)
    near_values, near = values[behind], scaled[:, behind]
    (values, U), scaled = _first(k, values, U), _first(k, values, scaled)[1]
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
    vectors, nearby, square, missed = _lifted(gram, scaled, near, chosen, found, rounding)
    if Q is not None:
        vectors, nearby = off(Q, vectors), off(Q, nearby) if nearby.shape[1] else nearby
        square = cross(vectors, vectors)
    within = None if missed is None or Q is not None else _turned(missed.within, square)
    vectors, turned = orthonormalize(vectors, square, found.values[:k])
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


def _turned(within: np.ndarray[Any, Any], square: Array) -> np.ndarray[Any, Any] | None:
    """Matrix above T'WT, for the T near I that makes columns with this Gram matrix orthonormal; None if it is far."""
    # With |T - I| <= d: T'WT <= (1 + d) W + (1 + 1/d) d^2 |W| I.
    d = 2.0 * float(np.linalg.norm(to_numpy(square).astype(float) - np.eye(len(within))))
    if not d < TURNED:
        return None
    return (1.0 + d) * (within + d * float(np.trace(within)) * np.eye(len(within)))


def _lifted(
    gram: Gram,
    leading: Array,
    behind: Array,
    chosen: Chosen,
    found: FeatureSpectrum,
    rounding: tuple[bool, float, float] | None,
) -> tuple[Array, Array, Array, ResidualBound | None]:
    """Products V of the centered factor with leading columns, and with those behind; V'V; a bound on what is left."""
    xp, k = namespace(leading), leading.shape[1]
    weights = xp.concat([leading, behind], axis=1)
    if not chosen.substituted:
        weights = like(chosen.block.solve_transposed(to_numpy(weights)), weights)
    weights = sent_to(weights, chosen.start)
    solved, substituted = substitution(chosen.block, chosen.pivots), chosen.substituted
    blocks = gram.within() if chosen.among < gram.n else Gram.within(gram)  # from rows of F there is no other way

    def left(part: RowGroup, rows: slice, Z: Array, V: Array) -> ResidualBound:
        F = Z if substituted else solved(part.start + rows.start, Z)
        return residual_bound(blocks(part.start, part.stored), rows, F, V[:, :k], rounding or (False, 0.0, 0.0))

    shift, seen = like(found.mean, weights) @ weights, None if rounding is None else left
    V, square, parts = products(chosen.features, weights, shift, gram.home, seen=seen, memory=gram.memory)
    return V[:, :k], V[:, k:], square[:k, :k], reduce(operator.add, parts) if parts else None


def _first(k: int, values: Array, U: Array) -> tuple[Array, Array]:
    """Return the first k pairs, made up with zeros if there are fewer."""
    xp = namespace(values)
    missing = max(0, k - values.shape[0])
    if missing:
        nothing = xp.zeros((U.shape[0], missing), dtype=U.dtype, device=device(U))
        values, U = xp.concat([values, xp.zeros_like(nothing[0, :])]), xp.concat([U, nothing], axis=1)
    return values[:k], U[:, :k]


# Features: rows of F = C inv(L)'


def substitution(block: LandmarkBlock, pivots: Array) -> Callable[[int, Array], Array]:
    """Return what makes rows of F of rows of C, given the number of the first; the landmarks' own are exact."""
    own, L = to_numpy(pivots), like(block.L, block.reference)

    def solved(start: int, C: Array) -> Array:
        F = solve_lower(L, C)
        places = own - start
        here = np.flatnonzero((places >= 0) & (places < F.shape[0]))
        return set_rows(F, places[here], block.L[here]) if len(here) else F

    return solved


# Pivots: which samples are landmarks


def draw_rows(gram: Gram, size: int, random_state: int) -> Array:
    """Positions of about so many rows: one for each share of the diagonal, so that none of a larger one is missed."""

    # Sums of all groups of rows come here; each group then finds the draws that fall between its edges.
    def summed(part: RowGroup) -> np.ndarray[Any, Any]:
        return np.cumsum(to_numpy(part[:]), dtype=float)

    diagonal = gram.diagonal()
    totals = dict(over(lambda first, part: (first, float(summed(part)[-1])), diagonal))
    ends = dict(zip(totals, np.cumsum([*totals.values()]).tolist(), strict=True))
    shares = np.arange(size) + np.random.default_rng(random_state).random(size)
    draws = shares * (max(ends.values()) / size)

    def of(first: int, part: RowGroup) -> np.ndarray[Any, Any]:
        before = ends[first] - totals[first]
        own = draws[(draws >= before) & (draws < ends[first])] - before
        found = np.searchsorted(summed(part), own, side="right")
        return np.asarray(first + np.minimum(found, len(part) - 1))

    positions = np.concatenate(list(over(of, diagonal)))
    return sent_to(positions[np.append(True, np.diff(positions) > 0)], gram.reference)


def _propose(
    gram: Gram, F: Array, done: int, left: Array, block: int, rng: np.random.Generator, *, floor: float
) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
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


def _append(gram: Gram, F: Array, done: int, chosen: Array, L: np.ndarray[Any, Any], left: Array) -> None:
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
    places = to_numpy(chosen)  # triangular, and nothing left, to the last digit
    set_rows(F, places, L, columns)
    set_rows(left[:, None], places, np.zeros((len(places), 1)))


def _check_diagonal(left: Array, scale: float) -> None:
    """A positive semidefinite matrix never has less than nothing left."""
    lowest = float(namespace(left).min(left))
    if lowest < -(eps(left) ** 0.5) * scale:
        raise InputError(f"the matrix is not positive semidefinite: its diagonal has {lowest:.3g}; check the kernel")
