"""What each solver would take, in operations and bytes, before it runs.

Counted and not timed: a choice by the clock would differ from run to run on a busy machine, and with it the answer.
"""

from dataclasses import dataclass

DENSE_PASSES = 15  # products with the matrix for each pair, by Lanczos
CHOLESKY = 0.4  # of n^3: the proof that Lanczos missed none
EIGENSOLVER_GPU = 60.0  # of n^3: a GPU has no partial solver
STREAMED_PASSES = 10  # products with a block, those that search for missed pairs included
SPARE = 10  # columns of a block beyond the pairs, and half as many again as there are
SAMPLED, SAMPLED_PER_LANDMARK = 20_000, 40  # rows whose features are kept at one time, at most


@dataclass(frozen=True)
class Effort:
    """What a solver would take."""

    operations: float
    memory: float  # numbers, beside the table and the answer


def dense(n: int, entry: float, k: int, *, gpu: bool = False) -> Effort:
    """Effort of building the matrix, with so many operations for an entry, and solving it for k pairs."""
    solving = EIGENSOLVER_GPU * n**3 if gpu else DENSE_PASSES * k * n**2 + CHOLESKY * n**3
    return Effort(entry * n**2 + solving, 3.0 * n**2)


def streamed(n: int, entry: float, k: int) -> Effort:
    """Effort of passing over the matrix; each entry serves twice."""
    width = k + max(SPARE, k // 2)
    return Effort(STREAMED_PASSES * n**2 * (entry / 2 + 2.0 * width), n * (4.0 * n**0.5 + 8.0 * width))


def landmark(n: int, entry: float, landmarks: int) -> Effort:
    """Effort of so many columns of the matrix, and of what they explain."""
    kept = min(n, max(SAMPLED, SAMPLED_PER_LANDMARK * landmarks))
    return Effort(n * landmarks * (entry + 3.0 * landmarks), 3.0 * kept * landmarks + 4.0 * n)


def landmarks_within(n: int, entry: float, operations: float) -> int:
    """Most landmarks that take no more than so many operations."""
    share = operations / n
    return min(n, int(((entry**2 + 12.0 * share) ** 0.5 - entry) / 6.0))
