"""`streamed` and `landmark` against `dense`, on both sides of the protocol."""

import tracemalloc

import numpy as np
import pytest
from sklearn.datasets import load_digits

from dkpca import DKPCA, subspace_error
from dkpca.errors import ConvergenceError, InputError, OutOfMemoryError
from dkpca.kernels import RBF, Linear
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.kernels.laws import Product
from dkpca.linalg import rows as strips
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.eigenpairs import numerical_rank
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.landmark import Landmark
from dkpca.linalg.leading import WORK, choose, enough_landmarks, leading
from dkpca.linalg.rows import one_blas_thread
from dkpca.linalg.streamed import Streamed
from testkit.matrices import Given

DIGITS = load_digits().data / 16
KERNELS = [Linear(centered=False), RBF(0.05)]


def grams(xp, n, kernel, rng):
    """A party's matrix and a fused one, neither of them with a thin factor."""
    X = xp.asarray(DIGITS[:n])
    party = KernelGram(kernel, xp.asarray(rng.standard_normal((n, n))) if isinstance(kernel, Linear) else X)
    factors = [xp.asarray(rng.standard_normal((n, d)) * 2.0 ** -np.arange(d)) for d in (n // 2, n // 2 + 3)]
    return {"party": party, "fused": FusedGram(kernel.law, factors)}


@pytest.fixture(params=["party", "fused"])
def side(request):
    return request.param


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
@pytest.mark.parametrize("center", [False, True])
class TestParity:
    def gram(self, xp, side, kernel, center, rng, n=60):
        base = grams(xp, n, kernel, rng)[side]
        return Centered(base) if center else base

    def test_streamed_is_dense(self, xp, side, kernel, center, rng, monkeypatch):
        monkeypatch.setattr(strips, "TILE_BYTES", 8 * 40**2)
        gram = self.gram(xp, side, kernel, center, rng)
        exact, pairs = leading(gram, 6, solver="dense"), leading(gram, 6, solver="streamed")
        np.testing.assert_allclose(to_numpy(pairs.values), to_numpy(exact.values), rtol=1e-9)
        assert subspace_error(to_numpy(exact.vectors), to_numpy(pairs.vectors)) < 1e-8
        assert exact.left_out_norm <= pairs.left_out_norm * (1 + 1e-9)
        assert pairs.trace == pytest.approx(exact.trace)

    def test_landmark_at_full_rank_is_dense(self, xp, side, kernel, center, rng):
        gram = self.gram(xp, side, kernel, center, rng)
        exact, pairs = leading(gram, 6, solver="dense"), leading(gram, 6, solver="landmark", n_landmarks=60)
        np.testing.assert_allclose(to_numpy(pairs.values), to_numpy(exact.values), rtol=1e-8)
        assert subspace_error(to_numpy(exact.vectors), to_numpy(pairs.vectors)) < 1e-6
        assert pairs.missed_trace < 1e-8 * exact.trace

    @pytest.mark.parametrize("solver", ["streamed", "landmark"])
    def test_contract(self, xp, side, kernel, center, rng, solver):
        gram = self.gram(xp, side, kernel, center, rng)
        pairs = leading(gram, 5, solver=solver, n_landmarks=40)
        V, A = to_numpy(pairs.vectors), to_numpy(pairs.factor())
        K = to_numpy(gram.dense())
        left = np.linalg.eigvalsh(K - A @ A.T)
        scale = np.linalg.eigvalsh(K).max()
        np.testing.assert_allclose(V.T @ V, np.eye(5), atol=1e-10)
        assert left.max() <= pairs.left_out_norm + 1e-10 * scale
        assert left.min() >= -pairs.residual_norm - 1e-10 * scale
        assert np.trace(K) <= pairs.trace * (1 + 1e-10)
        assert (V[np.abs(V).argmax(0), range(5)] > 0).all()

    @pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
    def test_the_extension_reproduces_the_factor(self, xp, side, kernel, center, rng, solver):
        gram = self.gram(xp, side, kernel, center, rng)
        pairs = leading(gram, 5, solver=solver, n_landmarks=40)
        base = gram.base if center else gram
        rows = pairs.extension.rows(base.dense().T).T
        again = to_numpy(rows @ pairs.extension.weights + pairs.extension.offset[None, :])
        np.testing.assert_allclose(again, to_numpy(pairs.factor()), atol=1e-5 * float(pairs.values[0]) ** 0.5)


class TestLandmark:
    def test_pivots_follow_from_the_seed(self, table):
        gram = KernelGram(RBF(0.05), table)
        first, again, other = (
            Landmark(20, random_state=seed)(gram, 3).extension.anchors.tolist() for seed in (1, 1, 2)
        )
        assert first == again != other

    def test_pivots_are_different_samples(self, table):
        pivots = Landmark(60)(KernelGram(RBF(0.05), table), 3).extension.anchors
        assert len(set(pivots.tolist())) == 60

    def test_the_trace_left_out_is_exact(self, table):
        gram = KernelGram(RBF(0.05), table)
        F, pivots, missed = Landmark().factorize(gram, 25)
        assert missed == pytest.approx(np.trace(gram.dense() - F @ F.T))
        assert np.linalg.eigvalsh(gram.dense() - F @ F.T).min() > -1e-12
        np.testing.assert_allclose(np.triu(F[pivots], 1), 0.0, atol=1e-12)

    @pytest.mark.longer
    def test_pivots_are_drawn_as_if_one_by_one(self):
        # Two far clusters of 30 and 10 samples: the first pivot is in the large one with probability 3/4, and the
        # second in the other one, almost surely, though both come out of the same block of proposals.
        X = np.r_[np.zeros((30, 1)), np.full((10, 1), 50.0)] + 1e-6 * np.arange(40)[:, None]
        gram = KernelGram(RBF(1.0), X)
        large_first = 0
        for seed in range(200):
            first, second = Landmark(2, random_state=seed).factorize(gram, 2)[1].tolist()
            large_first += first < 30
            assert (first < 30) != (second < 30)
        assert 0.65 < large_first / 200 < 0.85

    def test_accuracy_grows_with_landmarks(self):
        gram = Centered(KernelGram(RBF(0.02), DIGITS[:600]))
        exact = leading(gram, 5, solver="dense").vectors
        errors = [subspace_error(exact, Landmark(m)(gram, 5).vectors) for m in (20, 80, 320)]
        assert errors[0] > 10 * errors[1] > 100 * errors[2]

    def test_a_matrix_that_is_not_positive_semidefinite_is_refused(self):
        with pytest.raises(InputError, match="not positive semidefinite"):
            Landmark(3)(Given(np.array([[1.0, 5.0], [5.0, 1.0]])), 1)
        with pytest.raises(InputError, match="not positive semidefinite"):
            Landmark(3)(Given(-np.eye(4)), 1)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "solver"), [(100_000, "landmark"), (5_000, "streamed")])
