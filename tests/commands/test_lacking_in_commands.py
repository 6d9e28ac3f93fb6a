"""`dkpca fit` on tables that do not have the same samples: dropped by default and said, or kept."""

import json

import numpy as np
import polars as pl
import pytest

from dkpca.cli.at_center import run_words
from dkpca.store import runs
from testkit.program import in_process

pytestmark = pytest.mark.slow  # most of these start processes

T = 60


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    common = rng.standard_normal((T + 10, 3))
    for j, name in enumerate(("airline", "weather", "airport")):
        X = common @ rng.standard_normal((3, 4)) + 0.3 * rng.standard_normal((T + 10, 4))
        frame = pl.DataFrame({"flight": [f"f{i:02d}" for i in range(T + 10)]} | {f"x{k}": X[:, k] for k in range(4)})
        has = [i for i in range(T) if (i + 5 * j) % 6]
        frame[has].write_csv(tmp_path / f"{name}.csv")
        new = [i for i in range(T, T + 10) if j or i % 2]
        frame[new].write_csv(tmp_path / f"{name}-new.csv")
    return tmp_path


def fit(folder, *options):
    tables = [f"{name}={folder / name}.csv" for name in ("airline", "weather", "airport")]
    answer = in_process(
        "fit", *tables, "--id", "flight", "--components", "3", "--rank", "15", "--json", *options, cwd=folder
    )
    assert answer.code == 0, answer.err
    return answer


def test_only_common_samples_are_used_and_the_command_says_how_many_each_has(folder):
    answer = fit(folder, "--out", folder / "run")
    (note,) = (note for note in json.loads(answer.out)["notes"] if note.startswith("using"))
    assert "using the 30 samples that all tables have (airline has 50, weather has 50, airport has 50)" in note


@pytest.mark.parametrize("mode", ["mean", "complete"])
def test_samples_that_not_all_tables_have_are_kept_in_the_run(folder, mode):
    new = [f"--new={name}={folder / name}-new.csv" for name in ("airline", "weather")]
    answer = json.loads(fit(folder, "--lacking", mode, "--out", folder / "run", *new).out)
    assert any("60 samples, of which 30 are in all tables" in note for note in answer["notes"])
    run = runs.load(folder / "run")
    assert run.model.n_samples == T
    assert sorted(run.sample_names) == [f"f{i:02d}" for i in range(T)]
    assert run.model.lacking.mode == mode
    assert [str(cell) for cell in run_words(run)[0].columns[-1].cells] == [
        "800 B"
    ] * 3  # 50 samples of 4 columns, in float32
    assert {name: len(rows) for name, rows in run.model.lacking.rows.items()} == dict.fromkeys(
        run.model.summaries, 10
    )
    certificate = json.loads((folder / "run" / "certificate.json").read_text())
    assert certificate["completed"]["n_lacking"] == {"airline": 10, "airport": 10, "weather": 10}
    placed = pl.read_csv(folder / "run" / "new" / "embedding.csv")
    assert sorted(placed["sample"]) == [f"f{i:02d}" for i in range(T, T + 10)]
    lacked, new_ones = [f"f{i}" for i in range(T, T + 10, 2)], [f"f{i}" for i in range(T, T + 10)]
    assert sorted(placed.filter("completed")["sample"]) == new_ones  # the airport has none of them
    lacking = json.loads((folder / "run" / "new" / "settings.json").read_text())["lacking"]
    assert {name: sorted(own) for name, own in lacking.items()} == {"airline": lacked, "airport": new_ones}
    page = in_process("report", folder / "run", "--new", folder / "run" / "new", cwd=folder).out
    assert "report.html" in page
    words = (folder / "run" / "report.html").read_text()
    assert "All 60 samples, and 10 new ones placed among them" in words


def test_the_same_run_as_in_python(folder):
    import pandas as pd

    from dkpca import DKPCA

    fit(folder, "--lacking", "complete", "--out", folder / "run")
    run = runs.load(folder / "run")
    tables = {
        name: pd.read_csv(folder / f"{name}.csv").set_index("flight") for name in ("airline", "weather", "airport")
    }
    model = DKPCA(3, rank=15, lacking="complete", standardize=True).fit(tables)
    order = pd.Index(model.sample_ids_).get_indexer(run.sample_names)
    np.testing.assert_allclose(np.abs(run.model.eigenvectors), np.abs(model.eigenvectors_[order]), atol=1e-5)
