"""Text files as people export them are detected: their owners mean them, or refused with a sentence that says why."""

import numpy as np
import polars as pl
import pytest

from dkpca.errors import InputError
from dkpca.tables.checkup import examine
from dkpca.tables.preparation import prepare
from dkpca.tables.reading import Reading, column_names, read, read_ids
from dkpca.tables.text_files import Dialect

IDS = ["001", "5E3", " 7", "1.0"]
AGE = [50.5, 61.25, 47.0, 39.5]
COST = [1234.5, 987.0, 12345.75, 1000000.0]


def german(number: float) -> str:
    return f"{number:,.2f}".replace(",", "\0").replace(".", ",").replace("\0", ".")


def written(tmp_path, text: str, encoding: str = "utf-8", name: str = "t.csv"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


def loaded(path, **reading):
    return read(path, Reading(**({"id_column": "Fall"} | reading)))


def rows(separator: str, number=str, end: str = "\n", quote: str = "") -> str:
    lines = [separator.join(["Fall", "Größe", "cost"])]
    lines += [
        separator.join(f"{quote}{cell}{quote}" for cell in (i, number(a), number(c)))
        for i, a, c in zip(IDS, AGE, COST, strict=True)
    ]
    return end.join(lines) + end


@pytest.mark.parametrize(
    ("text", "encoding", "thousands", "said"),
    [
        (rows(","), "utf-8", None, ()),
        (rows(",", end="\r\n"), "utf-8-sig", None, ()),
        (rows(";", german), "cp1252", ".", ("format: separated by semicolons, decimal comma", "encoding: cp1252")),
        (rows(";", german, quote='"'), "utf-8", ".", ("format: separated by semicolons, decimal comma",)),
        (rows("\t", "{:,.2f}".format), "utf-16", ",", ("format: separated by tabs", "encoding: utf-16")),
        (rows("|"), "utf-8", None, ("format: separated by vertical bars",)),
        (rows(",", "{:,.2f}".format, quote='"'), "utf-8", ",", ()),
        (rows(";", "{:_.2f}".format).replace("_", "'"), "utf-8", "'", ("format: separated by semicolons",)),
        (
            rows(";", "{:_.2f}".format).replace(".", ",").replace("_", "\u00a0").replace("1,0", "1.0"),
            "utf-8", "\u00a0",
            ("format: separated by semicolons, decimal comma",),
        ),
        (rows(";", end=";\n"), "utf-8", None, ("format: separated by semicolons",)),
        (rows(",") + "\n\n", "utf-8", None, ()),
    ],
)  # fmt: skip
def test_a_file_as_people_export_it_is_read_as_it_is_meant(tmp_path, text, encoding, thousands, said):
    table = loaded(written(tmp_path, text, encoding), dialect=Dialect(thousands=thousands))
    assert table.ids == IDS
    assert table.frame.columns == ["Größe", "cost"]
    np.testing.assert_array_equal(table.frame.to_numpy(), np.array([AGE, COST]).T)
    assert table.notes == said


def test_marks_of_missing_values_are_counted_and_said(tmp_path):
    text = "Fall;a;b\n1;-;1,5\n2;n/a;2,5\n3;3;#NV\n-;NA;4,25\n"
    table = loaded(written(tmp_path, text))
    assert table.ids == ["1", "2", "3", "-"]
    assert table.frame.rows() == [(None, 1.5), (None, 2.5), (3.0, None), (None, 4.25)]
    assert "counted as missing: '#NV' 1 times, '-' 1 times, 'n/a' 1 times" in table.notes


def test_what_is_asked_for_wins_over_what_is_found(tmp_path):
    path = written(tmp_path, "Fall;a\n1;1,234\n2;999\n3;-\n")
    how = Dialect(decimal=",", missing=("999", "-"))
    assert loaded(path, dialect=how).frame["a"].to_list() == [1.234, None, None]
    how = Dialect(decimal=".", thousands=",", missing=("-",))
    assert loaded(path, dialect=how).frame["a"].to_list() == [1234.0, 999.0, None]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fall;a\n1;1,234\n2;5\n", "mark in '1,234' in column 'a' could be a decimal mark or a thousands separator"),
        ("Fall,a\n1,1.234\n2,5\n", "mark in '1.234' in column 'a' could be a decimal mark or a thousands separator"),
        ("Fall;a\n1;1.234\n2;5\n", "mark in '1.234' in column 'a' could be a decimal mark or a thousands separator"),
        ("Laborwerte 2024\n" + rows(";"), "row 1 looks like a title ('Laborwerte 2024'), and row 2 like the header"),
        ("Laborwerte 2024;;\n" + rows(";"), "row 2 like the header; delete the rows above the header, or name"),
        ("Laborwerte\n" + rows(","), "row 1 looks like a title ('Laborwerte'), and row 2 like the header"),
        ("Labor, Stand 2027\n" + rows(";"), "row 1 looks like a title ('Labor, Stand 2027'), and row 2 like"),
        ("Labor\nStand 2027\n" + rows("\t"), "row 1 looks like a title ('Labor'), and row 3 like the header"),
        ("Labor;;\n;;\n" + rows(";"), "row 1 looks like a title ('Labor'), and row 3 like the header"),
        ("sep=;\n" + rows(";"), "row 1 looks like a title ('sep='), and row 2 like the header"),
        ("Labor\nFall,a\n1,2\n", "the first line has 1 names, but most rows have 2 values; remove lines above"),
        ("Fall;a;b\n1;1,5;2.5\n", "decimal commas and points, '1,5' in column 'a' and '2.5' in column 'b'"),
        ("Fall,a\n1,2\n3,4,5\n", "row 2 has 3 values, but the header has 2 names"),
        ("Fall,a,b\n1,2,3\n3,4", "row 2 has 2 values, but the header has 3 names"),
        ("Fall,a,a\n1,2,3\n", "the header has 'a' more than once; rename these columns"),
        (rows(",").replace("\n 7", "\n,,\n 7"), "row 3 is empty; remove it"),
        ("Fall,a\n1,2\n,3\n", "no id in column 'Fall', row 2"),
        ("Fall,a\n1,2\n  ,3\n", "no id in column 'Fall', row 2"),
        ("", "is empty"),
        ("\n\n", "no header row found"),
    ],
)
def test_what_cannot_be_decided_is_refused_with_the_candidates(tmp_path, text, words):
    with pytest.raises(InputError) as error:
        loaded(written(tmp_path, text))
    assert words in str(error.value)
    assert "t.csv" in str(error.value)


