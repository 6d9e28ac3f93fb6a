"""Samples that are equal are computed with once: the answer and its bounds are those of all of them."""

from typing import Any

import joblib
import numpy as np
import pytest
from scipy.sparse.linalg import eigsh

from dkpca import DKPCA, subspace_error
from dkpca.kernels import RBF, Linear
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.kernels.laws import PRODUCT
from dkpca.linalg import rows as engine
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from dkpca.linalg.precision import Tall, as_received, round_to
from dkpca.linalg.rows import distinct_rows

N = 5000


def repeated(rng, distinct=300, columns=5, n=N):
    """Rows of which some are much more frequent than others."""
    table = rng.standard_normal((distinct, columns))
    table[: distinct // 2] = np.round(table[: distinct // 2]) + 0.0  # few bits, as in columns of zeros and ones
    return table[np.minimum(rng.geometric(4.0 / distinct, n), distinct) - 1]


def best(K, k):
    """Leading eigenpairs of a matrix, by ARPACK."""
    values, vectors = eigsh(K, k, v0=np.ones(len(K)) + np.arange(len(K)) / len(K))
    return values[::-1], vectors[:, ::-1]


@pytest.mark.longer
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
def test_the_pairs_are_those_of_all_rows(rng, solver, dtype):
    X = repeated(rng).astype(dtype)
    gram = KernelGram(RBF(0.2), X)
    pairs = leading(gram, 6, solver=solver, n_landmarks=60)
    V, values = pairs.vectors.astype(float), pairs.values.astype(float)
    assert pairs.vectors.dtype == dtype
    assert f"{len(np.unique(X, axis=0))} of {N} samples are distinct" in pairs.solver
    np.testing.assert_allclose(V.T @ V, np.eye(6), atol=100 * np.finfo(dtype).eps)
    assert (V[np.abs(V).argmax(axis=0), range(6)] > 0).all()
    # K = V Lambda V' + what is left out: products with the matrix of all rows, and its trace.
    K = KernelGram(RBF(0.2), X.astype(float)).dense()
    assert N * (1 - 1e-6) <= pairs.trace <= 1.01 * N
    left = K - (V * values) @ V.T
    largest = np.abs(np.linalg.eigvalsh(left[::5, ::5])).max()  # of a part: no more than that of all
    assert largest <= pairs.left_out_norm
    exact = pairs.missed_trace == 0.0
    assert np.linalg.norm(K @ V - V * values, 2) <= (1e-6 * N if exact else pairs.missed_norm + 1e-6 * N)
    # New samples are compared with distinct rows only, and training samples get their own rows of the factor.
    anchors = X[pairs.extension.anchors].astype(float)
    assert len(np.unique(anchors, axis=0)) == len(anchors)
    rows = RBF(0.2)(X.astype(float), anchors) @ pairs.extension.weights + pairs.extension.offset
    np.testing.assert_allclose(rows, V * np.sqrt(values), atol=2e-4 if dtype == np.float32 else 1e-6)


@pytest.mark.longer
def test_landmarks_miss_what_is_stated(rng):
    gram = KernelGram(RBF(0.5), repeated(rng, 900))
    pairs = leading(gram, 5, solver="landmark", n_landmarks=40)
    K, V = gram.dense(), pairs.vectors
    exact, _ = best(K, 5)
    assert (pairs.values <= exact * (1 + 1e-9)).all()
    assert (exact <= pairs.values + pairs.missed_norm + pairs.residual_norm).all()
    within = pairs.missed_within - (V.T @ K @ V - np.diag(pairs.values))
    assert np.linalg.eigvalsh(within)[0] >= -1e-9 * N


def test_a_factor_at_hand_and_few_distinct_rows(rng):
    X = repeated(rng, 40)
    pairs = leading(KernelGram(Linear(centered=False), X), 4, solver="dense")
    np.testing.assert_allclose(pairs.values, np.linalg.svd(X, compute_uv=False)[:4] ** 2)
    more = leading(KernelGram(RBF(0.2), X), 45, solver="landmark")  # pairs than there are distinct rows
    np.testing.assert_allclose(more.values[40:], 0.0, atol=1e-8 * N)
    np.testing.assert_allclose(more.vectors.T @ more.vectors, np.eye(45), atol=1e-9)


class TestDistinctRows:
    def test_they_come_in_their_order(self, rng):
        X = repeated(rng)
        found = distinct_rows(X)
        np.testing.assert_array_equal(X[found.first][found.numbers], X)
        assert len(found.first) == len(np.unique(X, axis=0))
        assert (np.diff(found.first) > 0).all()
        np.testing.assert_array_equal(np.bincount(found.numbers), found.counts)
        np.testing.assert_array_equal(found.numbers[found.first], np.arange(len(found.first)))

    @pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
    def test_numbers_as_they_travel(self, rng, dtype):
        X = (8 * repeated(rng)).astype(dtype)
        found = distinct_rows(X)
        np.testing.assert_array_equal(X[found.first][found.numbers], X)

    def test_none_where_it_does_not_pay(self, rng):
        assert distinct_rows(rng.standard_normal((N, 3))) is None
        assert distinct_rows(np.r_[rng.standard_normal((4000, 3)), np.zeros((1000, 3))]) is None  # 4001 of 5000
        assert distinct_rows(np.zeros((100, 3))) is None

    def test_rows_of_one_hash_are_compared(self, rng, monkeypatch):
        X, unique = repeated(rng), np.unique
        monkeypatch.setattr(
            np, "unique", lambda x, **given: unique(x // 2**60 if x.dtype == np.uint64 else x, **given)
        )
        assert distinct_rows(X) is None


@pytest.mark.parametrize("precision", ["float32", "float16", "compact"])
def test_the_center_looks_products_up_and_gets_the_same_columns(rng, precision):
    tables = [repeated(rng, 80, 4), rng.standard_normal((N, 3)), repeated(rng, 500, 6)]
    sent = [round_to(A, precision) for A in tables]
    factors = [as_received(A, "float64") for A in sent]
    assert [isinstance(A, Tall) and A.sent.distinct is not None for A in factors] == [True, False, True]
    gram, columns = FusedGram(PRODUCT, factors), np.array([3, 4000, 17])
    made = gram.against(columns)
    for rows in (slice(0, 1), slice(100, 900), slice(4990, N)):
        own = made.make(rows.start, *(x[rows] for x in made.stored))
        np.testing.assert_allclose(own, gram.block(rows, columns), rtol=1e-13, atol=1e-15)


@pytest.mark.longer
def test_a_fit_is_as_good_as_that_of_all_rows_and_its_bounds_hold(rng, monkeypatch):
    tables = {"few": repeated(rng, 60, 3), "more": repeated(rng, 400, 4), "all": rng.standard_normal((N, 2))}
    settings: dict[str, Any] = {
        "gamma": 0.02,
        "rank": 30,
        "solver": "landmark",
        "n_landmarks": 200,
        "random_state": 0,
    }
    once = DKPCA(4, n_jobs=1, **settings).fit(tables)
    new = {name: X[:7] for name, X in tables.items()}
    np.testing.assert_allclose(once.transform(new), once.transform(tables)[:7], atol=1e-9)
    with joblib.parallel_config(backend="threading", n_jobs=3):
        again = DKPCA(4, **settings).fit(tables)
    np.testing.assert_array_equal(again.eigenvectors_, once.eigenvectors_)
    assert again.certificate_ == once.certificate_
    monkeypatch.setattr(engine, "REPEATED_FROM", N + 1)
    every = DKPCA(4, n_jobs=1, **settings).fit(tables)
    values, V = best(Centered(KernelGram(RBF(0.02), np.hstack(list(tables.values())))).dense(), 4)
    errors = [subspace_error(V, model.eigenvectors_) for model in (once, every)]
    assert errors[0] <= min(2.0 * errors[1], once.certificate_.subspace_error_at_most)
    assert once.certificate_.optimality_at_least >= every.certificate_.optimality_at_least - 1e-3
    assert (once.certificate_.eigenvalues_at_least <= values * (1 + 1e-9)).all()
    assert (values <= np.array(once.certificate_.eigenvalues_at_most) * (1 + 1e-9)).all()
