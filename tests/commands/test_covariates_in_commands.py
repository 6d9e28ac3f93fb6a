"""`dkpca fit --covariates`: by the same ids, for the samples of the fit and for new ones."""

import json

import numpy as np
import polars as pl
import pytest

from dkpca import DKPCA
from testkit.program import in_process

pytestmark = pytest.mark.slow  # these start processes

T, NEW = 60, 12


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    ids = [f"s{i:02d}" for i in range(T + NEW)]
    batch = rng.choice(["monday", "tuesday"], T + NEW)
    X = rng.standard_normal((T + NEW, 6)) + 2.0 * (batch == "monday")[:, None]
    for name, own in (("lab", X[:, :3]), ("clinic", X[:, 3:])):
        frame = pl.DataFrame({"id": ids} | {f"{name}{k}": own[:, k] for k in range(3)})
        frame[:T].write_csv(tmp_path / f"{name}.csv")
        frame[T:].write_csv(tmp_path / f"{name}-new.csv")
    pl.DataFrame({"id": ids[::-1], "batch": batch[::-1]}).write_csv(tmp_path / "batch.csv")
    return tmp_path


def fit(folder, *more):
    tables = ("lab=lab.csv", "clinic=clinic.csv")
    new = ("--new", "lab=lab-new.csv", "--new", "clinic=clinic-new.csv")
    return in_process("fit", *tables, "--id", "id", "--components", "3", "--out", "run", *new, *more, cwd=folder)


def test_scores_are_orthogonal_to_them_and_new_samples_are_placed_as_the_library_does(folder):
    answer = fit(folder, "--covariates", "batch.csv", "--json")
    assert answer.code == 0, answer.err
    facts = json.loads(answer.out)
    assert facts["covariates"] == ["batch"]
    assert any("covariates batch taken out: " in note for note in facts["notes"])
    batch = dict(pl.read_csv(folder / "batch.csv").iter_rows())
    scores = pl.read_csv(folder / "run" / "embedding.csv")
    monday = np.array([batch[name] == "monday" for name in scores["sample"]], dtype=float)
    found = scores.drop("sample").to_numpy()
    assert np.abs((monday - monday.mean()) @ found).max() < 1e-9
    new = pl.read_csv(folder / "run" / "new" / "embedding.csv")
    of_fit, later = (
        {name: pl.read_csv(folder / f"{name}{end}.csv").drop("id").to_pandas() for name in ("lab", "clinic")}
        for end in ("", "-new")
    )
    model = DKPCA(3, standardize=True).fit(of_fit, covariates={"batch": [batch[name] for name in scores["sample"]]})
    placed = model.transform(later, covariates={"batch": [batch[name] for name in new["sample"]]})
    np.testing.assert_allclose(new.drop("sample", "outside", "completed").to_numpy(), placed, atol=1e-9)
    again = in_process("fuse", "--components", "2", "--out", "run", "--json", cwd=folder)
    assert json.loads(again.out)["covariates"] == ["batch"]
    np.testing.assert_allclose(pl.read_csv(folder / "run" / "embedding.csv")["component_1"], found[:, 0], atol=1e-9)


def test_a_party_toml_says_how_to_read_them(folder):
    assert fit(folder, "--covariates", "batch.csv").code == 0
    expected = (folder / "run" / "embedding.csv").read_text()
    pl.read_csv(folder / "batch.csv").rename({"id": "Sample No"}).write_csv(folder / "other.csv", separator=";")
    (folder / "other.toml").write_text('table = "other.csv"\nid = "Sample No"\nseparator = ";"\n')
    answer = fit(folder, "--covariates", "other.toml")
    assert answer.code == 0, answer.err
    assert (folder / "run" / "embedding.csv").read_text() == expected


def test_a_sample_without_them_is_named(folder):
    pl.read_csv(folder / "batch.csv")[:-1].write_csv(folder / "batch.csv")
    answer = fit(folder, "--covariates", "batch.csv")
    assert answer.code == 1
    assert "batch.csv: has no row for 1 of 60 samples, such as 's00'" in answer.err
