"""Timing and reporting shared by the benchmarks: ratios of medians measured in one run."""

import datetime
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def seconds(work: Callable[[], object], repetitions: int = 7) -> float:
    """Median wall time of a call after one to warm up."""
    work()
    return statistics.median(once(work) for _ in range(repetitions))


def once(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Time of one call, by the wall clock if no other is given."""
    start = clock()
    work()
    return clock() - start


def seconds_in_turn(
    works: dict[str, Callable[[], object]], rounds: int = 7, clock: Callable[[], float] = time.perf_counter
) -> list[dict[str, float]]:
    """Times of several pieces of work, round by round, so that a busy machine slows all of them alike."""
    for work in works.values():
        work()
    return [{name: once(work, clock) for name, work in works.items()} for _ in range(rounds)]


def median_ratio(rounds: list[dict[str, float]], above: Callable[[dict[str, float]], float], below: str) -> float:
    """Median over the rounds of one time, or of some sum of times, over another."""
    return statistics.median(above(times) / times[below] for times in rounds)


def gemm_rate(n: int = 2000, dtype: Any = np.float64) -> float:
    """Floating point operations a second of a bare square matrix product on this machine, now."""
    a = np.random.default_rng(0).standard_normal((n, n)).astype(dtype)
    return 2 * n**3 / seconds(lambda: a @ a, 3)


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    packages = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"cores": os.cpu_count(), "machine": platform.machine(), "python": platform.python_version()} | packages


def before(name: str) -> list[dict[str, Any]]:
    """Lines of the last report of this name."""
    lines: list[dict[str, Any]] = json.loads((RESULTS / f"{name}.json").read_text())["lines"]
    return lines


def report(name: str, lines: list[dict[str, Any]]) -> None:
    """Print a table and keep it as JSON."""
    RESULTS.mkdir(exist_ok=True)
    document = {"date": datetime.date.today().isoformat(), "machine": machine(), "lines": lines}
    (RESULTS / f"{name}.json").write_text(json.dumps(document, indent=1) + "\n")
    print(f"\n{name}: {document['machine']}")
    for line in lines:
        print(f"  {line['what']:<72} {line['value']:>12.4g}   {line.get('limit', '')}")
