"""Covariates are taken out by the projector off [1, C]: kernel PCA of H K H, for samples of the fit and new ones."""

import warnings
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.fixes import parse_version

from dkpca import DKPCA, errors
from dkpca.errors import DataWarning, InputError
from dkpca.fusion.covariates import Covariates
from dkpca.kernels import RBF
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.streamed import Streamed
from dkpca.store.files import decode_model, encode_model

X = load_digits().data / 16
FIT, NEW, GAMMA = X[:150], X[150:190], 0.02
FULL: dict[str, Any] = {"rank": 10**6, "precision": "float64"}
EXACT = Streamed(tolerance=1e-12)


def table(count, seed):
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"batch": rng.choice(list("abc"), count), "age": rng.normal(50, 10, count)})


OLD_C, NEW_C = table(len(FIT), 1), table(len(NEW), 2)


def design(C):
    return np.column_stack([np.ones(len(C)), C.batch == "a", C.batch == "b", C.age]).astype(float)


def kernel_pca(K, beside, D=5):
    """KernelPCA of H K H, scores of its samples and of new ones whose kernel rows are given."""
    A = design(OLD_C)
    predict = np.linalg.pinv(A)
    H = np.eye(len(A)) - A @ predict
    model = KernelPCA(D, kernel="precomputed").fit(H @ K @ H)
    vectors, values = model.eigenvectors_, model.eigenvalues_
    new = (beside - design(NEW_C) @ predict @ K) @ H @ vectors / np.sqrt(values)
    return values, vectors * np.sqrt(values), new


def matrices(kernel, law):
    def joint(a, b):
        halves = [(a[:, :32], b[:, :32]), (a[:, 32:], b[:, 32:])]
        parts = [rbf_kernel(u, v, gamma=GAMMA) if kernel == "rbf" else u @ v.T for u, v in halves]
        return parts[0] * parts[1] if law == "product" else parts[0] + parts[1]

    return joint(FIT, FIT), joint(NEW, FIT)


MODES = [
    ("rbf", "product", "none"),
    ("rbf", "sum", "none"),
    ("linear", "sum", "none"),
    ("rbf", "product", "sums"),
    ("linear", "sum", "sums"),
    ("rbf", "sum", "blind"),
]


