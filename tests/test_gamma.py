"""The width that a fit takes when nobody gives one, and what is said where it cannot help."""

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkpca import DKPCA
from dkpca.errors import DataWarning
from dkpca.kernels import ChiSquared, Laplacian, Overlap

COUNTS = np.random.default_rng(3).integers(0, 5, size=(60, 7)).astype(float)
TABLES = {"left": COUNTS[:, :4], "right": COUNTS[:, 4:]}
SQUARED = ((COUNTS[:, None] - COUNTS[None]) ** 2).sum(-1)


def mean_of_pairs(distances):
    return distances.sum() / (60 * 59)


EXPECTED = {
    "rbf": 1 / mean_of_pairs(SQUARED),
    "laplacian": 1 / mean_of_pairs(Laplacian(1.0).partial(COUNTS, COUNTS)),
    "chi2": 1 / mean_of_pairs(ChiSquared().partial(COUNTS, COUNTS)),
    "overlap": 1 / mean_of_pairs(Overlap(1.0).partial(COUNTS, COUNTS)),
    "poly": 1 / (COUNTS**2).sum(1).mean(),
}


@pytest.mark.parametrize("protect", ["none", "sums"])
@pytest.mark.parametrize("kernel", EXPECTED)
def test_by_default_it_is_one_over_the_mean_of_the_kernels_own_distance_over_all_parties(kernel, protect):
    model = DKPCA(3, kernel=kernel, protect=protect).fit(TABLES)
    assert model.gamma_ == pytest.approx(EXPECTED[kernel], rel=1e-9 if protect == "none" else 1e-6)


def test_a_blind_center_gets_kernels_of_that_width():
    model = DKPCA(3, law="sum", protect="blind").fit(TABLES)
    assert model.gamma_ == pytest.approx(EXPECTED["rbf"], rel=1e-9)


@pytest.mark.parametrize("how", [{}, {"protect": "sums"}, {"protect": "blind", "law": "sum"}])
def test_standardized_it_follows_from_the_number_of_columns_and_constant_ones_count(how):
    tables = {name: np.hstack([X, np.ones((60, 2))]) for name, X in TABLES.items()}
    model = DKPCA(3, standardize=True, **how).fit(tables)
    assert model.gamma_ == pytest.approx(59 / (2 * 60 * (7 + 4)))  # a column of deviation 1: 2 T / (T - 1)


def test_parties_with_different_kernels_have_the_width_of_their_own():
    model = DKPCA(3, kernel={"left": "rbf", "right": "overlap"}, law="product").fit(TABLES)
    left, right = TABLES.values()
    assert model.gammas_["left"] == pytest.approx(1 / (2 * left.var(axis=0, ddof=1).sum()))
    assert model.gammas_["right"] == pytest.approx(1 / mean_of_pairs(Overlap(1.0).partial(right, right)))


@pytest.mark.parametrize("kernel", ["linear", "cosine", "precomputed"])
def test_kernels_without_a_width_ignore_it(kernel):
    X = {"one": rbf_kernel(COUNTS)} if kernel == "precomputed" else TABLES
    models = [DKPCA(3, kernel=kernel, gamma=gamma, law="sum").fit(X) for gamma in ("scale", None)]
    assert models[0].gamma_ is None
    np.testing.assert_array_equal(models[0].eigenvalues_, models[1].eigenvalues_)


def test_it_is_one_on_constant_tables():
    with pytest.warns(DataWarning, match="nearly constant"):
        assert DKPCA(1).fit({"left": np.ones((9, 2)), "right": np.zeros((9, 1))}).gamma_ == 1.0


def test_none_is_that_of_kernel_pca():
    assert DKPCA(3, gamma=None).fit(TABLES).gamma_ == 1 / 7


def test_its_old_name_is_accepted_with_a_warning():
    with pytest.warns(FutureWarning, match="gamma='auto' is now called gamma='scale'"):
        assert DKPCA(3, gamma="auto").fit(TABLES).gamma_ == DKPCA(3).fit(TABLES).gamma_


@pytest.mark.longer
@pytest.mark.parametrize(
    ("data", "components", "at_least"), [(load_digits, 20, 0.85), (load_wine, 5, 0.65), (load_breast_cancer, 5, 0.85)]
)
def test_raw_tables_are_not_at_chance_level(data, components, at_least):
    X, y = data(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:600]
    steps = make_pipeline(DKPCA(components, parties=2), StandardScaler(), LogisticRegression(max_iter=2000))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        assert cross_val_score(steps, X[rows], y[rows], cv=3).mean() > at_least


def test_a_column_that_makes_up_the_distances_is_named():
    X = load_wine(as_frame=True).data
    with pytest.warns(DataWarning, match=r"'proline' makes up 99.8% of the distances .*\(standardize=True"):
        DKPCA(3).fit({"wine": X})
    with pytest.warns(DataWarning, match="'wine': column 13 makes up"):
        DKPCA(3).fit({"wine": X.to_numpy()})
    DKPCA(3, standardize=True).fit({"wine": X})
