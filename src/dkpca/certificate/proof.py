"""What the center can prove about its answer without seeing data.

Write K for the true global Gram matrix and L for the fused one that the center holds. Each party says how far
the factor it sent is from its own matrix: below by at most `left_out_norm`, to either side by its rounding.
From this follow two numbers with

    -below * I  <=  K - L  <=  above * I        (in the order of symmetric matrices)

and, with the trace of K and the matrix of `dkpca.certificate.left_out` known, everything else here. Centering changes
none of it. The proofs are in docs/certificate.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dkpca.certificate.left_out import Ceiling, Matrix, PartyError, ceiling
from dkpca.certificate.statements import Certificate
from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.eigenpairs import Eigenpairs
from dkpca.linalg.rounding import growth, solver_error, unit
from dkpca.metrics import theorem_1_bound

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
SPLITS = np.geomspace(0.02, 0.9, 6)  # shares of the distance between components and the rest that are tried


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


@dataclass(frozen=True)
class OverRows:
    """What the rows of all parties say together about the true matrix."""

    n: int
    amplification: tuple[float, ...]  # largest factor by which each party's error enters; least left out first
    total: float  # trace

    @classmethod
    def of(cls, errors: Sequence[PartyError], law: Law) -> "OverRows":
        """Read it off the parties' diagonals."""
        received, true = [e.received for e in errors], [e.diagonal for e in errors]
        total = law.total_trace([e.trace for e in errors], true)
        return cls(true[0].shape[0], tuple(law.amplification(received, true)), total)


def certify(
    errors: Sequence[PartyError],
    *,
    law: Law,
    pairs: Eigenpairs,
    fused_trace: float,
    meaning: str = "",
    centered: bool = True,
    over_rows: OverRows | None = None,
) -> Certificate:
    """Derive the certificate.

    Parameters
    ----------
    errors : sequence of PartyError
        What the parties state about what they sent.
    law : Law
        How the matrices combine.
    pairs : Eigenpairs
        The components: leading eigenpairs of the (centered) fused matrix.
    fused_trace : float
        Trace of the fused matrix before centering.
    meaning : str
        What the true matrix is a kernel of.
    centered : bool
        Whether the fused matrix was centered.
    over_rows : OverRows, optional
        What is otherwise read off the rows; without them, nothing is known of directions in what was left out.
    """
    found = to_numpy(pairs.values).astype(float)
    errors = sorted(errors, key=lambda e: e.left_out)
    G = None if over_rows is not None else ceiling(errors, law, pairs, centered=centered)
    rows = OverRows.of(errors, law) if over_rows is None else over_rows
    T, D = rows.n, len(found)
    widths = _widths(errors, rows, pairs, fused_trace, G)
    above, below, positive = widths.above, widths.below, widths.positive
    # Equal eigenvalues may have changed places with the next one.
    at_most = np.maximum(found, pairs.next_value)
    best = float(at_most.sum()) + widths.leading
    at_most = at_most + above
    if G is not None:
        tighter = _eigenvalues_at_most(found, pairs, G)
        extra = pairs.missed_norm + below
        at_most = np.minimum(at_most, tighter.min(axis=0) + extra)
        best = min(best, float(tighter.sum(axis=1).min()) + pairs.missed_leading + D * below)
    components = _component_errors(found, pairs.next_value, widths, G)
    following = np.append(found[1:], pairs.next_value)
    leading = [_leading_error(d, found, float(following[d - 1]), widths, G, T) for d in range(1, D + 1)]
    gaps = found - following - (above + below)
    return Certificate(
        n_samples=T,
        n_components=D,
        n_parties=len(errors),
        kernel_error_above=above,
        kernel_error_below=below,
        trace_gap=widths.trace_gap,
        total_variance_at_most=pairs.trace * (1.0 + growth(T) * unit(errors[0].reference))
        + positive
        + widths.nuclear,
        eigenvalues_at_least=tuple(np.maximum(found - below, 0.0).tolist()),
        eigenvalues_at_most=tuple(at_most.tolist()),
        gaps_at_least=tuple(gaps.tolist()),
        theorem_1=theorem_1_bound(
            widths.tails, gap=float(gaps[-1]), dimension=law.theorem_1_dimension(T, D), own_error=widths.solver
        ),
        subspace_error_at_most=leading[-1],
        component_errors_at_most=tuple(components.tolist()),
        leading_errors_at_most=tuple(leading),
        captured_at_least=max(0.0, float(found.sum()) - D * below),
        captured_best_at_most=best,
        component_losses_at_most=tuple(_losses(D, widths, G).tolist()),
        solver_error_at_most=widths.solver,
        eigenvalues=tuple(found.tolist()),
        next_eigenvalue=float(pairs.next_value),
        probe=pairs.probe,
        meaning=meaning,
    )


