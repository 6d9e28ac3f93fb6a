"""Questions carry every kernel, law and weight; the center fuses as it asked."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest

from dkpca import DKPCA, load, principal_angles
from dkpca.errors import NoAnswerError
from dkpca.kernels import KERNELS, Polynomial
from dkpca.messages import Scores
from dkpca.rank import Fixed
from testkit.by_hand import FIT, scores
from testkit.owners import GAMMA, OWNERS, frame, numbers, people, standardized

pytestmark = pytest.mark.slow  # whole exchanges of the network wing

BY_NAME = sorted({*KERNELS} - {"rbf", "chi2", "additive_chi2", "precomputed"})
WAYS: dict[str, dict[str, Any]] = {
    "sum": {"law": "sum"},
    "balanced sum": {"law": "sum", "weights": "balanced"},
    "balanced product": {"weights": "balanced"},
    "weights": {"law": "sum", "weights": {"bank": 1.0, "clinic": 2.0, "shop": 0.5}},
    "a kernel each": {"kernel": {"bank": "rbf", "clinic": "poly", "shop": "cosine"}, "law": "sum"},
    "a kernel object": {"kernel": Polynomial(0.1, 2, 0.5)},
}


@pytest.mark.parametrize("way", [*WAYS, *BY_NAME])
def test_the_center_fuses_as_it_asked(consortium, way):
    asked = WAYS.get(way, {"kernel": way})
    wanted = replace(FIT, rank=Fixed(15), precision="float64", **asked)
    run = consortium.center().fit("first", wanted)
    settings: dict[str, Any] = {"gamma": GAMMA, "rank": 15, "precision": "float64"} | asked
    model = DKPCA(3, **settings).fit({owner: standardized(X) for owner, X in numbers().items()})
    assert run.model.meaning == model.model_.meaning
    np.testing.assert_allclose(run.model.eigenvalues, model.eigenvalues_, rtol=1e-9)
    assert np.max(principal_angles(run.model.eigenvectors, model.eigenvectors_)) < 1e-6
    consortium.center().project("first", ["spring"])
    new = {owner: (X[:7] + 0.1 - X.mean(0)) / X.std(0) for owner, X in numbers().items()}
    placed = scores(consortium.path / "center" / "first" / "new" / "spring")
    np.testing.assert_allclose(np.abs(placed), np.abs(model.transform(new)), atol=1e-7)


@pytest.mark.parametrize("kernel", ["chi2", "additive_chi2"])
def test_kernels_of_counts_are_carried_too(consortium, kernel):
    counts = {owner: np.exp(X) for owner, X in numbers().items()}
    for owner, X in counts.items():
        folder = consortium.party(owner)
        frame(X, people()).write_csv(folder / "people.csv")
        frame(X[:7] * 1.1, [f"n{i}" for i in range(7)]).write_csv(folder / "new" / "spring.csv")
        with (folder / "party.toml").open("a") as settings:
            settings.write("standardize = false\n")
    run = consortium.center().fit("first", replace(FIT, kernel=kernel, rank=Fixed(15), precision="float64"))
    model = DKPCA(3, kernel=kernel, gamma=GAMMA, rank=15, precision="float64").fit(counts)
    assert run.model.meaning == model.model_.meaning == f"the {kernel} kernel of the joined table"
    np.testing.assert_allclose(run.model.eigenvalues, model.eigenvalues_, rtol=1e-9)
    consortium.center().project("first", ["spring"])
    placed = scores(consortium.path / "center" / "first" / "new" / "spring")
    expected = model.transform({owner: X[:7] * 1.1 for owner, X in counts.items()})
    np.testing.assert_allclose(np.abs(placed), np.abs(expected), atol=1e-7)


@pytest.mark.parametrize("align", [False, True])
def test_a_matrix_of_strings_and_text_of_categories_are_carried_too(consortium, rng, align):
    """The clinic has its own matrix, the shop text; in an exchange that aligns, not all people are everywhere."""
    F = rng.normal(size=(67, 5))
    K, ids = F @ F.T, [*people(), *(f"n{i}" for i in range(7))]
    answers = rng.choice(["yes", "no", "perhaps"], (67, 4))
    here = 50 if align else 60
    matrix = {ids[j]: K[:, j] for j in range(here)}
    folders = {owner: consortium.party(owner) for owner in OWNERS}
    order = rng.permutation(here) if align else np.arange(here)
    clinic = pl.DataFrame({"person": ids, **matrix})
    shop = pl.DataFrame({"person": ids, **{f"q{j}": answers[:, j] for j in range(4)}})
    clinic[order.tolist()].write_csv(folders["clinic"] / "people.csv")
    shop[:60].write_csv(folders["shop"] / "people.csv")
    for owner, table in (("clinic", clinic), ("shop", shop)):
        table[60:].write_csv(folders[owner] / "new" / "spring.csv")
    kernel: dict[str, Any] = {"bank": "laplacian", "clinic": "precomputed", "shop": "overlap"}
    wanted = replace(FIT, kernel=kernel, law="sum", rank=Fixed(15), precision="float64", align=align)
    run = consortium.center().fit("first", wanted)
    used = list(range(here))
    bank, codes = numbers()["bank"], np.unique(answers, return_inverse=True)[1].reshape(answers.shape).astype(float)
    scaled = (bank - bank[used].mean(0)) / bank[used].std(0)
    tables = {"bank": scaled[used], "clinic": K[np.ix_(used, used)], "shop": codes[used]}
    model = DKPCA(3, kernel=kernel, law="sum", gamma=GAMMA, rank=15, precision="float64").fit(tables)
    np.testing.assert_allclose(run.model.eigenvalues, model.eigenvalues_, rtol=1e-9)
    consortium.center().project("first", ["spring"])
    placed = scores(consortium.path / "center" / "first" / "new" / "spring")
    new = {
        "bank": (bank[:7] + 0.1 - bank[used].mean(0)) / bank[used].std(0),
        "clinic": K[60:, used],
        "shop": codes[60:],
    }
    found, expected = (np.abs(each) for each in (placed, model.transform(new)))
    if align:  # in an order that the center does not know
        found, expected = (each[np.argsort(each[:, 0])] for each in (found, expected))
    np.testing.assert_allclose(found, expected, atol=1e-6)


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
