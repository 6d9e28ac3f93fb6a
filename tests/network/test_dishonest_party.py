"""A party that attacks the others through an honest center; where names in messages are believed, it succeeds."""

import json
import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dkpca.store import storage
from tests.network.federation import configure, dkpca

pytestmark = [pytest.mark.network, pytest.mark.slow]

HERE = Path(__file__).parent
PARTIES = ("airline", "weather")
ATTACKS = (
    "ask the other party",
    "get the others' tokens",
    "command the other party",
    "have the other party connect to it in clear",
)


def attacked(federate, folder, script="", patience=0):
    """Run a fit in which `weather` attacks; return the federation, the exit code, and which attacks were answered."""
    federation = federate(PARTIES, folder)
    rng = np.random.default_rng(0)
    for party in PARTIES:
        table = pl.DataFrame(rng.normal(size=(150, 3)), schema=["a", "b", "c"])
        table = table.with_columns(pl.Series("person", [f"p{i}" for i in range(150)]))
        table.write_csv(federation.path / party / "people.csv")
        configure(federation.path / party, "people.csv")
    if script:
        for site in (federation.center, federation.party("airline")):
            site.variables = {"PYTHONPATH": path_of(script)}
    told = federation.path / "attacks.jsonl"
    federation.party("weather").variables = {
        "PYTHONPATH": path_of("dishonest_party"),
        "DKPCA_ATTACKS": str(told),
        "DKPCA_PATIENCE": str(patience),
    }
    federation.start()
    fit = dkpca("submit", "fit", "center", "first", "--gamma", "0.1", "--rank", "9", "--components", "2",
                cwd=federation.path)  # fmt: skip
    answered = {record["what"]: record["answered"] for record in map(json.loads, told.read_text().splitlines())}
    return federation, fit, answered


def path_of(folder):
    return os.pathsep.join([str(HERE / folder), os.environ.get("PYTHONPATH", "")])


def asked_for(federation, run):
    records = storage.read_records(federation.path / "airline" / "dkpca-ledger.jsonl")
    return [record for record in records if record.get("run") == run]


def test_a_party_reaches_no_other_and_speaks_under_its_own_name_only(federate):
    federation, fit, answered = attacked(federate, "careful")
    assert answered == dict.fromkeys(ATTACKS, False)
    assert fit.returncode == 0, fit.stderr
    assert not asked_for(federation, "stolen")
    log = federation.center.log()
    for reason in (
        "it is for 'airline",
        "server_parent_listener:get_clients is not for it",
        "it speaks as 'airline.",
    ):
        assert reason in log
    assert "refused to connect" not in federation.party("airline").log()  # it was not even told


def test_where_names_in_messages_are_believed_the_same_attacks_succeed(federate):
    federation, _, answered = attacked(federate, "trusting", "trusting", patience=20)
    assert answered == dict.fromkeys(ATTACKS, True)
    assert asked_for(federation, "stolen")
