"""An upper confidence bound on a mean by betting: valid for every distribution on [0, 1], and for few draws.

Waudby-Smith and Ramdas (2024), *Estimating means of bounded random variables by betting*. Whoever bets, before each
draw, that it will be below m, with a stake that follows from the draws before, cannot expect to win if the mean is m
or more: the stake is multiplied by 1 / alpha, ever, with a probability of at most alpha.
"""

import math

import numpy as np

Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
LARGEST_STAKE = 0.9  # below 1, so that no draw can ruin


def mean_at_most(draws: Vector, alpha: float) -> float:
    """Bound on the mean of independent draws from [0, 1], false with a probability of at most alpha."""
    stakes = _stakes(draws, alpha)

    def refuted(mean: float) -> bool:
        """Whether betting on less than this mean has won so much that it is not this large."""
        return float(np.max(np.cumsum(np.log1p(stakes * (mean - draws))))) >= math.log(1.0 / alpha)

    low, high = 0.0, 1.0
    if not refuted(high):
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high


def _stakes(draws: Vector, alpha: float) -> Vector:
    """Stake on each draw, from those before it: about what is best for a mean known to sqrt(variance / n)."""
    n = len(draws)
    count = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(draws)) / (1 + count)
    spread = (0.25 + np.cumsum((draws - means) ** 2)) / (1 + count)
    before = np.concatenate([[0.25], spread[:-1]])
    return np.minimum(np.sqrt(2.0 * math.log(1.0 / alpha) / (n * before)), LARGEST_STAKE)
