"""Beyond the paper: time, memory, bytes and error as the number of samples grows, on flights out of New York.

Four owners (airline, weather, aircraft registry, airport). Every T runs in a process of its own, so that its peak
memory is its own; central kernel PCA runs beside it as long as a T x T matrix is reasonable.
"""

import multiprocessing
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from benchmarks.flights import flights
from dkpca import DKPCA, fusion, subspace_error, summarize
from dkpca.kernels import RBF, Kernel
from dkpca.rank import Fixed
from experiments import protocol
from experiments.baselines import central
from experiments.command import Options, described, main

Tables = dict[str, np.ndarray]


@dataclass(frozen=True)
class Settings:
    """Rows drawn without replacement; the smaller tables are the first rows of the larger ones."""

    n_samples: tuple[int, ...] = (500, 1000, 2000, 4000, 20_000, 80_000, 232_412)
    n_components: int = 10
    rank: int = 40
    solver: str = "auto"
    central_up_to: int = 4000
    seed: int = 0


QUICK = Settings(n_samples=(100, 200), central_up_to=200)


def sizes(settings: Settings, seed: int) -> dict[str, Any]:
    """One T; `seed` counts the list of them."""
    return _in_own_process(_one_size, settings, _tables(settings, settings.n_samples[seed]))


def central_sizes(settings: Settings, seed: int) -> dict[str, Any]:
    """Central kernel PCA at one T, or nothing beyond the limit."""
    n = settings.n_samples[seed]
    return _in_own_process(_central, settings, _tables(settings, n)) if n <= settings.central_up_to else {}


def _one_size(settings: Settings, tables: Tables) -> dict[str, Any]:
    n = len(next(iter(tables.values())))
    baseline = _peak()
    model, seconds = _fit(settings, tables)
    result = {
        "n_samples": n,
        "fit_s": seconds,
        "peak_mb": _peak() - baseline,
        "bytes_sent": sum(entry.bytes_sent for entry in model.ledger_),
        "bytes_raw": sum(entry.bytes_raw for entry in model.ledger_),
        "optimality_at_least": model.certificate_.optimality_at_least,
        "captured_at_least": model.certificate_.captured_share_at_least,
        **_parts(settings, tables, model.kernel_),
    }
    if n <= settings.central_up_to:
        X = np.hstack(list(tables.values()))
        true = protocol.truth(X, model.kernel_, settings.n_components, center=True)
        result["subspace_error"] = subspace_error(true, np.asarray(model.eigenvectors_))
    return result


def _central(settings: Settings, tables: Tables) -> dict[str, Any]:
    X = np.hstack(list(tables.values()))
    kernel = RBF(1.0 / (2.0 * float(X.var(axis=0, ddof=1).sum())))
    baseline, start = _peak(), perf_counter()
    central.kernel_pca(X, kernel, settings.n_components)
    return {"central_s": perf_counter() - start, "central_peak_mb": _peak() - baseline}


def _fit(settings: Settings, tables: Tables) -> tuple[DKPCA, float]:
    start = perf_counter()
    model = DKPCA(
        settings.n_components, gamma="scale", rank=settings.rank, solver=settings.solver, random_state=settings.seed
    ).fit(tables)
    return model, perf_counter() - start


def _parts(settings: Settings, tables: Tables, kernel: Kernel) -> dict[str, float]:
    """Seconds of the slowest party and of the center, measured apart."""
    seconds, summaries = [], []
    for name, X in tables.items():
        start = perf_counter()
        summary, _ = summarize(X, party=name, kernel=kernel, rank=Fixed(settings.rank), solver=settings.solver)
        seconds.append(perf_counter() - start)
        summaries.append(summary)
    start = perf_counter()
    fusion.fuse(summaries, n_components=settings.n_components, solver=settings.solver)
    return {"slowest_party_s": max(seconds), "center_s": perf_counter() - start}


def _tables(settings: Settings, n: int) -> Tables:
    rows = np.random.default_rng(settings.seed).permutation(len(_everything()["airline"]))[:n]
    return {name: X[rows] for name, X in _everything().items()}


@cache
def _everything() -> Tables:
    return flights()


def _peak() -> float:
    """Peak memory of this process so far, in megabytes, as Linux counts it."""
    # Not getrusage: its peak survives exec, so a child would start with that of its parent.
    status = Path("/proc/self/status").read_text()
    return float(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) / 1024.0


def _in_own_process(work: Any, settings: Settings, tables: Tables) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (settings, tables))


def run(options: Options, settings: Settings) -> None:
    """Time, memory and error over the number of samples."""
    count = len(settings.n_samples)
    ours = options.repeat("scale", sizes, settings, count=count, alone=True)
    theirs = options.repeat("scale", central_sizes, settings, count=count, alone=True)
    rows = [{**a, **b} for a, b in zip(ours, theirs, strict=True)]
    options.write("scale", {"settings": described(settings), "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
