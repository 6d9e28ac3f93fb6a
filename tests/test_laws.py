"""Any positive semidefinite kernel at a party, two laws, and what scikit-learn makes of the joined table."""

import numpy as np
import pytest
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import (
    chi2_kernel,
    cosine_similarity,
    laplacian_kernel,
    linear_kernel,
    polynomial_kernel,
    rbf_kernel,
)

from dkpca import DKPCA, subspace_error
from dkpca.errors import DKPCAError, InputError
from dkpca.kernels import KERNELS, RBF, CosineKernel, Kernel, Laplacian, Linear, Overlap, Polynomial, Precomputed
from dkpca.kernels.base import combination
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.gram import Centered
from testkit.joined_kernels import JOINED, T, fused_matrix, overlap_kernel, table
from testkit.matrices import Given

pytestmark = pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning")  # small tables of odd kernels


@pytest.mark.parametrize("kernel", sorted(JOINED))
def test_at_full_rank_it_is_kernel_pca_of_the_joined_table(kernel, rng):
    X = table(rng, kernel)
    blocks = np.array_split(X, 3, axis=1)
    model = DKPCA(4, kernel=kernel, gamma=None, rank=T, precision="float64").fit([b[:T] for b in blocks])
    K, K_new = JOINED[kernel](X[:T], X[:T]), JOINED[kernel](X[T:], X[:T])
    trusted = KernelPCA(4, kernel="precomputed", eigen_solver="dense").fit(K)
    np.testing.assert_allclose(model.eigenvalues_, trusted.eigenvalues_, rtol=1e-9)
    assert subspace_error(trusted.eigenvectors_, model.eigenvectors_) < 1e-12
    placed = model.transform([b[T:] for b in blocks])
    np.testing.assert_allclose(np.abs(placed), np.abs(trusted.transform(K_new)), atol=1e-9 * np.abs(placed).max())


@pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian", "poly", "chi2", "overlap"])
def test_the_exact_projection_is_that_of_the_joined_table(kernel, rng):
    X = table(rng, kernel)
    blocks = np.array_split(X, 3, axis=1)
    model = DKPCA(3, kernel=kernel, rank=T, precision="float64", projection="exact").fit([b[:T] for b in blocks])
    extended = DKPCA(3, kernel=kernel, rank=T, precision="float64").fit([b[:T] for b in blocks])
    new = [b[T:] for b in blocks]
    np.testing.assert_allclose(model.transform(new), extended.transform(new), atol=1e-8)


@pytest.mark.parametrize("law", ["product", "sum"])
@pytest.mark.parametrize("kernel", sorted(JOINED))
def test_a_law_that_is_asked_for_combines_the_parties_own_kernels(kernel, law, rng):
    X = table(rng, kernel, T)
    blocks = {f"p{j}": b for j, b in enumerate(np.array_split(X, 3, axis=1))}
    gamma = 1.0 if kernel == "chi2" else 1 / X.shape[1]
    own = {
        "rbf": lambda b: rbf_kernel(b, gamma=gamma),
        "linear": lambda b: linear_kernel(b - b.mean(0)),
        "laplacian": lambda b: laplacian_kernel(b, gamma=gamma),
        "poly": lambda b: polynomial_kernel(b, degree=3, gamma=gamma, coef0=1),
        "cosine": cosine_similarity,
        "chi2": lambda b: chi2_kernel(b, gamma=gamma),
        "overlap": lambda b: overlap_kernel(b, b, gamma),
    }[kernel]
    matrices = [own(b) for b in blocks.values()]
    K = np.prod(matrices, axis=0) if law == "product" else np.sum(matrices, axis=0)
    joined_law = {"rbf": "product", "laplacian": "product", "chi2": "product", "overlap": "product"}.get(
        kernel, "sum"
    )
    if kernel in ("poly", "cosine") and law == joined_law:
        K = JOINED[kernel](X, X)  # the center finishes it
    model = DKPCA(4, kernel=kernel, gamma=None, law=law, rank=T, precision="float64", solver="dense").fit(blocks)
    trusted = KernelPCA(4, kernel="precomputed", eigen_solver="dense").fit(K)
    np.testing.assert_allclose(model.eigenvalues_, trusted.eigenvalues_, rtol=1e-8)
    assert subspace_error(trusted.eigenvectors_, model.eigenvectors_) < 1e-10
    expected = "of the joined table" if law == joined_law else f"the {law} of the parties' kernels"
    assert expected in model.model_.meaning


