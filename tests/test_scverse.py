"""AnnData and MuData go in, and come back with scores."""

import os
import re
import subprocess
import sys
from pathlib import Path

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse

from dkpca import DKPCA
from dkpca.errors import InputError
from dkpca.tables.reading import Reading, read
from testkit.program import PROGRAM, in_process

pytestmark = [  # of anndata and mudata, about their own next versions and pandas 4
    pytest.mark.filterwarnings("ignore:From 0.4 .update:FutureWarning"),
    pytest.mark.filterwarnings("ignore:The 'future.infer_string' option is deprecated"),
    pytest.mark.filterwarnings("ignore:The inplace keyword in"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning:(anndata|mudata).*"),
]
PAGE = Path(__file__).parents[1] / "docs" / "scverse.md"


def table(rows, columns, prefix, seed=0):
    X = np.random.default_rng(seed).normal(size=(rows, columns))
    names = [f"cell{i}" for i in range(rows)], [f"{prefix}{j}" for j in range(columns)]
    return anndata.AnnData(X, obs=pd.DataFrame(index=names[0]), var=pd.DataFrame(index=names[1]))


@pytest.fixture
def mdata():
    """The second modality lacks ten samples, and has its rows in another order."""
    second = table(60, 4, "p", 1)[::-1][:50].copy()
    return mudata.MuData({"rna": table(60, 6, "g"), "protein": second})


def frames(mdata):
    return {name: mdata.mod[name].to_df() for name in mdata.mod}


@pytest.mark.parametrize("lacking", ["drop", "mean", "complete"])
@pytest.mark.filterwarnings("ignore::dkpca.errors.DataWarning", "ignore::dkpca.errors.MissingPartyWarning")
def test_modalities_are_parties_and_what_they_lack_goes_by_lacking(mdata, lacking):
    model, plain = DKPCA(3, lacking=lacking), DKPCA(3, lacking=lacking)
    scores = model.fit_transform(mdata)
    assert np.array_equal(scores, plain.fit_transform(frames(mdata)))
    assert model.party_names_ == ["rna", "protein"]
    assert np.array_equal(model.transform(mdata), plain.transform(frames(mdata)))
    assert len(model.sample_ids_) == (50 if lacking == "drop" else 60)


def test_samples_that_a_modality_lacks_are_refused_unless_asked_for(mdata):
    with pytest.raises(InputError, match="have different samples: 60 and 50.*lacking='drop'"):
        DKPCA(3).fit(mdata)


@pytest.mark.parametrize("X", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_array])
def test_one_anndata_is_cut_by_names_of_variables_and_may_be_sparse(X):
    data = table(40, 6, "g")
    frame = data.to_df()
    data.X = X(data.X)
    parties = {"a": ["g0", "g5"], "b": ["g1", "g2", "g3", "g4"]}
    model, plain = DKPCA(2, parties=parties).fit(data), DKPCA(2, parties=parties).fit(frame)
    assert np.array_equal(model.eigenvectors_, plain.eigenvectors_)
    assert list(model.feature_names_in_) == list(data.var_names)
    assert list(model.sample_ids_) == list(data.obs_names)
    assert model.score(data[:10]) == plain.score(frame[:10])


def test_anndata_in_a_dict_or_list_are_tables_too():
    a, b = table(40, 3, "a"), table(40, 2, "b", 1)
    for X in ({"party0": a, "party1": b.to_df()}, [a, b]):
        model = DKPCA(2).fit(X, covariates=pd.DataFrame({"age": np.arange(40.0) ** 2}, index=a.obs_names))
        assert abs(model.eigenvectors_.T @ np.arange(40.0) ** 2).max() < 1e-8
        assert np.isfinite(model.column_association()["party1"]).all()


@pytest.mark.versions
@pytest.mark.longer
def test_a_fit_of_files_is_the_same(tmp_path, mdata):
    batch = pd.DataFrame({"batch": ["x", "y"] * 30}, index=mdata.mod["rna"].obs_names)
    model = DKPCA(3, lacking="mean").fit(mdata, covariates=batch)
    mdata.write(tmp_path / "a.h5mu")
    again = DKPCA(3, lacking="mean").fit(mudata.read(tmp_path / "a.h5mu"), covariates=batch)
    assert np.array_equal(again.eigenvectors_, model.eigenvectors_)


def test_what_cannot_be_used_is_one_sentence():
    other = table(40, 6, "g")
    other.obs_names = [f"other{i}" for i in range(40)]
    with pytest.raises(InputError, match="party 'X': its AnnData has no X"):
        DKPCA(2).fit(anndata.AnnData(obs=other.obs))
    with pytest.raises(InputError, match="share variables"):
        DKPCA(2).fit(mudata.MuData({"a": table(20, 6, "g"), "b": other[:20].copy()}, axis=1))


