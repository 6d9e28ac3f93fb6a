"""Protected fits on real data: the pooled answer, by files and over the network, and what hiding costs.

`python -m benchmarks.protection --data FOLDER` measures all parts, or those that are named: GSE2187 cut among 60
parties by files, and by real processes over HTTPS; the same at fewer bits; a blind center beside an open one on 50
and on all 232,412 flights; landmarks of all flights by files; how long a party attacks its own message. Without
--data, an invented table stands in for GSE2187, and the lines say so.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from threadpoolctl import threadpool_limits

from benchmarks.flights import N_FLIGHTS, flights
from benchmarks.measure import RESULTS, report
from dkpca import DKPCA, subspace_error, summarize
from dkpca.exchange import sum_files
from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from dkpca.recovery import measure
from dkpca.store import runs
from experiments.command import expression
from testkit.federation import Federation, configure, here

N_PARTIES, COMPONENTS = 60, 10
BITS = {"float16": 16, "compact": 20, "float32": 32}
LANDMARKS = (500, 2000)  # of all flights
REFERENCE = 2000  # pivoted landmarks of the answer with which those drawn by a name are compared
Tables = dict[str, np.ndarray]


def main() -> None:
    """Measure all parts, or those in the command line; the lines of the others stay as they were."""
    parts: dict[str, Callable[[str | None], list[dict[str, Any]]]] = {
        "files": file_lines,
        "network": network_lines,
        "bits": bit_lines,
        "blind": blind_lines,
        "landmarks": landmark_lines,
        "recovery": recovery_lines,
    }
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"some of {', '.join(parts)}; else all")
    parser.add_argument("--data", help="folder of GSE2187")
    for side in ("parties", "center"):
        parser.add_argument(f"--{side}", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    for side in ("parties", "center"):
        if getattr(given, side):
            folder, count = getattr(given, side)
            return one_side(side, Path(folder), int(count))
    known = (
        json.loads((RESULTS / "protection.json").read_text())["lines"]
        if (RESULTS / "protection.json").exists()
        else []
    )
    chosen = given.parts or list(parts)
    lines = [line for line in known if line["part"] not in chosen]
    for part in chosen:
        lines += [{"part": part, **line} for line in parts[part](given.data)]
    report("protection", sorted(lines, key=lambda line: list(parts).index(line["part"])))
    return None


def genes(data: str | None) -> tuple[str, Tables, np.ndarray, float]:
    """Name of the data, columns of the parties, leading eigenvectors of the pooled kernel, and its width."""
    X = np.asarray(expression(data).X, dtype=np.float64)
    X = X[:, X.std(axis=0) > 0]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    parts = {f"party{j:02d}": part for j, part in enumerate(np.array_split(X, N_PARTIES, axis=1))}
    gamma = 1.0 / X.shape[1]
    truth = KernelPCA(COMPONENTS, kernel="rbf", gamma=gamma).fit(X).eigenvectors_
    name = "GSE2187" if data else "an invented table"
    return f"{name}, {X.shape[0]} samples, {X.shape[1]} columns, {N_PARTIES} parties", parts, truth, gamma


def ran(*arguments: object, cwd: Path) -> None:
    """Run a command in this process."""
    told = here(*arguments, cwd=cwd)
    if told.returncode:
        raise RuntimeError(told.stderr)


@contextlib.contextmanager
def tables_in(tables: Tables) -> Iterator[Path]:
    """A folder with the parties' tables, standardized already; rows match by position."""
    with tempfile.TemporaryDirectory() as name:
        for party, X in tables.items():
            np.save(Path(name) / f"{party}.npy", X)
        yield Path(name)


def by_files(folder: Path, parties: list[str], **more: object) -> list[str]:
    """Offers and masked numbers of all parties; return the files for the center."""
    pins = {name: sum_files.new_identity(folder / f"{name}.identity").fingerprint for name in parties}
    (folder / "peers.toml").write_text("".join(f'{name} = "{pin}"\n' for name, pin in pins.items()))
    options = [part for name, value in more.items() for part in (f"--{name}", value)]
    for name in parties:
        asked = ("--no-standardize", "--identity", f"{name}.identity", "--run", "spring", "--out", f"{name}.offer")
        ran("mask", "offer", f"{name}.npy", *asked, *options, cwd=folder)
    offers = [part for name in parties for part in ("--offer", f"{name}.offer")]
    for name in parties:
        kept = ("--state", f"{name}.state", "--key", f"{name}.sumkey", "--peers", "peers.toml")
        ran("mask", "numbers", f"{name}.npy", *kept, *offers, "--out", f"{name}.sums", cwd=folder)
    return sorted(file.name for file in folder.glob("*.sums"))


def file_lines(data: str | None) -> list[dict[str, Any]]:
    what, tables, truth, gamma = genes(data)
    with tables_in(tables) as folder:
        files = by_files(folder, list(tables))
        ran("add", *files, "--gamma", gamma, "--out", "joined.summary", cwd=folder)
        ran("fuse", "joined.summary", "--components", COMPONENTS, "--out", "run", cwd=folder)
        found = runs.load(folder / "run").model.eigenvectors
        sent = sum(file.stat().st_size for file in folder.glob("party00*.sums"))
    what = f"{what}, masked sums by files, 32 bit"
    return [
        {"what": f"{what}: subspace error", "value": error(truth, found), "limit": "<= 1e-12"},
        {"what": f"{what}: kB per party", "value": sent / 1e3},
    ]


