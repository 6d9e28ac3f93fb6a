"""Every command and every program in the documentation runs as printed.

The commands are forks of a process that has loaded the library; test_feel.py runs the program as it is installed.
"""

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from testkit.federation import environment, free_port, wait_for
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


@pytest.fixture
def path(server):
    """Where a shell finds `dkpca`, and the Python of these tests."""
    return f"{server.parent}:{PROGRAM.parent}:{os.environ['PATH']}"


@pytest.mark.slow
def test_every_command_in_the_documentation_runs_as_printed(path, tmp_path):
    docs = ROOT / "docs"
    pages = [docs / "getting-started.md", docs / "tables.md", docs / "deploying.md", ROOT / "README.md"]
    script = "set -eu\n" + "".join(map(shell_script, pages))
    assert script.count("dkpca ") > 20
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
def test_the_tutorial_and_the_guide_to_choosing_run_as_printed(path, tmp_path):
    script = "set -eu\n" + "".join(shell_script(ROOT / "docs" / page) for page in ("tutorial.md", "choosing.md"))
    assert script.count("dkpca ") > 15
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
    assert "in common: 164 samples" in ran.stdout
    assert "164 patients are in all three" in tutorial
    assert "at least 99.8% of what the best 3 could (proved)" in ran.stdout
    assert "good to about 2 digits (estimated); proved to 1" in ran.stdout
    assert "good to about 2 digits, and proved to 1" in tutorial
    assert "at least 99.8 % of what the best three components" in tutorial
    assert "30 known rows recover 6 of 6 columns, R² 1.00 to 1.00" in ran.stdout
    assert "30 known rows recover 6 of 6 columns, R² 1.00 to 1.00" in tutorial
    assert "component 2 goes with Blutdruck (mmHg)" in ran.stdout
    assert "columns that the page holds, for every sample: Diagnose" in ran.stdout
    assert (tmp_path / "hospitals" / "clinic" / "report.html").exists()
    assert (tmp_path / "hospitals" / "labeled.svg").exists()


def processes_in(folder: Path) -> list[psutil.Process]:
    """Every process that works in a folder."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.status() != "zombie" and Path(process.cwd()).is_relative_to(folder):
                found.append(process)
    return found


# In the background a shell of a script ignores Ctrl-C, so that only SIGTERM reaches center and parties.
STOP_ALL = "trap 'kill $(jobs -p) 2>/dev/null; wait' EXIT\n"


@pytest.mark.network
@pytest.mark.slow
def test_three_organizations_over_a_network_as_printed(path, tmp_path):
    script = "set -eu\n" + STOP_ALL + shell_script(ROOT / "docs" / "network.md")
    assert script.count("dkpca ") > 20
    program = {"PATH": path, "PORT": str(free_port())}
    words = tmp_path / "words.txt"
    with words.open("w") as file:
        shell = subprocess.Popen(
            ["bash", "-c", script],
            cwd=tmp_path,
            env=environment(tmp_path / "home") | program,
            stdout=file,
            stderr=file,
            start_new_session=True,
        )
    try:
        assert shell.wait(timeout=1800) == 0, words.read_text()[-3000:]
        wait_for(lambda: not processes_in(tmp_path), "end of all processes")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, signal.SIGKILL)
        for process in processes_in(tmp_path):
            process.kill()
    said = words.read_text()
    assert "registry: summary failed (it is not connected" in said
    assert said.count("exit code 1") == 1
    runs = tmp_path / "center" / "runs"
    assert (runs / "first" / "report.html").exists()
    assert (runs / "first" / "new" / "november" / "embedding.csv").exists()
    assert len((runs / "second" / "embedding.csv").read_text().splitlines()) == 251
    assert (runs / "third" / "certificate.json").exists()
    assert {file.name for file in (runs / "hidden" / "messages").glob("airline.*")} == {
        "airline.tokens", "airline.offer", "airline.sums"
    }  # fmt: skip
    for party in ("airline", "weather", "registry"):
        assert (tmp_path / party / "runs" / "first" / "new" / "october" / "embedding.csv").exists()


@pytest.mark.slow
def test_every_program_in_the_documentation_runs_as_printed():
    pages = [ROOT / "README.md", ROOT / "docs" / "getting-started.md", ROOT / "docs" / "performance.md"]
    programs = [text for page in pages for _, kind, text in BLOCK.findall(page.read_text()) if kind == "python"]
    assert len(programs) >= len(pages)
    ran = subprocess.run([sys.executable, "-c", "\n".join(programs)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
