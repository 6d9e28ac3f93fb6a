"""The units that operations.md tells people to install."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
PROGRAM = Path(sys.executable).with_name("dkpca")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze: apt-get install systemd")
@pytest.mark.parametrize(
    ("file", "name"), [("dkpca-center.service",) * 2, ("dkpca-party@.service", "dkpca-party@a.service")]
)
def test_systemd_accepts_the_unit(tmp_path, file, name):
    unit = tmp_path / name
    unit.write_text((DEPLOY / file).read_text().replace("/opt/dkpca/bin/dkpca", str(PROGRAM)))
    ran = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert name not in ran.stderr, ran.stderr
    broken = tmp_path / f"broken-{name}"
    broken.write_text(unit.read_text().replace("ExecStart=", "ExecStrat="))
    ran = subprocess.run(["systemd-analyze", "verify", str(broken)], capture_output=True, text=True, check=False)
    assert ran.returncode != 0


def test_the_container_installs_the_extra_that_exists_and_runs_a_command_that_exists():
    text = (DEPLOY / "Containerfile").read_text()
    project = (DEPLOY.parent / "pyproject.toml").read_text()
    extra = re.search(r"/build\[(\w+)\]", text).group(1)
    assert f"\n{extra} = [" in project
    copied = re.findall(r"COPY (.*) /build", text)
    assert all((DEPLOY.parent / name).exists() for line in copied for name in line.split())
