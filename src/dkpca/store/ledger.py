"""The ledger of a party's own folder: lines that only grow, each of which names the digest of the one before it.

A line that is altered, removed or put in later breaks the chain behind it, which is followed at each use.
"""

import hashlib
import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dkpca.errors import StorageError
from dkpca.store import storage

START = "0" * 64  # what the first line names as the one before it


def followed(path: Path) -> tuple[list[dict[str, Any]], str, int]:
    """Lines of a ledger, if there is one yet; the digest of the last, and where it ends."""
    lines: list[dict[str, Any]] = []
    head, end = START, 0
    for line in storage.read(path).splitlines(keepends=True) if path.exists() else ():
        if not line.endswith(b"\n"):  # cut short by a crash, before anybody relied on it
            break
        try:
            record = json.loads(line)
        except ValueError:
            record = None
        if not isinstance(record, dict) or record.get("previous") != head:
            raise StorageError(
                f"{path}: line {len(lines) + 1} does not follow the line before it: the ledger was altered; compare "
                "it with a copy kept elsewhere, and put that back"
            )
        lines.append(record)
        head, end = hashlib.sha256(line).hexdigest(), end + len(line)
    return lines, head, end


def append(path: Path, event: str, **facts: Any) -> None:
    """Add one line, and bring it to the disk; one writer at a time, who holds the folder."""
    _, head, end = followed(path)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    line = json.dumps({"time": time, "event": event, **facts, "previous": head}) + "\n"
    with storage.explained(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, storage.PRIVATE_MODE)
        with os.fdopen(descriptor, "r+b") as file:
            file.truncate(end)
            file.seek(end)
            file.write(line.encode())
            file.flush()
            os.fsync(descriptor)