@pytest.mark.parametrize("law", [None, "product", "sum"])
@pytest.mark.parametrize("kernel", sorted(JOINED))
@pytest.mark.parametrize("rank", [2, 6])
@pytest.mark.parametrize("precision", ["float64", "float32", "float16"])
def test_every_bound_holds_for_every_kernel_and_law(kernel, law, rank, precision, rng):
    X = table(rng, kernel, T)
    blocks = {f"p{j}": b for j, b in enumerate(np.array_split(X, 3, axis=1))}
    few = DKPCA(3, kernel=kernel, law=law, rank=rank, precision=precision, solver="dense").fit(blocks)
    true = DKPCA(3, kernel=kernel, law=law, rank=T, precision="float64", solver="dense").fit(blocks)
    proof, slack = few.certificate_, 1e-9 * float(true.eigenvalues_[0])
    K, L = (fused_matrix(model) for model in (true, few))
    spread = np.linalg.eigvalsh(K - L)
    assert spread[-1] <= proof.kernel_error_above + slack
    assert spread[0] >= -proof.kernel_error_below - slack
    assert (np.array(proof.eigenvalues_at_least) <= true.eigenvalues_ + slack).all()
    assert (np.array(proof.eigenvalues_at_most) >= true.eigenvalues_ - slack).all()
    H = np.eye(T) - 1 / T
    captured = np.trace(few.eigenvectors_.T @ H @ K @ H @ few.eigenvectors_)
    assert captured >= proof.captured_at_least - slack
    assert proof.captured_best_at_most >= true.eigenvalues_.sum() - slack
    assert subspace_error(true.eigenvectors_, few.eigenvectors_) <= proof.subspace_error_at_most + 1e-9
    outside = few.eigenvectors_ - true.eigenvectors_ @ (true.eigenvectors_.T @ few.eigenvectors_)
    assert (np.sum(outside**2, axis=0) <= np.array(proof.component_errors_at_most) + 1e-9).all()


@pytest.mark.parametrize("center", [True, False])
def test_a_precomputed_matrix_is_not_written_over_while_it_is_solved(center):
    """Of a slowly falling spectrum "auto" asks for more pairs a second time, and so of the same matrix."""
    X = np.random.default_rng(0).normal(size=(100, 3))
    K = RBF(2.0)(X, X)
    model = DKPCA(3, kernel="precomputed", law="sum", center=center, precision="float64").fit({"lab": K})
    trusted = Centered(Given(K)).dense() if center else K
    np.testing.assert_allclose(model.eigenvalues_, np.linalg.eigvalsh(trusted)[:-4:-1], rtol=1e-6)
    gram = KernelGram(Precomputed(), K)
    assert not np.shares_memory(gram.dense(), K)
    assert not np.shares_memory(gram.block(slice(3, 9), slice(3, 9)), K)


def test_strings_categories_and_numbers_meet_in_one_embedding(rng):
    n = 60
    group = rng.integers(0, 3, n)
    words = ["".join(rng.choice(list("acgt"[g : g + 2]), 12)) for g in group]
    pairs = [{w[i : i + 2] for i in range(11)} for w in words]
    strings = np.array([[len(a & b) / len(a | b) for b in pairs] for a in pairs])  # Jaccard: positive semidefinite
    categories = np.c_[group, rng.integers(0, 4, n), rng.integers(0, 2, n)].astype(float)
    numbers = rng.standard_normal((n, 5)) + group[:, None]
    parties = {"lab": strings, "registry": categories, "clinic": numbers}
    kernels: dict[str, str | Kernel] = {"lab": "precomputed", "registry": "overlap", "clinic": RBF(0.1)}
    model = DKPCA(3, kernel=kernels, gamma=None, law="sum", rank=n, precision="float64").fit(parties)
    K = strings + overlap_kernel(categories, categories, 1 / 3) + rbf_kernel(numbers, gamma=0.1)
    trusted = KernelPCA(3, kernel="precomputed").fit(K)
    np.testing.assert_allclose(model.eigenvalues_, trusted.eigenvalues_, rtol=1e-9)
    assert model.model_.meaning == "the sum of the parties' kernels"
    again = model.transform({"lab": strings[:5], "registry": categories[:5], "clinic": numbers[:5]})
    np.testing.assert_allclose(again, model.model_.scores[:5], atol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "law"),
    [*((k, law) for k in ("rbf", "laplacian", "overlap") for law in ("product", "sum")), ("linear", "sum")],
)
def test_balanced_weights_do_not_change_when_a_party_scales_its_columns(kernel, law, rng):
    blocks = {f"p{j}": b for j, b in enumerate(np.array_split(table(rng, kernel, T), 3, axis=1))}
    scaled = blocks | {"p1": blocks["p1"] * 100.0}
    fits = [
        DKPCA(3, kernel=kernel, law=law, weights="balanced", rank=T, precision="float64", solver="dense").fit(each)
        for each in (blocks, scaled)
    ]
    np.testing.assert_allclose(fits[0].eigenvalues_, fits[1].eigenvalues_, rtol=1e-9)
    assert subspace_error(fits[0].eigenvectors_, fits[1].eigenvectors_) < 1e-12


def test_every_party_may_have_a_width_of_its_own(rng):
    a, b = np.array_split(table(rng, "rbf", T), 2, axis=1)
    model = DKPCA(3, gamma={"a": 0.2, "b": 0.05}, rank=T, precision="float64").fit({"a": a, "b": b})
    joined = np.c_[a * 0.2**0.5, b * 0.05**0.5]
    trusted = KernelPCA(3, kernel="rbf", gamma=1.0).fit(joined)
    np.testing.assert_allclose(model.eigenvalues_, trusted.eigenvalues_, rtol=1e-9)
    assert model.model_.meaning == "the rbf kernel of the joined table, with a width per party"


