"""Columns that drive a component, nonlinearly, at the party that has them.

How much an eigenvalue grows when a column is stretched: with v the component, x the column and K the matrix that the
column is in (the party's own under the sum law, the fused one, uncentered, under the product), stretching x by 1 + e
changes the eigenvalue by e times

    RBF      -4 gamma [sum_a x_a^2 v_a (K v)_a - (v o x)' K (v o x)]
    linear    2 (x'v)^2

since squared distances of the column enter exp(-gamma d). Values are signed. Under the product law a party that has
only the result knows K = V Lambda V' + 1 m' + m 1' - mean(m) 11' + E, with m the row means. E is orthogonal to the
ones vector and the components, and 0 <= E <= lambda_D bounds what they do not hold.

Beside it, for every kernel, the distance correlation of column and score (Szekely, Rizzo, Bakirov 2007), which is
zero only if they are independent.
"""

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np

from dkpca.errors import InputError
from dkpca.fusion.fused_model import FusedModel
from dkpca.kernels import RBF, Kernel
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg.arrays import sent_to, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.precision import as_received
from dkpca.party.state import PartyState

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
NEAR = 1e-3  # share by which eigenvalues differ that are taken for one: their components are any basis of a subspace
SAMPLED = 400  # samples that an association looks at


def derivatives(model: FusedModel, states: Mapping[str, PartyState], tables: Mapping[str, Any]) -> dict[str, Matrix]:
    """Derivative of each eigenvalue by the logarithm of each column's scale, (n_columns, n_components) by party.

    Widths and weights stay as they are. Components of near-equal eigenvalues share the mean of theirs.
    """
    V, values = np.asarray(to_numpy(model.eigenvectors), dtype=float), to_numpy(model.eigenvalues).astype(float)
    together, found = _groups(values), {}
    sent = [as_received(summary.factor, "float64") for summary in model.summaries.values()]
    for name, table in tables.items():
        kernel, X = states[name].kernel, np.asarray(to_numpy(states[name].measured(table)), dtype=float)
        # The uncentered matrix that the columns are in: the party's own under the sum law, else the fused one.
        adds = model.law.scores_add
        K = KernelGram(kernel, X) if adds else FusedGram(model.law, sent)
        own = kernel.slopes(partial(_times, K), X, V)
        if own is None or not (adds or kernel.unit_diagonal):
            raise InputError(
                f"party {name!r}: derivatives are for the rbf kernel, and for the linear one under the sum law, not "
                f"for {kernel.name}; use column_association"
            )
        found[name] = (model.weights[name] if adds else 1.0) * own @ together
    return found


@dataclass(frozen=True)
class Drives:
    """How much each eigenvalue grows when a column is stretched, and bounds on how far that is off; by CSV."""

    columns: tuple[str, ...]
    values: Matrix  # (n_columns, n_components): by the logarithm of the column's scale
    errors: Matrix  # (n_columns, n_components)

    def to_csv(self) -> bytes:
        """Return a table with a row for each column: a derivative and its bound by component."""
        heads = [f"{what}_{d + 1}" for what in ("component", "error") for d in range(self.values.shape[1])]
        text, numbers = io.StringIO(), np.hstack([self.values, self.errors]).tolist()
        rows = ([name, *map(repr, row)] for name, row in zip(self.columns, numbers, strict=True))
        csv.writer(text, lineterminator="\n").writerows([["column", *heads], *rows])
        return text.getvalue().encode()

    @classmethod
    def from_csv(cls, data: bytes) -> "Drives":
        """Read what `to_csv` wrote."""
        _, *rows = csv.reader(io.StringIO(data.decode(), newline=""))
        values, errors = np.hsplit(np.array([row[1:] for row in rows], dtype=float), 2)
        return cls(tuple(row[0] for row in rows), values, errors)


