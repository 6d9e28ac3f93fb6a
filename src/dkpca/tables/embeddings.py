"""Embeddings as people and programs read them: CSV and Parquet, written a group of rows at a time."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np
import polars as pl
from polars.io.plugins import register_io_source

ROWS = 2**17  # of a group

Writer = Callable[[BinaryIO], object]


def embedding_files(
    sample_ids: Sequence[str], scores: np.ndarray[Any, Any], *, outside: Sequence[bool] | None = None
) -> dict[str, Writer]:
    """Scores as CSV and Parquet, the first column the sample id; the last says which new samples lie outside."""

    def rows(start: int, end: int) -> pl.DataFrame:
        columns = [pl.Series(f"component_{d + 1}", scores[start:end, d]) for d in range(scores.shape[1])]
        frame = pl.DataFrame([pl.Series("sample", list(sample_ids[start:end]), dtype=pl.String), *columns])
        if outside is None:
            return frame
        return frame.with_columns(pl.Series("outside", list(outside[start:end]), dtype=pl.Boolean))

    def csv(file: BinaryIO) -> None:
        for start in range(0, max(len(scores), 1), ROWS):
            rows(start, start + ROWS).write_csv(file, include_header=start == 0)

    def groups(columns: list[str] | None, *unused: object) -> Iterator[pl.DataFrame]:
        for start in range(0, max(len(scores), 1), ROWS):
            yield rows(start, start + ROWS).select(columns or pl.all())

    def parquet(file: BinaryIO) -> None:
        register_io_source(groups, schema=rows(0, 0).schema).sink_parquet(file, row_group_size=ROWS)

    return {"embedding.csv": csv, "embedding.parquet": parquet}
