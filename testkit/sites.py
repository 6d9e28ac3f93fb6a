"""Centers and parties as processes that take no second to start: forks of one that has loaded the library.

A party's worker is a fork of the party then, and its child as ever. How they start as programs is in the tutorial,
which tests/commands/test_documentation.py goes through, in tests/network/test_consortium.py and in the benchmarks.
"""

import asyncio
import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from testkit import forking

MODULES = {"center": "dkpca.network.serving", "party": "dkpca.network.polling"}
QUICKLY = {  # so that who is silent is given up, and looked for again, in seconds
    "dkpca.network.protocol": {"POLL_SECONDS": 5.0, "POLL_SPARE": 3.0},
    "dkpca.network.polling": {"SLOWEST_RETRY": 1.0},
    "dkpca.network.server": {"SEEN_SECONDS": 2.0},
}
MOST_FILES = 1024
servers: list[Path] = []  # the last one is used; none: everything starts as a program


@contextlib.contextmanager
def forked_from(folder: Path) -> Iterator[None]:
    """Have centers and parties start as forks of a process that is there meanwhile."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(folder / "sites"))
        listening.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", "testkit.sites", str(listening.fileno())],
            cwd=forking.ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
            pass_fds=[listening.fileno()],
        )
    servers.append(folder / "sites")
    try:
        yield
    finally:
        servers.pop()
        server.terminate()
        server.wait()


class Fork:
    """One of them; as far as it is needed, a `subprocess.Popen`."""

    def __init__(self, kind: str, folder: Path, directory: Path, environment: Mapping[str, str], words: IO[bytes]):
        request = json.dumps([[kind, str(folder)], str(directory), dict(environment), None]).encode()
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(str(servers[-1]))
        with Path(os.devnull).open("rb") as nothing:
            files = [nothing.fileno(), words.fileno(), words.fileno()]
            socket.send_fds(self._connection, [len(request).to_bytes(8, "big")], files)
        self._connection.sendall(request)
        self._answers = self._connection.makefile()
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self, timeout: float = 0.0) -> int | None:
        """Return its exit code, or minus the signal that ended it; None while it runs."""
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = int(self._answers.readline())
            self._answers.close()
            self._connection.close()
        return self.returncode

    def wait(self, timeout: float) -> int:
        """Wait for its end."""
        code = self.poll(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout)
        return code


def serve_folder(arguments: list[str], dies_at: int | None) -> None:
    """Be a center or a party from here on, with a session of its own and no file of the server's."""
    from dkpca.network import process

    kind, folder = arguments
    os.setsid()
    os.closerange(3, MOST_FILES)
    for module, constants in QUICKLY.items():
        vars(importlib.import_module(module)).update(constants)
    asyncio.create_subprocess_exec = forked_worker  # type: ignore[assignment]
    sys.argv = [MODULES[kind], folder]
    process.main(importlib.import_module(MODULES[kind]).serve)


async def forked_worker(program: str, *arguments: str, **options: Any) -> asyncio.subprocess.Process:
    """Start a party's worker as a fork of the party, with the files and arguments it would have had."""

    def work() -> None:
        os.closerange(3, MOST_FILES)  # also what tells the parent that it runs
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.argv = list(arguments[1:])
        try:
            importlib.import_module("dkpca.network.worker").main()
        finally:
            os._exit(0)

    return await START(program, *arguments, preexec_fn=work, **options)


START = asyncio.create_subprocess_exec

if __name__ == "__main__":
    for name in (*MODULES.values(), "dkpca.network.worker"):
        importlib.import_module(name)
    gc.freeze()  # or a fork copies every page that its garbage collector touches
    forking.command = serve_folder
    forking.serve(socket.socket(fileno=int(sys.argv[1])))