class TestAgainstKernelPCA:
    @pytest.mark.parametrize("solver", ["dense", EXACT, "landmark"], ids=["dense", "streamed", "landmark"])
    @pytest.mark.parametrize(("kernel", "law", "protect"), MODES)
    def test_it_is_kernel_pca_off_the_covariates(self, kernel, law, protect, solver):
        full = {"precision": "float64"} if protect == "sums" else FULL
        model = DKPCA(
            5, kernel=kernel, law=law, gamma=GAMMA, parties=2, solver=solver, n_landmarks=150, protect=protect, **full
        )
        scores = model.fit_transform(FIT, covariates=OLD_C)
        values, expected, expected_new = kernel_pca(*matrices(kernel, law))
        signs = np.sign(np.sum(scores * expected, axis=0))
        np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-9)
        np.testing.assert_allclose(scores * signs, expected, atol=1e-9)
        np.testing.assert_allclose(model.transform(NEW, covariates=NEW_C) * signs, expected_new, atol=1e-9)
        np.testing.assert_allclose(model.transform(FIT, covariates=OLD_C), scores, atol=1e-9)

    @pytest.mark.parametrize("solver", ["dense", "landmark"])
    def test_scores_are_orthogonal_to_the_covariates(self, solver):
        scores = DKPCA(8, parties=3, solver=solver, n_landmarks=60).fit_transform(FIT, covariates=OLD_C)
        C = design(OLD_C)
        assert np.abs((C / np.linalg.norm(C, axis=0)).T @ scores).max() < 1e-10

    @pytest.mark.torch
    def test_on_torch(self, torch):
        model = DKPCA(5, gamma=GAMMA, parties=2, **FULL)
        scores = to_numpy(model.fit_transform(torch.asarray(FIT), covariates=OLD_C))
        _, expected, expected_new = kernel_pca(*matrices("rbf", "product"))
        signs = np.sign(np.sum(scores * expected, axis=0))
        new = to_numpy(model.transform(torch.asarray(NEW), covariates=NEW_C))
        np.testing.assert_allclose(scores * signs, expected, atol=1e-9)
        np.testing.assert_allclose(new * signs, expected_new, atol=1e-9)

    @pytest.mark.versions
    @pytest.mark.longer
    @pytest.mark.parametrize("rows_stay", [False, True])
    def test_on_dask(self, rows_stay, monkeypatch):
        if rows_stay:
            monkeypatch.setattr("dkpca.exchange.on_cluster.ONE_WORKER", 100)
        parts = {"a": slice(0, 32), "b": slice(32, 64)}
        here, new = ({name: t[:, own] for name, own in parts.items()} for t in (FIT, NEW))
        there, new_there = (
            {name: da.from_array(t, chunks=(50, -1)) for name, t in tables.items()} for tables in (here, new)
        )
        asked: dict[str, Any] = {"n_landmarks": 60, "solver": "landmark", "rank": 20, "precision": "float64"}
        model = DKPCA(5, **asked).fit(there, covariates=OLD_C)
        same = DKPCA(5, **asked).fit(here, covariates=OLD_C)
        np.testing.assert_allclose(np.asarray(model.eigenvectors_), same.eigenvectors_, atol=1e-9)
        placed = np.asarray(model.transform(new_there, covariates=NEW_C))
        np.testing.assert_allclose(placed, same.transform(new, covariates=NEW_C), atol=1e-9)

    def test_the_score_is_the_variance_explained(self):
        few = DKPCA(5, parties=2, **FULL).fit(FIT, covariates=OLD_C)
        assert few.score(FIT, covariates=OLD_C) == pytest.approx(float(few.explained_variance_ratio_.sum()), abs=1e-9)


