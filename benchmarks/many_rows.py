"""Many rows by the commands: four parties of 16 columns in Parquet files, each command within a limit on memory.

`python -m benchmarks.many_rows` measures a hundred thousand, a million and ten million rows; that takes twenty
gigabytes of disk (`--folder`) and an hour. `--rows N` measures one size, and keeps the others. A command's memory is
the most it ever had resident, mapped files included. Components are compared with kernel PCA of the joined table on
its first million rows, by three times as many landmarks: what a million rows differ from all is part of that error.
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

from benchmarks.measure import RESULTS, report
from dkpca import subspace_error
from dkpca.kernels import RBF
from dkpca.kernels.grams import KernelGram
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading

PARTIES, COLUMNS, HIDDEN, RANK, COMPONENTS = 4, 16, 6, 30, 7  # behind seven, the spectrum has a gap
GAMMA = 1.0 / (2.0 * PARTIES * COLUMNS)  # one over the mean squared distance: columns are standardized
CHUNK = 2**17
MEMORY = "8GB"
SIZES = (100_000, 1_000_000, 10_000_000)
COMPARED, POOLED_LANDMARKS = 1_000_000, 1500
RUNS = RESULTS / "many-rows-runs.json"
FIGURE = Path(__file__).parent.parent / "docs" / "figures" / "many_rows.svg"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--folder", type=Path, help="Where the tables and the run go, for a while.")
    parser.add_argument("--memory", default=MEMORY)
    given = parser.parse_args()
    for rows in given.rows:
        run = measure(rows, given.folder, given.memory)
        print(json.dumps(run), flush=True)
        keep(run)
    runs = kept()
    report("many-rows", [line for run in runs.values() for line in about(run)] + growing(runs))
    draw(runs)


def kept() -> dict[int, dict[str, float]]:
    """What was measured so far, by number of rows."""
    stored = json.loads(RUNS.read_text()) if RUNS.exists() else []
    return {int(run["rows"]): run for run in stored}


def keep(run: dict[str, float]) -> None:
    """Replace what was measured before at this size."""
    runs = kept() | {int(run["rows"]): run}
    RUNS.write_text(json.dumps([runs[rows] for rows in sorted(runs)], indent=1) + "\n")


def about(run: dict[str, float]) -> list[dict[str, object]]:
    rows = int(run["rows"])
    what = f"{rows:,} rows, {run['components']:.0f} components"
    return [
        {"what": f"{what}: slowest party, seconds", "value": run["party_seconds"]},
        {"what": f"{what}: center, seconds", "value": run["center_seconds"]},
        {"what": f"{what}: processor seconds of all", "value": run["processor_seconds"]},
        {"what": f"{what}: largest party, GB", "value": run["party_gb"], "limit": "<= 8"},
        {"what": f"{what}: center, GB", "value": run["center_gb"], "limit": "<= 8"},
        {
            "what": f"{what}: subspace error",
            "value": run["subspace_error"],
            "limit": "<= 1e-3",
        },
    ]


def growing(runs: dict[int, dict[str, float]]) -> list[dict[str, object]]:
    """Processor time from the fewest to the most rows."""
    if not set(SIZES) <= set(runs):
        return []
    first, middle, last = (runs[rows]["processor_seconds"] / rows for rows in SIZES)
    return [
        {
            "what": f"processor time per row at {SIZES[-1]:,} rows / at {SIZES[-2]:,}",
            "value": last / middle,
            "limit": "<= 1.2",
        },
        {
            "what": f"slope of processor time over rows from {SIZES[0]:,} to {SIZES[-1]:,}",
            "value": 1.0 + log(last / first) / log(SIZES[-1] / SIZES[0]),
            "limit": "<= 1.05",
        },
    ]


def draw(runs: dict[int, dict[str, float]]) -> None:
    """Processor time and memory over rows."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "many_rows"
    from matplotlib import pyplot as plt

    rows = sorted(runs)
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    spent = [runs[n]["processor_seconds"] for n in rows]
    left.plot(rows, spent, "o-", color="#0072b2", label="four parties and center")
    steepest = [spent[-1] * n / rows[-1] for n in rows]
    left.plot(rows, steepest, "--", color="0.6", label="in proportion to rows")
    left.set(xscale="log", yscale="log", xlabel="rows", ylabel="processor seconds")
    for who, color in (("party", "#009e73"), ("center", "#d55e00")):
        right.plot(rows, [runs[n][f"{who}_gb"] for n in rows], "o-", color=color, label=who)
    right.axhline(8.0, linestyle="--", color="0.6", label="limit")
    right.set(xscale="log", yscale="log", xlabel="rows", ylabel="memory, GB")
    left.legend()
    right.legend()
    figure.savefig(FIGURE, metadata={"Date": None})


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
        "components": COMPONENTS,
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
