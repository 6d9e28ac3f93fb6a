"""What a user of scikit-learn expects of an estimator like KernelPCA, beside its own checks."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dkpca
from dkpca import DKPCA, wire
from dkpca.errors import InputError
from dkpca.kernels import Linear
from dkpca.linalg.arrays import to_numpy

DIGITS = load_digits().data / 16
FULL: dict[str, Any] = {"rank": 10**6, "precision": "float64"}


class TestNumberOfComponents:
    @pytest.mark.longer
    @pytest.mark.parametrize("share", [0.3, 0.8, 0.95])
    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    def test_a_share_is_the_fewest_that_show_it(self, share, kernel):
        model = DKPCA(share, kernel=kernel, parties=4, **FULL).fit(DIGITS[:150])
        every = DKPCA(100, kernel=kernel, parties=4, **FULL).fit(DIGITS[:150]).explained_variance_ratio_
        expected = int(np.argmax(np.cumsum(every) >= share)) + 1
        assert model.eigenvectors_.shape == (150, expected)
        assert model.transform(DIGITS[150:153]).shape == (3, expected)
        assert len(model.get_feature_names_out()) == expected
        assert len(model.certificate_.eigenvalues_at_least) == expected

    @pytest.mark.longer
    def test_none_is_all_that_are_not_zero_as_in_kernel_pca(self):
        for X, kernel in ((DIGITS[:60], "rbf"), (DIGITS[:150, 20:30], "linear")):
            trusted = KernelPCA(None, kernel=kernel, gamma=0.02).fit(X)
            model = DKPCA(None, kernel=kernel, gamma=0.02, parties=2, **FULL).fit(X)
            assert model.eigenvalues_.shape == trusted.eigenvalues_.shape
            np.testing.assert_allclose(model.eigenvalues_, trusted.eigenvalues_, atol=1e-9 * model.eigenvalues_[0])

    def test_by_landmarks_there_are_no_more_than_landmarks(self):
        model = DKPCA(None, kernel="rbf", parties=2, solver="landmark", n_landmarks=20).fit(DIGITS[:200])
        assert model.eigenvalues_.shape[0] <= 20

    @pytest.mark.longer
    def test_parties_send_more_for_a_larger_share(self):
        sent = [[e.rank for e in DKPCA(s, parties=2).fit(DIGITS[:300]).ledger_] for s in (0.5, 0.99)]
        assert sum(sent[0]) < sum(sent[1])

    @pytest.mark.parametrize("wrong", [0.0, 1.5, -1, 0, 1.0, "all", True])
    def test_what_is_neither_is_refused(self, wrong):
        with pytest.raises(InputError, match="n_components is .*; give a whole number"):
            DKPCA(wrong).fit(DIGITS[:20])

    @pytest.mark.parametrize("wanted", [0.7, None])
    def test_it_is_kept_in_a_file(self, wanted, tmp_path):
        model = DKPCA(wanted, parties=2).fit(DIGITS[:40])
        model.save(tmp_path / "model")
        again = DKPCA.load(tmp_path / "model")
        assert again.get_params() == model.get_params()
        np.testing.assert_allclose(again.transform(DIGITS[:5]), model.transform(DIGITS[:5]), atol=1e-12)


def true_share(X, new, D, gamma):
    """Share of the variance of new samples that kernel PCA of the joined table shows."""
    pooled = KernelPCA(D, kernel="rbf", gamma=gamma).fit(X)
    K, beside = rbf_kernel(X, gamma=gamma), rbf_kernel(new, X, gamma=gamma)
    total = len(new) + len(new) * K.mean() - 2 * beside.mean(axis=1).sum()
    return float((pooled.transform(new) ** 2).sum() / total)


class TestScore:
    @pytest.mark.longer
    @pytest.mark.parametrize("kernel", ["rbf", "linear", "laplacian", "poly", "cosine"])
    @pytest.mark.parametrize("center", [True, False])
    def test_of_the_fit_it_is_the_variance_explained(self, kernel, center, torch_or_numpy):
        X = torch_or_numpy(DIGITS[:80])
        model = DKPCA(5, kernel=kernel, parties=3, center=center, **FULL).fit(X)
        assert model.score(X) == pytest.approx(float(model.explained_variance_ratio_.sum()), rel=1e-9)

    @pytest.mark.longer
    def test_of_new_samples_it_is_that_of_the_joined_table(self):
        X, new = DIGITS[:200], DIGITS[200:260]
        model = DKPCA(8, gamma=0.02, parties=4, **FULL).fit(X)
        assert model.score(new) == pytest.approx(true_share(X, new, 8, 0.02), rel=1e-9)
        few = DKPCA(8, gamma=0.02, parties=4).fit(X)
        assert few.score(new) == pytest.approx(true_share(X, new, 8, 0.02), rel=0.02)

    @pytest.mark.parametrize("weights", ["balanced", {"a": 3.0, "b": 0.2}])
    def test_weights_count(self, weights):
        tables = {"a": DIGITS[:80, :20], "b": DIGITS[:80, 20:]}
        model = DKPCA(5, law="sum", weights=weights, **FULL).fit(tables)
        assert model.score(tables) == pytest.approx(float(model.explained_variance_ratio_.sum()), rel=1e-9)

    @pytest.mark.longer
    def test_with_many_samples_means_are_over_some(self, monkeypatch):
        model = DKPCA(5, parties=2, **FULL).fit(DIGITS[:300])
        exact = model.score(DIGITS[300:350])
        monkeypatch.setattr("dkpca.fusion.scoring.MEANS_OVER", 150)
        assert model.score(DIGITS[300:350]) == pytest.approx(exact, rel=0.1)

    def test_every_party_and_its_own_values_are_needed(self):
        tables = {"a": DIGITS[:50, :20], "b": DIGITS[:50] @ DIGITS[:50].T}
        model = DKPCA(2, kernel={"a": "rbf", "b": "precomputed"}, law="sum").fit(tables)
        with pytest.raises(InputError, match=r"score needs the tables of every party; those of \['b'\] are missing"):
            model.score({"a": DIGITS[:5, :20]})
        with pytest.raises(InputError, match="'b': rows of a kernel matrix do not contain the diagonal entries"):
            model.score(tables)


class TestPrecision:
    @pytest.mark.parametrize("make", [dict, list, pd.DataFrame])
    def test_float32_in_float32_out(self, make):
        X = DIGITS[:60].astype(np.float32)
        given = {dict: {"a": X[:, :30], "b": X[:, 30:]}, list: [X[:, :30], X[:, 30:]], pd.DataFrame: pd.DataFrame(X)}[
            make
        ]
        if make is pd.DataFrame:
            given.columns = [f"c{j}" for j in range(64)]
        model = DKPCA(3)
        assert model.fit_transform(given).dtype == np.float32
        assert model.transform(given).dtype == np.float32
        assert model.eigenvalues_.dtype == np.float64

    @pytest.mark.parametrize("protect", ["sums", "blind"])
    def test_protection_does_not_change_that(self, protect):
        X = DIGITS[:60].astype(np.float32)
        model = DKPCA(3, kernel="linear", protect=protect)
        tables = {"a": X[:, :30], "b": X[:, 30:]}
        assert model.fit_transform(tables).dtype == model.transform(tables).dtype == np.float32

    def test_one_float64_table_makes_float64(self):
        X = DIGITS[:60]
        assert DKPCA(3).fit_transform({"a": X[:, :30].astype(np.float32), "b": X[:, 30:]}).dtype == np.float64


DATA = load_breast_cancer(as_frame=True)
GROUPS = {
    name: list(DATA.data.columns[10 * j : 10 * j + 10]) for j, name in enumerate(["means", "errors", "extremes"])
}


class TestModelSelection:
    @pytest.mark.slow
    @pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning")  # a few tumors are unlike all others
    def test_grid_search_over_one_table_with_column_groups(self):
        X, y = DATA.data[:200], DATA.target[:200]
        pipeline = make_pipeline(
            DKPCA(5, parties=GROUPS, kernel="linear", standardize=True), StandardScaler(), LogisticRegression()
        )
        grid = {
            "dkpca__kernel": ["linear", "laplacian"],
            "dkpca__weights": [None, "balanced"],
            "dkpca__n_components": [2, 0.8],
        }
        search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(X, y)
        assert search.best_score_ > 0.85
        assert search.best_estimator_[0].party_names_ == list(GROUPS)

    @pytest.mark.versions
    @pytest.mark.longer
    def test_without_labels_its_own_score_chooses(self):
        X = DIGITS[:120]
        search = GridSearchCV(
            DKPCA(gamma=0.02, parties=2), {"n_components": [1, 3, 8]}, cv=2, error_score="raise"
        ).fit(X)
        assert search.best_params_ == {"n_components": 8}
        assert len(cross_val_score(DKPCA(3, gamma=0.02, parties=2), X, cv=3, error_score="raise")) == 3


@pytest.fixture(params=["numpy", pytest.param("torch", marks=pytest.mark.torch)])
def torch_or_numpy(request):
    return np.asarray if request.param == "numpy" else request.getfixturevalue("torch").from_numpy


@pytest.mark.torch
def test_scores_of_torch_are_as_precise_as_they_came(torch):
    X = torch.from_numpy(DIGITS[:40]).float()
    assert to_numpy(DKPCA(2).fit_transform({"a": X})).dtype == np.float32


class TestSparse:
    @pytest.mark.parametrize("make", [scipy.sparse.csr_matrix, scipy.sparse.coo_array, scipy.sparse.dok_array])
    def test_a_sparse_table_is_that_table(self, make):
        X = np.where(DIGITS[:60] > 0.6, DIGITS[:60], 0.0)
        dense = DKPCA(3, kernel="linear", parties=2).fit(X)
        sparse = DKPCA(3, kernel="linear", parties=2).fit(make(X))
        np.testing.assert_array_equal(sparse.transform(make(X[:5])), dense.transform(X[:5]))
        tables = {"a": make(X[:, :30]), "b": X[:, 30:]}
        mixed = DKPCA(3, kernel={"a": "linear", "b": "rbf"}, law="sum").fit(tables)
        whole = DKPCA(3, kernel={"a": "linear", "b": "rbf"}, law="sum").fit({"a": X[:, :30], "b": X[:, 30:]})
        np.testing.assert_array_equal(mixed.eigenvalues_, whole.eigenvalues_)
        np.testing.assert_array_equal(mixed.transform(tables), whole.transform({"a": X[:, :30], "b": X[:, 30:]}))

    def test_other_kernels_refuse_it_with_the_remedy(self):
        X = scipy.sparse.csr_matrix(DIGITS[:20])
        with pytest.raises(InputError, match=r"'party0': sparse tables work only with kernel=.linear..*toarray"):
            DKPCA(2).fit(X)
        with pytest.raises(InputError, match=r"party 'b': sparse tables work only with kernel='linear'"):
            DKPCA(2, kernel={"a": "linear", "b": "rbf"}, law="sum").fit({"a": X, "b": X})

    def test_one_that_does_not_fit_is_refused_before_memory_is_spent(self):
        X = scipy.sparse.csr_array((10**6, 10**7))
        with pytest.raises(InputError, match="does not fit into memory with its zeros; drop columns"):
            DKPCA(2, kernel="linear").fit({"a": X})

    def test_by_files_too(self):
        X = np.where(DIGITS[:60] > 0.6, DIGITS[:60], 0.0)
        made = [dkpca.summarize(each, party="a", kernel=Linear(), rank=5) for each in (X, scipy.sparse.csr_array(X))]
        assert wire.fingerprint(made[0][0]) == wire.fingerprint(made[1][0])
        rows = [dkpca.extend(made[1][1], each).factor.decode() for each in (X[:3], scipy.sparse.csr_array(X[:3]))]
        np.testing.assert_array_equal(*rows)


def test_a_kernel_matrix_is_split_by_rows_and_columns_as_for_kernel_pca():
    X, y = load_breast_cancer(return_X_y=True)
    K = rbf_kernel(StandardScaler().fit_transform(X[:120]), gamma=0.02)
    ours, theirs = (
        cross_val_score(make_pipeline(reduce, LogisticRegression()), K, y[:120], cv=3)
        for reduce in (DKPCA(3, kernel="precomputed", **FULL), KernelPCA(3, kernel="precomputed"))
    )
    np.testing.assert_array_equal(ours, theirs)
