"""Products with tall, thin matrices, strip by strip over all cores."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import array_api_compat
import numpy as np

from dkpca.linalg.arrays import Array, add_square, device, free_memory, full_from_lower, itemsize, namespace, on_gpu
from dkpca.linalg.parallel import one_blas_thread, split_work

Matrix = np.ndarray[Any, Any]
TILE_BYTES = 2**20  # what stays in the second-level cache of a core
SCRATCH_BYTES = 2**26  # what a product may take beyond its result, where one large block is faster than many small
TRIANGLE_SHARE = 8  # rows for each column, or stacked triangles are nearly as large as what they stand for
CACHED_ROWS = 64  # of a product with hundreds of columns, to be used at once
GPU_SHARE = 16  # on a GPU, one part in this many of the free memory at a time


def tile_bytes(reference: Array) -> int:
    """Bytes to work on at a time."""
    return free_memory(reference) // GPU_SHARE if on_gpu(reference) else TILE_BYTES


def slices(n: int, step: int) -> Iterator[slice]:
    """Cut n rows into slices of so many."""
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def strips(n: int, width: int, reference: Array) -> list[slice]:
    """Cut n rows so that strips of so many columns are of a size to work on."""
    return list(slices(n, max(1, tile_bytes(reference) // (max(width, 1) * itemsize(reference)))))


def by_strips(work: Callable[[slice], Array], X: Array, weights: Array) -> Array:
    """Stack what a function makes of strips of rows of X; a row costs it as many numbers as the weights have rows."""
    scratch = free_memory(X) // GPU_SHARE if on_gpu(X) else SCRATCH_BYTES
    rows = max(1, scratch // (weights.shape[0] * itemsize(weights)))
    return namespace(X).concat([work(strip) for strip in slices(X.shape[0], rows)], axis=0)


def cross(A: Array, B: Array) -> Array:
    """A' B."""

    def share(parts: Sequence[slice]) -> Array:
        return sum(A[rows, :].T @ B[rows, :] for rows in parts)

    return sum(split_work(share, strips(A.shape[0], max(A.shape[1], B.shape[1]), A), A))


def squared(made: Callable[[slice], Array], n: int, width: int, reference: Array) -> Array:
    """Z'Z for n rows of Z that are made strip by strip, each of them in an array that may be written over."""
    xp = namespace(reference)

    def share(parts: Sequence[slice]) -> Array:
        total = xp.zeros((width, width), dtype=reference.dtype, device=device(reference))
        for rows in parts:
            total = add_square(total, made(rows))
        return total

    return full_from_lower(sum(split_work(share, strips(n, width, reference), reference)))


def triangle(A: Array) -> Array:
    """R of A = Q R, from those of strips and in their order, so that it does not depend on the number of threads."""
    height = max(TRIANGLE_SHARE * A.shape[1], tile_bytes(A) // (max(A.shape[1], 1) * itemsize(A)))
    parts = list(slices(A.shape[0], height))
    if len(parts) == 1:
        with one_blas_thread():  # its columns are too short to be shared: threads would only wait for each other
            return _triangle(A)
    found: dict[int, Array] = {}

    def share(numbers: Sequence[int]) -> None:
        found.update({number: _triangle(A[parts[number], :]) for number in numbers})

    split_work(share, range(len(parts)), A)
    return triangle(namespace(A).concat([found[number] for number in range(len(parts))], axis=0))


def _triangle(A: Array) -> Array:
    if isinstance(A, np.ndarray):
        return np.linalg.qr(A, mode="r")
    return (
        namespace(A).linalg.qr(A, mode="r")[1] if array_api_compat.is_torch_array(A) else namespace(A).linalg.qr(A)[1]
    )


def times(A: Array, B: Array) -> Array:
    """A B, B small."""
    out = namespace(A).empty((A.shape[0], B.shape[1]), dtype=A.dtype, device=A.device)

    def share(parts: Sequence[slice]) -> None:
        for rows in parts:
            out[rows, :] = A[rows, :] @ B

    split_work(share, strips(A.shape[0], A.shape[1], A), A)
    return out


def multiplied(left: Sequence[Matrix], right: Sequence[Matrix]) -> Matrix:
    """Products A B of each pair, multiplied entry by entry; a few rows at a time, so that none leaves the cache."""
    out = np.empty((left[0].shape[0], right[0].shape[1]), dtype=left[0].dtype)
    scratch = np.empty((CACHED_ROWS, out.shape[1]), dtype=out.dtype)
    for rows in slices(out.shape[0], CACHED_ROWS):
        own, factor = out[rows], scratch[: rows.stop - rows.start]
        np.matmul(left[0][rows], right[0], out=own)
        for A, B in zip(left[1:], right[1:], strict=True):
            own *= np.matmul(A[rows], B, out=factor)
    return out


def multiply(A: Array, B: Array) -> None:
    """A = A B, in place."""

    def share(parts: Sequence[slice]) -> None:
        for rows in parts:
            A[rows, :] = A[rows, :] @ B

    split_work(share, strips(A.shape[0], A.shape[1], A), A)
