"""The network beside the file route: the same fit of four parties, as files by hand and as messages over NVFlare.

`python -m benchmarks.network` starts a center and four parties as processes on this machine, with mutual TLS. Both
routes start from the parties' CSV files and end with a run directory; the file route has its four `summarize` at the
same time, as the parties of the network have.
"""

import contextlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import psutil

from benchmarks.measure import report
from dkpca.demo import OWNERS, flights
from tests.network.federation import Federation, environment, ok

N_FLIGHTS, RANK, COMPONENTS = 20_000, 40, 10
N_LARGE, RANK_LARGE = 200_000, 64  # 102 MB of float64 a party
ROUNDS = 3
MB = 1e6


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        federation = Federation(Path(folder), OWNERS)
        for owner, table in flights().items():
            table.sample(N_FLIGHTS, seed=0).write_csv(federation.path / owner / "flights.csv")
            configure(federation.path / owner, "flights.csv", "flight")
        try:
            federation.start()
            lines = flight_lines(federation)
            lines += large_lines(federation)
        finally:
            federation.stop()
    report("network", lines)


def configure(folder: Path, table: str, id_column: str) -> None:
    (folder / "party.toml").write_text(
        f'party = "{folder.name}"\ntable = "{table}"\nid = "{id_column}"\ntext = "one-hot"\npolicy = "policy.toml"\n'
    )
    (folder / "policy.toml").write_text("max_rank = 64\n")


def flight_lines(federation: Federation) -> list[dict[str, object]]:
    model = ["--gamma", "0.01", "--rank", str(RANK)]
    by_files, over_network, nothing_missing = [], [], []
    for number in range(ROUNDS):
        by_files.append(measured(federation, lambda number=number: file_route(federation, model, number)))
        fit = ["submit", "fit", "center", f"run{number}", *model, "--components", str(COMPONENTS)]
        over_network.append(measured(federation, lambda fit=fit: ok(*fit, cwd=federation.path, seconds=300)))
        nothing_missing.append(measured(federation, lambda fit=fit: ok(*fit, cwd=federation.path, seconds=300)))
    by_hand, carried = (statistics.median(s for s, _ in runs) for runs in (by_files, over_network))
    what = f"{N_FLIGHTS:,} flights, 4 parties, rank {RANK}"
    return [
        {"what": f"{what}: file route, seconds", "value": by_hand},
        {"what": f"{what}: over the network, seconds", "value": carried},
        {"what": f"{what}: what the network adds, seconds", "value": carried - by_hand},
        {
            "what": f"{what}: the same command again, nothing to ask, seconds",
            "value": statistics.median(s for s, _ in nothing_missing),
        },
        {"what": f"{what}: file route, largest process, MB", "value": max(p["command"] for _, p in by_files)},
        {"what": f"{what}: network, job at the center, MB", "value": max(p["center job"] for _, p in over_network)},
        {"what": f"{what}: network, job at a party, MB", "value": max(p["party job"] for _, p in over_network)},
        {"what": f"{what}: network, waiting center, MB", "value": max(p["center"] for _, p in over_network)},
        {"what": f"{what}: network, waiting party, MB", "value": max(p["party"] for _, p in over_network)},
    ]


def large_lines(federation: Federation) -> list[dict[str, object]]:
    rng = np.random.default_rng(1)
    causes = rng.normal(size=(N_LARGE, 3))
    for owner in OWNERS:
        X = causes @ rng.normal(size=(3, 6)) + 0.3 * rng.normal(size=(N_LARGE, 6))
        np.save(federation.path / owner / "large.npy", X)
        configure(federation.path / owner, "large.npy", "")
    model = ["--gamma", "0.05", "--rank", str(RANK_LARGE), "--precision", "float64"]
    by_hand, by_files = measured(federation, lambda: file_route(federation, model, 9, table="large.npy"))
    fit = ["submit", "fit", "center", "large", *model, "--components", str(COMPONENTS)]
    carried, over_network = measured(federation, lambda: ok(*fit, cwd=federation.path, seconds=500))
    sizes = [path.stat().st_size / MB for path in (federation.runs / "large" / "messages").glob("*.summary")]
    what = f"4 factors of {sizes[0]:.0f} MB"
    return [
        {"what": f"{what}: file route, seconds", "value": by_hand},
        {"what": f"{what}: over the network, seconds", "value": carried},
        {"what": f"{what}: file route, largest process, MB", "value": by_files["command"]},
        {"what": f"{what}: network, job at the center, MB", "value": over_network["center job"]},
        {"what": f"{what}: network, job at a party, MB", "value": over_network["party job"]},
    ]


def file_route(federation: Federation, model: list[str], number: int, table: str = "flights.csv") -> None:
    how = ["--id", "flight", "--text", "one-hot"] if table.endswith(".csv") else []
    commands = [
        ["summarize", f"{owner}/{table}", "--party", owner, *how, *model, "--out", f"{owner}.summary"]
        for owner in OWNERS
    ]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "dkpca", *command],
            cwd=federation.path,
            env=environment(federation.home),
            stdout=subprocess.DEVNULL,
        )
        for command in commands
    ]
    if any(process.wait() for process in processes):
        raise RuntimeError("a party's summarize failed")
    summaries = [f"{owner}.summary" for owner in OWNERS]
    ok("fuse", *summaries, "--components", COMPONENTS, "--out", f"files{number}", cwd=federation.path, seconds=300)


def measured(federation: Federation, work: Callable[[], object]) -> tuple[float, dict[str, float]]:
    """Wall time, and the largest resident memory of each kind of process."""
    with watched(federation) as peaks:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start, peaks


@contextlib.contextmanager
def watched(federation: Federation) -> Iterator[dict[str, float]]:
    peaks = dict.fromkeys(["center", "center job", "party", "party job", "command"], 0.0)
    done = threading.Event()

    def look() -> None:
        while not done.wait(0.05):
            for kind, process in processes(federation):
                with contextlib.suppress(psutil.NoSuchProcess):
                    peaks[kind] = max(peaks[kind], process.memory_info().rss / MB)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield peaks
    finally:
        done.set()
        thread.join()


def processes(federation: Federation) -> Iterator[tuple[str, psutil.Process]]:
    own = {site.pid: site.kind for site in federation.sites}
    for process in psutil.Process().children():
        kind = own.get(process.pid, "command")
        yield kind, process
        if kind != "command":
            with contextlib.suppress(psutil.NoSuchProcess):
                yield from ((f"{kind} job", job) for job in process.children(recursive=True))


if __name__ == "__main__":
    main()
