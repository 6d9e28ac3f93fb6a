"""What goes wrong between processes: each fault is named, nothing received is lost, the same command completes."""

import base64
import contextlib
import hashlib
import io
import json
import struct
import subprocess
import sys
import threading
import zipfile

import numpy as np
import psutil
import pytest

from dkpca import runs, storage
from tests.commands.conftest import frame
from tests.network.federation import Federation, dkpca, environment, ok, wait_for

pytestmark = [pytest.mark.network, pytest.mark.slow]

PARTIES = ("raises", "refuses", "slow", "dies", "lost", "absent", "fine")
FIT = ("--gamma", 0.05, "--rank", 20, "--components", 3)
MARKER = 481516.234275
MARKED_ID, MARKED_COLUMN = "Zaphod-Beeblebrox-42", "heart_of_gold"


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """Seven parties; each has a marker among its values, its ids and its column names."""
    path = tmp_path_factory.mktemp("faults")
    made = Federation(path, PARTIES)
    rng = np.random.default_rng(0)
    causes = rng.normal(size=(60, 3))
    for party in PARTIES:
        X = causes @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(60, 4))
        X[17, 2] = MARKER
        table = frame(X, [f"p{i:02d}" for i in range(59)] + [MARKED_ID]).rename({"x2": MARKED_COLUMN})
        table.write_csv(path / party / "people.csv")
        configure(path / party, "people.csv")
        (path / party / "policy.toml").write_text("max_rank = 64\n")
    try:
        yield made
    finally:
        made.stop()


def configure(folder, table: str, id_column: str = "person") -> None:
    (folder / "party.toml").write_text(
        f'party = "{folder.name}"\ntable = "{table}"\nid = "{id_column}"\npolicy = "policy.toml"\n'
    )


@pytest.fixture
def running(federation):
    """All of them started and connected."""
    for site in federation.sites:
        if not site.running:
            site.start()
    return federation.wait_connected()


def asked(federation, run: str) -> list[list[str]]:
    records = storage.read_records(federation.runs / run / "ledger.jsonl")
    return [record["parties"] for record in records if record["event"] == "asked"]


def status(federation, run: str):
    told = dkpca("status", "center", run, "--json", cwd=federation.path)
    return told.returncode, json.loads(told.stdout)


