"""Every kernel under every law, on tables that nobody chose: what must hold for all of them. NumPy and torch."""

import importlib
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.decomposition import KernelPCA

from dkpca import DKPCA, subspace_error
from dkpca.linalg.arrays import to_numpy
from testkit.joined_kernels import JOINED, fused_matrix, table

pytestmark = pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning")  # small tables of odd kernels
LAWS = (None, "product", "sum")
NEW = 5
TORCH = find_spec("torch") is not None
ALL = tuple(sorted(JOINED))
HAVE_WIDTHS = ("rbf", "laplacian", "overlap", "chi2")


@dataclass(frozen=True)
class Problem:
    kernel: str
    X: np.ndarray  # of the joined table, new samples last
    cuts: tuple[int, ...]
    as_torch: bool

    def parties(self, rows: slice):
        arrays = importlib.import_module("torch").tensor if self.as_torch else np.asarray
        blocks = np.split(self.X[rows], list(self.cuts), axis=1)
        return {f"p{j}": arrays(b) for j, b in enumerate(blocks)}

    @property
    def n(self) -> int:
        return len(self.X) - NEW

    @property
    def fitted(self):
        return self.parties(slice(0, self.n))

    @property
    def new(self):
        return self.parties(slice(self.n, None))


@st.composite
def problems(draw, kernels=ALL):
    kernel = draw(st.sampled_from(kernels))
    n = draw(st.integers(6, 30))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = table(rng, kernel, n + NEW) * (1.0 if kernel == "overlap" else draw(st.sampled_from([1e-3, 1.0, 30.0])))
    cuts = draw(st.sets(st.integers(1, 11), max_size=4))
    return Problem(kernel, X, tuple(sorted(cuts)), draw(st.booleans() if TORCH else st.just(False)))


def fit(problem, D, tables=None, **settings):
    settings = {"gamma": None, "rank": problem.n, "precision": "float64", "solver": "dense"} | settings
    return DKPCA(D, kernel=problem.kernel, **settings).fit(problem.fitted if tables is None else tables)


@pytest.mark.longer
@given(problems(), st.integers(1, 4))
def test_at_full_rank_it_is_kernel_pca_of_the_joined_table(problem, D):
    X, n = problem.X, problem.n
    K, K_new = JOINED[problem.kernel](X[:n], X[:n]), JOINED[problem.kernel](X[n:], X[:n])
    model = fit(problem, D)
    centered = K - K.mean(0) - K.mean(1)[:, None] + K.mean()
    values = np.linalg.eigvalsh(centered)[::-1]
    largest = values[0]
    np.testing.assert_allclose(to_numpy(model.eigenvalues_), values[:D], atol=1e-9 * largest)
    # Or there is no subspace to compare; LAPACK may find none of many equal eigenvalues.
    assume(values[D - 1] - values[D] >= 1e-4 * largest)
    trusted = KernelPCA(D, kernel="precomputed", eigen_solver="dense").fit(K)
    np.testing.assert_allclose(to_numpy(model.eigenvalues_), trusted.eigenvalues_, atol=1e-9 * largest)
    assert subspace_error(trusted.eigenvectors_, to_numpy(model.eigenvectors_)) < 1e-9
    placed, expected = to_numpy(model.transform(problem.new)), trusted.transform(K_new)
    size = max(np.abs(expected).max(), np.sqrt(largest))
    np.testing.assert_allclose(placed @ placed.T, expected @ expected.T, atol=1e-9 * size**2)


@given(problems(), st.sampled_from(LAWS), st.integers(1, 4), st.integers(1, 8), st.sampled_from([64, 32, 16]))
def test_every_bound_holds_against_the_truth(problem, law, D, rank, bits):
    few = fit(problem, D, law=law, rank=rank, precision=f"float{bits}")
    true = fit(problem, D, law=law)
    proof, values = few.certificate_, to_numpy(true.eigenvalues_)
    slack = 1e-9 * float(values[0])
    K, L = (to_numpy(fused_matrix(model)) for model in (true, few))
    H = np.eye(problem.n) - 1 / problem.n
    spread = np.linalg.eigvalsh(H @ (K - L) @ H)  # the certificate is about the centered matrices
    assert spread[-1] <= proof.kernel_error_above + slack
    assert spread[0] >= -proof.kernel_error_below - slack
    assert (np.array(proof.eigenvalues_at_least) <= values + slack).all()
    assert (np.array(proof.eigenvalues_at_most) >= values - slack).all()
    V = to_numpy(few.eigenvectors_)
    assert np.trace(V.T @ H @ K @ H @ V) >= proof.captured_at_least - slack
    assert values.sum() <= proof.captured_best_at_most + slack
    assert subspace_error(to_numpy(true.eigenvectors_), V) <= proof.subspace_error_at_most + 1e-7


@pytest.mark.longer
@given(problems(), st.sampled_from(LAWS), st.randoms())
def test_the_order_of_parties_does_not_matter(problem, law, random):
    names = list(problem.fitted)
    random.shuffle(names)
    first, second = (fit(problem, 2, {name: problem.fitted[name] for name in each}, law=law, rank=4)
                     for each in (problem.fitted, names))  # fmt: skip
    np.testing.assert_array_equal(to_numpy(first.eigenvectors_), to_numpy(second.eigenvectors_))
    assert first.certificate_ == second.certificate_


@pytest.mark.longer
@given(problems(HAVE_WIDTHS), st.sampled_from(["product", "sum"]), st.floats(1e-3, 1e3))
def test_balanced_weights_do_not_change_when_a_party_scales_its_columns(problem, law, factor):
    scaled = problem.fitted | {"p0": problem.fitted["p0"] * factor}
    one, other = (fit(problem, 2, each, law=law, weights="balanced") for each in (problem.fitted, scaled))
    np.testing.assert_allclose(
        to_numpy(one.eigenvalues_), to_numpy(other.eigenvalues_), atol=1e-9 * float(one.eigenvalues_[0])
    )


@pytest.mark.longer
@given(problems(("linear",)), st.floats(1e-3, 1e3))
def test_a_balanced_sum_of_linear_kernels_does_not_change_either(problem, factor):
    scaled = problem.fitted | {"p0": problem.fitted["p0"] * factor}
    one, other = (fit(problem, 2, each, weights="balanced") for each in (problem.fitted, scaled))
    np.testing.assert_allclose(
        to_numpy(one.eigenvalues_), to_numpy(other.eigenvalues_), atol=1e-9 * float(one.eigenvalues_[0])
    )
