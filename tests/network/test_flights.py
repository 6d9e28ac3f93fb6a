"""A center and four parties as processes of their own, with mutual TLS, on 800 flights.

`python -m benchmarks.network flights` compares the bits of both routes on 20,000.
"""

import json

import numpy as np
import polars as pl
import pytest

from dkpca import demo
from dkpca.store import ledger, runs
from testkit.federation import Federation, here, ok

pytestmark = [pytest.mark.network, pytest.mark.slow]

N_FLIGHTS, N_NEW = 800, 100
FIT = ("--gamma", 0.01, "--rank", 40, "--components", 10)
POLICY = 'max_rank = 40\ngamma = [0.001, 0.1]\nmax_precision = "float32"\n'


@pytest.fixture(scope="module")
def flights(tmp_path_factory):
    path = tmp_path_factory.mktemp("flights")
    federation = Federation(path, demo.OWNERS)
    tables = demo.flights()
    chosen = np.random.default_rng(0).permutation(tables["airline"].height)[: N_FLIGHTS + 2 * N_NEW]
    for owner, table in tables.items():
        folder = path / owner
        rows = table[chosen.tolist()]
        rows[:N_FLIGHTS].write_csv(folder / "flights.csv")
        rows[N_FLIGHTS : N_FLIGHTS + N_NEW].write_csv(folder / "new" / "october.csv")
        rows[N_FLIGHTS + N_NEW :].write_csv(folder / "new" / "november.csv")
        rows[N_FLIGHTS:].write_csv(folder / "new" / "december.csv")
        (folder / "policy.toml").write_text(POLICY)
        (folder / "party.toml").write_text(
            f'party = "{owner}"\ntable = "flights.csv"\nid = "flight"\ntext = "one-hot"\npolicy = "policy.toml"\n'
        )
    try:
        yield federation.start()
    finally:
        federation.stop()


@pytest.fixture(scope="module")
def fitted(flights):
    """A run over the network, and the same by files."""
    ok("submit", "fit", "center", "first", *FIT, cwd=flights.path)
    for owner in demo.OWNERS:
        reading = ("--party", owner, "--id", "flight", "--text", "one-hot")
        model = ("--gamma", 0.01, "--rank", 40)
        ok("summarize", f"{owner}/flights.csv", *reading, *model, "--out", f"{owner}.summary", cwd=flights.path)
    summaries = [f"{owner}.summary" for owner in demo.OWNERS]
    ok("fuse", *summaries, "--components", 10, "--out", "by-files", cwd=flights.path)
    return flights


def test_the_network_gives_the_bits_of_the_file_route(fitted):
    over_network, by_files = runs.load(fitted.runs / "first").model, runs.load(fitted.path / "by-files").model
    np.testing.assert_array_equal(over_network.eigenvectors, by_files.eigenvectors)
    np.testing.assert_array_equal(over_network.eigenvalues, by_files.eigenvalues)
    for owner in demo.OWNERS:
        carried = (fitted.runs / "first" / "messages" / f"{owner}.summary").read_bytes()
        assert carried == (fitted.path / f"{owner}.summary").read_bytes()
        assert carried == (fitted.path / owner / "runs" / "first" / f"{owner}.summary").read_bytes()


def test_both_ends_have_it_in_their_ledgers(fitted):
    at_center = ledger.records(fitted.runs / "first" / "ledger.jsonl")
    for owner in demo.OWNERS:
        at_party = ledger.records(fitted.path / owner / "dkpca-ledger.jsonl")
        written = next(record for record in at_party if record["event"] == "written")
        received = next(r for r in at_center if r["event"] == "received" and r["party"] == owner)
        assert written["sha256"] == received["sha256"]


def test_every_party_gets_the_result_under_its_own_ids(fitted):
    for owner in demo.OWNERS:
        kept = pl.read_csv(
            fitted.path / owner / "runs" / "first" / "embedding.csv", schema_overrides={"sample": pl.String}
        )
        own = pl.read_csv(fitted.path / owner / "flights.csv", schema_overrides={"flight": pl.String})
        assert kept["sample"].to_list() == own["flight"].to_list()


def test_two_batches_are_placed_in_one_command_as_by_files(fitted):
    ok("submit", "project", "center", "first", "october", "november", cwd=fitted.path)
    for owner in demo.OWNERS:
        state = f"{owner}/runs/first/{owner}.state"
        ok("extend", f"{owner}/new/october.csv", "--state", state, "--out", f"{owner}.rows", cwd=fitted.path)
    rows = [f"{owner}.rows" for owner in demo.OWNERS]
    ok("project", "by-files", *rows, "--out", "placed", cwd=fitted.path)
    placed = pl.read_parquet(fitted.path / "placed" / "embedding.parquet").drop("sample")
    for batch in ("october", "november"):
        over_network = pl.read_parquet(fitted.runs / "first" / "new" / batch / "embedding.parquet")
        assert len(over_network) == N_NEW
        if batch == "october":
            assert over_network.drop("sample").equals(placed)
        for owner in demo.OWNERS:
            assert (fitted.path / owner / "runs" / "first" / "new" / batch / "embedding.csv").exists()


def test_what_a_policy_forbids_is_refused_and_logged_at_both_ends(fitted):
    forbidding = {
        "airline": ("max_rank = 39", "rank 40 is more than max_rank = 39"),
        "weather": ("gamma = [0.05, 0.1]", "gamma 0.01 is outside gamma = [0.05, 0.1]"),
        "registry": ('max_precision = "float16"', "float32 is finer than max_precision"),
        "airport": ("min_samples = 30000", "fewer samples than the 30000"),
    }
    for owner, (policy, _) in forbidding.items():
        (fitted.path / owner / "policy.toml").write_text(policy)
    ran = here("submit", "fit", "center", "beyond", *FIT, cwd=fitted.path)
    assert ran.returncode == 1
    told = here("status", "center", "beyond", "--json", cwd=fitted.path)
    assert told.returncode == 1
    for owner, (_, words) in forbidding.items():
        assert words in ran.stderr
        assert words in json.loads(told.stdout)["parties"][owner]["reason"]
        assert words in (fitted.path / owner / "dkpca-ledger.jsonl").read_text()
        assert words in (fitted.runs / "beyond" / "ledger.jsonl").read_text()
        assert not (fitted.path / owner / "runs" / "beyond" / f"{owner}.summary").exists()


def test_a_projection_that_one_policy_forbids_is_refused(fitted):
    for owner in demo.OWNERS:
        (fitted.path / owner / "policy.toml").write_text(POLICY)
    (fitted.path / "weather" / "policy.toml").write_text(POLICY + "projection = false\n")
    ran = here("submit", "project", "center", "first", "december", cwd=fitted.path)
    assert ran.returncode == 1
    assert "weather: refused by the party's policy: it does not place new samples" in ran.stderr
