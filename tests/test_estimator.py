import pickle

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn.exceptions
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import KernelPCA
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import laplacian_kernel, linear_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from dkpca import DKPCA, subspace_error, wire
from dkpca.errors import InputError, NotFittedError
from dkpca.kernels import RBF, Linear
from dkpca.rank import Adaptive, Budget, Fixed

FULL = 10**6
DIGITS = load_digits().data / 16


@parametrize_with_checks([DKPCA(), DKPCA(kernel="linear", projection="exact")])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class TestIsKernelPCA:
    """At full rank nothing is lost, whatever the split."""

    @pytest.mark.filterwarnings("ignore:.*makes up .* of the distances")  # of two pixels at the border
    @pytest.mark.parametrize("projection", ["extend", "exact"])
    @pytest.mark.parametrize("parties", [1, 2, 7, 64, [[3, 1], list(range(4, 64)), [0, 2]]], ids=str)
    @pytest.mark.parametrize(("kernel", "gamma"), [("linear", None), ("rbf", 1e-3)])
    def test_full_rank_fusion_is_kernel_pca(self, kernel, gamma, parties, projection):
        X, X_new = DIGITS[:80], DIGITS[80:110]
        pooled = KernelPCA(5, kernel=kernel, gamma=gamma).fit(X)
        model = DKPCA(
            5, kernel=kernel, gamma=gamma, parties=parties, rank=FULL, precision="float64", projection=projection
        ).fit(X)
        np.testing.assert_allclose(model.eigenvalues_, pooled.eigenvalues_, rtol=1e-10)
        assert subspace_error(pooled.eigenvectors_, model.eigenvectors_) < 1e-10
        signs = np.sign((pooled.eigenvectors_ * model.eigenvectors_).sum(0))
        np.testing.assert_allclose(model.transform(X_new), pooled.transform(X_new) * signs, atol=1e-8)
        np.testing.assert_allclose(model.fit_transform(X), pooled.transform(X) * signs, atol=1e-8)

    @pytest.mark.parametrize(
        ("law", "kernel", "of_both"),
        [
            ("sum", "rbf", lambda K: rbf_kernel(*K[0], 1e-3) + rbf_kernel(*K[1], 1e-3)),
            ("sum", "laplacian", lambda K: laplacian_kernel(*K[0], 1e-3) + laplacian_kernel(*K[1], 1e-3)),
            ("product", "linear", lambda K: linear_kernel(*K[0]) * linear_kernel(*K[1])),
        ],
    )
    def test_new_samples_under_another_law_than_the_kernel_s_own(self, law, kernel, of_both):
        def matrix(X, Y):
            return of_both([(X[:, part], Y[:, part]) for part in (slice(32), slice(32, 64))])

        X, X_new = DIGITS[:80] - DIGITS[:80].mean(axis=0), DIGITS[80:110] - DIGITS[:80].mean(axis=0)
        pooled = KernelPCA(5, kernel="precomputed").fit(matrix(X, X))
        model = DKPCA(
            5, kernel=kernel, gamma=1e-3, law=law, parties=2, rank=FULL, precision="float64", projection="exact"
        ).fit(X)
        signs = np.sign((pooled.eigenvectors_ * model.eigenvectors_).sum(0))
        expected = pooled.transform(matrix(X_new, X)) * signs
        np.testing.assert_allclose(model.transform(X_new), expected, atol=1e-8 * np.abs(expected).max())

    def test_not_centered(self):
        X = DIGITS[:80]
        values = np.linalg.eigvalsh(X @ X.T)[::-1][:5]
        model = DKPCA(5, kernel="linear", center=False, parties=4, rank=FULL, precision="float64").fit(X)
        np.testing.assert_allclose(model.eigenvalues_, values, rtol=1e-10)


