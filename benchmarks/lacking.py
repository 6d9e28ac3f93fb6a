"""All flights, each of four parties lacking a fifth of them: what completing rows costs beside a fit of all rows.

`python -m benchmarks.lacking` runs each fit in a process of its own, in turns, and prints processor time and memory.
"""

import json
import resource
import subprocess
import sys
import time
import warnings
from statistics import median
from typing import Any

import numpy as np

from benchmarks.flights import flights
from benchmarks.measure import report
from dkpca import DKPCA
from dkpca.errors import DataWarning

LACKING = 0.2  # share of the flights that each party lacks
ROUNDS = 3
NAMES = {"whole": "no samples missing", "mean": 'lacking="mean"', "complete": 'lacking="complete"'}


def measured(mode: str) -> dict[str, float]:
    """Fit once: seconds of processor time, and gigabytes of memory at most."""
    tables, rng = flights(), np.random.default_rng(0)
    asked: dict[str, Any] = {"rank": 40, "solver": "landmark", "n_landmarks": 500}
    asked["gamma"] = 1.0 / (2.0 * sum(X.shape[1] for X in tables.values()))
    share = 0.0 if mode == "whole" else LACKING
    has = {name: np.flatnonzero(rng.random(len(X)) >= share) for name, X in tables.items()}
    ids = {name: [str(row) for row in rows] for name, rows in has.items()}
    if mode != "whole":
        tables = {name: X[has[name]] for name, X in tables.items()}
        asked["lacking"] = mode
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # the certificate has what it says
        DKPCA(10, **asked).fit(tables, sample_ids=ids)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return {"processor": time.process_time() - start, "memory": memory}


def main() -> None:
    """Measure in turns; write medians."""
    modes, found = tuple(NAMES), []
    for _ in range(ROUNDS):
        for mode in modes:
            done = subprocess.run([sys.executable, "-m", "benchmarks.lacking", mode], capture_output=True, check=True)
            found.append({"mode": mode, **json.loads(done.stdout)})
    times = {mode: median(one["processor"] for one in found if one["mode"] == mode) for mode in modes}
    memory = {mode: max(one["memory"] for one in found if one["mode"] == mode) for mode in modes}
    lines: list[dict[str, Any]] = [
        {"what": f"{NAMES[mode]}: processor seconds", "value": times[mode]} for mode in modes
    ]
    lines += [{"what": f"{NAMES[mode]}: peak memory, GB", "value": memory[mode]} for mode in modes]
    lines += [
        {
            "what": "time with completed rows / without missing samples",
            "value": times["complete"] / times["whole"],
            "limit": "<= 2",
        },
        {
            "what": "additional memory with completed rows, GB",
            "value": memory["complete"] - memory["whole"],
            "limit": "<= 1",
        },
    ]
    report("lacking", lines)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1])))
    else:
        main()
