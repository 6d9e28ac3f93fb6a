"""Kill a command at each of its writes in turn, and repeat it: `python -m testkit.crashing EVERY FOLDER COMMAND...`.

One process imports everything and forks a child for each run, so that hundreds of runs take seconds. A child counts
what it does to files; at the number it was given it does half of a write, or the whole of anything else, and ends by
SIGKILL. Prints a JSON list, one entry per crash: the files before, those the next command finds (hidden leftovers
apart), and those after the repetition. EVERY is 1, or more for a slow command: then only every so many writes.
"""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dkpca.store import storage
from testkit import forking

CALLS = ("write", "fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir")
PATIENCE = 10_000  # more writes than any command makes


def state(folder: Path) -> dict[str, str]:
    """Digest of every file but ledgers, which may grow, and locks, which are empty."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.endswith("ledger.jsonl") and path.name != ".lock"
    }


def dying(at: int) -> list[str]:
    """Count calls that change files; at this number, end the process."""
    done: list[str] = []

    def counted(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*arguments: Any, **more: Any) -> Any:
            if name == "write" and arguments[0] <= 2:  # the terminal
                return call(*arguments, **more)
            done.append(name)
            if len(done) < at:
                return call(*arguments, **more)
            if name == "write":
                arguments = (arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
            call(*arguments, **more)
            os.kill(os.getpid(), signal.SIGKILL)
            return None

        return counting

    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))
    return done


def in_child(folder: Path, command: list[str], at: int = PATIENCE) -> int:
    """Run a command in a fork of this process; return its exit code, or minus the signal that ended it."""
    if command[0] == "fit":  # has processes of its own, which a fork cannot start
        program = [sys.executable, "-m", "testkit.crashing", "child", str(at), str(folder), *command]
        return subprocess.run(program, stdout=subprocess.DEVNULL, check=False).returncode
    child = os.fork()
    if child == 0:
        _run(folder, command, at)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(folder: Path, command: list[str], at: int) -> None:
    from dkpca.cli import run

    os.chdir(folder)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    dying(at)
    os._exit(run(command))


def crashes(every: int, template: Path, command: list[str]) -> list[dict[str, Any]]:
    """Crash a command at each of its writes, in a fresh copy of a folder each time, and repeat it."""
    told = []
    with tempfile.TemporaryDirectory(dir=template.parent) as scratch:
        for at in range(1, PATIENCE, every):
            folder = shutil.copytree(template, Path(scratch) / str(at))
            before = state(folder)
            code = in_child(folder, command, at)
            found = shutil.copytree(folder, Path(scratch) / f"{at} recovered")
            for directory in (found, *(path for path in found.rglob("*") if path.is_dir())):
                storage.recover(directory)
            recovered = {
                name: digest for name, digest in state(found).items() if not name.startswith(".") and "/." not in name
            }
            again = in_child(folder, command)
            told.append(
                {"code": code, "before": before, "after": recovered, "again": again, "finally": state(folder)}
            )
            shutil.rmtree(found)
            shutil.rmtree(folder)
            if code != -signal.SIGKILL:
                break
    return told


if __name__ == "__main__":
    if sys.argv[1] == "child":
        _run(Path(sys.argv[3]), sys.argv[4:], int(sys.argv[2]))
    forking.load()
    print(json.dumps(crashes(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:])))
