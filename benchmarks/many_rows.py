"""Many rows by the commands: four parties of 16 columns in Parquet files, each command within a limit on memory.

`python -m benchmarks.many_rows` measures a hundred thousand, a million and ten million rows; that takes twenty
gigabytes of disk (`--folder`) and an hour. `--rows N` measures one size and prints it. A command's memory is the most
it ever had resident, mapped files included. Components are compared with kernel PCA of the joined table on its first
million rows, by three times as many landmarks: what differs between a million rows and all is part of that error.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from pathlib import Path

import numpy as np
import polars as pl

from benchmarks.measure import report
from dkpca import subspace_error
from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading

PARTIES, COLUMNS, HIDDEN, RANK, COMPONENTS = 4, 16, 6, 30, 10
GAMMA = 1.0 / (2.0 * PARTIES * COLUMNS)  # one over the mean squared distance: columns are standardized
CHUNK = 2**17
MEMORY = "8GB"
SIZES = (100_000, 1_000_000, 10_000_000)
COMPARED, POOLED_LANDMARKS = 1_000_000, 1500


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--folder", type=Path, help="Where the tables and the run go, for a while.")
    parser.add_argument("--memory", default=MEMORY)
    given = parser.parse_args()
    if given.rows:
        print(json.dumps(measure(given.rows, given.folder, given.memory)))
        return
    runs = {}
    for rows in SIZES:
        runs[rows] = measure(rows, given.folder, given.memory)
        print(json.dumps(runs[rows]), flush=True)
    lines: list[dict[str, object]] = []
    for rows, run in runs.items():
        what = f"{rows:,} rows by the commands"
        lines += [
            {"what": f"{what}: slowest party, seconds", "value": run["party_seconds"]},
            {"what": f"{what}: center, seconds", "value": run["center_seconds"]},
            {"what": f"{what}: processor seconds of all", "value": run["processor_seconds"]},
            {"what": f"{what}: largest party, GB", "value": run["party_gb"], "limit": "<= 8"},
            {"what": f"{what}: center, GB", "value": run["center_gb"], "limit": "<= 8"},
            {
                "what": f"{what}: subspace error against the joined table's first {min(rows, COMPARED):,} rows",
                "value": run["subspace_error"],
                "limit": "<= 1e-3",
            },
        ]
    per_row = [runs[rows]["processor_seconds"] / rows for rows in SIZES[-2:]]
    what = f"processor time per row at {SIZES[-1]:,} rows / at {SIZES[-2]:,}"
    lines.append({"what": what, "value": per_row[1] / per_row[0], "limit": "<= 1.2"})
    first, last = runs[SIZES[0]]["processor_seconds"], runs[SIZES[-1]]["processor_seconds"]
    slope = log(last / first) / log(SIZES[-1] / SIZES[0])
    what = f"slope of processor time over rows from {SIZES[0]:,} to {SIZES[-1]:,}"
    lines.append({"what": what, "value": slope, "limit": "<= 1.05"})
    report("many-rows", lines)


def measure(rows: int, folder: Path | None, memory: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        names = [f"party{j}" for j in range(PARTIES)]
        for j, party in enumerate(names):
            write_table(place / f"{party}.parquet", rows, j)
        limits = ("--solver", "landmark", "--max-memory", memory)
        parties = [
            command(
                *("summarize", place / f"{party}.parquet", "--gamma", GAMMA, "--rank", RANK, *limits),
                *("--out", place / f"{party}.summary"),
            )
            for party in names
        ]
        sent = [place / f"{party}.summary" for party in names]
        center = command("fuse", *sent, "--components", COMPONENTS, *limits, "--out", place / "run")
        captured = json.loads((place / "run" / "certificate.json").read_text())
        error = against_joined([place / f"{party}.parquet" for party in names], place / "run" / "embedding.parquet")
    return {
        "rows": rows,
        "party_seconds": max(used.seconds for used in parties),
        "party_gb": max(used.gigabytes for used in parties),
        "center_seconds": center.seconds,
        "center_gb": center.gigabytes,
        "processor_seconds": sum(used.processor_seconds for used in (*parties, center)),
        "optimality_at_least": captured.get("optimality_at_least", float("nan")),
        "subspace_error": error,
    }


def against_joined(tables: Sequence[Path], embedding: Path) -> float:
    """Subspace error of the components, on the first rows, against kernel PCA of the joined table's first rows."""
    joined = [pl.read_parquet(path, n_rows=COMPARED).to_numpy() for path in tables]
    X = np.hstack(joined).astype(np.float64)
    X -= X.mean(axis=0)
    X /= X.std(axis=0)
    scores = pl.read_parquet(embedding, n_rows=COMPARED).drop("sample").to_numpy()
    V = np.linalg.qr(scores - scores.mean(axis=0))[0]
    gram = Centered(KernelGram(RBF(GAMMA), X))
    pooled = leading(gram, V.shape[1], solver="landmark", n_landmarks=POOLED_LANDMARKS)
    return subspace_error(pooled.vectors, V)


def write_table(path: Path, rows: int, party: int) -> None:
    """Columns made of a few hidden quantities that all parties see."""
    loadings = np.random.default_rng([party, 1]).standard_normal((HIDDEN, COLUMNS))
    X = np.empty((COLUMNS, rows), dtype=np.float32)
    for number, start in enumerate(range(0, rows, CHUNK)):
        count = min(CHUNK, rows - start)
        hidden = np.random.default_rng([number, 0]).standard_normal((count, HIDDEN))
        own = np.random.default_rng([number, 2 + party]).standard_normal((count, COLUMNS))
        X[:, start : start + count] = (hidden @ loadings + 0.5 * own).T
    pl.DataFrame({f"x{j}": X[j] for j in range(COLUMNS)}).write_parquet(path, row_group_size=CHUNK)


@dataclass(frozen=True)
class Used:
    seconds: float
    processor_seconds: float
    gigabytes: float  # resident, at most


def command(*arguments: object) -> Used:
    """What a command takes."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "dkpca", *map(str, arguments)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    said = process.stderr.read() if process.stderr else b""
    _, status, used = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(said.decode())
    return Used(time.perf_counter() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e9)


if __name__ == "__main__":
    main()
