"""Block randomly pivoted Cholesky: linear in n, from the diagonal and a few columns.

Chen, Epperly, Tropp, Webber (2022), *Randomly pivoted Cholesky*; Epperly, Tropp, Webber (2024), *Embrace
rejection*, for the block form: proposals are drawn in bulk and thinned so that the pivots are distributed as if
they had been drawn one by one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, device, eps, like, namespace, solve_lower, to_numpy
from dkpca.linalg.eigenpairs import NEARBY, Eigenpairs, Extension, Nearby, inverse_roots, signs_of
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.missed import missed
from dkpca.linalg.parallel import split_work
from dkpca.linalg.progress import Progress, silent
from dkpca.linalg.rounding import growth, solver_error, unit
from dkpca.linalg.strips import cross, strips, subtract_row, times

LANDMARKS_PER_PAIR = 4
LEAST_LANDMARKS = 100
MIN_BLOCK = 32
UNEVEN = 1e-3  # share of the largest eigenvalue below which eigenvectors by F'F lack digits


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
    """

    n_landmarks: int | None = None
    tolerance: float = 0.0
    random_state: int = 0
    progress: Progress = silent

    def __post_init__(self) -> None:
        if self.n_landmarks is not None and self.n_landmarks < 1:
            raise InputError(f"{self.n_landmarks} landmarks were asked for; give a positive number, or none")

    def __call__(self, gram: Gram, k: int) -> Eigenpairs:
        wanted = default_landmarks(k) if self.n_landmarks is None else self.n_landmarks
        base = gram.base if isinstance(gram, Centered) else gram
        F, pivots, trace_left = self.factorize(base, min(max(wanted, k), gram.n))
        xp = namespace(F)
        corner = to_numpy(xp.take(F, pivots, axis=0))  # triangular, and base[:, pivots] @ inv(corner)' = F
        mean = xp.zeros_like(F[0, :])
        unexplained = missed(base, F, k)
        if base is not gram:
            mean = xp.mean(F, axis=0)
            subtract_row(F, mean)
        FF = cross(F, F)
        error = _factor_error(base, corner, to_numpy(FF), gram.n * to_numpy(mean)[:, None] * to_numpy(mean))
        values, U = xp.linalg.eigh(FF)
        values, U = xp.clip(xp.flip(values), 0.0, None), xp.flip(U, axis=1)
        next_value = float(values[k]) if values.shape[0] > k else 0.0
        behind = slice(k, k + NEARBY)
        nearby = Nearby(values[behind], times(F, U[:, behind] * inverse_roots(F, values)[None, behind]))
        values, U = _first(k, values, U)
        vectors = times(F, U * inverse_roots(F, values)[None, :])
        if float(values[-1]) <= UNEVEN * float(values[0]):
            vectors = _orthonormal(vectors)  # F'F squared the condition number: small eigenvalues need it
        signs = signs_of(vectors)
        U = U * signs[None, :]
        rounding = growth(pivots.shape[0]) * unit(F) * base.trace()
        blocks = rounding + base.evaluation_error()
        left = trace_left + rounding + error  # F is no exact factor
        pairs = Eigenpairs(
            values,
            vectors * signs[None, :],
            next_value,
            float(xp.linalg.trace(FF)) + trace_left + error,
            Extension(like(_solve_transposed(corner, to_numpy(U)), F), -(mean @ U), anchors=pivots),
            solver=f"landmark: {pivots.shape[0]} of {gram.n} samples",
            missed_trace=left,
            missed_norm=min(unexplained.norm + blocks + error, left),
            missed_leading=min(unexplained.leading + k * (blocks + error), left),
            residual_norm=error,
            residual_nuclear=2.0 * pivots.shape[0] ** 0.5 * error,
            nearby=nearby,
        )
        return pairs.with_residual(solver_error(gram.n, float(xp.linalg.trace(FF)), F))

    def factorize(self, gram: Gram, most: int) -> tuple[Array, Array, float]:
        """Return F, pivots and the trace of gram - F F', which is positive semidefinite; F[pivots] is triangular."""
        rng = np.random.default_rng(self.random_state)
        xp = namespace(gram.reference)
        left = xp.asarray(gram.diagonal(), copy=True)
        scale = float(xp.max(xp.abs(left)))
        _check_diagonal(left, scale)
        trace, allowed = float(xp.sum(left)), max(self.tolerance, most * eps(left))
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
            self.progress("landmarks", len(pivots) / most)
        pivots = pivots or [0]  # a zero matrix: any sample will do
        return F[:, : len(pivots)], xp.asarray(pivots, dtype=xp.int64, device=device(left)), float(xp.sum(left))


def part_below(gram: Gram, n_landmarks: int) -> tuple[Array, float]:
    """Return F and a number e with F F' <= gram + e I (in the order of symmetric matrices), through landmarks."""
    F, pivots, _ = Landmark(n_landmarks).factorize(gram, min(n_landmarks, gram.n))
    corner = to_numpy(namespace(F).take(F, pivots, axis=0))
    return F, _factor_error(gram, corner, to_numpy(cross(F, F)), np.zeros_like(corner))


def default_landmarks(k: int) -> int:
    """How many samples to pick for so many eigenpairs."""
    return max(LANDMARKS_PER_PAIR * k, LEAST_LANDMARKS)


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
    names = to_numpy(proposed)
    accepted, L = _thin(residual, to_numpy(xp.take(left, proposed)).astype(float), names, rng, floor)
    return names[accepted], L


