"""A center that sees no sample, with files: the parties turn the samples, and turn the scores back."""

import sys

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import PCA

from dkpca.errors import FusionError
from dkpca.fusion import fuse
from dkpca.messages import Scores, Summary
from dkpca.store.message_files import read
from testkit.owners import OWNERS, frame, numbers, people, standardized
from testkit.program import command

pytestmark = pytest.mark.slow  # whole exchanges; test_protected_fits.py has the same sums in one process

BLIND = ("--kernel", "linear", "--protect", "blind", "--run", "spring", "--key-file", "key", "--precision", "float64")


@pytest.fixture
def turned(office):
    """Three summaries of turned samples."""
    (office.path / "key").write_text("k" * 32)
    for owner in OWNERS:
        asked = (f"{owner}.csv", "--id", "person", "--rank", 4, *BLIND)
        office.ok("summarize", *asked, "--out", f"{owner}.summary")
    return office


def fused(office):
    files = (f"{o}.summary" for o in OWNERS)
    office.ok("fuse", *files, "--law", "sum", "--no-center", "--components", 3, "--out", "run")


def test_the_parties_turn_the_scores_back(turned):
    fused(turned)
    asked = ("--table", "bank.csv", "--id", "person", "--run", "spring", "--key-file", "key", "--out", "mine")
    turned.ok("mask", "turn-back", "run/result.scores", *asked)
    mine = pl.read_csv(turned.path / "mine" / "embedding.csv")
    assert mine["sample"].to_list() == people()
    joined = np.hstack([standardized(X) for X in numbers().values()])
    truth = PCA(3).fit_transform(joined)
    found = mine.drop("sample").to_numpy()
    signs = np.sign((found * truth).sum(axis=0))
    assert np.linalg.norm(found * signs - truth) < 0.05 * np.linalg.norm(truth)  # rank 4 leaves little out
    at_center = pl.read_csv(turned.path / "run" / "embedding.csv").drop("sample").to_numpy()
    assert all(abs(np.corrcoef(at_center[:, d], truth[:, d])[0, 1]) < 0.5 for d in range(3))


def shares(office, new="later"):
    """Everybody's masked share of the scores of new samples."""
    for owner, X in numbers().items():
        frame(X[:9], people(9)).write_csv(office.path / f"{owner}-{new}.csv")
        office.ok("keys", "new", "--out", f"{owner}.identity")
    prints = {o: office.ok("keys", "show", f"{o}.identity", "--json").json["fingerprint"] for o in OWNERS}
    (office.path / "peers.toml").write_text("".join(f'{o} = "{prints[o]}"\n' for o in OWNERS))
    scorers = {o: ("--scorer", f"run/scorers/{o}.scorer", "--state", f"{o}.state", "--id", "person") for o in OWNERS}
    for o in OWNERS:
        named = ("--identity", f"{o}.identity", "--run", new, "--out", f"{o}-{new}.offer")
        office.ok("mask", "offer-new", f"{o}-{new}.csv", *scorers[o], *named)
    offers = [part for o in OWNERS for part in ("--offer", f"{o}-{new}.offer")]
    for o in OWNERS:
        known = ("--key", f"{o}-{new}.sumkey", *offers, "--peers", "peers.toml", "--out", f"{o}-{new}.sums")
        office.ok("mask", "numbers", f"{o}-{new}.csv", *scorers[o], *known)
    return [f"{o}-{new}.sums" for o in OWNERS]


def test_new_samples_of_a_blind_fit_are_masked_shares_added_up(turned):
    fused(turned)
    files = shares(turned)
    turned.ok("project", "run", *files, "--out", "new")
    asked = ("--table", "bank.csv", "--id", "person", "--run", "spring", "--key-file", "key", "--out", "mine")
    turned.ok("mask", "turn-back", "run/result.scores", *asked)
    known = pl.read_csv(turned.path / "mine" / "embedding.csv").drop("sample").to_numpy()[:9]
    placed = pl.read_csv(turned.path / "new" / "embedding.csv").drop("sample").to_numpy()
    np.testing.assert_allclose(placed, known, atol=0.05 * np.abs(known).max())  # rank 4 leaves little out
    words = turned.refused("project", "run", *files[:2], "--out", "two")
    assert "no masked sum from ['shop']" in words
    words = turned.refused("project", "run", *files, "--missing", "shop", "--out", "two")
    assert "masks cancel only if every party" in words
    assert not (turned.path / "two").exists()
    offer = turned.ok("inspect", "bank-later.offer").out
    assert "linear" not in offer  # which kernel it was is for the party alone


