"""A fit on one machine ends at once when it must, and leaves neither files nor processes."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from dkpca.errors import InputError, StorageError
from dkpca.exchange import one_machine
from dkpca.exchange.holdings import Holding
from dkpca.settings import Compute, Fit
from dkpca.tables.reading import Reading
from testkit.endless import Endless

pytestmark = pytest.mark.slow  # most of these start processes


FIT = Fit(2, gamma=0.1, rank=5)
ENDLESS_FIT = """
from pathlib import Path
from dkpca.cli import on_one_machine, run
from dkpca.tables.reading import Reading
from testkit.endless import Endless
table = Path({folder!r}, "bank.npy")
on_one_machine.holdings_of = lambda *_, **__: [Endless(name, table, Reading()) for name in ("bank", "shop")]
raise SystemExit(run(["fit", "bank.npy", "--jobs", "2", "--out", str(table.with_name("run"))]))
"""


def endless_fit(folder):
    """Start a fit; return it and its parties' processes once they are at work."""
    program = [sys.executable, "-c", ENDLESS_FIT.format(folder=str(folder))]
    fit = subprocess.Popen(program, cwd=Path(__file__).parents[1], stderr=subprocess.PIPE, text=True)
    while len(begun := list(folder.glob("begun-*"))) < 2:
        assert fit.poll() is None, fit.communicate()[1]
        time.sleep(0.05)
    workers = [psutil.Process(int(file.name.partition("-")[2])) for file in begun]
    for file in begun:
        file.unlink()
    return fit, workers


def test_other_parties_are_not_waited_for_once_one_has_failed(tmp_path):
    np.save(tmp_path / "clinic.npy", np.ones((6, 2)))
    holdings = [
        Endless("bank", tmp_path / "bank.npy", Reading()),
        Holding("clinic", tmp_path / "clinic.npy", Reading()),
    ]
    with pytest.raises(InputError, match=r"clinic\.npy.*the same value in every row"):
        one_machine.fit(tmp_path / "run", holdings, FIT, Compute(n_jobs=2))
    assert not list(tmp_path.glob("*run*"))


def test_a_worker_in_another_folder_reads_a_relative_path_and_errors_name_it_as_given(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("good.npy", np.arange(6.0).reshape(3, 2))
    np.save("flat.npy", np.ones((6, 2)))
    good, flat, none = (Holding("bank", Path(f"{n}.npy"), Reading()) for n in ("good", "flat", "none"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert good("quantities").shape == (3, 2)
    with pytest.raises(InputError, match=r"^flat\.npy: the same value in every row"):
        flat("quantities")
    with pytest.raises(StorageError, match=r"^none\.npy: there is no such file"):
        none("quantities")


def test_a_fit_that_is_killed_leaves_no_process_with_a_private_table(tmp_path):
    fit, workers = endless_fit(tmp_path)
    fit.kill()
    for worker in workers:
        worker.wait(60)
    fit.communicate()


@pytest.mark.parametrize("when", [signal.SIGTERM, signal.SIGINT])
def test_a_fit_can_be_interrupted_while_its_parties_are_at_work(tmp_path, when):
    fit, workers = endless_fit(tmp_path)
    fit.send_signal(when)
    assert fit.communicate()[1] == "dkpca: interrupted; no file was left half written, the command can be repeated\n"
    assert fit.returncode == 130
    assert not any(tmp_path.iterdir())
    assert not any(worker.is_running() for worker in workers)


def test_a_party_whose_process_is_killed_is_named(tmp_path):
    fit, (worker, _) = endless_fit(tmp_path)
    worker.kill()
    said = "dkpca: the process of one of ['bank', 'shop'] was killed, perhaps for lack of memory; try"
    assert fit.communicate()[1].startswith(said)
    assert fit.returncode == 1
    assert not any(tmp_path.iterdir())
