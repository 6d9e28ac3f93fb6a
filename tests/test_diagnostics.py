"""A kernel that says nothing, and new samples that lie outside, are said aloud; ordinary ones are not."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import KernelPCA
from sklearn.preprocessing import StandardScaler

import dkpca
from dkpca import DKPCA, subspace_error
from dkpca.errors import DataWarning
from dkpca.fusion.scoring import outside_at_center
from dkpca.kernels import RBF, Linear

CANCER = load_breast_cancer().data


def test_raw_columns_of_many_units_are_warned_about_with_the_remedy():
    with pytest.warns(DataWarning, match="nearly diagonal.*use standardized columns, or a smaller gamma"):
        DKPCA(5, gamma=None).fit(CANCER[:200])


@pytest.mark.filterwarnings("ignore:.*makes up .* of the distances")
def test_a_low_rank_does_not_hide_that_the_kernel_is_diagonal():
    with pytest.warns(DataWarning, match="nearly diagonal"):
        DKPCA(5, gamma=None, rank=10).fit({"left": CANCER[:, :15], "right": CANCER[:, 15:]})


def test_a_width_that_makes_all_samples_alike_is_warned_about():
    with pytest.warns(DataWarning, match="nearly constant.*use a larger gamma"):
        DKPCA(5, gamma=1e-9, standardize=True).fit(CANCER)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gamma": 1e-9, "precision": "float64"}, "the components rest on its last digits"),
        ({"gamma": 1e-9, "precision": "compact"}, "only rounding is left"),
        ({"gamma": 1e-17, "precision": "float64"}, "only rounding is left"),
    ],
)
def test_only_rounding_is_left_where_the_estimate_says_so_too(settings, words):
    X = StandardScaler().fit_transform(CANCER[:200])
    with pytest.warns(DataWarning, match=f"nearly constant: all samples look the same, and {words}"):
        model = DKPCA(3, rank=40, **settings).fit(X)
    right = subspace_error(np.linalg.svd(X, full_matrices=False)[0][:, :3], model.eigenvectors_) < 1e-6
    assert right == ("last digits" in words)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "poly", "cosine"])
def test_constant_columns_are_warned_about_whatever_the_kernel(kernel):
    with pytest.warns(DataWarning, match="nearly constant.*check that the columns vary and, if gamma was set"):
        DKPCA(2, kernel=kernel, parties=2).fit(np.full((50, 4), 3.0))


@pytest.mark.parametrize("settings", [{"standardize": True}, {"gamma": "scale"}, {"kernel": "linear"}])
def test_ordinary_fits_are_not_warned_about(settings):
    DKPCA(5, **settings).fit(CANCER)
    DKPCA(5, parties=4, **({"gamma": "scale"} | settings)).fit(load_digits().data[:300] + 1e-9)


@pytest.mark.longer
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_standardize_is_a_standard_scaler_before_kernel_pca(kernel):
    scaled = StandardScaler().fit(CANCER[:300])
    truth = KernelPCA(5, kernel=kernel).fit(scaled.transform(CANCER[:300]))
    model = DKPCA(5, kernel=kernel, gamma=None, standardize=True, rank=300, precision="float64", parties=3)
    model.fit(CANCER[:300])
    assert subspace_error(truth.eigenvectors_, model.eigenvectors_) < 1e-8
    scores, expected = model.transform(CANCER[300:]), truth.transform(scaled.transform(CANCER[300:]))
    signs = np.sign((scores * expected).sum(axis=0))
    np.testing.assert_allclose(scores * signs, expected, atol=1e-6 * np.abs(expected).max())


def test_a_column_that_does_not_vary_keeps_its_unit():
    X = np.hstack([CANCER[:100], np.full((100, 1), 1e9)])
    model = DKPCA(3, standardize=True).fit(X)
    assert np.isfinite(model.transform(X[:5])).all()


def test_a_standardized_model_is_saved_with_its_scales(tmp_path):
    model = DKPCA(3, standardize=True, parties=2).fit(CANCER[:200])
    model.save(tmp_path / "model")
    again = DKPCA.load(tmp_path / "model")
    np.testing.assert_allclose(again.transform(CANCER[200:210]), model.transform(CANCER[200:210]))


@pytest.mark.filterwarnings("ignore:.*makes up .* of the distances")
def test_a_model_of_a_table_with_a_column_of_large_numbers_is_loaded_again(tmp_path):
    X = CANCER[:100, :4] * np.array([1.0, 1.0, 1.0, 1e4])
    model = DKPCA(2, gamma="scale").fit(X)
    model.save(tmp_path / "model")
    assert np.array_equal(DKPCA.load(tmp_path / "model").transform(X[:5]), model.transform(X[:5]))


@pytest.mark.parametrize("kernel", [RBF(0.1), Linear()])
def test_new_samples_a_thousand_times_too_large_lie_outside_and_ordinary_ones_do_not(kernel):
    X = np.random.default_rng(0).normal(size=(220, 6))
    answers = [
        dkpca.summarize(part, party=name, kernel=kernel, rank=30)
        for name, part in (("a", X[:200, :3]), ("b", X[:200, 3:]))
    ]
    model = dkpca.fuse([summary for summary, _ in answers], n_components=3)
    new = X[200:].copy()
    new[:5, :3] *= 1000
    parts = (new[:, :3], new[:, 3:])
    rows = [dkpca.extend(state, part) for (_, state), part in zip(answers, parts, strict=True)]
    assert outside_at_center(model, rows).tolist() == [True] * 5 + [False] * 15
    assert outside_at_center(model, rows[:1]).tolist() == [True] * 5 + [False] * 15
    assert not outside_at_center(model, rows[1:]).any()
