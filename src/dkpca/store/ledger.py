"""The ledger of a party's own folder: lines that only grow, each of which names the digest of the one before it.

A line that is altered, removed or put in later breaks the chain behind it, which is followed at each use.
"""

import contextlib
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dkpca.errors import StorageError
from dkpca.store import storage

START = "0" * 64  # what the first line names as the one before it


@dataclass
class State:
    """A ledger up to some line."""

    offset: int = 0  # end of that line
    lines: int = 0
    head: str = START  # digest of that line

    def follow(self, line: bytes, path: Path) -> dict[str, Any]:
        """Take the next line, or raise `StorageError` if it does not follow."""
        record = _parsed(line)
        if record.get("previous") != self.head:
            raise StorageError(
                f"{path}: line {self.lines + 1} does not follow the line before it: the ledger was altered; "
                "compare it with a copy kept elsewhere, and put that back"
            )
        self.head = hashlib.sha256(line).hexdigest()
        self.offset, self.lines = self.offset + len(line), self.lines + 1
        return record


@dataclass
class Ledger:
    """A ledger that is open for one writer."""

    path: Path
    descriptor: int
    state: State

    def append(self, event: str, **facts: Any) -> str:
        """Add one line, bring it to the disk, and return its digest; on a failure nothing of it stays."""
        time = datetime.now(UTC).isoformat(timespec="seconds")
        line = (json.dumps({"time": time, "event": event, **facts, "previous": self.state.head}) + "\n").encode()
        try:
            with storage.explained(self.path):
                with open(self.descriptor, "ab", closefd=False) as file:
                    file.write(line)
                os.fsync(self.descriptor)
        except StorageError:
            with contextlib.suppress(OSError):
                os.ftruncate(self.descriptor, self.state.offset)
            raise
        self.state.follow(line, self.path)
        return self.state.head


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Ledger]:
    """Open a ledger for writing; others wait."""
    with storage.explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, storage.PRIVATE_MODE)
    try:
        storage.flock(descriptor)
        state = followed(path)
        ledger = Ledger(path, descriptor, state)
        cut_short = os.fstat(descriptor).st_size - state.offset
        if cut_short:  # by a crash, before anybody relied on it
            os.ftruncate(descriptor, state.offset)
            ledger.append("repaired", bytes_cut_short=cut_short)
        yield ledger
    finally:
        os.close(descriptor)


def append(path: Path, event: str, **facts: Any) -> str:
    """Add one line; return its digest."""
    with opened(path) as ledger:
        return ledger.append(event, **facts)


def records(path: Path) -> list[dict[str, Any]]:
    """Return all lines that can be read; an empty list if there is no ledger yet."""
    return [record for line in _lines(path) if (record := _parsed(line))] if path.exists() else []


def followed(path: Path) -> State:
    """Follow the whole chain; raise `StorageError` where it breaks."""
    state = State()
    for line in _lines(path):
        state.follow(line, path)
    return state


def _parsed(line: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):  # a line of an older version, cut short
        record = json.loads(line)
        if isinstance(record, dict):
            return record
    return {}


def _lines(path: Path) -> Iterator[bytes]:
    """Whole lines; a pipe is refused, and so is a table, whose last line would be cut off."""
    refusal = StorageError(f"{path}: exists and is not a ledger; choose another name")
    if not path.is_file():
        raise refusal
    with path.open("rb") as file:
        if file.peek(1)[:1] not in (b"", b"{"):
            raise refusal
        yield from (line for line in file if line.endswith(b"\n"))
