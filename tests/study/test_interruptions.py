"""Killed at writes of every command, reordered and delayed: the same commands again end with the same bits."""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from dkpca.cli.studies import WAITING
from dkpca.errors import ProtectionError, StorageError
from dkpca.exchange.member import WaitingError
from testkit import forking
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables

pytestmark = pytest.mark.slow


STRIDE = int(os.environ.get("DKPCA_STRIDE", "29"))  # 1: every write of every member in every step


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Where commands run as forks of a process that has loaded the library."""
    with forking.serving(tmp_path_factory.mktemp("server")) as path:
        yield path


def killed_at(server, consortium, name, at):
    """Run a member's command in a process that dies at one of its writes; whether it died."""
    command = ["study", "run", consortium.url, "--as", str(consortium.root / name)]
    code = forking.run(server, command, consortium.root, dies_at=at)
    assert code in (0, WAITING, -signal.SIGKILL)
    return code == -signal.SIGKILL


def results(root):
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.glob("*/result/**/*") if p.is_file()}


def test_killed_at_many_writes_it_ends_with_the_same_bits(server, tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    undisturbed = Consortium(tmp_path / "one", tables(14), MODES["sums"], samples=10, align="position")
    signed = undisturbed.join(**ANYTHING).sign().copy(tmp_path / "other")
    undisturbed.finish()
    deaths = 0
    seen: dict[Path, bytes] = {}
    for _ in range(3):
        for name in (*signed.names, "center"):
            at = 1
            while killed_at(server, signed, name, at):
                deaths, at = deaths + 1, at + STRIDE
                for path in (tmp_path / "other/shared").glob("*/[a-z]*"):  # nothing is answered twice
                    assert seen.setdefault(path, path.read_bytes()) == path.read_bytes()
    assert deaths > 5
    signed.finish()
    assert results(tmp_path / "other") == results(tmp_path / "one")


def test_a_folder_that_delays_reorders_hides_and_returns_files_changes_nothing(tmp_path):
    random = np.random.default_rng(0)
    consortium = Consortium(tmp_path, tables(14), MODES["sums"], samples=10).join(**ANYTHING).sign()
    shared, away = tmp_path / "shared", tmp_path / "away"
    waiting = [*consortium.names, "center"]
    first: dict[Path, bytes] = {}
    for _ in range(400):
        files = sorted(path for path in shared.rglob("*") if path.is_file())
        for path in random.permutation(files)[:3]:
            first.setdefault(path, path.read_bytes())
            if random.random() < 0.3:  # half of it
                path.write_bytes(first[path][: len(first[path]) // 2])
            elif random.random() < 0.5:
                (away / path.relative_to(shared)).parent.mkdir(parents=True, exist_ok=True)
                path.rename(away / path.relative_to(shared))
        name = random.choice(waiting)
        with contextlib.suppress(WaitingError, ProtectionError, StorageError):  # half of an own file is named
            consortium.run(name)
            waiting.remove(name)
        for path in [p for p in away.rglob("*") if p.is_file()]:
            if random.random() < 0.7:
                path.rename(shared / path.relative_to(away))
        for path, content in first.items():
            if path.exists() and random.random() < 0.7:
                path.write_bytes(content)
        if not waiting:
            break
    assert not waiting
    assert np.array_equal(consortium.embedding("airline")[1], consortium.embedding("weather")[1])


AS_ON_WINDOWS = """
import sys
from testkit import as_on_windows
as_on_windows.begin()
from pathlib import Path
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables
about = {"samples": 10, "align": "tokens"}
consortium = Consortium(Path(sys.argv[1]), tables(14), MODES[sys.argv[2]], **about).join(**ANYTHING).sign()
consortium.finish()
assert not list(Path(sys.argv[1]).rglob("*.part"))
print(*consortium.embedding("airline")[0])
"""


@pytest.mark.parametrize("mode", ["open", "sums", "blind"])
def test_a_whole_study_runs_without_fcntl_and_where_open_files_cannot_be_renamed(mode, tmp_path):
    command = [sys.executable, "-c", AS_ON_WINDOWS, str(tmp_path), mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == {f"s{row}" for row in range(14)}


def test_where_it_is_as_on_windows_an_open_file_is_not_renamed(tmp_path):
    program = (
        "from testkit import as_on_windows; as_on_windows.begin(); import os, sys\n"
        "from pathlib import Path\n"
        "path = Path(sys.argv[1]) / 'x'; path.write_bytes(b'1')\n"
        "with path.open('rb'):\n"
        "    try: path.replace(path.with_name('y'))\n"
        "    except PermissionError: print('refused')\n"
        "path.replace(path.with_name('y')); print(path.with_name('y').exists())\n"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused", "True"]


def full_disk(consortium, name, most):
    """Run a member's command in a process whose files cannot grow beyond a size; whether it said so."""
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from dkpca.exchange import study; from dkpca.exchange.folder import Folder\n"
        "from dkpca.exchange.member import WaitingError; from dkpca.exchange.memory import Memory\n"
        "from dkpca.errors import StorageError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)\n"
        "try: study.run(Folder(sys.argv[1]), Memory(Path(sys.argv[2])))\n"
        "except WaitingError: pass\n"
        "except StorageError as error: sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", program, consortium.url, str(consortium.root / name), str(most)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 or "cannot be" in done.stderr, done.stderr
    return done.returncode != 0


def test_a_disk_that_is_full_now_and_then_changes_nothing(tmp_path):
    consortium = Consortium(tmp_path, tables(14), MODES["open"], samples=10).join(**ANYTHING).sign()
    seen: dict[Path, bytes] = {}
    refused = 0
    for most in (500, 3000):
        for name in ("airline", "center"):
            refused += full_disk(consortium, name, most)
            for path in (tmp_path / "shared").glob("*/[a-z]*"):
                assert seen.setdefault(path, path.read_bytes()) == path.read_bytes()
    assert refused > 1
    consortium.finish()
    assert np.array_equal(consortium.embedding("airline")[1], consortium.embedding("center")[1])
