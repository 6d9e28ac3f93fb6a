"""Table I: the paper's cost formulas beside what is counted and timed.

Counted: the numbers in the message a party sends. Timed, one thread: the slowest party, the center, and all of it
together; the released code instead divides the sum over parties by their number.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from dkpca import fusion, summarize
from dkpca.rank import Fixed
from experiments import complexity, protocol
from experiments.baselines import central, fan2019
from experiments.command import Options, described, main
from experiments.data import low_rank

TIMINGS = 3  # a time is the median of so many runs; it does not depend on what is drawn

A = TypeVar("A")


@dataclass(frozen=True)
class Settings:
    """A base case, and what its sizes are swept over."""

    n_samples: int = 400
    n_features: int = 400
    n_parties: int = 10
    rank: int = 10
    sweep_samples: tuple[int, ...] = (200, 400, 800, 1600)
    sweep_features: tuple[int, ...] = (200, 400, 800, 1600)
    sweep_parties: tuple[int, ...] = (2, 5, 10, 20)


QUICK = Settings(
    n_samples=60, n_features=60, n_parties=4, sweep_samples=(60, 90), sweep_features=(60, 90), sweep_parties=(2, 4)
)


@dataclass(frozen=True)
class Case:
    """One set of sizes."""

    n_samples: int
    n_features: int
    n_parties: int
    rank: int


def timing(settings: Settings, seed: int) -> list[dict[str, Any]]:
    """Every case once."""
    return [_measure(case, seed) for case in _cases(settings)]


def _cases(settings: Settings) -> list[Case]:
    base = Case(settings.n_samples, settings.n_features, settings.n_parties, settings.rank)
    wide = [
        *(Case(n, base.n_features, base.n_parties, base.rank) for n in settings.sweep_samples),
        *(Case(base.n_samples, n, base.n_parties, base.rank) for n in settings.sweep_features),
        *(Case(base.n_samples, base.n_features, n, base.rank) for n in settings.sweep_parties),
    ]
    return list(dict.fromkeys(wide))


def _measure(case: Case, seed: int) -> dict[str, Any]:
    X = low_rank(case.n_samples, case.n_features, case.rank, np.random.default_rng(seed))
    return {**case.__dict__, "dkpca": _dkpca(X, case), "dpca": _fan2019(X, case), "kpca": _kpca(X, case)}


def _dkpca(X: protocol.Matrix, case: Case) -> dict[str, float]:
    kernel = protocol.rbf(np.sqrt(case.n_features), "text")
    rule = Fixed(case.rank)
    answers = [
        _timed(partial(summarize, X[:, columns], party=f"party{j}", kernel=kernel, rank=rule))
        for j, columns in enumerate(protocol.equal_blocks(case.n_features, case.n_parties))
    ]
    summaries = [summary for (summary, _), _ in answers]
    _, center = _timed(lambda: fusion.fuse(summaries, n_components=case.rank))
    counted = max(summary.factor.shape[0] * summary.factor.shape[1] for summary in summaries)
    return _costs(counted, [seconds for _, seconds in answers], center) | {
        "formula_numbers": complexity.dkpca_communication(case.n_samples, case.rank),
        "formula_operations": complexity.dkpca_computation(
            case.n_samples, case.n_features, case.n_parties, case.rank
        ),
    }


def _fan2019(X: protocol.Matrix, case: Case) -> dict[str, float]:
    shares = np.array_split(X, case.n_parties)
    answers = [_timed(partial(fan2019.local_eigenvectors, rows, case.rank)) for rows in shares]
    received = [V for V, _ in answers]
    _, center = _timed(lambda: fan2019.fuse(received, case.rank))
    return _costs(max(V.size for V in received), [seconds for _, seconds in answers], center) | {
        "formula_numbers": complexity.dpca_communication(case.n_features, case.rank),
        "formula_operations": complexity.dpca_computation(case.n_samples, case.n_features, case.n_parties, case.rank),
    }


def _kpca(X: protocol.Matrix, case: Case) -> dict[str, float]:
    kernel = protocol.rbf(np.sqrt(case.n_features), "text")
    shares = [X[:, columns] for columns in protocol.equal_blocks(case.n_features, case.n_parties)]
    _, center = _timed(lambda: central.kernel_pca(np.hstack(shares), kernel, case.rank))
    return _costs(max(share.size for share in shares), [0.0], center) | {
        "formula_numbers": complexity.kpca_communication(case.n_samples, case.n_features, case.n_parties),
        "formula_operations": complexity.kpca_computation(case.n_samples),
    }


def _costs(numbers: int, party_seconds: list[float], center_seconds: float) -> dict[str, float]:
    return {
        "numbers_sent": numbers,
        "slowest_party_s": max(party_seconds),
        "center_s": center_seconds,
        "total_s": sum(party_seconds) + center_seconds,
    }


def _timed(work: Callable[[], A]) -> tuple[A, float]:
    start = perf_counter()
    return work(), perf_counter() - start


def run(options: Options, settings: Settings) -> None:
    """Table I of the paper."""
    runs = options.repeat("table1", timing, settings, count=min(TIMINGS, options.repetitions), alone=True)
    cases = [_median([run[i] for run in runs]) for i in range(len(runs[0]))]
    options.write("table1", {"settings": described(settings), "timings": len(runs), "cases": cases})


def _median(same_case: list[dict[str, Any]]) -> dict[str, Any]:
    """Median of every measured quantity; the counted ones are the same in every run."""
    return {
        key: value if not isinstance(value, dict) else {k: median(run[key][k] for run in same_case) for k in value}
        for key, value in same_case[0].items()
    }


if __name__ == "__main__":
    main(run, Settings(), QUICK)
