"""Outcomes at the label holder: corrected tests, stable clusters, survival as lifelines has it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats
from lifelines import CoxPHFitter, KaplanMeierFitter
from lifelines.datasets import load_rossi
from lifelines.statistics import multivariate_logrank_test

from dkpca import DKPCA
from dkpca.analysis.outcomes import associations, find_clusters, outcomes, survive, words
from dkpca.errors import InputError

pytestmark = [  # lifelines is older than the newest NumPy and pandas
    pytest.mark.filterwarnings("ignore:Starting with pandas version 4"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:lifelines.*"),
]

RNG = np.random.default_rng(0)
BLOBS = np.vstack([RNG.normal(center, 0.4, (40, 2)) for center in ((0, 0), (5, 0), (0, 5))])


class TestAssociations:
    def test_p_values_are_scipys_and_corrected_over_all_tests(self):
        scores = RNG.normal(size=(60, 3))
        labels = {"number": scores[:, 1] + RNG.normal(size=60), "class": np.repeat(["a", "b", "c"], 20)}
        found, notes = associations(scores, labels)
        assert notes == []
        assert [(a.label, a.component) for a in found] == [(n, d) for n in labels for d in (1, 2, 3)]
        number = scipy.stats.spearmanr(scores[:, 1], labels["number"])
        assert found[1].p == pytest.approx(number.pvalue)
        assert found[1].effect == pytest.approx(number.statistic)
        assert found[1].corrected == pytest.approx(min(1.0, 6 * number.pvalue))
        classes = scipy.stats.kruskal(*(scores[20 * k : 20 * k + 20, 0] for k in range(3)))
        assert found[3].p == pytest.approx(classes.pvalue)
        assert all(a.corrected >= a.p for a in found)

    def test_missing_values_are_left_out_and_too_few_are_said(self):
        scores = RNG.normal(size=(40, 1))
        few, one = [*range(5), *([None] * 35)], ["same"] * 40
        holes = [None if i % 4 == 0 else float(scores[i, 0]) for i in range(40)]
        found, notes = associations(scores, {"few": few, "one": one, "holes": holes})
        assert [a.label for a in found] == ["holes"]
        assert found[0].effect == pytest.approx(1.0)
        assert len(notes) == 2

    def test_noise_is_no_finding_and_a_column_of_the_fit_is_circular(self):
        found = outcomes(RNG.normal(size=(50, 2)), {"noise": RNG.normal(size=50)}, in_fit=["noise"])
        assert "no label is associated with a component beyond chance" in words(found)
        assert "label 'noise' was a column of the fit: its association with the components is circular" in words(
            found
        )

    @pytest.mark.parametrize("in_fit", [["sex = f", "sex = m"], ["sex=f", "sex=m"]], ids="of {0[0]}".format)
    def test_text_of_the_fit_is_circular_by_the_name_of_its_column(self, in_fit):
        found = outcomes(RNG.normal(size=(50, 2)), {"sex": ["f", "m"] * 25}, in_fit=in_fit)
        assert "label 'sex' was a column of the fit: its association with the components is circular" in words(found)

    @pytest.mark.longer
    def test_a_p_value_that_underflows_is_a_bound(self):
        scores = RNG.normal(size=(900, 1))
        found = outcomes(scores, {"same": scores[:, 0]})
        assert found.associations[0].p == 0.0
        assert "component 1 is associated with same (Spearman, effect 1.00, corrected p < 0.001)" in words(found)


class TestClusters:
    def test_three_blobs_are_three_stable_clusters(self):
        found = find_clusters(BLOBS)
        assert found.count == 3
        assert found.stability[3] > 0.99
        assert [len(set(found.labels[40 * k : 40 * k + 40])) for k in range(3)] == [1, 1, 1]
        np.testing.assert_array_equal(found.of(BLOBS), found.labels)

    @pytest.mark.longer
    def test_one_cloud_has_no_stable_ones(self):
        found = outcomes(RNG.normal(size=(120, 4)), {})
        assert any("not stable, so that they may be no groups" in sentence for sentence in words(found))


class TestSurvival:
    @pytest.fixture
    def rossi(self):
        data = load_rossi()
        scores = data[["age", "prio", "wexp"]].to_numpy(dtype=float)
        return scores, data["week"].to_numpy(dtype=float), data["arrest"].to_numpy(dtype=float)

    @pytest.mark.longer
    def test_curves_log_rank_and_cox_are_those_of_lifelines(self, rossi):
        scores, time, event = rossi
        clusters = find_clusters(scores)
        found = survive(scores, clusters, time, event)
        groups = clusters.of(scores)
        for group in np.unique(groups):
            own = KaplanMeierFitter().fit(time[groups == group], event[groups == group]).survival_function_
            np.testing.assert_allclose(found.curves[f"cluster {group}"][1], own.iloc[:, 0])
        assert found.logrank_p == pytest.approx(multivariate_logrank_test(time, groups, event).p_value)
        frame = pd.DataFrame(scores / scores.std(axis=0), columns=["a", "b", "c"]).assign(time=time, event=event)
        cox = CoxPHFitter().fit(frame, "time", "event")
        np.testing.assert_allclose([ratio for ratio, _, _ in found.hazards.values()], cox.hazard_ratios_.to_numpy())
        np.testing.assert_allclose([p for _, p, _ in found.hazards.values()], cox.summary["p"].to_numpy())
        assert all(corrected >= p for _, p, corrected in found.hazards.values())

    def test_components_are_no_more_than_events_allow(self, rossi):
        scores, time, event = rossi
        few = np.where(np.cumsum(event) <= 25, event, 0.0)
        found = survive(scores, None, time, few)
        assert list(found.hazards) == ["component 1", "component 2"]
        assert "Cox regression on the first 2 components: 25 events allow no more" in found.notes

    @pytest.mark.longer
    def test_too_few_events_are_a_sentence_and_no_number(self, rossi):
        scores, time, event = rossi
        found = survive(scores, find_clusters(scores), time, np.where(np.cumsum(event) <= 9, event, 0.0))
        assert (found.curves, found.logrank_p, found.hazards) == ({}, None, {})
        assert found.notes == ("9 events are too few to compare survival: it needs 10",)

    @pytest.mark.longer
    def test_what_is_no_survival_is_refused(self, rossi):
        scores, time, event = rossi
        with pytest.raises(InputError, match="events 0 or 1"):
            survive(scores, None, time, event + 1)
        with pytest.raises(InputError, match="there is no column 'when' among the labels"):
            outcomes(scores, {"event": event}, survival=("when", "event"))
        with pytest.raises(InputError, match="needs a column of times and one of events"):
            outcomes(scores, {"when": ["soon"] * len(scores), "event": event}, survival=("when", "event"))


@pytest.mark.longer
def test_the_page_of_a_model_has_all_of_it(tmp_path):
    ids = [f"s{i}" for i in range(120)]
    X = pd.DataFrame(np.hstack([BLOBS, BLOBS**2]), index=ids, columns=list("abcd"))
    group = np.repeat(["x", "y", "z"], 40)
    time = RNG.exponential(np.where(group == "x", 10.0, 1.0))
    labels = pd.DataFrame({"group": group, "a": X["a"], "time": time, "event": 1}, index=ids).sample(frac=1.0)
    model = DKPCA(2).fit({"one": X[["a", "b"]], "two": X[["c", "d"]]})
    model.report(tmp_path / "page.html", labels=labels, survival=("time", "event"))
    page = (tmp_path / "page.html").read_text()
    for words_of_page in (
        "is associated with group (Kruskal-Wallis",
        "Difference in survival between clusters: p &lt; 0.001 (log-rank)",
        "Label &#x27;a&#x27; was a column of the fit",
        'id="survival-chart-0"',
        '"survival":[{"cluster 1":[[0.0,',
        "Which party agrees with which",
        "share of all variance",
    ):
        assert words_of_page in page
    with pytest.raises(InputError, match="labels have no row for 1 of 120 samples"):
        model.report(tmp_path / "other.html", labels=labels.drop("s3"))
    with pytest.raises(InputError, match=r"no row for 120 of 120 .* or labels.reset_index\(drop=True\) if"):
        model.report(tmp_path / "other.html", labels=labels.set_axis(labels.index.str.upper()))
    model.report(tmp_path / "numbered.html", labels=labels.loc[ids].reset_index(drop=True))
    model.report(tmp_path / "named.html", labels=labels)
    assert (tmp_path / "numbered.html").read_text() == (tmp_path / "named.html").read_text()
    for name, column in {"label": group, "group": labels["group"]}.items():
        model.report(tmp_path / "one.html", labels=column)
        assert f"is associated with {name} (Kruskal-Wallis" in (tmp_path / "one.html").read_text()
    with pytest.raises(InputError, match=r"labels have the shape \(120, 4\); give one column"):
        model.report(tmp_path / "other.html", labels=X.to_numpy())
    blind = DKPCA(2, law="sum", protect="blind").fit({"one": X[["a", "b"]], "two": X[["c", "d"]]})
    with pytest.raises(InputError, match="a report of a blind fit is drawn by a party"):
        blind.report(tmp_path / "other.html")


def test_labels_may_be_a_table_of_polars(tmp_path):
    group = np.repeat(["x", "y", "z"], 40)
    DKPCA(2, parties=2).fit(BLOBS).report(tmp_path / "page.html", labels=pl.DataFrame({"group": group}))
    assert "is associated with group (Kruskal-Wallis" in (tmp_path / "page.html").read_text()