def test_many_samples_in_float32_have_the_rank_they_have_in_float64(rng, n, solver):
    """What counts as rounding must not grow with the number of samples until nothing else is left."""
    hidden = rng.standard_normal((n, 3))
    X = np.hstack([hidden, hidden @ rng.standard_normal((3, 5)) + 0.1 * rng.standard_normal((n, 5))])
    exact, coarse = (
        leading(KernelGram(RBF(0.05), X.astype(dtype)), 30, solver=solver) for dtype in ("float64", "float32")
    )
    assert [numerical_rank(n, pairs.values) for pairs in (coarse, exact)] == [30, 30]
    np.testing.assert_allclose(coarse.values[:5], exact.values[:5], rtol=0.01)
    assert coarse.values.sum() == pytest.approx(exact.values.sum(), rel=0.001)


@pytest.mark.longer
def test_placing_samples_takes_strips_and_no_square_matrix(rng, monkeypatch):
    X = rng.standard_normal((800, 4))
    model = DKPCA(3, parties=2, rank=20, solver="dense").fit(X)
    whole = model.transform(X)
    monkeypatch.setattr(strips, "SCRATCH_BYTES", 8 * 800 * 7)
    tracemalloc.start()
    in_strips = model.transform(X)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_allclose(in_strips, whole, atol=1e-10)
    assert most < 8 * 800**2 / 4


