"""The landmark solver: linear in n, from a few columns of the matrix, in two passes over its rows.

Landmarks are chosen by randomly pivoted Cholesky, among a sample of the rows where there are many. With C the columns
at the landmarks and L L' their corner, F = C inv(L)' has F F' below the matrix, and the leading eigenpairs of F F'
are those of the small F'F. The first pass adds up C'C or F'F, the second makes the eigenvectors; neither is kept.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg import memory
from dkpca.linalg.arrays import Array, device, like, namespace, sent_to, set_rows, tall_empty, to_numpy, write_over
from dkpca.linalg.corner import Corner, Spectrum
from dkpca.linalg.eigenpairs import NEARBY, Eigenpairs, Extension, Nearby, inverse_roots, signs_of
from dkpca.linalg.gram import Centered, Gram, Opened, pick
from dkpca.linalg.missed import Missed, block_rows, missed, missed_in, rounding_in_blocks
from dkpca.linalg.moments import Done, groups, moments, write_products
from dkpca.linalg.parallel import split_work, threads_of_our_own
from dkpca.linalg.pivoting import draw_rows, factorize
from dkpca.linalg.progress import Progress, silent
from dkpca.linalg.ritz import orthonormalize
from dkpca.linalg.rounding import growth, unit
from dkpca.linalg.strips import cross, multiply, squared, strips

LANDMARKS_PER_PAIR = 4
LEAST_LANDMARKS = 100
SAMPLE, SAMPLE_SHARE = 10_000, 20  # rows to choose landmarks among: at least so many, and so many for each landmark
ENOUGH = 1e-12  # error of the eigenvalues, as a share of the trace, that is not worth a substitution for each row ...
CHOOSING, LIFTING = 0.1, 0.6  # shares of the work that are done after the choice, and before the second pass
BLOCK = 40  # rows of a triangle to invert at a time, where all of it would be too rough ...
WORTH = 1e-2  # ... with this share of what is left out anyway as rounding: for a third of the time
BESIDE_MISSED = 1e-4  # ... and as a share of the trace that the landmarks miss


@dataclass(frozen=True)
class Chosen:
    """Landmarks, and how to get the features of all rows."""

    pivots: Array  # (m,) positions
    corner: Corner
    features: Opened  # rows of F, or of C
    factor: Array | None  # F, if it is at hand
    substituted: bool  # whether they are those of F
    start: Array  # (m,) near the mean of the features
    among: int  # rows they were chosen among

    def head(self, m: int, gram: Gram) -> "Chosen":
        """Return the first of them, where the features are those of F."""
        pivots, corner = self.pivots[:m], self.corner.head(m)
        factor = None if self.factor is None else self.factor[:, :m]
        features = (
            _substituted(gram.against(pivots), _substitution(corner, pivots))
            if factor is None
            else _slices_of(factor)
        )
        return replace(self, pivots=pivots, corner=corner, features=features, factor=factor, start=self.start[:m])


@dataclass(frozen=True)
class Landmark:
    """Leading eigenpairs of the best approximation through a few landmark samples; never more than the matrix.

    Parameters
    ----------
    n_landmarks : int, optional
        How many samples to pick; four for each eigenpair, at least 100, if not given.
    tolerance : float
        Stop earlier once the trace left out is at most this share of the trace.
    random_state : int
        Seed of the draws.
    progress : Progress
        Told how much of the work is done.
    bounded : bool
        Whether what is missed is bounded by more than its trace, which takes about as long as all the rest.
    """

    n_landmarks: int | None = None
    tolerance: float = 0.0
    random_state: int = 0
    progress: Progress = silent
    bounded: bool = True

    def __post_init__(self) -> None:
        if self.n_landmarks is not None and self.n_landmarks < 1:
            raise InputError(f"{self.n_landmarks} landmarks were asked for; give a positive number, or none")

    def __call__(self, gram: Gram, k: int) -> Eigenpairs:
        wanted = default_landmarks(k) if self.n_landmarks is None else self.n_landmarks
        base = gram.base if isinstance(gram, Centered) else gram
        with threads_of_our_own():
            chosen = self._choose(base, min(max(wanted, k), gram.n), k)
            return _pairs(base, chosen, k, centered=base is not gram, bounded=self.bounded, progress=self.progress)

    def factorize(self, gram: Gram, most: int) -> tuple[Array, Array, float]:
        """Return F, pivots and the trace of gram - F F', which is positive semidefinite; F[pivots] is triangular."""
        return factorize(
            gram, most, tolerance=self.tolerance, random_state=self.random_state, progress=self._choosing
        )

    def _choosing(self, what: str, share: float) -> None:
        self.progress(what, CHOOSING * share)

    def _sampled(self, gram: Gram, most: int) -> tuple[Array, Array, Corner, float]:
        """Features of all rows, or of a sample of many; landmarks; their corner; and the trace missed there."""
        sample, trace = max(SAMPLE, SAMPLE_SHARE * most), gram.trace()
        if gram.n <= 2 * sample or not trace > 0.0:
            F, pivots, missed = self.factorize(gram, most if trace > 0.0 else 1)
            return F, pivots, Corner(to_numpy(pick(F, pivots)), gram), missed
        positions = draw_rows(gram, sample, self.random_state)
        F, pivots, missed = self.factorize(gram.among(positions), min(most, positions.shape[0]))
        return F, pick(positions, pivots), Corner(to_numpy(pick(F, pivots)), gram), missed

    def _choose(self, gram: Gram, most: int, k: int) -> Chosen:
        F, pivots, corner, missed = self._sampled(gram, most)
        if F.shape[0] == gram.n:
            return Chosen(pivots, corner, _slices_of(F), F, True, namespace(F).mean(F, axis=0), gram.n)
        substituted, start = features_to_add_up(F, corner, gram.n, missed)
        corner, columns = _quicker(corner, F, gram.n, k, missed), gram.against(pivots)
        columns = _substituted(columns, _substitution(corner, pivots)) if substituted else columns
        return Chosen(pivots, corner, columns, None, substituted, start, F.shape[0])


