"""All flights of the demo as standardized columns of four owners."""

import numpy as np
import polars as pl
import polars.selectors as cs

from dkpca.cli.demo import ID
from dkpca.cli.demo import flights as tables

N_FLIGHTS = 232_412


def flights() -> dict[str, np.ndarray]:
    """Return each owner's columns, text one-hot, mean 0 and standard deviation 1."""
    return {owner: _standardized(table.drop(ID)) for owner, table in tables().items()}


def _standardized(table: pl.DataFrame) -> np.ndarray:
    X = table.to_dummies(cs.string()).to_numpy().astype(float)
    spread = X.std(0)
    return (X - X.mean(0)) / np.where(spread > 0, spread, 1.0)
