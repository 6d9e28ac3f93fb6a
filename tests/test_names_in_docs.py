"""The documentation names only what is there, and the floor plan names all of it."""

import importlib
import pkgutil
import re
from pathlib import Path

import pytest

import dkpca
from benchmarks import page as benchmarks_page

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
CODE = re.compile(r"`([^`\n]+)`")
DOTTED = re.compile(r"dkpca(\.[A-Za-z_][A-Za-z_0-9]*)+")
SOURCE_FILE = re.compile(r"[\w/.-]+\.py")
FOLDERS = ("", "src", "src/dkpca", "experiments", "tests")
PROGRAM = re.compile(r"python -m ((?:benchmarks|experiments|testkit|examples)[\w.]*)")
TARGET = re.compile(r"\bmake ([a-z]+(?:-[a-z]+)?)\b[^`\n]*`")


def quoted(page):
    return CODE.findall(page.read_text())


def resolves(dotted):
    """Whether a dotted name is a module or something in one."""
    module, _, name = dotted.rpartition(".")
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        try:
            return hasattr(importlib.import_module(module), name)
        except ModuleNotFoundError:
            return False
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_files_that_a_page_names_are_there(page):
    words = quoted(page)
    missing = [word for word in words if DOTTED.fullmatch(word) and not resolves(word)]
    files = {word for word in words if SOURCE_FILE.fullmatch(word) and "/" in word}
    missing += [file for file in files if not any((ROOT / folder / file).exists() for folder in FOLDERS)]
    assert missing == []


@pytest.mark.parametrize("page", [*PAGES, ROOT / "experiments" / "README.md"], ids=lambda page: page.name)
def test_programs_and_targets_that_a_page_names_are_there(page):
    text = page.read_text()
    programs = {ROOT / name.replace(".", "/") for name in PROGRAM.findall(text)}
    assert [
        file for file in programs if not (file.with_suffix(".py").exists() or (file / "__main__.py").exists())
    ] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {target for word in CODE.findall(text) for target in TARGET.findall(f"{word}`")} <= targets


@pytest.mark.parametrize("page", benchmarks_page.PAGES, ids=lambda page: page.name)
def test_the_tables_of_measurements_are_what_the_result_files_give(page):
    text = page.read_text()
    assert text.count("<!-- begin ") == text.count("<!-- end ") > 0
    assert benchmarks_page.filled(text) == text, "run python -m benchmarks.page"


def test_measures_that_cases_share_are_columns_and_a_missed_target_is_marked():
    lines = [
        {"what": "device: a GPU", "value": 1.0},
        {"what": "few rows: seconds", "value": 2.5, "limit": "<= 3"},
        {"what": "few rows: GB", "value": 1.0},
        {"what": "many rows: seconds", "value": 2500.0, "limit": "<= 30"},
        {"what": "many rows: GB", "value": 4.0},
        {"what": "slope", "value": 0.4, "limit": ">= 0.5"},
    ]
    found = benchmarks_page.as_tables(
        {"date": "2026-01-31", "machine": {"cores": 2, "machine": "x", "numpy": "2"}, "lines": lines}
    )
    assert found.splitlines() == [
        "| | seconds | GB |",
        "|---|---|---|",
        "| few rows | 2.5 (<= 3) | 1 |",
        "| many rows | **2,500** (missed: <= 30) | 4 |",
        "",
        "| | measured |",
        "|---|---|",
        "| slope | **0.4** (missed: >= 0.5) |",
        "",
        "Measured on 2026-01-31: a GPU, 2 cores (x), numpy 2.",
    ]


def test_a_name_that_is_not_there_would_be_found():
    assert resolves("dkpca.fusion.fuse")
    assert resolves("dkpca.linalg.gram")
    assert not resolves("dkpca.eigen")
    assert not resolves("dkpca.fusion.fuze")


def test_the_floor_plan_names_every_module_and_package_at_the_top():
    plan = (ROOT / "docs" / "architecture.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \|", plan, re.MULTILINE))
    assert rows == {module.name for module in pkgutil.iter_modules(dkpca.__path__)} - {"__main__"}


def test_every_page_is_in_the_table_of_contents_and_every_decision_in_its_table():
    contents = (ROOT / "zensical.toml").read_text()
    assert [page.name for page in (ROOT / "docs").glob("*.md") if f'"{page.name}"' not in contents] == []
    decisions = ROOT / "docs" / "decisions"
    table = (decisions / "index.md").read_text()
    assert [page.name for page in decisions.glob("[0-9]*.md") if f"({page.name})" not in table] == []