@contextlib.contextmanager
def background(federation, *arguments):
    """A command that runs while the test does something."""
    command = [sys.executable, "-m", "dkpca", *map(str, arguments)]
    with subprocess.Popen(
        command,
        cwd=federation.path,
        env=environment(federation.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield process
            process.communicate(timeout=240)
        finally:
            process.kill()


def job_of(site) -> psutil.Process:
    return wait_for(lambda: next(iter(site.job_processes()), None), f"job process of {site.name}")


def test_every_fault_in_one_run_is_named_and_the_repeated_command_completes(federation):
    for site in federation.sites:
        if site.name != "absent":
            site.start()
    federation.wait_connected()
    ledger = federation.path / "raises" / "dkpca-ledger.jsonl"
    ledger.mkdir()
    (federation.path / "refuses" / "policy.toml").write_text("max_rank = 19\n")
    stopped = []

    def trouble() -> None:
        stopped.append(job_of(federation.party("slow")))
        stopped[0].suspend()
        job_of(federation.party("dies")).kill()
        job_of(federation.party("lost"))
        federation.party("lost").kill()

    troublemaker = threading.Thread(target=trouble)
    troublemaker.start()
    deadline = ("--timeout", 25, "--join-timeout", 2)
    ran = dkpca("submit", "fit", "center", "first", *FIT, *deadline, cwd=federation.path, seconds=200)
    troublemaker.join(60)
    assert ran.returncode == 1
    code, told = status(federation, "first")
    assert (code, told["state"]) == (1, "failed")
    reasons = {party: at.get("reason", "") for party, at in told["parties"].items()}
    assert "EXECUTION_EXCEPTION" in reasons["raises"]
    assert "rank 20 is more than max_rank = 19" in reasons["refuses"]
    assert reasons["slow"] == "no answer within 25 s"
    assert "its job process ended" in reasons["dies"]
    assert reasons["lost"] == "no answer within 25 s" or "ended" in reasons["lost"]
    assert "did not take the job" in reasons["absent"]
    assert told["parties"]["fine"]["state"] == "answered"
    assert all(party in ran.stderr for party in PARTIES if party != "fine")
    assert (federation.runs / "first" / "messages" / "fine.summary").exists()
    assert len(list((federation.runs / "first" / "messages").iterdir())) == 1

    ledger.rmdir()
    (federation.path / "refuses" / "policy.toml").write_text("max_rank = 64\n")
    if stopped[0].is_running():
        stopped[0].resume()
    for name in ("lost", "absent"):
        federation.party(name).start()
    federation.wait_connected()
    ok("submit", "fit", "center", "first", *FIT, cwd=federation.path, seconds=200)
    assert asked(federation, "first")[1] == [party for party in PARTIES if party != "fine"]
    assert sorted(runs.load(federation.runs / "first").model.summaries) == sorted(PARTIES)
    assert status(federation, "first")[0] == 0


def test_a_center_killed_between_messages_goes_on_where_it_was(running):
    messages = running.runs / "second" / "messages"
    with background(running, "submit", "fit", "center", "second", *FIT) as command:
        slow = job_of(running.party("slow"))
        slow.suspend()
        wait_for(lambda: len(list(messages.glob("*.summary"))) == len(PARTIES) - 1, "six messages", 100)
        running.center.kill()
        assert command.wait(100) == 1
    slow.kill()
    kept = {path.name: path.read_bytes() for path in messages.glob("*.summary")}
    assert status(running, "second")[0] == 3
    running.center.start()
    running.wait_connected()
    ok("submit", "fit", "center", "second", *FIT, cwd=running.path, seconds=200)
    assert asked(running, "second")[1] == ["slow"]
    assert all((messages / name).read_bytes() == data for name, data in kept.items())
    assert status(running, "second")[0] == 0


def test_a_party_that_begins_when_all_is_done_does_not_hold_up_the_job(running):
    before = status(running, "second")[1]["job"]
    with background(running, "submit", "fit", "center", "second", *FIT, "--no-publish") as command:
        late = job_of(running.party("slow"))
        late.suspend()
        try:
            wait_for(
                lambda: status(running, "second")[1]["job"] != before and status(running, "second")[0] == 0,
                "the end of the run",
            )
        finally:
            late.resume()
        assert command.wait(60) == 0
    wait_for(lambda: not running.party("slow").job_processes(), "the end of the job at the party")


N_LARGE, RANK_LARGE = 200_000, 64  # 102 MB in float64


def on_loopback() -> int:
    return psutil.net_io_counters(pernic=True)["lo"].bytes_recv


def test_a_hundred_megabytes_go_through_even_if_the_center_dies_on_the_way(running):
    rng = np.random.default_rng(1)
    causes = rng.normal(size=(N_LARGE, 3))
    for party in PARTIES:
        folder = running.path / party
        np.save(folder / "large.npy", causes @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(N_LARGE, 6)))
        configure(folder, "large.npy", "")
        (folder / "policy.toml").write_text(f"max_rank = {RANK_LARGE if party == 'fine' else 2}\n")
    model = ("--gamma", 0.05, "--components", 3, "--precision", "float64", "--budget", N_LARGE * RANK_LARGE * 8)
    sent = running.path / "fine" / "runs" / "third" / "fine.summary"
    received = running.runs / "third" / "messages" / "fine.summary"
    with background(running, "submit", "fit", "center", "third", *model) as command:
        wait_for(sent.exists, "the large message", 150)
        before = on_loopback()
        wait_for(lambda: on_loopback() - before > 5e6, "five megabytes under way")
        running.center.kill()
        assert command.wait(100) == 1
    assert not received.exists()
    running.center.start()
    running.wait_connected()
    ok("submit", "fit", "center", "third", *model, cwd=running.path, seconds=300)
    assert received.stat().st_size > 100e6
    assert hashlib.sha256(received.read_bytes()).digest() == hashlib.sha256(sent.read_bytes()).digest()
    assert "fine" in asked(running, "third")[1]


def test_nothing_of_the_raw_data_is_outside_the_partys_folder(running):
    """After every success and failure above, and one more: search every file for the markers, in every encoding."""
    broken = running.path / "raises" / "people.csv"
    lines = broken.read_text().splitlines()
    lines[3] = f"{MARKED_ID},{MARKER} is text," + lines[3].split(",", 2)[2]
    broken.write_text("\n".join(lines) + "\n")
    for party in PARTIES:
        configure(running.path / party, "people.csv")
        (running.path / party / "policy.toml").write_text("max_rank = 64\n")
    ran = dkpca("submit", "fit", "center", "fourth", *FIT, cwd=running.path, seconds=200)
    assert ran.returncode == 1
    assert "raises: cannot answer" in ran.stderr
    assert MARKED_ID in (running.path / "raises" / "dkpca-ledger.jsonl").read_text()
    running.stop()

    own = [running.path / party for party in PARTIES]
    searched = 0
    for path in running.path.rglob("*"):
        if path.is_file() and not any(path.is_relative_to(folder) for folder in own):
            for name, data in contents(path.name, path.read_bytes()):
                searched += 1
                for needle in NEEDLES:
                    assert needle not in data, f"{path} ({name}) holds {needle!r}"
    assert searched > 50
    for party in PARTIES:
        assert any(needle in (running.path / party / "people.csv").read_bytes() for needle in NEEDLES)
    assert not any(needle in (ran.stdout + ran.stderr).encode() for needle in NEEDLES)


def contents(name: str, data: bytes):
    """A file, and what is packed in it."""
    yield name, data
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for inside in archive.namelist():
                yield from contents(inside, archive.read(inside))


def _needles() -> list[bytes]:
    words = [repr(MARKER), f"{MARKER:.3f}", f"{MARKER:e}"[:8], MARKED_ID, MARKED_COLUMN]
    plain = [word.encode() for word in words] + [word.encode("utf-16-le") for word in words]
    numbers = [struct.pack(kind, MARKER) for kind in ("<d", ">d", "<f", ">f")]
    hexed = [data.hex().encode() for data in [*plain, *numbers]]
    # The text may begin at any of three places of a base64 group: leave out what depends on its neighbours.
    coded = [base64.b64encode(b" " * shift + data)[4 if shift else 0 : -4] for data in plain for shift in range(3)]
    return [*plain, *numbers, *hexed, *coded]


NEEDLES = _needles()
