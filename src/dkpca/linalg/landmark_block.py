"""The landmarks' own corner of a matrix, and how far arithmetic through it can be from the exact result.

C are the columns of the matrix at the landmarks, L L' is the corner, and F = C inv(L)'. F'F can be had from rows of
F, each by a substitution with L, or as inv(L) C'C inv(L)': half the work, but rounding grows by |inv(L)|^2.
"""

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from dkpca.linalg.arrays import Array, like, multiply_lower, namespace, solve_lower, to_numpy
from dkpca.linalg.residual_bound import norm_at_most
from dkpca.linalg.rounding import SUBTRACTIONS, growth, solver_error, unit
from dkpca.linalg.rows import Moments, additions, groups, slices

Matrix = np.ndarray[Any, Any]
SIZES = 10.0 ** -np.arange(2.0, 16.0, 2.0)  # shares of the most that a landmark adds: it must add so much
BESIDE = 1e-3  # rounding through the corner, as a share of what the landmarks miss, not worth fewer of them ...
NEXT_TO_NOTHING = 1e-9  # ... and as a share of the trace
AS_MUCH = 1.1  # by which a bound is widened for products of roundings


class Measured(Protocol):
    """As much of a Gram matrix as bounds need."""

    @property
    def n(self) -> int:
        """Rows."""

    @property
    def chunks(self) -> tuple[int, ...] | None:
        """Rows of each chunk, if these stay on the workers of a Dask cluster."""

    @property
    def reference(self) -> Array:
        """Some array of the precision in which it is evaluated."""

    def trace(self) -> float:
        """Sum of the diagonal."""

    def evaluation_error(self) -> float:
        """Bound on the Frobenius norm of the matrix as it is evaluated minus the one that is meant."""


@dataclass(frozen=True)
class Spectrum:
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


