"""What the commands wrote, opened in Python."""

import shutil
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

import dkpca
from dkpca import DKPCA
from dkpca.errors import InputError, WireError
from dkpca.store import storage
from testkit.owners import GAMMA, OWNERS, frame, numbers, people, standardized
from testkit.program import Office

pytestmark = pytest.mark.slow  # most of these start processes


@pytest.fixture(scope="module")
def fitted_once(templates, tmp_path_factory):
    office = Office(shutil.copytree(templates["tables"], tmp_path_factory.mktemp("fitted"), dirs_exist_ok=True))
    tables = [f"{owner}.csv" for owner in OWNERS]
    office.ok("fit", *tables, "--id", "person", "--gamma", GAMMA, "--rank", 20, "--components", 3, "--out", "run")
    return office


@pytest.fixture
def fitted(fitted_once, tmp_path):
    return Office(shutil.copytree(fitted_once.path, tmp_path, dirs_exist_ok=True))


def new_frames():
    return {o: frame(X, people(7)) for o, X in numbers(7, seed=5).items()}


def scaled(new):
    return {o: (new[o] - X.mean(axis=0)) / X.std(axis=0) for o, X in numbers().items()}


def test_a_run_is_the_estimator_of_the_same_numbers(fused):
    run = DKPCA.from_run(fused.path / "run")
    model = DKPCA(3, gamma=GAMMA, rank=20).fit({o: standardized(X) for o, X in numbers().items()})
    np.testing.assert_allclose(run.eigenvalues_, model.eigenvalues_, rtol=1e-6)
    assert dkpca.subspace_error(run.eigenvectors_, model.eigenvectors_) < 1e-10
    assert run.model_.scores.shape == (60, 3)
    assert run.certificate_.n_parties == 3
    assert (run.party_names_, run.n_features_in_, run.gamma_) == (list(OWNERS), 15, GAMMA)
    assert [entry.rank for entry in run.ledger_] == [20, 20, 20]


def test_without_the_private_states_transform_says_what_to_do(fused):
    run = DKPCA.from_run(str(fused.path / "run"))
    words = (
        r"private states of \['bank', 'clinic', 'shop'\] are not available here; place new samples with dkpca.extend"
    )
    with pytest.raises(InputError, match=words):
        run.transform(numbers(7))
    run.save(fused.path / "saved")
    with pytest.raises(InputError, match=words):
        DKPCA.load(fused.path / "saved").transform(numbers(7))


@pytest.mark.parametrize("kind", ["polars", "pandas", "saved"])
def test_with_them_new_tables_are_prepared_as_the_fit_prepared_its_own(fitted, kind):
    new = numbers(7, seed=5)
    tables = {o: frame(X, people(7)) for o, X in new.items()}
    run = DKPCA.from_run(fitted.path / "run")
    truth = (
        DKPCA(3, gamma=GAMMA, rank=20).fit({o: standardized(X) for o, X in numbers().items()}).transform(scaled(new))
    )
    if kind == "pandas":
        tables = {o: pd.DataFrame(t.to_dict(as_series=False)).set_index("person") for o, t in tables.items()}
    if kind == "saved":
        run.save(fitted.path / "saved")
        run = DKPCA.load(fitted.path / "saved")
    np.testing.assert_allclose(np.abs(run.transform(tables)), np.abs(truth), atol=1e-6)


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


def test_what_is_no_run_and_a_model_of_a_run_alone(fused):
    with pytest.raises(InputError, match="is not a run directory"):
        DKPCA.from_run(fused.path)
    with pytest.raises(WireError, match="needs the messages beside it; open the run: DKPCA.from_run"):
        dkpca.load(fused.path / "run" / "model.safetensors")
    (fused.path / "run" / "messages" / "shop.summary").unlink()
    with pytest.raises(WireError, match="does not belong to its messages; repeat 'dkpca fuse"):
        DKPCA.from_run(fused.path / "run")


WITHOUT_POLARS = """
import sys
sys.modules["polars"] = None
from dkpca import DKPCA
from dkpca.errors import InputError
run = DKPCA.from_run("run")
print(run.model_.scores.shape)
try:
    run.transform({name: [[0.0]] for name in run.party_names_})
except InputError as error:
    print(error)
"""


def test_a_run_opens_without_the_command_line_extra_and_transform_says_what_is_missing(fitted):
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_POLARS], cwd=fitted.path, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(
        "(60, 3)\nparty 'bank': tables in files, and those that the dkpca command prepared, need polars"
    )


class TestARunThatIsFittedAgain:
    def test_with_fewer_parties_forgets_the_private_state_of_the_others(self, fitted, tmp_path):
        first, *others = sorted(path.stem for path in (fitted.path / "run/private").iterdir())
        tables = [f"{name}.csv" for name in others]
        fitted.ok("fit", *tables, "--id", "person", "--components", 3, "--out", "run")
        assert first not in {path.stem for path in (fitted.path / "run/private").iterdir()}
        DKPCA.from_run(fitted.path / "run").save(tmp_path / "model")
        assert DKPCA.load(tmp_path / "model").party_names_ == others

    def test_is_not_drawn_with_samples_that_were_placed_in_the_fit_before(self, fitted):
        names = sorted(path.stem for path in (fitted.path / "run/private").iterdir())
        tables = [f"{name}.csv" for name in names]
        new = [part for name in names for part in ("--new", f"{name}={name}.csv")]
        again = ["fit", *tables, "--id", "person", "--components", 3, "--out", "run"]
        fitted.ok(*again, *new)
        fitted.ok("report", "run", "--new", "run/new")
        fitted.ok(*again, "--gamma", 0.9)
        assert "placed in another fit" in fitted.refused("report", "run", "--new", "run/new")

    def test_a_party_whose_new_rows_are_all_completed_is_named(self, fitted):
        names = sorted(path.stem for path in (fitted.path / "run/private").iterdir())
        tables = [f"{name}.csv" for name in names]
        new = [part for name in names[1:] for part in ("--new", f"{name}={name}.csv")]
        again = ["fit", *tables, "--id", "person", "--components", 3, "--out", "run", "--lacking", "complete"]
        assert f"parties lack: {names[0]}" in fitted.ok(*again, *new).out
        stated = storage.read_json(fitted.path / "run/new/settings.json")
        assert stated["lacking"][names[0]]
        assert "true" in (fitted.path / "run/new/embedding.csv").read_text()
