"""The labels of samples stay with them: in scores, files and pickles, and where scikit-learn cuts tables."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import dkpca
from dkpca import DKPCA, Tables
from dkpca.errors import DataWarning, InputError

WINE, KIND = load_wine(return_X_y=True)
PATIENTS = [f"p{number:03d}" for number in range(len(WINE))]
FRAME = pd.DataFrame(WINE, index=PATIENTS, columns=[f"c{j}" for j in range(13)])
SIDES = {"left": FRAME.iloc[:, :6], "right": FRAME.iloc[:, 6:]}


@pytest.fixture
def model():
    return DKPCA(3, standardize=True)


def test_a_table_of_scores_has_the_labels_by_which_rows_were_matched(model):
    diagnosis = pd.Series(KIND, index=PATIENTS, name="kind").sample(frac=1.0, random_state=0)
    shuffled = {"left": SIDES["left"], "right": SIDES["right"].sample(frac=1.0, random_state=1)}
    with pytest.warns(DataWarning, match="its rows were put into the order of party 'left'"):
        scores = model.set_output(transform="pandas").fit_transform(shuffled)
    assert list(scores.index) == PATIENTS
    assert scores.join(diagnosis)["kind"].tolist() == KIND.tolist()
    placed = model.transform({name: table.iloc[5:9] for name, table in SIDES.items()})
    assert list(placed.index) == PATIENTS[5:9]
    assert np.allclose(placed, scores.iloc[5:9], atol=1e-4)


def test_one_table_and_ids_beside_arrays_are_labels_too(model):
    assert list(model.set_output(transform="pandas").fit_transform(FRAME).index) == PATIENTS
    sides = {name: table.to_numpy() for name, table in SIDES.items()}
    scores = model.fit_transform(sides, sample_ids=PATIENTS)
    assert list(scores.index) == PATIENTS == list(model.sample_ids_)


def test_without_labels_the_ids_are_row_numbers(model):
    model.fit({name: table.to_numpy() for name, table in SIDES.items()})
    assert model.sample_ids_.tolist() == list(range(len(WINE)))


def test_ids_for_another_number_of_rows_are_refused(model):
    with pytest.raises(InputError, match="2 sample ids for 178 rows"):
        model.fit(WINE, sample_ids=["a", "b"])


@pytest.mark.parametrize("labels", [PATIENTS, list(range(500, 678))], ids=["text", "numbers"])
def test_saved_and_pickled_models_keep_their_ids(model, labels, tmp_path):
    model.fit({name: table.set_axis(labels) for name, table in SIDES.items()})
    model.save(tmp_path / "model")
    for again in (DKPCA.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        assert list(again.sample_ids_) == labels


def test_labels_that_json_does_not_know_are_saved_as_text(model, tmp_path):
    days = pd.date_range("2026-01-01", periods=len(WINE))
    model.fit({name: table.set_axis(days) for name, table in SIDES.items()}).save(tmp_path / "model")
    assert DKPCA.load(tmp_path / "model").sample_ids_[0] == str(days[0])


class TestTables:
    @pytest.mark.versions
    @pytest.mark.longer
    def test_scikit_learn_cuts_all_parties_alike(self):
        tables = Tables(SIDES)
        search = GridSearchCV(DKPCA(3, standardize=True), {"n_components": [1, 3]}, cv=3).fit(tables)
        assert search.best_params_ == {"n_components": 3}
        learner = make_pipeline(DKPCA(5, standardize=True), LogisticRegression())
        assert cross_val_score(learner, tables, KIND, cv=3).mean() > 0.9
        one_table = make_pipeline(
            DKPCA(5, standardize=True, parties={"left": range(6), "right": range(6, 13)}),
            LogisticRegression(),
        )
        assert cross_val_score(learner, tables, KIND, cv=3) == pytest.approx(
            cross_val_score(one_table, WINE, KIND, cv=3)
        )

    @pytest.mark.parametrize("rows", [[3, 1], np.array([3, 1]), slice(2, 4), np.arange(178) < 2], ids=str)
    def test_rows_of_all_tables(self, rows):
        cut = Tables({"frame": FRAME, "array": WINE})[rows]
        assert np.array_equal(cut["frame"].to_numpy(), WINE[rows])
        assert np.array_equal(cut["array"], WINE[rows])
        assert cut.shape == (2, 26)

    def test_rows_are_matched_by_their_labels_once(self):
        with pytest.warns(DataWarning, match="its rows were put into the order"):
            tables = Tables({"left": SIDES["left"], "right": SIDES["right"].iloc[::-1]})
        assert list(tables["right"].index) == PATIENTS

    @pytest.mark.parametrize(
        ("given", "words"),
        [
            ({}, "Tables takes one table for each party"),
            (WINE, "Tables takes one table for each party"),
            ({"a": "table.npy"}, "Tables takes one table for each party"),
            ({"a": WINE, "b": WINE[:3]}, "parties have different numbers of rows"),
        ],
    )
    def test_what_cannot_be_cut_is_refused(self, given, words):
        with pytest.raises(InputError, match=words):
            Tables(given)

    def test_it_is_public(self):
        assert dkpca.Tables is Tables


def test_parties_that_differ_have_no_common_width_or_kernel():
    model = DKPCA(2, kernel={"left": "rbf", "right": "linear"}, law="sum", gamma={"left": 0.1}, standardize=True).fit(
        SIDES
    )
    assert model.gamma_ is None
    assert model.kernel_ is None
    assert model.gammas_ == {"left": 0.1, "right": None}
    assert {name: kernel.name for name, kernel in model.kernels_.items()} == {"left": "rbf", "right": "linear"}
    widths = DKPCA(2, gamma={"left": 0.1, "right": 0.2}, standardize=True).fit(SIDES)
    assert (widths.gamma_, widths.gammas_) == (None, {"left": 0.1, "right": 0.2})
    same = DKPCA(2, gamma=0.1, standardize=True).fit(SIDES)
    assert (same.gamma_, same.gammas_) == (0.1, {"left": 0.1, "right": 0.1})


@pytest.mark.parametrize("protect", ["sums", "blind"])
def test_protected_fits_say_their_widths_by_party(protect):
    law = "sum" if protect == "blind" else None
    model = DKPCA(2, gamma=0.1, protect=protect, standardize=True, law=law).fit(SIDES)
    assert model.gammas_ == {"left": 0.1, "right": 0.1}


class TestAuditAfterTheFit:
    def test_it_is_the_audit_of_the_fit(self, model):
        later = model.fit(SIDES).run_audit(20).certificate_.audit
        assert later == DKPCA(3, standardize=True, audit=20).fit(SIDES).certificate_.audit
        assert model.model_.certificate.audit == later

    def test_a_model_from_a_file_needs_the_tables(self, model, tmp_path):
        model.fit(SIDES).save(tmp_path / "model")
        again = DKPCA.load(tmp_path / "model")
        with pytest.raises(InputError, match="run_audit needs the tables of the fit"):
            again.run_audit(20)
        assert again.run_audit(20, SIDES).certificate_.audit == model.run_audit(20).certificate_.audit

    def test_other_tables_are_refused(self, model):
        model.fit(SIDES)
        fewer, others, reordered = (
            {name: change(table) for name, table in SIDES.items()}
            for change in (lambda t: t.iloc[:50], lambda t: t.rename(index="x{}".format), lambda t: t.iloc[::-1])
        )
        for X in (fewer, others, reordered):
            for method in (partial(model.run_audit, 20), model.column_importance, model.column_association):
                with pytest.raises(InputError, match="X needs the samples of the fit in their order; arrange"):
                    method(X)

    def test_columns_are_found_by_their_names(self, model):
        expected = model.fit(SIDES).column_importance()
        swapped = {name: table.iloc[:, ::-1] for name, table in SIDES.items()}
        for name, values in model.column_importance(swapped).items():
            np.testing.assert_array_equal(values, expected[name])

    def test_a_number_of_rows_that_is_none_is_refused(self, model):
        with pytest.raises(InputError, match="audit is 0; give a whole number"):
            model.fit(SIDES).run_audit(0)

    def test_a_protected_fit_is_refused(self):
        with pytest.raises(InputError, match="run_audit is for fits with protect='none'"):
            DKPCA(2, gamma=0.1, protect="sums", standardize=True).fit(SIDES).run_audit(5)
