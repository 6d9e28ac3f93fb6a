"""Files that are written whole or not at all."""

import contextlib
import errno
import glob
import json
import mmap
import os
import secrets
import stat
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

from dkpca import strict_json
from dkpca.errors import InputError, StorageError
from dkpca.store import journal, locks
from dkpca.wording import in_bytes

PRIVATE_MODE, PUBLIC_MODE = 0o600, 0o666  # the second is narrowed by the umask

MOST_SETTINGS = 2**24  # bytes of a file of settings
LARGE = 2**26  # bytes of a file that is mapped into memory, and not read

Content = bytes | memoryview | Callable[[BinaryIO], object]  # of a file, or what writes it

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


def write(path: Path, data: Content, *, private: bool = False) -> None:
    """Replace one file; on any failure the old one stays."""
    write_all({path: data}, private={path} if private else ())


def write_all(
    files: Mapping[Path, Content], *, private: Collection[Path] = (), remove: Collection[Path] = ()
) -> None:
    """Replace several files, and remove others: all of it or nothing, even if the process is killed meanwhile.

    A file may be given as a function that writes it, for what is not to be in memory as a whole. Private files get
    mode 0600 from their first byte on.
    """
    if not files:
        return
    token = secrets.token_hex(4)
    parts = {path: path.with_name(f".{path.name}.{token}.part") for path in files}
    with contextlib.ExitStack() as held:
        held.callback(_remove_all, parts.values())
        whole: Callable[[], None] | None = None
        if len(files) + len(remove) > 1:
            last = list(files)[-1]
            with explained(last):
                recover(last.parent)
                whole = held.enter_context(journal.of({part: path for path, part in parts.items()}, remove, token))
        else:
            _remove_abandoned(next(iter(files)))
        for path, part in parts.items():
            with explained(path):
                if path.is_dir():
                    raise OSError(errno.EISDIR, "")
                descriptor = _write_new(part, files[path], PRIVATE_MODE if path in private else PUBLIC_MODE)
                os.close(descriptor) if whole else held.callback(os.close, descriptor)
        if whole is not None:
            with explained(list(files)[-1]):
                whole()
        _carry_out({part: path for path, part in parts.items()}, remove)


def recover(directory: Path) -> None:
    """Undo or finish what processes that died had begun to write in a directory."""
    for steps, removed in journal.abandoned(directory, journal.COMMIT):
        _carry_out({part: path for part, path in steps.items() if part.exists()}, removed)
    for steps, _ in journal.abandoned(directory, journal.BEGUN):
        _remove_all(steps)


def _remove_abandoned(path: Path) -> None:
    """Remove what processes that died had prepared for this one file."""
    for part in path.parent.glob(f".{glob.escape(path.name)}.????????.part"):
        with contextlib.suppress(FileNotFoundError), part.open("rb") as file:
            if not journal.held_by_another(file):
                part.unlink(missing_ok=True)


def _carry_out(steps: Mapping[Path, Path], removed: Iterable[Path]) -> None:
    replaced: list[str] = []
    for part, path in steps.items():
        with explained(path, f"{replaced} were replaced already" if replaced else NOTHING_CHANGED):
            part.replace(path)
        replaced.append(path.name)
    for path in removed:
        with explained(path, f"{replaced} were replaced already"):
            path.unlink(missing_ok=True)
    for directory in {path.parent for path in (*steps.values(), *removed)}:
        journal.sync_directory(directory)


