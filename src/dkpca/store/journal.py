"""A change to several files, written down before it begins: whoever comes after a crash undoes or finishes it.

The journal of a change lies beside its last file and names files relative to itself. As `.NAME.XXXXXXXX.begun` it
says which new files are being prepared: after a crash they are removed. Renamed to `.NAME.XXXXXXXX.commit` it says
that all of them are whole: after a crash they take their places. Its process holds a lock on it while it lives.
"""

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from dkpca import strict_json
from dkpca.errors import StorageError
from dkpca.store import locks

BEGUN, COMMIT = ".begun", ".commit"
PART = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.part", re.DOTALL)
Change = tuple[dict[Path, Path], list[Path]]  # from which part each file is replaced, and which are removed


@contextlib.contextmanager
def of(steps: Mapping[Path, Path], removed: Iterable[Path], token: str) -> Iterator[Callable[[], None]]:
    """Keep a journal of a change; yields a function to call when all new files are whole."""
    last = list(steps.values())[-1]
    begun, commit = (last.with_name(f".{last.name}.{token}{suffix}") for suffix in (BEGUN, COMMIT))
    described = {
        "replace": {
            os.path.relpath(part, last.parent): os.path.relpath(path, last.parent) for part, path in steps.items()
        },
        "remove": [os.path.relpath(path, last.parent) for path in removed],
    }

    def whole() -> None:
        begun.replace(commit)
        sync_directory(commit.parent)

    try:
        with begun.open("xb", buffering=0) as file:
            locks.flock(file.fileno())
            os.write(file.fileno(), f"{json.dumps(described)}\n".encode())
            os.fsync(file.fileno())
            yield whole
            commit.unlink()
    finally:
        begun.unlink(missing_ok=True)
        commit.unlink(missing_ok=True)


def abandoned(directory: Path, suffix: str) -> Iterator[Change]:
    """Changes of processes that died; each journal is removed after its change was looked at."""
    for path in sorted(directory.glob(f".*{suffix}")):
        with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
            if held_by_another(file):
                continue
            data = file.read()
            if data.endswith(b"\n") or suffix == COMMIT:  # before all of it was written down, nothing was begun
                yield _change(path, data)
            path.unlink(missing_ok=True)


def held_by_another(file: IO[Any]) -> bool:
    """Whether a process that is alive has, or may have, locked the file; if not, it is locked now."""
    try:
        return not locks.flock(file.fileno(), wait=False)
    except BlockingIOError:
        return True


def sync_directory(directory: Path) -> None:
    """Make a rename last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _change(path: Path, data: bytes) -> Change:
    """Read a journal; it may have come with a directory from elsewhere, so it can do nothing but what ours do."""
    try:
        described = strict_json.loads(data)
        steps = {path.parent / part: path.parent / target for part, target in described["replace"].items()}
        removed = [path.parent / name for name in described["remove"]]
        ours = all(_belong(part, target) for part, target in steps.items()) and all(
            target.parent.resolve().is_relative_to(path.parent.resolve()) for target in removed
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise StorageError(f"{path}: is damaged; remove it, and repeat the command that was interrupted") from error
    if not ours:
        raise StorageError(f"{path}: names files that dkpca would not; remove it, it was not made by dkpca")
    return steps, removed


def _belong(part: Path, target: Path) -> bool:
    """Whether the part is the one that this file would be prepared in."""
    match = PART.fullmatch(part.name)
    return match is not None and match["name"] == target.name and part.parent == target.parent
