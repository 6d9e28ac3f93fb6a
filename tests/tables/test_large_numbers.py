"""Whole numbers of more digits than a double has, in a file that a command reads."""

import pytest

from dkpca.errors import InputError
from dkpca.tables.preparation import prepare
from dkpca.tables.reading import Reading, read


def test_a_column_of_nanoseconds_is_refused_by_its_name(tmp_path):
    file = tmp_path / "shop.csv"
    file.write_text("start,price\n" + "".join(f"{1_700_000_000_000_000_000 + 7 * i},{i}.5\n" for i in range(20)))
    with pytest.raises(InputError, match="'start' has whole numbers"):
        prepare(read(file, Reading()), Reading())


def test_sixteen_digits_that_a_double_has_are_numbers(tmp_path):
    file = tmp_path / "shop.csv"
    file.write_text("amount\n" + "".join(f"{1_000_000_000_000_000 + i}\n" for i in range(20)))
    assert prepare(read(file, Reading()), Reading()).columns[0].low == 1_000_000_000_000_000


def test_a_number_of_forty_digits_is_not_missing(tmp_path):
    file = tmp_path / "shop.csv"
    file.write_text("amount\n" + "".join(f"{10**17 + i}\n" for i in range(20)) + f"{10**40}\n")
    assert read(file, Reading()).frame["amount"][-1] == 1e40
