"""The landmark solver: linear in n, from a few columns of the matrix, in two passes over its rows.

Landmarks are chosen by randomly pivoted Cholesky, among a sample of the rows where there are many. With C the columns
at the landmarks and L L' their corner, F = C inv(L)' has F F' below the matrix, and the leading eigenpairs of F F'
are those of the small F'F. The first pass adds up C'C or F'F, the second makes the eigenvectors; neither is kept.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

from dkpca.errors import InputError
from dkpca.linalg import memory
from dkpca.linalg.arrays import (
    Array,
    device,
    like,
    namespace,
    on_gpu,
    sent_to,
    tall_empty,
    to_numpy,
    write_over,
)
from dkpca.linalg.corner import Corner, Spectrum
from dkpca.linalg.eigenpairs import NEARBY, Eigenpairs, Extension, Nearby, inverse_roots, signs_of
from dkpca.linalg.features import (
    Chosen,
    all_features,
    features_from,
    features_to_add_up,
    quicker,
    slices_of,
    substitution,
)
from dkpca.linalg.gram import Centered, Gram, pick
from dkpca.linalg.missed import MOST_NUMBERS, Missed, missed, missed_in, rounding_in_blocks
from dkpca.linalg.moments import Done, moments, write_products
from dkpca.linalg.parallel import threads_of_our_own
from dkpca.linalg.pivoting import draw_rows, factorize
from dkpca.linalg.progress import Progress, silent
from dkpca.linalg.ritz import orthonormalize
from dkpca.linalg.rounding import growth, unit
from dkpca.linalg.strips import multiply, squared

LANDMARKS_PER_PAIR = 4
LEAST_LANDMARKS = 100
SAMPLE, SAMPLE_SHARE = 10_000, 20  # rows to choose landmarks among: at least so many, and so many for each landmark
CHOOSING, LIFTING = 0.1, 0.6  # shares of the work that are done after the choice, and before the second pass


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
            return Chosen(pivots, corner, slices_of(F), F, True, namespace(F).mean(F, axis=0), gram.n)
        substituted, start = features_to_add_up(F, corner, gram.n, missed)
        corner, columns = quicker(corner, F, gram.n, k, missed), gram.against(pivots)
        columns = features_from(columns, substitution(corner, pivots)) if substituted else columns
        return Chosen(pivots, corner, columns, None, substituted, start, F.shape[0])


def part_below(gram: Gram, n_landmarks: int) -> tuple[Array, float]:
    """Return F and a number e with F F' <= gram + e I (in the order of symmetric matrices), through landmarks."""
    F, pivots, corner, missed = Landmark()._sampled(gram, min(n_landmarks, gram.n))
    if F.shape[0] < gram.n:
        corner = quicker(corner, F, gram.n, n_landmarks, missed)
        F = all_features(gram, pivots, corner, F)
    square = to_numpy(squared(lambda rows: F[rows, :], gram.n, F.shape[1], F)).astype(float)
    sound, beside = corner.sound(square)
    return F[:, :sound], beside


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
    in_blocks = bounded and worthwhile and (on_gpu(start) or n * corner.m <= MOST_NUMBERS)
    lifted = _lifted(gram, scaled, near, chosen, found, progress, in_blocks=in_blocks, rough=rough)
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
    in_blocks: bool,
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
    solved = substitution(chosen.corner, chosen.pivots)

    def keep(group: slice, rows: Array) -> None:
        write_over(vectors[group, :], rows[:, :k])
        write_over(nearby[group, :], rows[:, k:])

    def left(group: slice) -> Callable[[slice, Array], Missed]:
        within = gram.within(group)
        return lambda rows, Z: missed_in(
            within, rows, Z if chosen.substituted else solved(Z, rows.start), k, rough=rough
        )

    shift, done = like(found.mean, weights) @ weights, _part(progress, LIFTING, 1.0)
    square, parts = write_products(
        chosen.features,
        n,
        weights,
        shift,
        keep,
        looked_at=left if in_blocks and chosen.factor is None else None,
        progress=done,
    )
    if not in_blocks:
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
