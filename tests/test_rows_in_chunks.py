"""The landmark solver over many rows: landmarks from a sample, sums of landmark size, and no factor of all rows."""

import tracemalloc

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from dkpca import DKPCA, fuse, subspace_error, summarize
from dkpca.certificate import proof
from dkpca.kernels import RBF, Polynomial
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg import landmark, precision
from dkpca.linalg import landmark as features
from dkpca.linalg import landmark as pivoting
from dkpca.linalg import precision as tall
from dkpca.linalg import rows as moments
from dkpca.linalg.arrays import MemoryLimit, to_numpy
from dkpca.linalg.gram import Centered
from dkpca.linalg.landmark import Landmark
from dkpca.linalg.leading import leading
from testkit.matrices import Given

N = 700


@pytest.fixture(autouse=True)
def few_rows_are_many(monkeypatch):
    """Rows beyond 200 are a case for a sample, and come in groups of 64."""
    monkeypatch.setattr(landmark, "SAMPLE", 100)
    monkeypatch.setattr(landmark, "SAMPLE_SHARE", 2)
    monkeypatch.setattr(moments, "LEAST_ROWS", 64)


def table(rng, n=N, columns=5):
    return rng.standard_normal((n, 3)) @ rng.standard_normal((3, columns)) + 0.1 * rng.standard_normal((n, columns))


def gram(xp, rng, kind):
    """Well conditioned at the landmarks, close to singular there, or fused."""
    if kind == "fused":
        return FusedGram(RBF(1.0).law, [xp.asarray(rng.standard_normal((N, 8)) / 3) for _ in range(2)])
    return KernelGram(RBF(0.5 if kind == "wide" else 1e-4), xp.asarray(table(rng)))


@pytest.mark.parametrize("kind", ["wide", "narrow", "fused"])
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("by_columns", [False, True, None])
class TestEveryWay:
    def pairs(self, xp, rng, kind, center, by_columns, monkeypatch):
        if by_columns is not None:
            allowed = np.inf if by_columns else 0.0
            monkeypatch.setattr(features, "ENOUGH", allowed)
            monkeypatch.setattr(features, "BESIDE_MISSED", allowed)
        base = gram(xp, rng, kind)
        return (matrix := Centered(base) if center else base), leading(matrix, 5, solver="landmark", n_landmarks=40)

    @pytest.mark.longer
    def test_what_is_said_of_the_pairs_is_true(self, xp, rng, kind, center, by_columns, monkeypatch):
        matrix, pairs = self.pairs(xp, rng, kind, center, by_columns, monkeypatch)
        K, V, A = (to_numpy(each) for each in (matrix.dense(), pairs.vectors, pairs.factor()))
        left, scale = np.linalg.eigvalsh(K - A @ A.T), float(np.linalg.eigvalsh(K).max())
        np.testing.assert_allclose(V.T @ V, np.eye(5), atol=1e-10)
        assert left.max() <= pairs.left_out_norm + 1e-10 * scale
        assert left.min() >= -pairs.residual_norm - 1e-10 * scale
        assert np.trace(K) <= pairs.trace * (1 + 1e-10)
        assert (V[np.abs(V).argmax(0), range(5)] > 0).all()
        assert "chosen among" in pairs.solver

    def test_the_extension_reproduces_the_factor(self, xp, rng, kind, center, by_columns, monkeypatch):
        if kind == "narrow" and by_columns:
            by_columns = None  # squares of these columns lack the digits, and so are not what is chosen
        matrix, pairs = self.pairs(xp, rng, kind, center, by_columns, monkeypatch)
        base = matrix.base if center else matrix
        rows = pairs.extension.rows(base.dense().T).T
        again = to_numpy(rows @ pairs.extension.weights + pairs.extension.offset[None, :])
        np.testing.assert_allclose(again, to_numpy(pairs.factor()), atol=1e-5 * float(pairs.values[0]) ** 0.5)


@pytest.mark.parametrize("center", [False, True])
def test_sums_of_columns_and_of_substituted_rows_give_the_same_pairs(rng, center, monkeypatch):
    base = gram(np, rng, "fused")
    found = []
    for allowed in (0.0, np.inf):
        monkeypatch.setattr(features, "ENOUGH", allowed)
        found.append(Landmark(40)(Centered(base) if center else base, 5))
    np.testing.assert_allclose(found[0].values, found[1].values, rtol=1e-10)
    assert subspace_error(found[0].vectors, found[1].vectors) < 1e-10
    assert found[0].missed_trace == pytest.approx(found[1].missed_trace, rel=1e-6)


