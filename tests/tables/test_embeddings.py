"""An embedding is written a group of rows at a time, and both files say the same."""

import io

import numpy as np
import polars as pl
import pytest

from dkpca.tables import formats


@pytest.mark.parametrize("n", [1, 3, 8])
def test_csv_and_parquet_hold_the_same_rows_in_order(n):
    ids, scores = [f"{i:03d}" for i in range(n)], np.random.default_rng(n).standard_normal((n, 2))
    written = {}
    for name, write in formats.embedding_files(ids, scores, outside=[i % 2 == 0 for i in range(n)]).items():
        write(file := io.BytesIO())
        written[name] = file.getvalue()
    parquet = pl.read_parquet(io.BytesIO(written["embedding.parquet"]))
    csv = pl.read_csv(io.BytesIO(written["embedding.csv"]), schema_overrides={"sample": pl.String})
    assert csv.equals(parquet)
    assert parquet["sample"].to_list() == ids
    np.testing.assert_array_equal(parquet.select("component_1", "component_2").to_numpy(), scores)
