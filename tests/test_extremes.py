"""Numbers of any size: a correct answer with a true certificate, or one clear sentence."""

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from dkpca import DKPCA, summarize
from dkpca.certificate.proof import certify
from dkpca.errors import InputError
from dkpca.fusion import fuse
from dkpca.kernels import KERNELS, RBF, CosineKernel, Linear, Polynomial
from dkpca.kernels.distances import exponents
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.kernels.laws import PRODUCT
from dkpca.linalg import hadamard_on_gpu
from dkpca.linalg.landmark import Landmark
from dkpca.linalg.leading import leading
from dkpca.party import statistics
from dkpca.party.questions import StatisticsWanted
from dkpca.rank import Auto, Fixed
from experiments.adversary.__main__ import attempt, climb, main
from experiments.adversary.configurations import Configuration, draw
from experiments.adversary.truth import party_matrix
from testkit.protocol import fused_from, summaries_of

pytestmark = pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning")  # most of these tables are odd
SCALES = (1e-70, 1e-20, 1e20, 1e70)


def truth(*blocks, gamma):
    return party_matrix(np.hstack(blocks), RBF(gamma)).astype(float)


class TestDistances:
    def test_two_groups_far_apart_keep_what_lies_within_each(self, rng):
        X = np.r_[rng.standard_normal(40), 1e9 + rng.standard_normal(30)][:, None]
        K = RBF(0.25)(X, X)
        np.testing.assert_allclose(K, truth(X, gamma=0.25), atol=1e-13)
        values = np.linalg.eigvalsh(truth(X, gamma=0.25))[::-1][:2]
        model = DKPCA(2, gamma=0.25, rank=70, center=False, precision="float64").fit(X)
        np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)

    def test_an_unscaled_column_of_epoch_seconds_is_certified_truly(self, rng):
        blocks = [(1.7e9 + rng.uniform(0, 10, 150))[:, None], rng.standard_normal((150, 3))]
        summaries = summaries_of(blocks, RBF(0.25), rank=150)
        proof = fuse(summaries, n_components=2, center=False).certificate
        fused = math.prod(s.factor.decode() @ s.factor.decode().T for s in summaries)
        error = np.linalg.norm(truth(*blocks, gamma=0.25) - fused, 2)
        assert error <= proof.kernel_norm_bound < 1e-6

    @pytest.mark.parametrize("exponent", [0, 4, 8, 16, 100, 300])
    @pytest.mark.parametrize("gamma", [1e-300, 1e-12, 1.0, 1e6, 1e300])
    def test_kernel_values_are_accurate_at_every_scale_and_width(self, xp, rng, exponent, gamma):
        X = 10.0**exponent * rng.standard_normal((30, 3)) + 10.0 ** (exponent / 2)
        X[7] = X[3]
        K = np.asarray(RBF(gamma)(xp.asarray(X), xp.asarray(X)))
        bound = RBF(gamma).relative_error(X, None)
        assert bound < 1e-9
        true = truth(X, gamma=gamma)
        assert (np.abs(K - true) <= bound * true + 1e-320).all()
        assert (K <= 1.0).all()
        assert K[3, 7] == 1.0 or exponent == 0

    def test_the_bound_on_the_error_of_kernel_values_holds_where_the_product_is_used(self, rng):
        X = 30.0 * rng.standard_normal((200, 20))
        for gamma in (1e-4, 1e-3, 1e-2):
            true = truth(X, gamma=gamma)
            error = np.abs(np.exp(exponents(X, X, gamma)) - true)
            assert error.max() > 0
            assert (error <= RBF(gamma).relative_error(X, None) * true).all()

    def test_ordinary_tables_are_not_slowed_down_by_differences(self, rng, monkeypatch):
        monkeypatch.setattr("dkpca.kernels.distances._by_differences", None)  # called, it would fail
        X = rng.standard_normal((50, 40)) + 5.0
        np.testing.assert_allclose(RBF(1 / 40)(X, X), rbf_kernel(X, gamma=1 / 40), rtol=1e-11)

    def test_the_diagonal_of_the_matrix_is_one(self, table):
        gram = KernelGram(RBF(0.3), table)
        assert (np.diagonal(gram.dense()) == 1.0).all()
        assert (np.diagonal(gram.block(slice(5, 30), slice(5, 30))) == 1.0).all()
        chosen = np.array([3, 8, 8])
        assert (np.diagonal(gram.block(chosen, chosen)) == 1.0).all()