def features_to_add_up(F: Array, corner: Corner, n: int, missed: float) -> tuple[bool, Array]:
    """Whether rows have to be substituted before they are added up, and what is near the mean of what is added up.

    F are the features of a sample of n rows, and `missed` the trace that they miss there.
    """
    xp, as_large = namespace(F), n / F.shape[0]
    mean = xp.mean(F, axis=0)
    some = F[::8, :] @ like(corner.L, F).T  # columns of the matrix at a few rows, to know how long they are
    length = (8.0 * as_large * float(xp.sum(some * some))) ** 0.5
    allowed = max(ENOUGH * corner.trace, BESIDE_MISSED * as_large * missed)
    if corner.error_by_columns(n, length) > allowed:
        return True, mean
    return False, like(corner.L, F) @ mean


def _quicker(corner: Corner, F: Array, n: int, k: int, missed: float) -> Corner:
    """The corner by inverses, where they round next to nothing; F are features of a sample of n rows."""
    if not isinstance(F, np.ndarray):
        return corner
    as_large = n / F.shape[0]
    square = as_large * cross(F, F).astype(float)
    left_out = float(np.linalg.eigvalsh(square)[-k - 1]) if k < len(square) else 0.0
    allowed = WORTH * max(left_out, as_large * missed)
    for size in (corner.m, BLOCK):
        quick = corner.by_inverses(size)
        if quick is not None and quick.beside(square) <= allowed:
            return quick
    return corner


def part_below(gram: Gram, n_landmarks: int) -> tuple[Array, float]:
    """Return F and a number e with F F' <= gram + e I (in the order of symmetric matrices), through landmarks."""
    F, pivots, corner, missed = Landmark()._sampled(gram, min(n_landmarks, gram.n))
    if F.shape[0] < gram.n:
        corner = _quicker(corner, F, gram.n, n_landmarks, missed)
        F = _all_features(gram, pivots, corner, F)
    square = to_numpy(squared(lambda rows: F[rows, :], gram.n, F.shape[1], F)).astype(float)
    sound, beside = corner.sound(square)
    return F[:, :sound], beside


