"""A party whose rows stay on a cluster: its factor is made of columns of its matrix at landmarks, by weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkpca.certificate.left_out import PartyError
from dkpca.exchange import row_sums
from dkpca.exchange.on_dask import Chunks, shared, task
from dkpca.exchange.row_sums import ColumnSums, MovedSums
from dkpca.kernels import Kernel, Linear
from dkpca.kernels.grams import KernelGram
from dkpca.linalg import by_rows, landmark
from dkpca.linalg.by_rows import Pairs, Whole
from dkpca.linalg.eigenpairs import rounding_of
from dkpca.linalg.precision import norms_by_squares, round_to
from dkpca.linalg.rounding import SUBTRACTIONS, growth, unit
from dkpca.linalg.rows import Moments
from dkpca.party.state import PartyState
from dkpca.rank import RankRule

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Drawn:
    """Samples that are looked at one by one, by their positions."""

    sample: Matrix  # among which landmarks are chosen
    few: Matrix  # for the estimate of the error

    @property
    def all(self) -> Matrix:
        """Both, each once and in order."""
        return np.union1d(self.sample, self.few)


@dataclass(frozen=True)
class RowParty:
    """What is known of a party."""

    state: PartyState
    pairs: Pairs
    trace: float  # of its matrix
    sample: Matrix  # (s, p) rows, measured from its origin
    few: Matrix  # (r, p)

    @property
    def rank(self) -> int:
        """Columns of its factor."""
        return len(self.pairs.values)

    @property
    def left_out(self) -> float:
        """Bound on the largest eigenvalue of its matrix without what the factor spans."""
        return self.pairs.next_value + self.pairs.missed + self.pairs.residual_norm

    def factor(self, X: Matrix) -> Matrix:
        """Rows of its factor, as sent, for rows that are measured from its origin already."""
        A = self.state.kernel(X, self.state.anchors) @ self.state.weights
        sent: Matrix = round_to(A, self.state.precision).decode()
        return sent

    def error(self, sent: Matrix, n: int) -> PartyError:
        """How far its factor is from its matrix, from sums of [A R]' [A R] over its n rows."""
        pairs = self.pairs
        spectral, nuclear = (0.0, 0.0) if self.state.precision == "float64" else norms_by_squares(sent, n, sent)
        arithmetic = growth(n * self.rank) * unit(sent) * self.trace
        nothing = np.zeros(0)  # its rows are elsewhere
        return PartyError(
            left_out=self.left_out,
            overlap=pairs.missed,
            rounding=spectral + pairs.residual_norm,
            nuclear=nuclear + pairs.residual_nuclear + arithmetic,
            trace=self.trace,
            factor=np.zeros((0, self.rank)),
            reference=sent,
            sent_diagonal=None,
            received=nothing,
            diagonal=nothing,
        )


def lengths(sent: Matrix) -> Matrix:
    """Squared lengths of the columns of B = A + R, from [A R]' [A R]."""
    rank = len(sent) // 2
    own, rest = np.diagonal(sent)[:rank], np.diagonal(sent)[rank:]
    total: Matrix = own + 2.0 * np.diagonal(sent[:rank, rank:]) + rest
    return total


def deviations(sums: ColumnSums) -> Matrix:
    """Deviation of each column; one that does not vary keeps its unit, as in `linalg.deviations`."""
    found = np.sqrt(sums.squares / sums.n)
    return np.where(found > 10 * np.finfo(float).eps * np.abs(sums.mean), found, 1.0)


def measuring(name: str, kernel: Kernel, sums: ColumnSums, scale: Matrix | None, precision: str) -> PartyState:
    """Return how a party measures its columns: from their means, and in units of these scales."""
    as_they_are = isinstance(kernel, Linear) and not kernel.centered
    return PartyState(
        party=name,
        summary_id="",
        kernel=kernel,
        origin=np.zeros_like(sums.mean) if as_they_are or scale is not None else sums.mean,
        anchors=None,
        positions=None,
        weights=None,
        precision=precision,
        solver="",
        shift=None if scale is None else sums.mean,
        scale=scale,
    )


def by_chunk(chunks: Chunks, name: str, work: Any, *known: Any) -> Any:
    """Sums over all chunks of one party."""
    arguments = [shared(each) for each in known]
    return chunks.reduced(lambda number: task(work, name, *arguments, chunks.blocks[name][number]))