def network_lines(data: str | None) -> list[dict[str, Any]]:
    what, tables, truth, gamma = genes(data)
    with tempfile.TemporaryDirectory() as name:
        federation = Federation(Path(name), list(tables))
        for party, X in tables.items():
            folder = federation.path / party
            np.save(folder / "table.npy", X)
            configure(folder, "table.npy", "", "", standardize=False, peers="peers.toml")
            (folder / "peers.toml").write_text("".join(f'{o} = "certificate"\n' for o in tables if o != party))
        try:
            federation.start()
            asked = ("--protect", "sums", "--gamma", gamma, "--components", COMPONENTS)
            ran("submit", "fit", "center", "first", *asked, cwd=federation.path)
            found = runs.load(federation.runs / "first").model.eigenvectors
        finally:
            federation.stop()
    words = f"{what}, masked sums over HTTPS, 32 bit: subspace error"
    return [{"what": words, "value": error(truth, found), "limit": "<= 1e-12"}]


def bit_lines(data: str | None) -> list[dict[str, Any]]:
    what, tables, truth, gamma = genes(data)
    limits = {16: "<= 1.7e-05", 20: "<= 7e-08", 32: "<= 1e-12"}
    lines = []
    for precision, bits in BITS.items():
        model = DKPCA(COMPONENTS, gamma=gamma, protect="sums", precision=precision).fit(tables)
        value = error(truth, model.eigenvectors_)
        lines.append({"what": f"{what}, {bits} bit: subspace error", "value": value, "limit": limits[bits]})
        lines.append({"what": f"{what}, {bits} bit: kB per party", "value": model.ledger_[0].bytes_sent / 1e3})
    return lines


def blind_lines(data: str | None) -> list[dict[str, Any]]:
    everything, lines = flights(), []
    for size in (50, N_FLIGHTS):
        tables = {owner: X[:: N_FLIGHTS // size][:size] for owner, X in everything.items()}
        models = {
            protect: DKPCA(5, kernel="linear", rank=10, precision="float64", protect=protect).fit(tables)
            for protect in ("none", "blind")
        }
        sent = [sum(line.bytes_sent for line in model.ledger_) for model in models.values()]
        what = f"blind beside open, {size} flights, linear kernel, rank 10"
        found = error(models["none"].eigenvectors_, models["blind"].eigenvectors_)
        lines.append({"what": f"{what}: subspace error", "value": found, "limit": "<= 1e-12"})
        lines.append({"what": f"{what}: bytes / bytes", "value": sent[1] / sent[0], "limit": "<= 1.01"})
    return lines


def landmark_lines(data: str | None) -> list[dict[str, Any]]:
    tables, lines = flights(), []
    X = np.hstack(list(tables.values()))
    gram = Centered(KernelGram(RBF(1.0 / X.shape[1]), X))
    truth = leading(gram, COMPONENTS, solver="landmark", n_landmarks=REFERENCE).vectors
    for count in LANDMARKS:
        with tables_in(tables) as folder:
            told = {side: in_a_process(f"--{side}", folder, count) for side in ("parties", "center")}
            value = error(truth, np.load(folder / "found.npy"))
        what = f"{N_FLIGHTS} flights, 4 parties, {count} landmarks by files"
        lines.append({"what": f"{what}: subspace error against {REFERENCE} pivoted ones", "value": value})
        lines.append({"what": f"{what}: peak memory of a party, GB", "value": told["parties"]})
        lines.append({"what": f"{what}: peak memory of the center, GB", "value": told["center"]})
    return lines


def recovery_lines(data: str | None) -> list[dict[str, Any]]:
    random = np.random.default_rng(0)
    X = random.normal(size=(3000, 8)) @ random.normal(size=(8, 40)) + 0.3 * random.normal(size=(3000, 40))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    shares = []
    with threadpool_limits(1):  # processor time, of one thread: threads that wait for each other count as work
        for _ in range(3):
            begun = time.process_time()
            message, _ = summarize(X, party="clinic", kernel=RBF(1 / 40), rank=40)
            made = time.process_time()
            measure(message, X)
            shares.append((time.process_time() - made) / (made - begun))
    what = "3000 samples, 40 columns, rank 40: time of recovery / time of the summary"
    return [{"what": what, "value": float(np.median(shares)), "limit": "<= 3"}]


def in_a_process(*arguments: object) -> float:
    """Run one side of `landmark_lines` in a process of its own; return its peak memory in GB."""
    command = [sys.executable, "-m", "benchmarks.protection", *map(str, arguments)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def one_side(side: str, folder: Path, count: int) -> None:
    tables = sorted(folder.glob("*.npy"))
    if side == "parties":
        by_files(folder, [table.stem for table in tables], landmarks=count)
    else:
        width = sum(np.load(table, mmap_mode="r").shape[1] for table in tables)
        files = sorted(file.name for file in folder.glob("*.sums"))
        ran("add", *files, "--gamma", 1.0 / width, "--out", "joined.summary", cwd=folder)
        ran("fuse", "joined.summary", "--components", COMPONENTS, "--out", "run", cwd=folder)
        np.save(folder / "found.npy", runs.load(folder / "run").model.eigenvectors)
    told = Path("/proc/self/status").read_text()  # getrusage would have what the process before it took
    print(int(told.partition("VmHWM:")[2].split()[0]) / 1e6)


def error(truth: Any, found: Any) -> float:
    return max(0.0, float(subspace_error(np.asarray(truth), np.asarray(found))))


if __name__ == "__main__":
    main()
