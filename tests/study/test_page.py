"""The page "A study": each of its commands, as written there, by members in folders of their own."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "study.md"
MEMBERS = ("airline", "weather", "registry", "center")


def commands():
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


def write_tables(folder):
    random = np.random.default_rng(0)
    for name in MEMBERS[:3]:
        rows = random.permutation(180)[:165]
        X = random.normal(size=(180, 45))[rows]
        lines = [f"flight,{','.join(f'c{column}' for column in range(45))}"]
        lines += [f"f{row},{','.join(map(repr, values))}" for row, values in zip(rows, X.tolist(), strict=True)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


def started(line, folder, environment):
    words = shlex.split(os.path.expandvars(line)) if "$" not in line else shlex.split(line)
    words = [environment.get(word[1:], word) if word.startswith("$") else word for word in words]
    assert words[0] == "dkpca"
    return subprocess.Popen(
        [sys.executable, "-m", "dkpca", *words[1:]], cwd=folder, env=environment, stdout=-1, stderr=-1, text=True
    )


@pytest.mark.slow
def test_every_command_of_the_page_runs_as_written(tmp_path):
    write_tables(tmp_path)
    environment = dict(os.environ) | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    watching = [line for line in commands() if "--watch" in line]
    others = [line for line in commands() if "--watch" not in line]
    for line in others:
        done = started(line, tmp_path, environment)
        told, said = done.communicate(timeout=1500)
        assert done.returncode == 0, (line, told, said)
        if " review " in line:
            (digits,) = re.findall(r'in quotes\): "([0-9a-f ]+)"', told)
            assert environment.setdefault("FINGERPRINT", digits) == digits
            assert "GREEN" in told
    running = [started(line, tmp_path, environment) for line in watching]
    for line, process in zip(watching, running, strict=True):
        told, said = process.communicate(timeout=1500)
        assert process.returncode == 0, (line, told, said)
    lines = {name: (tmp_path / f"{name}/result/embedding.csv").read_text().splitlines() for name in MEMBERS[:3]}
    assert len(set(map(frozenset, lines.values()))) == 1  # the same scores of the flights that all have
    assert 120 <= len(lines["airline"]) - 1 < 165
    assert json.loads((tmp_path / "center/result/certificate.json").read_text())


def test_a_study_takes_fifteen_commands_and_four_of_each_member():
    lines = commands()
    assert len(lines) <= 15
    for name in MEMBERS:
        assert sum(f"--as {name}" in line for line in lines) <= 4
