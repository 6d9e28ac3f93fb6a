"""`--device`: landmarks computed elsewhere than where the table lies, here by torch on the CPU."""

import numpy as np
import polars as pl
import pytest

from testkit.owners import OWNERS

pytestmark = [pytest.mark.slow, pytest.mark.torch]
SUMMARIES = [f"{owner}.summary" for owner in OWNERS]


def scores(office, run):
    return pl.read_csv(office.path / run / "embedding.csv").select(pl.selectors.numeric()).to_numpy()


def test_party_and_center_compute_on_a_device(office):
    for owner in OWNERS:
        for device, out in (("cpu", "there"), (None, "here")):
            chosen = ("--device", device) if device else ()
            how = ("--id", "person", "--gamma", 0.05, "--rank", 8, "--solver", "landmark", *chosen)
            office.ok("summarize", f"{owner}.csv", *how, "--out", f"{out}-{owner}.summary")
    for device, out in (("cpu", "there"), (None, "here")):
        chosen = ("--device", device) if device else ()
        files = [f"{out}-{owner}.summary" for owner in OWNERS]
        ran = office.ok("fuse", *files, "--components", 2, "--solver", "landmark", *chosen, "--out", out, "--json")
        assert ("computed on cpu" in ran.json["solver"]) == (device is not None)
    np.testing.assert_allclose(np.abs(scores(office, "there")), np.abs(scores(office, "here")), atol=1e-5)


def test_fit_computes_on_a_device(office):
    tables = [f"{owner}.csv" for owner in OWNERS]
    how = ("--id", "person", "--components", 2, "--jobs", 1, "--solver", "landmark", "--device", "cpu")
    assert "computed on cpu" in office.ok("fit", *tables, *how, "--out", "run", "--json").json["solver"]


@pytest.mark.parametrize("command", ["summarize", "fuse", "fit"])
def test_a_device_that_is_not_there_is_one_sentence_and_writes_nothing(summarized, command):
    before = sorted(summarized.path.rglob("*"))
    words = {
        "summarize": ("bank.csv", "--id", "person", "--gamma", 0.1, "--out", "new.summary"),
        "fuse": (*SUMMARIES, "--out", "new"),
        "fit": (*(f"{owner}.csv" for owner in OWNERS), "--id", "person", "--out", "new"),
    }[command]
    assert "device 'cuda:99' cannot be computed on" in summarized.refused(command, *words, "--device", "cuda:99")
    assert sorted(summarized.path.rglob("*")) == before
