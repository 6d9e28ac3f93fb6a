"""How far the components probably are from the true ones, from what the center holds anyway. No proof.

The center takes away a part of the factors that resembles what the parties left out, and sees how far the components
turn, to first order. Two cuts, since each is too wide somewhere: the last quarter of every factor, and the last
columns whose trace is that of what was left out. The smaller turn counts; calibrated by experiments/estimates.py.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dkpca.certificate.left_out import PartyError
from dkpca.kernels.grams import FusedGram
from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import Array, like, namespace, sent_to, to_numpy, transposed
from dkpca.linalg.eigenpairs import Eigenpairs, Nearby
from dkpca.linalg.lazy_factor import Factor, as_sent, column_squares, reference_of, scaled
from dkpca.linalg.nearfar import Matrix, Spectrum, Vector, turned
from dkpca.linalg.rows import away_from, crossed

KEPT = 0.75  # of a factor, in the first cut
SAFETY = 2.0  # both cuts are sometimes half as large as they should be
ROUNDING = 0.03  # of the squared bound on rounding, whose single errors mostly cancel
MOST_PASSED = 20_000  # samples all of which are looked at, where the solver passed over the matrix too
ROWS = 400  # looked at otherwise

Positions = np.ndarray[tuple[int], np.dtype[np.int64]]


def component_errors(
    errors: Sequence[PartyError], law: Law, pairs: Eigenpairs, *, random_state: int = 0
) -> tuple[float, ...]:
    """Estimate the squared sine between each component and the true leading subspace."""
    V, n = pairs.vectors, pairs.vectors.shape[0]
    exact = pairs.extension.anchors is None  # the solver passed over the whole matrix
    all_rows = law.linear or n <= (MOST_PASSED if exact else ROWS)
    drawn = np.random.default_rng([random_state, n]).choice(n, min(n, ROWS), replace=False)
    positions = np.arange(n) if all_rows else np.sort(drawn)
    spectrum = spectrum_at(pairs.values, V, pairs.nearby, positions)
    weights = np.full(len(positions), n / len(positions))
    diagonals = [e.sent_diagonal for e in errors if e.sent_diagonal is not None] or None

    cuts = [[without_last(kept) for kept in cut] for cut in kept_shares(errors)]
    cuts = cuts if exact else [[np.ones(e.factor.shape[1]) for e in errors], *cuts]
    factors = [e.factor for e in errors]
    if all_rows:
        grams = [FusedGram(law, list(map(_scaled, factors, cut)), diagonals) for cut in cuts]
        images = [to_numpy(gram @ V).astype(float) for gram in grams]
    else:
        factors = factors if diagonals is not None else [as_sent(A) for A in factors]
        images = rows_times(law, factors, cuts, diagonals, positions, V)
    whole, images = (None, images) if exact else (images[0], images[1:])
    moved = rounding_norm(errors, law.amplification([e.received for e in errors], [e.diagonal for e in errors]))
    return from_images(whole, images, spectrum, weights, moved, all_rows=all_rows)


def rows_times(
    law: Law,
    factors: Sequence[Factor],
    cuts: Sequence[Sequence[Vector]],
    diagonals: Sequence[Array] | None,
    positions: Positions,
    V: Array,
) -> list[Matrix]:
    """Some rows of the fused matrix times V, as each cut multiplies columns of the factors: in one pass over them."""
    place = away_from(V)
    there = FusedGram(law, factors, diagonals, place)
    xp = namespace(there.reference)
    scales = [[like(kept, there.reference) for kept in cut] for cut in cuts]

    def merged(rows: Sequence[Array], own: Sequence[Array] | None) -> list[list[Array]]:
        return [law.merge([scaled(A, by) for A, by in zip(rows, cut, strict=True)], own) for cut in scales]

    right = [list(map(transposed, each)) for each in merged(*there.parts(sent_to(positions, there.reference)))]

    def make(start: int, *stored: Array) -> Array:
        both = zip(merged(*there.parts_from(stored)), right, strict=True)
        return xp.concat([law.crossed(left, own) for left, own in both], axis=1)

    table = replace(there.table(), make=make, width=len(positions) * len(cuts))
    found = to_numpy(crossed(table, V, V if place is None else place)).astype(float)
    return np.split(found, len(cuts))


def from_images(
    whole: Matrix | None,
    cuts: Sequence[Matrix],
    spectrum: Spectrum,
    weights: Vector,
    rounding: float,
    *,
    all_rows: bool,
) -> tuple[float, ...]:
    """Estimate from rows of the fused matrix times the components, as it is and by factors that were cut.

    `whole` is None if the components are exact for the fused matrix.
    """
    own = spectrum.components * spectrum.values[None, :]
    image = own if whole is None else whole
    found = [turned(image - cut, spectrum, weights, all_rows=all_rows) for cut in cuts]
    total = SAFETY * min(found, key=lambda each: float(each.sum())) + _rounding(rounding, spectrum)
    if whole is not None:
        total = total + turned(own - whole, spectrum, weights, all_rows=all_rows)
    return tuple(np.minimum(total, 1.0).tolist())


def spectrum_at(values: Array, vectors: Array, nearby: Nearby | None, positions: Positions) -> Spectrum:
    """Components and what lies next to them, at some of the samples."""

    def rows_of(x: Array) -> Matrix:
        return to_numpy(namespace(x).take(x, sent_to(positions, x), axis=0)).astype(float)

    here = rows_of(vectors)
    if nearby is None:
        return Spectrum(to_numpy(values).astype(float), here, np.zeros(0), here[:, :0])
    near = rows_of(nearby.vectors)
    return Spectrum(to_numpy(values).astype(float), here, to_numpy(nearby.values).astype(float), near)


def kept_shares(errors: Sequence[PartyError], lengths: Sequence[Vector] | None = None) -> list[list[Vector]]:
    """Shares of columns that stay, by cut and party: without the last quarter, and without the trace left out.

    `lengths` are the squared lengths of the factors' columns, if they are known. The second cut is for little trace.
    """
    if lengths is None:
        lengths = [to_numpy(column_squares(e.factor)).astype(float) for e in errors]
    pairs = list(zip(errors, lengths, strict=True))
    shares = [[_last_quarter(e, len(own)) for e, own in pairs], [_as_much_trace(e, own) for e, own in pairs]]
    if any(np.count_nonzero(kept < 1.0) > len(kept) / 2 for kept in shares[1]):
        shares.pop()
    return shares


def _last_quarter(error: PartyError, rank: int) -> Vector:
    """Share of each column that stays."""
    kept = rank if error.left_out <= error.rounding else min(rank - 1, math.ceil(KEPT * rank))
    return np.where(np.arange(rank) < kept, 1.0, 0.0)


def _as_much_trace(error: PartyError, lengths: Vector) -> Vector:
    """Share of each column that stays: none of the last, part of the one where the trace is used up."""
    left = max(0.0, error.trace - float(lengths.sum()))
    behind = np.cumsum(lengths[::-1])[::-1]  # of each column and those behind it
    taken = np.clip(left - (behind - lengths), 0.0, lengths)
    # As a whole: the few columns taken are changed alike, so that the large ones among them count as the small do.
    changed = taken > 0
    share = min(1.0, left / float(lengths[changed].sum())) if changed.any() else 0.0
    return np.where(changed, 1.0 - share, 1.0)


def _scaled(A: Factor, by: Vector) -> Factor:
    return scaled(A, like(by, reference_of(A)))


def without_last(kept: Vector) -> Vector:
    """What columns are multiplied by for these shares, without those that vanish at the end."""
    width = max(1, int(np.max(np.nonzero(kept)[0], initial=-1)) + 1)
    roots: Vector = np.sqrt(kept[:width])
    return roots


def rounding_norm(errors: Sequence[PartyError], amplification: Sequence[float]) -> float:
    """Size of what rounding at all parties does to the fused matrix."""
    return math.hypot(*(w * e.rounding for w, e in zip(amplification, errors, strict=True)))


def _rounding(moved: float, spectrum: Spectrum) -> Vector:
    """Squared sine by which rounding turns each component: anywhere, so mostly to far directions."""
    distance = spectrum.values - spectrum.far_value
    return ROUNDING * np.divide(moved, distance, out=np.ones_like(distance), where=distance > moved) ** 2
