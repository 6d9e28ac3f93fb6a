"""Every command and every program in the documentation runs as printed.

The commands are forks of a process that has loaded the library; test_feel.py runs the program as it is installed.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testkit import forking
from testkit.program import PROGRAM

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^(?:<!-- (run|file: \S+) -->\n)?```(sh|python|toml)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def shell_script(page: Path) -> str:
    """The marked blocks of a page, in order."""
    parts = []
    for mark, kind, text in BLOCK.findall(page.read_text()):
        if mark == "run" and kind == "sh":
            parts.append(text)
        elif mark.startswith("file: "):
            parts.append(f"cat > {mark.removeprefix('file: ')} <<'END'\n{text}END\n")
    return "".join(parts)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Where a shell finds `dkpca`, and the Python of these tests."""
    with forking.serving(tmp_path_factory.mktemp("server")) as server:
        yield f"{server.parent}:{PROGRAM.parent}:{os.environ['PATH']}"


@pytest.mark.slow
def test_every_command_in_the_documentation_runs_as_printed(path, tmp_path):
    docs = ROOT / "docs"
    pages = [docs / "getting-started.md", docs / "tables.md", ROOT / "README.md"]
    script = "set -eu\n" + "".join(map(shell_script, pages))
    assert script.count("dkpca ") > 8
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert (tmp_path / "dkpca-demo" / "together" / "report.html").exists()
    assert (tmp_path / "dkpca-demo" / "run" / "report.html").exists()


@pytest.mark.slow
def test_the_tutorial_runs_as_printed(path, tmp_path):
    script = "set -eu\n" + shell_script(ROOT / "docs" / "tutorial.md")
    assert script.count("dkpca ") >= 8
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-2000:]
    tutorial = " ".join((ROOT / "docs" / "tutorial.md").read_text().split())
    assert "using the 164 samples that all tables have" in ran.stdout
    assert "164 patients are in all three" in tutorial
    assert "Proved: at least 99.9" in ran.stdout
    assert "the subspace of the components is correct to 4 digits (estimated)" in ran.stdout
    assert " of all variance, and the subspace of the components to 2 digits." in ran.stdout
    assert "correct to about 4 digits (estimated), and 2 of these digits are proved" in tutorial
    assert "an attacker who knows 30 rows can recover 5 of 5 columns (R² 1.00)" in ran.stdout
    assert "an attacker who knows 30 rows can recover 5 of 5 columns (R² 1.00)" in tutorial
    assert "component 2 is associated with Blutdruck (mmHg)" in ran.stdout
    assert "the page contains these columns, for every sample: Diagnose" in ran.stdout
    assert (tmp_path / "hospitals" / "clinic" / "report.html").exists()


@pytest.mark.slow
def test_every_program_in_the_documentation_runs_as_printed():
    pages = [
        ROOT / "README.md",
        *(
            ROOT / "docs" / f"{name}.md"
            for name in ("choosing", "getting-started", "performance", "covariates", "analysis", "certificate")
        ),
    ]
    programs = [text for page in pages for _, kind, text in BLOCK.findall(page.read_text()) if kind == "python"]
    assert len(programs) >= len(pages)
    ran = subprocess.run([sys.executable, "-c", "\n".join(programs)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
