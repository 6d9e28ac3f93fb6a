"""Exports that nobody prepared: read as a careful person reads them, or refused with what to do about them."""

import io
import os

import numpy as np
import openpyxl
import polars as pl
import pytest

from dkpca.errors import InputError
from dkpca.tables.preparation import prepare
from dkpca.tables.reading import Reading, read
from testkit.program import Office

N = 30
RNG = np.random.default_rng(1)
IDS = [f"{i:04d}" for i in range(1, N + 1)]
A, B = RNG.normal(50, 10, N).round(1), RNG.normal(1500, 400, N).round(1)


def lines(*columns, header="id,a,b"):
    return [header, *(",".join(map(str, row)) for row in zip(*columns, strict=True))]


def written(folder, rows, name="t.csv", encoding="utf-8"):
    path = folder / name
    path.write_bytes(("\n".join(rows) + "\n").encode(encoding))
    return path


def workbook(folder, rows):
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(list(row))
    book.save(folder / "t.xlsx")
    return folder / "t.xlsx"


def refused(path, **how):
    """Sentence with which the table is refused as it is, and with one-hot for text; it is the same."""
    said = []
    for text in ("error", "one-hot"):
        reading = Reading(**({"id_column": "id", "text": text} | how))
        with pytest.raises(InputError) as error:
            prepare(read(path, reading), reading)
        said.append(str(error.value))
    assert said[0] == said[1]
    return said[0]


@pytest.mark.parametrize("odd", ["<0.5", "nicht erhoben", "12,5,7"])
def test_text_among_numbers_is_never_made_columns_of_0_and_1(tmp_path, odd):
    cells = [f'"{odd}"' if i % 9 == 1 else a for i, a in enumerate(A)]
    said = refused(written(tmp_path, lines(IDS, cells, B)))
    assert f"column 'a' holds numbers, but for {odd!r} in 4 rows, first in data row 2" in said
    word = f'"{odd}"' if "," in odd else odd
    assert f"say that it means missing (--null-values '{word},NA,N/A,n/a,NaN," in said
    assert "--exclude 'a'" in said


def test_a_column_of_text_that_is_named_becomes_columns_of_0_and_1_whatever_it_holds(tmp_path):
    cells = ["<0.5" if i % 9 == 1 else 1.5 for i in range(N)]
    reading = Reading("id", text_of=(("a", "one-hot"),))
    assert len(prepare(read(written(tmp_path, lines(IDS, cells, B)), reading), reading).columns) == 3


@pytest.mark.longer
def test_a_second_row_of_the_header_is_refused(tmp_path):
    units = written(tmp_path, lines(["-", *IDS], ["kg", *A], ["EUR", *B]))
    assert "column 'a' holds numbers, but for 'kg' in data row 1" in refused(units)
    book = workbook(tmp_path, [["id", "a", "b"], ["-", "kg", "EUR"], *zip(IDS, A.tolist(), B.tolist(), strict=True)])
    assert "column 'a' holds numbers, but for 'kg' in data row 1" in refused(book)


def test_a_header_that_stands_again_among_the_rows_is_refused(tmp_path):
    rows = lines(IDS, A, B)
    assert "column 'a' holds numbers, but for 'a' in data row 16" in refused(
        written(tmp_path, [*rows[:16], "id,a,b", *rows[16:]])
    )


def test_lines_of_words_below_a_table_are_refused(tmp_path):
    path = written(tmp_path, [*lines(IDS, A, B), "", "Exported 2024-01-31 by the ward", "Page 1"])
    said = refused(path)
    assert "row 32 has 1 values, but the header has 3 names; correct that row, get the whole file" in said


class TestCheck:
    def found(self, path, *options):
        return Office(path.parent).run("check", path.name, "--json", *options).json

    @pytest.mark.longer
    def test_ids_of_a_workbook_are_found_by_their_name(self, tmp_path):
        found = self.found(workbook(tmp_path, [["Patient ID", "Glukose"], *zip(IDS, A.tolist(), strict=True)]))
        assert (found["id_column"], found["usable"]) == ("Patient ID", True)

    def test_numbers_that_count_the_rows_are_taken_for_ids(self, tmp_path):
        found = self.found(written(tmp_path, lines(IDS, A, B, header="fall,a,b")))
        assert found["columns"][0]["use"] == "leave out"
        assert "No id column found; if 'fall' holds the ids, name it with --id" in found["notes"]

    def test_what_somebody_has_to_decide_is_not_decided_for_them(self, tmp_path):
        cells = ["<0.5" if i % 9 == 1 else a for i, a in enumerate(A)]
        path = written(tmp_path, lines(IDS, cells, B))
        found = self.found(path)
        assert not found["usable"]
        assert "holds numbers, but for '<0.5' in 4 rows" in found["problems"][0]
        assert [column["use"] for column in found["columns"]] == ["decide", "as is"]
        assert self.found(path, "--exclude", "a")["usable"]
        assert self.found(path, "--null-values", "<0.5", "--max-missing", 0.2)["usable"]

    def test_a_mark_with_a_decimal_comma_is_one_mark(self, tmp_path):
        cells = ["<1,5" if i % 9 == 1 else f"{a}".replace(".", ",") for i, a in enumerate(A)]
        path = written(tmp_path, ["id;a;grade", *(f"{IDS[i]};{cells[i]};{i % 7}" for i in range(N))])
        found = self.found(path, "--null-values", '"<1,5"', "--max-missing", 0.2)
        assert found["usable"]
        assert [column["n_missing"] for column in found["columns"]] == [4, 0]  # every 5 is a grade


