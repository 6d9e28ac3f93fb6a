"""Standardizing rounds, too: the deviation has its digits, and bounds allow for the rest."""

import numpy as np
import pytest

from dkpca import DKPCA, subspace_error
from dkpca.linalg.rows import column_scales


def exactly_standardized(X):
    X = X.astype(np.longdouble)
    X = X - X[:1]  # or the mean of numbers around 1e15 would be rounded here, too
    return (X - X.mean(0)) / X.std(0)


def true_components(Z, D, gamma=None):
    squares = np.sum(Z * Z, axis=1)
    K = Z @ Z.T if gamma is None else np.exp(-gamma * (squares[:, None] + squares[None, :] - 2 * (Z @ Z.T)))
    K = K - K.mean(0) - K.mean(0)[:, None] + K.mean()
    return np.linalg.eigh(K.astype(float))[1][:, ::-1][:, :D]


@pytest.mark.parametrize("offset", [0.0, 1e6, 1e12, 1e15])
@pytest.mark.parametrize("gamma", [0.05, None], ids=["rbf", "linear"])
def test_what_is_proved_of_standardized_columns_far_from_zero_is_true(rng, offset, gamma):
    X = offset + rng.normal(80, 4, (60, 5)) * np.array([5.0, 2.0, 1.0, 1.0, 1.0])
    X = X + (X[:, :1] - X[:, :1].mean()) * np.array([0.0, 1.0, 1.0, 0.0, 0.0])  # not all directions alike
    kernel = {"kernel": "linear"} if gamma is None else {"gamma": gamma}
    model = DKPCA(2, standardize=True, rank=60, precision="float64", **kernel).fit(X)
    error = subspace_error(true_components(exactly_standardized(X), 2, gamma), model.eigenvectors_)
    assert error < 1e-22
    assert error <= model.certificate_.subspace_error_at_most < 1e-15


def test_a_deviation_has_its_digits_wherever_the_mean_is(rng):
    X = rng.normal(80, 4, (50, 3)) + np.array([0.0, 1e12, 1e15])
    mean, deviation = column_scales(X)
    exact = X.astype(np.longdouble) - X[:1]
    np.testing.assert_allclose(deviation, exact.std(0).astype(float), rtol=1e-14)
    np.testing.assert_allclose(mean, (exact.mean(0) + X[0]).astype(float), rtol=1e-15)


@pytest.mark.parametrize("size", [1e-300, 1e300, 1.7e308])
def test_columns_of_any_size_have_a_deviation(size):
    X = size * np.array([[-1.0, 1.0], [1.0, 1.0], [0.5, 1.0]])
    mean, deviation = column_scales(X)
    np.testing.assert_allclose(deviation[0] / size, np.std([-1.0, 1.0, 0.5]))
    assert deviation[1] == 1.0
    np.testing.assert_allclose(mean / size, [0.5 / 3, 1.0])
