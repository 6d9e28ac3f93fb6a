"""`check` says everything about a table at once, and what it writes `summarize` reads."""

import shlex

import numpy as np
import openpyxl
import polars as pl
import pytest

from dkpca.store import party_file
from testkit.program import Office


@pytest.fixture
def clinic(tmp_path):
    """A German export with one of everything that can be wrong."""
    n = 40
    rng = np.random.default_rng(0)

    def number(value):
        return f"{value:.2f}".replace(".", ",")

    lines = ["Patienten-ID;Alter;Geschlecht;Aufnahme;Fall;Konstant;Leer;CRP;Kalium;Freitext"]
    for i in range(n):
        infection = "-999" if i % 10 == 0 else number(abs(rng.normal(5, 2)))
        potassium = number(rng.normal(4, 0.3) * (1e5 if i == 3 else 1))
        person = [f"{i:04d}", number(rng.normal(60, 10)), "mw"[i % 2], f"{1 + i % 28:02d}.03.2024"]
        lines += [";".join([*person, str(200_000 + 7 * i), "1", "", infection, potassium, f"Befund Nummer {i}"])]
    (tmp_path / "clinic.csv").write_bytes("\r\n".join(lines).encode("cp1252") + b"\r\n")
    return Office(tmp_path)


def test_everything_about_a_table_is_said_at_once(clinic):
    found = clinic.ok("check", "clinic.csv", "--json").json
    columns = {column["name"]: column for column in found["columns"]}
    remarks = {name: "; ".join(column["remarks"]) for name, column in columns.items()}
    assert (found["n_rows"], found["id_column"], found["usable"]) == (40, "Patienten-ID", True)
    assert "format: separated by semicolons, decimal comma" in found["notes"]
    assert {name: column["kind"] for name, column in columns.items()} == {
        "Alter": "number", "Geschlecht": "text", "Aufnahme": "date", "Fall": "number", "Konstant": "number",
        "Leer": "empty", "CRP": "number", "Kalium": "number", "Freitext": "text",
    }  # fmt: skip
    assert remarks["Geschlecht"] == "expanded text column 'Geschlecht' into 2 columns of 0 and 1"
    assert "perhaps an identifier" in remarks["Fall"]
    assert "perhaps an identifier" in remarks["Freitext"]
    assert "the same value in every row" in remarks["Konstant"]
    assert "no value at all" in remarks["Leer"]
    assert "-999 occurs 4 times: missing?" in remarks["CRP"]
    assert {name for name, column in columns.items() if column["use"] == "leave out"} == {
        "Aufnahme", "Fall", "Konstant", "Leer", "Freitext",
    }  # fmt: skip
    words = clinic.ok("check", "clinic.csv").out
    assert (
        max(len(line) for line in words.splitlines() if not line.startswith(("note", *columns)) or "..." in line)
        <= 80
    )


def test_units_in_square_brackets_are_shown(tmp_path):
    rows = "".join(f"p{i},{100 + i}.5,{i}.25\n" for i in range(30))
    (tmp_path / "ward.csv").write_text(f"id,SBP [mmHg],age\n{rows}")
    assert "SBP [mmHg]" in Office(tmp_path).ok("check", "ward.csv").out