class TestApproaches:
    @pytest.mark.longer
    @pytest.mark.parametrize("projection", ["extend", "exact"])
    def test_projection_of_new_samples_approaches_pooled_kernel_pca_as_the_rank_grows(self, projection):
        X, X_new = DIGITS[:300], DIGITS[300:400]
        pooled = KernelPCA(5, kernel="rbf", gamma=4e-4).fit(X)
        target = pooled.transform(X_new)
        errors = []
        for rank in (15, 40, 100):
            model = DKPCA(5, gamma=4e-4, parties=4, rank=rank, precision="float64", projection=projection).fit(X)
            Q = pooled.eigenvectors_.T @ model.eigenvectors_
            errors.append(np.linalg.norm(model.transform(X_new) @ Q.T - target) / np.linalg.norm(target))
        assert errors[0] > 3 * errors[1] > 9 * errors[2]
        assert errors[2] < 1e-2

    @pytest.mark.parametrize("precision", ["float64", "float32", "float16"])
    @pytest.mark.parametrize("kernel", ["rbf", "linear"])
    def test_training_samples_project_onto_themselves(self, kernel, precision):
        X = DIGITS[:200]
        model = DKPCA(5, kernel=kernel, gamma="scale", parties=4, precision=precision)
        scores = model.fit_transform(X)
        tolerance = {"float64": 1e-10, "float32": 1e-5, "float16": 2e-2}[precision]
        np.testing.assert_allclose(model.transform(X), scores, atol=tolerance * np.abs(scores).max())

    def test_auto_rank_is_accurate(self):
        pooled = KernelPCA(10, kernel="rbf", gamma=4e-4).fit(DIGITS[:500])
        model = DKPCA(gamma=4e-4, parties=4).fit(DIGITS[:500])
        assert subspace_error(pooled.eigenvectors_, model.eigenvectors_) < 1e-2


class TestInputs:
    def test_dict_list_and_split_are_the_same(self):
        X = DIGITS[:80]
        left, right = X[:, :32], X[:, 32:]
        split = DKPCA(3, parties=2).fit(X)
        for tables in ([left, right], (left, right), {"party0": left, "party1": right}):
            model = DKPCA(3).fit(tables)
            np.testing.assert_array_equal(model.eigenvectors_, split.eigenvectors_)
            np.testing.assert_array_equal(model.transform(tables), split.transform(X))
        assert split.n_features_in_ == 64

    def test_data_frames_with_named_groups(self):
        frame = pd.DataFrame(DIGITS[:80, :6], columns=list("abcdef"))
        model = DKPCA(2, parties={"first": ["a", "b"], "rest": ["f", "e", "d", "c"]}).fit(frame)
        assert [entry.party for entry in model.ledger_] == ["first", "rest"]
        assert [entry.n_features for entry in model.ledger_] == [2, 4]
        assert list(model.feature_names_in_) == list("abcdef")

    def test_a_dict_of_data_frames(self):
        frame = pd.DataFrame(DIGITS[:80, 18:22], columns=list("abcd"))
        model = DKPCA(2).fit({"x": frame[["a", "b"]], "y": frame[["c", "d"]]})
        np.testing.assert_array_equal(model.eigenvectors_, DKPCA(2, parties=2).fit(frame).eigenvectors_)

    @pytest.mark.parametrize("as_list", [False, True])
    def test_set_output_names_the_components(self, as_list):
        X = DIGITS[:80]
        tables = [X[:, :32], X[:, 32:]] if as_list else {"l": X[:, :32], "r": X[:, 32:]}
        scores = DKPCA(3).set_output(transform="pandas").fit_transform(tables)
        assert list(scores.columns) == ["dkpca0", "dkpca1", "dkpca2"]

    @pytest.mark.slow
    def test_more_workers_change_nothing(self):
        one = DKPCA(3, parties=4).fit(DIGITS[:120])
        two = DKPCA(3, parties=4, n_jobs=2).fit(DIGITS[:120])
        with joblib.parallel_config(backend="threading", n_jobs=2):
            threads = DKPCA(3, parties=4).fit(DIGITS[:120])
        assert subspace_error(one.eigenvectors_, two.eigenvectors_) < 1e-20
        assert subspace_error(one.eigenvectors_, threads.eigenvectors_) < 1e-20


class TestScikitLearnCitizen:
    @pytest.mark.versions
    @pytest.mark.longer
    def test_pipeline_of_parties_with_a_grid_search_over_the_rank(self):
        X, y = load_digits(return_X_y=True)
        X, y = X[:200], y[:200]
        pipeline = make_pipeline(DKPCA(8, gamma="scale", parties=4), LogisticRegression(max_iter=1000))
        search = GridSearchCV(pipeline, {"dkpca__rank": [4, 30]}, cv=2).fit(X, y)
        assert search.best_score_ > 0.8

    def test_pipeline_on_a_dict(self):
        X, y = load_digits(return_X_y=True)
        tables = {"top": X[:200, :32], "bottom": X[:200, 32:]}
        pipeline = make_pipeline(DKPCA(8, gamma="scale"), LogisticRegression(max_iter=1000)).fit(tables, y[:200])
        assert pipeline.score(tables, y[:200]) > 0.9

    def test_clone_and_pickle(self):
        model = DKPCA(3, rank=Adaptive(1e-3), parties=2).fit(DIGITS[:60])
        assert clone(model).get_params() == model.get_params()
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.transform(DIGITS[:9]), model.transform(DIGITS[:9]))