def test_the_party_draws_its_own_report_of_a_blind_fit(turned):
    fused(turned)
    asked = ("--table", "bank.csv", "--id", "person", "--run", "spring", "--key-file", "key", "--out", "mine")
    turned.ok("mask", "turn-back", "run/result.scores", *asked)
    told = turned.ok("report", "mine", "--table", "bank.csv", "--id", "person")
    assert "which are those of the fit" in told.out + (turned.path / "mine" / "report.html").read_text()
    found = read(turned.path / "mine" / "result.scores", Scores).scores.decode()  # what the page draws
    np.testing.assert_allclose(found, pl.read_csv(turned.path / "mine" / "embedding.csv").drop("sample").to_numpy())


def test_shares_need_the_scorer_they_were_offered_with(turned):
    fused(turned)
    shares(turned)
    offers = [part for o in OWNERS for part in ("--offer", f"{o}-later.offer")]
    known = (
        "--state",
        "bank.state",
        "--key",
        "bank-later.sumkey",
        *offers,
        "--peers",
        "peers.toml",
        "--id",
        "person",
    )
    words = turned.refused("mask", "numbers", "bank-later.csv", *known, "--out", "again.sums")
    assert "give the scorer that it was made with" in words
    other = ("--scorer", "run/scorers/shop.scorer", "--out", "again.sums")
    assert "the scorer is for 'shop'" in turned.refused("mask", "numbers", "bank-later.csv", *known, *other)


def test_another_key_run_or_table_is_refused(turned):
    fused(turned)
    (turned.path / "other").write_text("o" * 32)
    pl.read_csv(turned.path / "bank.csv")[::-1].write_csv(turned.path / "reversed.csv")
    for table, run, key in (("bank", "spring", "other"), ("bank", "autumn", "key"), ("reversed", "spring", "key")):
        asked = ("--table", f"{table}.csv", "--id", "person", "--run", run, "--key-file", key, "--out", "mine")
        words = turned.refused("mask", "turn-back", "run/result.scores", *asked)
        assert "other samples, or were turned by another key" in words


def test_a_center_only_adds_turned_samples_up(turned):
    files = [f"{o}.summary" for o in OWNERS]
    for settings in ((), ("--law", "sum"), ("--law", "product", "--no-center")):
        assert "--law sum --no-center" in turned.refused("fuse", *files, *settings, "--out", "run")
    turned.ok("summarize", "shop.csv", "--id", "person", "--kernel", "linear", "--rank", 4, "--out", "open.summary")
    summaries = [read(turned.path / name, Summary) for name in ("bank.summary", "clinic.summary", "open.summary")]
    with pytest.raises(FusionError):
        fuse(summaries, n_components=2, law="sum", center=False)


def test_inspect_says_that_no_sample_is_in_it_and_recovery_finds_none(turned):
    told = turned.ok("inspect", "bank.summary").out
    assert "rows are mixtures of all samples" in told
    assert "how similar any two samples look" not in told
    found = turned.ok("inspect", "bank.state", "--json").json["recovery"]
    assert found["worst"] < 0.3  # by chance, on thirty rows


def test_rows_of_new_samples_are_not_sent_in_the_open(turned):
    words = turned.refused("extend", "bank.csv", "--state", "bank.state", "--out", "bank.rows")
    assert "its fit was protected" in words


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--protect", "blind", "--kernel", "linear"), "--protect blind needs --run"),
        (("--protect", "sums", "--gamma", 1), "'dkpca mask offer' and 'dkpca mask numbers'"),
        (("--protect", "blind", "--run", "x", "--gamma", 1, "--key-file", "key"), "can only add matrices up"),
    ],
)
def test_what_does_not_go_together_is_refused(office, asked, words):
    (office.path / "key").write_text("k" * 32)
    assert words in office.refused("summarize", "bank.csv", "--id", "person", *asked, "--out", "bank.summary")


