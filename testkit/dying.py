"""End this process at one of the calls by which it changes files, as a loss of power would."""

import os
import signal
from collections.abc import Callable
from typing import Any

CALLS = ("write", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir")


def at_call(number: int) -> None:
    """Count calls that change files; at this number do half of a write, or the whole of anything else, and end."""
    done: list[str] = []

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **more: Any) -> Any:
            if name == "write" and arguments[0] <= 2:  # the terminal
                return call(*arguments, **more)
            done.append(name)
            if len(done) < number:
                return call(*arguments, **more)
            if name == "write":
                arguments = (arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            call(*arguments, **more)
            os.kill(os.getpid(), signal.SIGKILL)
            return None

        return counting

    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))
