"""Questions carry every kernel, law and weight; the center fuses as it asked."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dkpca import DKPCA, load, principal_angles
from dkpca.errors import NoAnswerError
from dkpca.kernels import KERNELS, Polynomial
from dkpca.messages import Scores
from dkpca.rank import Fixed
from testkit.by_hand import FIT, scores
from testkit.owners import GAMMA, OWNERS, numbers, standardized

BY_NAME = sorted({*KERNELS} - {"rbf", "chi2", "additive_chi2", "precomputed"})
WAYS: dict[str, dict[str, Any]] = {
    "sum": {"law": "sum"},
    "balanced sum": {"law": "sum", "weights": "balanced"},
    "balanced product": {"weights": "balanced"},
    "weights": {"law": "sum", "weights": {"bank": 1.0, "clinic": 2.0, "shop": 0.5}},
    "a kernel each": {"kernel": {"bank": "rbf", "clinic": "poly", "shop": "cosine"}, "law": "sum"},
    "a kernel object": {"kernel": Polynomial(0.1, 2, 0.5)},
    **{name: {"kernel": name} for name in BY_NAME},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_center_fuses_as_it_asked(consortium, way):
    wanted = replace(FIT, rank=Fixed(15), precision="float64", **WAYS[way])
    run = consortium.center().fit("first", wanted)
    settings: dict[str, Any] = {"gamma": GAMMA, "rank": 15, "precision": "float64"} | WAYS[way]
    model = DKPCA(3, **settings).fit({owner: standardized(X) for owner, X in numbers().items()})
    assert run.model.meaning == model.model_.meaning
    np.testing.assert_allclose(run.model.eigenvalues, model.eigenvalues_, rtol=1e-9)
    assert np.max(principal_angles(run.model.eigenvectors, model.eigenvectors_)) < 1e-6
    consortium.center().project("first", ["spring"])
    new = {owner: (X[:7] + 0.1 - X.mean(0)) / X.std(0) for owner, X in numbers().items()}
    placed = scores(consortium.path / "center" / "first" / "new" / "spring")
    np.testing.assert_allclose(np.abs(placed), np.abs(model.transform(new)), atol=1e-7)


def test_a_party_answers_the_laws_of_its_policy_only(consortium):
    consortium.policy("clinic", 'laws = ["product"]\n')
    with pytest.raises(NoAnswerError, match="the sum of the parties' kernels is not among laws = "):
        consortium.center().fit("first", replace(FIT, law="sum"))
    consortium.center().fit("second", FIT)


def test_parties_are_not_told_the_kernels_of_others(consortium):
    consortium.center().fit("first", replace(FIT, weights="balanced"))
    for owner in OWNERS:
        told = load(consortium.party(owner) / "runs" / "first" / "result.scores", Scores)
        assert told.kernel is None
        assert told.meaning == "the rbf kernel of the joined table, with a width per party"
