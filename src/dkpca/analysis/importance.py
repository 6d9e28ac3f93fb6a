"""Columns that drive a component, nonlinearly, at the party that has them.

How much an eigenvalue grows when a column is stretched: with v the component, x the column and K the matrix that the
column is in (the party's own under the sum law, the fused one, uncentered, under the product), stretching x by 1 + e
changes the eigenvalue by e times

    RBF      -4 gamma [sum_a x_a^2 v_a (K v)_a - (v o x)' K (v o x)]
    linear    2 (x'v)^2

since squared distances of the column enter exp(-gamma d). Values are signed. Under the product law no party has K.

Beside it, for every kernel, the distance correlation of column and score (Szekely, Rizzo, Bakirov 2007), which is
zero only if they are independent.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.fusion.fused_model import FusedModel
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg.arrays import sent_to, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.precision import as_received
from dkpca.linalg.rows import Matrix
from dkpca.party.state import PartyState

NEAR = 1e-3  # share by which eigenvalues differ that are taken for one: their components are any basis of a subspace
SAMPLED = 400  # samples that an association looks at


def derivatives(model: FusedModel, states: Mapping[str, PartyState], tables: Mapping[str, Any]) -> dict[str, Matrix]:
    """Derivative of each eigenvalue by the logarithm of each column's scale, (n_columns, n_components) by party."""
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
