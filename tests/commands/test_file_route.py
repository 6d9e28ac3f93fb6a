"""The file route is the estimator, with files in between."""

import json
import pickle
import shutil
import stat
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy.linalg import subspace_angles

import dkpca
from dkpca import DKPCA
from dkpca.errors import InputError, WireError
from dkpca.rank import Fixed
from dkpca.store import runs, storage
from testkit.owners import GAMMA, OWNERS, frame, numbers, people, standardized
from testkit.program import Office, snapshot


def estimator(tables, **settings):
    model = DKPCA(**({"n_components": 3, "gamma": GAMMA, "rank": 20} | settings))
    return model.fit({owner: standardized(X) for owner, X in tables.items()})


def assert_same_components(run, model, tolerance=1e-9):
    assert np.max(subspace_angles(model.eigenvectors_, run.model.eigenvectors)) < tolerance
    np.testing.assert_allclose(run.model.eigenvalues, model.eigenvalues_, rtol=tolerance)


@pytest.mark.parametrize("precision", ["float64", "float16"])
def test_files_give_the_estimators_eigenvectors(office, precision):
    for owner in OWNERS:
        office.summarize(owner, "--precision", precision)
    office.ok("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, "--out", "run")
    model = estimator(numbers(), precision=precision)
    assert_same_components(runs.load(office.path / "run"), model)


@pytest.mark.longer
def test_linear_files_give_the_estimators_eigenvectors(office):
    for owner in OWNERS:
        office.ok(
            "summarize", f"{owner}.csv", "--id", "person", "--kernel", "linear", "--rank", 4, "--out", f"{owner}.s"
        )
    office.ok("fuse", *(f"{o}.s" for o in OWNERS), "--components", 3, "--out", "run")
    assert_same_components(runs.load(office.path / "run"), estimator(numbers(), kernel="linear", rank=Fixed(4)))


@pytest.mark.versions
@pytest.mark.longer
def test_the_format_of_a_table_does_not_matter(office):
    ids = np.array([f"p{i:02d}" for i in range(60)])
    tables = numbers()
    frame(tables["bank"], ids).write_parquet(office.path / "bank.parquet")
    frame(tables["clinic"], ids).write_ipc(office.path / "clinic.arrow")
    frame(tables["shop"], ids).write_csv(office.path / "shop.tsv", separator="\t")
    for owner, suffix in zip(OWNERS, ("parquet", "arrow", "tsv"), strict=True):
        office.summarize(owner, suffix=suffix)
    office.ok("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, "--out", "run")
    assert_same_components(runs.load(office.path / "run"), estimator(tables))


@pytest.mark.slow
def test_fit_on_one_machine_is_the_estimator(office):
    for gamma, value in (("none", None), ("scale", "scale")):
        sources = [f"{owner}={owner}.csv" for owner in OWNERS]
        office.ok(
            "fit", *sources, "--id", "person", "--gamma", gamma, "--components", 3, "--rank", 20, "--out", "run"
        )
        assert_same_components(runs.load(office.path / "run"), estimator(numbers(), gamma=value))


@pytest.mark.slow
def test_fit_uses_the_samples_that_all_tables_have(office):
    order = np.random.default_rng(2).permutation(60)[:50]
    X = numbers()["shop"][order]
    frame(X, [f"p{i:02d}" for i in order]).write_csv(office.path / "shop.csv")
    answer = office.ok("fit", "bank.csv", "clinic.csv", "shop.csv", "--id", "person", "--gamma", "0.05", "--rank", 20,
                       "--components", 3, "--out", "run", "--json").json  # fmt: skip
    assert "using the 50 samples that all tables have" in answer["notes"][-1]
    kept = np.sort(order)
    assert_same_components(runs.load(office.path / "run"), estimator({o: Z[kept] for o, Z in numbers().items()}))
    names = pl.read_csv(office.path / "run" / "embedding.csv")["sample"].to_list()
    assert names == [f"p{i:02d}" for i in kept]


@pytest.mark.slow
def test_new_samples_are_placed_as_the_estimator_places_them(fused):
    new = {owner: X[:7] + 0.1 for owner, X in numbers(seed=0).items()}
    train = numbers()
    for owner, X in new.items():
        frame(X, [f"n{i}" for i in range(7)]).write_csv(fused.path / f"{owner}.new.csv")
    tables = [f"{owner}={owner}.csv" for owner in OWNERS]
    new_tables = [part for owner in OWNERS for part in ("--new", f"{owner}={owner}.new.csv")]
    asked = ("--id", "person", "--gamma", GAMMA, "--rank", 20, "--components", 3, "--jobs", 1)
    fused.ok("fit", *tables, *asked, *new_tables, "--out", "placed")
    placed = pl.read_csv(fused.path / "placed" / "new" / "embedding.csv")
    assert placed["sample"].to_list() == [f"n{i}" for i in range(7)]
    model = estimator(train)
    scaled = {o: (new[o] - X.mean(axis=0)) / X.std(axis=0) for o, X in train.items()}
    truth = model.transform(scaled)
    np.testing.assert_allclose(
        np.abs(placed.drop("sample", "outside", "completed").to_numpy()), np.abs(truth), atol=1e-6
    )


def test_a_run_directory_holds_everything(fused):
    run = fused.path / "run"
    assert {path.name for path in run.iterdir()} == {
        *("messages", "model.safetensors", "embedding.csv", "embedding.parquet", "result.scores"),
        *("certificate.json", "settings.json", ".lock"),
    }
    for owner in OWNERS:
        received = run / "messages" / f"{owner}.summary"
        assert received.read_bytes() == (fused.path / f"{owner}.summary").read_bytes()
    assert pl.read_csv(run / "embedding.csv").columns[0] == "sample"
    assert pl.read_parquet(run / "embedding.parquet")["sample"].to_list() == [f"p{i:02d}" for i in range(60)]
    settings = json.loads((run / "settings.json").read_text())
    assert settings["kernel"] == {"name": "rbf", "gamma": GAMMA}
    assert {"dkpca", "python", "numpy"} <= set(settings["versions"])
    assert json.loads((run / "certificate.json").read_text())["captured_share_at_least"] > 0


def test_float32_files_give_the_estimators_eigenvectors(fused):
    assert_same_components(runs.load(fused.path / "run"), estimator(numbers()))


@pytest.mark.longer
def test_one_more_and_one_replaced_summary_reuse_the_rest(summarized):
    office = summarized
    office.ok("fuse", "bank.summary", "clinic.summary", "--components", 3, "--out", "run")
    for owner in ("bank", "clinic"):
        (office.path / f"{owner}.summary").unlink()
    office.ok("fuse", "shop.summary", "--keep", "--out", "run")
    assert_same_components(runs.load(office.path / "run"), estimator(numbers()))

    office.summarize("shop", "--rank", 8)
    office.ok("fuse", "shop.summary", "--keep", "--out", "run")
    assert {n: s.rank for n, s in runs.load(office.path / "run").model.summaries.items()} == {
        "bank": 20,
        "clinic": 20,
        "shop": 8,
    }
    office.ok("fuse", "--without", "shop", "--out", "run")
    without = {owner: X for owner, X in numbers().items() if owner != "shop"}
    assert_same_components(runs.load(office.path / "run"), estimator(without))


def test_a_center_that_died_goes_on_from_what_arrived(fused):
    for name in ("model.safetensors", "settings.json", "embedding.csv", "embedding.parquet", "certificate.json"):
        (fused.path / "run" / name).unlink()
    fused.ok("fuse", "--components", 3, "--out", "run")
    assert_same_components(runs.load(fused.path / "run"), estimator(numbers()))


def test_the_private_state_is_private(summarized):
    office = summarized
    state = office.path / "bank.state"
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    assert office.ok("inspect", "bank.state", "--json").json["send"] is False
    assert "never send it" in office.refused("fuse", "bank.state", "--out", "run")


class Trap:
    """Unpickling it writes a file."""

    def __init__(self, mark: Path):
        self.mark = mark

    def __reduce__(self):
        return Path.write_text, (self.mark, "run")


@pytest.mark.parametrize("disguise", ["bank.summary", "bank.state", "run/model.safetensors", "bank.npy"])
def test_no_file_is_executed_when_read(fused, disguise):
    mark, path = fused.path / "mark", fused.path / disguise
    trap = Trap(mark)
    if path.suffix == ".npy":
        np.save(path, np.array([trap], dtype=object), allow_pickle=True)
    else:
        path.write_bytes(pickle.dumps(trap))
    fused.refused(
        *{
            ".summary": ("fuse", disguise, "--out", "run"),
            ".state": ("inspect", disguise),
            ".safetensors": ("report", "run"),
        }.get(path.suffix, ("summarize", disguise, "--gamma", 1, "--out", "new.summary"))
    )
    assert not mark.exists()
    if path.suffix != ".npy":
        pickle.loads(path.read_bytes())
        assert mark.exists(), "the trap must be able to spring, or this test says nothing"


@pytest.mark.slow
def test_the_installed_program_writes_what_it_writes_in_this_process(tmp_path, templates, summarized):
    """All other tests of commands run them in this process; this one runs the program as it is installed."""
    installed = Office(shutil.copytree(templates["tables"], tmp_path / "installed"), installed=True)
    for owner in OWNERS:
        installed.summarize(owner)
    for office in (installed, summarized):
        office.ok("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, "--out", "run")
    here = {name: data for name, data in snapshot(summarized.path).items() if not name.startswith("installed/")}
    assert snapshot(installed.path) == here
    no_message = ("fuse", "bank.csv", "--out", "run")
    assert installed.refused(*no_message) == summarized.refused(*no_message)


@pytest.mark.longer
def test_components_as_a_share_of_the_variance(office):
    tables = [f"{o}.csv" for o in OWNERS]
    office.ok("fit", *tables, "--id", "person", "--components", 0.6, "--gamma", GAMMA, "--jobs", 1, "--out", "run")
    for owner, rank in zip(OWNERS, ("recovery=0.9", 20, 20), strict=True):
        asked = ("--components", 0.6, "--gamma", GAMMA, "--rank", rank, "--out", f"{owner}.summary")
        office.ok("summarize", f"{owner}.csv", "--id", "person", *asked)
    office.ok("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 0.6, "--out", "fused")
    for name in ("run", "fused"):
        shares = runs.load(office.path / name).model.explained_variance_ratio
        assert sum(shares) >= 0.6 > sum(shares[:-1])


def test_a_state_of_the_commands_prepares_and_survives_in_the_library(summarized):
    path = summarized.path
    state = dkpca.load(path / "bank.state", dkpca.PartyState)
    dkpca.save(path / "copy.state", state)
    assert (path / "copy.state").read_bytes() == (path / "bank.state").read_bytes()
    here = dkpca.extend(state, pl.read_csv(path / "bank.csv"), sample_ids=people())
    assert here.factor.shape == (60, 20)
    with pytest.raises(InputError, match="party 'bank': lacks|party 'bank': has no column 'x3'"):
        dkpca.extend(state, pl.read_csv(path / "bank.csv").drop("x3"))


def test_a_state_of_the_library_is_private_too(summarized):
    _, state = dkpca.summarize(numbers()["bank"], party="bank", kernel=dkpca.kernels.RBF(GAMMA), rank=20)
    dkpca.save(summarized.path / "own.state", state)
    told = summarized.ok("inspect", "own.state").out
    assert "PRIVATE state of party 'bank'" in told


@pytest.mark.slow
class TestARunThatIsFittedAgain:
    @pytest.fixture
    def fitted(self, office):
        tables = [f"{owner}.csv" for owner in OWNERS]
        office.ok("fit", *tables, "--id", "person", "--gamma", GAMMA, "--rank", 20, "--components", 3, "--out", "run")
        return office

    def test_with_fewer_parties_forgets_the_private_state_of_the_others(self, fitted):
        others = OWNERS[1:]
        tables = [f"{name}.csv" for name in others]
        fitted.ok("fit", *tables, "--id", "person", "--components", 3, "--out", "run")
        assert {path.stem for path in (fitted.path / "run/private").iterdir()} == set(others)

    def test_is_not_drawn_with_samples_that_were_placed_in_the_fit_before(self, fitted):
        tables = [f"{name}.csv" for name in OWNERS]
        new = [part for name in OWNERS for part in ("--new", f"{name}={name}.csv")]
        again = ["fit", *tables, "--id", "person", "--components", 3, "--out", "run"]
        fitted.ok(*again, *new)
        fitted.ok("report", "run", "--new", "run/new")
        fitted.ok(*again, "--gamma", 0.9)
        assert "placed in another fit" in fitted.refused("report", "run", "--new", "run/new")

    def test_a_party_whose_new_rows_are_all_completed_is_named(self, fitted):
        tables = [f"{name}.csv" for name in OWNERS]
        new = [part for name in OWNERS[1:] for part in ("--new", f"{name}={name}.csv")]
        again = ["fit", *tables, "--id", "person", "--components", 3, "--out", "run", "--lacking", "complete"]
        assert f"parties lack: {OWNERS[0]}" in fitted.ok(*again, *new).out
        stated = storage.read_json(fitted.path / "run/new/settings.json")
        assert stated["lacking"][OWNERS[0]]
        assert "true" in (fitted.path / "run/new/embedding.csv").read_text()


def test_the_model_of_a_run_is_no_file_of_its_own(fused):
    with pytest.raises(WireError, match="is the model of a run, without its messages; give these to dkpca.fuse"):
        dkpca.load(fused.path / "run" / "model.safetensors")
    (fused.path / "run" / "messages" / "shop.summary").unlink()
    with pytest.raises(WireError, match="does not belong to its messages; repeat 'dkpca fuse"):
        runs.load(fused.path / "run")