class TestStreamed:
    def test_giving_up_is_loud(self):
        Q, _ = np.linalg.qr(np.random.default_rng(0).standard_normal((400, 400)))
        slow = Given((Q * np.linspace(1.0, 0.99, 400)) @ Q.T)
        with pytest.raises(ConvergenceError, match="residual .* after 2 passes over the matrix"):
            Streamed(max_passes=2)(slow, 3)

    def test_restarts_keep_converging(self, rng):
        Q, _ = np.linalg.qr(rng.standard_normal((400, 400)))
        gram = Given((Q * (1.0 / np.arange(1, 401) ** 0.3)) @ Q.T)
        pairs = leading(gram, 2, solver=Streamed(tolerance=1e-8))
        assert subspace_error(Q[:, :2], pairs.vectors) < 1e-10

    def test_equal_eigenvalues(self, rng):
        Q, _ = np.linalg.qr(rng.standard_normal((300, 300)))
        gram = Given((Q * np.r_[np.full(6, 5.0), np.linspace(1, 0, 294)]) @ Q.T)
        pairs = leading(gram, 6, solver="streamed")
        assert subspace_error(Q[:, :6], pairs.vectors) < 1e-8


@pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
class TestEdges:
    def test_zero_matrix(self, solver):
        pairs = leading(Given(np.zeros((30, 30))), 3, solver=solver)
        assert not pairs.values.any()
        np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(3), atol=1e-12)
        assert np.isfinite(pairs.extension.weights).all()

    def test_duplicate_samples(self, solver, table):
        gram = KernelGram(RBF(0.05), np.r_[table, table, table])
        exact = leading(KernelGram(RBF(0.05), table), 4, solver="dense")
        pairs = leading(gram, 4, solver=solver, n_landmarks=200)
        np.testing.assert_allclose(pairs.values, 3 * exact.values, rtol=1e-8)

    @pytest.mark.parametrize("n", [1, 2, 7])
    def test_fewer_samples_than_a_block(self, solver, table, n):
        gram = KernelGram(RBF(0.05), table[:n])
        pairs = leading(gram, n, solver=solver)
        np.testing.assert_allclose(pairs.values, np.linalg.eigvalsh(gram.dense())[::-1], atol=1e-10)

    def test_rank_below_the_pairs_wanted(self, solver, rng):
        A = rng.standard_normal((60, 3))
        gram = Given(A @ A.T)
        pairs = leading(gram, 6, solver=solver)
        np.testing.assert_allclose(pairs.values[3:], 0.0, atol=1e-9)
        np.testing.assert_allclose(pairs.vectors.T @ pairs.vectors, np.eye(6), atol=1e-9)

    def test_far_apart_samples_are_an_identity_matrix(self, solver):
        pairs = leading(KernelGram(RBF(1e6), np.arange(80.0)[:, None]), 4, solver=solver, n_landmarks=80)
        np.testing.assert_allclose(pairs.values, 1.0)


def test_running_out_of_memory_says_what_to_do(monkeypatch):
    def no_room(self):
        raise MemoryError

    monkeypatch.setattr(Given, "dense", no_room)
    with pytest.raises(
        OutOfMemoryError, match="memory ran out in solver 'dense' for n = 30, k = 2; try solver='landmark'"
    ):
        leading(Given(np.eye(30)), 2, solver="dense")


def landmark_operations(n, landmarks, entry=320.0):
    return n * landmarks * (entry + 3.0 * landmarks)


