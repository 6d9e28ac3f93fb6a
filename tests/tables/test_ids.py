"""Ids are text from every format, come back as they came, and are made alike only where the parties agreed on it."""

import datetime as dt
import unicodedata
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkpca.errors import InputError
from dkpca.exchange import one_machine
from dkpca.exchange.holdings import Holding
from dkpca.tables.ids import WAYS, check_ways, matching_keys
from dkpca.tables.reading import Reading, from_frame, read, read_ids

AWKWARD = [
    "001",
    "1",
    "5E3",
    "5000",
    " 7",
    "7",
    "7 ",
    "1.0",
    "NA",
    "-",
    "null",
    "0x1F",
    "1,5",
    "Ä",
    "A\u0308",
    "a;b",
    "true",
    "inf",
]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet", "arrow"])
def test_awkward_ids_come_back_exactly_as_they_came(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    frame = pl.DataFrame({"id": AWKWARD, "x": np.arange(float(len(AWKWARD)))})
    if suffix == "csv":
        frame.write_csv(path)
    elif suffix == "tsv":
        frame.write_csv(path, separator="\t")
    elif suffix == "parquet":
        frame.write_parquet(path)
    else:
        frame.write_ipc(path)
    assert read(path, Reading("id")).ids == AWKWARD
    assert read_ids(path, Reading("id")) == AWKWARD


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, lambda columns: pl.DataFrame(columns).to_arrow()])
def test_awkward_ids_of_data_frames_come_back_exactly_as_they_came(kind):
    loaded = from_frame(kind({"id": AWKWARD, "x": np.arange(float(len(AWKWARD)))}), Reading("id"))
    assert loaded.ids == AWKWARD


@pytest.mark.parametrize(
    ("values", "kind", "ids"),
    [
        ([7, 10], pl.Int64, ["7", "10"]),
        ([2**64 - 1, 10], pl.UInt64, ["18446744073709551615", "10"]),
        ([3.0, 1e6], pl.Float64, ["3", "1000000"]),
        (["a", "b"], pl.Categorical, ["a", "b"]),
        ([Decimal("1.00"), Decimal("2.00")], pl.Decimal(10, 2), ["1", "2"]),
    ],
)  # fmt: skip
def test_ids_of_other_types_become_text_by_one_rule_a_type(tmp_path, values, kind, ids):
    pl.DataFrame({"id": pl.Series(values, dtype=kind), "x": [1.0, 2.0]}).write_parquet(tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet", Reading("id")).ids == ids


def test_dates_are_no_ids():
    frame = pl.DataFrame({"id": [dt.date(2024, 1, 31), dt.date(850, 2, 1)], "x": [1.0, 2.0]})
    with pytest.raises(InputError, match="column 'id' holds Date values, not ids; name another column with --id"):
        from_frame(frame, Reading("id"))


@pytest.mark.parametrize("values", [[1.5, 2.0], [float("nan"), 2.0], [2.0**60, 1.0], [float("inf"), 1.0]])
def test_numbers_with_a_fraction_are_no_ids(values):
    with pytest.raises(InputError, match="column 'id' holds numbers that are not whole and below 2\\^53"):
        from_frame(pl.DataFrame({"id": values, "x": [1.0, 2.0]}), Reading("id"))


def two_tables(tmp_path, first, second, **reading):
    for name, ids in (("a", first), ("b", second)):
        pl.DataFrame({"id": ids, "x": np.arange(float(len(ids)))}).write_csv(tmp_path / f"{name}.csv")
    return [Holding(name, tmp_path / f"{name}.csv", Reading("id", **reading)) for name in ("a", "b")]


def loaded_ids(given):
    return [table.load().ids for table in given.tables.values()]


def test_numbers_beside_a_word_match_all_the_same(tmp_path):
    numbers = [f"{i:04d}" for i in range(900, 1100)]
    given, names, (note,) = one_machine.matched_samples(two_tables(tmp_path, numbers, [*numbers[::-1], "X1"]), None)
    assert names == numbers
    assert loaded_ids(given) == [numbers, numbers]
    assert note.startswith("using the 200 samples that all tables have (a has 200, b has 201)")


def test_ids_match_as_was_agreed(tmp_path):
    first = ["p1", "P2", "Jürgen", "p4 ", "p5"]
    second = ["p5", "p2", unicodedata.normalize("NFD", "Jürgen"), "p4", "P1"]
    assert one_machine.matched_samples(two_tables(tmp_path, first, second), None)[1] == ["p5"]
    ways = ("strip", "unicode", "case")
    given, names, _ = one_machine.matched_samples(two_tables(tmp_path, first, second, id_normalize=ways), None)
    assert names == first
    assert loaded_ids(given) == [first, ["P1", "p2", unicodedata.normalize("NFD", "Jürgen"), "p4", "p5"]]
    assert all(table.load().keys == given.ids for table in given.tables.values())


def test_leading_zeros_that_a_spreadsheet_dropped_can_be_ignored(tmp_path):
    first, second = ["001", "002", "00x"], ["00x", "1", "2.0"]
    given, _, _ = one_machine.matched_samples(two_tables(tmp_path, first, second, id_normalize=("zeros",)), None)
    assert loaded_ids(given) == [first, ["1", "2.0", "00x"]]
    with pytest.raises(InputError, match="occur more than once under --id-normalize zeros"):
        one_machine.matched_samples(two_tables(tmp_path, ["01", "1"], ["1", "2"], id_normalize=("zeros",)), None)


def test_ids_that_an_agreement_makes_one_are_refused_with_both(tmp_path):
    holdings = two_tables(tmp_path, ["p1", "P1"], ["p1", "p2"], id_normalize=("case",))
    with pytest.raises(InputError, match=r"more than once under --id-normalize case: 'P1', 'p1' \(rows 1, 2\);"):
        one_machine.matched_samples(holdings, None)


@given(st.lists(st.text(max_size=4), unique=True), st.sets(st.sampled_from(list(WAYS))))
def test_agreements_that_differ_match_nothing(ids, ways):
    own = check_ways(ways)
    for other in ((), ("strip",), ("case",), ("strip", "case"), ("strip", "unicode", "case")):
        if other != own:
            assert not set(matching_keys(ids, own)) & set(matching_keys([i for i in ids if "\0" not in i], other))


@given(st.text(), st.sets(st.sampled_from(list(WAYS)), min_size=1))
def test_making_an_id_alike_twice_is_making_it_alike_once(text, ways):
    once = matching_keys([text], check_ways(ways))[0].partition("\0")[2]
    assert matching_keys([once], check_ways(ways))[0].partition("\0")[2] == once


def test_an_unknown_way_is_named():
    with pytest.raises(InputError, match=r"unknown id normalization \['trim'\]; choose from strip, unicode, case"):
        check_ways(["trim"])
