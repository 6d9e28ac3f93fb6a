"""The same inputs and seed give the same answer, whoever computes it."""

import joblib
import numpy as np
import pytest
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits

from dkpca import DKPCA, subspace_error

DIGITS = load_digits().data[:250]
SOLVERS = ("dense", "streamed", "landmark")


def fitted(solver, kernel="rbf", **how):
    return DKPCA(4, kernel=kernel, parties=4, rank=20, solver=solver, random_state=7, **how).fit(DIGITS)


@pytest.mark.cluster
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_jobs_and_backends_change_no_bit(solver, kernel):
    one = fitted(solver, kernel)
    others = [fitted(solver, kernel), fitted(solver, kernel, n_jobs=2)]
    with joblib.parallel_config(backend="threading", n_jobs=3):
        others.append(fitted(solver, kernel))
    for other in others:
        np.testing.assert_array_equal(other.eigenvectors_, one.eigenvectors_)
        np.testing.assert_array_equal(other.eigenvalues_, one.eigenvalues_)
        assert other.certificate_ == one.certificate_


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("solver", SOLVERS)
def test_blas_threads_change_the_answer_by_less_than_a_billionth(solver, kernel):
    models = []
    for threads in (1, 2):  # more would wait for each other on two cores
        with threadpool_limits(threads, user_api="blas"):
            models.append(fitted(solver, kernel))
    one, two = models
    np.testing.assert_allclose(two.eigenvalues_, one.eigenvalues_, rtol=1e-9)
    assert subspace_error(one.eigenvectors_, two.eigenvectors_) < 1e-9


@pytest.mark.parametrize("solver", SOLVERS)
def test_another_seed_is_another_draw_of_landmarks_and_nothing_else(solver):
    first, other = (
        fitted(solver),
        DKPCA(4, parties=4, rank=20, solver=solver, random_state=8).fit(DIGITS),
    )
    if solver == "dense":
        np.testing.assert_array_equal(first.eigenvectors_, other.eigenvectors_)
    assert subspace_error(first.eigenvectors_, other.eigenvectors_) < 1.0
