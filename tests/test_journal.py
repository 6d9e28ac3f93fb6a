"""Changes to several files survive a crash; a journal from a stranger can do nothing; leftovers of the dead go."""

import fcntl
import json
from datetime import datetime

import pytest

from dkpca.errors import StorageError
from dkpca.store import ledger, storage


def files(path):
    return sorted(entry.name for entry in path.iterdir())


def crashed(path, suffix, steps, remove=()):
    """Leave behind what a process that died would have."""
    (path / f".b.deadbeef{suffix}").write_text(json.dumps({"replace": steps, "remove": list(remove)}) + "\n")


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        (tmp_path / name).write_text(f"old {name}")
    for name in "ab":
        (tmp_path / f".{name}.deadbeef.part").write_text(f"new {name}")
    return tmp_path


STEPS = {f".{name}.deadbeef.part": name for name in "ab"}


def test_what_was_whole_when_the_process_died_is_finished(folder):
    crashed(folder, ".commit", STEPS, ["c"])
    storage.recover(folder)
    assert files(folder) == ["a", "b"]
    assert (folder / "a").read_text() == "new a"


def test_what_was_half_done_when_the_process_died_is_finished_too(folder):
    crashed(folder, ".commit", STEPS, ["c"])
    (folder / ".a.deadbeef.part").replace(folder / "a")
    storage.recover(folder)
    assert files(folder) == ["a", "b"]
    assert [(folder / name).read_text() for name in "ab"] == ["new a", "new b"]


def test_what_was_not_whole_is_removed(folder):
    crashed(folder, ".begun", STEPS, ["c"])
    storage.recover(folder)
    assert files(folder) == ["a", "b", "c"]
    assert (folder / "a").read_text() == "old a"


def test_a_journal_of_a_living_process_is_left_alone(folder):
    crashed(folder, ".commit", STEPS)
    with (folder / ".b.deadbeef.commit").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        storage.recover(folder)
        assert (folder / "a").read_text() == "old a"
    storage.recover(folder)
    assert (folder / "a").read_text() == "new a"


def test_the_next_write_cleans_up(folder):
    crashed(folder, ".begun", STEPS)
    storage.write_all({folder / "a": b"1", folder / "b": b"2"})
    assert files(folder) == ["a", "b", "c"]
    (folder / ".c.12345678.part").write_text("of a process that died")
    storage.write(folder / "c", b"3")
    assert files(folder) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("steps", "remove"),
    [
        ({"c": "a"}, []),
        ({".a.deadbeef.part": "b"}, []),
        ({".a.deadbeef.part": "elsewhere/a"}, []),
        ({}, ["../keep"]),
        ({}, ["/etc/hostname"]),
    ],
)
def test_a_journal_from_elsewhere_cannot_touch_other_files(folder, steps, remove):
    crashed(folder, ".commit", steps, remove)
    before = files(folder)
    with pytest.raises(StorageError, match="names files that dkpca would not; remove it"):
        storage.recover(folder)
    assert files(folder) == before


@pytest.mark.parametrize(
    "text", ["", "null", "[]", "{", '{"replace": 3, "remove": []}', '{"replace": {}, "remove": [1]}']
)
def test_a_damaged_journal_is_named(folder, text):
    (folder / ".b.deadbeef.commit").write_text(text)
    with pytest.raises(StorageError, match=r"\.b\.deadbeef\.commit: is damaged; remove it, and repeat the command"):
        storage.recover(folder)


def test_a_scratch_directory_is_private_and_that_of_a_dead_process_is_removed(tmp_path):
    left = tmp_path / ".run.deadbeef.scratch"
    left.mkdir()
    (left / "bank.state").write_text("private")
    with storage.scratch_beside(tmp_path / "run") as folder:
        assert not left.exists()
        assert folder.stat().st_mode & 0o777 == 0o700
        with storage.scratch_beside(tmp_path / "run") as other:
            assert folder.exists()
            assert other != folder
    assert files(tmp_path) == []


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