@pytest.mark.slow
def test_commands_read_h5ad_and_h5mu(tmp_path, mdata):
    mdata.write(tmp_path / "all.h5mu")
    mdata.mod["rna"].write(tmp_path / "rna.h5ad")
    for name, frame in frames(mdata).items():
        frame.to_csv(tmp_path / f"{name}.csv", index_label="obs_names")
    asked = ("--id", "obs_names", "--lacking", "complete", "--components", "2", "--json")
    runs = [
        in_process("fit", *tables, *asked, "--out", f"run{number}", cwd=tmp_path)
        for number, tables in enumerate(
            (["rna.csv", "protein.csv"], ["all.h5mu"], ["rna.h5ad", "protein=all.h5mu/protein"])
        )
    ]
    assert [run.code for run in runs] == [0, 0, 0], [run.err for run in runs]
    found = [pd.read_csv(tmp_path / f"run{number}" / "embedding.csv", index_col=0) for number in range(3)]
    assert list(found[1].index) == list(found[0].index)
    for each in found[1:]:
        assert np.allclose(each, found[0], atol=1e-6)
    checked = in_process("check", "all.h5mu/protein", "--id", "obs_names", "--json", cwd=tmp_path)
    assert checked.json["n_rows"] == 50
    for words, said in {
        ("check", "all.h5mu"): "holds the modalities ['rna', 'protein']; give one of them, as all.h5mu/rna",
        ("check", "all.h5mu/dna"): "all.h5mu: holds the modalities ['rna', 'protein']; give one of them",
        ("check", "none.h5mu/rna"): "there is no such file",
        ("summarize", "rna.h5ad", "--gamma", 1, "--out", "m"): "--id 'obs_names'",
    }.items():
        assert said in in_process(*words, cwd=tmp_path).err


def _elsewhere(file, folder):
    (folder / "secret").write_bytes(np.arange(240.0).tobytes())
    file.create_dataset("X", (40, 6), dtype="f8", external=[(str(folder / "secret"), 0, 1920)])


def _linked(file, folder):
    with h5py.File(folder / "other.h5", "w") as other:
        other["X"] = np.ones((40, 6))
    file["X"] = h5py.ExternalLink(str(folder / "other.h5"), "/X")


def _virtual(file, folder):
    _linked(file, folder)
    del file["X"]
    layout = h5py.VirtualLayout((40, 6), "f8")
    layout[:] = h5py.VirtualSource(str(folder / "other.h5"), "X", shape=(40, 6))
    file.create_virtual_dataset("X", layout)


def _in_a_circle(file, folder):
    file["X"], file["uns/again"] = np.ones((40, 6)), file["uns"]


def _huge(file, folder):
    file.create_dataset("X", (10**8, 10**6), dtype="f8", chunks=(1000, 1000))


def _zeros(file, folder):
    file["X"] = np.ones((40, 6))
    file["uns"].create_dataset("zeros", (10**8,), dtype="f8", chunks=(10**6,), compression="gzip")


def _of_no_type(file, folder):
    file["X"] = np.ones((40, 6))
    h5py.h5d.create(file["uns"].id, b"t", h5py.h5t.UNIX_D32LE.copy(), h5py.h5s.create_simple((3,)))


def _outside(file, folder):
    file["X/data"], file["X/indices"], file["X/indptr"] = np.ones(3), [0, 10**8, -(10**8)], [0, *[3] * 40]


def _unknown(file, folder):
    file["X"] = np.ones((40, 6))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_elsewhere, "'X' is a link"),
        (_linked, "'X' is a link"),
        (_virtual, "'X' is a link"),
        (_in_a_circle, "'uns/again' is a link"),
        (_huge, "GB of memory"),
        (_zeros, "would take 0.8 GB of memory, more than 500 times its bytes"),
        (_of_no_type, "it is damaged"),
        (_outside, "indices must be"),
        (_unknown, "it is damaged"),
    ],
)
def test_a_file_made_to_read_others_or_outside_of_itself_is_refused(tmp_path, change, words):
    path = tmp_path / "t.h5ad"
    table(40, 6, "g").write_h5ad(path)
    with h5py.File(path, "r+") as file:
        del file["X"]
        change(file, tmp_path)
        kind = {_outside: "csr_matrix", _unknown: "unknown"}.get(change, "array")
        if change is not _linked:
            file["X"].attrs.update({"encoding-type": kind, "encoding-version": "0.1.0", "shape": [40, 6]})
    with pytest.raises(InputError, match=words):
        read(path, Reading("obs_names"))


@pytest.mark.slow
def test_the_page_runs_as_printed(tmp_path):
    text = PAGE.read_text()
    programs = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ending = "mdata.write('study.h5mu'); mdata.obs[['batch']].to_csv('batch.csv', index_label='obs_names')\n"
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}"}
    ran = subprocess.run([sys.executable, "-c", "\n".join([*programs, ending])], cwd=tmp_path, env=environment,
                         capture_output=True, text=True, check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    (shell,) = re.findall(r"^<!-- run -->\n```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    ran = subprocess.run(["bash", "-ec", shell], cwd=tmp_path, env=environment, capture_output=True, text=True,
                         check=False)  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert (tmp_path / "run" / "embedding.csv").exists()
