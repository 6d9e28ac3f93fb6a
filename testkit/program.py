"""The program: in this process where only its answer matters, or installed, in a process of its own."""

import contextlib
import functools
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from dkpca import cli
from dkpca.exchange import one_machine
from dkpca.store import runs
from testkit.owners import GAMMA

PROGRAM = Path(sys.executable).with_name("dkpca")
command = functools.cache(cli.load)  # a command knows its options; making it takes longer than most of them run


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


def program(*arguments, cwd, prefix=(), **environment) -> Answer:
    """Run the installed program."""
    ran = subprocess.run(
        [*map(str, prefix), str(PROGRAM), *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "COLUMNS": "200", "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    return Answer(ran.returncode, ran.stdout, ran.stderr)


def in_process(*arguments, cwd, **environment) -> Answer:
    """Run the command in this process: its code and its words, without the second a new process takes to start."""
    out, err = io.StringIO(), io.StringIO()
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        with (
            contextlib.chdir(cwd),
            mock.patch.dict(os.environ, {"COLUMNS": "200", **environment}),
            mock.patch.object(cli, "load", command),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            code = cli.run([str(argument) for argument in arguments])
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return Answer(code, out.getvalue(), err.getvalue())


def snapshot(directory: Path) -> dict[str, bytes]:
    """Every file under a directory, but the ledgers, which may grow."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith("ledger.jsonl")
    }


@dataclass
class Office:
    """A directory with the tables of the three owners, where commands run."""

    path: Path
    installed: bool = False

    def run(self, *arguments, prefix=(), **environment) -> Answer:
        if self.installed or prefix:
            return program(*arguments, cwd=self.path, prefix=prefix, **environment)
        return in_process(*arguments, cwd=self.path, **environment)

    def ok(self, *arguments, **options) -> Answer:
        answer = self.run(*arguments, **options)
        assert answer.code == 0, answer.err
        return answer

    def refused(self, *arguments, **options) -> str:
        """Run a command that must fail with one sentence, and leave every file as it was."""
        before = snapshot(self.path)
        answer = self.run(*arguments, **options)
        assert answer.code != 0
        assert answer.err.startswith("dkpca: ")
        assert answer.err.count("\n") == 1, answer.err
        assert answer.out == ""
        assert snapshot(self.path) == before
        return answer.err

    def place(self, tables: Mapping[str, str]) -> None:
        """Place new samples in `run`, from the states beside the tables."""
        private = self.path / "run" / "private"
        private.mkdir(exist_ok=True)
        for owner in tables:
            shutil.copy(self.path / f"{owner}.state", private)
        one_machine.place(runs.load(self.path / "run"), {o: self.path / name for o, name in tables.items()})

    def summarize(self, owner: str, *more, suffix: str = "csv", **options) -> Answer:
        settings = ("--id", "person", "--gamma", GAMMA, "--rank", 20, "--out", f"{owner}.summary", "--json")
        return self.ok("summarize", f"{owner}.{suffix}", *settings, *more, **options)
