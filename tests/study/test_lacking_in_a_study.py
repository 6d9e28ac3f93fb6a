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


def test_complete_is_refused_where_the_center_sees_no_rows(tmp_path):
    with pytest.raises(InputError, match="the center sees no party's rows; use lacking='drop'"):
        Consortium(tmp_path, tables(), MODES["sums"] | {"lacking": "complete"})


PROTECTED: dict[str, dict[str, Any]] = {
    "blind": {"protect": "blind", "kernel": "linear", "precision": "float64", "n_components": 3},
    "blind, widths": {"protect": "blind", "law": "sum", "gamma": 0.05, "precision": "float64", "n_components": 3},
}


def at_two():
    """Tables in which each party lacks samples, but none that another one lacks too."""
    made = tables()
    lacked = {name: {f"s{row}" for row in range(4 * j, 4 * j + 4)} for j, name in enumerate(made)}
    kept = {
        name: [row for row, each in enumerate(ids) if each not in lacked[name]] for name, (ids, _) in made.items()
    }
    return {name: ([ids[row] for row in kept[name]], X[kept[name]]) for name, (ids, X) in made.items()}


def padded_kernels(given, kernel):
    """Sum of the parties' matrices, with the mean of phi in the place of samples that they lack."""
    from sklearn.metrics.pairwise import pairwise_kernels

    ids = sorted(set().union(*(own for own, _ in given.values())))
    padded = []
    for own, X in given.values():
        W = np.full((len(ids), len(own)), 1.0 / len(own))
        for row, each in enumerate(ids):
            if each in own:
                W[row] = np.arange(len(own)) == own.index(each)
        padded.append(W @ pairwise_kernels(X, **kernel) @ W.T)
    return ids, np.sum(padded, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", PROTECTED)
def test_mean_under_protection_is_kernel_pca_of_the_padded_kernels(mode, tmp_path):
    import pandas as pd
    from sklearn.decomposition import KernelPCA

    from dkpca import DKPCA

    given, settings = at_two(), PROTECTED[mode]
    kernel = {"metric": "rbf", "gamma": 0.05} if "gamma" in settings else {"metric": "linear"}
    ids, total = padded_kernels(given, kernel)
    expected = KernelPCA(3, kernel="precomputed").fit_transform(total)
    frames = {name: pd.DataFrame(X, index=own) for name, (own, X) in given.items()}
    model = DKPCA(**settings, rank=60, lacking="mean")
    scores = dict(zip(model.fit(frames).sample_ids_, model.fit_transform(frames), strict=True))
    found = np.array([scores[each] for each in ids])
    largest = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(np.abs(found) / largest, np.abs(expected) / largest, atol=1e-12)
    consortium = Consortium(tmp_path, given, settings | {"rank": 60, "lacking": "mean"}, align="psi", samples=10)
    consortium.join(**ANYTHING).sign().finish()
    for name in consortium.names:
        own, values = consortium.embedding(name)
        assert set(own) == set(given[name][0])
        wanted = np.array([expected[ids.index(each)] for each in own])
        np.testing.assert_allclose(np.abs(values) / largest, np.abs(wanted) / largest, atol=1e-12)


def test_masked_sums_have_no_mean_row(tmp_path):
    with pytest.raises(InputError, match="would show one party's numbers for each sample that the others lack"):
        Consortium(tmp_path, tables(), MODES["sums"] | {"lacking": "mean"})


@pytest.mark.longer
def test_too_few_common_samples_are_refused(tmp_path):
    given = tables(shared=False)
    consortium = Consortium(tmp_path, given, OPEN | {"lacking": "mean"}, align="psi", samples=59)
    consortium.join(**ANYTHING).sign()
    with pytest.raises(RefusedError, match="fewer than the 59 agreed on"):
        consortium.finish()