class TestRankAndLedger:
    @pytest.mark.parametrize("rank", [7, np.int64(7), Fixed(7)])
    def test_a_number_is_a_fixed_rank(self, rank):
        assert [entry.rank for entry in DKPCA(3, rank=rank, parties=2).fit(DIGITS[:60]).ledger_] == [7, 7]

    def test_budget(self):
        model = DKPCA(3, rank=Budget(bytes=60 * 4 * 9), parties=2).fit(DIGITS[:60])
        assert [entry.rank for entry in model.ledger_] == [9, 9]

    def test_the_ledger_counts_the_bytes_of_the_message(self):
        model = DKPCA(3, rank=5, parties=2, precision="float16").fit(DIGITS[:60])
        for entry in model.ledger_:
            assert entry.bytes_sent == len(wire.encode(model.model_.summaries[entry.party]))
            assert entry.bytes_raw == 60 * 32 * 2

    def test_kernel_objects_bring_their_own_gamma(self):
        model = DKPCA(3, kernel=RBF(0.001), parties=2).fit(DIGITS[:60])
        assert model.gamma_ == 0.001
        assert model.kernel_ == RBF(0.001)


def frame_with(value):
    X = DIGITS[:30].copy()
    X[3, 4] = value
    return X


class TestErrors:
    """Each says which party and what to do."""

    @pytest.mark.parametrize(
        ("table", "words"),
        [
            (frame_with(np.nan), "party 'bank': NaN in columns 4;"),
            (frame_with(np.inf), "party 'bank': Input contains infinity"),
            (DIGITS[:30] + 1j, "party 'bank': Complex data not supported"),
            (DIGITS[:29], "parties have different numbers of rows {'airline': 30, 'bank': 29}"),
            (DIGITS[0], "party 'bank': Expected 2D array, got 1D array"),
            (np.empty((30, 0)), r"party 'bank': Found array with 0 feature\(s\)"),
            (np.empty((0, 3)), r"party 'bank': Found array with 0 sample\(s\)"),
            (pd.DataFrame({"a": ["x"] * 30}), "party 'bank': 1 column of text or categories: 'a'"),
            (None, "party 'bank': NoneType is no table in memory"),
            (pl.LazyFrame({"a": np.arange(30.0)}), "party 'bank': LazyFrame is no table in memory; pass"),
            (pd.DataFrame(index=range(30)), "party 'bank': DataFrame is no table in memory; pass"),
            (
                pd.DataFrame(DIGITS[:30]).astype(pd.SparseDtype(float, 0.0)),
                "party 'bank': Sparse data was passed",
            ),
        ],
        ids=lambda v: v if isinstance(v, str) else "",
    )
    def test_bad_table(self, table, words):
        with pytest.raises(InputError, match=words):
            DKPCA(2).fit({"airline": DIGITS[:30], "bank": table})

    def test_sparse(self):
        from scipy.sparse import csr_array

        with pytest.raises(InputError, match="party 'bank': sparse tables work only with kernel='linear'"):
            DKPCA(2).fit({"airline": DIGITS[:30], "bank": csr_array(DIGITS[:30])})

    def test_fewer_samples_than_components(self):
        with pytest.raises(InputError, match="n_components is 10, but there are 5 samples"):
            DKPCA(10, parties=2).fit(DIGITS[:5])

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            (
                {"n_components": 0},
                "n_components is 0; give a whole number of at least 1, a share between 0 and 1, or None",
            ),
            ({"n_components": 2.5}, "n_components is 2.5; give a whole number"),
            ({"n_components": True}, "n_components is True; give a whole number"),
            ({"kernel": 3}, "kernel is 3; give the name of a kernel, a kernel, or a dict"),
            ({"kernel": "fourier"}, "kernel 'fourier' is unknown here; use one of"),
            ({"gamma": -1.0}, r"gamma is -1.0; give a positive number, 'scale', a number for each .*\), or None$"),
            ({"gamma": float("inf")}, "gamma is inf; give a positive number"),
            ({"gamma": "wide"}, "gamma is 'wide'; give a positive number, 'scale'"),
            ({"gamma": True}, "gamma is True; give a positive number"),
            ({"rank": "some"}, "rank is 'some'; give 'auto', a whole number of at least 1, or rules of dkpca.rank"),
            ({"rank": 0}, "rank is 0; give 'auto'"),
            ({"rank": 2.5}, "rank is 2.5; give 'auto'"),
            ({"rank": True}, "rank is True; give 'auto'"),
            ({"center": "no"}, "center is 'no'; give true or false"),
            ({"n_landmarks": "x"}, "n_landmarks is 'x'; give a whole number of at least 1"),
            ({"n_jobs": "all"}, "n_jobs is 'all'; give a whole number other than 0, or None"),
            ({"n_jobs": 0}, "n_jobs is 0; give a whole number other than 0, or None"),
            ({"timeout": 0}, "timeout is 0; give a positive number of seconds, or None"),
            ({"max_memory": "much"}, "an amount is a number of bytes, or text such as '8GB', not 'much'"),
            ({"random_state": "x"}, "random_state is 'x'; give a whole number of at least 0, or None"),
            ({"precision": "int8"}, "precision is 'int8'; give .*'float32'"),
            ({"projection": "magic"}, "projection is 'magic'; give 'extend' or 'exact'"),
            ({"solver": "magic"}, "solver is 'magic'; give 'auto' or .*, or a solver"),
            (
                {"parties": 2.5},
                "parties is 2.5; give a whole number of at least 1, a list or dict of column groups, or None",
            ),
            ({"parties": "rna"}, "parties is 'rna'; give a whole number"),
            ({"degree": 0}, "degree is 0; give a whole number of at least 1, or None"),
            ({"degree": 2}, "degree: not a parameter of the rbf kernel"),
            ({"degree": 2, "kernel": Linear()}, "degree: not a parameter of DKPCA for kernel objects, which bring"),
            ({"parties": 65}, "parties is 65, but there are 64 columns"),
            (
                {"parties": [[0], [1]]},
                "every column exactly once, but not 2, 3, 4, 5, 6, 7, 8, 9 and 54 more",
            ),
            (
                {"parties": [list(range(64)), []]},
                r"parties\['party1'\] is \[\], which holds no name or position of a column",
            ),
            ({"parties": [["age"]]}, r"parties\['party0'\] holds 'age', which is no name or position of a column"),
            ({"parties": {"a/b": range(64)}}, "party name 'a/b' cannot be used"),
        ],
        ids=str,
    )
    def test_bad_setting(self, settings, words):
        with pytest.raises(InputError, match=words):
            DKPCA(**({"n_components": 2} | settings)).fit(DIGITS[:30])

    def test_no_party(self):
        with pytest.raises(InputError, match="no party was given"):
            DKPCA(2).fit({})

    def test_a_word_that_fit_does_not_know_is_refused(self):
        with pytest.raises(TypeError, match="unexpected keyword argument 'foo'"):
            DKPCA(2).fit_transform(DIGITS[:30], foo=1)  # type: ignore[call-arg]

    @pytest.mark.parametrize(
        ("X", "words"),
        [
            (frame_with(np.nan), "NaN in columns 4;"),
            (DIGITS[0], "Expected 2D array, got 1D array"),
            (DIGITS[:1], "minimum of 2 is required"),
            (DIGITS[:30] + 1j, "Complex data not supported"),
            (np.array([["a", "b"], ["c", "d"]]), "2 columns of text or categories: 0, 1; make numbers"),
            (np.array([[{}, 1], [2, 3]], dtype=object), "must be a string or a real number"),
            (None, "X: NoneType is no table in memory; pass an array or a DataFrame"),
            ([], "Expected 2D array, got 1D array"),
            ("a.npy", "str is no table in memory; pass an array or a DataFrame"),
            (pl.LazyFrame({"a": [1.0, 2.0, 3.0]}), "LazyFrame is no table in memory"),
        ],
        ids=lambda v: v if isinstance(v, str) else "",
    )
    def test_one_bad_table_is_our_error_too(self, X, words):
        with pytest.raises(InputError, match=words):
            DKPCA(2).fit(X)

    def test_not_fitted_is_our_error_and_that_of_scikit_learn(self, tmp_path):
        for ask in (lambda m: m.transform(DIGITS[:3]), lambda m: m.save(tmp_path / "m")):
            with pytest.raises(NotFittedError, match="This DKPCA instance is not fitted yet") as caught:
                ask(DKPCA())
            assert isinstance(caught.value, sklearn.exceptions.NotFittedError)
        assert not (tmp_path / "m").exists()

    @pytest.mark.filterwarnings("ignore:.*makes up .* of the distances")  # of three pixels at the border
    def test_transform_with_other_parties(self):
        model = DKPCA(2).fit({"a": DIGITS[:30, :3], "b": DIGITS[:30, 3:9]})
        with pytest.raises(InputError, match=r"parties \['a', 'b'\]; these samples are from \['c'\]"):
            model.transform({"c": DIGITS[:30, :3]})
        with pytest.raises(InputError, match=r"the fit had the parties .* from \['party0'\]"):
            model.transform(DIGITS[:30, :9])
        with pytest.raises(InputError, match="party 'b': the fit had 6 columns of .*, and these samples have 5 of"):
            model.transform({"a": DIGITS[:30, :3], "b": DIGITS[:30, 3:8]})
