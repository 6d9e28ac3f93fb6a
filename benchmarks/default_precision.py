"""What `precision="compact"` would cost and give as the default: `rank="auto"` in it over the same in float32.

`python -m benchmarks.default_precision`, with `--data FOLDER` also on the paper's data. Times are processor time, so
that a busy machine changes them little.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.decomposition import KernelPCA
from sklearn.preprocessing import StandardScaler

from benchmarks.flights import flights
from benchmarks.library import gse2187
from benchmarks.measure import report
from dkpca import DKPCA, recovery, subspace_error

COMPONENTS = 10
FLIGHTS = 3000
MEASURED = 4  # parties that attack their own message

Parties = dict[str, np.ndarray]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with gse2187_value.npz")
    report("compact-default", [line for name, X in tables(parser.parse_args().data) for line in compared(name, X)])


def tables(folder: Path | None) -> Iterator[tuple[str, Parties]]:
    yield "digits", _cut(load_digits().data[:1000], 4)
    for name, load in (("breast cancer", load_breast_cancer), ("wine", load_wine)):
        yield name, _cut(StandardScaler().fit_transform(load().data), 3)
    all_flights = flights()
    n = next(iter(all_flights.values())).shape[0]
    rows = np.sort(np.random.default_rng(0).permutation(n)[:FLIGHTS])
    yield f"{FLIGHTS} flights", {owner: X[rows] for owner, X in all_flights.items()}
    if folder is not None:
        X = gse2187(folder)
        yield from ((f"GSE2187, {parties} parties", _cut(X, parties)) for parties in (4, 60))


def compared(name: str, X: Parties) -> list[dict[str, object]]:
    """Bytes, error, time and recovery in compact precision, over or beside those in float32."""
    plain, compact = _measured(X, "float32"), _measured(X, "compact")
    what = f"{name} (mean rank {plain['rank']:.0f} in float32, {compact['rank']:.0f} in compact)"
    return [
        {"what": f"{what}: bytes, compact / float32", "value": compact["bytes"] / plain["bytes"]},
        {"what": f"{what}: subspace error, compact / float32", "value": compact["error"] / plain["error"]},
        {"what": f"{what}: processor time, compact / float32", "value": compact["time"] / plain["time"]},
        {"what": f"{what}: mean R² recovered from 30 known rows, float32", "value": plain["recovery"]},
        {"what": f"{what}: mean R² recovered from 30 known rows, compact", "value": compact["recovery"]},
    ]


def _measured(X: Parties, precision: str) -> dict[str, float]:
    start = time.process_time()
    model = DKPCA(COMPONENTS, gamma="scale", precision=precision).fit(X)
    took = time.process_time() - start
    truth = KernelPCA(COMPONENTS, kernel="rbf", gamma=model.gamma_).fit(np.hstack(list(X.values()))).eigenvectors_
    attacked = [recovery.measure(model.model_.summaries[party], X[party]) for party in list(X)[:MEASURED]]
    return {
        "bytes": sum(entry.bytes_sent for entry in model.ledger_),
        "error": subspace_error(truth, model.eigenvectors_),
        "rank": float(np.mean([entry.rank for entry in model.ledger_])),
        "time": took,
        "recovery": float(np.mean([np.mean(found.columns) for found in attacked])),
    }


def _cut(X: np.ndarray, parties: int) -> Parties:
    return {f"party{j}": part for j, part in enumerate(np.array_split(X, parties, axis=1))}


if __name__ == "__main__":
    main()
