"""Kill a command at each of its writes in turn, and repeat it."""

import hashlib
import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any

from testkit import forking

PATIENCE = 10_000  # more writes than any command makes


def state(folder: Path) -> dict[str, str]:
    """Digest of every file but ledgers, which may grow, and locks, which are empty."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("ledger.jsonl") and path.name != ".lock"
    }


def crashes(server: Path, template: Path, command: list[str], *, every: int) -> list[dict[str, Any]]:
    """Crash a command at each of its writes, in a fresh copy of a folder each time, and repeat it.

    One entry per crash: the files before, those the next command finds (hidden leftovers apart), and those after the
    repetition; the last is of the command that came to its end.
    """
    told = []
    with tempfile.TemporaryDirectory(dir=template.parent) as scratch:
        for at in range(1, PATIENCE, every):
            folder = shutil.copytree(template, Path(scratch) / str(at))
            before = state(folder)
            code = forking.run(server, command, folder, dies_at=at)
            found = {
                name: digest
                for name, digest in state(folder).items()
                if not name.startswith(".") and "/." not in name
            }
            again = forking.run(server, command, folder)
            told.append({"code": code, "before": before, "after": found, "again": again, "finally": state(folder)})
            shutil.rmtree(folder)
            if code != -signal.SIGKILL:
                break
    return told
