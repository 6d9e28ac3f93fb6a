"""Routines of BLAS without Python's lock do what plain products do, for every layout and precision."""

import numpy as np
import pytest

from dkpca.linalg.blas import add_lower_square, by_lower, times_lower
from dkpca.linalg.parallel import _blas_threads, one_blas_thread, threads_of_our_own

SHAPES = [(1, 1), (7, 1), (5, 9), (300, 40)]
DTYPES = [(np.float64, 1e-12), (np.float32, 1e-4)]


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("height", "m"), SHAPES)
def test_rows_times_a_triangle_or_by_it(rng, height, m, order, dtype, tolerance):
    L = np.tril(rng.standard_normal((m, m)), -1) / m + np.eye(m)
    rows = np.asarray(rng.standard_normal((height, m)), dtype=dtype, order=order)
    stray = L + np.triu(np.full((m, m), np.nan), 1)  # what lies above the triangle is not looked at
    np.testing.assert_allclose(times_lower(stray, rows.copy()), rows @ L.T, atol=tolerance)
    np.testing.assert_allclose(by_lower(stray, rows.copy()) @ L.T, rows, atol=tolerance)


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("height", "m"), SHAPES)
def test_squares_are_added_to_the_lower_triangle(rng, height, m, order, dtype, tolerance):
    Z = np.asarray(rng.standard_normal((height, m)), dtype=dtype, order=order)
    total = np.ones((m, m), dtype=dtype)
    add_lower_square(total, Z)
    np.testing.assert_allclose(np.tril(total), np.tril(1.0 + Z.T @ Z), atol=tolerance * height)


def test_what_does_not_fit_is_refused_before_memory_is_touched(rng):
    rows = rng.standard_normal((4, 3))
    with pytest.raises(ValueError, match="do not go into an array"):
        add_lower_square(np.zeros((2, 2)), rows)
    with pytest.raises(ValueError, match="do not go into an array"):
        add_lower_square(np.zeros((6, 6))[::2, ::2], rows)
    with pytest.raises(ValueError, match="do not go with a triangle"):
        by_lower(np.eye(2), rows)


def test_squares_of_another_precision_are_added_in_that_of_the_sum(rng):
    Z, total = rng.standard_normal((50, 4)).astype(np.float32), np.zeros((4, 4))
    add_lower_square(total, Z)
    np.testing.assert_allclose(np.tril(total), np.tril(Z.astype(float).T @ Z.astype(float)), rtol=1e-12)


def test_threads_are_left_to_our_own_work_and_given_back():
    before = _blas_threads()
    with threads_of_our_own(), threads_of_our_own():
        assert _blas_threads() == before
        with one_blas_thread():
            assert _blas_threads() == 1
        assert _blas_threads() == before
    assert _blas_threads() == before
