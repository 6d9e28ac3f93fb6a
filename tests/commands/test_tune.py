"""`dkpca tune`: a person chooses by tables, a script by JSON; nothing is guessed about labels."""

import re

import polars as pl
import pytest

from testkit.owners import OWNERS, people

pytestmark = pytest.mark.slow  # most of these start processes


TABLES = tuple(f"{owner}.csv" for owner in OWNERS)
SMALL = ("--components", 2, "--gammas", "0.05,0.5", "--repeats", 1)


@pytest.fixture
def labeled(office):
    bank = pl.read_csv(office.path / "bank.csv")
    side = (bank["x0"] > bank["x0"].median()).to_list()
    frame = pl.DataFrame({"person": people(), "side": [["low", "high"][s] for s in side], "x": bank["x0"]})
    frame.reverse().write_csv(office.path / "labels.csv")
    return office


def test_without_labels_it_shows_variance_and_stability_and_suggests(office):
    answer = office.ok("tune", *TABLES, "--id", "person", *SMALL)
    for word in ("captured", "stability", "product, balanced", "sum, balanced", "suggested: --gamma 0.05", "linear"):
        assert word in answer.out
    assert "score" not in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80


def test_json_has_every_point_and_the_suggestion(labeled):
    facts = labeled.ok(
        "tune", *TABLES, "--id", "person", *SMALL, "--labels", "labels.csv", "--label", "side", "--json"
    ).json
    assert [point["name"] for point in facts["widths"]] == ["linear", "0.05", "0.5"]
    assert set(facts["suggested"]) >= {"gamma", "n_components"}
    assert facts["widths"][1]["score"] > 0.8, "labels are found by their ids, whatever the order"


def test_ids_of_the_labels_may_stand_in_another_column(labeled):
    table = pl.read_csv(labeled.path / "labels.csv").rename({"person": "patient"})
    table.head(40).write_csv(labeled.path / "labels.csv")
    asked = ("tune", *TABLES, "--id", "person", *SMALL, "--labels", "labels.csv", "--label", "side")
    assert "labels.csv: has no column 'person'; it has 'patient', 'side'" in (said := labeled.refused(*asked))
    assert "(--label-id names the id column of --labels)" in said
    told = labeled.ok(*asked, "--label-id", "patient", "--json").json
    assert any("has labels for 40 of 60 samples" in note for note in told["notes"])
    table.with_columns(pl.col("patient") + " ").write_csv(labeled.path / "labels.csv")
    for owner in OWNERS:
        how = f'table = "{owner}.csv"\nid = "person"\nid_normalize = ["strip"]\n'
        (labeled.path / f"{owner}.toml").write_text(how)
    described = [f"{owner}.toml" for owner in OWNERS]
    labeled.ok("tune", *described, *SMALL, "--labels", "labels.csv", "--label", "side", "--label-id", "patient")
    table.with_columns(pl.col("patient") + "?").write_csv(labeled.path / "labels.csv")
    assert "none of its 60 ids is a sample" in labeled.refused(*asked, "--label-id", "patient")


def test_what_it_suggests_can_be_fitted(office):
    said = office.ok("tune", *TABLES, "--id", "person", *SMALL).out
    (flags,) = re.findall("^suggested: (.*);", said, re.MULTILINE)
    office.ok("fit", *TABLES, "--id", "person", *flags.split(), "--jobs", 1, "--out", "run")


def test_samples_that_all_tables_have_are_used_and_the_note_says_so(office):
    pl.read_csv(office.path / "shop.csv").tail(50).write_csv(office.path / "shop.csv")
    facts = office.ok("tune", *TABLES, "--id", "person", *SMALL, "--json").json
    assert facts["n_samples"] == 50
    assert any("using the 50 samples that all tables have" in note for note in facts["notes"])
    assert not any("lacking" in note for note in facts["notes"])  # an option that it does not have


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (("--id", "person", "--labels", "labels.csv"), "which of its columns ['side', 'x'] is the label?"),
        (("--id", "person", "--labels", "labels.csv", "--label", "sid"), "sid"),
        (("--labels", "labels.csv", "--label", "side"), "labels are matched by sample id"),
        (("--id", "person", "--gammas", "0.1;0.2"), "--gammas is '0.1;0.2'; give numbers separated by commas"),
        (("--id", "person", "--components", 40), "60 samples are too few to try 40 components"),
    ],
)
def test_what_cannot_be_tried_is_one_sentence_and_no_file(labeled, more, words):
    assert words in labeled.refused("tune", *TABLES, *more)