class TestAuto:
    @pytest.mark.parametrize(
        ("n", "name", "words"),
        [
            (100, "dense", "small enough to build"),
            (5000, "streamed", "small enough to pass over"),
            (50_000, "landmark", "too large to pass over"),
        ],
    )
    def test_by_size(self, n, name, words):
        gram = KernelGram(RBF(1.0), np.zeros((n, 2)))
        chosen, reason = choose(gram, 10)
        assert chosen == name
        assert words in reason

    def test_by_work_and_not_by_size_alone(self):
        few, many = (FusedGram(Product(), [np.zeros((9000, rank))] * 4) for rank in (20, 200))
        assert choose(few, 5)[0] == "streamed"
        assert choose(many, 5)[0] == "landmark"
        assert choose(many, 200)[0] == "landmark"

    def test_landmarks_begin_where_an_exact_answer_ends_with_as_much_work_and_become_fewer(self):
        def gram(n):
            return FusedGram(Product(), [np.broadcast_to(np.float64(0), (n, 40))] * 4)

        numbers = [enough_landmarks(gram(n), 10, 500) for n in (10_000, 20_000, 50_000, 300_000)]
        assert sorted(numbers, reverse=True) == numbers
        assert numbers[0] > 1000
        assert numbers[-1] == 500
        largest = landmark_operations(10_000, numbers[0])
        assert 0.9 * WORK < largest <= WORK
        assert enough_landmarks(gram(300_000), 40, None) == 160  # a party's, where nobody gave a number

    @pytest.mark.parametrize("n", [1_000, 30_000, 10**7])
    def test_no_more_landmarks_than_the_work_allows(self, n):
        gram = FusedGram(Product(), [np.broadcast_to(np.float64(0), (n, 40))] * 4)
        landmarks = enough_landmarks(gram, 1, 1)
        assert landmark_operations(n, landmarks) <= WORK
        assert landmarks == n or landmark_operations(n, landmarks + 1) > WORK

    def test_a_thin_factor_is_always_dense(self):
        assert choose(KernelGram(Linear(), np.zeros((50_000, 2))), 1)[0] == "dense"

    def test_without_the_memory_the_matrix_is_not_built(self, monkeypatch):
        monkeypatch.setattr("dkpca.linalg.leading.free_memory", lambda *_: 1000)
        assert choose(KernelGram(RBF(1.0), np.zeros((100, 2))), 2) == (
            "streamed",
            "auto: n = 100 on the CPU, but the matrix would take 0.0 of 0.0 GB free",
        )

    def test_the_model_says_what_was_chosen_and_why(self):
        model = DKPCA(3, parties=2).fit(DIGITS[:50])
        assert set(model.solvers_) == {"party0", "party1", "center"}
        assert model.solvers_["center"] == "dense (auto: n = 50 on the CPU, small enough to build the matrix)"

    def test_a_party_may_be_named_center(self):
        model = DKPCA(3, solver="streamed").fit({"center": DIGITS[:50, :9], "b": DIGITS[:50, 9:]})
        assert set(model.solvers_) == {"center", "b", "the center"}


class TestWholeProtocol:
    @pytest.mark.longer
    @pytest.mark.parametrize("solver", ["streamed", "landmark"])
    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    def test_a_fit_without_any_matrix_agrees_with_dense(self, kernel, solver):
        X = DIGITS[:400]
        settings = {"n_components": 5, "kernel": kernel, "gamma": "scale", "parties": 4, "rank": 30}
        exact = DKPCA(**settings, solver="dense").fit(X)
        model = DKPCA(**settings, solver=solver, n_landmarks=300).fit(X)
        assert subspace_error(exact.eigenvectors_, model.eigenvectors_) < 1e-3
        new = DIGITS[600:700]
        signs = np.sign((exact.eigenvectors_ * model.eigenvectors_).sum(0))
        target = exact.transform(new)
        assert np.linalg.norm(model.transform(new) * signs - target) < 0.05 * np.linalg.norm(target)

    def test_a_landmark_party_keeps_only_its_landmarks(self):
        model = DKPCA(5, parties=2, rank=10, solver="landmark").fit(DIGITS[:500])
        assert model._states["party0"].anchors.shape == (100, 32)
        with pytest.raises(InputError, match="did not keep its training rows"):
            model.set_params(projection="exact").transform(DIGITS[:5])

    @pytest.mark.longer
    def test_the_certificate_covers_what_the_solvers_left_out(self):
        X = DIGITS[:600]
        model = DKPCA(5, gamma="scale", parties=3, rank=20, solver="landmark", n_landmarks=60).fit(X)
        K = Centered(KernelGram(model.kernel_, X)).dense()
        values, vectors = (a[..., ::-1] for a in np.linalg.eigh(K))
        proof = model.certificate_
        assert (values[:5] <= np.array(proof.eigenvalues_at_most)).all()
        assert (values[:5] >= np.array(proof.eigenvalues_at_least)).all()
        assert subspace_error(vectors[:, :5], model.eigenvectors_) <= proof.subspace_error_at_most
        assert np.trace(model.eigenvectors_.T @ K @ model.eigenvectors_) >= proof.captured_at_least
        assert np.trace(K) <= proof.total_variance_at_most


@pytest.mark.slow
@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_streamed_is_dense_at_five_thousand_samples(kernel, center, rng):
    X = rng.standard_normal((5000, 6)) @ rng.standard_normal((6, 12)) + 0.5 * rng.standard_normal((5000, 12))
    factors = list(np.array_split(X, 3, axis=1))
    if kernel == "rbf":
        plain: Gram = FusedGram(
            RBF(1.0).law,
            [np.c_[np.ones(5000), 0.1 * A] / (1 + 0.01 * (A**2).sum(1, keepdims=True)) ** 0.5 for A in factors],
        )
    else:
        plain = Given(np.hstack(factors) @ np.hstack(factors).T)
    gram = Centered(plain) if center else plain
    exact, pairs = leading(gram, 5, solver="dense"), leading(gram, 5, solver="streamed")
    assert subspace_error(exact.vectors, pairs.vectors) < 1e-8


