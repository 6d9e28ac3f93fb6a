"""Files are whole or as they were; ledgers only grow."""

import errno
import os
from pathlib import Path

import pytest

from dkpca.errors import StorageError
from dkpca.store import storage


def test_a_failure_in_the_second_file_leaves_both_as_they_were(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    storage.write_all({first: b"old 1", second: b"old 2"})
    real, calls = os.fsync, []

    def full(descriptor):
        calls.append(descriptor)
        if len(calls) == 3:  # the journal, the first file, the second
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="second: cannot be written, the disk is full"):
        storage.write_all({first: b"new 1", second: b"new 2"})
    assert (first.read_bytes(), second.read_bytes()) == (b"old 1", b"old 2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


def test_what_was_replaced_before_a_failure_is_named(tmp_path, monkeypatch):
    first, second = tmp_path / "first", tmp_path / "second"
    storage.write_all({first: b"old 1", second: b"old 2"})
    replace = Path.replace

    def refuse(path, target):
        if target == second:
            raise OSError(errno.EPERM, "Operation not permitted")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(StorageError, match=r"second: cannot be written, .*; \['first'\] were replaced already"):
        storage.write_all({first: b"new 1", second: b"new 2"})
    assert (first.read_bytes(), second.read_bytes()) == (b"new 1", b"old 2")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["first", "second"]


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