def _all_features(gram: Gram, pivots: Array, corner: Corner, reference: Array) -> Array:
    """Rows of F for all samples."""
    made = _substituted(gram.against(pivots), _substitution(corner, pivots))
    F = tall_empty((gram.n, corner.m), reference)

    def share(parts: Sequence[slice]) -> None:
        for group in parts:
            rows_of = made(group)
            for rows in strips(group.stop - group.start, F.shape[1], F):
                F[group.start + rows.start : group.start + rows.stop, :] = rows_of(rows)

    split_work(share, groups(gram.n), F)
    return F


def default_landmarks(k: int) -> int:
    """How many samples to pick for so many eigenpairs."""
    return max(LANDMARKS_PER_PAIR * k, LEAST_LANDMARKS)


def _pairs(gram: Gram, chosen: Chosen, k: int, *, centered: bool, bounded: bool, progress: Progress) -> Eigenpairs:
    """Leading pairs of F F', or of the same after centering, and how far they may be from those of the matrix."""
    n, home = gram.n, gram.home
    done = _part(progress, CHOOSING, LIFTING)
    sums = moments(chosen.features, n, chosen.start, centered=centered, progress=done)
    if chosen.substituted:
        square = sums.from_zero(n, chosen.start) if centered else sums.square
        sound, _ = chosen.corner.sound(to_numpy(square).astype(float))
        chosen, sums = (chosen.head(sound, gram), sums.head(sound)) if sound < chosen.corner.m else (chosen, sums)
    corner, start = chosen.corner, chosen.start
    found = corner.spectrum(sums, to_numpy(start) if centered else None, n, substituted=chosen.substituted)
    values, U = like(found.values, home), like(found.U, home)
    next_value = float(values[k]) if values.shape[0] > k else 0.0
    scaled, behind = U * inverse_roots(n, values)[None, :], slice(k, k + NEARBY)
    near_values, near = values[behind], scaled[:, behind]
    (values, U), scaled = _first(k, values, U), _first(k, values, scaled)[1]
    rounded = growth(n) * unit(start) * corner.trace
    unexplained = max(0.0, corner.trace - found.trace)
    left = unexplained + found.beside + rounded + corner.m**0.5 * found.moved
    in_products, rough = rounding_in_blocks(corner.m, corner.trace, next_value, unit(start))
    in_entries = in_products + gram.evaluation_error() + found.beside
    worthwhile = left > next_value and unexplained > in_entries
    blocks = block_rows(n, corner.m, start) if bounded and worthwhile else None
    lifted = _lifted(gram, scaled, near, chosen, found, progress, blocks=blocks, rough=rough)
    vectors, square = lifted.vectors, lifted.square
    turned = orthonormalize(vectors, square, found.values[:k])
    signs = signs_of(vectors)
    multiply(vectors, namespace(signs).eye(k, dtype=signs.dtype, device=device(signs)) * signs[None, :])
    U = U * signs[None, :]
    weights = corner.solve_transposed(to_numpy(U))
    made = corner.product_error(found, weights, n, k, substituted=chosen.substituted)
    pairs = Eigenpairs(
        values,
        vectors,
        next_value,
        found.centered_trace + left,
        Extension(like(weights, home), -(like(found.factor_mean, home) @ U), anchors=sent_to(chosen.pivots, home)),
        solver=_words(chosen, n),
        missed_trace=left,
        missed_norm=min(lifted.missed.norm + in_entries, left),
        missed_leading=min(lifted.missed.leading + k * in_entries, left),
        residual_norm=found.beside,
        residual_nuclear=2.0 * corner.m**0.5 * found.beside,
        nearby=Nearby(near_values, lifted.nearby),
    )
    return pairs.with_residual(found.moved + made + turned)


def _part(progress: Progress, start: float, end: float) -> Done:
    """A pass over the rows, as a part of the work."""
    return lambda share: progress("landmarks", start + (end - start) * share)


