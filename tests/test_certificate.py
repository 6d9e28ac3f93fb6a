"""Every bound against the truth, which the tests know and the center does not."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import StandardScaler

from dkpca import DKPCA, subspace_error
from dkpca.certificate import Audit, Certificate
from dkpca.fusion import fuse
from dkpca.kernels import RBF, Linear
from dkpca.linalg.eigenpairs import Probe
from dkpca.linalg.streamed import Streamed
from dkpca.wording import in_percent
from experiments.adversary.truth import party_matrix
from testkit.matrices import centered
from testkit.protocol import fused_from, measured, problems, summaries_of

precisions = st.sampled_from(["float64", "float32", "float16"])


def truth_of(blocks, kernel, center):
    X = measured(blocks, kernel)
    K = kernel(X, X)
    return centered(K) if center else K


@given(problems(), precisions, st.booleans(), st.integers(1, 5))
def test_every_bound_holds(problem, precision, center, D):
    blocks, kernel, rank = problem
    summaries = summaries_of(blocks, kernel, rank, precision)
    model = fuse(summaries, n_components=D, center=center)
    proof = model.certificate
    K = truth_of(blocks, kernel, center)
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(K))
    V = vectors[:, :D]
    fused = kernel.law.recombine(s.factor.decode() @ s.factor.decode().T for s in summaries)
    difference = np.linalg.eigvalsh(K - (centered(fused) if center else fused))
    slack = 1e-11 * max(np.trace(K), 1.0)

    assert difference.max() <= proof.kernel_error_above + slack
    assert difference.min() >= -proof.kernel_error_below - slack
    assert (values[:D] >= np.array(proof.eigenvalues_at_least) - slack).all()
    assert (values[:D] <= np.array(proof.eigenvalues_at_most) + slack).all()
    true_gap = values[D - 1] - values[D]
    assert true_gap >= proof.gap_at_least - slack
    assert subspace_error(V, model.eigenvectors) <= proof.subspace_error_at_most + 1e-9
    assert math.sqrt(subspace_error(V, model.eigenvectors)) <= proof.theorem_1 + 1e-9
    outside = model.eigenvectors - V @ (V.T @ model.eigenvectors)
    assert (np.sum(outside**2, axis=0) <= np.array(proof.component_errors_at_most) + 1e-9).all()
    assert (values[:D] - values[1 : D + 1] >= np.array(proof.gaps_at_least) - slack).all()
    captured = np.trace(model.eigenvectors.T @ K @ model.eigenvectors)
    assert captured >= proof.captured_at_least - slack
    assert values[:D].sum() <= proof.captured_best_at_most + slack
    assert captured / np.trace(K) >= proof.captured_share_at_least - 1e-9
    assert np.trace(K) <= proof.total_variance_at_most + slack


@given(problems(), precisions)
def test_the_trace_gap_is_exact(problem, precision):
    blocks, kernel, rank = problem
    summaries = summaries_of(blocks, kernel, rank, precision)
    fused = kernel.law.recombine(s.factor.decode() @ s.factor.decode().T for s in summaries)
    truth = np.trace(truth_of(blocks, kernel, center=False))
    gap = fuse(summaries, n_components=1).certificate.trace_gap
    np.testing.assert_allclose(gap, truth - np.trace(fused), atol=1e-11 * truth)


@pytest.mark.parametrize("solver", ["dense", "landmark"])
def test_a_matrix_that_is_symmetric_to_float32_is_certified_to_no_more_digits(rng, solver):
    X = rng.standard_normal((12, 12))
    K = X @ X.T + 1e-7 * rng.standard_normal((12, 12))
    model = DKPCA(3, kernel="precomputed", rank=12, n_landmarks=12, solver=solver, precision="float64").fit({"a": K})
    H = np.eye(12) - 1 / 12
    values, V, proof = np.linalg.eigvalsh(H @ (K + K.T) @ H / 2)[::-1], model.eigenvectors_, model.certificate_
    assert np.all(proof.eigenvalues_at_least <= values[:3])
    assert np.all(values[:3] <= proof.eigenvalues_at_most)
    assert proof.captured_at_least <= np.sum(V * (K @ V)) <= proof.captured_at_least * (1 + 1e-5)
    A = model.model_.summaries["a"].factor.decode()
    assert np.linalg.norm((K + K.T) / 2 - A @ A.T, 2) <= proof.kernel_norm_bound < 1e-4


def test_nothing_left_out_is_certified_as_nothing(table):
    proof = fused_from(np.array_split(table, 3, axis=1), RBF(0.02), 3).certificate
    assert proof.kernel_norm_bound < 1e-9
    assert proof.subspace_error_at_most < 1e-9
    assert proof.optimality_at_least > 1 - 1e-9


def test_the_certificate_is_no_looser_than_theorem_1(table):
    for kernel in (RBF(0.005), Linear()):
        proof = fused_from(np.array_split(table, 3, axis=1), kernel, 2, rank=30).certificate
        assert math.sqrt(proof.subspace_error_at_most) <= proof.theorem_1 < math.inf


def test_rounding_on_the_wire_is_part_of_the_error(table):
    blocks = np.array_split(table, 3, axis=1)
    below = [
        fused_from(blocks, RBF(0.02), precision=p).certificate.kernel_error_below
        for p in ("float64", "float32", "float16")
    ]
    assert below[0] < 1e-10 < below[1] < 1e-3 < below[2]


def test_a_bound_that_says_nothing_says_so(table):
    proof = fused_from(np.array_split(table, 3, axis=1), RBF(0.5), 5, rank=2).certificate
    assert proof.subspace_error_at_most == math.inf
    details = "\n".join(proof.statements())
    assert "The subspace certificate gives no bound on the subspace error" in details
    assert "Theorem 1 of the paper gives no bound on the |sin Theta|_F" in details
    assert "gives no bound" not in str(proof)


def test_a_bound_that_says_something_gives_its_trivial_value_too(table):
    proof = fused_from(np.array_split(table, 3, axis=1), RBF(0.005), 2, rank=40).certificate
    details = "\n".join(proof.statements())
    assert "bounds the subspace error by" in details
    assert "(the largest possible is 2)" in details


def test_all_components_are_always_the_right_subspace(table):
    assert fused_from([table[:6]], RBF(0.1), 6, rank=2).certificate.subspace_error_at_most == 0.0


def test_the_certificate_is_plain_json(table):
    text = json.dumps(fused_from([table], RBF(0.5), 5, rank=2).certificate.to_dict(), allow_nan=False)
    assert json.loads(text)["theorem_1"] is None


def test_most_components_are_certain_where_the_last_gap_is_not(table):
    proof = fused_from(np.array_split(table, 3, axis=1), RBF(0.02), 8, rank=15).certificate
    assert proof.gap_at_least < 0
    assert max(proof.component_errors_at_most[:4]) < 0.1
    assert proof.component_errors_at_most[-1] == 1.0
    assert proof.subspace_error_at_most < 2
    certain = [d for d, gap in enumerate(proof.gaps_at_least, 1) if gap > 0]
    fewer = fused_from(np.array_split(table, 3, axis=1), RBF(0.02), certain[-1], rank=15).certificate
    assert fewer.gap_at_least > 0


def test_the_verdict_begins_with_what_is_estimated(table):
    proof = fused_from(np.array_split(table, 3, axis=1), RBF(0.005), 2, rank=40).certificate

    def changed(estimated, audit=None):
        estimates = (estimated / 2,) * 2
        few = {"eigenvalues": (3.0, 2.0), "next_eigenvalue": 1.0, "captured_at_least": 1.0}
        few |= {"subspace_error_at_most": math.inf}
        return replace(
            proof, component_error_estimates=estimates, component_errors_at_most=(1.0, 1.0), audit=audit, **few
        )

    assert changed(5e-7).verdict() == (
        "Green: 99.99997% of the best possible variance, and a subspace error of 5e-07, so the subspace of the "
        "components is correct to 3 digits (estimated)."
    )
    assert changed(0.04).verdict().startswith("Amber: 97.6% of the best possible variance, and a subspace")
    assert changed(0.6).verdict().startswith("Red: ")
    audit = Audit(100, 0, 0.95, 1.0, (1e-8, 1e-8))
    assert changed(5e-7, audit).verdict().endswith("correct to 3 digits (estimated by an audit).")
    assert proof.statements()[0] == proof.short()[0] == proof.verdict() == proof.to_dict()["verdict"]


def test_the_loss_of_variance_is_estimated_on_the_safe_side(table):
    few, true = (
        fused_from(np.array_split(table, 3, axis=1), RBF(0.02), 3, rank=rank, precision="float64")
        for rank in (12, len(table))
    )
    K, V = fused_matrix_of(true), few.eigenvectors
    lost = 1.0 - float(np.sum(V * (K @ V)) / true.eigenvalues.sum())
    assert 1 / 3 < (1.0 - few.certificate.optimality_estimate) / lost < 10
    assert few.certificate.optimality_at_least <= few.certificate.optimality_estimate <= 1.0


def fused_matrix_of(model):
    K = model.law.recombine([s.factor.decode() @ s.factor.decode().T for s in model.summaries.values()])
    return K - K.mean(0) - K.mean(0)[:, None] + K.mean()


@pytest.mark.parametrize(
    ("share", "words"),
    [(1.0, "100%"), (0.999989, "99.998%"), (0.9949, "99.4%"), (0.5, "50.0%"), (0.0, "0.0%"), (0.9999999999, "100%")],
)
def test_a_share_close_to_one_is_never_rounded_up_to_it(share, words):
    assert in_percent(share) == words


def test_theorem_1_includes_what_the_landmarks_of_the_center_miss(rng):
    for seed in range(20):
        X = rng.standard_normal((60, 8)) @ rng.standard_normal((8, 8))
        summaries = summaries_of(np.array_split(X, 2, axis=1), Linear())
        model = fuse(summaries, n_components=2, solver="landmark", n_landmarks=5, random_state=seed)
        K = truth_of([X], Linear(), True)
        V = np.linalg.eigh(K)[1][:, ::-1][:, :2]
        assert subspace_error(V, model.eigenvectors) > 1e-6
        assert math.sqrt(subspace_error(V, model.eigenvectors)) <= model.certificate.theorem_1


def test_the_subspace_bound_includes_the_residual_of_the_streamed_solver(rng):
    X = rng.standard_normal((300, 40)) * 0.93 ** np.arange(40)
    summaries = summaries_of([X], RBF(0.05), rank=300)
    model = fuse(summaries, n_components=2, solver=Streamed(tolerance=1e-3))
    V = np.linalg.eigh(truth_of([X], RBF(0.05), True))[1][:, ::-1][:, :2]
    error = subspace_error(V, model.eigenvectors)
    assert 1e-14 < error <= model.certificate.subspace_error_at_most < 0.01


@pytest.mark.torch
def test_the_rounding_of_float32_tables_is_a_bound_at_full_rank(table, torch):
    for seed in range(10):
        X = torch.asarray(table[:, seed : seed + 3] * 3.0**seed, dtype=torch.float32)
        (summary,) = summaries_of([X], RBF(0.02 * 9.0**-seed), precision="float64")
        fused = summary.factor.decode().numpy()
        K = party_matrix(X, RBF(0.02 * 9.0**-seed)).astype(float)
        error = np.linalg.eigvalsh(K - fused @ fused.T)
        assert error.min() >= -summary.rounding_norm
        assert error.max() <= summary.left_out_norm + summary.rounding_norm


@pytest.mark.parametrize("data", [load_digits, load_breast_cancer, load_wine])
def test_rounding_is_a_thousandth_of_the_bound_on_ordinary_tables(data):
    X = StandardScaler().fit_transform(data().data[:150])
    for block in np.array_split(X, 4, axis=1):
        kernel = RBF(1 / X.shape[1])
        (summary,) = summaries_of([block], kernel, rank=20, precision="float32")
        following = np.linalg.eigvalsh(party_matrix(block, kernel).astype(float))[::-1][20]
        assert following <= summary.left_out_norm + summary.rounding_norm <= 1.001 * following


STATED = Certificate(
    n_samples=100,
    n_components=3,
    n_parties=2,
    kernel_error_above=0.5,
    kernel_error_below=0.125,
    trace_gap=1.5,
    total_variance_at_most=60.0,
    eigenvalues_at_least=(30.0, 9.0, 4.0),
    eigenvalues_at_most=(32.0, 10.0, 5.0),
    gaps_at_least=(20.0, 4.0, 1.0),
    theorem_1=0.25,
    subspace_error_at_most=0.04,
    component_errors_at_most=(0.01, 0.02, 0.01),
    captured_at_least=45.0,
    captured_best_at_most=47.0,
    eigenvalues=(31.0, 9.5, 4.5),
    next_eigenvalue=0.5,
    component_error_estimates=(1e-3, 2e-3, 1e-3),
    meaning="the RBF kernel of the joined table",
)


def test_the_words_of_a_certificate_that_proves_its_components():
    assert STATED.statements() == [
        "Green: 99.7% of the best possible variance, and a subspace error of 0.004, so the subspace of the "
        "components is correct to 1 digit (estimated).",
        "Proved: at least 95.7% of the best possible variance and 75.0% of all variance, but not one "
        "correct digit of the subspace.",
        "The true kernel is the RBF kernel of the joined table.",
        "The fused kernel matrix differs from the true one by at most 0.5 in spectral norm; its trace falls short by "
        "at most 1.5.",
        "Each of the 3 true eigenvalues lies at most 20.0% below its upper bound.",
        "The subspace certificate bounds the subspace error by 0.04 (the largest possible is 3).",
        "Theorem 1 of the paper bounds the |sin Theta|_F by 0.25 (the largest possible is 1.73).",
    ]
    assert STATED.short() == STATED.statements()[:2]


def test_the_words_of_a_certificate_without_a_gap():
    unproved = replace(
        STATED,
        eigenvalues_at_least=(30.0, 9.0, 0.0),
        gaps_at_least=(20.0, 4.0, -1.0),
        theorem_1=math.inf,
        subspace_error_at_most=math.inf,
        component_errors_at_most=(0.01, 0.5, 1.0),
        component_error_estimates=(0.2, 0.5, 0.9),
        meaning="",
    )
    small = "the gap after the last component is too small"
    assert unproved.statements() == [
        "Red: 95.7% of the best possible variance, and a subspace error of 1, so the subspace of the "
        "components is not certain to one digit (estimated).",
        STATED.statements()[1],
        STATED.statements()[3],
        "Each of the 3 true eigenvalues lies at most 100.0% below its upper bound.",
        f"The subspace certificate gives no bound on the subspace error: {small}.",
        f"Theorem 1 of the paper gives no bound on the |sin Theta|_F: {small}.",
    ]
    assert unproved.short()[-1].startswith("For a better answer, use a higher rank, fewer components, more landmarks")


def test_the_words_about_zeros_and_about_a_search():
    assert "all eigenvalues are zero" in replace(STATED, eigenvalues=(0.0, 0.0, 0.0)).verdict()
    assert replace(STATED, probe=Probe(1.5, 0.999)).statements()[-1] == (
        "Upper bounds on eigenvalues, the share of the best variance, the subspace bound and Theorem 1 rest on a "
        "random search at the center that found no missed eigenvector."
    )


def test_a_bound_that_says_nothing_is_null_and_every_other_number_itself():
    audit = Audit(50, 7, 0.95, 0.125, (0.25, 0.5, 0.75))
    told = replace(STATED, theorem_1=math.inf, gaps_at_least=(0.5, 0.25, math.inf), audit=audit).to_dict()
    assert told["theorem_1"] is None
    assert told["gaps_at_least"] == (0.5, 0.25, None)
    assert told["kernel_error_below"] == 0.125
    assert told["audit"] == {
        "n_rows": 50,
        "seed": 7,
        "confidence": 0.95,
        "kernel_error_at_most": 0.125,
        "component_error_estimates": (0.25, 0.5, 0.75),
    }


def test_of_little_variance_little_is_captured(table):
    model = fused_from(np.array_split(1e-4 * table, 3, axis=1), Linear(), 2)
    captured = model.eigenvalues.sum()
    assert captured < 0.01
    assert 0.99 * captured < model.certificate.captured_at_least <= captured