def test_columns_are_only_added_up_where_that_costs_nothing(rng):
    """At landmarks that are almost the same sample, squares of columns have lost what tells them apart."""
    chosen = {kind: Landmark(40)._choose(gram(np, rng, kind), 40) for kind in ("fused", "narrow")}
    assert not chosen["fused"].substituted
    assert chosen["narrow"].substituted


@pytest.mark.parametrize("kind", ["wide", "narrow", "fused"])
def test_the_number_of_threads_changes_no_bit(rng, kind):
    matrix, found = Centered(gram(np, rng, kind)), []
    for threads in (1, 2, 3):
        with threadpool_limits(threads, user_api="blas"):
            found.append(Landmark(40)(matrix, 5))
    for other in found[1:]:
        np.testing.assert_array_equal(other.vectors, found[0].vectors)
        np.testing.assert_array_equal(other.values, found[0].values)
        assert other.left_out_norm == found[0].left_out_norm


def test_a_row_that_holds_much_of_the_trace_is_never_left_to_chance(rng):
    X = rng.standard_normal((N, 4))
    X[123] *= 40.0
    matrix = KernelGram(Polynomial(gamma=1.0, degree=2), X)
    for seed in range(20):
        assert 123 in pivoting.draw_rows(matrix, 50, seed)


def test_the_sample_costs_little(rng):
    """As good as landmarks chosen among all rows, give or take."""
    matrix = KernelGram(RBF(0.1), table(rng, 2000))
    sampled = Landmark(60)(matrix, 5).missed_trace
    landmark.SAMPLE, kept = 2000, landmark.SAMPLE
    try:
        among_all = Landmark(60)(matrix, 5).missed_trace
    finally:
        landmark.SAMPLE = kept
    assert sampled < 2 * among_all


@pytest.mark.slow  # needs its size
def test_memory_is_that_of_the_answer(rng):
    n, m = 20_000, 400
    matrix = KernelGram(RBF(0.1), table(rng, n), memory=MemoryLimit.of("100MB"))
    landmark.SAMPLE_SHARE = 2
    tracemalloc.start()
    try:
        Landmark(m)(matrix, 5)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.5 * 8 * n * m


@pytest.mark.parametrize("rank", [20, 50, 100])
def test_norms_of_what_rounding_did_are_those_of_the_difference(rng, rank):
    A = np.linalg.qr(rng.standard_normal((100, rank)))[0] * np.geomspace(30.0, 1e-3, rank)
    sent = precision.round_to(A, "float32")
    R = sent.decode() - A
    sizes = np.abs(np.linalg.eigvalsh(A @ R.T + R @ A.T + R @ R.T))
    spectral, nuclear = precision.rounding_norms(A, sent)
    assert sizes.max() <= spectral <= 1.001 * sizes.max()
    assert sizes.sum() <= nuclear <= 1.01 * sizes.sum()


def test_a_matrix_of_zeros_has_its_pairs():
    pairs = Landmark(20)(Given(np.zeros((N, N))), 3)
    np.testing.assert_array_equal(pairs.values, 0.0)
    np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(3), atol=1e-12)


@pytest.mark.parametrize("kind", ["wide", "narrow", "fused"])
def test_the_largest_eigenvalue_of_what_is_missed_is_bounded_by_blocks(rng, kind):
    base = gram(np, rng, kind)
    pairs = Landmark(12)(base, 5)
    left = base.dense() - (pairs.vectors * pairs.values) @ pairs.vectors.T
    values = np.linalg.eigvalsh(left)[::-1]
    assert values[0] <= pairs.left_out_norm
    assert pairs.missed_norm <= pairs.missed_trace
    if kind == "narrow":  # landmarks explain nearly all of it: not worth the blocks
        assert pairs.missed_within is None
        return
    assert pairs.missed_within is not None
    touched = np.diagonal(pairs.vectors.T @ left @ pairs.vectors)
    assert (touched <= np.diagonal(pairs.missed_within) + pairs.residual_norm).all()
    assert pairs.missed_norm < 0.3 * pairs.missed_trace


def test_many_rows_are_not_looked_at_in_blocks(rng, monkeypatch):
    """Blocks cost as much as all the rest."""
    monkeypatch.setattr(landmark, "MOST_NUMBERS", 160 * N - 1)
    pairs = Landmark(12)(gram(np, rng, "wide"), 5)
    assert pairs.missed_within is None
    assert pairs.missed_norm == pairs.missed_trace


