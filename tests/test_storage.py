"""Files are whole or as they were; ledgers only grow."""

import errno
import os
from datetime import datetime

import pytest

from dkpca.errors import StorageError
from dkpca.store import ledger, storage


def test_a_file_stays_as_it_was_where_it_cannot_be_replaced(tmp_path, monkeypatch):
    path = tmp_path / "file"
    storage.write(path, b"old")

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="file: cannot be written .No space left on device.; make room"):
        storage.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_files_that_do_not_belong_together_have_no_seal(tmp_path):
    first, second, seal = tmp_path / "first", tmp_path / "second", tmp_path / "seal"
    for end in (b"1", b"2"):
        storage.write_all({first: b"first " + end, second: b"second " + end, seal: b"seal " + end})
    assert [path.read_bytes() for path in (first, second, seal)] == [b"first 2", b"second 2", b"seal 2"]
    second.unlink()
    second.mkdir()
    with pytest.raises(StorageError, match=r"second: cannot be written .Is a directory."):
        storage.write_all({first: b"first 3", second: b"second 3", seal: b"seal 3"})
    assert names(tmp_path) == ["first", "second"]


def test_a_private_file_is_private_even_if_it_replaces_a_public_one(tmp_path):
    path = tmp_path / "state"
    storage.write(path, b"public")
    storage.write(path, b"private", private=True)
    assert path.stat().st_mode & 0o777 == 0o600


def names(path):
    return sorted(entry.name for entry in path.iterdir())


def test_the_next_write_removes_what_a_dead_process_prepared_and_nothing_of_a_living_one(tmp_path):
    (tmp_path / ".a.12345678.part").write_text("of a process that died")
    with (tmp_path / ".b.12345678.part").open("w") as held:
        storage.flock(held.fileno())
        storage.write_all({tmp_path / "a": b"1", tmp_path / "b": b"2"})
        assert names(tmp_path) == [".b.12345678.part", "a", "b"]
    storage.write(tmp_path / "b", b"3")
    assert names(tmp_path) == ["a", "b"]


def test_a_ledger_keeps_the_order_of_its_lines_when_the_clock_goes_back(tmp_path, monkeypatch):
    times = iter(["2026-05-02T00:00:00+00:00", "1999-01-01T00:00:00+00:00"])

    class Clock:
        @staticmethod
        def now(zone):
            return datetime.fromisoformat(next(times))

    monkeypatch.setattr(ledger, "datetime", Clock)
    for event in ("first", "second"):
        ledger.append(tmp_path / "ledger.jsonl", event)
    assert [record["event"] for record in ledger.followed(tmp_path / "ledger.jsonl")[0]] == ["first", "second"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_a_pipe_in_the_place_of_the_lock_does_not_hold_a_command_up(tmp_path):
    os.mkfifo(tmp_path / storage.LOCK)
    with storage.writing(tmp_path):
        pass


def test_a_name_that_no_file_can_have_is_refused_in_a_sentence(tmp_path):
    with pytest.raises(StorageError, match="cannot be read"):
        storage.read(tmp_path / ("x" * 300))
