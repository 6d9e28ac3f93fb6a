"""The row engine: groups of rows, in a fixed order, whoever computes them."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dkpca.kernels import RBF
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.kernels.laws import PRODUCT
from dkpca.linalg.gram import Centered
from dkpca.linalg.landmark import Landmark
from dkpca.linalg.rows import Made, cross, kept, moments, one_blas_thread, over, times, triangle
from dkpca.linalg.streamed import Streamed


@pytest.fixture
def table(rng):
    return rng.normal(size=(5000, 6))


def blas_threads(*_):
    return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


def test_groups_come_in_order_and_cover_every_row_once(table):
    seen = list(over(lambda first, part: (first, len(part)), table))
    starts = np.cumsum([0, *(size for _, size in seen)])
    assert [first for first, _ in seen] == starts[:-1].tolist()
    assert starts[-1] == len(table)


def test_rows_are_made_where_they_are_looked_at(table):
    numbered = Made((table,), lambda start, rows: 2.0 * rows, 6).then(
        lambda start, rows: rows + np.arange(start, start + len(rows))[:, None]
    )
    np.testing.assert_array_equal(kept(numbered, table), 2.0 * table + np.arange(len(table))[:, None])


@pytest.mark.parametrize("centered", [True, False])
def test_sums_are_those_of_all_rows_and_leave_them_alone(table, centered):
    before, start = table.copy(), table[0].copy()
    found = moments(table, start, centered=centered)
    off = table - start if centered else table
    np.testing.assert_allclose(found.square, off.T @ off, rtol=1e-12, atol=1e-9)
    if centered:
        np.testing.assert_allclose(found.total, off.sum(axis=0), rtol=1e-9)
    np.testing.assert_array_equal(table, before)


def test_products_with_thin_matrices(table):
    B = table[:, :3]
    np.testing.assert_allclose(cross(table, B), table.T @ B, atol=1e-9)
    np.testing.assert_allclose(times(table, B[:6, :]), table @ B[:6, :], atol=1e-12)
    R = triangle(table)
    np.testing.assert_allclose(R.T @ R, table.T @ table, atol=1e-9)


@pytest.mark.versions
@pytest.mark.longer
@pytest.mark.parametrize("solver", [Landmark(60), Streamed()])
@pytest.mark.parametrize("fused", [True, False])
def test_no_number_of_threads_changes_a_bit(table, solver, fused):
    X = table[:1800]
    gram = FusedGram(PRODUCT, [X[:, :3], X[:, 3:]]) if fused else KernelGram(RBF(0.1), X)
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            found.append(solver(Centered(gram), 4))
    np.testing.assert_array_equal(found[0].vectors, found[1].vectors)
    np.testing.assert_array_equal(found[0].values, found[1].values)
    assert found[0].left_out_norm == found[1].left_out_norm


def test_blas_has_one_thread_during_the_work_and_its_own_again_afterwards(table):
    with threadpool_limits(2, user_api="blas"):
        assert set(over(blas_threads, table)) == {1}
        assert blas_threads() == 2
        with one_blas_thread(), one_blas_thread():
            assert blas_threads() == 1
        assert blas_threads() == 2


def test_an_error_in_a_thread_is_the_callers(table):
    def broken(first, part):
        raise ValueError(f"row {first}")

    with threadpool_limits(2, user_api="blas"), pytest.raises(ValueError, match="row 0"):
        list(over(broken, table))


def test_any_thread_may_keep_blas_to_one_of_its_own():
    def inside():
        with one_blas_thread():
            return blas_threads()

    with threadpool_limits(2, user_api="blas"), ThreadPoolExecutor(1) as pool:
        assert inside() == 1
        assert pool.submit(inside).result() == 1
        assert pool.submit(blas_threads).result() == 2
