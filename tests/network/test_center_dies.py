"""A center that is killed loses nothing: between messages, and while a hundred megabytes are under way."""

import hashlib

import numpy as np
import psutil
import pytest

from testkit.owners import frame
from tests.network.federation import Federation, asked, background, configure, job_of, ok, status, wait_for

pytestmark = [pytest.mark.network, pytest.mark.slow]

PARTIES = ("slow", "steady", "fine")
FIT = ("--gamma", 0.05, "--rank", 20, "--components", 3)


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    path = tmp_path_factory.mktemp("center")
    made = Federation(path, PARTIES)
    rng = np.random.default_rng(0)
    for party in PARTIES:
        frame(rng.normal(size=(60, 4)), [f"p{i:02d}" for i in range(60)]).write_csv(path / party / "people.csv")
        configure(path / party, "people.csv")
        (path / party / "policy.toml").write_text("max_rank = 64\n")
    try:
        yield made
    finally:
        made.stop()


@pytest.fixture
def running(federation):
    """All of them started and connected."""
    for site in federation.sites:
        if not site.running:
            site.start()
    return federation.wait_connected()


def test_a_center_killed_between_messages_goes_on_where_it_was(running):
    messages = running.runs / "second" / "messages"
    with background(running, "submit", "fit", "center", "second", *FIT) as command:
        slow = job_of(running.party("slow"))
        slow.suspend()
        wait_for(lambda: len(list(messages.glob("*.summary"))) == len(PARTIES) - 1, "the other messages", 100)
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
