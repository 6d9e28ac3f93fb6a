"""Files are whole or as they were; ledgers only grow."""

import errno
import os
from datetime import datetime
from pathlib import Path

import pytest

from dkpca.errors import StorageError
from dkpca.store import ledger, storage


def test_a_failure_in_the_second_file_leaves_both_as_they_were(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    storage.write_all({first: b"old 1", second: b"old 2"})
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 2:  # the first file, the second
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="second: cannot be written, the disk is full"):
        storage.write_all({first: b"new 1", second: b"new 2"})
    assert (first.read_bytes(), second.read_bytes()) == (b"old 1", b"old 2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_what_was_replaced_before_a_failure_is_named(tmp_path, monkeypatch):
    first, second, seal = tmp_path / "first", tmp_path / "second", tmp_path / "seal"
    storage.write_all({first: b"old 1", second: b"old 2", seal: b"old 3"})
    replace = Path.replace

    def refuse(path, target):
        if target == second:
            raise OSError(errno.EPERM, "Operation not permitted")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(StorageError, match=r"second: cannot be written, .*; \['first'\] were replaced already"):
        storage.write_all({first: b"new 1", second: b"new 2", seal: b"new 3"})
    assert (first.read_bytes(), second.read_bytes()) == (b"new 1", b"old 2")
    assert names(tmp_path) == ["first", "second"], "where the seal is missing, the others do not belong together"


def test_a_directory_in_the_place_of_a_file_is_found_before_anything_is_replaced(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    second.mkdir()
    with pytest.raises(StorageError, match=r"second: .*there is a directory of that name.*nothing was changed"):
        storage.write_all({first: b"new 1", second: b"new 2"})
    assert not first.exists()


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
    assert [record["event"] for record in ledger.records(tmp_path / "ledger.jsonl")] == ["first", "second"]
