"""Compact messages and goals from the command line."""

import numpy as np
import pytest

from dkpca import wire
from dkpca.exchange import rehearsal
from dkpca.exchange.rehearsal import Parties, rehearse
from dkpca.exchange.rounds import Fit
from dkpca.kernels import RBF
from dkpca.messages import Summary
from dkpca.party import statistics, summarize
from dkpca.rank import All, Auto, Budget, Error, Fixed
from dkpca.store.message_files import read
from testkit.owners import OWNERS

TABLES = [f"{owner}.csv" for owner in OWNERS]
COMPACT = ("--precision", "compact")


def test_summarize_names_the_goal_that_decided(office):
    asked = ("summarize", "bank.csv", "--id", "person", "--gamma", 0.1, *COMPACT, "--out", "bank.summary")
    told = office.ok(*asked, "--error", 0.01, "--budget", 10**6, "--json").json
    assert told["decided"] == "Error(at_most=0.01)"
    assert read(office.path / "bank.summary", Summary).factor.precision == "compact"
    told = office.ok(*asked, "--error", 0.01, "--budget", 1100).out
    assert "decided by Budget(bytes=1100, precision='compact'); Error(at_most=0.01) is not met" in told
    assert (office.path / "bank.summary").stat().st_size <= 1100


def test_a_need_is_said_in_one_way(office):
    words = office.refused("summarize", "bank.csv", "--gamma", 1, "--rank", 3, "--error", 0.1, "--out", "b.summary")
    assert "--rank, --epsilon and --error are three ways to say what is needed; use one of them" in words


@pytest.mark.slow
@pytest.mark.parametrize("goal", [(), ("--rank", 5), ("--error", 0.05), ("--budget", 1500)])
def test_a_compact_fit_runs_and_sends_what_plan_foresees(office, goal):
    asked = (*TABLES, "--id", "person", "--components", 3, *COMPACT, *goal, "--json")
    planned = {p["name"]: p["bytes_sent"] for p in office.ok("plan", *asked).json["parties"]}
    office.ok("fit", *asked, "--jobs", 1, "--out", "run")
    for owner in OWNERS:
        size = (office.path / "run" / "messages" / f"{owner}.summary").stat().st_size
        assert planned[owner] == pytest.approx(size, rel=0.1)


def test_compact_bytes_cannot_be_judged_from_statistics(office):
    office.ok("statistics", "bank.csv", "--id", "person", "--out", "bank.statistics")
    words = office.refused("plan", "bank.statistics", "--rank", 5, *COMPACT)
    assert "the bytes of 'bank' cannot be judged from statistics; give its table, or another --precision" in words


@pytest.mark.slow
@pytest.mark.parametrize("rule", [Auto(5), Fixed(20), Error(0.3), Budget(20_000)], ids=str)
def test_the_bytes_of_a_large_table_are_foreseen_within_a_tenth(rule, monkeypatch):
    monkeypatch.setattr(rehearsal, "WHOLE", 500)
    monkeypatch.setattr(rehearsal, "COMPACT_PROBE_ROWS", 600)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1500, 6)) @ rng.standard_normal((6, 6))
    X[:, 5] = rng.integers(0, 4, 1500)
    fit = Fit("rbf", 0.02, 5, True, rule, "compact")
    planned = rehearse(Parties({"bank": statistics(X, party="bank")}, {"bank": X}), fit)["bank"]
    sent, _ = summarize(X, party="bank", kernel=RBF(0.02), rank=rule, precision="compact")
    assert planned.bytes == pytest.approx(wire.size(sent), rel=0.1)
    assert not planned.exact


@pytest.mark.slow
@pytest.mark.parametrize("rules", [[Budget(25_000)], [Budget(120_000)], [Error(1.0), Budget(25_000)]], ids=str)
def test_a_limit_of_bytes_for_many_samples_is_foreseen_within_a_tenth(rules, monkeypatch):
    monkeypatch.setattr(rehearsal, "WHOLE", 500)
    monkeypatch.setattr(rehearsal, "COMPACT_PROBE_ROWS", 500)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 6)) @ rng.standard_normal((6, 6))
    X[:, 5] = rng.integers(0, 4, 2000)
    fit = Fit("rbf", 0.02, 5, True, All(tuple(rules)), "compact", "landmark")
    planned = rehearse(Parties({"bank": statistics(X, party="bank")}, {"bank": X}), fit)["bank"]
    sent, _ = summarize(
        X, party="bank", kernel=RBF(0.02), rank=All(tuple(rules)), precision="compact", solver="landmark"
    )
    assert planned.bytes == pytest.approx(wire.size(sent), rel=0.1)


@pytest.mark.parametrize("precision", ["float64", "float16"])
def test_a_limit_of_bytes_in_other_precisions_is_foreseen_exactly(precision, monkeypatch):
    monkeypatch.setattr(rehearsal, "WHOLE", 500)
    X = np.random.default_rng(0).standard_normal((1500, 6))
    fit = Fit("rbf", 0.02, 5, True, Budget(100_000), precision)
    planned = rehearse(Parties({"bank": statistics(X, party="bank")}, {"bank": X}), fit)["bank"]
    sent, _ = summarize(X, party="bank", kernel=RBF(0.02), rank=Budget(100_000), precision=precision)
    assert planned.rank == sent.rank
