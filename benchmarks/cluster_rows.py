"""A table of 6 GB on two Dask workers of 2 GB each: `python -m benchmarks.cluster_rows`.

Four parties of 256 columns, 750,000 rows, in Parquet folders (3 GB on disk, `--folder`, for a while). Each worker
is a process with one thread; the scheduler ends one that goes beyond its memory. `--rows N` measures fewer rows.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import dask.dataframe as dd
import numpy as np
import polars as pl
from distributed import Client, LocalCluster

from benchmarks.measure import report
from dkpca import DKPCA

PARTIES, COLUMNS, HIDDEN, RANK, COMPONENTS = 4, 256, 6, 30, 6
ROWS, CHUNK, WORKERS, MEMORY = 750_000, 12_500, 2, 2 * 10**9
GAMMA = 1.0 / (2.0 * PARTIES * COLUMNS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--folder", type=Path, help="Where the tables go, for a while.")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folders = [Path(name) / f"party{j}" for j in range(PARTIES)]
        for j, folder in enumerate(folders):
            write_folder(folder, given.rows, j)
        lines = measure(folders, Path(name))
    report("cluster-rows", lines)


def measure(folders: list[Path], scratch: Path) -> list[dict]:
    tables = [dd.read_parquet(folder).astype(np.float64).to_dask_array(lengths=True) for folder in folders]
    size = sum(table.nbytes for table in tables)
    with (
        LocalCluster(
            n_workers=WORKERS,
            threads_per_worker=1,
            memory_limit=MEMORY,
            local_directory=str(scratch),
            dashboard_address="127.0.0.1:0",
        ) as cluster,
        Client(cluster) as client,
    ):
        first = dict(client.run(os.getpid))
        start = time.perf_counter()
        model = DKPCA(COMPONENTS, gamma=GAMMA, rank=RANK, standardize=True).fit(tables)
        fitted = time.perf_counter() - start
        square = (model.eigenvectors_.T @ model.eigenvectors_).compute()
        placed = time.perf_counter() - start - fitted
        used = client.run(processor_seconds)
        peak = client.run(peak_memory)
        alive = sum(first.get(worker) == pid for worker, pid in client.run(os.getpid).items())
    assert alive == WORKERS, "a worker was killed"
    uneven = float(np.abs(square - np.eye(COMPONENTS)).max())
    what = f"{tables[0].shape[0]:,} rows, {PARTIES} parties of {COLUMNS} columns, on {WORKERS} workers"
    return [
        {"what": f"{what}: table, GB", "value": size / 1e9},
        {"what": f"{what}: peak memory of a worker, GB", "value": max(peak.values()) / 1e9, "limit": "<= 2"},
        {"what": f"{what}: fit, seconds", "value": fitted},
        {"what": f"{what}: scores of all rows, seconds", "value": placed},
        {"what": f"{what}: processor seconds of all workers", "value": sum(used.values())},
        {"what": f"{what}: largest entry of V'V - I", "value": uneven, "limit": "<= 1e-9"},
        {"what": f"{what}: subspace error, estimated", "value": model.certificate_.subspace_error_estimate},
    ]


def processor_seconds() -> float:
    spent = os.times()
    return spent.user + spent.system


def peak_memory() -> int:
    """Most bytes that this worker ever had resident."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith("VmHWM")))


def write_folder(folder: Path, rows: int, party: int) -> None:
    """Columns made of a few hidden quantities that all parties see, in single precision."""
    folder.mkdir()
    loadings = np.random.default_rng([party, 1]).standard_normal((HIDDEN, COLUMNS))
    for number, start in enumerate(range(0, rows, CHUNK)):
        count = min(CHUNK, rows - start)
        hidden = np.random.default_rng([number, 0]).standard_normal((count, HIDDEN))
        own = np.random.default_rng([number, 2 + party]).standard_normal((count, COLUMNS), dtype=np.float32)
        X = (hidden @ loadings + own).astype(np.float32)
        pl.DataFrame({f"x{j}": X[:, j] for j in range(COLUMNS)}).write_parquet(
            folder / f"part.{number}.parquet", compression="uncompressed"
        )


if __name__ == "__main__":
    main()
