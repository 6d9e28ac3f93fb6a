"""Fig. 3: error and eigenvectors sent over the number of samples, parties of random size.

(a, b) simulated data and linear kernel, (c, d) GSE2187 and RBF kernel. Beside the paper's DKPCA-5, -10, -15 and
adaptive rule (epsilon relative to the party's own lambda_1) stands the rule as eq. (8) prints it, with one
epsilon for all parties and all T; and, for the largest T, error against eigenvectors sent over many epsilons.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.kernels import Kernel, Linear
from dkpca.linalg.eigenpairs import Eigenpairs
from dkpca.rank import Adaptive, Fixed, RankRule
from experiments import protocol, whole
from experiments.command import Options, described, expression, main, mean_std
from experiments.data import low_rank

Point = dict[str, float]  # "error" and "vectors"


@dataclass(frozen=True)
class Settings:
    """As in the paper; where it says only that sizes are random, a random order is cut at random places."""

    n_components: int = 10
    ranks: tuple[int, ...] = (5, 10, 15)
    n_features: int = 1000
    n_parties: int = 10
    epsilon: float = 0.04
    n_samples: tuple[int, ...] = (50, 100, 150, 200, 300, 400, 500, 600, 800, 1000)
    real_n_parties: int = 60
    real_epsilon: float = 0.0005
    real_n_samples: tuple[int, ...] = (50, 150, 300, 537)
    epsilons: tuple[float, ...] = (0.003, 0.001, 0.0005)
    fixed_ranks: tuple[int, ...] = (5, 10, 15, 20)
    data: str | None = None


QUICK = Settings(
    n_features=60,
    n_parties=4,
    n_samples=(60, 80),
    real_n_parties=6,
    real_n_samples=(40, 80),
    epsilons=(0.003, 0.0005),
    fixed_ranks=(5, 15),
)


def simulated(settings: Settings, seed: int) -> dict[str, Any]:
    """One draw of the largest table; smaller T are its first rows, as in the released code."""
    rng = np.random.default_rng(seed)
    X = low_rank(max(settings.n_samples), settings.n_features, settings.n_components, rng)
    blocks = protocol.random_blocks(X.shape[1], settings.n_parties, rng)
    rules = _rules(settings, settings.epsilon)
    return _over_samples(settings, X, blocks, settings.n_samples, Linear(centered=False), rules, settings.epsilon)


def real(settings: Settings, seed: int) -> dict[str, Any]:
    """One random order of samples and genes; kernel width as released."""
    rng = np.random.default_rng(seed)
    X = expression(settings.data).X
    X = X[rng.permutation(X.shape[0])]
    blocks = protocol.random_blocks(X.shape[1], settings.real_n_parties, rng)
    rules = _rules(settings, settings.real_epsilon)
    return _over_samples(
        settings,
        X,
        blocks,
        settings.real_n_samples,
        whole.kernel(settings.data, "code"),
        rules,
        settings.real_epsilon,
    )


def tradeoff(settings: Settings, seed: int) -> dict[str, dict[str, Point]]:
    """Error against eigenvectors sent with all samples, over epsilons and fixed ranks.

    For parties of random and of equal size with the kernel width as released, and of random size with it as printed.
    """
    rng = np.random.default_rng(seed)
    n_features = expression(settings.data).X.shape[1]
    rules: dict[str, RankRule] = {f"adaptive {e:g}": Adaptive(e) for e in settings.epsilons}
    rules |= {f"fixed {rank}": Fixed(rank) for rank in settings.fixed_ranks}
    random = protocol.random_blocks(n_features, settings.real_n_parties, rng)
    equal = protocol.equal_blocks(n_features, settings.real_n_parties, rng)
    return {
        "random sizes": _traded(settings, random, "code", rules),
        "equal sizes": _traded(settings, equal, "code", rules),
        "random sizes, width as printed": _traded(settings, random, "text", rules),
    }


def _traded(
    settings: Settings, blocks: protocol.Blocks, convention: str, rules: Mapping[str, RankRule]
) -> dict[str, Point]:
    X, kernel = expression(settings.data).X, whole.kernel(settings.data, convention)
    pairs = protocol.spectra(X, blocks, kernel, list(rules.values()))
    true = whole.components(settings.data, convention, settings.n_components).vectors
    return _points(kernel, pairs, rules, true, center=True)


def _rules(settings: Settings, epsilon: float) -> dict[str, RankRule]:
    return {f"fixed {rank}": Fixed(rank) for rank in settings.ranks} | {"adaptive": Adaptive(epsilon)}


def _over_samples(
    settings: Settings,
    X: protocol.Matrix,
    blocks: protocol.Blocks,
    n_samples: Sequence[int],
    kernel: Kernel,
    rules: Mapping[str, RankRule],
    epsilon: float,
) -> dict[str, Any]:
    """Points of every rule for every T, and the spectrum behind them."""
    center = not isinstance(kernel, Linear)
    result: dict[str, Any] = {}
    absolute: RankRule | None = None
    for n in sorted(n_samples, reverse=True):
        every = dict(rules) if absolute is None else {**rules, "adaptive absolute": absolute}
        pairs = protocol.spectra(X[:n], blocks, kernel, list(every.values()))
        if absolute is None:  # the threshold that the relative rule has at the party with the largest lambda_1
            absolute = Adaptive(epsilon * max(float(p.values[0]) for p in pairs), relative=False)
            every["adaptive absolute"] = absolute
        true = protocol.truth(X[:n], kernel, settings.n_components, center=center)
        result[str(n)] = _points(kernel, pairs, every, true, center=center) | {"spectrum": _spectrum(pairs)}
    return result


def _points(
    kernel: Kernel, pairs: list[Eigenpairs], rules: Mapping[str, RankRule], true: protocol.Matrix, *, center: bool
) -> dict[str, Point]:
    return {
        name: {
            "error": protocol.error(true, protocol.fused(kernel, pairs, rule, center=center)),
            "vectors": float(sum(protocol.ranks(pairs, rule))),
        }
        for name, rule in rules.items()
    }


def _spectrum(pairs: list[Eigenpairs]) -> dict[str, float]:
    """Where the party's information begins, seen from its lambda_1: means over parties."""
    n = pairs[0].vectors.shape[0]
    return {
        "lambda_1_per_sample": float(np.mean([p.values[0] / n for p in pairs])),
        "lambda_2_over_lambda_1": float(np.mean([p.values[1] / p.values[0] for p in pairs])),
        "lambda_6_over_lambda_1": float(np.mean([p.values[5] / p.values[0] for p in pairs])),
    }


def run(options: Options, settings: Settings) -> None:
    """Fig. 3 of the paper."""
    drawn = options.repeat("fig3", simulated, settings)
    measured = options.repeat("fig3", real, settings, real_data=True)
    traded = options.repeat("fig3", tradeoff, settings, real_data=True)
    options.write(
        "fig3",
        {
            "settings": described(settings),
            "repetitions": options.repetitions,
            "simulated": _collect(drawn),
            "real": _collect(measured),
            "tradeoff": {sizes: _means([repetition[sizes] for repetition in traded]) for sizes in traded[0]},
        },
    )


def _collect(repetitions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ascending = sorted(repetitions[0], key=int)
    return [{"n_samples": int(n), **_means([r[n] for r in repetitions])} for n in ascending]


def _means(points: list[dict[str, dict[str, float]]]) -> dict[str, Any]:
    """Mean and standard deviation of every quantity of every rule."""
    return {
        rule: {quantity: mean_std([p[rule][quantity] for p in points]) for quantity in points[0][rule]}
        for rule in points[0]
    }


if __name__ == "__main__":
    main(run, Settings(), QUICK)