class TestScale:
    @pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
    @pytest.mark.parametrize("scale", SCALES)
    def test_the_linear_kernel_answers_at_every_scale(self, table, scale, solver):
        size = 2.0 ** round(math.log2(scale))  # exact, so that nothing but the scale differs
        settings = {"n_components": 3, "kernel": "linear", "parties": 3, "precision": "float64", "solver": solver}
        plain, model = DKPCA(**settings).fit(table), DKPCA(**settings).fit(table * size)
        np.testing.assert_allclose(model.eigenvalues_ / size / size, plain.eigenvalues_, rtol=1e-10)
        np.testing.assert_allclose(model.transform(table * size) / size, plain.transform(table), atol=1e-8)
        ours, theirs = model.certificate_, plain.certificate_
        assert ours.subspace_error_at_most == pytest.approx(theirs.subspace_error_at_most, rel=0.01)
        assert ours.optimality_at_least == pytest.approx(theirs.optimality_at_least)

    @pytest.mark.parametrize("scale", SCALES)
    def test_the_rbf_kernel_with_its_own_width_does_not_see_the_scale(self, table, scale):
        size = 2.0 ** round(math.log2(scale))
        plain = DKPCA(3, parties=3, gamma="scale").fit(table)
        model = DKPCA(3, parties=3, gamma="scale").fit(table * size)
        np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-6)

    @pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
    def test_standardized_columns_do_not_see_their_scale(self, table, scale):
        plain, model = (DKPCA(3, parties=3, standardize=True).fit(X) for X in (table, table * scale))
        np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-6)
        np.testing.assert_allclose(model.transform(table * scale), plain.transform(table), atol=1e-4)

    @pytest.mark.parametrize("gamma", [5e-324, 1e-300, 1e-12, 1e6, 1e300, 1.7e308])
    def test_a_width_of_any_size_gives_bounds_that_hold(self, table, gamma):
        proof = DKPCA(3, parties=3, gamma=gamma).fit(table).certificate_
        K = truth(table, gamma=gamma)
        values = np.linalg.eigvalsh(K - K.mean(0) - K.mean(1)[:, None] + K.mean())[::-1][:3]
        assert (values <= np.array(proof.eigenvalues_at_most)).all()
        assert (values >= np.array(proof.eigenvalues_at_least) - 1e-15).all()

    @pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
    @pytest.mark.parametrize("seed", range(5))
    def test_a_fit_far_beyond_the_width_of_the_kernel_answers(self, seed, solver):
        rng = np.random.default_rng(seed)
        X = 10.0 ** rng.uniform(8, 20) * rng.standard_normal((50, 4))
        model = DKPCA(3, gamma=1.0, parties=2, solver=solver).fit(X)
        np.testing.assert_allclose(model.eigenvalues_, 1.0, rtol=1e-5)


