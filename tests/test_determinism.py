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


FITS = [{"solver": solver, "kernel": kernel, "rank": 20} for solver in SOLVERS for kernel in ("rbf", "linear")]


@pytest.mark.longer
@pytest.mark.parametrize("how", [{}, {"parties": 1}, {"protect": "sums", "parties": 3}, {"kernel": "poly"}, *FITS])
def test_blas_threads_change_no_bit(how):
    X, found = np.random.default_rng(0).normal(size=(500, 20)), []
    for threads in (1, 2):  # more would wait for each other on two cores
        with threadpool_limits(threads, user_api="blas"):
            model = DKPCA(5, **{"parties": 2, **how}).fit(X)
            found.append((model, model.transform(X[:200])))
    (one, placed), (two, placed_by_two) = found
    np.testing.assert_array_equal(two.eigenvectors_, one.eigenvectors_)
    assert two.certificate_ == one.certificate_
    np.testing.assert_array_equal(placed_by_two, placed)


@pytest.mark.parametrize("solver", SOLVERS)
def test_another_seed_is_another_draw_of_landmarks_and_nothing_else(solver):
    first, other = (
        fitted(solver),
        DKPCA(4, parties=4, rank=20, solver=solver, random_state=8).fit(DIGITS),
    )
    if solver == "dense":
        np.testing.assert_array_equal(first.eigenvectors_, other.eigenvectors_)
    assert subspace_error(first.eigenvectors_, other.eigenvectors_) < 1.0
