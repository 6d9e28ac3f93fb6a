"""Unusual sizes, each in a process of its own: how long, and how much memory. `python -m benchmarks.load`."""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import report
from dkpca import wire
from dkpca.errors import StorageError
from dkpca.fusion import fuse
from dkpca.kernels import RBF, Kernel, Linear
from dkpca.messages import Summary
from dkpca.party import summarize
from dkpca.rank import Auto, Fixed, RankRule
from dkpca.store import runs

RNG = np.random.default_rng(0)


def sent(X: Any, name: str, kernel: Kernel, rank: RankRule) -> Summary:
    """Return what a party sends."""
    return summarize(X, party=name, kernel=kernel, rank=rank)[0]


def many_parties(kernel: Kernel) -> None:
    """A thousand parties with one column each, about 300 samples."""
    X = RNG.standard_normal((300, 3)) @ RNG.standard_normal((3, 1000))
    fuse([sent(X[:, [j]], f"p{j}", kernel, Auto(5)) for j in range(1000)], n_components=5)


def wide_party() -> None:
    """One party with 50,000 columns about 300 samples."""
    fuse([sent(RNG.standard_normal((300, 50_000)), "wide", RBF(1 / 50_000), Auto(5))], n_components=5)


def two_samples() -> None:
    """Two samples, the fewest there can be."""
    X = RNG.standard_normal((2, 3))
    fuse([sent(X, "one", RBF(0.1), Auto(2)), sent(X + 1, "two", RBF(0.1), Auto(2))], n_components=2)


def rank_above_samples() -> None:
    """A rank above the number of samples: all eigenpairs that are more than rounding are sent."""
    fuse([sent(RNG.standard_normal((50, 4)), "one", RBF(0.1), Fixed(10_000))], n_components=50)


def messages_of(n_samples: int, rank: int, n_parties: int) -> None:
    """Fuse small messages about many samples; the landmark solver keeps the parties themselves small."""
    X = RNG.standard_normal((n_samples, n_parties))
    how: dict[str, Any] = {"kernel": RBF(0.1), "rank": Fixed(rank), "solver": "landmark"}
    fuse([summarize(X[:, [j]], party=f"p{j}", **how)[0] for j in range(n_parties)], n_components=1)


def parallel_fusions(*, together: bool) -> None:
    """A hundred fusions at once, eight at a time; into a hundred runs, or all into one."""
    X = RNG.standard_normal((200, 6))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"p{j}.summary" for j in range(3)]
        for j, file in enumerate(files):
            file.write_bytes(wire.encode(sent(X[:, 2 * j : 2 * j + 2], f"p{j}", RBF(0.1), Fixed(20))))

        def one(number: int) -> str:
            try:
                runs.fuse(Path(folder) / ("run" if together else f"run{number}"), files, n_components=3)
            except StorageError as error:
                return str(error)
            return "fused"

        with ThreadPoolExecutor(8) as pool:
            outcomes = list(pool.map(one, range(100)))
        turned_away = [outcome for outcome in outcomes if outcome != "fused"]
        assert all("another dkpca command is at work there" in outcome for outcome in turned_away)
        assert len(turned_away) < 100 if together else not turned_away
        runs.load(Path(folder) / ("run" if together else "run7"))


SCENARIOS: dict[str, Callable[[], None]] = {
    "nothing but the imports": lambda: None,
    "1,000 parties of one column, 300 samples, RBF": lambda: many_parties(RBF(0.001)),
    "1,000 parties of one column, 300 samples, linear": lambda: many_parties(Linear()),
    "one party of 50,000 columns, 300 samples": wide_party,
    "2 samples, 2 parties": two_samples,
    "rank 10,000 asked of 50 samples": rank_above_samples,
    "17 kB of messages: 2,000 samples, rank 1, 2 parties": lambda: messages_of(2000, 1, 2),
    "1.5 MB of messages: 8,000 samples, rank 12, 4 parties": lambda: messages_of(8000, 12, 4),
    "100 fusions in parallel into 100 runs": lambda: parallel_fusions(together=False),
    "100 fusions in parallel into one run": lambda: parallel_fusions(together=True),
}


def measured(name: str) -> dict[str, float]:
    """Run one scenario in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks.load", "--only", name], capture_output=True, text=True, check=True
    )
    answer: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    return answer


def main() -> None:
    """Measure all scenarios, or run one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only")
    only = parser.parse_args().only
    if only:
        start = time.perf_counter()
        SCENARIOS[only]()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps({"seconds": time.perf_counter() - start, "megabytes": peak}))
        return
    lines = []
    for name in SCENARIOS:
        answer = measured(name)
        lines.append({"what": f"{name}: seconds", "value": answer["seconds"]})
        lines.append({"what": f"{name}: MB at the peak", "value": answer["megabytes"]})
    report("load", lines)


if __name__ == "__main__":
    main()
