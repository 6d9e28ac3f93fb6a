"""What is computed of one chunk of rows, wherever it lies: sums of the size of landmarks, or rows of the same number.

Every function takes what a party or the center knows, and a chunk; what it returns is added up two by two.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import Array
from dkpca.linalg.by_rows import Features
from dkpca.linalg.precision import round_to
from dkpca.linalg.rounding import quiet
from dkpca.linalg.rows import Made, Moments, Part, by_strips, crossed, moments, one_blas_thread, write_products
from dkpca.party.state import PartyState
from dkpca.party.summaries import measured
from dkpca.tables.inputs import check_told_apart

Matrix = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ColumnSums:
    """Of a party's columns as they are."""

    n: int
    mean: Matrix
    squares: Matrix  # sums of squares from the mean
    largest: Matrix  # magnitudes

    def __add__(self, other: "ColumnSums") -> "ColumnSums":
        n = self.n + other.n
        step = other.mean - self.mean
        return ColumnSums(
            n,
            self.mean + step * (other.n / n),
            self.squares + other.squares + step * step * (self.n * other.n / n),
            np.maximum(self.largest, other.largest),
        )


@dataclass(frozen=True)
class MovedSums:
    """Of a party's columns measured from its origin."""

    total: Matrix  # (p,)
    absolute: Matrix  # (p,)
    square: Matrix  # (p, p); without entries for a kernel that has no use for it
    farthest: Matrix  # (1, p): the row
    picked: Matrix  # (s, p): rows that were asked for, in their order

    def __add__(self, other: "MovedSums") -> "MovedSums":
        further = np.sum(other.farthest**2) > np.sum(self.farthest**2)
        return MovedSums(
            self.total + other.total,
            self.absolute + other.absolute,
            self.square + other.square,
            other.farthest if further else self.farthest,
            np.vstack([self.picked, other.picked]),
        )


@dataclass(frozen=True)
class CenterSums:
    """Of the parties' factors, and of the fused matrix at its landmarks."""

    features: Moments
    sent: tuple[Matrix, ...]  # by party: [A R]' [A R] of the factor and what rounding did to it
    amplified: Matrix  # (parties,) largest factors by which their errors enter
    trace: float  # of the fused matrix
    true_diagonal: float  # sum of what the law makes of the parties' true diagonals

    def __add__(self, other: "CenterSums") -> "CenterSums":
        return CenterSums(
            self.features + other.features,
            tuple(a + b for a, b in zip(self.sent, other.sent, strict=True)),
            np.maximum(self.amplified, other.amplified),
            self.trace + other.trace,
            self.true_diagonal + other.true_diagonal,
        )


@dataclass(frozen=True)
class VectorSums:
    """Of the eigenvectors."""

    square: Matrix  # (k, k)
    extreme: Matrix  # (k,) entries of largest magnitude
    images: tuple[Matrix, ...]  # (s, k): some rows of fused matrices times the eigenvectors

    def __add__(self, other: "VectorSums") -> "VectorSums":
        further = np.abs(other.extreme) > np.abs(self.extreme)
        return VectorSums(
            self.square + other.square,
            np.where(further, other.extreme, self.extreme),
            tuple(a + b for a, b in zip(self.images, other.images, strict=True)),
        )


@dataclass(frozen=True)
class Center:
    """How the center makes scores of the rows of factors."""

    law: Law
    anchors: tuple[Matrix, ...]  # rows of the factors, by party, that others are compared with
    weights: Matrix | None = None  # (m, k)
    offset: Matrix | None = None  # (k,)

    def columns(self, rows: Sequence[Matrix]) -> Made:
        """Entries of the fused matrix between rows and anchors."""
        return _columns(self.law, rows, self.anchors)

    def scores(self, rows: Sequence[Matrix]) -> Matrix:
        """Scores of the samples with these rows."""
        assert self.weights is not None
        assert self.offset is not None
        columns = Part(self.columns(rows), slice(0, len(rows[0])))
        out: Matrix = by_strips(lambda strip: columns[strip] @ self.weights, rows[0], self.weights)
        return out + self.offset[None, :]


def _columns(law: Law, rows: Sequence[Matrix], anchors: Sequence[Matrix]) -> Made:
    left, right = law.merge(list(rows)), [A.T for A in law.merge(list(anchors))]

    def make(start: int, *own: Array) -> Array:
        return law.recombine(A @ B for A, B in zip(own, right, strict=True))

    return Made(tuple(left), make, right[0].shape[1])