class TestWhatIsSaid:
    @pytest.mark.longer
    def test_the_share_of_variance_taken_out_is_the_true_one(self):
        K, _ = matrices("rbf", "product")
        A, n = design(OLD_C), len(FIT)
        H, center = np.eye(n) - A @ np.linalg.pinv(A), np.eye(n) - 1 / n
        true = 1 - np.trace(H @ K @ H) / np.trace(center @ K @ center)
        for solver in ("dense", "streamed", "landmark"):
            model = DKPCA(5, gamma=GAMMA, parties=2, solver=solver, n_landmarks=150, **FULL)
            found = model.fit(FIT, covariates=OLD_C).model_.covariates
            assert found.share == pytest.approx(true, abs=1e-9)
            assert "batch, age taken out: 1.7% of the variance" in found.words()[0]

    @pytest.mark.parametrize("solver", ["dense", "landmark"])
    def test_bounds_hold_for_the_true_matrix(self, solver):
        values, _, _ = kernel_pca(*matrices("rbf", "product"))
        proof = DKPCA(5, gamma=GAMMA, parties=2, rank=20, solver=solver).fit(FIT, covariates=OLD_C).certificate_
        assert all(low <= v <= high for low, v, high in zip(
            proof.eigenvalues_at_least, values, proof.eigenvalues_at_most, strict=True
        ))  # fmt: skip

    @pytest.mark.parametrize("apart", [1e-6, 1e-7])
    def test_bounds_hold_for_covariates_that_are_nearly_the_same(self, rng, apart):
        Z, age = rng.standard_normal((40, 3)), rng.standard_normal(40)
        C = np.column_stack([age, age + apart * rng.standard_normal(40)])
        # A basis of [1, C] in long double, whose digits are enough for columns as near as this.
        basis = [np.full(40, 1 / np.sqrt(np.longdouble(40)))]
        for column in C.T.astype(np.longdouble):
            for _ in range(3):
                column = column - sum(q * (q @ column) for q in basis)
            basis.append(column / np.sqrt(column @ column))
        left = Z - sum(np.outer(q, q @ Z.astype(np.longdouble)) for q in basis)
        values = np.linalg.svd(left.astype(float), compute_uv=False) ** 2
        proof = DKPCA(3, kernel="linear", **FULL).fit(Z, covariates=C).certificate_
        assert np.all(proof.eigenvalues_at_least <= values)
        assert np.all(values <= proof.eigenvalues_at_most)
        assert values.sum() <= proof.total_variance_at_most * (1 + 1e-14)
        assert proof.kernel_norm_bound < 1e-5 * values[0]

    def test_constant_and_collinear_ones_are_dropped_and_said(self):
        C = OLD_C.assign(age_again=2 * OLD_C.age + 1, site="here", new=OLD_C.batch == "a")
        with pytest.warns(
            DataWarning, match="dropped as constant or determined by others: age_again, site = here, new"
        ):
            model = DKPCA(3, parties=2).fit(FIT, covariates=C)
        alone = DKPCA(3, parties=2).fit(FIT, covariates=OLD_C)
        np.testing.assert_allclose(model.eigenvalues_, alone.eigenvalues_, rtol=1e-12)

    def test_a_warning_where_they_predict_the_label(self):
        y = np.where(OLD_C.batch == "a", "ill", "well")
        with pytest.warns(DataWarning) as told:
            DKPCA(3, parties=2).fit(FIT, y, covariates=OLD_C)
        assert "the covariates predict y = ill: 100% of its variance" in str(told[0].message)
        other = np.random.default_rng(0).choice(["ill", "well"], len(FIT))
        DKPCA(3, parties=2).fit(FIT, other, covariates=OLD_C)  # warnings are errors here

    def test_a_batch_that_makes_the_first_component_makes_none_afterwards(self):
        batch = np.arange(len(FIT)) % 2
        moved = FIT + 0.8 * batch[:, None]
        before = DKPCA(3, parties=2).fit_transform(moved)
        after = DKPCA(3, parties=2).fit_transform(moved, covariates={"batch": batch})
        assert abs(np.corrcoef(before[:, 0], batch)[0, 1]) > 0.9
        assert np.abs(np.corrcoef(after.T, batch)[3, :3]).max() < 1e-9


class TestMatching:
    def test_by_their_index(self):
        ids = [f"s{i}" for i in range(len(FIT))]
        frame = pd.DataFrame(FIT, index=ids)
        shuffled = OLD_C.set_index(pd.Index(ids)).sample(frac=1.0, random_state=0)
        expected = DKPCA(3, parties=2).fit_transform(FIT, covariates=OLD_C)
        np.testing.assert_allclose(
            DKPCA(3, parties=2).fit_transform(frame, covariates=shuffled), expected, atol=1e-12
        )
        with pytest.raises(InputError, match="covariates have no row for 1 of 150 samples, such as 's7'"):
            DKPCA(3, parties=2).fit(frame, covariates=shuffled.drop("s7"))

    @pytest.mark.longer
    def test_an_index_of_other_samples_is_refused_and_row_numbers_are_none(self):
        ids = pd.Index([f"s{i}" for i in range(len(FIT))])
        frame, other = pd.DataFrame(FIT, index=ids), OLD_C.set_index(ids.str.upper())
        model = DKPCA(3, parties=2).fit(frame, covariates=OLD_C)  # in the order of the table
        for given in (DKPCA(3, parties=2).fit, model.transform, model.score):
            with pytest.raises(InputError, match="no row for 150 of 150 samples, .*; give one row for each sample"):
                given(frame, covariates=other)
        shuffled = OLD_C.set_index(ids).sample(frac=1.0, random_state=0)
        assert model.score(frame, covariates=shuffled) == model.score(frame, covariates=OLD_C)
        for unlabeled in (FIT, pd.DataFrame(FIT)):
            model = DKPCA(3, parties=2).fit(unlabeled, covariates=other)
            np.testing.assert_array_equal(model.model_.covariates.basis, Covariates.of(OLD_C).basis)

    def test_where_parties_lack_samples(self):
        ids = np.array([f"s{i}" for i in range(len(FIT))])
        tables = {
            "a": pd.DataFrame(FIT[:120, :32], index=ids[:120]),
            "b": pd.DataFrame(FIT[20:, 32:], index=ids[20:]),
        }
        C = OLD_C.set_index(pd.Index(ids))
        with pytest.warns(DataWarning):
            dropped = DKPCA(3, lacking="drop").fit(tables, covariates=C)
        assert np.abs(design(OLD_C.iloc[20:120]).T @ dropped.eigenvectors_).max() < 1e-9
        completed = DKPCA(3, lacking="complete").fit(tables, covariates=C)
        assert np.abs(design(C.loc[completed.sample_ids_]).T @ completed.eigenvectors_).max() < 1e-9
        with pytest.warns(DataWarning), pytest.raises(InputError, match="covariates have no labels, and rows were"):
            DKPCA(3, lacking="drop").fit(tables, covariates=OLD_C.to_numpy())

    def test_saved_and_in_a_model_file(self, tmp_path):
        model = DKPCA(3, parties=2).fit(FIT, covariates=OLD_C)
        model.save(tmp_path / "model")
        again = DKPCA.load(tmp_path / "model")
        expected = model.transform(NEW, covariates=NEW_C)
        np.testing.assert_allclose(again.transform(NEW, covariates=NEW_C), expected, atol=1e-12)
        read = decode_model(encode_model(model.model_))
        assert read.covariates.names == ("batch", "age")
        assert read.covariates.share == model.model_.covariates.share


