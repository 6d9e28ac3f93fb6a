import numpy as np
import pytest
import scipy.linalg

from dkpca import subspace_error, summarize
from dkpca.errors import InputError
from dkpca.kernels import RBF, Linear
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.dense import Tridiagonal
from dkpca.linalg.eigenpairs import numerical_rank
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from dkpca.rank import Adaptive, Auto, Fixed
from testkit.matrices import Given, with_spectrum


@pytest.mark.parametrize("kernel", [Linear(), RBF(0.05)], ids=lambda k: k.name)
@pytest.mark.parametrize("center", [False, True])
def test_leading_pairs_are_those_of_lapack(xp, table, kernel, center):
    plain = KernelGram(kernel, xp.asarray(table))
    gram = Centered(plain) if center else plain
    pairs = leading(gram, 4)
    values, vectors = np.linalg.eigh(to_numpy(gram.dense()))
    np.testing.assert_allclose(to_numpy(pairs.values), values[::-1][:4], rtol=1e-10)
    assert subspace_error(vectors[:, ::-1][:, :4], to_numpy(pairs.vectors)) < 1e-16
    assert pairs.left_out_norm == pytest.approx(values[::-1][4], rel=1e-8)


def test_same_type_out(xp, table):
    pairs = leading(KernelGram(RBF(0.1), xp.asarray(table)), 3)
    assert type(pairs.vectors) is type(xp.asarray(table))
    assert pairs.values.dtype == xp.float64


def test_signs_are_fixed(xp, table):
    vectors = to_numpy(leading(KernelGram(RBF(0.1), xp.asarray(table)), 6).vectors)
    assert (vectors[np.abs(vectors).argmax(0), range(6)] > 0).all()


def test_fast_path_finds_every_copy_of_an_equal_eigenvalue(rng):
    gram, Q = with_spectrum(np.r_[np.full(7, 5.0), np.linspace(1, 0, 593)], rng)
    pairs = leading(gram, 7)
    np.testing.assert_allclose(pairs.values, 5.0, rtol=1e-12)
    assert subspace_error(Q[:, :7], pairs.vectors) < 1e-16
    assert pairs.left_out_norm == pytest.approx(1.0)


def test_fast_path_agrees_with_lapack(rng):
    gram, Q = with_spectrum(2.0 ** -np.arange(600.0), rng)
    pairs = leading(gram, 20)
    np.testing.assert_allclose(pairs.values, 2.0 ** -np.arange(20.0), rtol=1e-8)
    assert subspace_error(Q[:, :20], pairs.vectors) < 1e-16


@pytest.mark.parametrize("n", [5, 400])
def test_zero_matrix(n):
    pairs = leading(Given(np.zeros((n, n))), 3)
    assert not pairs.values.any()
    assert not pairs.extension.weights.any()
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(3), atol=1e-14)


def test_identity_matrix():
    pairs = leading(Given(np.eye(400)), 5)
    np.testing.assert_allclose(pairs.values, 1.0)
    assert pairs.left_out_norm == pytest.approx(1.0)


def test_more_pairs_than_the_rank_are_completed_by_a_basis_of_the_null_space(xp, rng):
    gram = KernelGram(Linear(), xp.asarray(rng.standard_normal((12, 3))))
    pairs = leading(gram, 12)
    assert numerical_rank(len(pairs.vectors), pairs.values) == 3
    np.testing.assert_allclose(to_numpy(pairs.vectors.T @ pairs.vectors), np.eye(12), atol=1e-13)
    assert pairs.next_value == 0.0
    assert pairs.left_out_norm < 1e-11 * pairs.trace


def test_weights_turn_the_matrix_into_the_factor(xp, table):
    gram = KernelGram(RBF(0.05), xp.asarray(table))
    pairs = leading(gram, 5)
    np.testing.assert_allclose(to_numpy(gram @ pairs.extension.weights), to_numpy(pairs.factor()), atol=1e-10)


def test_head_moves_the_first_dropped_eigenvalue_into_the_tail(table):
    pairs = leading(KernelGram(RBF(0.05), table), 5)
    assert pairs.head(2).next_value == pairs.values[2]
    assert pairs.head(9) is pairs


@pytest.mark.parametrize("k", [0, 91])
def test_an_impossible_number_of_pairs_is_refused(table, k):
    with pytest.raises(InputError, match="ask for 1 to 90"):
        leading(KernelGram(Linear(), table), k)


def test_an_unknown_solver_is_refused(table):
    with pytest.raises(InputError, match="solver 'magic' is unknown; use one of"):
        leading(KernelGram(Linear(), table), 2, solver="magic")


def test_a_spectrum_that_the_partial_solver_gives_up_on_is_solved_in_full(monkeypatch, table):
    partial = scipy.linalg.eigh

    def giving_up(*arguments, subset_by_index=None, **more):
        if subset_by_index is not None:
            raise np.linalg.LinAlgError("Internal Error.")
        return partial(*arguments, **more)

    expected = leading(KernelGram(RBF(0.1), table), 5, solver="dense").values
    monkeypatch.setattr(scipy.linalg, "eigh", giving_up)
    np.testing.assert_allclose(leading(KernelGram(RBF(0.1), table), 5, solver="dense").values, expected)


def matrices_of_equal_eigenvalues(n, rng):
    Q = np.linalg.qr(rng.standard_normal((n, n)))[0]
    ridge = np.diag(np.abs(np.arange(n) - n // 2) * 1.0) + np.diag(np.ones(n - 1), 1) + np.diag(np.ones(n - 1), -1)
    return {
        "zero": np.zeros((n, n)),
        "identity": np.eye(n),
        "constant": np.ones((n, n)),
        "rank two": Q[:, :2] @ np.diag([3.0, 1.0]) @ Q[:, :2].T,
        "two values": (Q * np.repeat([2.0, 1.0], n // 2)) @ Q.T,
        "nearly equal": (Q * (1.0 + 1e-12 * rng.standard_normal(n))) @ Q.T,
        "pairs of close values": ridge,
    }


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("k", [1, 20, 21, 100], ids="{} of 100".format)
def test_eigenvectors_of_equal_eigenvalues_are_orthonormal_however_few_are_asked_for(dtype, k, rng):
    for name, K in matrices_of_equal_eigenvalues(100, rng).items():
        K = K.astype(dtype)
        solved = Tridiagonal(K.copy())
        vectors, limit = solved.leading(k), 500 * np.finfo(dtype).eps
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(k), atol=limit, err_msg=name)
        images = vectors * solved.values[:k]
        np.testing.assert_allclose(K @ vectors, images, atol=limit * max(1.0, solved.values[0]), err_msg=name)
        np.testing.assert_allclose(
            solved.values, np.linalg.eigvalsh(K)[::-1], atol=limit * max(1.0, solved.values[0])
        )


@pytest.mark.parametrize("rank", [Auto(3), Adaptive(0.01), Fixed(9)], ids=repr)
def test_a_party_computes_the_eigenvectors_that_it_sends_and_no_others(rank, rng, monkeypatch):
    asked = []

    def noted(self, k):
        asked.append(k)
        return of_tridiagonal(self, k)

    of_tridiagonal = Tridiagonal.leading
    monkeypatch.setattr(Tridiagonal, "leading", noted)
    summary, _ = summarize(rng.standard_normal((200, 4)), party="a", kernel=RBF(0.3), rank=rank)
    assert asked == [summary.rank + 1]
