"""A center that sees no sample, with files: the parties turn the samples, and turn the scores back."""

import sys

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import PCA

from dkpca.errors import FusionError
from dkpca.fusion import fuse
from dkpca.messages import Summary
from dkpca.store.message_files import read
from testkit.owners import OWNERS, numbers, people, standardized

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


def test_without_cryptography_the_extra_is_named(office, monkeypatch):
    for name in [name for name in sys.modules if name.startswith(("dkpca.protection", "dkpca.cli.masking"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "dkpca.exchange.sum_files", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == "cryptography"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cryptography", None)
    words = office.refused("keys", "new", "--out", "bank.identity")
    assert "pip install 'dkpca[protect]'" in words