def party(chunks: Chunks, state: PartyState, rule: RankRule, drawn: Drawn, random_state: int) -> RowParty:
    """Find landmarks, weights and errors of one party."""
    name, linear = state.party, isinstance(state.kernel, Linear)
    known, squares, wanted = shared(state), shared(linear), _in_chunks(drawn.all, chunks.sizes)
    moved: MovedSums = chunks.reduced(
        lambda number: task(row_sums.moved_sums, name, known, squares, wanted[number], chunks.blocks[name][number])
    )
    sample, few = (moved.picked[np.searchsorted(drawn.all, each)] for each in (drawn.sample, drawn.few))
    found, trace = (
        _by_columns(chunks, moved, state, rule)
        if linear
        else _by_landmarks(chunks, moved, state, rule, drawn, sample, random_state)
    )
    return RowParty(replace(found[0], decided=repr(rule)), found[1], trace, sample, few)


def _evaluation_error(state: PartyState, moved: MovedSums, n: int) -> float:
    """Share by which kernel values may be off."""
    return state.kernel.relative_error(moved.farthest, state.origin) + _standardizing_error(state, moved, n)


def _standardizing_error(state: PartyState, moved: MovedSums, n: int) -> float:
    """What of it standardizing adds: means of chunks are rounded as sums are, and deviations with them."""
    if state.scale is None or state.shift is None:
        return 0.0
    far = 1.0 + float(np.max(np.abs(state.shift) / state.scale))
    return state.kernel.error_of_rows(moved.farthest, (growth(n) + SUBTRACTIONS) * unit(state.scale) * far)


def _in_chunks(positions: Matrix, sizes: Sequence[int]) -> list[Matrix]:
    """Positions in each chunk of those among all rows."""
    ends = np.cumsum(sizes)
    cuts = np.split(positions, np.searchsorted(positions, ends[:-1]))
    return [own - (end - size) for own, end, size in zip(cuts, ends, sizes, strict=True)]


def _by_landmarks(
    chunks: Chunks,
    moved: MovedSums,
    state: PartyState,
    rule: RankRule,
    drawn: Drawn,
    sample: Matrix,
    random_state: int,
) -> tuple[tuple[PartyState, Pairs], float]:
    """State, pairs and trace from columns at landmarks; more of these until the rule has seen enough."""
    n, k = sum(chunks.sizes), rule.first_guess(sum(chunks.sizes))
    whole = Whole(chunks.sizes, float(n), _evaluation_error(state, moved, n) * n)
    while True:
        gram = KernelGram(state.kernel, sample)
        features = by_rows.choose(gram, whole, landmark.default_landmarks(k), random_state)
        state = replace(state, anchors=sample[features.pivots], positions=drawn.sample[features.pivots])
        sums = by_chunk(chunks, state.party, row_sums.party_sums, state, features)
        pairs = by_rows.pairs(features, whole, sums, k, centered=False)
        rank = rule.choose(pairs.values, n)
        if rank is not None or len(pairs.values) < k or _numerical_rank(pairs, n) < k:
            break
        k *= 2
    pairs = by_rows.pairs(features, whole, sums, _kept(pairs, rank, n), centered=False)
    words = f"landmark: {len(features.pivots)} of {n} samples, chosen among {len(sample)}, {chunks.words}"
    return (replace(state, weights=pairs.weights, solver=words), pairs), float(n)


def _by_columns(
    chunks: Chunks, moved: MovedSums, state: PartyState, rule: RankRule
) -> tuple[tuple[PartyState, Pairs], float]:
    """State, pairs and trace of a linear kernel: from products of the columns, exactly."""
    n, p = sum(chunks.sizes), len(moved.total)
    trace = float(np.trace(moved.square))
    left = np.abs(moved.total / n) + 2.0 * growth(n) * unit(moved.square) * moved.absolute / n
    # What a mean that is itself rounded adds to inner products, as in `kernels.inner_products`.
    share = (
        float(np.sqrt(n * np.sum(left**2) / trace))
        if trace > 0 and (state.origin.any() or state.shift is not None)
        else 0.0
    )
    error = 2.0 * growth(p) * unit(moved.square) + 2.0 * share + share * share
    error += _standardizing_error(state, moved, n)
    whole, sums, start = Whole(chunks.sizes, trace, error * trace), Moments(moved.total, moved.square), np.zeros(p)
    every = by_rows.exact_pairs(whole, sums, start, p, centered=False)
    rank = _kept(every, rule.choose(every.values, n), n)
    pairs = by_rows.exact_pairs(whole, sums, start, rank, centered=False)
    words = f"dense: from products of the {p} columns, {chunks.words}"
    return (replace(state, anchors=np.eye(p), weights=pairs.weights, solver=words), pairs), trace


def _numerical_rank(pairs: Pairs, n: int) -> int:
    return int(np.sum(pairs.values > rounding_of(n, pairs.values)))


def _kept(pairs: Pairs, rank: int | None, n: int) -> int:
    """Rank asked for, without pairs that are rounding."""
    return max(1, min(len(pairs.values) if rank is None else rank, _numerical_rank(pairs, n)))
