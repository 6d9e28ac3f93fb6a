"""Beyond the paper: error against bytes sent, over rank and wire precision, on GSE2187.

The paper's setting is rank 15 in float64. One-shot Nystroem with uniform landmarks stands beside it: a party sends
one number a sample and landmark, so L landmarks cost what rank L costs.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.linalg.precision import PRECISIONS
from dkpca.rank import Fixed
from experiments import protocol, whole
from experiments.baselines import nystroem
from experiments.command import Options, described, expression, main, mean_std


@dataclass(frozen=True)
class Settings:
    """60 equal parties, 10 components, sigma = sqrt(M) / 3; a choice is a rank and a wire precision."""

    n_components: int = 10
    n_parties: int = 60
    choices: tuple[str, ...] = (
        "5 float64",
        "15 float64",
        "30 float64",
        "60 float64",
        "10 float32",
        "30 float32",
        "60 float32",
        "20 float16",
        "60 float16",
    )
    equal_bytes: tuple[str, ...] = ("15 float64", "30 float32", "60 float16")  # for the kernel width as released
    nystroem: tuple[str, ...] = ("15 float64", "30 float32", "60 float32", "60 float64")
    data: str | None = None


QUICK = Settings(
    n_parties=6,
    choices=("5 float64", "15 float64", "30 float32", "60 float16"),
    nystroem=("15 float64", "30 float32"),
)


def tradeoff(settings: Settings, seed: int) -> dict[str, dict[str, float]]:
    """Error of every choice, the genes in a random order, for the kernel width as printed and as released."""
    rng = np.random.default_rng(seed)
    blocks = protocol.equal_blocks(expression(settings.data).X.shape[1], settings.n_parties, rng)
    return {
        "text": _errors(settings, blocks, "text", settings.choices) | _nystroem(settings, blocks, "text", rng),
        "code": _errors(settings, blocks, "code", settings.equal_bytes),
    }


def _errors(
    settings: Settings, blocks: protocol.Blocks, convention: str, choices: tuple[str, ...]
) -> dict[str, float]:
    X, kernel = expression(settings.data).X, whole.kernel(settings.data, convention)
    true = whole.components(settings.data, convention, settings.n_components).vectors
    pairs = protocol.spectra(X, blocks, kernel, [Fixed(_number(choice)) for choice in choices])
    errors = {}
    for choice in choices:
        rank, precision = choice.split()
        gram = protocol.fused(kernel, pairs, Fixed(int(rank)), center=True, precision=precision)
        errors[f"dkpca {choice}"] = protocol.error(true, gram)
    return errors


def _nystroem(
    settings: Settings, blocks: protocol.Blocks, convention: str, rng: np.random.Generator
) -> dict[str, float]:
    X, kernel = expression(settings.data).X, whole.kernel(settings.data, convention)
    true = whole.components(settings.data, convention, settings.n_components).vectors
    errors = {}
    for choice in settings.nystroem:
        number, precision = choice.split()
        chosen = nystroem.landmarks(X.shape[0], int(number), rng)
        received = [nystroem.message(X[:, columns], chosen, kernel, precision) for columns in blocks]
        errors[f"nystroem {choice}"] = protocol.error(true, nystroem.fuse(received, chosen, kernel))
    return errors


def _number(choice: str) -> int:
    return int(choice.split()[0])


def run(options: Options, settings: Settings) -> None:
    """Error against bytes sent."""
    trials = options.repeat("bytes", tradeoff, settings, real_data=True)
    n_samples = expression(settings.data).X.shape[0]
    rows = [
        _row(name, convention, n_samples, [trial[convention][name] for trial in trials])
        for convention in trials[0]
        for name in trials[0][convention]
    ]
    options.write(
        "bytes",
        {
            "settings": described(settings),
            "repetitions": options.repetitions,
            "n_samples": n_samples,
            "rows": rows,
        },
    )


def _row(name: str, convention: str, n_samples: int, errors: list[float]) -> dict[str, Any]:
    method, number, precision = name.split()
    scale = 8 if precision == "float16" else 0  # one power of two a column
    return {
        "method": method,
        "convention": convention,
        "rank": int(number),
        "precision": precision,
        "bytes_per_party": int(number) * (n_samples * PRECISIONS[precision] + scale),
        **mean_std(errors),
    }


if __name__ == "__main__":
    main(run, Settings(), QUICK)
