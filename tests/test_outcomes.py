"""Labels at whoever holds them: corrected tests against the components."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats

from dkpca import DKPCA
from dkpca.analysis.outcomes import outcomes, words
from dkpca.errors import InputError

RNG = np.random.default_rng(0)
BLOBS = np.vstack([RNG.normal(center, 0.4, (40, 2)) for center in ((0, 0), (5, 0), (0, 5))])


class TestAssociations:
    def test_p_values_are_scipys_and_corrected_over_all_tests(self):
        scores = RNG.normal(size=(60, 3))
        labels = {"number": scores[:, 1] + RNG.normal(size=60), "class": np.repeat(["a", "b", "c"], 20)}
        tested = outcomes(scores, labels)
        found = tested.associations
        assert tested.notes == ()
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
        found = outcomes(scores, {"few": few, "one": one, "holes": holes})
        assert [a.label for a in found.associations] == ["holes"]
        assert found.associations[0].effect == pytest.approx(1.0)
        assert len(found.notes) == 2

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


@pytest.mark.versions
@pytest.mark.longer
def test_the_page_of_a_model_has_all_of_it(tmp_path):
    ids = [f"s{i}" for i in range(120)]
    X = pd.DataFrame(np.hstack([BLOBS, BLOBS**2]), index=ids, columns=list("abcd"))
    group = np.repeat(["x", "y", "z"], 40)
    labels = pd.DataFrame({"group": group, "a": X["a"]}, index=ids).sample(frac=1.0)
    model = DKPCA(2).fit({"one": X[["a", "b"]], "two": X[["c", "d"]]})
    model.report(tmp_path / "page.html", labels=labels)
    page = (tmp_path / "page.html").read_text()
    for words_of_page in (
        "is associated with group (Kruskal-Wallis",
        "Label &#x27;a&#x27; was a column of the fit",
        "Which party agrees with which",
    ):
        assert words_of_page in page
    with pytest.raises(InputError, match="labels have no row for 1 of 120 samples"):
        model.report(tmp_path / "other.html", labels=labels.drop("s3"))
    with pytest.raises(InputError, match="no row for 120 of 120 samples"):
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
