"""A ledger's lines hang together: what is altered, removed or put in is found; what a crash cut short is mended."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dkpca.errors import StorageError
from dkpca.store import ledger


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "dkpca-ledger.jsonl"
    for number in range(5):
        ledger.append(path, "asked", number=number)
    return path


def test_each_line_names_the_one_before_it(book):
    lines, _, end = ledger.followed(book)
    assert [record["number"] for record in lines] == list(range(5))
    assert lines[0]["previous"] == ledger.START
    assert end == book.stat().st_size


def head_of(path):
    try:
        return ledger.followed(path)[1]
    except StorageError:
        return None


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_bit_turned_but_in_the_last_line_breaks_the_chain(tmp_path_factory, place, bit):
    path = tmp_path_factory.mktemp("bits") / "ledger"
    for number in range(4):
        ledger.append(path, "asked", number=number)
    head = head_of(path)
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(bytes(data))
    assert head_of(path) != head  # the last line is held by its head, if that was noted


@pytest.mark.parametrize("change", ["removed", "exchanged", "put in"])
def test_a_line_removed_exchanged_or_put_in_is_found_and_nothing_is_added_behind_it(book, change):
    lines = book.read_bytes().splitlines(keepends=True)
    if change == "removed":
        del lines[2]
    elif change == "exchanged":
        lines[1], lines[2] = lines[2], lines[1]
    else:
        lines.insert(2, b'{"event": "never happened"}\n')
    book.write_bytes(b"".join(lines))
    with pytest.raises(StorageError, match=r"line \d does not follow the line before it: the ledger was altered"):
        ledger.followed(book)
    with pytest.raises(StorageError, match="was altered"):
        ledger.append(book, "asked")


def test_a_line_cut_short_by_a_crash_is_taken_away(book):
    with book.open("ab") as file:
        file.write(b'{"event": "tw')
    assert len(ledger.followed(book)[0]) == 5
    ledger.append(book, "three")
    assert [record["event"] for record in ledger.followed(book)[0]][-2:] == ["asked", "three"]
    assert len(ledger.followed(book)[0]) == 6


@pytest.mark.parametrize("text", ["id,x\ns1,1\ns2,2", "# a list\n"])
def test_a_file_that_is_no_ledger_stays_as_it_is(tmp_path, text):
    path = tmp_path / "table.csv"
    path.write_text(text)
    with pytest.raises(StorageError, match=r"table\.csv: line 1 does not follow"):
        ledger.append(path, "asked")
    assert path.read_text() == text


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes")
def test_a_pipe_is_no_ledger_and_nobody_waits_for_it(tmp_path):
    os.mkfifo(tmp_path / "ledger.jsonl")
    with pytest.raises(StorageError, match="is a directory, a pipe or a device"):
        ledger.append(tmp_path / "ledger.jsonl", "asked")
