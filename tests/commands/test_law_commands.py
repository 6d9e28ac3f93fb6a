"""Laws, weights and kernels of the commands, and additive models by files."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.linalg import subspace_angles

from dkpca import DKPCA, fuse
from dkpca.exchange import one_machine
from dkpca.store import runs
from testkit.owners import GAMMA, OWNERS, frame, numbers, people, standardized

pytestmark = pytest.mark.slow  # most of these start processes


SOURCES = [f"{owner}={owner}.csv" for owner in OWNERS]
FIT = ("--id", "person", "--components", 3, "--rank", 20, "--out", "run")


def estimator(**settings):
    tables = {owner: standardized(X) for owner, X in numbers().items()}
    return DKPCA(3, **({"rank": 20} | settings)).fit(tables)


def assert_same(path, model):
    run = runs.load(path)
    assert np.max(subspace_angles(model.eigenvectors_, run.model.eigenvectors)) < 1e-6
    np.testing.assert_allclose(run.model.eigenvalues, model.eigenvalues_, rtol=1e-9)
    return run


WAYS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "a law": (["--law", "sum"], {"law": "sum"}),
    "balanced product": (["--weights", "balanced"], {"weights": "balanced"}),
    "balanced sum": (["--law", "sum", "--weights", "balanced"], {"law": "sum", "weights": "balanced"}),
    "weights": (
        ["--law", "sum", "--weights", "bank=1,clinic=2,shop=0.5"],
        {"law": "sum", "weights": {"bank": 1.0, "clinic": 2.0, "shop": 0.5}},
    ),
    "weights of a product": (
        ["--weights", "bank=1,clinic=2,shop=0.5"],
        {"weights": {"bank": 1.0, "clinic": 2.0, "shop": 0.5}},
    ),
    "a kernel per party": (
        ["--kernel", "clinic=laplacian", "--law", "product"],
        {"kernel": {"bank": "rbf", "clinic": "laplacian", "shop": "rbf"}, "law": "product"},
    ),
    "poly": (["--kernel", "poly"], {"kernel": "poly"}),
    "cosine": (["--kernel", "cosine"], {"kernel": "cosine"}),
}


@pytest.mark.parametrize("way", WAYS)
def test_fit_is_the_estimator(office, way):
    options, settings = WAYS[way]
    office.ok("fit", *SOURCES, *FIT, *options, "--jobs", 1)
    model = estimator(**settings)
    run = assert_same(office.path / "run", model)
    assert run.model.meaning == model.model_.meaning == run.settings["meaning"]
    statements = json.loads((office.path / "run/certificate.json").read_text())["statements"]
    assert f"The true kernel is {model.model_.meaning}." in statements
    for name, kernel in model.model_.kernels.items():
        known = run.settings["parties"][name]["kernel"]
        assert known["name"] == kernel.name
        assert known.get("gamma") == pytest.approx(getattr(kernel, "gamma", None))


def test_the_polynomial_kernel_has_its_parameters(office):
    office.ok("fit", *SOURCES, *FIT, "--kernel", "poly", "--set", "degree=2", "--set", "coef0=0.5", "--gamma", "0.1")
    from dkpca.kernels import Polynomial

    run = assert_same(office.path / "run", estimator(kernel=Polynomial(0.1, 2, 0.5)))
    assert run.model.meaning == "the poly kernel of the joined table"
    words = office.refused("fit", *SOURCES, *FIT[:-1], "other", "--set", "degree=2")
    assert "degree: not a parameter of the rbf kernel" in words


def test_a_run_remembers_law_and_weights(summarized):
    summaries = [f"{owner}.summary" for owner in OWNERS]
    summarized.ok("fuse", *summaries, "--components", 3, "--law", "sum", "--weights", "balanced", "--out", "run")
    first = runs.load(summarized.path / "run")
    assert (first.settings["law"], first.settings["weights"]) == ("sum", "balanced")
    summarized.ok("fuse", "--out", "run")
    np.testing.assert_array_equal(runs.load(summarized.path / "run").model.eigenvalues, first.model.eigenvalues)
    sent = estimator(law="sum", gamma=GAMMA).model_.summaries.values()
    expected = fuse(sent, n_components=3, law="sum", weights="balanced")
    np.testing.assert_allclose(first.model.eigenvalues, expected.eigenvalues, rtol=1e-6)
    summarized.ok("fuse", "--law", "product", "--without", "shop", "--out", "other", *summaries)


def test_numbers_as_weights_are_asked_for_anew_when_the_parties_change(summarized):
    summaries = [f"{owner}.summary" for owner in OWNERS]
    weights = "bank=1,clinic=2,shop=3"
    summarized.ok("fuse", *summaries, "--components", 3, "--law", "sum", "--weights", weights, "--out", "run")
    words = summarized.refused("fuse", "--without", "shop", "--out", "run")
    assert "the weights are for ['bank', 'clinic', 'shop']" in words
    summarized.ok("fuse", "--without", "shop", "--weights", "bank=1,clinic=2", "--out", "run")


def test_under_the_product_the_center_cannot_weigh_what_was_sent(summarized):
    summaries = [f"{owner}.summary" for owner in OWNERS]
    words = summarized.refused("fuse", *summaries, "--law", "product", "--weights", "balanced", "--out", "run")
    assert "under the product law a party's weight is its gamma" in words


def new_tables(office):
    new = {owner: X[:7] + 0.1 for owner, X in numbers().items()}
    for owner, X in new.items():
        frame(X, [f"n{i}" for i in range(7)]).write_csv(office.path / f"{owner}.new.csv")
    return {o: (new[o] - X.mean(axis=0)) / X.std(axis=0) for o, X in numbers().items()}


def placed_in(folder):
    return pl.read_csv(folder / "embedding.csv").drop("sample", "outside", "completed", strict=False).to_numpy()


def categories(seed=0):
    rng = np.random.default_rng(seed)
    color, size = rng.choice(["red", "green", "blue"], 60), rng.choice(["S", "M", "L", "XL"], 60)
    return pl.DataFrame({"person": people(), "color": color, "size": size, "grade": rng.integers(1, 4, 60)})


def test_a_wrong_setting_is_named_and_nothing_else_is(office):
    for given, words in (
        (("--kernel", "fast"), "dkpca: kernel 'fast' is unknown here"),
        (("--set", "center=3"), "dkpca: center must be true or false, not 3"),
    ):
        assert office.refused("fit", *SOURCES, *FIT, *given).startswith(words)


def test_text_becomes_categories_for_a_kernel_of_categories(office):
    table = categories().with_columns(color=pl.when(pl.col("person") == "p03").then(None).otherwise(pl.col("color")))
    table.write_csv(office.path / "clinic.csv")
    answer = office.ok("fit", *SOURCES, *FIT, "--kernel", "clinic=overlap", "--law", "product", "--json").json
    assert any("text column 'color' is used as 3 categories" in note for note in answer["notes"])
    columns = table.drop("person").with_columns(pl.col("color").fill_null("none"))
    codes = np.column_stack([np.unique(columns[name].to_numpy(), return_inverse=True)[1] for name in columns.columns])
    tables = {o: standardized(X) for o, X in numbers().items()} | {"clinic": codes.astype(float)}
    kernel = {"bank": "rbf", "clinic": "overlap", "shop": "rbf"}
    assert_same(office.path / "run", DKPCA(3, kernel=kernel, law="product", rank=20).fit(tables))


def test_codes_are_no_quantities_for_other_kernels(office):
    categories().write_csv(office.path / "clinic.csv")
    (office.path / "party.toml").write_text('table = "clinic.csv"\nid = "person"\ntext = "codes"\n')
    words = office.refused("summarize", "party.toml", "--gamma", 1, "--out", "s")
    assert "text codes are not quantities" in words


def test_what_cannot_be_meant_is_said(office):
    fit = ("fit", *SOURCES, *FIT)
    assert "'shoe' is not one of the parties" in office.refused(*fit, "--kernel", "shoe=overlap")
    assert "for all parties; give one value" in office.refused(*fit, "--kernel", "rbf", "--kernel", "linear")
    assert "kernel 'sigmoid' is unknown here" in office.refused(*fit, "--kernel", "sigmoid")
    assert "weights is 'bank'; give 'balanced'" in office.refused(*fit, "--weights", "bank")
    assert "a number > 0 for ['bank', 'clinic', 'shop']" in office.refused(*fit, "--weights", "bank=2")
    assert "law is 'average'; give 'product' or 'sum'" in office.refused(*fit, "--law", "average")
    assert "imply no common law" in office.refused(*fit, "--kernel", "bank=linear")
    assert "unknown settings: colour" in office.refused(*fit, "--settings", settings(office, "colour = 1"))
    assert "unknown settings: colour" in office.refused(*fit, "--set", "colour=1")
    assert "protect: not used by this command" in office.refused(*fit, "--set", "protect=sums")


def settings(office, text):
    (office.path / "settings.toml").write_text(text)
    return "settings.toml"


def test_settings_come_from_a_file_and_options_win(office):
    file = settings(office, 'n_components = 5\nlaw = "sum"\nweights = { bank = 1.0, clinic = 2.0, shop = 0.5 }\n')
    office.ok("fit", *SOURCES, *FIT, "--settings", file, "--set", "center=false", "--jobs", 1)
    weights = {"bank": 1.0, "clinic": 2.0, "shop": 0.5}
    assert_same(office.path / "run", estimator(law="sum", weights=weights, center=False))


def test_the_report_says_of_which_kernel_the_components_are(office):
    office.ok("fit", *SOURCES, *FIT, "--law", "sum", "--weights", "bank=1,clinic=2,shop=3")
    office.ok("report", "run")
    page = (office.path / "run/report.html").read_text()
    assert "The true kernel is the sum of the parties&#x27; kernels." in page
    assert "<td>the sum of the parties&#x27; kernels</td>" in page
    assert "bank: 1.0; clinic: 2.0; shop: 3.0" in page
    assert "to first order under the product law" in page


def test_a_kernel_matrix_follows_the_order_of_the_samples(office):
    rng = np.random.default_rng(3)
    F = rng.normal(size=(60, 5))
    K, ids = F @ F.T, people()
    shuffled = rng.permutation(60)
    columns = {ids[j]: K[shuffled, j] for j in rng.permutation(60)}
    pl.DataFrame({"person": [ids[i] for i in shuffled], **columns}).write_csv(office.path / "clinic.csv")
    wanted = ("--kernel", "clinic=precomputed", "--law", "sum", "--precision", "float64")
    office.ok("fit", *SOURCES, *FIT, *wanted)
    tables = {owner: standardized(X) for owner, X in numbers().items()} | {"clinic": K}
    kernel = {"bank": "rbf", "clinic": "precomputed", "shop": "rbf"}
    model = DKPCA(3, kernel=kernel, law="sum", rank=20, precision="float64").fit(tables)
    assert_same(office.path / "run", model)

    new = rng.normal(size=(4, 5)) @ F.T
    pl.DataFrame({"person": list("wxyz"), **{ids[j]: new[:, j] for j in range(60)}}).write_csv(office.path / "n.csv")
    run = runs.load(office.path / "run")
    placed, notes = one_machine.place(run, {"clinic": office.path / "n.csv"})
    assert placed.missing == ("bank", "shop")
    assert any("mean rows are used" in note for note in notes)
    with pytest.warns(UserWarning, match="mean rows are used"):
        expected = model.transform({"clinic": new})
    np.testing.assert_allclose(np.abs(placed_in(office.path / "run/new")), np.abs(expected), atol=1e-7)


def test_a_kernel_matrix_without_a_column_per_sample_is_refused(office):
    words = office.refused("summarize", "bank.csv", "--id", "person", "--kernel", "precomputed", "--out", "s")
    assert "a kernel matrix lacks a column for the sample ids" in words