class TestRefused:
    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"covariates": None}, r"the fit removed \['batch', 'age'\]; give these for the new samples too"),
            ({"covariates": NEW_C.assign(batch="z")}, "covariate 'batch' is 'z' for a new sample"),
            (
                {"covariates": NEW_C[["age"]]},
                r"the covariates are \['age'\]; those of the fit are \['batch', 'age'\]",
            ),
            ({"covariates": NEW_C.assign(age=np.nan)}, "covariate 'age' has no value for 40 samples, first row 0"),
            ({"covariates": NEW_C.assign(batch=1.0)}, "covariate 'batch' is categories in the fit, not here"),
            ({"covariates": NEW_C[:3]}, "covariates of 3 samples, and 40 new samples"),
        ],
    )
    def test_new_samples_whose_covariates_do_not_fit(self, change, words):
        model = DKPCA(3, parties=2).fit(FIT, covariates=OLD_C)
        with pytest.raises(InputError, match=words):
            model.transform(NEW, **change)

    def test_categoricals_of_whole_numbers_are_categories(self):
        site = np.arange(len(FIT)) % 4
        frame = pd.DataFrame({"site": site}).astype("category")
        for given in (frame, frame["site"], {"site": pd.Categorical(site)}):
            model = DKPCA(3, parties=2).fit(FIT, covariates=given)
            means = [model.model_.scores[site == k].mean(axis=0) for k in range(4)]
            assert np.abs(means).max() < 1e-9
            np.testing.assert_allclose(model.transform(FIT, covariates=given), model.model_.scores, atol=1e-4)
        frame.iloc[3] = None
        with pytest.raises(InputError, match="covariate 'site' has no value for 1 sample, first row 3"):
            DKPCA(3, parties=2).fit(FIT, covariates=frame)

    def test_what_cannot_be_taken_out(self):
        fit = DKPCA(3, parties=2).fit
        with pytest.raises(InputError, match="removed from the centered kernel; use center=True"):
            DKPCA(3, center=False).fit(FIT, covariates=OLD_C)
        with pytest.raises(InputError, match="are constant; leave them out"):
            fit(FIT, covariates=np.ones(len(FIT)))
        with pytest.raises(InputError, match="covariates for 150 samples leave no variance to analyze; give fewer"):
            fit(FIT, covariates=np.random.default_rng(0).normal(size=(150, 149)))
        with pytest.raises(InputError, match="there are covariates for 20 samples, not for 150"):
            fit(FIT, covariates=OLD_C[:20])
        with pytest.raises(InputError, match="the fit removed no covariates"):
            fit(FIT).transform(NEW, covariates=NEW_C)
        with pytest.raises(InputError, match="row for each sample"):
            fit(FIT, covariates={})
        assert issubclass(InputError, errors.DKPCAError)


