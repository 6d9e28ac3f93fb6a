"""One writer, or any number of readers, at a time in a directory."""

import contextlib
import errno
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from dkpca.errors import StorageError

LOCK = ".lock"


def flock(descriptor: int, *, shared: bool = False, wait: bool = True) -> bool:
    """Lock an open file until it is closed; `OSError` if another process has it and this one does not wait.

    Returns False where the system has no such locks (Windows): one process at a time is then up to its user.
    """
    try:
        fcntl = import_module("fcntl")
    except ModuleNotFoundError:
        return False
    kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
    fcntl.flock(descriptor, kind if wait else kind | fcntl.LOCK_NB)
    return True


@contextlib.contextmanager
def writing(directory: Path) -> Iterator[None]:
    """Hold a directory for writing; the system lets go of it when the process ends, however it ends."""
    while True:
        descriptor = _opened(directory, os.O_RDWR | os.O_CREAT)
        try:
            _hold(descriptor, directory, shared=False)
            if _still_there(descriptor, directory):
                yield
                return
        finally:
            os.close(descriptor)


@contextlib.contextmanager
def reading(directory: Path) -> Iterator[None]:
    """Hold a directory for reading; nothing is written there, so that it may be read-only."""
    if not (directory / LOCK).exists():  # nobody has ever written
        yield
        return
    descriptor = _opened(directory, os.O_RDONLY)
    try:
        _hold(descriptor, directory, shared=True)
        yield
    finally:
        os.close(descriptor)


def _opened(directory: Path, flags: int) -> int:
    try:
        return os.open(directory / LOCK, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)
    except OSError as error:
        raise StorageError(f"{directory}: cannot be locked ({error.strerror}); check who may write there") from error


def _hold(descriptor: int, directory: Path, *, shared: bool) -> None:
    try:
        flock(descriptor, shared=shared, wait=False)
    except OSError as error:
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise StorageError(f"{directory}: cannot be locked ({error.strerror}); choose a local disk") from error
        raise StorageError(
            f"{directory}: another dkpca command is at work there; repeat this one when it is done"
        ) from error


def _still_there(descriptor: int, directory: Path) -> bool:
    """Whether the file that is held is the one others will find: a command that failed may have removed it."""
    try:
        there = (directory / LOCK).stat()
    except FileNotFoundError:
        return False
    return there.st_ino == os.fstat(descriptor).st_ino