@pytest.mark.longer
@pytest.mark.parametrize(
    "name",
    [
        *("patientID", "ID"),
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("id", "Patienten-ID", "patient_id")),
    ],
)
def test_rows_never_match_by_position_while_a_column_of_ids_stands_by(tmp_path, name):
    office = Office(tmp_path)
    header = f"{name},a,b"
    written(tmp_path, lines(IDS, A, B, header=header), name="one.csv")
    written(tmp_path, lines(IDS[::-1], B, A, header=header), name="two.csv")
    fit = ("fit", "one.csv", "two.csv", "--components", 2, "--jobs", 1, "--out", "run")
    said = office.refused(*fit)
    assert f"{name!r} looks like an id column, but no id column was given" in said
    assert f"--id {name!r}" in said
    for table in ("one", "two"):
        (tmp_path / f"{table}.toml").write_text(f'table = "{table}.csv"\nexclude = ["{name}"]\n')
    by_position = ("fit", "one.toml", "two.toml", *fit[3:])
    assert office.ok(*by_position, "--json").json["n_samples"] == N
    with_ids = office.ok(*fit, "--id", name, "--json").json
    assert with_ids["n_samples"] == N
    assert "party 'two': its rows were put into the order of party 'one', by their labels" in with_ids["notes"]


def test_a_number_that_is_called_so_but_stands_for_many_samples_is_no_id(tmp_path):
    rooms = [1 + i % 4 for i in range(N)]
    assert read(written(tmp_path, lines(rooms, A, B, header="room id,a,b")), Reading()).frame.width == 3
    chosen = Reading(columns=("case id", "a"))
    assert read(written(tmp_path, lines(IDS, A, B, header="case id,a,b")), chosen).frame.width == 2


def test_a_column_of_ids_that_was_not_named_is_recognized(tmp_path):
    path = written(tmp_path, lines([f"p{i}" for i in IDS], A, B, header="person,a,b"))
    said = Office(tmp_path).refused("summarize", path.name, "--gamma", 0.1, "--out", "t.summary")
    assert "if these are the sample ids, use --id person" in said
    path = written(tmp_path, lines(["m", "w"] * (N // 2), A, B, header="sex,a,b"))
    said = Office(tmp_path).refused("summarize", path.name, "--gamma", 0.1, "--out", "t.summary")
    assert "column 'sex' has text 'm' in row 1; give a party.toml" in said
    assert said.count("dkpca check") == 1


@pytest.mark.parametrize("suffix", ["csv", "parquet", "arrow"])
def test_brackets_in_the_name_of_a_file_are_no_pattern_for_others(tmp_path, suffix):
    for name, value in (("t[1]", 7.0), ("t1", 1.0)):
        frame, path = pl.DataFrame({"a": [value, 2.0, 3.0]}), tmp_path / f"{name}.{suffix}"
        getattr(frame, {"csv": "write_csv", "parquet": "write_parquet", "arrow": "write_ipc"}[suffix])(path)
    assert read(tmp_path / f"t[1].{suffix}", Reading()).frame["a"].to_list() == [7.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("shape", "kind"), [((10**9, 3), "S0"), ((10**10,), "U0"), ((10**9, 3), "V0"), ((0, 10**9), "f8")]
)
def test_an_array_without_values_takes_no_memory(tmp_path, shape, kind):
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": f"|{kind}", "fortran_order": False, "shape": shape})
    (tmp_path / "t.npy").write_bytes(header.getvalue())
    with pytest.raises(InputError, match="has no values"):
        read(tmp_path / "t.npy", Reading())


def test_files_larger_than_memory_are_refused_by_the_size_that_they_state(tmp_path):
    np.save(tmp_path / "t.npy", np.zeros((2, 2)))
    os.truncate(tmp_path / "t.npy", 2**42)  # a hole, which takes no room on the disk
    with pytest.raises(InputError, match="GB of memory, and"):
        read(tmp_path / "t.npy", Reading())
