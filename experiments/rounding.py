"""Which rounding is best: error at equal bytes, for several ways to round a factor before it is coded, on GSE2187.

Every way gets the bytes of rank 15 in float64, the paper's setting, and the finest step that these allow.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dkpca.kernels.grams import FusedGram, KernelGram
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import leading
from dkpca.linalg.precision import CUT_PER_STEP
from dkpca.wire import compact
from experiments import protocol, whole
from experiments.command import Options, described, expression, main, mean_std

Matrix = NDArray[np.float64]
Way = Callable[[Matrix], tuple[Matrix, Matrix]]  # multiples of steps -> whole numbers, and what is decoded for them


@dataclass(frozen=True)
class Settings:
    """60 equal parties, 10 components, sigma = sqrt(M) / 3 as printed."""

    n_components: int = 10
    n_parties: int = 60
    pairs: int = 330
    bytes: int = 15 * 537 * 8
    data: str | None = None


QUICK = Settings(n_parties=3, pairs=60, bytes=4000)


def nearest(x: Matrix) -> tuple[Matrix, Matrix]:
    """The nearest whole number."""
    return np.rint(x), np.rint(x)


def dead_zone(x: Matrix) -> tuple[Matrix, Matrix]:
    """Zero up to 0.6 steps, and rounded down from there."""
    numbers = np.sign(x) * np.floor(np.abs(x) + 0.4)
    return numbers, numbers


def centroids(x: Matrix) -> tuple[Matrix, Matrix]:
    """The nearest whole number; what is decoded for 1 and 2 is the mean of what was rounded to them, per column."""
    numbers = np.rint(x)
    decoded = numbers.copy()
    for column in range(x.shape[1]):
        for size in (1, 2):
            there = np.abs(numbers[:, column]) == size
            if there.any():
                mean = np.abs(x[there, column]).mean()
                decoded[there, column] = np.sign(numbers[there, column]) * mean
    return numbers, decoded


def dithered(x: Matrix) -> tuple[Matrix, Matrix]:
    """Subtractive dithering: noise that the decoder can make again is added before and taken off after."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, x.shape)
    return np.rint(x + noise), np.rint(x + noise) - noise


# How steps fall with the eigenvalue (0: one step for all; 1: as 1 / sqrt(lambda)), powers of two or not, and the way.
WAYS = {
    "one step for all columns": (0.0, False, nearest),
    "as lambda^-1/4": (0.5, False, nearest),
    "as lambda^-1/2": (1.0, False, nearest),
    "as lambda^-3/4": (1.5, False, nearest),
    "as lambda^-1/2, powers of two (chosen)": (1.0, True, nearest),
    "as lambda^-1/2, dead zone": (1.0, False, dead_zone),
    "as lambda^-1/2, centroids": (1.0, False, centroids),
    "as lambda^-1/2, dithered": (1.0, False, dithered),
}


def rounding(settings: Settings, seed: int) -> dict[str, float]:
    """Error of every way, the genes in a random order."""
    X, kernel = expression(settings.data).X, whole.kernel(settings.data, "text")
    true = whole.components(settings.data, "text", settings.n_components).vectors
    blocks = protocol.equal_blocks(X.shape[1], settings.n_parties, np.random.default_rng(seed))
    pairs = [leading(KernelGram(kernel, X[:, columns]), settings.pairs) for columns in blocks]
    errors = {}
    for name, way in WAYS.items():
        decoded = [_at_bytes(p.factor(), p.values, settings.bytes, *way) for p in pairs]
        errors[name] = protocol.error(true, Centered(FusedGram(kernel.law, decoded)))
    return errors


def _at_bytes(
    A: Matrix,
    values: Matrix,
    size: int,
    power: float,
    powers_of_two: bool,
    way: Way,
) -> Matrix:
    """The factor as decoded, by the finest step whose code fits."""
    low, high, best = 2.0**-30, 1.0, A[:, :1]
    while high / low > 1.02:
        step = float(np.sqrt(low * high))
        steps = step * (values / values[0]) ** (-power / 2.0)
        steps = 2.0 ** np.round(np.log2(steps)) if powers_of_two else steps
        kept = max(1, int((np.sqrt(values / A.shape[0]) > CUT_PER_STEP * steps).sum()))
        numbers, decoded = way(A[:, :kept] / steps[:kept])
        if compact.code(numbers.astype(np.int32)).size > size:
            low = step
        else:
            high, best = step, decoded * steps[:kept]
    return best


def run(options: Options, settings: Settings) -> None:
    """Error of several ways to round, at equal bytes."""
    trials = options.repeat("rounding", rounding, settings, real_data=True)
    rows = [{"way": name, **mean_std([trial[name] for trial in trials])} for name in WAYS]
    options.write("rounding", {"settings": described(settings), "repetitions": options.repetitions, "rows": rows})


if __name__ == "__main__":
    main(run, Settings(), QUICK)
