"""How large the part of a matrix is that landmarks do not explain: a bound from blocks on its diagonal.

That part is positive semidefinite, and such a matrix is at most its diagonal blocks together, whichever rows are in a
block: in its largest eigenvalue, and in the sum of its k largest (Bourin and Lee 2012, *Unitary orbits of Hermitian
operators with convex or concave functions*). Its trace is the case of blocks of one row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.linalg.arrays import Array, namespace, on_gpu, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.parallel import split_work
from dkpca.linalg.rounding import growth, solver_error

LANDMARKS_PER_ROW = 4  # of a block: it then costs a part of what the landmarks cost
LEAST_ROWS, LEAST_ROWS_GPU = 32, 4096
MOST_NUMBERS = 2**27  # rows times landmarks for which bounds may take as long as all the rest
SMALL = 128  # rows of a block, where many rows are passed over
FEW = 2 * SMALL  # rows for which float32 is precise enough: n^2 / 2 roundings at worst are within ...
WIDER = 1.003  # ... what a bound on a norm is widened by
SINGLE = 2.0**-24  # largest relative error of a rounding in float32
ROUGH = 2e-3  # that, as a share of the eigenvalue behind the last, is not worth twice the time


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


def missed_in(within: Callable[[slice], Array], rows: slice, F: Array, k: int, *, rough: bool = False) -> Missed:
    """The same for some of the rows, of which F is at hand; bounds for parts of a matrix add up to one for it.

    `within` makes blocks on the diagonal of the matrix. Roughly, differences are taken in float32.
    """
    blocks = max(1, F.shape[0] // (LEAST_ROWS_GPU if on_gpu(F) else SMALL))
    norm = leading = 0.0
    for number in range(blocks):
        own, part = slice(rows.start + number, rows.stop, blocks), F[number::blocks, :]
        if on_gpu(F):
            largest, several = _sizes(within(own) - part @ part.T, k)
            norm, leading = norm + largest, leading + several
            continue
        P = _left(to_numpy(within(own)), to_numpy(part), np.float32 if rough else float)
        largest, trace = norm_at_most(P), float(np.clip(np.diagonal(P), 0.0, None).sum(dtype=float))
        several = min(k * largest, min(k, len(P)) ** 0.5 * WIDER * float(np.linalg.norm(P)), trace)
        norm, leading = norm + min(largest, trace), leading + several
    return Missed(norm, leading)


def _left(K: np.ndarray[Any, Any], F: np.ndarray[Any, Any], dtype: type) -> np.ndarray[Any, Any]:
    """K - F F' in a precision."""
    part: np.ndarray[Any, Any] = F.astype(dtype)
    product: np.ndarray[Any, Any] = part @ part.T
    np.subtract(K.astype(dtype, copy=False), product, out=product)
    return product


def rounding_in_blocks(m: int, trace: float, next_value: float, own: float) -> tuple[float, bool]:
    """Bound on the rounding of F F' with m columns, and whether float32 is good enough; `own` is the unit of F."""
    in_single = growth(m) * SINGLE * trace
    rough = in_single <= ROUGH * next_value
    return (in_single if rough else growth(m) * own * trace), rough


def norm_at_most(S: np.ndarray[Any, Any]) -> float:
    """Bound on the largest eigenvalue of a symmetric matrix: at most n^(1/8) times too large, a tenth of the time."""
    size = float(np.abs(S).max())
    if not size > 0.0:
        return 0.0
    even = (S / size).astype(np.float32 if len(S) <= FEW else float, copy=False)
    second = even @ even
    return float(WIDER * size * np.linalg.norm(second @ second) ** 0.25)


def _sizes(P: Array, k: int) -> tuple[float, float]:
    if on_gpu(P):  # where a small eigenproblem takes as long as a large product
        length = float(namespace(P).sum(P * P)) ** 0.5
        return length, min(k, P.shape[0]) ** 0.5 * length
    values = np.clip(np.linalg.eigvalsh(to_numpy(P))[::-1], 0.0, None).astype(float)
    off = solver_error(len(values), float(values[0]), P)
    return float(values[0]) + off, float(values[:k].sum()) + k * off
