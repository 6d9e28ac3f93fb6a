import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg import parallel
from dkpca.linalg.landmark import Landmark


@pytest.fixture
def two_threads(monkeypatch):
    monkeypatch.setattr(parallel, "_blas_threads", lambda: 2)


def blas_threads():
    return [library["num_threads"] for library in parallel._controller().info()]


def test_shares_are_dealt_in_a_fixed_order(two_threads):
    assert parallel.split_work(list, range(5), np.zeros(1)) == [[0, 2, 4], [1, 3]]


def test_one_thread_gets_everything():
    assert parallel.split_work(list, [1], np.zeros(1)) == [[1]]


@pytest.mark.usefixtures("two_threads")
def test_threads_change_nothing(table):
    gram = KernelGram(RBF(0.05), np.tile(table, (20, 1)) + np.arange(1800)[:, None] * 1e-3)
    block = np.random.default_rng(0).standard_normal((1800, 4))
    np.testing.assert_allclose(gram @ block, gram.dense() @ block, rtol=1e-9)
    np.testing.assert_array_equal(gram @ block, gram @ block)
    F, _, missed = Landmark().factorize(gram, 40)
    assert missed == pytest.approx(np.trace(gram.dense() - F @ F.T))


@pytest.fixture
def blas_on_two():
    """BLAS itself on two threads, whatever the environment says."""
    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.mark.usefixtures("blas_on_two")
def test_the_limit_on_blas_holds_during_the_work_and_is_lifted_again():
    assert set(blas_threads()) == {2}
    inside = parallel.split_work(lambda items: blas_threads(), range(4), np.zeros(1))
    assert [set(seen) for seen in inside] == [{1}, {1}]
    with pytest.raises(ZeroDivisionError):
        parallel.split_work(lambda items: 1 // 0, range(3), np.zeros(1))
    assert set(blas_threads()) == {2}


@pytest.mark.usefixtures("blas_on_two")
def test_inside_somebody_elses_threads_there_are_no_more():
    assert parallel._blas_threads() == 2
    with parallel.one_blas_thread(), parallel.one_blas_thread():
        assert parallel._blas_threads() == 1
    assert parallel._blas_threads() == 2
