"""The installed program in a subprocess, on small tables of three owners."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest

PROGRAM = Path(sys.executable).with_name("dkpca")
GAMMA = 0.05
OWNERS = ("bank", "clinic", "shop")


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


def numbers(n_samples: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    """Columns of three owners that see the same three hidden causes."""
    rng = np.random.default_rng(seed)
    causes = rng.normal(size=(n_samples, 3))
    return {
        owner: causes @ rng.normal(size=(3, width)) + 0.3 * rng.normal(size=(n_samples, width))
        for owner, width in zip(OWNERS, (4, 6, 5), strict=True)
    }


def frame(X: np.ndarray, ids) -> pl.DataFrame:
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    return pl.DataFrame({"person": list(ids), **columns})


def standardized(X: np.ndarray) -> np.ndarray:
    return (X - X.mean(axis=0)) / X.std(axis=0)


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


@pytest.fixture(scope="session")
def templates(tmp_path_factory) -> dict[str, Path]:
    """Made once a session: the tables, the tables with summaries, and with a run."""
    tables, summarized, fused = (tmp_path_factory.mktemp(name) for name in ("tables", "summarized", "fused"))
    for owner, X in numbers().items():
        frame(X, [f"p{i:02d}" for i in range(len(X))]).write_csv(tables / f"{owner}.csv")
    shutil.copytree(tables, summarized, dirs_exist_ok=True)
    for owner in OWNERS:
        Office(summarized).summarize(owner)
    shutil.copytree(summarized, fused, dirs_exist_ok=True)
    named = ("--ids", "bank.csv", "--id", "person")
    Office(fused).ok("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, *named, "--out", "run")
    return {"tables": tables, "summarized": summarized, "fused": fused}


@pytest.fixture
def office(tmp_path, templates) -> Office:
    """Three tables with the same sixty people in the same order."""
    return Office(shutil.copytree(templates["tables"], tmp_path, dirs_exist_ok=True))


@pytest.fixture
def summarized(tmp_path, templates) -> Office:
    """The same, with a summary and a private state of each."""
    return Office(shutil.copytree(templates["summarized"], tmp_path, dirs_exist_ok=True))


@pytest.fixture
def fused(tmp_path, templates) -> Office:
    """The same, with a run of three components."""
    return Office(shutil.copytree(templates["fused"], tmp_path, dirs_exist_ok=True))