@pytest.mark.parametrize("protect", ["sums", "blind"])
def test_a_fit_on_one_machine_hides_nothing_and_says_so(office, protect):
    tables = [f"{o}={o}.csv" for o in OWNERS]
    words = office.refused("fit", *tables, "--id", "person", "--protect", protect, "--out", "run")
    assert "here one machine has all tables" in words
    assert f"submit fit --protect {protect}" in words
    assert not (office.path / "run").exists()


def test_without_cryptography_the_extra_is_named(office, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("dkpca.protection", "dkpca.cli.masking"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "dkpca.exchange.sum_files", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    command.cache_clear()
    words = office.refused("keys", "new", "--out", "bank.identity")
    assert "pip install 'dkpca[protect]'" in words


def test_aligned_samples_are_turned_back_to_their_names(office):
    (office.path / "key").write_text("k" * 32)
    for owner, X in numbers().items():
        kept = np.random.default_rng(len(owner)).permutation(len(X))[: len(X) - (owner == "shop")]
        frame(X[kept], [people()[row] for row in kept]).write_csv(office.path / f"{owner}.csv")
        office.ok(
            "align", "tokens", f"{owner}.csv", "--id", "person", "--key-file", "key", "--out", f"{owner}.tokens"
        )
    office.ok("align", "intersect", *(f"{o}.tokens" for o in OWNERS), "--out", "common.tokens")
    for owner in OWNERS:
        asked = (f"{owner}.csv", "--id", "person", "--rank", 4, "--align", "common.tokens", *BLIND)
        office.ok("summarize", *asked, "--out", f"{owner}.summary")
    fused(office)
    mine_of = ("--table", "bank.csv", "--id", "person", "--run", "spring", "--key-file", "key", "--out", "mine")
    office.ok("mask", "turn-back", "run/result.scores", *mine_of, "--align", "common.tokens")
    mine = pl.read_csv(office.path / "mine" / "embedding.csv")
    rows = [people().index(name) for name in mine["sample"]]
    truth = PCA(3).fit_transform(np.hstack([standardized(X[rows]) for X in numbers().values()]))
    found = mine.drop("sample").to_numpy()
    signs = np.sign((found * truth).sum(axis=0))
    assert len(rows) == len(people()) - 1
    assert np.linalg.norm(found * signs - truth) < 0.05 * np.linalg.norm(truth)


def test_a_party_that_insists_on_blind_sends_no_open_share_of_a_score(turned):
    fused(turned)
    (turned.path / "policy.toml").write_text('protect = "blind"\nprojection = true\n')
    frame(numbers()["bank"][:5], people(5)).write_csv(turned.path / "new.csv")
    private = ("--state", "bank.state", "--scorer", "run/scorers/bank.scorer", "--id", "person")
    words = turned.refused("score", "new.csv", *private, "--policy", "policy.toml", "--out", "bank.scores")
    assert "it takes part with protect = 'blind' only" in words


def test_the_center_is_told_that_it_sees_no_samples(turned):
    told = turned.ok("fuse", *(f"{o}.summary" for o in OWNERS), "--law", "sum", "--no-center", "--out", "run").out
    assert "its rows are turned samples, which only the parties can turn back" in told
    assert "send run/result.scores to each party, which runs 'dkpca mask turn-back'" in told
    assert "--ids" not in told
    assert "look at it with" not in told
    assert "note: the samples are turned by a secret of the parties" in turned.ok("report", "run").out


def test_a_kernel_of_distances_goes_blind_with_the_sum_law(office):
    (office.path / "key").write_text("k" * 32)
    asked = ("summarize", "bank.csv", "--id", "person", "--gamma", 0.1, "--protect", "blind", "--run", "spring",
             "--key-file", "key", "--out", "bank.summary")  # fmt: skip
    assert "a blind center can only add matrices up; use law='sum' (--law sum)" in office.refused(*asked)
    office.ok(*asked, "--law", "sum")
