"""The network beside the file route: the same fit of four parties, as files by hand and as messages over HTTPS.

`python -m benchmarks.network` starts a center and four parties as processes on this machine, with mutual TLS. Both
routes start from the parties' CSV files and end with a run directory; the file route has its four `summarize` at the
same time, as the parties of the network have. Factors of 102 MB are made once, so that only their way is measured,
in turn with a copy of as many bytes through TLS on loopback. `python -m benchmarks.network large` measures one part
anew.
"""

import contextlib
import hashlib
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.measure import RESULTS, report
from dkpca.demo import OWNERS, flights
from dkpca.exchange.rounds import Fit
from dkpca.network import submit, tls
from dkpca.network.jobs import FitWanted
from dkpca.store import runs, storage
from testkit.federation import HOST, Federation, environment, free_port, ok, wait_for

N_FLIGHTS, RANK, COMPONENTS = 20_000, 40, 10
N_LARGE, RANK_LARGE = 200_000, 64  # 102 MB of float64 per party
N_PARTIES = 100
ROUNDS, ROUNDS_LARGE = 3, 5
MB = 1e6


def main() -> None:
    """Measure all parts, or those in the command line; the lines of the others stay as they were."""
    parts: dict[str, Callable[[Path], list[dict[str, Any]]]] = {
        "flights": flight_lines, "large": large_lines, "many": many_lines
    }  # fmt: skip
    chosen = sys.argv[1:] or list(parts)
    lines = [
        line for line in json.loads((RESULTS / "network.json").read_text())["lines"] if line["part"] not in chosen
    ]
    for part in chosen:
        with tempfile.TemporaryDirectory() as folder:
            lines += [{"part": part, **line} for line in parts[part](Path(folder))]
    report("network", sorted(lines, key=lambda line: list(parts).index(line["part"])))


@contextlib.contextmanager
def four_parties(folder: Path) -> Iterator[Federation]:
    """A center and the owners of the flights, as processes."""
    federation = Federation(folder, OWNERS)
    for owner, table in flights().items():
        table.sample(N_FLIGHTS, seed=0).write_csv(federation.path / owner / "flights.csv")
        configure(federation.path / owner, "flights.csv", "flight")
    try:
        yield federation.start()
    finally:
        federation.stop()


def configure(folder: Path, table: str, id_column: str) -> None:
    (folder / "party.toml").write_text(
        f'party = "{folder.name}"\ntable = "{table}"\nid = "{id_column}"\ntext = "one-hot"\npolicy = "policy.toml"\n'
    )
    (folder / "policy.toml").write_text("max_rank = 64\n")


def flight_lines(folder: Path) -> list[dict[str, Any]]:
    """The same fit by both routes, in turn."""
    with four_parties(folder) as federation:
        return _flight_lines(federation)


def _flight_lines(federation: Federation) -> list[dict[str, Any]]:
    model = ["--gamma", "0.01", "--rank", str(RANK)]
    waiting = max(psutil.Process(site.pid).memory_info().rss / MB for site in federation.parties.values())
    by_files, over_network, nothing_missing = [], [], []
    for number in range(ROUNDS):
        by_files.append(measured(federation, partial(file_route, federation, model, number)))
        fit = ["submit", "fit", "center", f"run{number}", *model, "--components", str(COMPONENTS)]
        over_network.append(measured(federation, partial(ok, *fit, cwd=federation.path, timeout=300)))
        nothing_missing.append(measured(federation, partial(ok, *fit, cwd=federation.path, timeout=300)))
    pairs = list(zip(over_network, by_files, strict=True))
    added = statistics.median(net.seconds - files.seconds for net, files in pairs)
    worked = statistics.median(net.processor - files.processor for net, files in pairs)
    by_hand, carried, again = (
        statistics.median(run.seconds for run in each) for each in (by_files, over_network, nothing_missing)
    )
    what = f"{N_FLIGHTS:,} flights, 4 parties, rank {RANK}"
    return [
        {
            "what": f"{what}: messages and eigenvectors other than by files",
            "value": differing(federation),
            "limit": "<= 0",
        },
        {"what": f"{what}: file route, seconds", "value": by_hand},
        {"what": f"{what}: over the network, seconds", "value": carried},
        {"what": f"{what}: what the network adds, seconds", "value": added, "limit": "<= 1"},
        {"what": f"{what}: what the network adds, processor seconds", "value": worked, "limit": "<= 1"},
        {"what": f"{what}: the same command again, nothing to ask, seconds", "value": again},
        {"what": f"{what}: file route, largest process, MB", "value": max(run.peaks["command"] for run in by_files)},
        {"what": f"{what}: network, center, MB", "value": max(run.peaks["center"] for run in over_network)},
        {
            "what": f"{what}: network, worker of a party, MB",
            "value": max(run.peaks["worker"] for run in over_network),
        },
        {"what": f"{what}: network, waiting party, MB", "value": waiting, "limit": "<= 60"},
    ]