def _words(chosen: Chosen, n: int) -> str:
    among = "" if chosen.among == n else f", chosen among {chosen.among}"
    return f"landmark: {chosen.corner.m} of {n} samples{among}{memory.words()}"


def _slices_of(F: Array) -> Opened:
    """Features that are at hand, in new arrays."""

    def opened(group: slice) -> Callable[[slice], Array]:
        part = F[group, :]
        return lambda rows: namespace(F).asarray(part[rows, :], copy=True)

    return opened


def _substituted(columns: Opened, solved: Callable[[Array, int], Array]) -> Opened:
    """Rows of F from those of C."""

    def opened(group: slice) -> Callable[[slice], Array]:
        rows_of = columns(group)
        return lambda rows: solved(rows_of(rows), group.start + rows.start)

    return opened


def _substitution(corner: Corner, pivots: Array) -> Callable[[Array, int], Array]:
    """Return what makes rows of F from rows of C, given the place of the first.

    Those of the landmarks are triangular to the last digit.
    """
    own = to_numpy(pivots)

    def solved(C: Array, start: int) -> Array:
        F = corner.solve(C)
        places = own - start
        here = np.flatnonzero((places >= 0) & (places < F.shape[0]))
        return set_rows(F, places[here], corner.L[here]) if len(here) else F

    return solved


@dataclass(frozen=True)
class _Lifted:
    vectors: Array  # (n, k)
    nearby: Array  # (n, q)
    square: Array  # (k, k), of the vectors
    missed: Missed


def _lifted(
    gram: Gram,
    leading: Array,
    behind: Array,
    chosen: Chosen,
    found: Spectrum,
    progress: Progress,
    *,
    blocks: int | None,
    rough: bool,
) -> _Lifted:
    """Products of the centered factor with leading columns and with those behind; and a bound on what is left.

    Without blocks, the trace has to do, as it may where that is less than the next eigenvalue, which is left out too.
    """
    xp, n, k = namespace(leading), gram.n, leading.shape[1]
    weights = xp.concat([leading, behind], axis=1)
    if not chosen.substituted:
        weights = like(chosen.corner.solve_transposed(to_numpy(weights)), weights)
    weights = sent_to(weights, chosen.start)
    vectors, nearby = (tall_empty((n, A.shape[1]), A) for A in (leading, behind))
    solved = _substitution(chosen.corner, chosen.pivots)

    def keep(group: slice, rows: Array) -> None:
        write_over(vectors[group, :], rows[:, :k])
        write_over(nearby[group, :], rows[:, k:])

    def left(size: int, group: slice) -> Callable[[slice, Array], Missed]:
        within = gram.within(group)
        return lambda rows, Z: missed_in(
            within, rows, Z if chosen.substituted else solved(Z, rows.start), k, size, rough=rough
        )

    shift, done = like(found.mean, weights) @ weights, _part(progress, LIFTING, 1.0)
    square, parts = write_products(
        chosen.features,
        n,
        weights,
        shift,
        keep,
        looked_at=None if blocks is None or chosen.factor is not None else partial(left, blocks),
        progress=done,
    )
    if blocks is None:
        unexplained = Missed(math.inf, math.inf)
    elif chosen.factor is not None:
        unexplained = missed(gram, chosen.factor, k)
    else:
        unexplained = Missed(sum(part.norm for part in parts), sum(part.leading for part in parts))
    return _Lifted(vectors, nearby, square[:k, :k], unexplained)


def _first(k: int, values: Array, U: Array) -> tuple[Array, Array]:
    """Return the first k pairs, made up with zeros if there are fewer."""
    xp = namespace(values)
    missing = max(0, k - values.shape[0])
    if missing:
        nothing = xp.zeros((U.shape[0], missing), dtype=U.dtype, device=device(U))
        values, U = xp.concat([values, xp.zeros_like(nothing[0, :])]), xp.concat([U, nothing], axis=1)
    return values[:k], U[:, :k]
