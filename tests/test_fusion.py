"""Laws of the protocol: what must hold whatever the data."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkpca import subspace_error, summarize
from dkpca.errors import FusionError, InputError
from dkpca.fusion import fuse
from dkpca.fusion.scoring import project, project_exact
from dkpca.kernels import RBF, Linear
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import digest
from dkpca.party import extend
from dkpca.rank import Fixed
from testkit.matrices import centered
from testkit.protocol import fused_from, measured, problems, summaries_of


@given(problems(), st.randoms(use_true_random=False))
def test_the_order_of_parties_does_not_matter(problem, random):
    blocks, kernel, rank = problem
    summaries = summaries_of(blocks, kernel, rank)
    shuffled = random.sample(summaries, len(summaries))
    a, b = fuse(summaries, n_components=2), fuse(shuffled, n_components=2)
    np.testing.assert_array_equal(a.eigenvectors, b.eigenvectors)
    np.testing.assert_array_equal(a.eigenvalues, b.eigenvalues)


@given(problems(), st.integers(0, 1000))
def test_permuting_the_samples_permutes_the_components(problem, seed):
    blocks, kernel, _ = problem
    order = np.random.default_rng(seed).permutation(len(blocks[0]))
    straight = fused_from(blocks, kernel, 2)
    permuted = fused_from([block[order] for block in blocks], kernel, 2)
    scale = straight.eigenvalues[0]
    np.testing.assert_allclose(permuted.eigenvalues, straight.eigenvalues, atol=1e-10 * scale)
    if straight.certificate.gap_at_least > 1e-4 * scale:
        assert subspace_error(straight.eigenvectors[order], permuted.eigenvectors) < 1e-12


@given(problems())
def test_what_is_left_out_is_positive_semidefinite(problem):
    blocks, kernel, rank = problem
    X = measured(blocks, kernel)
    truth = kernel(X, X)
    fused = kernel.law.recombine(s.factor.decode() @ s.factor.decode().T for s in summaries_of(blocks, kernel, rank))
    assert np.linalg.eigvalsh(truth - fused).min() >= -1e-11 * np.trace(truth)


@given(problems(), st.booleans())
def test_fused_eigenvalues_never_exceed_the_true_ones(problem, center):
    blocks, kernel, rank = problem
    X = measured(blocks, kernel)
    truth = centered(kernel(X, X)) if center else kernel(X, X)
    model = fused_from(blocks, kernel, 5, center=center, rank=rank)
    values = np.linalg.eigvalsh(truth)[::-1][:5]
    assert (model.eigenvalues <= values + 1e-11 * np.trace(truth)).all()


@given(problems(), st.booleans())
def test_components_are_orthonormal_and_variance_shares_are_shares(problem, center):
    blocks, kernel, rank = problem
    model = fused_from(blocks, kernel, 4, center=center, rank=rank)
    np.testing.assert_allclose(model.eigenvectors.T @ model.eigenvectors, np.eye(4), atol=1e-9)
    assert (np.diff(model.eigenvalues) <= 1e-12).all()
    assert (model.explained_variance_ratio >= 0).all()
    assert model.explained_variance_ratio.sum() <= 1 + 1e-12


@given(problems(), st.booleans())
def test_new_rows_of_training_samples_are_the_training_scores(problem, center):
    blocks, kernel, rank = problem
    answers = [
        summarize(block, party=f"p{j}", kernel=kernel, rank=Fixed(rank), precision="float64")
        for j, block in enumerate(blocks)
    ]
    model = fuse([summary for summary, _ in answers], n_components=3, center=center)
    again = project(model, [extend(state, block) for (_, state), block in zip(answers, blocks, strict=True)])
    np.testing.assert_allclose(again, model.scores, atol=1e-7 * np.sqrt(model.eigenvalues[0]))


@pytest.mark.parametrize("kernel", [Linear(), RBF(0.02)], ids=lambda k: k.name)
def test_torch_and_numpy_agree(xp, table, kernel):
    blocks = np.array_split(table, 3, axis=1)
    expected = fused_from(blocks, kernel, 4, rank=9)
    model = fused_from([xp.asarray(block) for block in blocks], kernel, 4, rank=9)
    assert type(model.eigenvectors) is type(xp.asarray(table))
    assert subspace_error(expected.eigenvectors, to_numpy(model.eigenvectors)) < 1e-18
    np.testing.assert_allclose(to_numpy(model.eigenvalues), expected.eigenvalues, rtol=1e-10)


class TestRefusals:
    @pytest.fixture
    def summaries(self, table):
        return summaries_of(np.array_split(table, 3, axis=1), RBF(0.02), rank=5)

    def test_missing(self, summaries):
        with pytest.raises(FusionError, match=r"no summary from \['bank'\]; fusion needs every party"):
            fuse(summaries, n_components=2, roster=["p0", "p1", "p2", "bank"])

    def test_not_on_the_roster(self, summaries):
        with pytest.raises(FusionError, match=r"summary from \['p2'\], not on the roster"):
            fuse(summaries, n_components=2, roster=["p0", "p1"])

    def test_none_at_all(self):
        with pytest.raises(FusionError, match="no summary was given"):
            fuse([], n_components=2)

    def test_duplicate(self, summaries):
        with pytest.raises(FusionError, match="more than one summary from party 'p1'"):
            fuse([*summaries, summaries[1]], n_components=2)

    def test_misaligned(self, summaries):
        other = replace(summaries[1], sample_digest=digest(["another", "order"]))
        with pytest.raises(
            FusionError,
            match="'p0' and 'p1' differ in their samples or sample order .* sort and filter the tables by id",
        ):
            fuse([summaries[0], other], n_components=2)

    def test_other_number_of_samples(self, summaries, table):
        (short,) = summaries_of([table[:50]], RBF(0.02), rank=5)
        with pytest.raises(FusionError, match="'p0' and 'p1' differ in number of samples"):
            fuse([short, summaries[1]], n_components=2)

    def test_other_gamma(self, summaries):
        with pytest.raises(FusionError, match="differ in kernel .*gamma=0.02.*gamma=0.03"):
            fuse([summaries[0], replace(summaries[1], kernel=RBF(0.03))], n_components=2)

    def test_other_kernel(self, summaries):
        with pytest.raises(FusionError, match="differ in kernel"):
            fuse([summaries[0], replace(summaries[1], kernel=Linear())], n_components=2)

    @pytest.mark.parametrize("n_components", [0, 91])
    def test_impossible_number_of_components(self, summaries, n_components):
        with pytest.raises(InputError, match="ask for 1 to 90"):
            fuse(summaries, n_components=n_components)


class TestProjection:
    @pytest.fixture
    def fit(self, table):
        blocks = np.array_split(table, 3, axis=1)
        answers = [
            summarize(b[:60], party=f"p{j}", kernel=RBF(0.02), rank=Fixed(6), projection="exact")
            for j, b in enumerate(blocks)
        ]
        model = fuse([summary for summary, _ in answers], n_components=2)
        return model, [state for _, state in answers], [b[60:] for b in blocks]

    @pytest.mark.parametrize(("ask", "place"), [(extend, project), (partial(extend, exact=True), project_exact)])
    def test_every_party_must_answer_about_the_same_samples(self, fit, ask, place):
        model, states, new = fit
        good = [ask(state, block) for state, block in zip(states, new, strict=True)]
        assert place(model, good).shape == (30, 2)
        with pytest.raises(FusionError, match=r"no message about new samples from \['p2'\]"):
            place(model, good[:2])
        with pytest.raises(FusionError, match="differ in their samples or sample order"):
            place(model, [*good[:2], ask(states[2], new[2][:7])])
        with pytest.raises(FusionError, match="party 'p0': its new samples extend another summary"):
            place(model, [replace(good[0], summary_id=digest(["other"])), *good[1:]])

    def test_other_columns_are_refused_at_the_party(self, fit):
        _, states, new = fit
        with pytest.raises(InputError, match="party 'p0': the table has 3 columns, the fit had 4"):
            extend(states[0], new[0][:, :3])

    def test_ids_must_match_rows(self, table):
        with pytest.raises(InputError, match="2 sample ids for 90 rows"):
            summarize(table, party="a", kernel=Linear(), rank=Fixed(2), sample_ids=["x", "y"])


def test_a_party_whose_columns_are_constant_changes_nothing(table):
    with_constant = fused_from([table, np.full((90, 2), 3.0)], RBF(0.02), 3)
    without = fused_from([table], RBF(0.02), 3)
    assert subspace_error(without.eigenvectors, with_constant.eigenvectors) < 1e-20
    zero = fused_from([table, np.full((90, 2), 3.0)], Linear(), 3)
    assert subspace_error(fused_from([table], Linear(), 3).eigenvectors, zero.eigenvectors) < 1e-20


def test_all_columns_constant_gives_zero_scores_and_no_nan():
    model = fused_from([np.ones((6, 2)), np.ones((6, 1))], RBF(0.5), 2)
    np.testing.assert_allclose(model.scores, 0.0, atol=1e-7)
    assert np.isfinite(model.explained_variance_ratio).all()
    assert np.isfinite(model.eigenvectors).all()
