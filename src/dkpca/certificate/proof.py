"""What the center can prove about its answer without seeing data; docs/certificate.md has the proofs.

Write K for the true global Gram matrix and L for the fused one that the center holds. Each party says how far the
factor it sent is from its own matrix. From this follow two numbers with -below * I <= K - L <= above * I (order
of symmetric matrices) and, with the trace of K and the matrix G below, everything else. Centering changes nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dkpca.certificate.statements import Certificate
from dkpca.kernels.grams import FusedGram
from dkpca.kernels.laws import SUM, Law, Slope
from dkpca.linalg.arrays import Array, dtype_name, growth, like, namespace, quiet, solver_error, to_numpy, unit
from dkpca.linalg.eigenpairs import Eigenpairs
from dkpca.linalg.landmark import MOST_NUMBERS, part_below
from dkpca.linalg.precision import Factor, reference_of, row_squares, scaled, whole
from dkpca.linalg.rows import cross, right_vectors, times
from dkpca.messages import Summary

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
Projection = Callable[[Array], Array]  # of columns: off the mean, if centered, and off covariates
SPLITS = np.geomspace(0.02, 0.9, 6)  # shares of the distance between components and the rest that are tried
Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
MOST_PASSED = 20_000  # samples for which G itself is multiplied; beyond, landmarks stand in for the part taken away
LANDMARKS = 1000
SHARE = 4  # of a center's own landmarks, one in so many stands in too: half a point less, for a third of the time
LEAST_SIZE = 1e-30  # of the unit, as a share of the largest eigenvalue: far below any rounding
TURNED = 1e-3  # share by which the bound is widened, so that directions turned by rounding may be used


# Party j left out R_j with 0 <= R_j <= mu_j I (in the order of symmetric matrices), which is zero on the span of the
# eigenvectors it sent. With an orthonormal basis Q_j of the columns received, R_j <= mu_j (I - Q_j Q_j'), but for
# their rounding. By Schur's product theorem, what is missing in the fused matrix is at most
#
#     G = sum over j of mu_j (Diag(w_j) - M_j o Q_j Q_j')
#
# where w_j weighs the party's error (`Law.error_weights`) and M_j is what the law makes of the other parties' parts
# as received (`Law.derivative`). Where the solver saw the fused matrix through landmarks only, less is taken away:
# what landmarks show of it.


@dataclass(frozen=True)
class PartyError:
    """How far what one party sent is from its true Gram matrix, both multiplied by its weight."""

    left_out: float  # largest eigenvalue that is missing
    overlap: float  # of it, what is not orthogonal to the factor
    rounding: float  # spectral norm
    nuclear: float  # the same in the nuclear norm
    trace: float  # of the true matrix
    factor: Factor  # (n_samples, rank) as sent
    sent_diagonal: Array | None  # (n_samples,) of the true matrix, if the party sent it
    received: Array  # (n_samples,) diagonal of what was sent, where and in the precision in which the center computes
    diagonal: Array  # (n_samples,) of the true matrix, or a bound above it

    @classmethod
    def of(cls, summary: Summary, factor: Factor, weight: float, bound: Array | None = None) -> "PartyError":
        """Read it off a message and its factor; `bound` is one on the true diagonal, where it is known."""
        if weight != 1.0:
            first = reference_of(factor)[0, :]
            factor = scaled(factor, namespace(first).full_like(first, weight**0.5))
        received = row_squares(factor)
        xp = namespace(received)
        left_out, rounding = weight * summary.left_out_norm, weight * summary.rounding_norm
        overlap = left_out if summary.left_out_overlap is None else min(left_out, weight * summary.left_out_overlap)
        trace = weight * summary.trace_left_out + float(xp.sum(received))
        sent = None if summary.diagonal is None else weight * summary.diagonal.decode(dtype_name(received))[:, 0]
        if bound is not None:
            diagonal = weight * bound
        elif sent is not None:
            diagonal = sent
        elif summary.kernel.unit_diagonal:
            diagonal = weight * xp.ones_like(received)
        else:
            diagonal = received + (left_out + rounding)
        nuclear = weight * summary.rounding_nuclear
        return cls(left_out, overlap, rounding, nuclear, trace, factor, sent, received, diagonal)

    def directions(self, size: float) -> Array:
        """C with R <= (1 + TURNED) mu I - C C' for the part R that is orthogonal to the factor, over a size.

        A direction q of the factor B with eigenvalue s is off the span of the true eigenvectors V by rounding / s at
        most: (I - VV') B B' q = (I - VV') (B B' - A A') q for the factor A before rounding. It counts the less the
        further off it may be: |x + y|^2 <= (1 + 1/t) |x|^2 + (1 + t) |y|^2 with t = TURNED. mu is left_out - overlap.
        """
        # B'B = V diag(values) V': B V are its directions, each as long as it is certain.
        B, (n, rank) = whole(self.factor), self.factor.shape
        values, V, moved = right_vectors(B, rank)
        moved += self.rounding + 2.0 * solver_error(n, float(values[0]), self.received)
        far = np.divide(moved, values, out=np.full_like(values, np.inf), where=values > 0)
        far = np.minimum(far, 1.0)  # further off than that is off altogether
        shown = np.clip((1.0 + TURNED) - (1.0 + 1.0 / TURNED) * far**2, 0.0, None)
        roots = np.sqrt(shown * (max(0.0, self.left_out - self.overlap) / size))
        scales = np.divide(roots, values**0.5, out=np.zeros_like(roots), where=roots > 0)
        return times(B, like(V * scales.astype(V.dtype)[None, :], B))


def parts_of(errors: Sequence[PartyError], law: Law) -> list[Factor]:
    """What the fused matrix is made of, from what the parties sent."""
    return law.parts([e.factor for e in errors], [e.sent_diagonal for e in errors if e.sent_diagonal is not None])


def covered(law: Law, errors: Sequence[PartyError], size: float) -> FusedGram:
    """The sum over parties of M_j o C_j C_j': the change of the fused matrix towards what each party sent."""
    changes = law.merge_changes(parts_of([replace(e, factor=e.directions(size)) for e in errors], law))
    if law.linear:  # then M_j is 1 everywhere
        return FusedGram(SUM, changes)
    return FusedGram(Slope(law), [*law.merge([whole(A) for A in parts_of(errors, law)]), *changes])


@dataclass(frozen=True)
class Ceiling:
    """A matrix G above what was left out of the fused matrix, in units of `size`, as the components V see it."""

    size: float
    norm: float  # bound on the largest eigenvalue of G / size
    within: Matrix  # (D, D): V' G V / size
    squares: Matrix  # (D, D): V' G G V / size^2
    across: Matrix  # (D, D): above B B' / size^2 for B = V' G (I - VV')
    slack: float  # bound on the error of each column of G V / size

    @classmethod
    def trivial(cls, norm: float, D: int) -> "Ceiling":
        """G = norm I, for a matrix of which only that is known: its off-diagonal block is at most half of it."""
        unit, share = np.eye(D), float(norm > 0.0)
        return cls(norm or 1.0, share, share * unit, share * unit, share * unit / 4.0, 0.0)


def ceiling(errors: Sequence[PartyError], law: Law, pairs: Eigenpairs, inside: Projection) -> Ceiling | None:
    """Return the bound G, projected as the fused matrix was; None if it costs too much or proves nothing."""
    # Is G affordable, and can it be less than what the solver itself missed, and than the largest eigenvalue?
    received, true = [e.received for e in errors], [e.diagonal for e in errors]
    n, anchors = received[0].shape[0], pairs.extension.anchors
    landmarks = None  # how many stand in for the part taken away; None if that part itself is multiplied
    if not law.linear and (anchors is not None or n > MOST_PASSED):
        landmarks = LANDMARKS if anchors is None else max(1, int(anchors.shape[0]) // SHARE)
    if landmarks is not None and n * landmarks > MOST_NUMBERS:
        return None
    weights = law.error_weights(received, true)
    size = sum(e.left_out * _largest(w) for e, w in zip(errors, weights, strict=True))
    size = max(size, LEAST_SIZE * float(pairs.values[0]))
    missed = float(np.trace(_missed_within(pairs))) / pairs.values.shape[0]
    kept = sum(e.overlap * _largest(w) for e, w in zip(errors, weights, strict=True))
    rounded = sum(e.rounding * _largest(w) for e, w in zip(errors, weights, strict=True))
    if not 0.0 < size < float(pairs.values[0]) or size - kept < missed + kept or size < rounded:
        return None
    # G = Diag(room) - covered, over a size. L_k <= K_k + r_k I for the rounding r_k, so that M_j is below what weighs
    # the error but for a diagonal: weights w_j with r_k added, and widened for turned directions.
    rounded_up = [d + e.rounding for d, e in zip(true, errors, strict=True)]
    lifted = map(namespace(*weights).maximum, weights, law.error_weights(received, rounded_up))
    room = sum(
        w * (e.overlap / size) + above * ((1.0 + TURNED) * ((e.left_out - e.overlap) / size))
        for e, w, above in zip(errors, weights, lifted, strict=True)
    )
    below = covered(law, errors, size)
    # G V, V'G V and V'G G V: all that the statements need of G.
    xp = namespace(room)
    V = inside(pairs.vectors)
    with quiet():
        # C V with C <= covered + beside I, and a bound on the error of each of its columns, the slack.
        if landmarks is None:
            C, beside, sums = below.factors[0], 0.0, growth(n) + below.roundings
            covering = times(C, cross(C, V)) if law.linear else below @ V  # no tiles of it, however wide C is
            slack = sums * unit(V) * max(e.factor.shape[1] for e in errors)
        else:
            F, beside = part_below(below, landmarks)
            covering, sums = times(F, cross(F, V)), growth(n) + growth(F.shape[1])
            slack = sums * unit(V) * float(namespace(F).sum(F * F))
        room = room + beside
        images = inside(room[:, None] * V - covering)
    norm = _largest(room)
    if not (math.isfinite(norm) and bool(xp.all(xp.isfinite(images)))):
        return None
    within, squares = to_numpy(cross(V, images)).astype(float), to_numpy(cross(images, images)).astype(float)
    within, squares = (within + within.T) / 2, (squares + squares.T) / 2
    return Ceiling(size, norm, within, squares, squares - within @ within, slack)


def _largest(x: Array) -> float:
    return float(namespace(x).max(x))


# The certificate.


@dataclass(frozen=True)
class Widths:
    """How far the true matrix can be from the one that the components are exact for."""

    above: float  # largest eigenvalue of the difference
    leading: float  # sum of as many of its largest as there are components
    below: float  # minus the smallest
    positive: float  # trace of its positive semidefinite part
    nuclear: float  # nuclear norm of the rest of it
    solver: float  # largest eigenvalue of what the center's own solver missed
    tails: tuple[float, ...]  # by party
    trace_gap: float


def certify(errors: Sequence[PartyError], fused: FusedGram, pairs: Eigenpairs, inside: Projection) -> Certificate:
    """Derive the certificate of the leading eigenpairs of the fused matrix after a projection."""
    # -below I <= K - L <= above I, from the parties' own numbers and, where it is known, from G.
    found, law = to_numpy(pairs.values).astype(float), fused.law
    errors = sorted(errors, key=lambda e: e.left_out)
    G = ceiling(errors, law, pairs, inside)
    T, D = errors[0].diagonal.shape[0], len(found)
    widths = _widths(errors, law, pairs, fused.trace(), G)
    above, below, positive = widths.above, widths.below, widths.positive
    # Eigenvalues are at most those found (or the next, if equal ones changed places) + above; and by G and what the
    # solver missed together.
    at_most = np.maximum(found, pairs.next_value)
    best = float(at_most.sum()) + widths.leading
    G = Ceiling.trivial(max(sum(widths.tails), LEAST_SIZE * float(found[0])), D) if G is None else G
    tighter = _eigenvalues_at_most(found, pairs, G)
    at_most = np.minimum(at_most + above, tighter.min(axis=0) + below)
    best = min(best, float(tighter.sum(axis=1).min()) + D * below)
    # Squared sines of single components, and of all together, by Davis and Kahan.
    reach, following = _reach(pairs, widths, G), np.append(found[1:], pairs.next_value)
    # With W the other true eigenvectors, (lambda - Lambda_W) W'v = -W'(K - S) v, and Lambda_W <= next + above.
    distance = found - pairs.next_value - above
    sines = np.divide(reach, distance, out=np.ones_like(reach), where=distance > reach)
    components = np.minimum(sines, 1.0) ** 2
    gaps = found - following - (above + below)
    return Certificate(
        n_samples=T,
        n_components=D,
        n_parties=len(errors),
        kernel_error_above=above,
        kernel_error_below=below,
        trace_gap=widths.trace_gap,
        total_variance_at_most=pairs.trace * (1.0 + growth(T) * unit(errors[0].received)) + positive + widths.nuclear,
        eigenvalues_at_least=tuple(np.maximum(found - below, 0.0).tolist()),
        eigenvalues_at_most=tuple(at_most.tolist()),
        gaps_at_least=tuple(gaps.tolist()),
        theorem_1=theorem_1_bound(
            widths.tails, gap=float(gaps[-1]), dimension=T - D if law.scores_add else T, own_error=widths.solver
        ),
        subspace_error_at_most=_subspace_error(float(found[-1]) - pairs.next_value, widths, components, T),
        component_errors_at_most=tuple(components.tolist()),
        captured_at_least=max(0.0, float(found.sum()) - D * below),
        captured_best_at_most=best,
        eigenvalues=tuple(found.tolist()),
        next_eigenvalue=float(pairs.next_value),
        probe=pairs.probe,
    )


def _widths(
    errors: Sequence[PartyError], law: Law, pairs: Eigenpairs, fused_trace: float, G: Ceiling | None
) -> Widths:
    """Add up what the parties say of their errors, and what the solver at the center says of its own."""
    # Schur: |A o E| <= max_i A_ii |E|, so each party's error enters by its largest weight at most.
    received, true = [e.received for e in errors], [e.diagonal for e in errors]
    weighted = list(zip(map(_largest, law.error_weights(received, true)), errors, strict=True))
    total = law.total_trace([e.trace for e in errors], true)  # of the true matrix
    rounding = sum(weight * e.rounding for weight, e in weighted)
    below = rounding + pairs.residual_norm
    nuclear = sum(weight * e.nuclear for weight, e in weighted) + pairs.residual_nuclear
    tails = tuple(weight * (e.left_out + e.rounding) for weight, e in weighted)
    trace_gap = total - fused_trace
    rounded = growth(true[0].shape[0]) * unit(errors[0].received)
    summed = rounded * (abs(fused_trace) + abs(total))  # rounding of these
    # K minus the matrix that the pairs are exact for is a positive semidefinite P, of which the solver at the center
    # may have missed a part, plus rounding N. P is no larger than its trace.
    positive = max(0.0, trace_gap) + summed + nuclear + pairs.missed_trace
    solver = pairs.missed_norm + pairs.residual_norm
    parties = sum(tails) if G is None else min(sum(tails), G.size * G.norm + rounding)
    above = min(parties + solver, positive + below)
    D = pairs.values.shape[0]
    missed = min(D * pairs.missed_norm, pairs.missed_trace)
    leading = min(D * above, positive + D * below, D * (parties + pairs.residual_norm) + missed)
    return Widths(above, leading, below, positive, nuclear, solver, tails, trace_gap)


def _missed_within(pairs: Eigenpairs) -> Matrix:
    """Matrix above V'RV for the part R of the fused matrix that the center's solver missed."""
    return pairs.missed_norm * np.eye(pairs.values.shape[0]) if pairs.missed_within is None else pairs.missed_within


def _eigenvalues_at_most(found: Vector, pairs: Eigenpairs, G: Ceiling) -> Matrix:
    """Bounds on the leading eigenvalues of S + G + R, one row per split; S is what the pairs are exact for.

    In the basis [V, rest] that matrix has the blocks Lambda + V'(G + R)V, B = V'(G + R)(I - VV'), and one of at most
    top = next + |G| + |R|. For every split s > 0 it is below the matrix with blocks Lambda + V'(G + R)V + B B' / s
    and top + s. For what the solver missed, V'RRV <= |R| V'RV; and B B' <= (1 + a) B_G B_G' + (1 + 1/a) B_R B_R'
    for any a > 0.
    """
    # Young: x'By + y'B'x <= x'BB'x / s + s y'y, for several s: the least bound counts.
    D, top = len(found), pairs.next_value + G.size * G.norm + pairs.missed_norm
    missed = _missed_within(pairs) / G.size
    across_missed = (pairs.missed_norm / G.size) * missed
    of_G, of_R = max(0.0, float(np.trace(G.across))), float(np.trace(across_missed))
    a = (of_R / of_G) ** 0.5 if of_G > 0.0 and of_R > 0.0 else 0.0
    across = (1.0 + a) * G.across + ((1.0 + 1.0 / a) if a else 1.0) * across_missed
    rows = []
    for split in np.unique(SPLITS[:, None] * np.maximum(found - top, 0.0)[None, [0, D // 2, -1]]):
        if split <= 0.0:
            continue
        ratio = G.size / split
        slack = D * G.slack * (1.0 + 3.0 * (1.0 + a) * ratio * (1.0 + G.norm))
        block = np.diag(found / G.size) + G.within + missed + ratio * across
        values = np.linalg.eigvalsh(block)[::-1]
        slack += solver_error(D, float(values[0]), values)
        rows.append(np.maximum(G.size * (values + slack), top + split))
    everything = G.size * G.norm + pairs.missed_norm
    return np.array(rows) if rows else (np.maximum(found, pairs.next_value) + everything)[None, :]


def _reach(pairs: Eigenpairs, widths: Widths, G: Ceiling) -> Vector:
    """Bound on the length of (K - S) v for each component v.

    K - S is P + R + N, with 0 <= P <= G and what the solver missed, R. P = G/2 + X with -G/2 <= X <= G/2, so
    |P v| <= |G v| / 2 + sqrt(|G| v'Gv) / 2; and |R v| <= sqrt(|R| v'Rv).
    """
    within = np.clip(np.diagonal(G.within), 0.0, None) + G.slack
    images = np.sqrt(np.clip(np.diagonal(G.squares), 0.0, None)) + G.slack
    within_missed = np.clip(np.diagonal(_missed_within(pairs)), 0.0, None)
    missed = math.sqrt(pairs.missed_norm) * np.sqrt(within_missed)  # in this order: the product may overflow
    reach = G.size * 0.5 * (images + np.sqrt(G.norm * within)) + missed + pairs.residual_norm + widths.below
    return np.minimum(reach, max(widths.above, widths.below))


def _subspace_error(gap: float, widths: Widths, components: Vector, n_samples: int) -> float:
    """Bound D - |V' V_hat|_F^2: all angles at once by Davis and Kahan, or the sum over components, if that is less.

    Subtracting the middle of the interval that holds K - L moves no eigenvector and halves its norm, so
    sin(2 theta) <= width / gap for the largest angle. The off-diagonal block of a positive matrix of norm b and
    trace t has Frobenius norm at most sqrt(b t) / 2, which bounds all angles together.
    """
    angles = min(len(components), n_samples - len(components))
    width, trace = widths.above + widths.below, widths.positive + widths.nuclear
    bound = float(components.sum())
    if width < gap:  # ratios first: squares may over- or underflow
        by_trace = 0.25 * (width / (gap - width)) * (trace / (gap - width))
        bound = min(bound, angles * math.sin(0.5 * math.asin(width / gap)) ** 2, by_trace)
    return bound if bound < angles else math.inf if angles else 0.0


def theorem_1_bound(left_out_norms: Sequence[float], *, gap: float, dimension: int, own_error: float = 0.0) -> float:
    """Bound the sin-theta distance by Theorem 1 of the paper: J sqrt(dimension) max_j lambda^(j)_{D+1} / gap.

    The gap is lambda_D - lambda_{D+1} of the global matrix, the dimension T - D for the linear kernel and T for the
    RBF kernel. `own_error`: norm of what the center's solver left out; the paper's solver leaves out nothing.
    """
    if gap <= 0:
        return math.inf
    return math.sqrt(dimension) * ((len(left_out_norms) * max(left_out_norms) + own_error) / gap)