class TestGramsOfSomeRows:
    @pytest.mark.parametrize("kind", ["wide", "fused", "given"])
    def test_among_and_against_are_parts_of_the_whole(self, rng, kind):
        matrix = Given(np.cov(rng.standard_normal((N, 9)))) if kind == "given" else gram(np, rng, kind)
        K, positions = matrix.dense(), np.array([3, 5, 611])
        part = matrix.among(positions)
        np.testing.assert_allclose(part.dense(), K[np.ix_(positions, positions)], atol=1e-12)
        np.testing.assert_allclose(part.diagonal(), np.diagonal(K)[positions])
        strip = moments.RowGroup(matrix.against(positions), slice(100, 300))[slice(7, 20)]
        np.testing.assert_allclose(strip, K[107:120][:, positions], atol=1e-12)


class TestFactorsAsReceived:
    @pytest.mark.parametrize("name", ["float64", "float32", "float16", "compact"])
    def test_rows_are_those_of_the_decoded_matrix(self, rng, name):
        sent = precision.round_to(rng.standard_normal((N, 6)), name)
        A, roots = tall.as_received(sent, "float64"), np.sqrt(np.arange(1.0, 5.0))
        cut, whole = tall.scaled(A, roots), sent.decode()[:, :4] * roots
        assert cut.shape == (N, 4)
        np.testing.assert_array_equal(tall.rows_of(cut, slice(3, 9)), whole[3:9])
        np.testing.assert_array_equal(tall.whole(cut), whole)
        np.testing.assert_allclose(tall.row_squares(cut), (whole**2).sum(axis=1))
        np.testing.assert_allclose(tall.column_squares(cut), (whole**2).sum(axis=0))

    @pytest.mark.longer
    def test_the_center_never_decodes_all_rows_for_landmarks(self, rng, monkeypatch):
        tables = {name: table(rng) for name in "abc"}
        sent = [summarize(X, party=name, kernel=RBF(0.02), rank=6)[0] for name, X in tables.items()]
        monkeypatch.setattr(proof, "ceiling", lambda *given, **settings: None)
        most = []
        decode = precision.Rounded.decode

        def seen(self, dtype="float64"):
            most.append(self.shape[0])
            return decode(self, dtype)

        monkeypatch.setattr(precision.Rounded, "decode", seen)
        model = fuse(sent, n_components=3, solver="landmark", n_landmarks=40)
        assert max(most) <= 400  # rows that the estimate looks at
        monkeypatch.undo()
        exact = fuse(sent, n_components=3, solver="dense")
        captured = np.sum(model.eigenvalues) / np.sum(exact.eigenvalues)
        assert 0.95 < captured <= 1 + 1e-9
        assert exact.certificate.subspace_error_at_most <= model.certificate.subspace_error_at_most


@pytest.mark.longer
def test_the_estimator_by_a_sample_is_near_the_exact_one(rng):
    tables = {name: table(rng) for name in "abc"}
    exact = DKPCA(3, gamma="scale", rank=10, solver="dense").fit(tables)
    model = DKPCA(3, gamma="scale", rank=10, solver="landmark", n_landmarks=100).fit(tables)
    assert subspace_error(exact.eigenvectors_, model.eigenvectors_) < 1e-3
    assert all("chosen among" in words for words in model.solvers_.values())


@pytest.mark.parametrize("center", [False, True])
def test_landmarks_that_add_only_rounding_are_left_out(rng, center):
    """Few kinds of rows, nearly alike, and rare ones that a sample does not see: the corner is close to singular."""
    kinds = 1e-7 * rng.standard_normal((30, 4))
    X = kinds[rng.integers(0, 30, 800)]
    X[rng.choice(800, 20, replace=False)] += rng.standard_normal((20, 4))
    base = KernelGram(RBF(0.5), X)
    matrix = Centered(base) if center else base
    pairs = leading(matrix, 5, solver="landmark", n_landmarks=40)
    K, A = matrix.dense(), pairs.factor()
    left = np.linalg.eigvalsh(K - A @ A.T)
    assert left.max() <= pairs.left_out_norm
    assert -left.min() <= pairs.residual_norm + 1e-12 * len(X)
    assert pairs.residual_norm <= 0.1 * pairs.missed_trace
    assert pairs.missed_trace <= 30.0  # 20 rare rows, of one each at most, and little more
    assert int(pairs.solver.split()[1]) < 40