@pytest.mark.longer
def test_columns_that_summarize_refuses_are_left_out_of_the_suggestion(tmp_path):
    n = 30
    odd = {"big": [2**60 + i // 2 for i in range(n)], "far": [1.7e308 * (-1) ** i for i in range(n)], "l": [[1]] * n}
    ids, age = [f"p{i}" for i in range(n)], [50.5 + i for i in range(n)]
    pl.DataFrame({"id": ids, "age": age, "size": age[::-1], **odd}).write_parquet(tmp_path / "ward.parquet")
    office = Office(tmp_path)
    columns = {column["name"]: column for column in office.ok("check", "ward.parquet", "--json").json["columns"]}
    assert {name for name, column in columns.items() if column["use"] == "leave out"} == set(odd)
    assert "beyond 2^53" in columns["big"]["remarks"][0]
    assert "too far apart" in columns["far"]["remarks"][0]
    assert "holds List(Int64) values" in columns["l"]["remarks"][0]
    office.ok("check", "ward.parquet", "--write", "party.toml")
    office.ok("summarize", "party.toml", "--gamma", 0.1, "--out", "ward.summary")


def test_a_gap_among_codes_is_a_category_and_not_dropped(tmp_path):
    rows = [f"p{i},{50 + i}.5,{'' if i % 3 == 0 else 'AB'[i % 2]}" for i in range(30)]
    (tmp_path / "ward.csv").write_text("\n".join(["id,age,ward", *rows]) + "\n")
    found = Office(tmp_path).ok("check", "ward.csv", "--text", "ward=codes", "--json").json
    (ward,) = (column for column in found["columns"] if column["name"] == "ward")
    words = ["text column 'ward' is used as 2 categories; an empty cell is one more"]
    assert (ward["use"], ward["remarks"]) == ("codes", words)


def test_a_column_that_was_too_empty_is_taken_in_again_by_a_larger_share(tmp_path):
    """Before, it was put into `exclude`, and stayed out."""
    rows = [f"p{i},{50 + i}.5,{'' if i % 10 < 3 else i * i},{'' if i % 10 < 3 else 'AB'[i % 2]},1" for i in range(30)]
    (tmp_path / "ward.csv").write_text("\n".join(["id,age,crp,side,same", *rows]) + "\n")
    office = Office(tmp_path)
    first = office.ok("check", "ward.csv", "--write", "party.toml")
    assert "crp: 30% missing, more than --max-missing 0.1: left out" in first.out
    assert party_file.read(tmp_path / "party.toml").reading.exclude == ("same",)
    told = office.ok("summarize", "party.toml", "--gamma", 0.1, "--out", "ward.summary", "--json").json
    assert told["n_features"] == 1
    again = office.ok("check", "party.toml", "--max-missing", 0.35, "--write", "party.toml")
    assert "same: in exclude; the same value in every row in column 'same'" in again.out
    told = office.ok("summarize", "party.toml", "--gamma", 0.1, "--out", "ward.summary", "--json").json
    assert told["n_features"] == 4  # age, crp, two of side


def test_what_cannot_be_read_may_be_excluded(tmp_path):
    rows = [f"p{i},{50 + i}.5,{1 + i}/13/2024,{i * i}" for i in range(12)]
    (tmp_path / "ward.csv").write_text("\n".join(["id,age,day,crp", *rows]) + "\n")
    found = Office(tmp_path).ok("check", "ward.csv", "--exclude", "day,crp", "--json").json
    assert [(each["name"], each["use"], each["remarks"]) for each in found["columns"]][1:] == [
        ("day", "leave out", ["in exclude"]),
        ("crp", "leave out", ["in exclude"]),
    ]
    assert found["suggested"]["exclude"] == ["day", "crp"]


def test_rows_that_would_match_by_position_are_not_plainly_usable(tmp_path):
    (tmp_path / "t.csv").write_text("case,x\n" + "".join(f"A{i},{i}.5\n" for i in range(30)))
    office = Office(tmp_path)
    assert "can be used as suggested, but only if rows match by position" in office.ok("check", "t.csv").out
    assert "only if" not in office.ok("check", "t.csv", "--id", "case").out


@pytest.mark.parametrize(
    ("written", "use"),
    [("P{:03d}", "leave out"), ("{}", "as is"), ("{}0000017", "as is")],
    ids=["text", "count", "long"],
)
def test_a_column_of_nearly_as_many_values_as_rows_may_hold_the_ids(written, use, tmp_path):
    cases = [written.format(1 + i) for i in range(39)]
    rows = [f"{case},{i % 7}.5\n" for i, case in enumerate([*cases, cases[3]])]
    (tmp_path / "t.csv").write_text("".join(["case,x\n", *rows]))
    found = Office(tmp_path).ok("check", "t.csv", "--json").json
    assert found["columns"][0]["remarks"][-1] == "different in nearly every row: perhaps an identifier"
    assert found["columns"][0]["use"] == use
    assert "No id column found; if 'case' holds the ids, name it with --id" in found["notes"]


def test_six_digits_that_repeat_are_a_quantity(tmp_path):
    rows = [f"p{i},{150_000 + 2_311 * (i % 39)}\n" for i in range(40)]
    (tmp_path / "t.csv").write_text("".join(["id,platelets\n", *rows]))
    assert Office(tmp_path).ok("check", "t.csv", "--json").json["columns"][0]["remarks"] == []


def test_a_date_is_explained(tmp_path):
    rows = [f"p{i};{50 + i};0{1 + i % 9}.03.2024" for i in range(12)]
    (tmp_path / "ward.csv").write_text("\n".join(["Patient ID;Alter;Aufnahme", *rows]) + "\n")
    office = Office(tmp_path)
    columns = {column["name"]: column for column in office.ok("check", "ward.csv", "--json").json["columns"]}
    assert columns["Aufnahme"]["use"] == "leave out"
    assert "--dates number" in "; ".join(columns["Aufnahme"]["remarks"])
    office.ok("check", "ward.csv", "--write", "party.toml")
    assert 'exclude = ["Aufnahme"]' in (tmp_path / "party.toml").read_text()


@pytest.mark.longer
def test_what_it_writes_is_what_summarize_reads(clinic):
    clinic.ok("check", "clinic.csv", "--null-values", "-999", "--write", "party.toml")
    told = clinic.ok("summarize", "party.toml", "--gamma", 0.1, "--out", "clinic.summary", "--json").json
    assert told["party"] == "clinic"
    assert told["n_features"] == 5  # age, two of sex, CRP, potassium
    by_hand = ("--id", "Patienten-ID", "--exclude", "Fall,Konstant,Leer,Freitext", "--text", "one-hot")
    clinic.ok("check", "clinic.csv", *by_hand, "--dates", "ignore", "--null-values", "-999", "--write", "other.toml")
    clinic.ok("summarize", "other.toml", "--gamma", 0.1, "--out", "other.summary")
    assert (clinic.path / "clinic.summary").read_bytes() == (clinic.path / "other.summary").read_bytes()
    assert party_file.read(clinic.path / "party.toml").table == clinic.path / "clinic.csv"


@pytest.mark.longer
def test_a_party_named_anew_replaces_the_name_in_the_file_and_an_unnamed_one_keeps_it(clinic):
    clinic.ok("check", "clinic.csv", "--write", "party.toml")
    clinic.ok("check", "clinic.csv", "--party", "ward", "--write", "party.toml")
    assert 'party = "ward"' in (clinic.path / "party.toml").read_text()
    clinic.ok("check", "clinic.csv", "--write", "party.toml")
    assert 'party = "ward"' in (clinic.path / "party.toml").read_text()


def test_a_file_with_a_space_in_its_name_names_a_party(clinic):
    (clinic.path / "clinic.csv").rename(clinic.path / "Klinik 2026.csv")
    clinic.ok("check", "Klinik 2026.csv", "--write", "party.toml")
    assert 'party = "Klinik_2026"' in (clinic.path / "party.toml").read_text()
    clinic.ok("check", "Klinik 2026.csv", "--party", "north", "--write", "party.toml")
    clinic.ok("check", "Klinik 2026.csv", "--write", "party.toml")
    assert 'party = "north"' in (clinic.path / "party.toml").read_text()


@pytest.mark.longer
def test_an_option_wins_over_party_toml(clinic):
    clinic.ok("check", "clinic.csv", "--write", "party.toml")
    clinic.ok("check", "party.toml", "--columns", "Alter,Kalium", "--text", "ignore", "--write", "party.toml")
    asked = ("summarize", "party.toml", "--gamma", 0.1, "--no-standardize", "--out", "clinic.summary", "--json")
    told = clinic.ok(*asked).json
    assert (told["n_features"], told["standardize"]) == (2, False)


def test_an_option_about_a_table_is_one_of_check(clinic):
    said = clinic.refused("summarize", "clinic.csv", "--id", "Patienten-ID", "--gamma", 0.1, "--out", "c.summary")
    assert "dkpca check TABLE --write party.toml" in said


def test_ids_that_cannot_be_used_are_listed_and_the_exit_code_says_so(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n1,2.5\n1,3.5\n,4.5\n2,1.5\n")
    answer = Office(tmp_path).run("check", "t.csv")
    assert answer.code == 1
    assert "NOT ok: t.csv: no id in column 'id', row 3; give every sample an id" in answer.out
    assert "NOT ok: t.csv: ids in column 'id' occur more than once: '1' (rows 1, 2); ids must be" in answer.out


@pytest.mark.parametrize("suffix", ["csv", "xlsx"])
def test_a_number_that_may_mean_missing_comes_with_an_option_that_keeps_the_usual_words(suffix, tmp_path):
    office, book, lines = Office(tmp_path), openpyxl.Workbook(), ["id,crp,age", "p,NA,40"]
    book.active.append(["id", "crp", "age"])
    book.active.append(["p", None, 40])
    for i in range(29):
        value = -9 if i % 7 == 0 else 1.5 * i
        lines.append(f"p{i},{value},{i * i}")
        book.active.append([f"p{i}", value, i * i])
    book.save(tmp_path / "t.xlsx")
    (tmp_path / "t.csv").write_text("\n".join(lines))
    found = office.ok("check", f"t.{suffix}", "--json").json
    assert "-9 occurs 5 times: missing?" in found["columns"][0]["remarks"]
    (note,) = [note for note in found["notes"] if note.startswith("to count -9 as missing: ")]
    option = shlex.split(note.partition(": ")[2])
    assert option[1].startswith("-9,NA,N/A,")
    assert option[1].endswith("#BEZUG!")
    again = office.ok("check", f"t.{suffix}", *option, "--max-missing", 0.3, "--json").json
    assert again["columns"][0]["n_missing"] == 6
    assert again["columns"][0]["low"] == 1.5


def test_all_ids_that_occur_more_than_once_are_listed(tmp_path):
    ids = [*range(12), *range(6), 3, "", " "]
    (tmp_path / "t.csv").write_text("id,x\n" + "".join(f"{each},{row}.5\n" for row, each in enumerate(ids)))
    answer = Office(tmp_path).run("check", "t.csv")
    twice = "'0' (rows 1, 13), '1' (rows 2, 14), '2' (rows 3, 15), '3' (rows 4, 16, 19) and 2 more; ids"
    assert f"ids in column 'id' occur more than once: {twice}" in answer.out
    assert "no id in column 'id', rows 20, 21; give every sample an id" in answer.out


def test_check_shows_how_ids_are_written_as_join_does(tmp_path):
    ids = [f"P{i:03d}" for i in range(20)] + ["p7", "12"]
    (tmp_path / "t.csv").write_text("id,x\n" + "".join(f"{each},{row}.5\n" for row, each in enumerate(ids)))
    said = "note: sample ids: column 'id', matched as 'A999' (20), 'a9' (1), '99' (1); compare this and"
    assert said in Office(tmp_path).ok("check", "t.csv").out


def test_a_table_of_which_nothing_can_be_used_says_so(tmp_path):
    (tmp_path / "t.csv").write_text("id,x\n")
    answer = Office(tmp_path).run("check", "t.csv")
    assert answer.code == 1
    assert "NOT ok: t.csv: no column is left to use" in answer.out


@pytest.mark.parametrize("usable", [True, False])
def test_only_a_table_that_can_be_used_is_said_to_be_ready_for_a_fit(tmp_path, usable):
    (tmp_path / "t.csv").write_text(f"id,x\n1,2.5\n{2 if usable else 1},3.5\n3,1.5\n")
    answer = Office(tmp_path).run("check", "t.csv", "--write", "party.toml")
    assert answer.code == (0 if usable else 1)
    assert (tmp_path / "party.toml").exists()
    assert "wrote party.toml" in answer.out
    assert ("dkpca fit" in answer.out) == usable


def test_a_wrong_party_toml_names_the_key_and_what_to_write(tmp_path):
    (tmp_path / "party.toml").write_text('table = "t.csv"\ntext_of = { a = "maybe" }\n')
    asked = ("summarize", "party.toml", "--gamma", 1, "--out", "x.summary")
    assert "text_of is {'a': 'maybe'}; give { column = ... } with one of error" in Office(tmp_path).refused(*asked)
    (tmp_path / "party.toml").write_text('tabel = "t.csv"\n')
    assert "unknown keys ['tabel']" in Office(tmp_path).refused(*asked)
    (tmp_path / "party.toml").write_text("")
    assert "names no table" in Office(tmp_path).refused(*asked)


def three_tables(path):
    """Ids under three names, partly shared, in three orders and three formats."""
    rng = np.random.default_rng(1)
    people = [f"{i:03d}" for i in range(60)]
    for name, column, keep in (("clinic", "patient", 50), ("bank", "customer", 55), ("shop", "Kunde", 58)):
        chosen = [people[i] for i in rng.permutation(60)[:keep]]
        frame = pl.DataFrame({column: chosen} | {f"{name}{j}": rng.normal(size=keep) for j in range(3)})
        if name == "shop":
            text = frame.write_csv(separator=";").replace(".", ",")
            (path / "shop.csv").write_text(text)
        elif name == "bank":
            frame.write_parquet(path / "bank.parquet")
        else:
            frame.write_csv(path / "clinic.csv")
    return Office(path)


@pytest.mark.slow
def test_fit_takes_an_id_column_per_table_or_their_party_toml(tmp_path):
    office = three_tables(tmp_path)
    tables = ("clinic.csv", "bank.parquet", "shop.csv")
    ids = ("--id", "patient", "--id", "bank=customer", "--id", "shop=Kunde")
    asked = ("--components", 3, "--jobs", 1, "--json")
    told = office.ok("fit", *tables, *ids, *asked, "--out", "run").json
    sets = [
        set(pl.read_csv(tmp_path / "clinic.csv", infer_schema=False)["patient"]),
        set(pl.read_parquet(tmp_path / "bank.parquet")["customer"]),
        {line.partition(";")[0] for line in (tmp_path / "shop.csv").read_text().splitlines()[1:]},
    ]
    common = set.intersection(*sets)
    assert told["n_samples"] == len(common)
    embedding = pl.read_csv(tmp_path / "run" / "embedding.csv", infer_schema=False)
    assert set(embedding["sample"]) == common
    for table, column in zip(tables, ("patient", "customer", "Kunde"), strict=True):
        name = table.partition(".")[0]
        office.ok("check", table, "--id", column, "--write", f"{name}.toml")
    again = office.ok("fit", "clinic.toml", "bank.toml", "shop.toml", *asked, "--out", "again").json
    assert again["parties"].keys() == told["parties"].keys()
    assert (
        pl.read_csv(tmp_path / "again" / "embedding.csv", infer_schema=False)["sample"].to_list()
        == embedding["sample"].to_list()
    )


def test_a_table_without_ids_beside_tables_with_ids_is_refused(tmp_path):
    office = three_tables(tmp_path)
    error = office.refused("fit", "clinic.csv", "bank.parquet", "--id", "bank=customer", "--out", "run")
    assert "the tables of ['clinic'] have no id column, the others do; name it with --id NAME=COLUMN" in error


def test_what_text_ignore_leaves_out_is_listed(clinic):
    (clinic.path / "party.toml").write_text(
        'table = "clinic.csv"\nid = "Patienten-ID"\nexclude = ["Fall", "Konstant", "Leer"]\ntext = "ignore"\n'
        'dates = "ignore"\n'
    )
    told = clinic.ok("summarize", "party.toml", "--gamma", 0.1, "--out", "c.summary", "--json").json
    assert "left out 2 columns of text: 'Geschlecht', 'Freitext'" in told["notes"]
    assert "left out 1 column of dates: 'Aufnahme'" in told["notes"]


@pytest.mark.parametrize(("given", "written"), [("ignore", "leave out"), ("codes", "codes"), ("one-hot", "one-hot")])
def test_what_was_asked_for_text_columns_is_written(clinic, given, written):
    answer = clinic.ok("check", "clinic.csv", "--text", given, "--write", "party.toml", "--json")
    assert {column["name"]: column["use"] for column in answer.json["columns"]}["Geschlecht"] == written
    kept = party_file.read(clinic.path / "party.toml").reading
    assert ("Geschlecht" in kept.exclude) == (given == "ignore")
    assert dict(kept.text_of).get("Geschlecht") == (None if given == "ignore" else given)


def test_tables_without_a_common_id_show_how_theirs_are_written(tmp_path):
    for name, mark in (("lab", "00"), ("registry", "P-")):
        rows = [f"{mark}{i:02d},{i * i}" for i in range(8)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["sample,value", *rows]) + "\n")
    said = Office(tmp_path).refused("fit", "lab.csv", "registry.csv", "--id", "sample", "--out", "run")
    assert "['0000'] in lab.csv, ['P-00'] in registry.csv" in " ".join(said.split())