def test_weights_are_factors_of_matrices_or_of_widths(rng):
    a, b = np.array_split(table(rng, "rbf", T), 2, axis=1)
    added = DKPCA(3, kernel="linear", weights={"a": 2.0, "b": 0.5}, rank=T, precision="float64").fit({"a": a, "b": b})
    joined = np.c_[a * 2**0.5, b * 0.5**0.5]
    np.testing.assert_allclose(added.eigenvalues_, KernelPCA(3, kernel="linear").fit(joined).eigenvalues_, rtol=1e-9)
    multiplied = DKPCA(3, gamma=0.1, weights={"a": 2.0, "b": 0.5}, rank=T, precision="float64").fit({"a": a, "b": b})
    trusted = KernelPCA(3, kernel="rbf", gamma=0.1).fit(joined)
    np.testing.assert_allclose(multiplied.eigenvalues_, trusted.eigenvalues_, rtol=1e-9)


@pytest.mark.parametrize("kernel", sorted(JOINED))
def test_the_order_of_parties_does_not_matter(kernel, rng):
    a, b, c = np.array_split(table(rng, kernel, T), 3, axis=1)
    one = DKPCA(3, kernel=kernel, rank=5).fit({"a": a, "b": b, "c": c})
    other = DKPCA(3, kernel=kernel, rank=5).fit({"c": c, "a": a, "b": b})
    np.testing.assert_array_equal(one.eigenvectors_, other.eigenvectors_)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kernel": "sigmoid"}, "kernel 'sigmoid' is unknown here; use one of"),
        ({"kernel": "polynomial"}, "kernel 'polynomial' is unknown here; use one of"),
        ({"law": "maximum"}, "law is 'maximum'; give 'product' or 'sum'"),
        ({"kernel": {"a": "rbf"}}, r"there are kernels for \['a'\], but the parties are \['a', 'b'\]"),
        ({"kernel": {"a": "rbf", "b": "linear"}}, "imply no common law .*give law='product' or law='sum'"),
        ({"kernel": "precomputed"}, "imply no common law"),
        ({"weights": {"a": 1.0}}, "weights are .*; give 'balanced', 'statis', or a number > 0 for"),
        (
            {"weights": {"a": 1.0, "b": -1.0}},
            "weights is .*'b': -1.0}; give 'balanced'",
        ),
        ({"kernel": "linear", "law": "product", "weights": {"a": 1.0, "b": 2.0}}, "has no width to change"),
        (
            {"gamma": {"a": 1.0}},
            r"gamma has numbers for \['a'\]; kernels need one at \['a', 'b'\]",
        ),
        ({"gamma": {"a": 1.0, "b": -1.0}}, "gamma is .*'b': -1.0}; give a positive number"),
        ({"kernel": "chi2"}, "for counts and histograms, but the smallest .*; give columns without negative values"),
        ({"kernel": Polynomial}, "kernel is .*; give the name of a kernel"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_reason(settings, words, rng):
    X = rng.standard_normal((12, 12))
    with pytest.raises(InputError, match=words):
        DKPCA(2, **settings).fit({"a": X, "b": X})


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (np.ones((4, 3)), "must be square; this one is 4 x 3"),
        (np.arange(9.0).reshape(3, 3), "must be symmetric, but this one is not"),
        (-np.eye(5), "has an eigenvalue of -1"),
        (np.ones((4, 4)) - 1.1 * np.eye(4), "has an eigenvalue of -1"),
    ],
)
def test_a_matrix_that_is_no_kernel_is_refused(X, words):
    with pytest.raises(DKPCAError, match=words):
        DKPCA(1, kernel="precomputed", law="sum", parties=1, rank=2).fit({"a": X})


@pytest.mark.parametrize("make", [lambda: Polynomial(1.0, degree=0), lambda: Polynomial(1.0, coef0=-1.0)])
def test_a_polynomial_that_is_no_kernel_is_refused(make):
    with pytest.raises(InputError, match="whole number from 1 to 20|not positive semidefinite"):
        make()


def test_a_joint_polynomial_beside_another_kernel_is_refused_at_the_center():
    with pytest.raises(InputError, match=r"party 'a' sent what the poly kernel of the joined table needs"):
        combination({"a": Polynomial(1.0), "b": RBF(1.0)}, "sum")


def test_every_family_says_what_it_is():
    made = [RBF(1.0), Linear(), Laplacian(1.0), Polynomial(1.0), CosineKernel(), Overlap(1.0), Precomputed()]
    for kernel in made:
        assert isinstance(kernel, Kernel)
        assert len(kernel.revealed(5, 10)) > 20
    assert set(JOINED) | {"precomputed"} == set(KERNELS)