def large_lines(folder: Path) -> list[dict[str, Any]]:
    """Factors that are there already, as after a break: only their way to the center is measured."""
    with four_parties(folder) as federation:
        return _large_lines(federation)


def _large_lines(federation: Federation) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    sizes = []
    model = ["--gamma", "0.05", "--rank", str(RANK_LARGE), "--precision", "float64", "--components", str(COMPONENTS)]
    for owner in OWNERS:
        np.save(federation.path / owner / "large.npy", rng.normal(size=(N_LARGE, 6)))
        configure(federation.path / owner, "large.npy", "")
    fit = ["submit", "fit", "center", "large", *model]
    with watched(federation) as peaks:
        ok(*fit, cwd=federation.path, timeout=900)
    folder = federation.runs / "large" / "messages"
    sizes = [path.stat().st_size for path in folder.glob("*.summary")]
    fuse = ["fuse", *sorted(folder.glob("*.summary")), "--components", COMPONENTS, "--out", "by-files"]
    by_files = measured(federation, partial(ok, *fuse, cwd=federation.path, timeout=900))
    fitted = Fit.from_dict(storage.read_json(federation.runs / "large" / "request.json")["fit"])
    job = FitWanted(run="large", fit=fitted, publish=False)
    rounds = [(*arrival(federation, job), *copy_through_tls(federation, max(sizes))) for _ in range(ROUNDS_LARGE)]
    seconds, worked, memory, copied, copy_worked = zip(*rounds, strict=True)
    shares = [copy / carried for copy, carried in zip(copied, seconds, strict=True)]
    what, total = f"4 factors of {sizes[0] / MB:.0f} MB", sum(sizes) / MB
    return [
        {"what": f"{what}: over the network, MB/s", "value": total / statistics.median(seconds)},
        {"what": f"{what}: copied through TLS on loopback, MB/s", "value": total / statistics.median(copied)},
        {"what": f"{what}: network speed, share of that copy, median of {ROUNDS_LARGE}",
         "value": statistics.median(shares), "limit": ">= 0.5"},
        {"what": f"{what}: network speed, smallest share of {ROUNDS_LARGE}", "value": min(shares)},
        {"what": f"{what}: network speed, largest share of {ROUNDS_LARGE}", "value": max(shares)},
        {"what": f"{what}: processor seconds of all, network", "value": statistics.median(worked)},
        {"what": f"{what}: processor seconds of all, copy", "value": statistics.median(copy_worked)},
        {"what": f"{what}: center while they arrive, beyond one factor and what it had before, MB",
         "value": max(memory) - total / len(sizes), "limit": "<= 200"},
        {"what": f"{what}: center while it fuses, beyond 'dkpca fuse' of the same files, MB",
         "value": peaks["center"] - by_files.peaks["command"], "limit": "<= 200"},
        {"what": f"{what}: worker of a party, MB", "value": peaks["worker"]},
    ]  # fmt: skip


def arrival(federation: Federation, job: FitWanted) -> tuple[float, float, float]:
    """Seconds from the first byte of the factors to the last of them in place; processor seconds; MB of the center.

    As after a break: a center without the messages asks under the same numbers, and the parties send the same bytes.
    """
    center, run = federation.center, federation.runs / "large"
    center.stop()
    for lost in (*(run / "messages").glob("*.summary"), run / "exchange.json", run / "job.json"):
        lost.unlink()
    center.start()
    for owner in OWNERS:
        center.wait_said(f"{owner} is connected")
    before = psutil.Process(center.pid).memory_info().rss / MB
    submit.submit(federation.consortium, job)
    wait_for(lambda: any((run / "messages").glob(".*.part")), "first bytes", 600)
    start, worked = time.perf_counter(), processor(federation)
    with watched(federation) as peaks:
        wait_for(lambda: len(list((run / "messages").glob("*.summary"))) == len(OWNERS), "all factors", 600)
    took = time.perf_counter() - start, processor(federation) - worked, peaks["center"] - before
    center.stop()  # or it fuses while others are measured
    return took


