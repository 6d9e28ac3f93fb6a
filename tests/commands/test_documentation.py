"""Every command and every program in the documentation runs as printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from dkpca.demo import flights
from tests.commands.conftest import PROGRAM

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


@pytest.mark.slow
def test_every_command_in_the_documentation_runs_as_printed(tmp_path):
    pages = [ROOT / "docs" / "getting-started.md", ROOT / "docs" / "deploying.md", ROOT / "README.md"]
    script = "set -eu\n" + "".join(map(shell_script, pages))
    assert script.count("dkpca ") > 20
    path = f"{PROGRAM.parent}:{os.environ['PATH']}"
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
def test_every_program_in_the_documentation_runs_as_printed():
    pages = [ROOT / "README.md", ROOT / "docs" / "getting-started.md", ROOT / "docs" / "performance.md"]
    programs = [text for page in pages for _, kind, text in BLOCK.findall(page.read_text()) if kind == "python"]
    assert len(programs) >= len(pages)
    ran = subprocess.run([sys.executable, "-c", "\n".join(programs)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]


def test_every_table_of_the_demo_is_about_the_same_flights():
    tables = flights()
    ids = tables["airline"]["flight"]
    assert len(ids) == ids.n_unique() == 232_412
    assert all((table["flight"] == ids).all() for table in tables.values())
    assert not any("delay" in column for table in tables.values() for column in table.columns)