def _remove_all(paths: Iterable[Path]) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def read(path: Path, *, at_most: int | None = None) -> bytes:
    """Return all bytes of a file; a pipe or a device has no end and is refused."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # a pipe without a writer would block for ever
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise StorageError(f"{path}: is a directory, a pipe or a device; give a file")
            if at_most is not None and status.st_size > at_most:
                raise StorageError(
                    f"{path}: has {in_bytes(status.st_size)}, and what belongs here at most {in_bytes(at_most)}; "
                    "give the right file"
                )
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(status.st_size)
        finally:
            os.close(descriptor)
    except FileNotFoundError as error:
        raise StorageError(f"{path}: there is no such file; check the path") from error
    except (MemoryError, OverflowError) as error:
        raise StorageError(f"{path}: does not fit into memory; check the file") from error
    except OSError as error:
        raise StorageError(
            f"{path}: cannot be read ({error.strerror}); check what it is and who may read it"
        ) from error


def mapped(path: Path) -> bytes | memoryview:
    """Return all bytes of a file; those of a large one are read where they are looked at.

    Files of ours are replaced and never written over, so that nobody changes what was looked at.
    """
    if not path.is_file() or path.stat().st_size < LARGE:
        return read(path)
    try:
        with path.open("rb") as file:
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except (OSError, ValueError, MemoryError):
        return read(path)  # which says what is wrong


def let_go(data: bytes | memoryview) -> None:
    """Give the memory of a mapped file back; it is read again if it is looked at."""
    if isinstance(data, memoryview) and isinstance(data.obj, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
        data.obj.madvise(mmap.MADV_DONTNEED)


def version(path: Path) -> tuple[int, int]:
    """Another value whenever a file was replaced or written to; (0, 0) while there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_ino, found.st_mtime_ns


def check_writable(path: Path) -> None:
    """Find out before long work whether a file could be written there."""
    with explained(path):
        if path.is_dir():
            raise OSError(errno.EISDIR, "")
        check_folder(path.parent)


def check_folder(folder: Path) -> None:
    """Find out whether files could be written in a folder."""
    with explained(folder):
        if not folder.is_dir():
            raise OSError(errno.ENOTDIR if folder.exists() else errno.ENOENT, "")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise OSError(errno.EACCES, "")


def make_directory(path: Path) -> Path:
    """Create a directory if it is not there yet; its parent must be. Return it."""
    with explained(path):
        path.mkdir(exist_ok=True)
    return path


@contextlib.contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder for one process that serves it."""
    with (folder / ".serving").open("w") as file:
        try:
            locks.flock(file.fileno(), wait=False)
        except OSError as error:
            raise InputError(f"{folder}: is running already; stop that process first") from error
        yield


def read_toml(path: Path, advice: str) -> dict[str, Any]:
    """Return the table in a file of settings; the advice is for one that is not there, or not whole."""
    if not path.exists():
        raise StorageError(f"{path}: there is no such file; {advice}")
    try:
        return tomllib.loads(read(path, at_most=MOST_SETTINGS).decode())
    except (ValueError, RecursionError) as error:  # of TOML, of UTF-8, of dates and numbers that cannot be
        raise InputError(f"{path}: not a TOML file ({error}); {advice}") from error


def read_json(path: Path) -> Any:
    """Return the value in a JSON file, or raise `InputError` with the reason why there is none."""
    try:
        return strict_json.loads(read(path, at_most=MOST_SETTINGS))
    except ValueError as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


def as_json(value: Mapping[str, Any]) -> bytes:
    """Bytes of a file that programs read and people may."""
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


def _write_new(path: Path, data: Content, mode: int) -> int:
    """Write a file that was not there; return its descriptor, locked so that nobody takes it for an abandoned one."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        locks.flock(descriptor)
        if callable(data):
            with open(descriptor, "wb", closefd=False) as file:
                data(file)
        else:
            write_fully(descriptor, data)
            let_go(data)
        os.fsync(descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_fully(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@contextlib.contextmanager
def explained(path: Path, outcome: str = NOTHING_CHANGED) -> Iterator[None]:
    """Turn the system's refusal into a sentence."""
    try:
        yield
    except OSError as error:
        advice = ADVICE.get(error.errno or 0, f"{error.strerror}; choose another place")
        raise StorageError(f"{path}: cannot be written, {advice}; {outcome}") from error
