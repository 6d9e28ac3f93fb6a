"""A private directory for work in progress; what a process that died left behind is removed by the next."""

import contextlib
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from dkpca.errors import StorageError
from dkpca.store import locks


@contextlib.contextmanager
def beside(path: Path) -> Iterator[Path]:
    """Make a directory next to `path` that only its owner may read, and remove it in the end."""
    for left in path.parent.glob(f".{path.name}.????????.scratch"):
        with contextlib.suppress(StorageError), locks.writing(left):  # in use, or gone meanwhile
            shutil.rmtree(left, ignore_errors=True)
    directory = path.with_name(f".{path.name}.{secrets.token_hex(4)}.scratch")
    directory.mkdir(mode=0o700)
    with locks.writing(directory):
        try:
            yield directory
        finally:
            shutil.rmtree(directory, ignore_errors=True)
