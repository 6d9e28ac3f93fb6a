"""A large table that stays in its file: a column is loaded when it is looked at."""

from collections.abc import Sequence
from typing import overload

import polars as pl

from dkpca.errors import InputError
from dkpca.tables.formats import Opened

LARGE = 2**26  # bytes of its files


class Stored:
    """As much of a DataFrame as preparing a table needs."""

    def __init__(self, frame: pl.LazyFrame, columns: Sequence[str], source: str) -> None:
        self._frame, self.columns, self._source = frame, list(columns), source
        known = frame.collect_schema()
        self.schema = {name: known[name] for name in self.columns}
        self.height = int(frame.select(pl.len()).collect().item())

    @overload
    def __getitem__(self, wanted: str) -> pl.Series: ...
    @overload
    def __getitem__(self, wanted: list[int]) -> pl.DataFrame: ...
    def __getitem__(self, wanted: str | list[int]) -> pl.Series | pl.DataFrame:
        if isinstance(wanted, str):
            return self._column(wanted)
        return pl.DataFrame([self[name][wanted] for name in self.columns])

    def select(self, columns: Sequence[str]) -> "Stored":
        """Some of the columns."""
        return Stored(self._frame, columns, self._source)

    def _column(self, name: str) -> pl.Series:
        try:
            return self._frame.select(name).collect(engine="streaming")[name]
        except (pl.exceptions.PolarsError, OSError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise InputError(
                f"{self._source}: its column {name!r} cannot be read ({reason}); check the file"
            ) from error


def stays_in_its_file(opened: Opened) -> bool:
    """Whether a table is better left where it is."""
    return sum(part.stat().st_size for part in opened.parts) >= LARGE
