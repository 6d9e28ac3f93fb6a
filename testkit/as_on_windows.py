"""Treat files as Windows does: no POSIX locks, no links, nothing renamed or removed while it is open."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any


def begin() -> None:
    """Change `os` for the rest of the process; `fcntl` cannot be imported any more."""
    sys.modules["fcntl"] = None  # type: ignore[assignment]
    for name in ("replace", "rename", "unlink", "remove"):
        setattr(os, name, _refusing(name, getattr(os, name)))
    os.link = _no_links
    del os.O_DIRECTORY


def _refusing(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    def called(*paths: Any, **more: Any) -> Any:
        for path in paths:
            if _is_open(path):
                raise PermissionError(13, "is used by another process", str(path))
        if name == "rename" and Path(paths[1]).exists():
            raise FileExistsError(17, "is there already", str(paths[1]))
        return call(*paths, **more)

    return called


def _is_open(path: Any) -> bool:
    """Whether this process has a file open."""
    try:
        about = Path(path).stat()
    except OSError:
        return False
    for opened in Path("/proc/self/fd").iterdir():
        try:
            held = os.fstat(int(opened.name))
        except OSError:
            continue
        if (held.st_dev, held.st_ino) == (about.st_dev, about.st_ino):
            return True
    return False


def _no_links(*arguments: Any, **more: Any) -> None:
    raise OSError(1, "this file system has no links")
