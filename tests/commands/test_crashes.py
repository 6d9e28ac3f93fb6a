"""Every command, killed at each of its writes: each file is as before or complete, and repeating it completes all."""

import signal
from functools import partial
from pathlib import Path

import pytest

from testkit import forking
from testkit.crashing import crashes
from testkit.owners import GAMMA, OWNERS

LEFT_OUT = "run/messages/shop.summary"
SUMMARIES = tuple(f"{owner}.summary" for owner in OWNERS)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Where commands can be run as forks of a process that has loaded the library."""
    with forking.serving(tmp_path_factory.mktemp("server")) as path:
        yield path


@pytest.fixture
def survived(server):
    return partial(survives, server)


def survives(server: Path, folder: Path, *command, every=1) -> int:
    """Assert that a command survives being killed at any of its writes; return how many there were."""
    *killed, whole = crashes(server, folder, [*map(str, command)], every=every)
    assert whole["code"] == 0
    complete, before = whole["finally"], whole["before"]
    assert complete != before, "the command changes nothing, so that nothing is tested"
    assert not [name for name in complete if Path(name).name.startswith(".")]
    for crash in killed:
        assert crash["code"] == -signal.SIGKILL
        assert each_is_whole(crash["after"], before, complete)
        assert crash["again"] == 0
        assert crash["finally"] == complete
    assert every > 1 or complete in [crash["after"] for crash in killed], "the last writes were not reached"
    return len(killed)


def each_is_whole(found, before, complete):
    """Whether each file is as it was, or as it is in the end; where a model is, all files belong to it."""
    each = all(digest in (before.get(name), complete.get(name)) for name, digest in found.items())
    return each and ("run/model.safetensors" not in found or found in (before, complete))


@pytest.mark.slow
class TestEveryWrite:
    def test_of_summarize(self, survived, office):
        command = ("summarize", "bank.csv", "--id", "person", "--gamma", GAMMA, "--rank", 5, "--out", "bank.summary")
        assert survived(office.path, *command) > 5

    def test_of_summarize_over_an_older_message(self, survived, summarized):
        command = ("summarize", "bank.csv", "--id", "person", "--gamma", GAMMA, "--rank", 5, "--out", "bank.summary")
        assert survived(summarized.path, *command) > 5

    def test_of_fuse(self, survived, summarized):
        assert survived(summarized.path, "fuse", *SUMMARIES, "--components", 3, "--out", "run") > 15

    def test_of_fuse_with_a_party_replaced_half_way(self, survived, fused):
        fused.summarize("shop", "--rank", 7)
        assert survived(fused.path, "fuse", "shop.summary", "--keep", "--out", "run", every=3) > 3

    def test_of_fuse_with_fewer_components(self, survived, fused):
        assert survived(fused.path, "fuse", "--components", 2, "--out", "run", every=3) > 3

    def test_of_report(self, survived, fused):
        assert survived(fused.path, "report", "run") > 2

    def test_of_fit(self, survived, office):
        """Each run starts a process for the parties, so not at every write; `fuse`, which writes most, is above."""
        tables = ("bank.csv", "shop.csv", "--id", "person", "--jobs", 1)
        fit = ("fit", *tables, "--rank", 5, "--components", 2, "--out", "run")
        assert survived(office.path, *fit, every=19) > 1


@pytest.mark.slow
def test_a_party_that_was_left_out_stays_out_whenever_the_command_is_killed(server, fused):
    *killed, whole = crashes(server, fused.path, ["fuse", "--without", "shop", "--out", "run"], every=1)
    assert whole["code"] == 0
    for crash in killed:
        # Its summary goes last: until then the digests say that the model does not belong to the messages.
        found, before = ({n: d for n, d in crash[when].items() if n != LEFT_OUT} for when in ("after", "before"))
        assert each_is_whole(found, before, whole["after"])
        complete = crash["after"] == whole["after"]
        # The repetition of a command that was complete finds nobody to leave out, and says so.
        assert crash["again"] == (1 if complete else 0)
        assert crash["finally"] == whole["after"]
