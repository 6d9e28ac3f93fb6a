"""Columns that drive a component, nonlinearly, at the party that has them.

How much an eigenvalue grows when a column is stretched: with v the component, x the column and K the matrix that the
column is in (the party's own under the sum law, the fused one, uncentered, under the product), stretching x by 1 + e
changes the eigenvalue by e times

    RBF      -4 gamma [sum_a x_a^2 v_a (K v)_a - (v o x)' K (v o x)]
    linear    2 (x'v)^2

since squared distances of the column enter exp(-gamma d). Values are signed. Beside it, for every kernel, the
distance correlation of column and score (Szekely, Rizzo, Bakirov 2007), which is zero only if they are independent.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.fusion.fused_model import FusedModel
from dkpca.kernels import Kernel
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.precision import as_received
from dkpca.party.state import PartyState
from dkpca.party.summaries import measured

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
NEAR = 1e-3  # share by which eigenvalues differ that are taken for one: their components are any basis of a subspace
SAMPLED = 400  # samples that an association looks at


def derivatives(model: FusedModel, states: Mapping[str, PartyState], tables: Mapping[str, Any]) -> dict[str, Matrix]:
    """Derivative of each eigenvalue by the logarithm of each column's scale, (n_columns, n_components) by party.

    Widths and weights stay as they are. Components of near-equal eigenvalues share the mean of theirs.
    """
    V, values = np.asarray(to_numpy(model.eigenvectors), dtype=float), to_numpy(model.eigenvalues).astype(float)
    together = _groups(values)
    found = {}
    for name, table in tables.items():
        kernel, X = states[name].kernel, np.asarray(to_numpy(measured(states[name], table)), dtype=float)
        K = _matrix(model, kernel, X)
        own = kernel.slopes(partial(_times, K), X, V)
        if own is None or not (model.law.scores_add or kernel.unit_diagonal):
            raise InputError(
                f"party {name!r}: derivatives are for the rbf kernel, and for the linear one under the sum law, not "
                f"for {kernel.name}; use column_association"
            )
        found[name] = (model.weights[name] if model.law.scores_add else 1.0) * own @ together
    return found


def _times(K: Gram, block: Matrix) -> Matrix:
    return np.asarray(to_numpy(K @ np.ascontiguousarray(block)))


def _matrix(model: FusedModel, kernel: Kernel, X: Matrix) -> Gram:
    """The uncentered matrix that a party's columns are in: its own under the sum law, else the fused one."""
    if model.law.scores_add:
        return KernelGram(kernel, X)
    return FusedGram(model.law, [as_received(summary.factor, "float64") for summary in model.summaries.values()])


def _groups(values: Any) -> Matrix:
    """Matrix that averages over components of near-equal eigenvalues."""
    number = np.concatenate([[0], np.cumsum(-np.diff(values) > NEAR * values[:-1])])
    same = (number[:, None] == number[None, :]).astype(float)
    return np.asarray(same / same.sum(axis=0))


def associations(X: Matrix, scores: Matrix, seed: int = 0) -> Matrix:
    """Distance correlation of each column with each component, (n_columns, n_components), between 0 and 1."""
    rows = np.sort(np.random.default_rng([seed, len(X)]).permutation(len(X))[:SAMPLED])
    theirs = [_distances(column) for column in scores[rows].T]
    return np.array([_correlations(_distances(column), theirs) for column in X[rows].T])


def _distances(x: Any) -> Matrix:
    """Distances between the values, centered in rows and columns, of length 1; zero for a constant column."""
    D = np.abs(x[:, None] - x[None, :])
    means = D.mean(axis=0)
    D = D - means[None, :] - means[:, None] + means.mean()
    length = float(np.linalg.norm(D))
    return np.asarray(D / length if length > 0 else D)


def _correlations(own: Matrix, theirs: list[Matrix]) -> list[float]:
    return [float(np.sqrt(max(0.0, float(np.sum(own * each))))) for each in theirs]
