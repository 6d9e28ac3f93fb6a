"""Files that are written whole or not at all, by one writer at a time.

A new file is prepared as `.NAME.XXXXXXXX.part`, locked while its process lives, and then renamed. Where the system
has no locks (Windows), nothing is taken for abandoned.
"""

import contextlib
import errno
import glob
import json
import mmap
import os
import secrets
import stat
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from dkpca.errors import InputError, StorageError
from dkpca.wording import in_bytes, json_values, toml_values

PRIVATE_MODE, PUBLIC_MODE = 0o600, 0o666  # the second is narrowed by the umask

BINARY = getattr(os, "O_BINARY", 0)  # of Windows
RENAMES = 20  # attempts, in a second
MOST_SETTINGS = 2**24  # bytes of a file of settings
LARGE = 2**26  # bytes of a file that is mapped into memory, and not read

Content = bytes | memoryview | Callable[[BinaryIO], object]  # of a file, or what writes it

LOCK = ".lock"
# Neither a link nor a pipe in its place leads elsewhere, or waits.
LOCKED = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
DKPCA_FILE = "a dkpca file", b"{", 8  # where the header of every file of ours begins


def write(path: Path, data: Content, *, private: bool = False) -> None:
    """Replace a file; on any failure the old one stays. A private one has mode 0600 from its first byte on.

    The content may be a function that writes it, for what is not to be in memory as a whole.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    with explained(path):
        _remove_abandoned(path)
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, "")
        mode = PRIVATE_MODE if private else PUBLIC_MODE
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | BINARY, mode)
        try:
            with os.fdopen(descriptor, "wb") as file:
                has_locks = flock(descriptor)  # says that this process lives
                data(file) if callable(data) else file.write(data)
                file.flush()
                os.fsync(descriptor)
                if has_locks:
                    _rename(part, path)
            if not has_locks:  # Windows renames no open file
                _rename(part, path)
        finally:
            part.unlink(missing_ok=True)
    _sync_directory(path.parent)


def _rename(part: Path, path: Path) -> None:
    """Give a file its name; Windows refuses while a scanner or an indexer has the old one open."""
    for _ in range(RENAMES):
        with contextlib.suppress(PermissionError):
            part.replace(path)
            return
        time.sleep(0.05)
    part.replace(path)


def remove(path: Path) -> None:
    """Remove a file, if it is there."""
    with explained(path):
        path.unlink(missing_ok=True)
        _sync_directory(path.parent)


def write_all(files: Mapping[Path, Content], *, private: Collection[Path] = ()) -> None:
    """Replace several files; the last is their seal: removed first, written last, so that all belong to it."""
    remove(list(files)[-1])
    for path, data in files.items():
        write(path, data, private=path in private)


def _remove_abandoned(path: Path) -> None:
    """Remove what processes that died had prepared for this one file."""
    for part in filter(Path.is_file, path.parent.glob(f".{glob.escape(path.name)}.????????.part")):
        # A process that is alive holds its lock, or may where there are none; then this one does not get it.
        with contextlib.suppress(FileNotFoundError, BlockingIOError), part.open("rb") as file:
            if flock(file.fileno(), wait=False):
                part.unlink(missing_ok=True)


def read(path: Path, *, at_most: int | None = None) -> bytes:
    """Return all bytes of a file; a pipe or a device has no end and is refused."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise StorageError(f"{path}: is a directory, a pipe or a device; give a file")
        if at_most is not None and (size := path.stat().st_size) > at_most:
            raise StorageError(f"{path}: has {in_bytes(size)}, but such files have at most {in_bytes(at_most)}")
        return path.read_bytes()
    except FileNotFoundError as error:
        raise StorageError(f"{path}: there is no such file; check the path") from error
    except (MemoryError, OverflowError) as error:
        raise StorageError(f"{path}: does not fit into memory; check the file") from error
    except OSError as error:
        raise refused(path, error, "read", "check who may read it") from error


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


def check_writable(path: Path, what: str = "", mark: bytes = b"", at: int = 0) -> None:
    """Find out before long work whether a file could be written there; a file without this mark stays."""
    with explained(path):
        if path.is_dir():
            raise OSError(errno.EISDIR, "")
        check_folder(path.parent)
        if path.is_file() and path.stat().st_size:
            with path.open("rb") as file:
                if not file.read(64)[at:].startswith(mark):
                    raise InputError(f"{path}: exists and is not {what}; choose another name")


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


def read_toml(path: Path, advice: str) -> dict[str, Any]:
    """Return the table in a file of settings; the advice is for one that is not whole."""
    try:
        return toml_values(read(path, at_most=MOST_SETTINGS).decode())
    except ValueError as error:  # of TOML, of UTF-8, of dates and numbers that cannot be
        raise InputError(f"{path}: not a TOML file ({error}); {advice}") from error


def read_json(path: Path) -> Any:
    """Return the value in a JSON file, or raise `InputError` with the reason why there is none."""
    try:
        return json_values(read(path, at_most=MOST_SETTINGS))
    except ValueError as error:
        raise InputError(f"{path}: cannot be read ({error})") from error


def as_json(value: Mapping[str, Any]) -> bytes:
    """Bytes of a file that programs read and people may."""
    return (json.dumps(value, indent=2, allow_nan=False) + "\n").encode()


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's refusal into a sentence."""
    try:
        yield
    except OSError as error:
        raise refused(path, error, "written", "make room, or choose another place") from error


def refused(path: Path, error: OSError, done: str, advice: str) -> StorageError:
    """Return what the system refused, and what to do; of a file that another user owns it says so."""
    for place in (path, *path.parents) if isinstance(error, PermissionError) and hasattr(os, "geteuid") else ():
        with contextlib.suppress(OSError):
            if place.stat().st_uid != os.geteuid():
                advice = f"{place} belongs to another user: work as that user, or have its owner changed"
            break
    return StorageError(f"{path}: cannot be {done} ({os.strerror(error.errno or 0)}); {advice}")


def _sync_directory(directory: Path) -> None:
    """Make a rename last through a power cut, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def flock(descriptor: int, *, wait: bool = True) -> bool:
    """Lock an open file until it is closed; `OSError` if another process has it and this one does not wait.

    Returns False where the system has no such locks (Windows): one process at a time is then up to its user.
    """
    try:
        fcntl = import_module("fcntl")
    except ModuleNotFoundError:
        return False
    fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    return True


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Hold a directory for writing, made if it is not there; the system lets go of it when the process ends."""
    make_directory(directory)
    with contextlib.ExitStack() as stack:
        with explained(directory / LOCK):
            descriptor = os.open(directory / LOCK, LOCKED, 0o666)
        stack.callback(os.close, descriptor)
        try:
            flock(descriptor, wait=False)
        except OSError as error:
            busy = error.errno in (errno.EWOULDBLOCK, errno.EACCES)
            in_use = "another dkpca command is at work there; repeat this one later"
            why = in_use if busy else f"cannot be locked ({error.strerror}); choose a local disk"
            raise StorageError(f"{directory}: {why}") from error
        yield