def _widths(
    errors: Sequence[PartyError], rows: OverRows, pairs: Eigenpairs, fused_trace: float, G: Ceiling | None
) -> Widths:
    """Add up what the parties say of their errors, and what the solver at the center says of its own."""
    weighted = list(zip(rows.amplification, errors, strict=True))
    rounding = sum(weight * e.rounding for weight, e in weighted)
    below = rounding + pairs.residual_norm
    nuclear = sum(weight * e.nuclear for weight, e in weighted) + pairs.residual_nuclear
    tails = tuple(weight * (e.left_out + e.rounding) for weight, e in weighted)
    trace_gap = rows.total - fused_trace
    rounded = growth(rows.n) * unit(errors[0].reference)
    summed = rounded * (abs(fused_trace) + abs(rows.total))  # rounding of these
    # K minus the matrix that the pairs are exact for is a positive semidefinite P, of which the solver at the center
    # may have missed a part, plus rounding N. P is no larger than its trace.
    positive = max(0.0, trace_gap) + summed + nuclear + pairs.missed_trace
    solver = pairs.missed_norm + pairs.residual_norm
    parties = sum(tails) if G is None else min(sum(tails), G.size * G.norm + rounding)
    above = min(parties + solver, positive + below)
    D = pairs.values.shape[0]
    leading = min(D * above, positive + D * below, D * (parties + pairs.residual_norm) + pairs.missed_leading)
    return Widths(above, leading, below, positive, nuclear, solver, tails, trace_gap)


def _eigenvalues_at_most(found: Vector, pairs: Eigenpairs, G: Ceiling) -> Matrix:
    """Bounds on the leading eigenvalues of S + G, one row per split; S is what the pairs are exact for.

    In the basis [V, rest] the matrix S + G has the blocks Lambda + V'GV, B = V'G(I - VV'), and one of at most
    next + |G|. For every split s > 0 it is below the matrix with blocks Lambda + V'GV + B B' / s and next + |G| + s.
    """
    top = pairs.next_value + G.size * G.norm
    D = len(found)
    across = G.squares - G.within @ G.within
    rows = []
    for split in np.unique(SPLITS[:, None] * np.maximum(found - top, 0.0)[None, [0, D // 2, -1]]):
        if split <= 0.0:
            continue
        ratio = G.size / split
        slack = D * G.slack * (1.0 + 3.0 * ratio * (1.0 + G.norm))
        block = np.diag(found / G.size) + G.within + ratio * across
        values = np.linalg.eigvalsh(block)[::-1]
        slack += solver_error(D, float(values[0]), values)
        rows.append(np.maximum(G.size * (values + slack), top + split))
    return np.array(rows) if rows else (np.maximum(found, pairs.next_value) + G.size * G.norm)[None, :]


def _reach(D: int, widths: Widths, G: Ceiling | None, missed: float) -> Vector:
    """Bound on the length of (K - S) v for each component v.

    K - S is P + N, with 0 <= P <= G but for what the solver missed. P = G/2 + X with -G/2 <= X <= G/2, so
    |P v| <= |G v| / 2 + sqrt(|G| v'Gv) / 2.
    """
    everything = max(widths.above, widths.below)
    if G is None:
        return np.full(D, everything)
    within = np.clip(np.diagonal(G.within), 0.0, None) + G.slack
    images = np.sqrt(np.clip(np.diagonal(G.squares), 0.0, None)) + G.slack
    reach = G.size * 0.5 * (images + np.sqrt(G.norm * within)) + missed + widths.below
    return np.minimum(reach, everything)


def _losses(D: int, widths: Widths, G: Ceiling | None) -> Vector:
    """Bound on v'(K - L)v for each component v."""
    most = np.full(D, widths.above)
    if G is None:
        return most
    within = np.clip(np.diagonal(G.within), 0.0, None) + G.slack
    losses: Vector = np.minimum(most, G.size * within + widths.below)
    return losses


def _component_errors(found: Vector, following: float, widths: Widths, G: Ceiling | None) -> Vector:
    """Bound the squared sine between each component v and the true leading subspace.

    With W the other true eigenvectors, (lambda - Lambda_W) W'v = -W'(K - S) v, and Lambda_W <= following + above.
    """
    distance = found - following - widths.above
    reach = _reach(len(found), widths, G, widths.solver)
    sines = np.divide(reach, distance, out=np.ones_like(reach), where=distance > reach)
    return np.minimum(sines, 1.0) ** 2


def _leading_error(d: int, found: Vector, following: float, widths: Widths, G: Ceiling | None, T: int) -> float:
    """Bound the subspace error of the first d components: all angles at once, or one component after the other."""
    gap = float(found[d - 1]) - following
    at_once = _subspace_error_bound(gap, widths.above + widths.below, widths.positive + widths.nuclear, T, d)
    one_by_one = float(_component_errors(found[:d], following, widths, None if G is None else G.head(d)).sum())
    bound = min(at_once, one_by_one)
    return bound if bound < min(d, T - d) or bound == 0.0 else math.inf


def _subspace_error_bound(gap: float, width: float, trace: float, n_samples: int, n_components: int) -> float:
    """Bound D - |V' V_hat|_F^2 by Davis and Kahan's sin 2 theta and sin theta theorems.

    Subtracting the middle of the interval that holds K - L moves no eigenvector and halves its norm, so
    sin(2 theta) <= width / gap for the largest angle. The off-diagonal block of a positive matrix of norm b and
    trace t has Frobenius norm at most sqrt(b t) / 2, which bounds all angles together.
    """
    angles = min(n_components, n_samples - n_components)
    if angles == 0:
        return 0.0
    if not width < gap:
        return math.inf
    by_largest = angles * math.sin(0.5 * math.asin(width / gap)) ** 2
    by_trace = (
        0.25 * (width / (gap - width)) * (trace / (gap - width))
    )  # in this order: squares may over- or underflow
    return min(by_largest, by_trace)
