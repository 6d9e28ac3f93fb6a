"""A ledger's lines hang together: what is altered, removed or put in is found; what a crash cut short is mended."""

import json

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
    state = ledger.verify(book)
    assert (state.lines, state.chained) == (5, True)
    assert [record["number"] for record in ledger.records(book)] == list(range(5))
    assert ledger.records(book)[0]["previous"] == ledger.START


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_any_bit_turned_but_in_the_last_line_breaks_the_chain(tmp_path_factory, place, bit):
    path = tmp_path_factory.mktemp("bits") / "ledger"
    heads = [ledger.append(path, "asked", number=number) for number in range(4)]
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 1 << bit
    path.write_bytes(bytes(data))
    with pytest.raises(StorageError):  # the last line is held by its head, if that was noted
        ledger.verify(path, heads[-1])


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
        ledger.verify(book)
    with pytest.raises(StorageError, match="was altered"):
        ledger.append(book, "asked")


def test_a_ledger_that_was_cut_or_written_anew_lacks_the_head_that_was_noted(book):
    head = ledger.verify(book).head
    assert ledger.verify(book, head).lines == 5
    book.write_bytes(b"".join(book.read_bytes().splitlines(keepends=True)[:3]))
    assert ledger.verify(book).lines == 3
    with pytest.raises(StorageError, match="is missing: the ledger was cut or replaced"):
        ledger.verify(book, head)


def test_a_line_cut_short_by_a_crash_is_taken_away_and_said(book):
    with book.open("ab") as file:
        file.write(b'{"event": "tw')
    ledger.append(book, "three")
    assert [record["event"] for record in ledger.records(book)][-2:] == ["repaired", "three"]
    assert ledger.records(book)[-2]["bytes_cut_short"] == 13
    assert ledger.verify(book).lines == 7


def test_a_ledger_of_an_older_version_goes_on_as_a_chain(tmp_path):
    path = tmp_path / "ledger.jsonl"
    old = [{"event": "written", "party": "bank", "kind": "summary", "sha256": "a" * 64}, {"event": "asked"}]
    path.write_text("".join(json.dumps(record) + "\n" for record in old))
    assert ledger.sent(path, "bank", "summary") == {"a" * 64}
    ledger.append(path, "written", party="bank", kind="summary", sha256="b" * 64)
    assert ledger.sent(path, "bank", "summary") == {"a" * 64, "b" * 64}
    assert ledger.verify(path).lines == 3
    path.write_text(path.read_text().replace('"asked"', '"other"'))
    with pytest.raises(StorageError, match="line 3 does not follow"):
        ledger.verify(path)


@pytest.fixture
def long(tmp_path, monkeypatch):
    """A ledger of several checkpoints."""
    monkeypatch.setattr(ledger, "CHECKPOINT_BYTES", 2**12)
    path = tmp_path / "ledger.jsonl"
    for number in range(60):
        ledger.append(path, "written", party="bank", kind="summary", sha256=f"{number:064x}")
    return path


def test_a_long_ledger_is_not_read_whole_at_every_use(long, monkeypatch):
    assert long.stat().st_size > 2 * ledger.CHECKPOINT_BYTES
    followed = []
    follow = ledger.State.follow

    def counted(*arguments):
        followed.append(1)
        return follow(*arguments)

    monkeypatch.setattr(ledger.State, "follow", counted)
    assert len(ledger.sent(long, "bank", "summary")) == 60
    assert len(followed) < 40


@pytest.mark.parametrize("damage", ["cut", "older", "counts less"])
def test_a_checkpoint_that_does_not_fit_is_not_used(long, damage):
    (checkpoint,) = long.parent.glob("*.checkpoint")
    told = json.loads(checkpoint.read_text())
    if damage == "cut":
        checkpoint.write_bytes(checkpoint.read_bytes()[:-20])
    elif damage == "older":
        checkpoint.write_text(json.dumps(told | {"head": "0" * 64}))
    else:
        checkpoint.write_text(json.dumps(told | {"sent": {}}))
    assert len(ledger.sent(long, "bank", "summary")) == 60


def test_a_checkpoint_made_to_count_less_is_found_by_verify(long):
    (checkpoint,) = long.parent.glob("*.checkpoint")
    told = json.loads(checkpoint.read_text()) | {"sent": {}}
    told.pop("seal")
    checkpoint.write_text(json.dumps(ledger._sealed(told)))
    with pytest.raises(StorageError, match=r"differs from line \d+ of the ledger; remove it"):
        ledger.verify(long)