def copy_through_tls(federation: Federation, size: int) -> tuple[float, float]:
    """Have four processes send files to one that hashes and writes them; return seconds, and processor seconds."""
    port, code = free_port(), (
        "import hashlib,socket,sys,pathlib; from dkpca.network import tls\n"
        "c = tls.client_context(pathlib.Path(sys.argv[1]))\n"
        "s = c.wrap_socket(socket.create_connection(('127.0.0.1', int(sys.argv[2]))), server_hostname='127.0.0.1')\n"
        "f = open(sys.argv[3], 'rb')\n"
        "while d := f.read(1 << 20): s.sendall(d)\n"
        "s.close()\n"
    )  # fmt: skip
    context = tls.server_context(federation.path / "center" / "tls")
    sources = []
    for owner in OWNERS:
        sources.append(federation.path / f"{owner}.copy")
        sources[-1].write_bytes(os.urandom(2**20) * (size // 2**20))
    os.sync()  # or these files are still being written to the disk while they are copied

    def receive(plain: socket.socket, target: Path) -> None:
        digest = hashlib.sha256()
        with context.wrap_socket(plain, server_side=True) as secure, target.open("wb") as file:
            while data := secure.recv(2**20):
                file.write(data)
                digest.update(data)
            os.fsync(file.fileno())

    with socket.create_server((HOST, port)) as listening:
        senders = [
            subprocess.Popen([sys.executable, "-c", code, federation.path / o / "tls", str(port), source])
            for o, source in zip(OWNERS, sources, strict=True)
        ]
        accepted = [listening.accept()[0] for _ in senders]
        before = sum(sum(psutil.Process(sender.pid).cpu_times()[:2]) for sender in senders) + ended_children()
        start, worked = time.perf_counter(), time.process_time() + before
        threads = [
            threading.Thread(target=receive, args=(plain, federation.path / f"{i}.received"))
            for i, plain in enumerate(accepted)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
        worked = time.process_time() - worked
        for sender in senders:
            sender.wait()
    return seconds, worked + ended_children()


def many_lines(folder: Path) -> list[dict[str, Any]]:
    """A hundred parties wait on this machine, and all take part in one fit."""
    names = [f"p{number:03d}" for number in range(N_PARTIES)]
    federation = Federation(folder, names)
    rng = np.random.default_rng(3)
    causes = rng.normal(size=(500, 3))
    for name in names:
        np.save(folder / name / "table.npy", causes @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(500, 4)))
        configure(folder / name, "table.npy", "")
    try:
        federation.start()
        waiting = [psutil.Process(site.pid).memory_info().rss / MB for site in federation.parties.values()]
        start = time.perf_counter()
        fit = ["--gamma", "0.001", "--rank", "10", "--components", "3", "--timeout", "900"]
        ok("submit", "fit", "center", "all", *fit, cwd=folder, timeout=1200)
        seconds = time.perf_counter() - start
    finally:
        federation.stop()
    return [
        {
            "what": f"{N_PARTIES} parties on one machine: largest waiting party, MB",
            "value": max(waiting),
            "limit": "<= 60",
        },
        {"what": f"{N_PARTIES} parties on one machine: a fit of all, seconds", "value": seconds},
    ]


def file_route(federation: Federation, model: list[str], number: int) -> None:
    how = ["--id", "flight", "--text", "one-hot"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "dkpca", "summarize", f"{owner}/flights.csv", "--party", owner, *how, *model,
             "--out", f"{owner}.summary"],
            cwd=federation.path,
            env=environment(federation.home),
            stdout=subprocess.DEVNULL,
        )
        for owner in OWNERS
    ]  # fmt: skip
    if any(process.wait() for process in processes):
        raise RuntimeError("a party's summarize failed")
    summaries = [f"{owner}.summary" for owner in OWNERS]
    ok("fuse", *summaries, "--components", COMPONENTS, "--out", f"files{number}", cwd=federation.path, timeout=300)


def differing(federation: Federation) -> int:
    """How many of the last run's messages, and of its eigenvectors, are not those of the file route bit for bit."""
    sides = federation.runs / f"run{ROUNDS - 1}", federation.path / f"files{ROUNDS - 1}"
    messages = [[(side / "messages" / f"{owner}.summary").read_bytes() for owner in OWNERS] for side in sides]
    vectors = [np.asarray(runs.load(side).model.eigenvectors) for side in sides]
    changed = sum(one != other for one, other in zip(*messages, strict=True))
    return changed + int((vectors[0] != vectors[1]).any(axis=0).sum())


@dataclass(frozen=True)
class Run:
    """What one way of doing the work took."""

    seconds: float
    processor: float  # seconds of all processes together: others on the machine change it less
    peaks: dict[str, float]  # largest resident memory of each kind of process, MB


def measured(federation: Federation, work: Callable[[], object]) -> Run:
    with watched(federation) as peaks:
        worked, start = processor(federation), time.perf_counter()
        work()
        return Run(time.perf_counter() - start, processor(federation) - worked, peaks)


def processor(federation: Federation) -> float:
    """Processor seconds of the commands that have ended, and of all sites with their workers."""
    seconds = ended_children()
    for site in federation.sites:
        seconds += sum(psutil.Process(site.pid).cpu_times()[:4])  # with the children it has waited for
        seconds += sum(sum(worker.cpu_times()[:2]) for worker in site.workers())
    return seconds


def ended_children() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


@contextlib.contextmanager
def watched(federation: Federation) -> Iterator[dict[str, float]]:
    peaks = dict.fromkeys(["center", "party", "worker", "command"], 0.0)
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
        if kind == "party":
            with contextlib.suppress(psutil.NoSuchProcess):
                yield from (("worker", child) for child in process.children(recursive=True))


if __name__ == "__main__":
    main()