def _thin(
    residual: np.ndarray[Any, Any],
    promised: np.ndarray[Any, Any],
    names: np.ndarray[Any, Any],
    rng: np.random.Generator,
    floor: float,
) -> tuple[list[int], np.ndarray[Any, Any]]:
    """Accept each proposal with the share of its diagonal that the ones accepted before it have not explained.

    What is not above the floor, or proposed twice, is rounding and no landmark.
    """
    n = residual.shape[0]
    L = np.zeros((n, n))
    accepted: list[int] = []
    for j, u in enumerate(rng.random(n)):
        done = len(accepted)
        remaining = residual[j, j] - L[j, :done] @ L[j, :done]
        if max(u * promised[j], floor) < remaining and names[j] not in names[accepted]:
            L[j:, done] = (residual[j:, j] - L[j:, :done] @ L[j, :done]) / np.sqrt(remaining)
            accepted.append(j)
    return accepted, L[np.ix_(accepted, range(len(accepted)))]


def _append(gram: Gram, F: Array, done: int, chosen: Array, L: np.ndarray[Any, Any], left: Array) -> None:
    """Write the new columns of F, and take them off the diagonal, strip by strip."""
    xp = namespace(F)
    columns = slice(done, done + L.shape[0])
    above = xp.take(F, chosen, axis=0)[:, :done].T

    def share(parts: Sequence[slice]) -> None:
        for rows in parts:
            tile = gram.block(rows, chosen)
            tile -= F[rows, :done] @ above
            tile = solve_lower(L, tile)
            F[rows, columns] = tile
            left[rows] -= xp.sum(tile * tile, axis=1)

    split_work(share, strips(gram.n, L.shape[0], F), F)
    own = like(L, F)
    for i, row in enumerate(to_numpy(chosen).tolist()):  # triangular, and nothing left, to the last digit
        F[row, columns] = own[i, :]
        left[row] = 0.0


def _factor_error(
    gram: Gram, corner: np.ndarray[Any, Any], FF: np.ndarray[Any, Any], of_mean: np.ndarray[Any, Any]
) -> float:
    """Bound on how far F F' can be from an exact factor of the part of the matrix that the landmarks explain.

    F is exact for a matrix that differs in the landmarks' rows and columns, by D: a few roundings of
    sqrt(K_ii K_jj) for each entry. What that matrix leaves unexplained is Z' (K + D) Z with Z' = [-W, I] and
    W = F inv(corner); the first part is positive semidefinite, the second at most (1 + |W|^2) |D|.
    """
    trace = gram.trace()
    if not corner.any():
        return 0.0
    if not np.diagonal(corner).all():
        return trace  # a landmark that explains nothing: no bound but the trivial one
    half = scipy.linalg.solve_triangular(corner, FF + of_mean, lower=True, trans="T", check_finite=False)
    spread = scipy.linalg.solve_triangular(corner, half.T, lower=True, trans="T", check_finite=False)
    chosen = float(np.sum(corner * corner))
    entries = (2.0 * growth(len(corner)) * unit(gram.reference) * trace + gram.evaluation_error()) / trace
    if not np.isfinite(spread).all():
        return trace
    norm = (2.0 + _norm_at_most(spread)) * 2.0 * entries * (trace * chosen) ** 0.5
    return norm if norm < trace else trace


def _norm_at_most(S: np.ndarray[Any, Any]) -> float:
    """Bound on the largest eigenvalue of a symmetric matrix: at most n^(1/8) times too large, a tenth of the time."""
    size = float(np.abs(S).max())
    if not size > 0.0:
        return 0.0
    fourth = np.linalg.matrix_power(S / size, 4)
    return float(1.001 * size * np.linalg.norm(fourth) ** 0.25)  # the thousandth is more than rounding


def _check_diagonal(left: Array, scale: float) -> None:
    """A positive semidefinite matrix never has less than nothing left."""
    lowest = float(namespace(left).min(left))
    if lowest < -(eps(left) ** 0.5) * scale:
        raise InputError(
            f"the matrix is not positive semidefinite: {lowest:.3g} is left on its diagonal; check the kernel"
        )


def _first(k: int, values: Array, U: Array) -> tuple[Array, Array]:
    """Return the first k pairs, made up with zeros if there are fewer."""
    xp = namespace(values)
    missing = max(0, k - values.shape[0])
    if missing:
        nothing = xp.zeros((U.shape[0], missing), dtype=U.dtype, device=device(U))
        values, U = xp.concat([values, xp.zeros_like(nothing[0, :])]), xp.concat([U, nothing], axis=1)
    return values[:k], U[:, :k]


def _orthonormal(vectors: Array) -> Array:
    """Columns made orthonormal to the last digit, zero columns filled in, directions kept."""
    xp = namespace(vectors)
    for _ in range(2):  # the symmetric way, V (V'V)^(-1/2): cheap, and twice is enough
        values, Q = xp.linalg.eigh(cross(vectors, vectors))
        if float(values[0]) < 0.5:
            break
        vectors = times(vectors, (Q / xp.sqrt(values)[None, :]) @ Q.T)
    else:
        return vectors
    Q, R = xp.linalg.qr(vectors)
    diagonal = xp.linalg.diagonal(R)
    return Q * xp.where(diagonal < 0, -xp.ones_like(diagonal), xp.ones_like(diagonal))[None, :]


def _solve_transposed(L: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return inv(L)' right for a lower triangular matrix, or zero for a zero matrix."""
    solved: np.ndarray[Any, Any] = (
        scipy.linalg.solve_triangular(L, right, lower=True, trans="T") if L.any() else np.zeros_like(right)
    )
    return solved
