"""Folders with the tables of three owners, with their summaries, and with a run."""

import shutil
from pathlib import Path

import pytest

from testkit.owners import OWNERS, frame, numbers, people
from testkit.program import Office


@pytest.fixture(scope="session")
def templates(tmp_path_factory) -> dict[str, Path]:
    """Made once a session: the tables, the tables with summaries, and with a run."""
    tables, summarized, fused = (tmp_path_factory.mktemp(name) for name in ("tables", "summarized", "fused"))
    for owner, X in numbers().items():
        frame(X, people()).write_csv(tables / f"{owner}.csv")
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
