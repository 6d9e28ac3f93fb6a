"""Dates and ids are no features unless somebody says so; the library and the commands have one rule for it."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dkpca
from dkpca import DKPCA
from dkpca.errors import InputError

N = 40
NUMBERS = pd.DataFrame(np.random.default_rng(0).normal(size=(N, 3)), columns=["a", "b", "c"])
VISITS = pd.date_range("2020-01-01", periods=N)


def dated():
    yield "timestamps", NUMBERS.assign(visit=VISITS)
    yield "with a zone", NUMBERS.assign(visit=VISITS.tz_localize("UTC"))
    yield "python dates", NUMBERS.assign(visit=[datetime.date(2020, 1, 1)] * N)
    yield "durations", NUMBERS.assign(visit=VISITS - VISITS[0])
    yield "polars", pl.DataFrame({"a": np.arange(N), "visit": list(VISITS)})


@pytest.mark.parametrize("table", [table for _, table in dated()], ids=[name for name, _ in dated()])
def test_dates_are_refused_by_the_library(table):
    for X in ({"clinic": table}, table):
        with pytest.raises(InputError, match="1 column of dates: 'visit'"):
            DKPCA(2).fit(X)


def test_an_array_of_dates_is_refused():
    with pytest.raises(InputError, match="columns of dates"):
        DKPCA(2).fit({"clinic": np.array([VISITS.to_numpy()] * 2).T})


@pytest.mark.longer
@pytest.mark.parametrize("ids", [range(N), [float(i) for i in range(N)]])
def test_ids_are_refused_by_the_library_and_by_the_commands(ids, office):
    table = NUMBERS.assign(patient_id=list(ids))
    for X in ({"clinic": table}, table):
        with pytest.raises(InputError, match=r"'patient_id' looks like an id column.*set_index"):
            DKPCA(2).fit(X)
    with pytest.raises(InputError, match="'patient_id' looks like an id column"):
        dkpca.summarize(table, party="clinic", kernel=dkpca.kernels.RBF(0.1), rank=3)
    table.to_parquet(office.path / "clinic.parquet")
    told = office.refused("summarize", "clinic.parquet", "--gamma", 0.1, "--out", "clinic.summary")
    assert "'patient_id' looks like an id column, but no id column was given; add --id 'patient_id'" in told


def test_what_is_called_as_ids_and_is_none_is_a_feature():
    assert DKPCA(2, standardize=True).fit({"shop": NUMBERS.assign(room_id=np.arange(N) // 2)}).n_features_in_ == 4
    model = DKPCA(2, standardize=True).fit({"shop": NUMBERS.assign(room_id=np.arange(N) // 2)})
    model.transform({"shop": NUMBERS.assign(room_id=np.arange(N) / 2)[::2]})  # only a fit asks what columns are


@pytest.mark.longer
def test_check_leaves_dates_out_unless_they_are_asked_for(office):
    NUMBERS.assign(person=[f"p{i}" for i in range(N)], visit=VISITS).to_csv(office.path / "dated.csv", index=False)
    for more, excluded in (((), True), (("--dates", "number"), False)):
        office.ok("check", "dated.csv", "--id", "person", *more, "--write", "party.toml")
        assert ("visit" in (office.path / "party.toml").read_text()) is excluded
        told = office.ok("summarize", "party.toml", "--gamma", 0.1, "--out", "dated.summary", "--json")
        assert told.json["n_features"] == 4 - excluded


def test_names_of_two_levels_are_names():
    table = NUMBERS.set_axis(pd.MultiIndex.from_tuples([("rna", "a"), ("rna", "b"), ("protein", "c")]), axis=1)
    assert DKPCA(2).fit(table).n_features_in_ == 3
    model = DKPCA(2).fit({name: table[name] for name in table.columns.unique(0)})
    assert model.party_names_ == ["rna", "protein"]


def test_a_text_where_a_list_of_columns_belongs_is_named():
    with pytest.raises(InputError, match=r"parties\['rna'\] is 'rna', .* give a list of these"):
        DKPCA(2, parties={"rna": "rna"}).fit(NUMBERS)
    with pytest.raises(InputError, match=r"parties\['rna'\] is slice\(0, 2, None\), .* give a list"):
        DKPCA(2, parties={"rna": slice(0, 2), "dna": [2]}).fit(NUMBERS)  # type: ignore[dict-item]


@pytest.mark.parametrize("as_parties", [True, False])
def test_missing_values_are_named_by_column_with_two_ways_out(as_parties):
    table = NUMBERS.copy()
    table.iloc[3:6, 1] = np.nan
    table.iloc[0, 0] = np.nan
    with pytest.raises(InputError) as caught:
        DKPCA(2).fit({"clinic": table} if as_parties else table)
    said = str(caught.value)
    assert "NaN in columns 'a', 'b'; fill in" in said
    assert "sklearn.impute.SimpleImputer()" in said
    assert "dkpca command" in said


def test_text_among_numbers_is_named_and_the_advice_does_not_make_age_a_category():
    words = r"1 column of text or categories: 'sex'; .*0/1 columns.*kernel='overlap'"
    with pytest.raises(InputError, match=words):
        DKPCA(2).fit({"clinic": NUMBERS.assign(sex=["m", "f"] * (N // 2))})


def test_a_column_that_is_dropped_is_not_expanded(office):
    stage = ["I", "II", "III", "IV"] * 5 + [None] * 20
    NUMBERS.assign(person=[f"p{i}" for i in range(N)], stage=stage).to_csv(office.path / "clinic.csv", index=False)
    (office.path / "party.toml").write_text('table = "clinic.csv"\nid = "person"\ntext = "one-hot"\n')
    notes = office.ok("summarize", "party.toml", "--gamma", 0.1, "--out", "c.summary", "--json").json["notes"]
    assert [note for note in notes if "stage" in note] == [
        "dropped 1 column with more than 10% of values missing: 'stage'"
    ]


def test_a_fit_says_which_column_outweighs_the_others(office):
    table = pl.read_csv(office.path / "bank.csv").with_columns(pl.col("x1") * 1000)
    table.write_csv(office.path / "bank.csv")
    asked = ("fit", "bank.csv", "shop.csv", "--id", "person", "--components", 2, "--out", "run")
    told = office.ok(*asked, "--no-standardize").out
    assert "note: party 'bank': column 'x1' makes up 100.0% of the distances between its samples" in told
    assert "makes up" not in office.ok(*asked).out


def test_a_table_without_rows_is_named_where_no_sample_is_common(office):
    (office.path / "empty.csv").write_text("person,x\n")
    words = office.refused("fit", "bank.csv", "empty.csv", "--id", "person", "--out", "run")
    assert "no sample id is in all tables: ['p00'] in bank.csv, [] in empty.csv; check --id" in words