def test_columns_that_two_marks_may_separate_are_refused_unless_one_is_named(tmp_path):
    path = written(tmp_path, "Fall;a,b\nx;1,y\nz;2,y\n")
    with pytest.raises(InputError, match="may be separated by commas or semicolons; choose one with --separator"):
        read(path, Reading())
    assert loaded(path, dialect=Dialect(separator=";")).frame.columns == ["a,b"]


@pytest.mark.longer
def test_an_unclear_number_below_the_head_is_refused_too(tmp_path):
    text = "Fall;a\n" + "".join(f"{i};{i}\n" for i in range(60_000)) + "x;1.234\n"
    with pytest.raises(InputError, match=r"in '1\.234' in column 'a' could be a decimal mark or a thousands"):
        loaded(written(tmp_path, text))
    assert loaded(written(tmp_path, text + "y;0.5\n")).frame["a"].to_list()[-2:] == [1.234, 0.5]


@pytest.mark.longer
def test_both_marks_are_refused_wherever_they_are_unless_the_column_is_left_out(tmp_path):
    path = written(tmp_path, "Fall;a;b\n" + "".join(f"{i};{i},5;{i}\n" for i in range(60_000)) + "x;0,5;2.5\n")
    with pytest.raises(InputError, match=r"decimal commas and points, '0,5' in column 'a' and '2\.5' in column 'b'"):
        loaded(path)
    assert loaded(path, exclude=("b",)).frame["a"][-1] == 0.5


def test_a_word_below_the_head_makes_a_column_text(tmp_path):
    text = "Fall;a\n" + "".join(f"{i};{i},5\n" for i in range(60_000)) + "x;broken\n"
    assert loaded(written(tmp_path, text)).frame["a"].dtype == pl.String


def test_a_wrong_separator_shows_the_header(tmp_path):
    path = written(tmp_path, "Fall;a\n1;2\n")
    with pytest.raises(InputError, match="has no column 'Fall'; it has 'Fall;a'"):
        loaded(path, dialect=Dialect(separator=","))


