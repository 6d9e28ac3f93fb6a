"""Beyond the paper: error against rounds of communication, linear kernel, simulated data and GSE2187.

One-shot DKPCA against exact subspace iteration from a random start, and the iteration started from DKPCA's answer.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from dkpca import subspace_error
from dkpca.kernels import Linear
from dkpca.linalg.leading import leading
from dkpca.rank import Fixed
from experiments import protocol
from experiments.baselines import subspace_iteration
from experiments.command import Options, described, expression, main, mean_std
from experiments.data import low_rank

Matrix = protocol.Matrix


@dataclass(frozen=True)
class Settings:
    """Ten components; the parties' ranks in the one round of DKPCA."""

    n_components: int = 10
    ranks: tuple[int, ...] = (15, 30, 60)
    n_rounds: int = 40
    n_samples: int = 400
    n_features: int = 1000
    n_parties: int = 10
    real_n_parties: int = 60
    data: str | None = None


QUICK = Settings(ranks=(10, 15), n_rounds=5, n_samples=60, n_features=80, n_parties=4, real_n_parties=6)


def simulated(settings: Settings, seed: int) -> dict[str, Any]:
    """Rounds on the simulated data, not centered, as in the paper."""
    rng = np.random.default_rng(seed)
    X = low_rank(settings.n_samples, settings.n_features, settings.n_components, rng)
    return _errors(settings, X, protocol.equal_blocks(X.shape[1], settings.n_parties), rng)


def real(settings: Settings, seed: int) -> dict[str, Any]:
    """Rounds on GSE2187, columns centered, genes in a random order."""
    rng = np.random.default_rng(seed)
    X = expression(settings.data).X
    X = X - X.mean(axis=0)
    return _errors(settings, X, protocol.equal_blocks(X.shape[1], settings.real_n_parties, rng), rng)


def _errors(settings: Settings, X: Matrix, blocks: protocol.Blocks, rng: np.random.Generator) -> dict[str, Any]:
    kernel = Linear(centered=False)
    D = settings.n_components
    true = protocol.truth(X, kernel, D, center=False)
    pairs = protocol.spectra(X, blocks, kernel, [Fixed(rank) for rank in settings.ranks])
    one_shot = {
        rank: leading(protocol.fused(kernel, pairs, Fixed(rank), center=False), D).vectors for rank in settings.ranks
    }
    columns = [X[:, block] for block in blocks]
    first = settings.ranks[0]
    return {
        "dkpca": {str(rank): subspace_error(true, V) for rank, V in one_shot.items()},
        "iteration": _curve(true, subspace_iteration.iterate(columns, rng.standard_normal((len(X), D))), settings),
        "iteration after dkpca": [
            subspace_error(true, one_shot[first]),
            *_curve(true, subspace_iteration.iterate(columns, one_shot[first]), settings)[:-1],
        ],
    }


def _curve(true: Matrix, bases: Iterator[Matrix], settings: Settings) -> list[float]:
    return [subspace_error(true, basis) for basis in islice(bases, settings.n_rounds)]


def run(options: Options, settings: Settings) -> None:
    """Error against rounds."""
    drawn = options.repeat("rounds", simulated, settings)
    measured = options.repeat("rounds", real, settings, real_data=True)
    options.write(
        "rounds",
        {
            "settings": described(settings),
            "repetitions": options.repetitions,
            "simulated": _collect(settings, drawn),
            "real": _collect(settings, measured),
        },
    )


def _collect(settings: Settings, trials: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "dkpca": [{"rank": r, **mean_std([t["dkpca"][str(r)] for t in trials])} for r in settings.ranks],
        **{
            name: [{"round": i + 1, **mean_std([t[name][i] for t in trials])} for i in range(settings.n_rounds)]
            for name in ("iteration", "iteration after dkpca")
        },
    }


if __name__ == "__main__":
    main(run, Settings(), QUICK)
