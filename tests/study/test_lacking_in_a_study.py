"""Samples that a party lacks, in a study: the plan says what stands in their place."""

import json
from typing import Any

import numpy as np
import pytest

from dkpca.errors import InputError
from dkpca.exchange import study
from dkpca.exchange.member import RefusedError
from testkit.studies import ANYTHING, Consortium

from .test_a_study import MODES, in_one_process, put_new, tables

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
    with pytest.raises(InputError, match="the center sees no party's rows; use lacking='mean' or 'drop'"):
        Consortium(tmp_path, tables(), MODES["sums"] | {"lacking": "complete"})


PROTECTED: dict[str, dict[str, Any]] = {
    "sums": {"protect": "sums", "kernel": "linear", "precision": "float64", "n_components": 3},
    "sums of distances": {"protect": "sums", "gamma": 0.05, "precision": "float64", "n_components": 3},
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


def padded_kernels(given, kernel, together):
    """Sum or product of the parties' matrices, with the mean of phi in the place of samples that they lack."""
    from sklearn.metrics.pairwise import pairwise_kernels

    ids = sorted(set().union(*(own for own, _ in given.values())))
    padded = []
    for own, X in given.values():
        W = np.full((len(ids), len(own)), 1.0 / len(own))
        for row, each in enumerate(ids):
            if each in own:
                W[row] = np.arange(len(own)) == own.index(each)
        padded.append(W @ pairwise_kernels(X, **kernel) @ W.T)
    return ids, together(padded, axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("mode", PROTECTED)
def test_mean_under_protection_is_kernel_pca_of_the_padded_kernels(mode, tmp_path):
    import pandas as pd
    from sklearn.decomposition import KernelPCA

    from dkpca import DKPCA

    given, settings = at_two(), PROTECTED[mode]
    kernel = {"metric": "rbf", "gamma": 0.05} if "gamma" in settings else {"metric": "linear"}
    ids, total = padded_kernels(given, kernel, np.prod if mode == "sums of distances" else np.sum)
    expected = KernelPCA(3, kernel="precomputed").fit_transform(total)
    rank: dict[str, Any] = {"rank": 60} if settings["protect"] == "blind" else {}
    frames = {name: pd.DataFrame(X, index=own) for name, (own, X) in given.items()}
    model = DKPCA(**settings, **rank, lacking="mean")
    scores = dict(zip(model.fit(frames).sample_ids_, model.fit_transform(frames), strict=True))
    found = np.array([scores[each] for each in ids])
    largest = np.abs(expected).max(axis=0)
    np.testing.assert_allclose(np.abs(found) / largest, np.abs(expected) / largest, atol=1e-12)
    consortium = Consortium(tmp_path, given, settings | rank | {"lacking": "mean"}, align="psi", samples=10)
    consortium.join(**ANYTHING).sign().finish()
    for name in consortium.names:
        own, values = consortium.embedding(name)
        assert set(own) == set(given[name][0])
        wanted = np.array([expected[ids.index(each)] for each in own])
        np.testing.assert_allclose(np.abs(values) / largest, np.abs(wanted) / largest, atol=1e-12)


def test_masked_inner_products_have_no_mean_row_of_another_kernel(tmp_path):
    with pytest.raises(InputError, match="works only with the linear kernel and distance-based kernels"):
        Consortium(tmp_path, tables(), MODES["sums"] | {"kernel": "poly", "lacking": "mean"})


@pytest.mark.slow
def test_masked_distances_with_mean_rows_take_batches_and_derive_their_width(tmp_path):
    import pandas as pd

    from dkpca import DKPCA

    given, new = at_two(), tables(80)
    settings: dict[str, Any] = {"protect": "sums", "precision": "float64", "n_components": 3, "lacking": "mean"}
    settings["gamma"] = "scale"
    consortium = Consortium(tmp_path, given, settings, samples=10, batches=1, batch_samples=5)
    consortium.join(**ANYTHING).sign().finish()
    put_new(tmp_path, new)
    consortium.finish()
    model = DKPCA(**settings).fit({name: pd.DataFrame(X, index=ids) for name, (ids, X) in given.items()})
    expected = model.transform({name: X[60:] for name, (_, X) in new.items()})
    ids, scores = consortium.embedding("airline", "batch-1")
    wanted = expected[[int(each[1:]) for each in ids]]
    np.testing.assert_allclose(np.abs(scores), np.abs(wanted), atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_own_numbers_under_masked_sums_with_mean_rows_count_as_known(kernel, tmp_path):
    fit = {"protect": "sums", "kernel": kernel, "n_components": 3, "precision": "float64"}
    fit |= {"gamma": 0.05} if kernel == "rbf" else {}
    reviews = {}
    for lacking in ("drop", "mean"):
        (tmp_path / lacking).mkdir()
        consortium = Consortium(tmp_path / lacking, tables(), fit | {"lacking": lacking}, samples=10)
        reviews[lacking] = consortium.join(samples=10, known_rows=7).at("airline", study.review)
    told, careful = reviews["mean"], reviews["drop"]
    assert max(told.columns.values()) > 0.95 > max(careful.columns.values())
    assert "between samples that the others lack" in "\n".join(told.words())


@pytest.mark.longer
def test_samples_that_one_party_has_alone_end_a_study_by_sums(tmp_path):
    given = at_two()
    given["airline"] = ([*given["airline"][0], "alone"], np.vstack([given["airline"][1], given["airline"][1][:1]]))
    consortium = Consortium(tmp_path, given, PROTECTED["sums"] | {"lacking": "mean"}, samples=10)
    consortium.join(**ANYTHING).sign()
    with pytest.raises(RefusedError, match="1 of 61 samples are at one party only"):
        consortium.finish()


@pytest.mark.longer
def test_too_few_common_samples_are_refused(tmp_path):
    given = tables(shared=False)
    consortium = Consortium(tmp_path, given, OPEN | {"lacking": "mean"}, align="psi", samples=59)
    consortium.join(**ANYTHING).sign()
    with pytest.raises(RefusedError, match="fewer than the 59 agreed on"):
        consortium.finish()
