"""Compact messages and goals from the command line."""

import pytest

from dkpca.messages import Summary
from dkpca.store.files import receive
from testkit.owners import OWNERS

TABLES = [f"{owner}.csv" for owner in OWNERS]
COMPACT = ("--precision", "compact")


@pytest.mark.longer
def test_summarize_names_the_goal_that_decided(office):
    asked = ("summarize", "bank.csv", "--id", "person", "--gamma", 0.1, *COMPACT, "--out", "bank.summary")
    told = office.ok(*asked, "--rank", "error=0.01", "--rank", "bytes=1MB", "--json").json
    assert told["decided"] == "Error(at_most=0.01)"
    assert receive(office.path / "bank.summary", Summary).message.factor.precision == "compact"
    told = office.ok(*asked, "--rank", "error=0.01", "--rank", "bytes=1100").out
    assert ", to stay within 1100 bytes; an error of at most 0.01 is not met" in told
    assert (office.path / "bank.summary").stat().st_size <= 1100


def test_fit_says_which_goal_is_not_met(office):
    goals = ("--gamma", 0.1, *COMPACT, "--rank", "error=0.01", "--rank", "bytes=1100")
    told = office.ok("fit", *TABLES, "--id", "person", *goals, "--out", "run").out
    missed = "rank by Budget(bytes=1100, precision='compact'); Error(at_most=0.01) is not met"
    assert all(f"note: {name}: {missed}" in told for name in OWNERS)


def test_a_need_is_said_in_one_way(office):
    words = office.refused(
        "summarize", "bank.csv", "--gamma", 1, "--rank", 3, "--rank", "error=0.1", "--out", "b.summary"
    )
    assert "sets the rank in several ways; give one number, error= or epsilon=" in words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("some", "give a number, auto, error=NUMBER"),
        ("error=much", "could not convert"),
        ("recovery=2", "recovery"),
        ("bytes=few", "an amount is a number of bytes"),
    ],
)
def test_a_goal_that_cannot_be_read_is_refused(office, text, words):
    assert words in office.refused("summarize", "bank.csv", "--gamma", 1, "--rank", text, "--out", "b.summary")
