"""A small fit beside scikit-learn's `KernelPCA`: 500 samples of 20 columns, and the import of both.

`python -m benchmarks.small`: processor time, medians of rounds in turn, one BLAS thread.
"""

import sys
import time
from collections.abc import Callable
from statistics import median

import numpy as np
from sklearn.decomposition import KernelPCA
from threadpoolctl import threadpool_limits

from benchmarks.measure import report
from benchmarks.startup import processor_seconds
from dkpca import DKPCA

N, WIDTH, COMPONENTS, ROUNDS = 500, 20, 10, 15
LIMIT, IMPORT_LIMIT = 4.0, 1.3


def main() -> None:
    lines = [line for name, X in tables().items() for line in measured(name, X)]
    ours = processor_seconds(sys.executable, "-c", "from dkpca import DKPCA")
    theirs = processor_seconds(sys.executable, "-c", "from sklearn.decomposition import KernelPCA")
    lines.append({"what": "import of DKPCA / of KernelPCA", "value": ours / theirs, "limit": f"<= {IMPORT_LIMIT}"})
    report("small", lines)


def tables() -> dict[str, np.ndarray]:
    """Return columns that have nothing in common, and columns that share five directions."""
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((N, WIDTH))
    return {"noise": noise, "correlated": rng.standard_normal((N, 5)) @ rng.standard_normal((5, WIDTH)) + 0.3 * noise}


def measured(name: str, X: np.ndarray) -> list[dict[str, object]]:
    gamma = 1 / (2 * X.var(axis=0).sum())
    works: dict[str, Callable[[], object]] = {
        "sklearn": lambda: KernelPCA(COMPONENTS, kernel="rbf", gamma=gamma).fit(X),
        "one party": lambda: DKPCA(COMPONENTS, gamma=gamma).fit({"a": X}),
        "two parties": lambda: DKPCA(COMPONENTS, gamma=gamma).fit({"a": X[:, : WIDTH // 2], "b": X[:, WIDTH // 2 :]}),
    }
    with threadpool_limits(1):
        rounds = [{each: processor_time(work) for each, work in works.items()} for _ in range(ROUNDS)]
    return [
        {
            "what": f"{N} x {WIDTH}, {name}, {each}: processor time / KernelPCA",
            "value": median(times[each] / times["sklearn"] for times in rounds),
            "limit": f"<= {LIMIT:g}",
        }
        for each in ("one party", "two parties")
    ]


def processor_time(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


if __name__ == "__main__":
    main()
