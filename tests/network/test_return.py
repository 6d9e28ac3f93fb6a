"""A party waits for its center, comes back to it after whatever happened, and leaves nothing behind."""

import time

import pytest

from tests.network.federation import ok, wait_for

pytestmark = [pytest.mark.network, pytest.mark.slow]


def test_parties_wait_for_the_center_come_back_after_it_died_and_leave_nothing(federate):
    f = federate()
    for name in f.names:
        f.party(name).start().wait_said("no center at")
    f.center.start()
    f.wait_connected()
    assert "another site" not in f.center.said()

    f.center.kill()
    for name in f.names:
        f.party(name).wait_said("center lost; trying again", 20)
    began = time.monotonic()
    f.center.start().wait_connected()
    up = time.monotonic()
    f.wait_connected()
    assert time.monotonic() - up < 20, "the parties come back within seconds of the center"
    for name in f.names:
        f.party(name).wait_said("connected again", 20)
    print(f"center up after {up - began:.1f} s, parties back {time.monotonic() - up:.1f} s later")

    began = time.monotonic()
    f.party("airline").stop()
    assert time.monotonic() - began < 8
    f.center.wait_said("airline is gone", 5)
    f.stop()
    assert f.left() == []
    assert not list(f.home.iterdir())
    assert "PRIVATE" not in "".join(site.log() for site in f.sites)


def test_a_party_starts_anew_when_the_center_has_new_keys(federate):
    f = federate(["airline"]).start()
    party = f.party("airline")
    before = party.pid
    f.center.stop()
    ok("consortium", "renew", "center", cwd=f.path)
    f.center.start().wait_connected()
    party.wait_said("the center is there but does not know this party any more; starting anew", 80)
    f.center.wait_said("airline is connected", 30)
    wait_for(lambda: party.said().count("connected to center") == 2, "the party saying so")
    assert party.pid == before
    assert party.stop() == 130
    f.center.wait_said("airline is gone", 5)