def test_letters_that_are_no_utf8_and_no_windows_text_are_refused(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("Fall,a\nM\xfcller,1\n".encode("cp1250") + b"\x81\x8d,2\n")
    with pytest.raises(
        InputError, match="is neither UTF-8, UTF-16 with its mark, nor Windows-1252; save it as UTF-8"
    ):
        loaded(path)


def test_a_letter_far_below_the_head_decides_the_encoding(tmp_path):
    text = "Fall;a\n" + "".join(f"{i};{i}\n" for i in range(60_000)) + "Müller;1\n"
    assert loaded(written(tmp_path, text, "cp1252")).ids[-1] == "Müller"


@pytest.mark.parametrize(
    ("text", "encoding", "words"),
    [
        ("a\tb\nx\t1\t2.5\ny\t3\t4.5\n", "utf-8", "name every column"),
        (rows(";", end="\r"), "latin-1", "save it with other line endings"),
        (rows("|"), "utf-16-le", "save it as UTF-8"),
        (rows("|"), "utf-32", "save it as UTF-8"),
    ],
)
def test_what_is_not_guessed_is_refused_with_the_way_out(tmp_path, text, encoding, words):
    path = written(tmp_path, text, encoding)
    with pytest.raises(InputError, match=words):
        loaded(path)


def test_a_table_as_pandas_writes_it_has_an_unnamed_first_column(tmp_path):
    path = written(tmp_path, ",a\n0,1.5\n1,2.5\n")
    assert column_names(path) == ["unnamed_1", "a"]
    assert read_ids(path, Reading("unnamed_1")) == ["0", "1"]


@pytest.mark.parametrize("short", ["2,5", "3"])
def test_rows_that_end_early_are_refused(tmp_path, short):
    with pytest.raises(InputError, match="row 2 has . values, but the header has 3 names; correct that row, get the"):
        loaded(written(tmp_path, f"Fall,a,b\n1,2,3\n{short}\n4,5,\n"))


def test_an_empty_row_between_rows_without_ids_is_refused(tmp_path):
    path = written(tmp_path, "a,b\n1,2\n,\n3,4\n")
    with pytest.raises(InputError, match="row 2 is empty; remove it"):
        read(path, Reading())
    assert len(read(written(tmp_path, "a,b\n1,2\n3,4\n,\n\n"), Reading())) == 2


def test_new_rows_are_read_as_the_training_rows_were_written(tmp_path):
    first = loaded(written(tmp_path, "Fall;a\n1;1,5\n2;2,25\n"))
    learned = prepare(first, Reading("Fall"))
    new = written(tmp_path, "Fall;a\n1;1,234\n", name="new.csv")
    with pytest.raises(InputError, match="could be a decimal mark or a thousands"):
        loaded(new)
    assert read(new, learned.reading_of_new).frame["a"].to_list() == [1.234]
    other = written(tmp_path, "Fall;a\n1;1.5\n2;0.25\n", name="other.csv")
    with pytest.raises(InputError, match="has text '1.5' in row 1; .* or --decimal and --thousands"):
        learned.apply(read(other, learned.reading_of_new))


def test_true_and_false_are_numbers_and_other_words_are_not(tmp_path):
    table = loaded(written(tmp_path, "Fall,a,b\n1,true,yes\n2,FALSE,no\n"))
    assert table.frame["a"].to_list() == [True, False]
    assert table.frame["b"].dtype == pl.String


@pytest.mark.parametrize("cell", ["1.234,5", "1'234", "1\u00a0234", "12,5,7"])
def test_a_number_written_in_another_way_is_refused_with_the_options(tmp_path, cell):
    table = loaded(written(tmp_path, f"Fall;a\n1;0,5\n2;7,5\n3;{cell}\n"))
    with pytest.raises(InputError, match=r"holds numbers, but for .1.* in data row 3; .*--thousands, --decimal"):
        prepare(table, Reading("Fall"))


@pytest.mark.parametrize("cell", ["01/31/2024", "31/01/2024", "2024/01/31", "31-01-2024", "2024-01-31T10:00:00Z"])
def test_dates_in_another_form_are_refused(tmp_path, cell):
    with pytest.raises(InputError, match=f"column 'a' holds dates such as '{cell}'; write all as 2024-01-31 or 31"):
        loaded(written(tmp_path, f"Fall;a\n1;{cell}\n2;{cell}\n"))


@pytest.mark.parametrize("cell", ["9,113.5", "1'100", "1 101.25", "1.234.567"])
def test_a_column_of_numbers_with_thousands_marks_is_no_column_of_text(tmp_path, cell):
    rows = "".join(f'p{j};"{cell}"\n' for j in range(30))
    path = tmp_path / "t.csv"
    path.write_text(f"id;amount\n{rows}")
    found = examine(path, Reading("id", text="one-hot", text_of=()))
    assert [column.use for column in found.columns] == ["decide"]
    assert "numbers with thousands marks such as" in found.problems[0]
    with pytest.raises(InputError, match="thousands marks such as .* say which"):
        prepare(read(path, Reading("id", text="one-hot")), Reading("id", text="one-hot"))