class TestRefusals:
    @pytest.mark.parametrize(
        ("scale", "words"),
        [
            (1e160, "party 'a': numbers of the kernel matrix reach inf, which float64 cannot compute with"),
            (1e80, "party 'a': numbers of the kernel matrix reach .*; scale the columns down"),
            (1e-80, "party 'a': numbers of the kernel matrix are of size 10\\^-.*; scale the columns up"),
            (1e-160, "party 'a': numbers of the kernel matrix are of size 10\\^-.*; scale the columns up"),
            (1e60, "party 'a': numbers of size .* cannot be sent in float32; scale the columns, or send float64"),
            (1e-60, "party 'a': numbers of size .* are lost in float32; scale the columns, or send float64"),
        ],
    )
    def test_what_doubles_or_the_wire_cannot_hold_is_refused(self, table, scale, words):
        with pytest.raises(InputError, match=words):
            DKPCA(2, kernel="linear").fit({"a": table * scale})

    @pytest.mark.parametrize("scale", [1e160, 1e-162])
    def test_statistics_beyond_the_range_are_refused(self, table, scale):
        with pytest.raises(InputError, match="party 'a': distances .* beyond the range of float64"):
            statistics(table * scale, StatisticsWanted(RBF(1.0)), party="a")

    def test_a_column_whose_mean_overflows_is_named(self):
        X = np.full((4, 3), 1.0)
        X[:, 1] = 1.7e308
        with pytest.raises(InputError, match="'a': the numbers of its column 2 are too large to compute their mean"):
            summarize(X, party="a", kernel=Linear(), rank=Fixed(1))

    @pytest.mark.torch
    def test_float32_tables_have_the_range_of_float32(self, table, torch):
        with pytest.raises(InputError, match="which float32 cannot compute with; scale the columns"):
            DKPCA(2, kernel="linear").fit({"a": torch.asarray(table * 1e25, dtype=torch.float32)})

    def test_factors_whose_product_overflows_are_refused_before_lapack_sees_them(self, table):
        factors = [table * 1e100, table * 1e100]
        for solver in ("dense", "streamed", "landmark"):
            with pytest.raises(InputError, match="numbers of the kernel matrix reach inf"):
                leading(FusedGram(PRODUCT, factors), 2, solver=solver)

    @pytest.mark.parametrize(
        ("kernel", "law"),
        [(Linear(), "product"), (Polynomial(1.0, coef0=0.0), None), (Polynomial(1.0, coef0=0.0), "product")],
    )
    def test_kernels_whose_product_vanishes_are_refused_and_not_taken_for_zero(self, table, kernel, law):
        blocks = {"a": table[:, :2] * 1e-70, "b": table[:, 2:4] * 1e-70, "c": table[:, 4:] * 1e-70}
        with pytest.raises(InputError, match=r"(of size 10\^-|vanish).*scale the columns up"):
            DKPCA(2, kernel=kernel, law=law, precision="float64").fit(blocks)

    def test_samples_that_share_no_party_make_a_matrix_of_zeros_and_no_error(self, table):
        first, second = table.copy(), table.copy()
        first[::2], second[1::2] = 0.0, 0.0
        model = DKPCA(2, kernel=Linear(centered=False), law="product").fit({"a": first, "b": second})
        np.testing.assert_allclose(model.eigenvalues_, 0.0, atol=1e-20)


@pytest.mark.longer
@pytest.mark.torch
@pytest.mark.parametrize("kernel", ["laplacian", "chi2", "overlap"])
def test_a_width_beyond_float32_leaves_equal_samples_equal(table, torch, kernel):
    counts = torch.asarray(np.abs(table).round(), dtype=torch.float32)
    counts[7] = counts[3]
    model = DKPCA(2, kernel=kernel, gamma=1e60, rank=60, parties=2, center=False).fit(counts)
    assert float(model.eigenvalues_[0]) == pytest.approx(2.0, rel=1e-3)


@pytest.mark.parametrize("scale", [1e149, 1e-149])
@pytest.mark.parametrize("kernel", ["chi2", CosineKernel(own=True)])
def test_histograms_and_angles_keep_their_digits_at_any_scale(table, kernel, scale):
    size = 2.0 ** round(math.log2(scale))
    kernel = KERNELS[kernel].from_settings(gamma=1.0, centered=False) if isinstance(kernel, str) else kernel
    plain, scaled = kernel.alone(), kernel.rescaled(1 / size) if kernel.has_width else kernel.alone()
    X = np.abs(table)
    np.testing.assert_allclose(scaled(X * size, X * size), plain(X, X), rtol=1e-12)


@pytest.mark.parametrize("size", [1e-100, 1e-150, 1e-170, 1e-300])
def test_a_row_whose_squares_vanish_has_a_direction_and_nothing_false_is_proved_of_it(rng, size):
    X = rng.standard_normal((6, 3))
    cosines = party_matrix(X, CosineKernel(own=True)).astype(float)
    X[2] *= size
    proof = DKPCA(1, kernel="cosine", rank=6, precision="float64", center=False, parties=2).fit(X).certificate_
    values = np.linalg.eigvalsh(cosines)[::-1]
    assert proof.eigenvalues_at_least[0] <= values[0] <= proof.eigenvalues_at_most[0]
    assert proof.gaps_at_least[0] <= values[0] - values[1]
    assert proof.color == "red"
    # Beside another party with an ordinary row, it does not matter.
    beside = rng.standard_normal((6, 3))
    model = DKPCA(2, kernel="cosine", rank=6, precision="float64", center=False).fit({"a": X, "b": beside})
    assert model.certificate_.color == "green"
    joined = party_matrix(np.hstack([X, beside]), CosineKernel(own=True)).astype(float)
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(joined)[::-1][:2], rtol=1e-9)


def test_a_landmark_proposed_twice_counts_once(table):
    X = np.repeat(table[:3], 4, axis=0) + 1e-7 * table[:12]
    pairs = Landmark(12)(KernelGram(RBF(1.0), X), 5)
    anchors = pairs.extension.rows(np.arange(12)).tolist()
    assert len(set(anchors)) == len(anchors)
    assert np.isfinite(pairs.vectors).all()


