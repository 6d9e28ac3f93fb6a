"""New rows unlike those of the fit are said so: at the party with its columns, at the center without."""

import polars as pl
import pytest

from testkit.owners import OWNERS


def extend(office, owner, file="new.csv"):
    return office.ok("extend", file, "--state", f"{owner}.state", "--out", f"{owner}.rows", "--json").json


@pytest.fixture
def scaled(fused):
    """Ten people of the fit, of whom the bank has three with two columns a thousand times too large."""
    for owner in OWNERS:
        table = pl.read_csv(fused.path / f"{owner}.csv").head(10)
        if owner == "bank":
            few = pl.int_range(pl.len()) < 3
            table = table.with_columns(
                pl.when(few).then(pl.col(c) * 1000 + 500).otherwise(pl.col(c)).alias(c) for c in ("x0", "x2")
            )
        table.write_csv(fused.path / f"new-{owner}.csv")
    return fused


def test_columns_out_of_range_are_named_at_the_party_and_the_samples_at_the_center(scaled):
    notes = {owner: extend(scaled, owner, f"new-{owner}.csv")["notes"] for owner in OWNERS}
    assert notes["clinic"] == notes["shop"] == []
    assert notes["bank"][0].startswith("3 of 10 new rows leave the range of the fit, in 'x0' (3 rows, ")
    assert "'x2' (3 rows" in notes["bank"][0]
    assert notes["bank"][1] == "3 of 10 new samples are unlike all samples of the fit"
    rows = [f"{owner}.rows" for owner in OWNERS]
    named = ("--ids", "new-bank.csv", "--id", "person")
    told = scaled.ok("project", "run", *rows, *named, "--out", "new").out
    assert (
        "note: 3 of 10 new samples lie outside the range of the fit, and are marked so: 'p00', 'p01', 'p02'" in told
    )
    placed = pl.read_csv(scaled.path / "new" / "embedding.csv")
    assert placed["outside"].to_list() == [True] * 3 + [False] * 7
    assert scaled.ok("project", "run", *rows, *named, "--out", "new", "--json").json["outside"] == [
        "p00",
        "p01",
        "p02",
    ]


def test_placed_samples_without_ids_have_no_name_of_a_sample_of_the_fit(scaled):
    for owner in OWNERS:
        extend(scaled, owner, f"new-{owner}.csv")
    scaled.ok("project", "run", *(f"{owner}.rows" for owner in OWNERS), "--out", "new")
    assert pl.read_csv(scaled.path / "new" / "embedding.csv")["sample"].to_list() == [f"new-{i}" for i in range(10)]
    scaled.ok(
        "report", "run", "--new", "new", "--new-table", "new-bank.csv", "--id", "person"
    )  # the party knows them


def test_unknown_categories_and_missing_values_are_said(office):
    bank = pl.read_csv(office.path / "bank.csv")
    kinds = [["gold", "silver"][i % 2] for i in range(bank.height)]
    bank.with_columns(pl.Series("card", kinds)).write_csv(office.path / "bank.csv")
    office.summarize("bank", "--text", "card=one-hot")
    new = bank.head(4).with_columns(
        pl.Series("card", ["gold", "tin", "tin", None]), pl.Series("x1", [None, 1.5, 2.5, 0.5])
    )
    new.write_csv(office.path / "new.csv")
    notes = extend(office, "bank")["notes"]
    assert notes == [
        "missing values filled with the training mean: 3, in 3 columns",
        "column 'card': 2 rows with categories the fit had not: 'tin'",
    ]


def test_a_number_that_the_units_of_the_fit_cannot_hold_is_named(office):
    pl.DataFrame({"person": ["a", "b", "c"], "dose": [1e-300, 2e-300, 4e-300]}).write_csv(office.path / "bank.csv")
    office.ok("summarize", "bank.csv", "--id", "person", "--gamma", 1, "--out", "bank.summary")
    pl.DataFrame({"person": ["d", "e"], "dose": [3e-300, 1e10]}).write_csv(office.path / "new.csv")
    words = office.refused("extend", "new.csv", "--id", "person", "--state", "bank.state", "--out", "bank.rows")
    assert "new.csv: column 'dose' has 1e+10 in row 2, too far beyond the 1e-300 to 4e-300 of the fit" in words