STEPPED = {
    "few above many": [4] * 3 + [3] * 40 + [2] * 60 + [1] * 100,
    "two levels": [4] * 3 + [3] * 200,
    "wide second level": [5] * 2 + [4] * 50 + [1] * 300,
    "wide levels": [4] * 10 + [3] * 100 + [2] * 100,
    "nearly flat": [3] * 5 + [2] * 300,
}


def groups_of_duplicates(sizes, seed):
    """A kernel matrix whose eigenvalues are the sizes of groups of equal samples."""
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(sizes)), sizes))
    return KernelGram(RBF(1.0), 10.0 * labels[:, None].astype(float))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3))])
@pytest.mark.parametrize("sizes", STEPPED.values(), ids=STEPPED)
class TestSteppedSpectra:
    def test_no_copy_of_an_eigenvalue_is_missed(self, sizes, seed):
        wanted = sizes.count(sizes[0])
        pairs = leading(groups_of_duplicates(sizes, seed), wanted, solver="streamed", random_state=seed)
        np.testing.assert_allclose(pairs.values, sizes[0], rtol=1e-6)
        assert pairs.left_out_norm >= sizes[wanted]

    @pytest.mark.longer
    def test_the_random_search_alone_finds_what_two_passes_missed(self, sizes, seed, monkeypatch):
        monkeypatch.setattr("dkpca.linalg.streamed.MIN_PASSES", 2)
        wanted = sizes.count(sizes[0])
        pairs = Streamed(random_state=seed)(groups_of_duplicates(sizes, seed), wanted)
        np.testing.assert_allclose(pairs.values, sizes[0], rtol=1e-6)


@pytest.mark.longer
def test_the_search_says_what_it_would_have_found_and_the_certificate_repeats_it():
    pairs = leading(KernelGram(RBF(0.02), DIGITS[:500]), 5, solver="streamed")
    assert 1.0 < pairs.probe.factor < 3.0
    assert pairs.probe.confidence == 1 - 1e-6
    streamed, dense = (DKPCA(5, parties=2, rank=20, solver=s).fit(DIGITS[:500]) for s in ("streamed", "dense"))
    words = "rest on a random search at the center that found no missed eigenvector; one with"
    assert words in "\n".join(streamed.certificate_.statements())
    assert words not in "\n".join(dense.certificate_.statements())
    assert streamed.certificate_.to_dict()["probe"] == {
        "factor": streamed.certificate_.probe.factor,
        "confidence": 1 - 1e-6,
    }


def test_where_nothing_is_left_there_is_nothing_to_search(rng):
    X = rng.standard_normal((300, 2))
    assert leading(Given(X @ X.T), 5, solver="streamed").probe is None


@pytest.mark.parametrize("weakest", [1.0, 1e-3, 1e-9, 0.0])
def test_a_few_pairs_of_a_thin_factor_are_those_of_its_svd(xp, rng, weakest):
    """Also where eigenvalues differ by eighteen powers of ten: rounding of the large ones stays out of the small."""
    U, V = (np.linalg.qr(rng.standard_normal((n, 40)))[0] for n in (3000, 40))
    s = np.geomspace(1.0, max(weakest, 1e-12), 40) * (np.arange(40) < (40 if weakest else 5))
    gram = FusedGram(Linear().law, [xp.asarray((U * s) @ V.T)])
    pairs = leading(gram, 8)
    values, vectors = to_numpy(pairs.values), to_numpy(pairs.vectors)
    np.testing.assert_allclose(values, s[:8] ** 2, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-14)
    true = (U * s**2) @ (U.T @ vectors)
    assert np.linalg.norm(true - vectors * values) < 1e-14 * values[0]
    assert pairs.next_value == pytest.approx(s[8] ** 2, abs=1e-15)


def test_the_triangle_of_a_factor_does_not_depend_on_the_threads(rng):
    A = rng.standard_normal((20_000, 30))
    R = strips.triangle(A)
    np.testing.assert_allclose(R.T @ R, A.T @ A, rtol=1e-12, atol=1e-9)
    with one_blas_thread():
        np.testing.assert_array_equal(strips.triangle(A), R)