class TestSmall:
    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    @pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
    def test_two_samples_and_a_rank_above_them(self, kernel, solver):
        model = DKPCA(2, kernel=kernel, rank=50, solver=solver, gamma=1.0).fit(np.array([[0.0, 1.0], [2.0, 5.0]]))
        assert np.isfinite(model.fit_transform(np.array([[0.0, 1.0], [2.0, 5.0]]))).all()
        assert [entry.rank for entry in model.ledger_] == [1 if kernel == "linear" else 2]

    @pytest.mark.parametrize("solver", ["dense", "streamed", "landmark"])
    def test_constant_columns_have_no_components_and_say_so(self, solver):
        model = DKPCA(2, kernel="linear", parties=2, solver=solver).fit(np.full((100, 4), 7.25))
        assert not model.eigenvalues_.any()
        assert str(model.certificate_).startswith("Red: all eigenvalues are zero; there is no variance to capture.")
        assert "higher rank" not in str(model.certificate_)

    @pytest.mark.torch
    def test_float32_and_float64_tables_agree_and_both_certificates_hold(self, table, torch):
        for kind, exact in ((torch.float64, 1e-11), (torch.float32, 5e-3)):
            X = torch.asarray(table, dtype=kind)
            model = DKPCA(3, parties=3, gamma=0.02, rank=90, precision="float64").fit(X)
            K = truth(X.double().numpy(), gamma=0.02)
            values = np.linalg.eigvalsh(K - K.mean(0) - K.mean(1)[:, None] + K.mean())[::-1][:3]
            low, high = (
                np.array(b) for b in (model.certificate_.eigenvalues_at_least, model.certificate_.eigenvalues_at_most)
            )
            assert (low <= values).all()
            assert (values <= high).all()
            assert (high - low).max() < exact * values[0]


class TestProportion:
    @pytest.mark.longer
    def test_a_rank_rule_stops_at_the_numerical_rank(self, rng, monkeypatch):
        asked = []

        def counted(gram, k, **how):
            asked.append(k)
            return leading(gram, k, **how)

        monkeypatch.setattr("dkpca.party.summaries.leading", counted)
        summary, _ = summarize(
            rng.standard_normal((800, 1)), party="a", kernel=Linear(), rank=Auto(5), solver="streamed"
        )
        assert summary.rank == 1
        assert asked == [63]

    @pytest.mark.slow
    def test_many_pairs_of_few_samples_are_not_streamed(self, rng):
        model = DKPCA(3, gamma=1e3, parties=1, solver="streamed").fit(rng.standard_normal((400, 3)))
        assert "too many to stream" in model.solvers_["party0"]

    @pytest.mark.slow
    def test_fusing_small_messages_takes_memory_in_proportion(self, rng):
        summaries = summaries_of([rng.standard_normal((8_000, 2)) for _ in range(2)], RBF(0.1), 4, "float32")
        received = sum(s.factor.data.nbytes for s in summaries)
        tracemalloc.start()
        fuse(summaries, n_components=3)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 40 * received + 2**23  # strips, whose size does not grow with the samples

    @pytest.mark.slow
    def test_the_dense_solver_holds_the_matrix_once(self, rng):
        summaries = summaries_of([rng.standard_normal((1200, 3)) for _ in range(2)], RBF(0.1), 30, "float32")
        for n_components in (3, 100):  # by Lanczos, and by LAPACK
            tracemalloc.start()
            fuse(summaries, n_components=n_components, solver="dense")
            _, most = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert most < 1.8 * 8 * 1200**2 + 2 * hadamard_on_gpu.STEP * 2**20


