"""The estimate for nothing: near the truth, on the safe side, and never called proved."""

import math

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from dkpca import DKPCA, subspace_error
from dkpca.certificate.estimate import ROWS
from dkpca.kernels import RBF
from dkpca.linalg.perturbation import Spectrum, turned
from testkit.protocol import fused_from


def ratio_of(X, D, seed, **settings):
    """Estimate over truth, on shuffled columns of some of the rows."""
    rng = np.random.default_rng(seed)
    X = X[rng.permutation(len(X))[:100]][:, rng.permutation(X.shape[1])]
    few = DKPCA(D, **settings).fit(X)
    true = DKPCA(D, **(settings | {"rank": len(X), "precision": "float64", "solver": "dense"})).fit(X)
    proof = few.certificate_
    assert proof.subspace_error_estimate <= proof.subspace_error_at_most
    return proof.subspace_error_estimate / subspace_error(true.eigenvectors_, few.eigenvectors_)


@pytest.mark.slow  # sixty pairs of fits: how often it holds is the claim
@pytest.mark.parametrize("data", [load_digits, load_breast_cancer, load_wine])
@pytest.mark.parametrize(
    "settings", [{"rank": 15}, {"rank": 40}, {"rank": 20, "law": "sum"}, {"kernel": "laplacian"}]
)
def test_it_is_at_least_half_and_at_most_a_hundred_times_the_truth(data, settings):
    X = StandardScaler().fit_transform(data().data)
    ratios = np.array([ratio_of(X, 4, seed, parties=3, **({"rank": 20} | settings)) for seed in range(5)])
    assert (ratios >= 0.5).mean() >= 0.8
    assert (ratios <= 100).mean() >= 0.8


def test_nothing_left_out_is_estimated_as_nothing(table):
    proof = fused_from(np.array_split(table, 3, axis=1), RBF(0.02), 3).certificate
    assert proof.subspace_error_estimate < 1e-18


def test_it_is_called_estimated(table):
    proof = fused_from(np.array_split(table, 3, axis=1), RBF(0.02), 3, rank=20).certificate
    assert 0.0 < proof.subspace_error_estimate < proof.subspace_error_at_most
    (sentence,) = [s for s in proof.statements() if f"{proof.subspace_error_estimate:.2g}" in s]
    assert "stimated" in sentence
    assert proof.to_dict()["subspace_error_estimate"] == proof.subspace_error_estimate


@pytest.mark.slow
def test_with_landmarks_at_the_center_some_rows_are_enough(rng):
    X = rng.standard_normal((3 * ROWS, 4)) @ rng.standard_normal((4, 8))
    quick = DKPCA(3, parties=2, gamma=0.02, rank=30, solver="landmark", n_landmarks=60).fit(X)
    true = DKPCA(3, gamma=0.02, rank=200, precision="float64", solver="dense").fit(X)
    ratio = quick.certificate_.subspace_error_estimate / subspace_error(true.eigenvectors_, quick.eigenvectors_)
    assert 0.5 < ratio < 100


def spectrum_of(values, vectors, D, rows):
    return Spectrum(values[:D], vectors[rows, :D], values[D : D + 5], vectors[rows, D : D + 5])


def test_the_turn_is_that_of_first_order(rng):
    n, D = 60, 3
    vectors = np.linalg.qr(np.hstack([np.ones((n, 1)), rng.standard_normal((n, n - 1))]))[0][:, 1:]
    values = np.concatenate([[9.0, 7.0, 5.0], [4.5, 4.0, 3.0, 2.0, 1.0], np.full(n - 9, 0.5)])
    A = vectors @ np.diag(values) @ vectors.T
    E = rng.standard_normal((n, 4))
    E = 1e-4 * E @ E.T
    E = E - E.mean(0) - E.mean(0)[:, None] + E.mean()
    moved = np.linalg.eigh(A + E)[1][:, ::-1][:, :D]
    found = turned(E @ vectors[:, :D] + 3.0, spectrum_of(values, vectors, D, slice(None)), np.ones(n), all_rows=True)
    assert math.isclose(found.sum(), subspace_error(moved, vectors[:, :D]), rel_tol=0.1)


def test_only_a_component_that_falls_can_change_places_with_one_behind_it(rng):
    vectors = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    vectors = vectors - vectors.mean(0)
    values = np.arange(20.0, 0.0, -1.0)
    rows = vectors[:, :2] * np.array([0.0, 1.5])  # the second component's eigenvalue changes by more than its gap
    spectrum = spectrum_of(values, vectors, 2, slice(None))
    falling, rising = (
        turned(rows, spectrum, np.ones(20), all_rows=True, taken_away=taken_away) for taken_away in (True, False)
    )
    assert falling[1] == 1.0
    assert rising[1] < 0.1


def test_a_matrix_of_any_size_turns_alike(rng):
    vectors = np.linalg.qr(rng.standard_normal((20, 20)))[0]
    rows = 0.01 * rng.standard_normal((20, 2))
    values = np.arange(20.0, 0.0, -1.0)
    turns = [
        turned(size * rows, spectrum_of(size * values, vectors, 2, slice(None)), np.ones(20), all_rows=True)
        for size in (1.0, 1e-200, 1e200)
    ]
    np.testing.assert_allclose(turns[1], turns[0])
    np.testing.assert_allclose(turns[2], turns[0])
