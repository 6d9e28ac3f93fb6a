"""Tables in several Parquet files, and tables in files as the library takes them."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dkpca import DKPCA
from dkpca.errors import InputError
from dkpca.linalg import arrays
from dkpca.tables import formats
from dkpca.tables.preparation import prepare
from dkpca.tables.reading import Reading, read
from testkit.program import Office

N = 90


def frame(rng, columns="ab"):
    return pl.DataFrame({name: rng.standard_normal(N) for name in columns})


def in_parts(folder: Path, table: pl.DataFrame, sizes=(7, 0, 40, 43), name="part.{}.parquet") -> Path:
    """Write a folder as Dask and Spark do, with what they leave beside the parts."""
    folder.mkdir()
    for number, (start, size) in enumerate(zip(np.cumsum([0, *sizes]), sizes, strict=False)):
        table[int(start) : int(start) + size].write_parquet(folder / name.format(number), row_group_size=16)
    for aside in ("_SUCCESS", "_metadata", ".part.0.parquet.crc"):
        (folder / aside).write_bytes(b"")
    return folder


class TestFolders:
    def test_a_folder_is_read_as_the_file_with_all_its_rows(self, rng, tmp_path):
        table = frame(rng)
        read_back = read(in_parts(tmp_path / "flights", table), Reading())
        assert read_back.frame.equals(table)
        (said,) = read_back.notes
        assert said == "read 4 Parquet files in the order of their names, from part.0.parquet to part.3.parquet"

    def test_ten_comes_after_two(self, rng, tmp_path):
        table = frame(rng)
        folder = in_parts(tmp_path / "flights", table, sizes=(5,) * 18)
        assert read(folder, Reading()).frame.equals(table)

    def test_a_large_folder_is_prepared_a_column_at_a_time(self, rng, tmp_path, monkeypatch):
        table = frame(rng)
        folder = in_parts(tmp_path / "flights", table)
        expected = prepare(read(folder, Reading()), Reading())
        monkeypatch.setattr(formats, "LARGE", 100)
        loaded = read(folder, Reading(), by_column=True)
        assert isinstance(loaded.frame, formats.Stored)
        assert prepare(loaded, Reading()).columns == expected.columns

    @pytest.mark.parametrize(
        ("spoil", "words"),
        [
            (
                lambda f: pl.DataFrame({"a": [1.0]}).write_parquet(f / "part.9.parquet"),
                "differ, for example 'b'",
            ),
            (
                lambda f: pl.DataFrame({"a": [1.0], "b": [2.0], "c": [0]}).write_parquet(f / "part.9.parquet"),
                "differ, for example 'c'",
            ),
            (
                lambda f: pl.DataFrame({"b": [1.0], "a": [2.0]}).write_parquet(f / "part.9.parquet"),
                "part.9.parquet are in another order",
            ),
            (
                lambda f: pl.DataFrame({"a": [1], "b": [2.0]}).write_parquet(f / "part.9.parquet"),
                "differ, for example 'a'",
            ),
            (lambda f: (f / "year=2013").mkdir(), r"has folders .* in it \(year=2013\)"),
            (lambda f: (f / "notes.txt").write_text("?"), r"has other files in it \(notes.txt\)"),
            (lambda f: (f / "part.9.parquet").write_bytes(b"no"), "cannot be read as a Parquet table"),
        ],
    )
    def test_what_is_no_table_is_refused_by_name(self, rng, tmp_path, spoil, words):
        folder = in_parts(tmp_path / "flights", frame(rng))
        spoil(folder)
        with pytest.raises(InputError, match=words):
            read(folder, Reading())

    @pytest.mark.longer
    def test_the_commands_take_a_folder_wherever_they_take_a_file(self, rng, tmp_path):
        office = Office(tmp_path)
        for name in ("bank", "shop"):
            table = frame(rng)
            in_parts(tmp_path / name, table)
            table.write_parquet(tmp_path / f"{name}.parquet")
        said = office.ok("check", "bank", "--write", "party.toml").out
        assert "4 Parquet files in the order of their names" in said.replace("\n", " ")
        office.ok("summarize", "party.toml", "--gamma", 0.1, "--rank", 5, "--out", "bank.summary")
        office.ok("summarize", "bank.parquet", "--gamma", 0.1, "--rank", 5, "--out", "file.summary")
        assert (tmp_path / "bank.summary").read_bytes() == (tmp_path / "file.summary").read_bytes()
        office.ok("fit", "bank", "shop", "--gamma", 0.1, "--rank", 5, "--components", 2, "--out", "run")


class TestTheLibrary:
    @pytest.fixture
    def tables(self, rng):
        return {"bank": frame(rng), "shop": frame(rng, "cde")}

    @pytest.mark.parametrize("kind", ["parquet", "arrow", "folder", "npy", "float32 map"])
    def test_a_path_gives_what_the_array_gives(self, tables, tmp_path, kind):
        arrays = {name: table.to_numpy() for name, table in tables.items()}
        if kind == "float32 map":
            arrays = {name: X.astype(np.float32).astype(float) for name, X in arrays.items()}
        paths = {name: stored_as(kind, tmp_path / name, arrays[name], table) for name, table in tables.items()}
        expected = DKPCA(2, gamma=0.1, rank=5).fit(arrays)
        model = DKPCA(2, gamma=0.1, rank=5).fit(paths)
        np.testing.assert_array_equal(model.eigenvectors_, expected.eigenvectors_)
        rtol = 1e-6 if kind == "float32 map" else 0.0  # scores are as precise as the tables
        np.testing.assert_allclose(model.transform(paths), expected.transform(arrays), rtol=rtol, atol=rtol)

    def test_a_list_of_paths_is_a_list_of_tables(self, tables, tmp_path):
        paths = [str(stored_as("parquet", tmp_path / name, None, table)) for name, table in tables.items()]
        model = DKPCA(2, gamma=0.1, rank=5).fit(paths)
        assert model.n_features_in_ == 5

    def test_columns_of_new_rows_are_found_by_name(self, tables, tmp_path):
        paths = {name: stored_as("parquet", tmp_path / name, None, table) for name, table in tables.items()}
        model = DKPCA(2, gamma=0.1, rank=5).fit(paths)
        expected = model.transform(paths)
        turned = {
            name: stored_as("parquet", tmp_path / f"new {name}", None, table[:, ::-1])
            for name, table in tables.items()
        }
        np.testing.assert_array_equal(model.transform(turned), expected)
        pl.DataFrame({"a": [1.0], "z": [1.0]}).write_parquet(tmp_path / "other.parquet")
        with pytest.raises(InputError, match=r"'bank': its columns differ from those of the fit: \['z'\] are new"):
            model.transform({"bank": tmp_path / "other.parquet", "shop": paths["shop"]})

    def test_a_large_table_lies_in_a_file_without_a_name(self, tables, tmp_path, monkeypatch):
        made, empty = [], arrays.MemoryLimit.empty

        def noted(self, shape, dtype):
            made.append(shape)
            return empty(self, shape, dtype)

        monkeypatch.setattr(arrays.MemoryLimit, "empty", noted)
        paths = {name: stored_as("folder", tmp_path / name, None, table) for name, table in tables.items()}
        DKPCA(2, gamma=0.1, rank=5, max_memory="1GB").fit(paths)
        assert {(N, 2), (N, 3)} <= set(made)

    @pytest.mark.parametrize(
        ("table", "words"),
        [
            ({"a": ["x", "y"], "b": [1.0, 2.0]}, "party 'bank': .*bank.parquet: the columns 'a' are not numbers"),
            ({"a": [None, 1.0], "b": [1.0, 2.0]}, "column 'a' has no value in row 1"),
            ({"a": [3.0, 1.0], "b": [1.0, float("inf")]}, "column 'b' is infinite in row 2"),
        ],
    )
    def test_what_is_no_number_names_party_file_and_column(self, tmp_path, table, words):
        pl.DataFrame(table).write_parquet(tmp_path / "bank.parquet")
        with pytest.raises(InputError, match=words):
            DKPCA(1, gamma=0.1).fit({"bank": tmp_path / "bank.parquet"})

    def test_a_file_that_is_not_there_is_named(self, tmp_path):
        with pytest.raises(InputError, match=r"party 'bank': .*gone.parquet: there is no such file"):
            DKPCA(1, gamma=0.1).fit({"bank": tmp_path / "gone.parquet"})


def stored_as(kind, path, X, table):
    if kind == "parquet":
        table.write_parquet(path := path.with_suffix(".parquet"))
    elif kind == "arrow":
        table.write_ipc(path := path.with_suffix(".arrow"))
    elif kind == "folder":
        in_parts(path, table)
    elif kind == "npy":
        np.save(path := path.with_suffix(".npy"), X)
    else:
        mapped = np.memmap(path, dtype=np.float32, mode="w+", shape=X.shape)
        mapped[:] = X
        return mapped
    return path
