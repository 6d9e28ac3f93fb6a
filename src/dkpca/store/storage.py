"""Files that are written whole or not at all, and ledgers that only grow."""

import contextlib
import errno
import json
import os
import secrets
import tomllib
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dkpca.errors import InputError, StorageError

PRIVATE_MODE, PUBLIC_MODE = 0o600, 0o666  # the second is narrowed by the umask

NOTHING_CHANGED = "nothing was changed"
ADVICE = {
    errno.ENOSPC: "the disk is full; free some space and repeat the command",
    errno.EDQUOT: "the disk quota is used up; free some space and repeat the command",
    errno.EFBIG: "the file would be larger than allowed here; raise the limit and repeat the command",
    errno.EACCES: "no permission to write there; choose another directory",
    errno.EPERM: "no permission to write there; choose another directory",
    errno.EROFS: "the file system is read-only; choose another directory",
    errno.ENOENT: "the directory does not exist; create it first, or choose another",
    errno.ENOTDIR: "a part of that path is a file, not a directory; choose another directory",
    errno.EISDIR: "there is a directory of that name; choose another name",
}


def write(path: Path, data: bytes, *, private: bool = False) -> None:
    """Replace one file; on any failure the old one stays."""
    write_all({path: data}, private={path} if private else ())


def write_all(files: Mapping[Path, bytes], *, private: Collection[Path] = ()) -> None:
    """Replace several files: all bytes are on the disk before the first file is replaced.

    Private files get mode 0600 from their first byte on.
    """
    staged: dict[Path, Path] = {}
    try:
        for path, data in files.items():
            with _explained(path):
                if path.is_dir():
                    raise OSError(errno.EISDIR, "")
                staged[path] = part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
                _write_new(part, data, PRIVATE_MODE if path in private else PUBLIC_MODE)
        replaced: list[str] = []
        for path, part in staged.items():
            with _explained(path, f"{replaced} were replaced already" if replaced else NOTHING_CHANGED):
                part.replace(path)
            replaced.append(path.name)
    finally:
        for part in staged.values():
            part.unlink(missing_ok=True)
    for directory in {path.parent for path in files}:
        _sync_directory(directory)


def read(path: Path) -> bytes:
    """Return all bytes of a file."""
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise StorageError(f"{path}: there is no such file; check the path") from error
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be read ({error.strerror}); check what it is and who may read it"
        ) from error


def check_writable(path: Path) -> None:
    """Find out before long work whether a file could be written there."""
    with _explained(path):
        if path.is_dir():
            raise OSError(errno.EISDIR, "")
        if not path.parent.is_dir():
            raise OSError(errno.ENOTDIR if path.parent.exists() else errno.ENOENT, "")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, "")


def make_directory(path: Path) -> Path:
    """Create a directory if it is not there yet; its parent must be. Return it."""
    with _explained(path):
        path.mkdir(exist_ok=True)
    return path


def read_toml(path: Path, advice: str) -> dict[str, Any]:
    """Return the table in a file of settings; the advice is for one that is not whole."""
    try:
        return tomllib.loads(read(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a TOML file ({error}); {advice}") from error


def as_json(value: Mapping[str, Any]) -> bytes:
    """Bytes of a file that programs read and people may."""
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def append_record(path: Path, record: Mapping[str, Any]) -> None:
    """Add one line to a ledger, with the time, and bring it to the disk."""
    line = json.dumps({"time": datetime.now(UTC).isoformat(timespec="seconds"), **record}) + "\n"
    with _explained(path, "the line is missing there"):  # not which: it may name ids, and errors travel
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, PUBLIC_MODE)
        try:
            end = os.lseek(descriptor, 0, os.SEEK_END)
            if end and os.pread(descriptor, 1, end - 1) != b"\n":  # a line cut short by a crash or a full disk
                line = "\n" + line
            _write_fully(descriptor, line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def read_records(path: Path) -> list[dict[str, Any]]:
    """Return the whole lines of a ledger; an empty list if there is none yet."""
    if not path.exists():
        return []
    records = []
    for line in read(path).decode(errors="replace").splitlines():
        with contextlib.suppress(ValueError):  # a line cut short
            records.append(json.loads(line))
    return records


def _write_new(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        _write_fully(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_fully(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _sync_directory(directory: Path) -> None:
    """Make a rename last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def _explained(path: Path, outcome: str = NOTHING_CHANGED) -> Iterator[None]:
    """Turn the system's refusal into a sentence."""
    try:
        yield
    except OSError as error:
        advice = ADVICE.get(error.errno or 0, f"{error.strerror}; choose another place")
        raise StorageError(f"{path}: cannot be written, {advice}; {outcome}") from error
