"""The program, as an installed one in a process of its own, in a folder with the tables of three owners."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from testkit.owners import GAMMA

PROGRAM = Path(sys.executable).with_name("dkpca")


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


def snapshot(directory: Path) -> dict[str, bytes]:
    """Every file under a directory, but the ledgers, which may grow."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and not path.name.endswith("ledger.jsonl")
    }


@dataclass
class Office:
    """A directory with the tables of the three owners."""

    path: Path

    def run(self, *arguments, **options) -> Answer:
        return program(*arguments, cwd=self.path, **options)

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

    def summarize(self, owner: str, *more, suffix: str = "csv", **options) -> Answer:
        settings = ("--id", "person", "--gamma", GAMMA, "--rank", 20, "--out", f"{owner}.summary", "--json")
        return self.ok("summarize", f"{owner}.{suffix}", *settings, *more, **options)
