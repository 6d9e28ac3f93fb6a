"""What goes wrong between processes: each fault is named, nothing received is lost, the same command completes."""

import base64
import io
import struct
import threading
import zipfile

import numpy as np
import pytest

from dkpca.store import runs
from testkit.owners import frame
from tests.network.federation import Federation, asked, configure, dkpca, job_of, ok, status

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


def test_nothing_of_the_raw_data_is_outside_the_partys_folder(federation):
    """After every success and failure above, and one more: search every file for the markers, in every encoding."""
    broken = federation.path / "raises" / "people.csv"
    lines = broken.read_text().splitlines()
    lines[3] = f"{MARKED_ID},{MARKER} is text," + lines[3].split(",", 2)[2]
    broken.write_text("\n".join(lines) + "\n")
    for party in PARTIES:
        configure(federation.path / party, "people.csv")
        (federation.path / party / "policy.toml").write_text("max_rank = 64\n")
    ran = dkpca("submit", "fit", "center", "fourth", *FIT, cwd=federation.path, seconds=200)
    assert ran.returncode == 1
    assert "raises: cannot answer" in ran.stderr
    assert MARKED_ID in (federation.path / "raises" / "dkpca-ledger.jsonl").read_text()
    federation.stop()

    own = [federation.path / party for party in PARTIES]
    searched = 0
    for path in federation.path.rglob("*"):
        if path.is_file() and not any(path.is_relative_to(folder) for folder in own):
            for name, data in contents(path.name, path.read_bytes()):
                searched += 1
                for needle in NEEDLES:
                    assert needle not in data, f"{path} ({name}) holds {needle!r}"
    assert searched > 30
    for party in PARTIES:
        assert any(needle in (federation.path / party / "people.csv").read_bytes() for needle in NEEDLES)
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
    # The text may begin at any of three places of a base64 group: leave out what depends on its neighbors.
    coded = [base64.b64encode(b" " * shift + data)[4 if shift else 0 : -4] for data in plain for shift in range(3)]
    return [*plain, *numbers, *hexed, *coded]


NEEDLES = _needles()
