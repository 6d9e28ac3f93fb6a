"""Tables become numbers as the paper does it, and new rows are treated as the training rows were."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

from dkpca.errors import InputError
from dkpca.tables.inputs import columns_of
from dkpca.tables.preparation import Preparation, prepare
from dkpca.tables.reading import Reading, from_frame, read
from dkpca.wire import codec


def table(columns, **reading):
    how = Reading(**({"id_column": "id"} | reading))
    n = len(next(iter(columns.values())))
    return from_frame(pl.DataFrame({"id": [f"s{i}" for i in range(n)], **columns}), how), how


def test_a_file_that_does_not_fit_into_memory_is_one_sentence(tmp_path, monkeypatch):
    def too_large(path):
        raise MemoryError

    (tmp_path / "a.csv").write_text("id,x\n1,2\n")
    monkeypatch.setattr(Path, "read_bytes", too_large)
    with pytest.raises(InputError, match=r"a.csv: does not fit into memory; give a smaller file, or Parquet"):
        read(tmp_path / "a.csv", Reading("id"))


def test_columns_above_the_share_are_dropped_and_the_rest_filled_with_the_mean():
    loaded, how = table(
        {
            "full": np.arange(20.0),
            "one": [None, *np.arange(19.0)],
            "two": [None, None, *np.arange(18.0)],
            "three": [None] * 3 + [*np.arange(17.0)],
        }
    )
    preparation = prepare(loaded, how)
    assert [column.source for column in preparation.columns] == ["full", "one", "two"]
    assert preparation.notes == (
        "dropped 1 column with more than 10% of values missing: 'three'",
        "filled 3 missing values in 2 columns with the column mean",
    )
    X = preparation.apply(loaded)
    np.testing.assert_allclose(X.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(X.std(axis=0), 1)
    assert X[0, 1] == X[0, 2] == X[1, 2] == 0


def test_without_standardization_numbers_stay_as_they_are():
    loaded, how = table({"a": [1.0, 2.0, 4.0], "b": [True, False, True]}, standardize=False)
    np.testing.assert_array_equal(prepare(loaded, how).apply(loaded), [[1, 1], [2, 0], [4, 1]])


def test_new_rows_use_the_means_scales_and_categories_of_the_training_rows():
    loaded, how = table({"a": [1.0, 2.0, 3.0], "c": ["x", "y", "x"]}, text="one-hot")
    kept = json.loads(json.dumps(codec.described(prepare(loaded, how))))
    preparation = codec.decode(Preparation, kept, what="kept")
    new, _ = table({"a": [None, 4.0], "c": ["never seen", None]}, text="one-hot")
    X = preparation.apply(new)
    deviation = float(np.std([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(X[:, 0], [0, 2 / deviation])
    assert (X[0, 1:] < 0).any()  # neither category
    np.testing.assert_allclose(X[1, 1:], 0)  # missing: the mean


def test_a_text_column_weighs_as_much_as_one_numeric_column():
    loaded, how = table({"c": ["x"] * 50 + ["y"] * 30 + ["z"] * 20}, text="one-hot")
    X = prepare(loaded, how).apply(loaded)
    assert X.shape == (100, 3)
    assert X.var(axis=0).sum() == pytest.approx(1.0)


def test_text_is_an_error_that_names_the_column_unless_told_otherwise():
    loaded, how = table({"a": [1.0, 2.0], "c": ["x", "y"]})
    with pytest.raises(InputError, match="column 'c' has text 'x' in row 1; .* 'dkpca check --write' with .* --ex"):
        prepare(loaded, how)
    ignored, _ = table({"a": [1.0, 2.0], "c": ["x", "y"]}, text="ignore")
    assert ignored.frame.columns == ["a"]


def test_a_text_column_with_too_many_values_is_refused():
    loaded, how = table({"c": [f"name {i}" for i in range(300)]}, text="one-hot")
    with pytest.raises(InputError, match="300 different values, more than 200"):
        prepare(loaded, how)


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, lambda columns: pl.DataFrame(columns).to_arrow()])
def test_data_frames_of_every_kind_are_tables(kind):
    loaded = from_frame(kind({"id": ["a", "b"], "x": [1.0, float("nan")]}), Reading("id"))
    assert loaded.ids == ["a", "b"]
    assert loaded.frame.columns == ["x"]


def test_numpy_files_are_mapped_and_named_by_position(tmp_path):
    X = np.random.default_rng(0).normal(size=(5, 3))
    np.save(tmp_path / "a.npy", X)
    loaded = read(tmp_path / "a.npy", Reading())
    assert loaded.ids is None
    np.testing.assert_array_equal(loaded.frame.select("x0", "x1", "x2").to_numpy(), X)


def test_a_file_that_would_run_code_is_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{"run": "me"}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"a\.npy: cannot be read as a \.npy table"):
        read(tmp_path / "a.npy", Reading())


def test_ids_may_be_numbers():
    loaded = from_frame(pl.DataFrame({"id": [3.0, 1.0], "x": [1.0, 2.0]}), Reading("id"))
    assert loaded.ids == ["3", "1"]
    assert loaded.take([1, 0]).ids == ["1", "3"]


@pytest.mark.parametrize("size", [1e300, 1e-300, 1.0])
def test_a_column_of_any_size_is_standardized_alike(size):
    values = np.array([1.0, 2.0, 4.0, 7.0, 3.0, 3.5, 0.5, 8.0, 5.0, 6.0, 1.5])
    loaded, how = table({"a": [*(values * size), None], "b": np.arange(12.0)})
    filled = np.append(values, values.mean())
    X = prepare(loaded, how).apply(loaded)
    np.testing.assert_allclose(X[:, 0], (filled - filled.mean()) / filled.std(), atol=1e-12)


def test_numbers_too_far_apart_to_be_subtracted_are_refused_with_their_column():
    loaded, how = table({"a": [-1.7e308, 1.7e308, 0.0], "b": [1.0, 3.0, 2.0]})
    with pytest.raises(InputError, match="numbers too far apart to be subtracted in column 'a'"):
        prepare(loaded, how)


def test_columns_of_a_wide_frame_are_views_of_it_and_of_a_mixed_one_the_same_values():
    frame = pd.DataFrame(np.arange(12.0).reshape(3, 4), columns=["a", "b", "a", "c"])
    columns = columns_of(frame)
    assert [name for name, _ in columns] == ["a", "b", "a", "c"]
    assert all(np.shares_memory(values, frame.to_numpy()) for _, values in columns)
    mixed = frame.set_axis(["p", "q", "r", "s"], axis=1).assign(q=["x", "y", "z"], s=[1, 2, 3])
    for name, values in columns_of(mixed):
        np.testing.assert_array_equal(values, mixed[name].to_numpy())
