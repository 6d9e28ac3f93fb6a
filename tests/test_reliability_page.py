"""No row of the page on reliability without a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "tests/" in line]


def names(path: Path) -> set[str]:
    """Classes and functions of a test module, as pytest names them."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("row", ROWS)
def test_the_test_in_this_row_exists(row):
    file, name = re.findall(r"`(tests/[\w/]+\.py)::([\w:]+)`", row)[-1]
    assert name in names(ROOT / file)


def test_every_row_of_a_table_of_faults_names_a_test():
    tables = PAGE.split("## Fuzzing")[0]
    faults = [line for line in tables.splitlines() if line.startswith("| ") and not line.startswith("| fault")]
    assert faults == ROWS
    assert len(faults) > 30


def test_every_test_that_the_threat_model_names_exists():
    files = list((ROOT / "tests").rglob("test_*.py"))
    known = {name.rpartition("::")[2] for file in files for name in names(file)} | {file.name for file in files}
    named = re.findall(r"`(test_[\w.]+)`", (ROOT / "docs" / "threat-model.md").read_text())
    assert len(named) > 20
    assert [name for name in named if name not in known] == []