class TestMetadataRouting:
    @pytest.fixture(autouse=True)
    def routing(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    def test_through_a_pipeline(self):
        y = load_digits().target[:150]
        asked = DKPCA(5, parties=2).set_fit_request(covariates=True).set_transform_request(covariates=True)
        pipeline = make_pipeline(asked, LogisticRegression(max_iter=500)).fit(FIT, y, covariates=OLD_C)
        alone = DKPCA(5, parties=2)
        trained = LogisticRegression(max_iter=500).fit(alone.fit_transform(FIT, covariates=OLD_C), y)
        expected = trained.predict(alone.transform(NEW, covariates=NEW_C))
        np.testing.assert_array_equal(pipeline.predict(NEW, covariates=NEW_C), expected)

    @pytest.mark.versions
    @pytest.mark.longer
    def test_through_a_search(self):
        y = load_digits().target[:150]
        asked = DKPCA(5, parties=2).set_fit_request(covariates=True).set_transform_request(covariates=True)
        pipeline = make_pipeline(asked, LogisticRegression(max_iter=500))
        search = GridSearchCV(pipeline, {"dkpca__n_components": [2, 8]}, cv=3)
        if parse_version(sklearn.__version__) < parse_version("1.8"):  # hands nothing on when it scores a pipeline
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                search.fit(FIT, y, covariates=OLD_C)
            assert any("give these for the new samples too (covariates=)" in str(each.message) for each in told)
            return
        search.fit(FIT, y, covariates=OLD_C)
        assert search.best_params_ == {"dkpca__n_components": 8}
        first = search.best_estimator_.named_steps["dkpca"].transform(NEW, covariates=NEW_C)
        np.testing.assert_allclose(
            first, DKPCA(8, parties=2).fit(FIT, covariates=OLD_C).transform(NEW, covariates=NEW_C), atol=1e-9
        )


class TestBlind:
    """What a blind center computes of covariates that it knows: B'K B of every party, B a basis of ones and them."""

    def attacked(self, columns, rng):
        """Kernel values between samples that a center reads off, where it takes groups for single samples."""
        n = len(next(iter(columns.values())))
        X = rng.normal(size=(n, 3))
        K = RBF(0.3)(X, X)
        turn, hidden = (np.linalg.qr(rng.normal(size=(n, n)))[0] for _ in range(2))
        Q = Covariates.of(columns).basis
        B = np.concatenate([np.full((n, 1), n**-0.5), Q], axis=1)
        L = turn @ np.linalg.cholesky(K + 1e-12 * np.eye(n)) @ hidden  # the turned factor; its columns are hidden too
        seen = (turn @ B).T @ L
        return K, B @ (seen @ seen.T) @ B.T

    def test_indicators_of_single_samples_give_their_kernel_away_and_are_refused(self, rng):
        columns = {f"i{k}": (np.arange(60) == k).astype(float) for k in range(20)}
        K, found = self.attacked(columns, rng)
        assert np.abs(found - K)[:20, :20].max() < 1e-9
        with pytest.raises(InputError, match="single out 20 of 60 samples"):
            Covariates.of(columns).check_blind()

    def test_groups_give_their_means_only_and_are_accepted(self, rng):
        columns = {"site": np.repeat(["a", "b", "c"], 20)}
        K, found = self.attacked(columns, rng)
        apart = ~np.eye(60, dtype=bool)
        assert np.corrcoef(found[apart], K[apart])[0, 1] < 0.3
        Covariates.of(columns).check_blind()

    def test_many_small_groups_are_refused_however_even_they_are(self):
        with pytest.raises(InputError, match="every column 10"):
            Covariates.of({"ward": np.repeat([f"w{k}" for k in range(12)], 5)}).check_blind()