def numbers(party: str, chunk: Any) -> Matrix:
    """Return a chunk as numbers, all of them finite."""
    try:
        check_told_apart(chunk)
        X = np.asarray(chunk, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"party {party!r}: its table cannot be used as numbers: {error}") from error
    if not np.isfinite(X).all():
        column = int(np.argmin(np.isfinite(X).all(axis=0)))
        raise InputError(
            f"party {party!r}: its column {column + 1} contains NaN or infinity; fill in or leave out such rows"
        )
    return X


def column_sums(party: str, chunk: Any) -> ColumnSums:
    """First look at a chunk."""
    X = numbers(party, chunk)
    with quiet():
        mean = X[0] + (X - X[0]).mean(axis=0)
        return ColumnSums(len(X), mean, np.sum((X - mean) ** 2, axis=0), np.abs(X).max(axis=0))


def moved_sums(party: str, state: PartyState, squares: bool, positions: Matrix, chunk: Any) -> MovedSums:
    """Second look at a chunk."""
    with one_blas_thread():
        X = measured(state, numbers(party, chunk))
        lengths = np.sum(X * X, axis=1)
        farthest = X[[int(np.argmax(lengths))], :]
        square = moments(X, X[0], centered=False).square if squares else np.zeros((0, 0))
        return MovedSums(X.sum(axis=0), np.abs(X).sum(axis=0), square, farthest, X[positions])


def party_sums(party: str, state: PartyState, features: Features, chunk: Any) -> Moments:
    """Sums over the columns of a party's matrix at its landmarks."""
    with one_blas_thread(), quiet():
        X = measured(state, numbers(party, chunk))

        columns = Made((X,), lambda start, rows: state.kernel(rows, state.anchors), len(features.L))
        return features.sums(columns, centered=False)


def factor_rows(party: str, state: PartyState, chunk: Any) -> tuple[Matrix, Matrix]:
    """Rows of a party's factor, before they are rounded and as they are sent."""
    with one_blas_thread(), quiet():
        X = measured(state, numbers(party, chunk))
        A = by_strips(lambda rows: state.kernel(X[rows, :], state.anchors) @ state.weights, X, state.weights)
        return A, round_to(A, state.precision).decode()


def center_sums(
    center: Center,
    features: Features,
    order: Sequence[int],
    unit_diagonal: bool,
    centered: bool,
    factors: Sequence[tuple[Matrix, Matrix]],
) -> CenterSums:
    """Sums over the rows of all parties' factors; `order` is that of the parties' errors."""
    with one_blas_thread(), quiet():
        rows = [B for _, B in factors]
        both = [np.hstack([A, B - A]) for A, B in factors]
        sent = tuple(moments(Z, Z[0], centered=False).square for Z in both)
        received = [np.sum(B * B, axis=1) for B in rows]
        true = [np.ones_like(each) if unit_diagonal else each for each in received]
        amplified = center.law.amplification([received[j] for j in order], [true[j] for j in order])
        return CenterSums(
            features.sums(center.columns(rows), centered=centered),
            sent,
            np.array(amplified),
            float(center.law.recombine(received).sum()),
            float(center.law.recombine(true).sum()),
        )


@dataclass(frozen=True)
class Looked:
    """Rows of factors at a few samples, for the estimate of the error, with and without their last columns."""

    rows: tuple[tuple[Matrix, ...], ...]  # by cut and party, with columns multiplied as in the cut
    shares: tuple[tuple[Matrix, ...], ...]  # by cut and party: what columns are multiplied by


def vector_sums(center: Center, looked: Looked, factors: Sequence[tuple[Matrix, Matrix]]) -> VectorSums:
    """Sums over the rows of the eigenvectors, which are made of the factors' once more."""
    assert center.weights is not None
    assert center.offset is not None
    with one_blas_thread(), quiet():
        rows = [B for _, B in factors]
        V = np.empty((len(rows[0]), center.weights.shape[1]))

        def keep(group: slice, made: Array) -> None:
            V[group] = made

        square, _ = write_products(center.columns(rows), center.weights, -center.offset, keep)
        extreme = V[np.abs(V).argmax(axis=0), range(V.shape[1])]
        images = []
        for at, shares in zip(looked.rows, looked.shares, strict=True):
            cut = [B[:, : len(share)] * share[None, :] for B, share in zip(rows, shares, strict=True)]
            images.append(crossed(_columns(center.law, cut, at), V))
        return VectorSums(square, extreme, tuple(images))


def scores(center: Center, factors: Sequence[tuple[Matrix, Matrix]]) -> Matrix:
    """Scores of the samples of a chunk."""
    with one_blas_thread(), quiet():
        return center.scores([B for _, B in factors])
