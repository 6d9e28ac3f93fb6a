"""Commands that are killed at each of their writes, and those of the documentation.

Hundreds of processes, each a fork of one that has loaded the library.
A fork gets the arguments, working directory, environment and open files that a new process would have got.
"""

import contextlib
import functools
import gc
import importlib
import io
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from dkpca import cli
from testkit import dying

ROOT = Path(__file__).parents[1]
CLIENT = """#!{python} -IS
import json, os, socket, sys

server = socket.socket(socket.AF_UNIX)
server.connect({path!r})
request = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ), None]).encode()
socket.send_fds(server, [len(request).to_bytes(8, "big")], [0, 1, 2])
server.sendall(request)
_, code = server.makefile()
sys.exit(int(code))
"""


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[Path]:
    """Serve commands on a socket in a folder; beside it lies a program `dkpca` that a shell can run."""
    path, client = folder / "socket", folder / "dkpca"
    client.write_text(CLIENT.format(python=sys.executable, path=str(path)))
    client.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()
        server = subprocess.Popen(
            [sys.executable, "-m", "testkit.forking", str(listening.fileno())],
            cwd=ROOT,
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",  # a fork has no threads
                "OPENBLAS_NUM_THREADS": "1",
                "PYTHONWARNINGS": "ignore::UserWarning:multiprocessing.resource_tracker",  # of killed commands
            },
            pass_fds=[listening.fileno()],
        )
    try:
        yield path
    finally:
        server.terminate()
        server.wait()


def run(server: Path, arguments: Sequence[str], directory: Path, *, dies_at: int | None = None) -> int:
    """Run a command whose output nobody reads; return its exit code, or minus the signal that ended it.

    With `dies_at` it is killed at that many calls that change files.
    """
    request = json.dumps([list(arguments), str(directory), dict(os.environ), dies_at]).encode()
    with socket.socket(socket.AF_UNIX) as connection, Path(os.devnull).open("r+b") as nothing:
        connection.connect(str(server))
        socket.send_fds(connection, [len(request).to_bytes(8, "big")], [nothing.fileno(), nothing.fileno(), 2])
        connection.sendall(request)
        with connection.makefile() as answers:
            answers.readline()  # its process id
            return int(answers.readline())


def load() -> None:
    """Import what commands use before the forks, which would import it each on its own."""
    for name in ("dkpca.cli", "dkpca.report"):
        for module in pkgutil.iter_modules(importlib.import_module(name).__path__, f"{name}."):
            importlib.import_module(module.name)
    for name in ("dkpca.exchange.study", "sklearn.cluster", "rich._emoji_codes", "polars._utils.parquet"):
        importlib.import_module(name)
    cli.load = functools.cache(cli.load)  # a command knows its options; making it takes half of its time
    for name in cli.MODULES:
        cli.load(name)
    with contextlib.redirect_stderr(io.StringIO()):
        assert cli.run(["inspect", "nothing"]) == 1  # loads what reads options
    gc.freeze()  # or a fork copies every page that its garbage collector touches


def serve(listening: socket.socket) -> None:
    """Fork for each program that connects, and tell it when the fork has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with selectors.DefaultSelector() as waiting:
        waiting.register(listening, selectors.EVENT_READ)
        while True:
            for key, _ in waiting.select():
                if key.fileobj is listening:
                    connection = listening.accept()[0]
                    child = forked(connection)
                    waiting.register(os.pidfd_open(child), selectors.EVENT_READ, (child, connection))
                else:
                    waiting.unregister(key.fileobj)
                    os.close(key.fd)
                    tell_end(*key.data)


def forked(connection: socket.socket) -> int:
    """Start the command that is asked for; return its process id, which is told too."""
    length, files, _, _ = socket.recv_fds(connection, 8, 3)
    with connection.makefile("rb") as asked:
        arguments, directory, environment, dies_at = json.loads(asked.read(int.from_bytes(length, "big")))
    child = os.fork()
    if child == 0:
        for number, (file, name) in enumerate(zip(files, ("stdin", "stdout", "stderr"), strict=True)):
            os.dup2(file, number)
            os.close(file)
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115
        os.chdir(directory)
        os.environ.clear()
        os.environ.update(environment)
        command(arguments, dies_at)
    for file in files:
        os.close(file)
    connection.sendall(f"{child}\n".encode())
    return child


def tell_end(child: int, connection: socket.socket) -> None:
    """Tell the exit code of a command, or minus the signal that ended it."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    with connection, contextlib.suppress(BrokenPipeError):  # a program that was killed does not listen
        connection.sendall(f"{code}\n".encode())


def command(arguments: list[str], dies_at: int | None) -> None:
    """Do what the installed program does, and end this process."""
    from dkpca.__main__ import main

    sys.argv = ["dkpca", *arguments]
    if dies_at is not None:
        dying.at_call(dies_at)
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