@pytest.mark.slow  # an experiment
@pytest.mark.torch
class TestSearchForViolations:
    def test_a_short_search_finds_none(self, tmp_path):
        assert main(["--configurations", "30", "--seed", "3", "--results", str(tmp_path)]) == 0

    def test_numbers_too_small_to_be_multiplied_are_refused(self):
        """Found by seed 16: a warning of an overflow in the certificate."""
        tiny = Configuration(
            seed=45592171, n_samples=41, n_features=5, n_parties=3, shape="offset", log_scale=-137.5530831509107,
            kernel="poly", law=None, centered=True, log_gamma=-1.2469609498364278, relative_gamma=True, rank="fixed",
            rank_size=0.23366856988230855, precision="float16", solver="auto", n_landmarks=22, n_components=5,
            library="numpy",
        )  # fmt: skip
        outcome = attempt(tiny)
        assert outcome.ended == "refused", outcome.words
        assert "which float64 cannot compute with; scale the columns up" in outcome.words

    @pytest.mark.torch
    def test_a_tensor_whose_own_solver_gives_up_is_solved(self):
        """Found by seed 0: float32 tensors with many equal eigenvalues, where torch's eigh does not converge."""
        repeated = Configuration(
            seed=1767692434, n_samples=99, n_features=3, n_parties=2, shape="integers", log_scale=0.0,
            kernel="chi2", law=None, centered=False, log_gamma=3.3716388309049243, relative_gamma=True,
            rank="full", rank_size=0.5410955915121772, precision="float16", solver="streamed", n_landmarks=54,
            n_components=2, library="torch float32",
        )  # fmt: skip
        outcome = attempt(repeated)
        assert outcome.ended == "answered", outcome.words
        assert not outcome.broken

    def test_weights_are_not_made_of_rounding(self):
        """Found by seed 0: the others' rows are the same but for rounding, and a row was completed by it."""
        constant = Configuration(
            seed=847855116, n_samples=92, n_features=7, n_parties=5, shape="one column", log_scale=-1.716131167124109,
            kernel="rbf", law="sum", centered=False, log_gamma=0.4963090094524505, relative_gamma=True, rank="auto",
            rank_size=0.2894469300084307, precision="float64", solver="streamed", n_landmarks=68, n_components=47,
            library="numpy", lacking="complete", share_lacking=0.5,
        )  # fmt: skip
        outcome = attempt(constant)
        assert outcome.ended == "answered", outcome.words
        assert not outcome.broken

    def test_rows_next_to_the_mean_have_no_direction(self):
        """Found by seed 29: the mean of a standardized column rounds, and cosines next to it were called proved."""
        integers = Configuration(
            seed=363738749, n_samples=40, n_features=3, n_parties=2, shape="integers", log_scale=-4.0551446151917165,
            kernel="cosine", law="product", centered=True, log_gamma=0.0, relative_gamma=True, rank="auto",
            rank_size=0.8574405835215388, precision="compact", solver="dense", n_landmarks=17, n_components=2,
            library="torch float32", lacking="complete", share_lacking=0.5, standardize=True,
        )  # fmt: skip
        outcome = attempt(integers)
        assert outcome.ended == "answered", outcome.words
        assert not outcome.broken

    def test_what_rounding_leaves_of_a_constant_column_is_not_a_count(self):
        """Found by seed 29: a party whose histograms were standardized was accused of altering its summary."""
        constant = Configuration(
            seed=20190619, n_samples=12, n_features=7, n_parties=6, shape="offset", log_scale=5.137876706622393,
            kernel="chi2", law=None, centered=True, log_gamma=0.0, relative_gamma=True, rank="fixed",
            rank_size=0.42646818579839063, precision="float32", solver="dense", n_landmarks=10, n_components=4,
            library="torch float32", lacking="mean", share_lacking=0.2, standardize=True, covariates=2,
        )  # fmt: skip
        outcome = attempt(constant)
        assert outcome.ended == "refused"
        assert "counts and histograms" in outcome.words

    def test_a_bound_that_is_too_small_is_found(self, monkeypatch):
        def boasting(*given, **named):
            proof = certify(*given, **named)
            return replace(proof, kernel_error_above=proof.kernel_error_above / 1000.0)

        monkeypatch.setattr("dkpca.fusion.fused_model.certify", boasting)
        outcomes = [attempt(draw(3, index)) for index in range(10)]
        assert {check.statement for outcome in outcomes for check in outcome.broken} >= {"kernel above"}

    def test_a_climb_keeps_what_strains_a_bound_most(self, monkeypatch):
        monkeypatch.setattr("experiments.adversary.__main__.STEPS", 4)
        outcomes = climb(0, 1)
        assert len(outcomes) == 4
        assert not any(outcome.broken or outcome.ended == "crashed" for outcome in outcomes)


def test_nothing_is_lost_by_a_party_that_sends_all_it_has(table):
    proof = fused_from(np.array_split(table, 3, axis=1), RBF(0.02), 3).certificate
    assert proof.kernel_norm_bound < 1e-10