def at_party(
    kernel: Kernel, columns: Sequence[str], X: Matrix, scores: Matrix, means: Matrix | None, residual: float
) -> Drives | None:
    """Derivatives of a party's columns from its result (`dkpca.messages.Scores`); None if its kernel has none.

    Without row means the law is the sum, and the party's own matrix says all.
    """
    values = np.sum(scores**2, axis=0)
    V, together = scores / np.sqrt(np.where(values > 0, values, 1.0)), _groups(values)
    if means is None:
        own = kernel.slopes(partial(_times, KernelGram(kernel, X)), X, V)
        return None if own is None else Drives(tuple(columns), np.asarray(own @ together), np.zeros(own.shape))
    if not kernel.driven_by_means:
        return None
    found, errors = _from_means(cast(RBF, kernel), X, V, values, means, residual)
    return Drives(tuple(columns), found @ together, errors @ together)


def _from_means(
    kernel: RBF, X: Matrix, V: Matrix, values: Any, means: Matrix, residual: float
) -> tuple[Matrix, Matrix]:
    """Derivatives under the product law from components and row means, and bounds on their errors."""
    X, m = X - X.mean(axis=0), means.reshape(-1, 1)
    n, D = V.shape
    # E is taken for tau (I - 11'/n - VV'), which has its trace: that of H L H, n (1 - mean(m)), less the components'.
    least = float(values[-1])
    tau = min(least, max(0.0, n * (1.0 - float(m.mean())) - float(values.sum())) / max(1, n - 1 - D))

    def beyond(B: Matrix) -> Matrix:
        return np.asarray(B - B.mean(axis=0) - V @ (V.T @ B))

    def times(B: Matrix) -> Matrix:
        sums = B.sum(axis=0)
        uncentered = m.T @ B + (m - m.mean()) * sums
        return np.asarray(V @ (values[:, None] * (V.T @ B)) + uncentered + tau * beyond(B))

    found = np.asarray(kernel.slopes(times, X, V))
    # With w = v o x, w'Ew is within max(tau, lambda_D - tau) |w off 1 and V|^2 of its estimate; R = H L V - V Lambda
    # adds at most |R| (|x^2 o v| + 2 |w|^2).
    error = np.empty_like(found)
    for d in range(D):
        W = V[:, d : d + 1] * X
        held, stretched = np.sum(beyond(W) ** 2, axis=0), np.linalg.norm(W * X, axis=0) + 2.0 * np.sum(W**2, axis=0)
        error[:, d] = 4.0 * kernel.gamma * (max(tau, least - tau) * held + residual * stretched)
    return found, error


def _times(K: Gram, block: Matrix) -> Matrix:
    return np.asarray(to_numpy(K @ sent_to(np.ascontiguousarray(block), K.reference)))


def _groups(values: Any) -> Matrix:
    """Matrix that averages over components of near-equal eigenvalues."""
    # A new group begins where lambda_i - lambda_{i+1} > NEAR lambda_i; inside a group the basis is arbitrary.
    number = np.concatenate([[0], np.cumsum(-np.diff(values) > NEAR * values[:-1])])
    same = (number[:, None] == number[None, :]).astype(float)
    return np.asarray(same / same.sum(axis=0))


def associations(X: Matrix, scores: Matrix) -> Matrix:
    """Distance correlation of each column with each component, (n_columns, n_components), between 0 and 1."""
    rows = np.sort(np.random.default_rng([0, len(X)]).permutation(len(X))[:SAMPLED])
    theirs = [_distances(column) for column in scores[rows].T]
    own = (_distances(column) for column in X[rows].T)
    return np.sqrt(np.maximum([[np.sum(mine * each) for each in theirs] for mine in own], 0.0))


def _distances(x: Any) -> Matrix:
    """Distances between the values, centered in rows and columns, of length 1; zero for a constant column."""
    # D_ij = |x_i - x_j|, then H D H: distance correlation is the cosine between two such matrices (Szekely 2007).
    D = np.abs(x[:, None] - x[None, :])
    means = D.mean(axis=0)
    D = D - means[None, :] - means[:, None] + means.mean()
    length = float(np.linalg.norm(D))
    return np.asarray(D / length if length > 0 else D)
