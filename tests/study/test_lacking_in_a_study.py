"""Samples that a party lacks, in a study: the plan says what stands in their place."""

import json
from typing import Any

import numpy as np
import pytest

from dkpca.errors import InputError
from dkpca.exchange import study
from dkpca.exchange.member import RefusedError
from testkit.studies import ANYTHING, Consortium

from .test_a_study import MODES, in_one_process, tables

OPEN: dict[str, Any] = {"gamma": 0.05, "n_components": 3}


def kept(root, lacking, align, **fit):
    given = tables(shared=False)
    consortium = Consortium(root, given, OPEN | {"lacking": lacking} | fit, align=align, samples=10)
    consortium.join(**ANYTHING).sign().finish()
    return given, consortium


@pytest.mark.longer
@pytest.mark.parametrize(
    ("lacking", "align"),
    [
        ("complete", "tokens"),
        pytest.param("complete", "psi", marks=pytest.mark.slow),
        pytest.param("mean", "psi", marks=pytest.mark.slow),
    ],
)
def test_a_study_keeps_all_samples_as_the_estimator_does(lacking, align, tmp_path):
    import pandas as pd

    from dkpca import DKPCA

    given, consortium = kept(tmp_path, lacking, align)
    frames = {name: pd.DataFrame(X, index=ids) for name, (ids, X) in given.items()}
    model = DKPCA(**OPEN, lacking=lacking).fit(frames)
    expected = dict(zip(model.sample_ids_, np.asarray(model.model_.scores), strict=True))
    for name in consortium.names:
        ids, scores = consortium.embedding(name)
        assert set(ids) == set(given[name][0])  # its own samples, and nobody else's
        wanted = np.array([expected[each] for each in ids])
        np.testing.assert_allclose(np.abs(scores), np.abs(wanted), atol=1e-4)
    center, scores = consortium.embedding("center")
    assert len(center) == len(expected)
    assert not set(center) & set(expected)
    assert np.array_equal(scores, np.asarray(in_one_process(consortium).scores))
    certificate = json.loads((tmp_path / "center/result/certificate.json").read_text())
    assert certificate["completed"]["mode"] == lacking


def test_review_says_what_the_center_learns(tmp_path):
    consortium = Consortium(tmp_path, tables(shared=False), OPEN | {"lacking": "complete"}, samples=10)
    told = "\n".join(consortium.join(**ANYTHING).at("airline", study.review).words())
    assert "your table" not in "\n".join(consortium.at("center", study.review).words())  # which has none
    assert "center learns which samples are missing from your table, and what the others predict about them" in told


@pytest.mark.parametrize("mode", ["mean", "complete"])
def test_they_are_refused_where_the_center_sees_no_rows(mode, tmp_path):
    with pytest.raises(InputError, match="cannot hide the others' numbers for them; use lacking='drop'"):
        Consortium(tmp_path, tables(), MODES["sums"] | {"lacking": mode})


@pytest.mark.longer
def test_too_few_common_samples_are_refused(tmp_path):
    given = tables(shared=False)
    consortium = Consortium(tmp_path, given, OPEN | {"lacking": "mean"}, align="psi", samples=59)
    consortium.join(**ANYTHING).sign()
    with pytest.raises(RefusedError, match="fewer than the 59 agreed on"):
        consortium.finish()
