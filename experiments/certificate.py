"""Beyond the paper: what the center can prove against what is true, over the parties' rank.

Simulated data with the linear kernel, GSE2187 with the RBF kernel; float32 on the wire, as by default.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca import fusion, subspace_error, summarize
from dkpca.kernels import Kernel, Linear
from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg.gram import Centered, Gram
from dkpca.linalg.leading import leading
from dkpca.rank import Fixed
from experiments import protocol, whole
from experiments.command import Options, described, expression, main, mean_std
from experiments.data import low_rank


@dataclass(frozen=True)
class Settings:
    """Few parties: the bound on the kernel adds up over them."""

    n_components: int = 10
    n_parties: int = 10
    n_samples: int = 400
    n_features: int = 1000
    ranks: tuple[int, ...] = (5, 10, 15, 30)
    real_ranks: tuple[int, ...] = (15, 60, 240)
    precision: str = "float32"
    data: str | None = None


QUICK = Settings(n_parties=3, n_samples=60, n_features=60, ranks=(10, 20), real_ranks=(15, 60))


def simulated(settings: Settings, seed: int) -> list[dict[str, float]]:
    """Bounds and truth on one draw of the simulated data, over the rank."""
    X = low_rank(settings.n_samples, settings.n_features, settings.n_components, np.random.default_rng(seed))
    blocks = protocol.equal_blocks(X.shape[1], settings.n_parties)
    return _bounds(settings, X, blocks, Linear(centered=False), settings.ranks, center=False)


def real(settings: Settings, seed: int) -> list[dict[str, float]]:
    """Bounds and truth on GSE2187, genes in a random order, kernel width as printed."""
    X = expression(settings.data).X
    blocks = protocol.equal_blocks(X.shape[1], settings.n_parties, np.random.default_rng(seed))
    kernel = whole.kernel(settings.data, "text")
    return _bounds(settings, X, blocks, kernel, settings.real_ranks, center=True)


def _bounds(
    settings: Settings,
    X: protocol.Matrix,
    blocks: protocol.Blocks,
    kernel: Kernel,
    ranks: tuple[int, ...],
    *,
    center: bool,
) -> list[dict[str, float]]:
    exact: Gram = KernelGram(kernel, X)
    exact = Centered(exact) if center else exact
    K = exact.dense()
    best = leading(exact, settings.n_components)
    rows = []
    for rank in ranks:
        summaries = [
            summarize(X[:, c], party=f"party{j}", kernel=kernel, rank=Fixed(rank), precision=settings.precision)[0]
            for j, c in enumerate(blocks)
        ]
        model = fusion.fuse(summaries, n_components=settings.n_components, center=center)
        fused: Gram = FusedGram(model.law, [s.factor.decode() for s in model.summaries.values()])
        proved, V = model.certificate, model.eigenvectors
        rows.append(
            {
                "rank": rank,
                "kernel_error": float(np.linalg.norm(K - (Centered(fused) if center else fused).dense(), 2)),
                "kernel_error_bound": proved.kernel_norm_bound,
                "subspace_error": subspace_error(best.vectors, V),
                "subspace_error_bound": min(proved.subspace_error_at_most, float(proved.subspace_error_trivial)),
                "subspace_error_estimate": proved.subspace_error_estimate,
                "theorem_1_squared": min(proved.theorem_1**2, float(proved.subspace_error_trivial)),
                "optimality": float(np.sum(V * (K @ V)) / np.sum(best.values)),
                "optimality_bound": proved.optimality_at_least,
                "optimality_estimate": proved.optimality_estimate,
            }
        )
    return rows


def run(options: Options, settings: Settings) -> None:
    """Certificate against truth."""
    drawn = options.repeat("certificate", simulated, settings)
    measured = options.repeat("certificate", real, settings, real_data=True)
    options.write(
        "certificate",
        {
            "settings": described(settings),
            "repetitions": options.repetitions,
            "simulated": _collect(drawn),
            "real": _collect(measured),
        },
    )


def _collect(trials: list[list[dict[str, float]]]) -> list[dict[str, Any]]:
    """Means over repetitions, and how often a bound was broken (never, if the proofs are right)."""
    return [
        {
            "rank": trials[0][i]["rank"],
            "broken": sum(_broken(trial[i]) for trial in trials),
            **{key: mean_std([trial[i][key] for trial in trials]) for key in trials[0][i] if key != "rank"},
        }
        for i in range(len(trials[0]))
    ]


def _broken(row: dict[str, float]) -> int:
    return (
        (row["kernel_error"] > row["kernel_error_bound"])
        + (row["subspace_error"] > row["subspace_error_bound"])
        + (row["optimality"] < row["optimality_bound"])
    )


if __name__ == "__main__":
    main(run, Settings(), QUICK)
