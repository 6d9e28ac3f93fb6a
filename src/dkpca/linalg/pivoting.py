"""Block randomly pivoted Cholesky: landmarks from the diagonal and a few columns.

Chen, Epperly, Tropp, Webber (2022), *Randomly pivoted Cholesky*; Epperly, Tropp, Webber (2024), *Embrace
rejection*, for the block form: proposals are drawn in bulk and thinned so that the pivots are distributed as if
they had been drawn one by one.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, device, eps, like, namespace, sent_to, set_rows, solve_lower, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.parallel import split_work
from dkpca.linalg.progress import Progress, silent
from dkpca.linalg.strips import strips

MIN_BLOCK = 32


def factorize(
    gram: Gram, most: int, *, tolerance: float = 0.0, random_state: int = 0, progress: Progress = silent
) -> tuple[Array, Array, float]:
    """Return F, pivots and the trace of gram - F F', which is positive semidefinite; F[pivots] is triangular."""
    rng = np.random.default_rng(random_state)
    xp = namespace(gram.reference)
    left = xp.asarray(sent_to(gram.diagonal(), gram.reference), copy=True)
    scale = float(xp.max(xp.abs(left)))
    _check_diagonal(left, scale)
    trace, allowed = float(xp.sum(left)), max(tolerance, most * eps(left))
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
        progress("landmarks", len(pivots) / most)
    pivots = pivots or [0]  # a zero matrix: any sample will do
    return F[:, : len(pivots)], xp.asarray(pivots, dtype=xp.int64, device=device(left)), float(xp.sum(left))


def draw_rows(gram: Gram, size: int, random_state: int) -> Array:
    """Positions of about so many rows, in order: one from each of as many shares of the diagonal.

    A row with more than one share is in for certain, so that the few that matter are not left to chance.
    """
    xp = namespace(gram.home)
    edges = xp.cumulative_sum(xp.astype(gram.diagonal(), xp.float64))
    draws = (np.arange(size) + np.random.default_rng(random_state).random(size)) * (float(edges[-1]) / size)
    positions = to_numpy(xp.searchsorted(edges, like(draws, edges), side="right"))
    positions = np.minimum(positions, gram.n - 1).astype(np.int64)
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
    places = to_numpy(chosen)  # triangular, and nothing left, to the last digit
    set_rows(F, places, L, columns)
    set_rows(left[:, None], places, np.zeros((len(places), 1)))


def _check_diagonal(left: Array, scale: float) -> None:
    """A positive semidefinite matrix never has less than nothing left."""
    lowest = float(namespace(left).min(left))
    if lowest < -(eps(left) ** 0.5) * scale:
        raise InputError(
            f"the matrix is not positive semidefinite: {lowest:.3g} is left on its diagonal; check the kernel"
        )
