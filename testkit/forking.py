"""The program `dkpca` for pages of commands: each a process of its own, a fork of one that has loaded the library.

`program(folder)` puts a `dkpca` into a folder, for PATH. It hands its arguments, working directory, environment, open
files and signals to the fork, and ends as that does. Processes that a command itself starts are started as ever.
"""

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Imports are a second, so that this program imports nothing of the library.
CLIENT = """#!{python} -IS
import json, os, signal, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
server.sendall(request)
answers = server.makefile()
child = int(answers.readline())
for number in (signal.SIGINT, signal.SIGTERM):
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, lambda number, frame: os.kill(child, number))
code = int(answers.readline())
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


@contextlib.contextmanager
def program(folder: Path) -> Iterator[Path]:
    """Put the program into a folder and serve it; return its path."""
    path, client = folder / "socket", folder / "dkpca"
    client.write_text(CLIENT.format(python=sys.executable, path=str(path)))
    client.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", "testkit.forking", str(listening.fileno())],
            cwd=ROOT,
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},  # a fork has no threads
            pass_fds=[listening.fileno()],
        )
    try:
        yield client
    finally:
        server.terminate()
        server.wait()


def load() -> None:
    """Import what commands use before the forks, which would import it each on its own."""
    for name in ("dkpca.cli", "dkpca.report"):
        for module in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)
    importlib.import_module("sklearn.cluster")
    with contextlib.redirect_stderr(io.StringIO()):
        assert importlib.import_module("dkpca.cli").run(["inspect", "nothing"]) == 1  # loads what reads options
    gc.freeze()  # or a fork copies every page that its garbage collector touches


def serve(listening: socket.socket) -> None:
    """Fork for each program that connects; its fork forks again, and waits for the command."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    while True:
        connection = listening.accept()[0]
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        if os.fork() == 0:
            listening.close()
            keep(connection)
        connection.close()


def keep(connection: socket.socket) -> None:
    """Run one command in a fork, and tell how it ended."""
    length, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as request:
        arguments, directory, environment = json.loads(request.read(int.from_bytes(length, "big")))
    child = os.fork()
    if child == 0:
        connection.close()
        for number, file in enumerate(files):
            os.dup2(file, number)
            os.close(file)
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        command(arguments)
    connection.sendall(f"{child}\n".encode())
    connection.sendall(f"{os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])}\n".encode())
    os._exit(0)


def command(arguments: list[str]) -> None:
    """Do what the installed program does, and end this process."""
    from dkpca.__main__ import main

    sys.argv = ["dkpca", *arguments]
    try:
        main()
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(int(code or 0))


if __name__ == "__main__":
    load()
    serve(socket.socket(fileno=int(sys.argv[1])))
