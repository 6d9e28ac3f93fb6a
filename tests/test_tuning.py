"""Curves for a choice: judged as scikit-learn judges, the same each time, refused where they would mislead."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dkpca import DKPCA, kernels, tune
from dkpca.errors import InputError

WINE, KIND = (values[::2] for values in load_wine(return_X_y=True))  # 89 samples
WINE = (WINE - WINE.mean(axis=0)) / WINE.std(axis=0)
QUICK: dict[str, Any] = {"gammas": [0.02, 0.2], "repeats": 1}
QUICKEST: dict[str, Any] = QUICK | {"gammas": [0.02]}


def parties(X=WINE):
    return {"acids": X[:, :6], "rest": X[:, 6:]}


@pytest.fixture(scope="module")
def found():
    return tune(DKPCA(4), parties(), KIND, gammas=[0.02, 5.0, 500.0], repeats=2)


@pytest.mark.longer
class TestStability:
    def test_structure_is_more_stable_than_noise(self):
        rng = np.random.default_rng(3)
        real = np.repeat(rng.normal(size=(3, 8)), 40, axis=0) * 4 + rng.normal(size=(120, 8))
        structured, noise = (
            tune(DKPCA(2), {"a": X[:, :4], "b": X[:, 4:]}, **QUICKEST).widths[1].stability
            for X in (real, rng.normal(size=(120, 8)))
        )
        assert structured > 0.95
        assert noise < 0.7


@pytest.mark.longer
class TestJudgment:
    def test_captured_is_what_the_fit_says(self, found):
        fitted = DKPCA(4, gamma=0.02).fit(parties())
        assert found.widths[1].captured == pytest.approx(fitted.explained_variance_ratio_.sum())

    def test_classes_are_scored_as_scikit_learn_scores_a_pipeline(self, found):
        both = DKPCA(4, gamma=0.02, parties=[list(range(6)), list(range(6, 13))])
        pipeline = make_pipeline(both, StandardScaler(), LogisticRegression(max_iter=1000))
        folds = StratifiedKFold(5, shuffle=True, random_state=0)
        trusted = cross_val_score(pipeline, WINE, KIND, cv=folds, scoring="balanced_accuracy")
        assert found.widths[1].score == pytest.approx(trusted.mean())
        assert found.widths[1].score_error == pytest.approx(trusted.std(ddof=1) / 5**0.5)

    @pytest.mark.slow
    def test_numbers_are_scored_as_scikit_learn_scores_a_pipeline(self):
        tried = tune(DKPCA(3), {"rest": WINE[:, 1:]}, WINE[:, 0], **QUICK)
        pipeline = make_pipeline(DKPCA(3, gamma=0.02), StandardScaler(), Ridge())
        trusted = cross_val_score(pipeline, WINE[:, 1:], WINE[:, 0], cv=KFold(5, shuffle=True, random_state=0))
        assert tried.widths[1].score == pytest.approx(trusted.mean())
        assert "R2 of ridge regression" in tried.scored_by

    @pytest.mark.slow
    def test_labels_without_meaning_score_by_chance(self):
        shuffled = np.random.default_rng(0).permutation(KIND)
        tried = tune(DKPCA(3), parties(), shuffled, **QUICK)
        assert [point.score for point in tried.widths[1:]] == pytest.approx([1 / 3, 1 / 3], abs=0.12)

    def test_more_components_capture_more(self, found):
        captured = [point.captured for point in found.components]
        assert captured == sorted(captured)
        assert [point.settings["n_components"] for point in found.components] == [1, 2, 3, 4]


@pytest.mark.longer
class TestSuggestion:
    def test_a_kernel_that_shows_nothing_is_never_suggested(self, found):
        assert "nearly diagonal" in found.widths[3].warnings[0]
        assert found.suggested["gamma"] == 0.02
        assert "the suggested gamma is the smallest that was tried" in found.notes[-1]

    def test_the_widths_begin_at_a_64th_of_the_usual_one_and_linear_is_tried(self):
        tried = tune(DKPCA(2), parties(), repeats=1)
        usual = DKPCA(2, gamma="scale").fit(parties()).gamma_
        assert usual is not None
        linear, *widths = tried.widths
        assert widths[0].settings["gamma"] == pytest.approx(usual / 64, rel=1e-3)
        assert linear.settings == {"kernel": "linear", "gamma": None}
        plain = DKPCA(2, kernel="linear").fit(parties())
        assert linear.captured == pytest.approx(plain.explained_variance_ratio_.sum())

    def test_the_linear_kernel_is_suggested_where_it_predicts_clearly_better(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 2))
        side = X[:, 0] > 0  # a width far too large shows nothing of it
        tried = tune(DKPCA(2), {"a": X}, side, gammas=[50.0], repeats=1)
        assert tried.suggested["kernel"] == "linear"
        DKPCA(**tried.suggested).fit({"a": X})

    def test_weights_are_suggested_where_they_predict_clearly_better(self):
        rng = np.random.default_rng(1)
        groups = np.repeat([0.0, 1.0], 40)
        small = (groups[:, None] * 6 + rng.normal(size=(80, 1))) / 100  # hidden under the noise of the other party
        tables = {"small": small, "large": rng.normal(size=(80, 30))}
        tried = tune(DKPCA(1), tables, groups, gammas=[0.02], repeats=1)
        assert tried.suggested["weights"] == "balanced"

    def test_what_is_suggested_can_be_fitted(self, found):
        assert DKPCA(**found.suggested).fit(parties()).eigenvalues_.shape == (found.suggested["n_components"],)
        best = max(choice.score for choice in found.components)
        fewest = found.components[found.suggested["n_components"] - 1]
        assert fewest.score >= best - max(choice.score_error for choice in found.components)


class TestAnswer:
    @pytest.mark.slow
    def test_the_same_question_has_the_same_answer(self):
        one, other = (tune(DKPCA(2), parties(), KIND, max_samples=60, folds=2, **QUICKEST) for _ in range(2))
        assert one.to_dict() == other.to_dict()
        assert (one.n_samples, one.n_samples_given) == (60, 89)

    @pytest.mark.longer
    def test_what_protects_messages_changes_no_curve(self):
        plain, protected = (tune(DKPCA(2, protect=mode), parties(), **QUICKEST) for mode in ("none", "sums"))
        assert plain.to_dict() == protected.to_dict()

    @pytest.mark.slow
    def test_the_ways_to_weigh_parties_are_compared(self, found):
        assert [choice.name for choice in found.weights] == ["as given", "product, balanced", "sum, balanced"]
        balanced = DKPCA(4, law="sum", weights="balanced").fit(parties())
        assert found.weights[2].captured == pytest.approx(balanced.explained_variance_ratio_.sum())

    def test_a_kernel_without_a_width_has_no_curve_over_gamma(self):
        tried = tune(DKPCA(2, kernel="linear"), parties(), repeats=1)
        assert tried.widths == ()
        assert "gamma" not in tried.suggested
        assert "no curve over gamma" in tried.notes[0]

    @pytest.mark.slow
    def test_labels_that_are_missing_or_rare_are_left_out_and_said(self):
        labels = np.array([f"kind {k}" for k in KIND], dtype=object)
        labels[:10], labels[10:12] = None, "rare"
        tried = tune(DKPCA(2), parties(), labels, **QUICKEST)
        assert tried.notes == (
            "10 samples have no label, and are not predicted",
            "classes with fewer than 5 samples are not predicted: rare",
        )


@pytest.fixture(scope="module")
def of_common():
    return tune(DKPCA(2), parties(WINE[5:]), KIND[5:], **QUICKEST)


@pytest.mark.longer
@pytest.mark.parametrize("lacking", ["drop", "mean", "complete"])
def test_samples_that_a_party_lacks_are_left_out_and_said(lacking, of_common):
    acids, rest = (pd.DataFrame(X, index=[f"w{i}" for i in range(89)]) for X in parties().values())
    kind = pd.Series(KIND, index=acids.index).sample(frac=1, random_state=0)
    some = {"acids": acids, "rest": rest[5:][::-1]}
    with pytest.raises(InputError, match="keep the common ones with lacking='drop'"):
        tune(DKPCA(2), some, **QUICKEST)
    with pytest.raises(InputError, match="values of y have no labels, and rows were dropped"):
        tune(DKPCA(2, lacking=lacking), some, KIND, **QUICKEST)
    found = tune(DKPCA(2, lacking=lacking), some, kind, **QUICKEST)
    assert found.notes[0] == "using the 84 samples that all tables have (acids has 89, rest has 84)"
    assert (found.n_samples, found.widths, found.weights) == (84, of_common.widths, of_common.weights)


@pytest.mark.parametrize(
    ("model", "X", "y", "settings", "words"),
    [
        (DKPCA(4), WINE[:15], None, {}, "15 samples are too few to try 4 components"),
        (DKPCA(4), WINE, KIND[:5], {}, "labels for 89 samples; give one for each"),
        (DKPCA(4), WINE, np.zeros(89), {}, "the labels have 1 classes with at least 5 samples"),
        (
            DKPCA(4),
            WINE,
            np.where(np.arange(89) < 25, np.arange(89.0), np.nan),
            {"folds": 13},
            "25 different numbers, too few for 13",
        ),
        (DKPCA(4), WINE, None, {"gammas": [0.1, -1.0]}, "give positive numbers"),
        (DKPCA(4), WINE, None, {"gammas": []}, "give positive numbers"),
        (DKPCA(4), WINE, None, {"repeats": 0}, "repeats is 0"),
        (DKPCA(4), WINE, None, {"folds": 1}, "folds is 1"),
        (
            DKPCA().set_params(n_components=0.9),
            WINE,
            None,
            {},
            "n_components is 0.9; give a whole number of at least 1",
        ),
        (DKPCA(4, kernel="linear"), WINE, None, {"gammas": [1.0]}, "leave the widths out"),
        (DKPCA(4, kernel=kernels.RBF(0.1)), WINE, None, {"gammas": [1.0]}, "leave the widths out"),
        (DKPCA(4, kernel="precomputed"), WINE @ WINE.T, None, {}, "tune needs columns"),
        (DKPCA(4), {"a": "a.npy"}, None, {}, "tune needs the tables themselves"),
    ],
)
def test_what_would_mislead_is_refused(model, X, y, settings, words):
    with pytest.raises(InputError, match=words):
        tune(model, X, y, **settings)
