"""How large the part of a matrix is that landmarks do not explain: a bound from blocks on its diagonal.

That part is positive semidefinite, and such a matrix is at most its diagonal blocks together, whichever rows are in a
block: in its largest eigenvalue, and in the sum of its k largest (Bourin and Lee 2012, *Unitary orbits of Hermitian
operators with convex or concave functions*). Its trace is the case of blocks of one row.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.linalg.arrays import Array, namespace, on_gpu, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.parallel import split_work
from dkpca.linalg.rounding import solver_error

LANDMARKS_PER_ROW = 4  # of a block: it then costs a part of what the landmarks cost
LEAST_ROWS, LEAST_ROWS_GPU = 32, 2048
MOST_NUMBERS = 2**27  # rows times landmarks for which bounds may take as long as all the rest
SMALL = 128  # rows of a block, where many rows are passed over
FEW = 2 * SMALL  # rows for which float32 is precise enough: n^2 / 2 roundings at worst are within ...
WIDER = 1.003  # ... what a bound on a norm is widened by


@dataclass(frozen=True)
class Missed:
    """Bounds on a positive semidefinite matrix."""

    norm: float  # its largest eigenvalue
    leading: float  # sum of its k largest


def missed(gram: Gram, F: Array, k: int) -> Missed:
    """Bound the matrix minus F F', but for the rounding of its entries."""
    least = LEAST_ROWS_GPU if on_gpu(F) else LEAST_ROWS
    blocks = -(-gram.n // max(least, F.shape[1] // LANDMARKS_PER_ROW))
    found = np.zeros((blocks, 2))

    def share(numbers: Sequence[int]) -> None:
        for number in numbers:
            rows = slice(number, gram.n, blocks)  # far apart: neighbors are often alike, and alike is large
            found[number] = _sizes(gram.block(rows, rows) - F[rows, :] @ F[rows, :].T, k)

    split_work(share, range(blocks), F)
    norm, leading = found.sum(axis=0).tolist()
    return Missed(norm, leading)


def missed_in(gram: Gram, rows: slice, F: Array, k: int) -> Missed:
    """The same for some of the rows, of which F is at hand; bounds for parts of a matrix add up to one for it."""
    blocks = max(1, F.shape[0] // (LEAST_ROWS_GPU if on_gpu(F) else SMALL))
    norm = leading = 0.0
    for number in range(blocks):
        own, part = slice(rows.start + number, rows.stop, blocks), F[number::blocks, :]
        left = gram.block(own, own) - part @ part.T
        if on_gpu(F):
            largest, several = _sizes(left, k)
            norm, leading = norm + largest, leading + several
            continue
        P = to_numpy(left).astype(float)
        largest, trace = norm_at_most(P), float(np.clip(np.diagonal(P), 0.0, None).sum())
        several = min(k * largest, min(k, len(P)) ** 0.5 * float(np.linalg.norm(P)), trace)
        norm, leading = norm + min(largest, trace), leading + several
    return Missed(norm, leading)


def norm_at_most(S: np.ndarray[Any, Any]) -> float:
    """Bound on the largest eigenvalue of a symmetric matrix: at most n^(1/8) times too large, a tenth of the time."""
    size = float(np.abs(S).max())
    if not size > 0.0:
        return 0.0
    even = (S / size).astype(np.float32 if len(S) <= FEW else float)
    second = even @ even
    return float(WIDER * size * np.linalg.norm(second @ second) ** 0.25)


def _sizes(P: Array, k: int) -> tuple[float, float]:
    if on_gpu(P):  # where a small eigenproblem takes as long as a large product
        length = float(namespace(P).sum(P * P)) ** 0.5
        return length, min(k, P.shape[0]) ** 0.5 * length
    values = np.clip(np.linalg.eigvalsh(to_numpy(P))[::-1], 0.0, None).astype(float)
    off = solver_error(len(values), float(values[0]), P)
    return float(values[0]) + off, float(values[:k].sum()) + k * off