class LandmarkBlock:
    """Triangular factor of the corner of a matrix, and the roundings that its entries have had."""

    def __init__(self, L: Matrix, gram: Measured) -> None:
        self.L, self.m = L.astype(float), L.shape[0]
        self.reference, self.unit, self.trace = gram.reference, unit(gram.reference), gram.trace()
        evaluated = gram.evaluation_error() / self.trace if self.trace > 0 else 0.0
        self.entries = 2.0 * growth(self.m) * self.unit + evaluated  # of sqrt(K_ii K_jj)
        self.chosen = float(np.sum(self.L**2))  # trace of the corner
        self.groups = sum(len(groups(size)) for size in gram.chunks or (gram.n,))
        self.inverses: list[Matrix] = []  # of blocks on the diagonal of L, if rows are multiplied by them
        self.solving = 0.0  # roundings of that, as for the entries

    def by_inverses(self, size: int) -> "LandmarkBlock | None":
        """The same corner, with L inverted in blocks of a size: up to three times as fast; None if that is too rough.

        With X the inverse of a block as computed, column by column, F = C X' has C - F L' = C (I - L X)' - E L' for
        the rounding E of the product: at most 2 growth |C| |X|' |L|' in each entry, and |C| is |F| |L|' and as much.
        """
        if not np.diagonal(self.L).all():
            return None
        same: LandmarkBlock = copy(self)
        same.inverses = []
        for own in slices(self.m, size):
            block = self.L[own, own]
            inverse = solve_triangular(block, np.eye(len(block)), lower=True).astype(self.reference.dtype)
            off, rough = np.abs(block) @ np.abs(inverse), 2.0 * growth(len(block)) * self.unit
            if not rough * float(np.linalg.norm(off)) <= AS_MUCH - 1.0:
                return None
            share = np.linalg.norm(off @ np.abs(block), axis=1) / np.linalg.norm(self.L[own], axis=1)
            same.inverses.append(np.ascontiguousarray(inverse))
            same.solving = max(same.solving, AS_MUCH * rough * float(share.max()))
        return same

    def solve(self, rows: Array) -> Array:
        """Return rows @ inv(L)', maybe written over the rows."""
        if self.inverses:
            return multiply_lower(self.L, self.inverses, rows)
        return solve_lower(self.L if isinstance(rows, np.ndarray) else self.placed, rows)

    @cached_property
    def placed(self) -> Array:
        """L where the matrix is evaluated: sent there once."""
        return like(self.L, self.reference)

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
        """Most roundings that a term of a sum over all rows meets."""
        return additions(n, self.m, self.reference, self.groups)

    def head(self, m: int) -> "LandmarkBlock":
        """Corner of the first landmarks."""
        same: LandmarkBlock = copy(self)
        same.L, same.m = self.L[:m, :m], m
        same.chosen = float(np.sum(same.L**2))
        if self.inverses:
            starts = range(0, m, len(self.inverses[0]))
            kept = zip(starts, self.inverses, strict=False)
            same.inverses = [np.ascontiguousarray(X[: m - start, : m - start]) for start, X in kept]
        for kept_of_all in ("inverse_norm", "placed"):
            vars(same).pop(kept_of_all, None)
        return same

    def sound(self, square: Matrix) -> tuple[int, float]:
        """How many landmarks to keep, given F'F, so that the bound on the rest is least; and what is `beside` them.

        One that adds next to nothing at the landmarks' own rows can add more at others, through a division by nearly
        zero: its rounding is then more than what it explains.
        """

        def rest(m: int) -> tuple[float, float]:
            return max(0.0, self.trace - float(np.trace(square[:m, :m]))), self.head(m).beside(square[:m, :m])

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

    def spectrum(self, sums: Moments, start: Matrix | None, n: int, *, substituted: bool) -> Spectrum:
        """Eigenpairs of F'F from sums over all rows of F, or of C; centered, if they were measured from a start."""
        square, moved_mean = to_numpy(sums.square).astype(float), to_numpy(sums.total).astype(float) / n
        if start is None:
            start = moved_mean = np.zeros(self.m)
        mean = start.astype(float) + moved_mean
        length = float(np.trace(square)) ** 0.5
        full_length = (max(0.0, length**2 + n * float(mean @ mean - moved_mean @ moved_mean))) ** 0.5
        full_length = max(length, full_length)
        square = square - n * moved_mean[:, None] * moved_mean
        rounded = self._square_error(n, length, full_length, n**0.5 * float(np.linalg.norm(moved_mean)))
        factor_mean = mean
        if not substituted:
            square, factor_mean, rounded = self._through(square, mean, rounded + self._own_error(length))
        square = (square + square.T) / 2
        xp = namespace(self.reference)
        values, U = map(to_numpy, xp.linalg.eigh(like(square, self.reference)))
        of_mean = n * factor_mean[:, None] * factor_mean
        centered_trace = float(np.trace(square))
        return Spectrum(
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
        )

    def product_error(self, found: Spectrum, weights: Matrix, n: int, k: int, *, substituted: bool) -> float:
        """Bound on the norm of A A' - (F U)(F U)' for the product A = F U or C weights as it is computed."""
        root = float(found.values[0]) ** 0.5
        if substituted:
            off = growth(self.m) * found.full_length * k**0.5
        else:
            through_L = found.trace**0.5 * float(np.linalg.norm(self.L))
            terms = growth(self.m) * (4.0 * found.full_length + through_L) + 4.0 * self.additions(n) * found.length
            off = (terms + self.solving / self.unit * through_L) * float(np.linalg.norm(weights))
        off *= self.unit
        return float((2.0 * root + off) * off)

    def _square_error(self, n: int, length: float, full_length: float, of_mean: float = 0.0) -> float:
        """Bound on the error of the sum of squares of features, measured from a start, less that of their mean."""
        terms = self.additions(n)
        return self.unit * (terms * (length + 2.0 * of_mean) + 2.0 * SUBTRACTIONS * full_length) * length

    def _own_error(self, length: float) -> float:
        """Bound on what it does to the sum of squares that the landmarks' own rows are evaluated once more."""
        return 2.0 * self.entries * self.chosen * length

    def _through(self, square: Matrix, mean: Matrix, rounded: float) -> tuple[Matrix, Matrix, float]:
        """inv(L) square inv(L)', inv(L) mean, and a bound on the error of the first."""
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
        W = F inv(L); the first part is positive semidefinite, the second at most (1 + |W|^2) |D|.
        """
        if not self.L.any():
            return 0.0
        if not np.diagonal(self.L).all():
            return self.trace  # a landmark that explains nothing: no bound but the trivial one
        spread = self.solve_transposed(self.solve_transposed(square).T)
        if not np.isfinite(spread).all():
            return self.trace
        norm = (2.0 + norm_at_most(spread)) * 2.0 * (self.entries + self.solving) * (self.trace * self.chosen) ** 0.5
        return float(min(norm, self.trace))
