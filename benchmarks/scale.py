"""More samples than a T x T matrix allows, on the cores of this machine.

`python -m benchmarks.scale` measures everything; each size runs in a process of its own, for its own peak memory.
Ratios are taken against two things measured in the same process, just before and after: a bare GEMM of the same
number of operations, and scikit-learn's Nystroem followed by PCA on the pooled columns with as many landmarks.
"""

import argparse
import json
import resource
import subprocess
import sys
from math import log
from statistics import median
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.flights import N_FLIGHTS, flights
from benchmarks.measure import gemm_rate, median_ratio, once, report, seconds_in_turn
from dkpca import DKPCA, FusedModel, fuse, subspace_error
from dkpca.kernels import RBF
from dkpca.kernels.grams import FusedGram
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading

RANK, COMPONENTS, LANDMARKS = 40, 10, 500
RUNS = 3
SIZES = (N_FLIGHTS // 8, N_FLIGHTS // 4, N_FLIGHTS // 2, N_FLIGHTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=["flights", "million", "streamed", "error", "laws"])
    parser.add_argument("--size", type=int)
    arguments = parser.parse_args()
    if arguments.only:
        measured = {
            "flights": measure_flights,
            "million": measure_million,
            "streamed": measure_streamed,
            "error": measure_error,
            "laws": measure_laws,
        }
        print(json.dumps(measured[arguments.only](arguments.size)))
        return
    report("scale", [*flight_lines(), *million_lines(), *streamed_lines(), *error_lines(), *law_lines()])


def in_a_process(only: str, size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scale", "--only", only, "--size", str(size)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])


def median_of_runs(only: str, size: int) -> dict[str, float]:
    """Medians of what several processes measured: a machine that is shared is slow at times."""
    runs = [in_a_process(only, size) for _ in range(RUNS)]
    return {name: median(run[name] for run in runs) for name in runs[0]}


def flight_lines() -> list[dict[str, object]]:
    runs = {size: median_of_runs("flights", size) for size in SIZES}
    last, first = runs[SIZES[-1]], runs[SIZES[0]]
    slope = log(last["seconds"] / first["seconds"]) / log(SIZES[-1] / SIZES[0])
    what = f"flights, T = {SIZES[-1]}, 4 parties, rank {RANK}, {LANDMARKS} landmarks"
    return [
        {"what": f"{what}: seconds", "value": last["seconds"]},
        {"what": f"{what}: peak memory, GB", "value": last["peak_gb"], "limit": "<= 3"},
        {"what": f"{what}: time / bare GEMM of the same flops", "value": last["over_gemm"], "limit": "<= 3"},
        {"what": f"{what}: time / pooled Nystroem + PCA", "value": last["over_nystroem"], "limit": "<= 1.3"},
        {"what": f"log-log slope of time over T from {SIZES[0]} to {SIZES[-1]}", "value": slope, "limit": "<= 1.1"},
    ]


def million_lines() -> list[dict[str, object]]:
    run = median_of_runs("million", 1_000_000)
    what = "1,000,000 synthetic samples, 4 parties of 16 columns, rank 30"
    return [
        {"what": f"{what}: seconds", "value": run["seconds"], "limit": "<= 30"},
        {"what": f"{what}: peak memory, GB", "value": run["peak_gb"], "limit": "<= 3"},
        {"what": f"{what}: time / pooled Nystroem + PCA", "value": run["over_nystroem"], "limit": "<= 1.3"},
    ]


def streamed_lines() -> list[dict[str, object]]:
    run = in_a_process("streamed", 20_000)
    return [
        {
            "what": "streamed product, T = 20,000: flop rate / bare GEMM rate",
            "value": run["over_gemm"],
            "limit": ">= 0.5",
        },
        {
            "what": "streamed fit, T = 20,000: peak memory beyond the factors, GB",
            "value": run["beyond_gb"],
            "limit": "<= 1",
        },
        {"what": "streamed fit, T = 20,000: seconds", "value": run["seconds"]},
    ]


def error_lines() -> list[dict[str, object]]:
    run = in_a_process("error", SIZES[0])
    what = f"flights, T = {SIZES[0]}: subspace error of {LANDMARKS} landmarks against streamed"
    return [{"what": what, "value": run["error"], "limit": "<= 1e-3"}]


def law_lines() -> list[dict[str, object]]:
    run = in_a_process("laws", N_FLIGHTS)
    assert run["exact"], "the sum law is solved exactly"
    what = f"flights, T = {N_FLIGHTS}, 4 parties, rank {RANK}, fused by the sum law"
    return [
        {
            "what": f"{what}: time / product law by {LANDMARKS} landmarks",
            "value": run["ratio"],
            "limit": "<= 1",
        },
        {"what": f"{what}: subspace error against the SVD of all factors", "value": run["error"], "limit": "<= 1e-9"},
    ]


def subsample(size: int) -> dict[str, np.ndarray]:
    rows = np.random.default_rng(0).permutation(N_FLIGHTS)[:size]
    return {owner: X[rows] for owner, X in flights().items()}


def estimator(**settings: Any) -> DKPCA:
    return DKPCA(COMPONENTS, gamma="scale", rank=RANK, solver="landmark", n_landmarks=LANDMARKS, **settings)


def pooled(gamma: float | None) -> Pipeline:
    """What somebody who holds all columns would do in their place."""
    return make_pipeline(Nystroem(gamma=gamma, n_components=LANDMARKS, random_state=0), PCA(COMPONENTS))


def flops(n: int, columns: list[int], ranks: list[int], landmarks: int) -> float:
    """Multiplications and additions of the matrix products that the landmark route cannot do without."""

    def landmark_solver(width: int, m: int, k: int) -> float:
        evaluate, pivot, gram, lift = 2 * width * m, m**2, m**2, 2 * m * k
        return n * (evaluate + pivot + gram + lift)

    parties = sum(landmark_solver(M, 4 * r, r) for M, r in zip(columns, ranks, strict=True))
    return parties + landmark_solver(sum(ranks), landmarks, COMPONENTS)


def measure_flights(size: int) -> dict[str, float]:
    tables = subsample(size)
    before = gemm_rate()
    model = estimator()
    seconds = once(lambda: model.fit(tables))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    rate = (before + gemm_rate()) / 2
    X = np.hstack(list(tables.values()))
    nystroem = once(lambda: pooled(model.gamma_).fit_transform(X))
    work = flops(size, [X.shape[1] for X in tables.values()], [e.rank for e in model.ledger_], LANDMARKS)
    return {
        "seconds": seconds,
        "peak_gb": peak,
        "over_gemm": seconds * rate / work,
        "over_nystroem": seconds / nystroem,
    }


def measure_million(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((size, 6))
    tables = {
        f"party{j}": latent @ rng.standard_normal((6, 16)) + 0.5 * rng.standard_normal((size, 16)) for j in range(4)
    }
    model = DKPCA(COMPONENTS, gamma="scale", rank=30, solver="landmark")
    seconds = once(lambda: model.fit(tables))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    nystroem = once(lambda: pooled(model.gamma_).fit_transform(np.hstack(list(tables.values()))))
    return {"seconds": seconds, "peak_gb": peak, "over_nystroem": seconds / nystroem}


def measure_streamed(size: int) -> dict[str, float]:
    rng = np.random.default_rng(0)
    factors = [rng.standard_normal((size, RANK)) / 1.2 ** np.arange(RANK) for _ in range(4)]
    fused = FusedGram(RBF(1.0).law, factors)
    block = rng.standard_normal((size, 2 * COMPONENTS))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rate = gemm_rate()
    product = once(lambda: fused @ block)
    rate = (rate + gemm_rate()) / 2
    seconds = once(lambda: leading(Centered(fused), COMPONENTS, solver="streamed"))
    work = size**2 * (4 * RANK + 2 * block.shape[1])
    beyond = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 / 1e9
    return {"over_gemm": work / product / rate, "beyond_gb": beyond, "seconds": seconds}


def measure_error(size: int) -> dict[str, float]:
    tables = subsample(size)
    landmark = estimator().fit(tables)
    factors = [summary.factor.decode() for summary in landmark.model_.summaries.values()]
    exact = leading(Centered(FusedGram(landmark.model_.law, factors)), COMPONENTS, solver="streamed")
    return {"error": subspace_error(exact.vectors, landmark.eigenvectors_)}


def measure_laws(size: int) -> dict[str, float]:
    """The center alone, on the same messages, in turns."""
    sent = list(estimator().fit(subsample(size)).model_.summaries.values())

    def fused(law: str, solver: str) -> FusedModel:
        return fuse(sent, n_components=COMPONENTS, law=law, solver=solver, n_landmarks=LANDMARKS)

    rounds = seconds_in_turn(
        {"product": lambda: fused("product", "landmark"), "sum": lambda: fused("sum", "auto")}, 3
    )
    model = fused("sum", "auto")
    joined = np.hstack([summary.factor.decode() for summary in sent])
    joined -= joined.mean(axis=0)
    true = np.linalg.svd(joined, full_matrices=False)[0][:, :COMPONENTS]
    return {
        "ratio": median_ratio(rounds, lambda times: times["sum"], "product"),
        "error": subspace_error(true, model.eigenvectors),
        "exact": float(model.certificate.probe is None),
    }


if __name__ == "__main__":
    main()
