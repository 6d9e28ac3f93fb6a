"""Workbooks are read as their owners see them: by Excel's format, by LibreOffice's, and as their CSV exports."""

import datetime as dt
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import openpyxl
import pytest

from dkpca.errors import InputError
from dkpca.tables.preparation import prepare
from dkpca.tables.reading import Reading, read
from dkpca.tables.text_files import Dialect

FILES = Path(__file__).with_name("files")
BORN = [dt.date(1950, 3, 1), dt.date(1961, 12, 24), dt.date(1978, 7, 15), dt.date(1985, 1, 2), dt.date(1999, 10, 31)]
HOW = Reading("Fall-Nr", text="one-hot", dates="number", max_missing=0.7, standardize=False)


@pytest.mark.parametrize("name", ["shown.csv", "raw.csv", "shown.tsv", "labor.xlsx", "labor.ods"])
def test_what_libreoffice_writes_is_read_as_it_was_shown(name):
    table = read(FILES / name, replace(HOW, dialect=Dialect(thousands="." if name.startswith("shown") else None)))
    assert table.ids == ["001", "002", "0010", "5E3", "1.0"]
    preparation = prepare(table, HOW)
    X = preparation.apply(table)
    assert [c.source for c in preparation.columns] == ["Größe", "Kosten", "Geburtstag", *3 * ["Geschlecht"], "CRP"]
    assert X[:, 0].tolist() == [178.5, 162.25, 171.0, 180.75, 155.5]
    assert X[:, 1].tolist() == [1234.5, 987.0, 12345.75, 1e6, 250.25]
    assert X[:, 2].tolist() == [(born - dt.date(1970, 1, 1)).days for born in BORN]
    assert X[:, 6].tolist() == [12.25, 6.375, 6.375, 0.5, 6.375]
    assert "counted as missing: '#NV' 1 times, '-' 1 times" in preparation.notes


def test_a_line_above_the_header_is_taken_for_a_title():
    said = (
        r"row 1 looks like a title \('Laborwerte der Klinik, Stand 31.01.2024'\), and row 2 like the header; delete"
    )
    with pytest.raises(InputError, match=said):
        read(FILES / "labor.xls", HOW)


@pytest.fixture
def book(tmp_path):
    """A new workbook, and a function that saves it."""
    made = openpyxl.Workbook()

    def save() -> Path:
        made.save(tmp_path / "t.xlsx")
        return tmp_path / "t.xlsx"

    return made, save


@pytest.mark.versions
@pytest.mark.longer
def test_several_sheets_are_refused_until_one_is_named(book):
    made, save = book
    for name, value in (("first", 1.5), ("second", 2.5)):
        sheet = made.create_sheet(name)
        sheet.append(["id", "x"])
        sheet.append(["001", value])
    path = save()
    with pytest.raises(InputError, match=r"has tables on the sheets \['first', 'second'\]; choose one with --sheet"):
        read(path, Reading("id"))
    with pytest.raises(InputError, match="has no sheet 'third'; it has"):
        read(path, Reading("id", dialect=Dialect(sheet="third")))
    assert read(path, Reading("id", dialect=Dialect(sheet="second"))).frame["x"].to_list() == [2.5]


@pytest.mark.versions
@pytest.mark.longer
def test_ids_that_are_numbers_are_their_digits_and_hidden_zeros_are_refused(book):
    made, save = book
    made.active.append(["id", "x"])
    made.active.append([7, 1.5])
    made.active.append([12, 2.5])
    assert read(save(), Reading("id")).ids == ["7", "12"]
    made.active["A2"].number_format = "00000"
    with pytest.raises(
        InputError,
        match=r"are numbers, and some cells show leading zeros \(format 00000\), which a workbook does not",
    ):
        read(save(), Reading("id"))
    assert read(save(), Reading("id", id_normalize=("zeros",))).ids == ["7", "12"]


def test_numbers_that_a_workbook_holds_as_text_are_numbers(book):
    made, save = book
    made.active.append(["id", "x", "y"])
    made.active.append(["a", "1,5", 1])
    made.active.append(["b", "1234,5", None])
    made.active.append(["c", "-", 3])
    made.active.append([None, None, None])
    table = read(save(), Reading("id"))
    assert table.ids == ["a", "b", "c"]
    assert table.frame.rows() == [(1.5, 1.0), (1234.5, None), (None, 3.0)]


def test_a_file_that_is_no_workbook_is_refused(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(b"id,x\n1,2\n")
    with pytest.raises(InputError, match=r"t\.xlsx: cannot be read as a workbook"):
        read(tmp_path / "t.xlsx", Reading("id"))


@pytest.mark.longer
@pytest.mark.parametrize("cell", ["XFD1048576", "ZZZZZZ4000000000"])
def test_a_stray_cell_far_away_takes_no_memory(tmp_path, cell):
    book = openpyxl.Workbook()
    for row in (["id", "x"], ["a", 1.5], ["b", 2.5]):
        book.active.append(row)
    book.save(tmp_path / "near.xlsx")
    with zipfile.ZipFile(tmp_path / "near.xlsx") as near, zipfile.ZipFile(tmp_path / "far.xlsx", "w") as far:
        for name in near.namelist():
            far.writestr(name, near.read(name).replace(b'r="B3"', f'r="{cell}"'.encode()))
    with pytest.raises(InputError, match="cannot be read as a workbook"):
        read(tmp_path / "far.xlsx", Reading("id"))
    assert len(read(tmp_path / "near.xlsx", Reading("id"))) == 2


@pytest.mark.slow
def test_without_the_extra_the_sentence_says_how_to_install_it():
    code = (
        "import pathlib, sys\n"
        "sys.modules['fastexcel'] = None\n"
        "from dkpca.tables.reading import Reading, read\n"
        "read(pathlib.Path(sys.argv[1]), Reading())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, FILES / "labor.xlsx"], capture_output=True, text=True, check=False
    )
    said = "unless it is saved as CSV, it needs fastexcel; install it with: pip install 'dkpca[excel]'"
    assert said in ran.stderr
