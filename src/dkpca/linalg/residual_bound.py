"""How large the part of a matrix is that landmarks do not explain: a bound from blocks on its diagonal.

That part is positive semidefinite, and such a matrix is at most its diagonal blocks together, whichever rows are in a
block: in its largest eigenvalue, and in the sum of its k largest (Bourin and Lee 2012, *Unitary orbits of Hermitian
operators with convex or concave functions*). Its trace is the case of blocks of one row.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dkpca.linalg.arrays import Array, namespace, on_gpu, to_numpy
from dkpca.linalg.gram import Gram
from dkpca.linalg.rounding import growth, solver_error
from dkpca.linalg.rows import for_each

LANDMARKS_PER_ROW = 4  # of a block: it then costs a part of what the landmarks cost
LEAST_ROWS, LEAST_ROWS_GPU = 32, 2048
STACK_GPU = 4  # blocks at a time there: enough to fill it, and little of its memory
MOST_NUMBERS = 2**25  # rows times landmarks for which bounds may take as long as all the rest
SMALL = 128  # rows of a block, where many rows are passed over
FEW = 2 * SMALL  # rows for which float32 is precise enough: n^2 / 2 roundings at worst are within ...
WIDER = 1.003  # ... what a bound on a norm is widened by
SINGLE = 2.0**-24  # largest relative error of a rounding in float32
ROUGH = 2e-3  # that, as a share of the eigenvalue behind the last, is not worth twice the time


@dataclass(frozen=True)
class ResidualBound:
    """Bounds on a positive semidefinite matrix."""

    norm: float  # its largest eigenvalue
    leading: float  # sum of its k largest


def residual_bound(gram: Gram, F: Array, k: int) -> ResidualBound:
    """Bound the matrix minus F F', but for the rounding of its entries."""
    least = LEAST_ROWS_GPU if on_gpu(F) else LEAST_ROWS
    blocks = -(-gram.n // max(least, F.shape[1] // LANDMARKS_PER_ROW))
    found = np.zeros((blocks, 2))

    def of(number: int) -> None:
        rows = slice(number, gram.n, blocks)  # far apart: neighbors are often alike, and alike is large
        found[number] = _sizes(gram.block(rows, rows) - F[rows, :] @ F[rows, :].T, k)

    for_each(of, range(blocks), F)
    norm, leading = found.sum(axis=0).tolist()
    return ResidualBound(norm, leading)


def residual_bound_in(
    within: Callable[[Sequence[slice]], Array], rows: slice, F: Array, k: int, *, rough: bool = False
) -> ResidualBound:
    """The same for some of the rows, of which F is at hand; bounds for parts of a matrix add up to one for it.

    `within` makes blocks on the diagonal of the matrix. Roughly, differences are taken in float32.
    """
    height = F.shape[0]
    blocks = max(1, height // (LEAST_ROWS_GPU if on_gpu(F) else SMALL))
    parts = [slice(number, height, blocks) for number in range(blocks)]
    few = range(0, blocks, STACK_GPU) if on_gpu(F) else ()
    cuts = sorted({0, height % blocks, blocks, *few})  # the first of them may have a row more
    found = np.zeros(2)
    for some in (parts[start:stop] for start, stop in pairwise(cuts)):
        K = within([slice(rows.start + own.start, rows.stop, blocks) for own in some])
        if on_gpu(F):
            found += _lengths_on_gpu(K, namespace(F).stack([F[own, :] for own in some]), k)
        else:
            P = _left(to_numpy(K), [to_numpy(F)[own] for own in some], np.float32 if rough else float)
            found += _sizes_of_stack(P, k)
    norm, leading = found.tolist()
    return ResidualBound(norm, leading)


def _lengths_on_gpu(K: Array, F: Array, k: int) -> tuple[float, float]:
    """Bounds on K - F F', added over a stack, by lengths: a small eigenproblem takes as long as a large product."""
    xp = namespace(K)
    K -= F @ xp.matrix_transpose(F)
    length = float(xp.sum(xp.linalg.vector_norm(K, axis=(1, 2))))
    return length, min(k, K.shape[1]) ** 0.5 * length


def _left(K: np.ndarray[Any, Any], parts: Sequence[np.ndarray[Any, Any]], dtype: type) -> np.ndarray[Any, Any]:
    """K - F F' in a precision, in a stack."""
    F: np.ndarray[Any, Any] = np.stack(parts, dtype=dtype, casting="same_kind")
    product: np.ndarray[Any, Any] = F @ F.transpose(0, 2, 1)
    np.subtract(K.astype(dtype, copy=False), product, out=product)
    return product


def _sizes_of_stack(P: np.ndarray[Any, Any], k: int) -> tuple[float, float]:
    """Bounds on the largest eigenvalue and the sum of the k largest, added up over a stack; writes over it."""
    traces = np.clip(np.einsum("bii->bi", P), 0.0, None).sum(axis=1, dtype=float)
    sizes = _made_even(P)
    several = min(k, P.shape[1]) ** 0.5 * WIDER * sizes * _lengths(P)
    norms = np.minimum(WIDER * sizes * _fourth_roots(P), traces)
    return float(norms.sum()), float(np.minimum(np.minimum(k * norms, several), traces).sum())


def rounding_in_blocks(m: int, trace: float, next_value: float, own: float) -> tuple[float, bool]:
    """Bound on the rounding of F F' with m columns, and whether float32 is good enough; `own` is the unit of F."""
    in_single = growth(m) * SINGLE * trace
    rough = in_single <= ROUGH * next_value
    return (in_single if rough else growth(m) * own * trace), rough


def norm_at_most(S: np.ndarray[Any, Any]) -> float:
    """Bound on the largest eigenvalue of a symmetric matrix: at most n^(1/8) times too large, a tenth of the time."""
    stack = S[None].copy()
    return float((WIDER * _made_even(stack) * _fourth_roots(stack))[0])


def _made_even(stack: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Divide each matrix of a stack by its largest entry, in place, and return these."""
    flat = stack.reshape(len(stack), -1)
    sizes = np.maximum(flat.max(axis=1), -flat.min(axis=1))
    flat /= np.where(sizes > 0.0, sizes, 1.0)[:, None]
    return np.asarray(sizes, dtype=float)


def _fourth_roots(stack: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """|S^4|^(1/4) for each symmetric S of a stack with entries up to one."""
    even = stack.astype(np.float32 if stack.shape[1] <= FEW else float, copy=False)
    second = even @ even
    return np.asarray(_lengths(second @ second) ** 0.25)


def _lengths(stack: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Length of each matrix of a stack, as a vector of its entries."""
    flat = stack.reshape(len(stack), 1, -1)
    return np.asarray(np.sqrt((flat @ flat.transpose(0, 2, 1))[:, 0, 0], dtype=float))


def _sizes(P: Array, k: int) -> tuple[float, float]:
    if on_gpu(P):  # where a small eigenproblem takes as long as a large product
        length = float(namespace(P).sum(P * P)) ** 0.5
        return length, min(k, P.shape[0]) ** 0.5 * length
    values = np.clip(np.linalg.eigvalsh(to_numpy(P))[::-1], 0.0, None).astype(float)
    off = solver_error(len(values), float(values[0]), P)
    return float(values[0]) + off, float(values[:k].sum()) + k * off
