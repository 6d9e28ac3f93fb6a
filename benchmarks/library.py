"""Cost and accuracy of the paper's own setting: T = 537, M = 8466, 60 parties, 10 components.

Run with `make bench`; `make bench DATA=folder` adds the lines that need the paper's data (gse2187_value.npz).
"""

import argparse
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.decomposition import KernelPCA
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.measure import median_ratio, report, seconds_in_turn
from dkpca import DKPCA, subspace_error, summarize
from dkpca.fusion import fuse
from dkpca.kernels import RBF
from dkpca.messages import Summary
from dkpca.rank import Fixed

T, M, J, D = 537, 8466, 60, 10
GAMMA = 9 / (2 * M)  # sigma = sqrt(M) / 3 in the convention of the paper's text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with gse2187_value.npz")
    folder = parser.parse_args().data
    report("library-cost", cost(gse2187(folder) if folder else synthetic()))
    report("auto-rank", auto_rank())
    if folder:
        report("library-accuracy", accuracy(gse2187(folder)))


def synthetic() -> np.ndarray:
    """Low-rank signal in noise, in the shape of the paper's data."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((T, 20)) @ rng.standard_normal((20, M)) / 9 + 0.3 * rng.standard_normal((T, M))


def gse2187(folder: Path) -> np.ndarray:
    """The paper's data by the paper's rule: drop genes over 10 % missing, fill the rest with the mean."""
    with np.load(folder / "gse2187_value.npz", allow_pickle=False) as archive:
        X = archive["X"].astype(float)
    X = X[:, np.isnan(X).mean(0) <= 0.1]
    return np.where(np.isnan(X), np.nanmean(X, 0), X)


def cost(X: np.ndarray) -> list[dict[str, object]]:
    """Processor time of the slowest party, the center and all parties, over scikit-learn's: one BLAS thread."""
    kernel, blocks = RBF(GAMMA), np.array_split(X, J, axis=1)

    def summary(j: int) -> Summary:
        return summarize(blocks[j], party=f"p{j}", kernel=kernel, rank=Fixed(15), precision="float64")[0]

    summaries = [summary(j) for j in range(J)]
    works: dict[str, Callable[[], object]] = {f"p{j}": partial(summary, j) for j in range(J)}
    works["pooled"] = lambda: KernelPCA(D, kernel="rbf", gamma=GAMMA).fit(X)
    works["center"] = lambda: fuse(summaries, n_components=D)
    with threadpool_limits(1):
        rounds = seconds_in_turn(works, clock=time.process_time)

    def parties(times: dict[str, float]) -> list[float]:
        return [times[f"p{j}"] for j in range(J)]

    def ratio(above: Callable[[dict[str, float]], float]) -> float:
        return median_ratio(rounds, above, "pooled")

    return [
        {"what": "pooled KernelPCA, seconds", "value": median(times["pooled"] for times in rounds)},
        {
            "what": "(slowest party + center) / pooled KernelPCA",
            "value": ratio(lambda times: max(parties(times)) + times["center"]),
            "limit": "<= 1",
        },
        {"what": "center / pooled KernelPCA", "value": ratio(lambda times: times["center"])},
        {"what": "sum over parties / pooled KernelPCA", "value": ratio(lambda t: sum(parties(t))), "limit": "< 10"},
    ]


def auto_rank() -> list[dict[str, object]]:
    """Subspace error of rank="auto" for 10 components, on data that scikit-learn ships."""
    digits = load_digits().data[:1000]
    cancer = StandardScaler().fit_transform(load_breast_cancer().data)
    lines: list[dict[str, object]] = []
    for name, X, numbers in (("digits", digits, (2, 4, 8)), ("breast cancer", cancer, (3, 6))):
        for parties in numbers:
            model = DKPCA(D, gamma="scale", parties=parties).fit(X)
            truth = KernelPCA(D, kernel="rbf", gamma=model.gamma_).fit(X).eigenvectors_
            ranks = [entry.rank for entry in model.ledger_]
            what = f"{name}, {parties} parties: subspace error at ranks {min(ranks)} to {max(ranks)}"
            lines.append({"what": what, "value": subspace_error(truth, model.eigenvectors_), "limit": "<= 1e-2"})
    return lines


def accuracy(X: np.ndarray) -> list[dict[str, object]]:
    """Subspace error against pooled kernel PCA at the same bytes on the wire."""
    truth = KernelPCA(D, kernel="rbf", gamma=GAMMA).fit(X).eigenvectors_
    settings: list[tuple[int | str, str]] = [(15, "float64"), (30, "float32"), (60, "float16"), ("auto", "float32")]
    errors = {}
    lines: list[dict[str, object]] = []
    for rank, precision in settings:
        model = DKPCA(D, gamma=GAMMA, parties=J, rank=rank, precision=precision).fit(X)
        errors[rank] = subspace_error(truth, model.eigenvectors_)
        sent = sum(entry.bytes_sent for entry in model.ledger_)
        lines.append({"what": f"subspace error, rank {rank}, {precision}, {sent} bytes", "value": errors[rank]})
    lines[-1]["limit"] = "<= 1e-2"
    ratio = errors[15] / errors[60]
    return [*lines, {"what": "rank 15 float64 error / rank 60 float16 error", "value": ratio, "limit": ">= 100"}]


if __name__ == "__main__":
    main()
