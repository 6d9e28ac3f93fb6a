"""Fig. 2: error over the number of parties, (a) simulated data and linear kernel, (b) GSE2187 and RBF kernel."""

from dataclasses import dataclass

import numpy as np

from dkpca import subspace_error
from dkpca.kernels import Linear
from dkpca.linalg.leading import leading
from dkpca.rank import Fixed
from experiments import protocol, whole
from experiments.command import Options, described, expression, main, mean_std
from experiments.data import low_rank

Curve = dict[str, float]  # number of parties -> error


@dataclass(frozen=True)
class Settings:
    """Sizes as in the paper; local ranks as in its released code (D linear, D + 5 RBF)."""

    n_components: int = 10
    n_samples: int = 400
    n_features: int = 1000
    rank: int = 10
    n_parties: tuple[int, ...] = (1, 2, 3, 5, 10, 20, 50, 100, 112, 143, 200, 334, 1000)
    real_rank: int = 15
    real_n_parties: tuple[int, ...] = (1, 2, 5, 10, 20, 60)
    real_n_parties_once: tuple[int, ...] = (1, 2, 5, 10, 20, 40, 60, 95, 170, 283, 847)
    data: str | None = None


QUICK = Settings(
    n_samples=60, n_features=120, n_parties=(1, 4, 120), real_n_parties=(1, 4), real_n_parties_once=(1, 4, 24)
)


def simulated(settings: Settings, seed: int) -> Curve:
    """Error over the number of equal parties, on one draw of the data; nothing is centered."""
    rng = np.random.default_rng(seed)
    X = low_rank(settings.n_samples, settings.n_features, settings.n_components, rng)
    kernel = Linear(centered=False)
    true = protocol.truth(X, kernel, settings.n_components, center=False)
    rule = Fixed(settings.rank)
    return {
        str(n): protocol.error(true, protocol.fused(kernel, pairs, rule, center=False))
        for n in settings.n_parties
        for pairs in [protocol.spectra(X, protocol.equal_blocks(X.shape[1], n), kernel, [rule])]
    }


def real(settings: Settings, seed: int) -> Curve:
    """Error over the number of equal parties, the genes in a random order; code's kernel width."""
    return {
        str(n): _real_error(settings, n, "code", np.random.default_rng([seed, n]))["error"]
        for n in settings.real_n_parties
    }


def real_in_file_order(settings: Settings, seed: int) -> dict[str, dict[str, float]]:
    """Error with the genes in the order of the record, as released; `seed` counts numbers of parties."""
    n = settings.real_n_parties_once[seed]
    return {convention: _real_error(settings, n, convention, None) for convention in ("code", "text")}


def _real_error(
    settings: Settings, n_parties: int, convention: str, rng: np.random.Generator | None
) -> dict[str, float]:
    """Error, and what explains it: the gap behind the last component, the error with one component less or more."""
    X = expression(settings.data).X
    kernel = whole.kernel(settings.data, convention)
    rule, D = Fixed(settings.real_rank), settings.n_components
    pairs = protocol.spectra(X, protocol.equal_blocks(X.shape[1], n_parties, rng), kernel, [rule])
    true = whole.components(settings.data, convention, D + 1)
    found = leading(protocol.fused(kernel, pairs, rule, center=True), D + 1)
    less, error, more = (subspace_error(true.vectors[:, :d], found.vectors[:, :d]) for d in (D - 1, D, D + 1))
    return {
        "error": error,
        "error_one_less": less,
        "error_one_more": more,
        "left_out": float(sum(p.left_out_norm for p in pairs)),
        "gap": float(true.values[D - 1] - true.values[D]),
        "last_eigenvalue": float(true.values[D - 1]),
    }


def run(options: Options, settings: Settings) -> None:
    """Fig. 2 of the paper."""
    drawn = options.repeat("fig2", simulated, settings)
    shuffled = options.repeat("fig2", real, settings, real_data=True)
    parties = settings.real_n_parties_once
    once = options.repeat("fig2", real_in_file_order, settings, real_data=True, count=len(parties))
    options.write(
        "fig2",
        {
            "settings": described(settings),
            "repetitions": options.repetitions,
            "simulated": _over_repetitions(drawn),
            "real": _over_repetitions(shuffled),
            "real_in_file_order": [{"n_parties": n, **found} for n, found in zip(parties, once, strict=True)],
        },
    )


def _over_repetitions(curves: list[Curve]) -> list[dict[str, float]]:
    return [{"n_parties": int(n), **mean_std([curve[n] for curve in curves])} for n in curves[0]]


if __name__ == "__main__":
    main(run, Settings(), QUICK)
