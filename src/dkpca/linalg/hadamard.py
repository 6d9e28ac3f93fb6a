"""Hadamard product of low-rank matrices times a thin block, on a GPU, without the matrix in device memory.

(A1 A1' o ... o AJ AJ') B in one kernel: a tile of the product lives in registers from its first factor to its use,
and a tile above the diagonal is used for its mirror image too. Sums over tiles are atomic, so the last bits of the
answer differ from run to run. Rough products use tensor cores with 10 bits of a factor's numbers: three times faster,
and good for finding where to look, not for what is stated. Written in Triton, which comes with torch for CUDA;
without it, and for blocks wider than 64, `gram` works with plain torch.
"""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from dkpca.linalg.arrays import Array, like, namespace, on_gpu

WIDEST_BLOCK = 64
STEP = 16  # columns of a factor taken at a time: the least a tensor core instruction of Triton works on
SIDE, SIDE_ROUGH = 64, 128  # rows and columns of a tile
WARPS, WARPS_ROUGH = 4, 8
CHUNK = 32  # tiles a program works on, so that its own rows are summed in registers


def supported(factors: Sequence[Array], block: Array) -> bool:
    """Whether the kernel can be used for this product."""
    numbers = block.shape[0] * sum(_padded(A.shape[1], STEP) for A in factors)
    return (
        on_gpu(block)
        and block.device.type == "cuda"
        and block.shape[1] <= WIDEST_BLOCK
        and numbers < 2**31
        and find_spec("triton") is not None
    )


def product(factors: Sequence[Array], block: Array, *, rough: bool = False) -> Array:
    """Multiply the Hadamard product of the factors' Gram matrices by a block; rough: of float32 only."""
    xp = namespace(block)
    n, width = block.shape
    padded_width = max(STEP, 1 << (width - 1).bit_length())
    padded = _pad_columns(block, padded_width)
    joined = xp.concat([_pad_columns(A, _padded(A.shape[1], STEP)) for A in factors], axis=1)
    edges = np.cumsum([0, *(_padded(A.shape[1], STEP) for A in factors)])
    by_rows = rough or joined.dtype == xp.float64  # the layout that was faster on an H200, for each precision
    out = xp.zeros_like(padded)
    side = SIDE_ROUGH if rough else SIDE
    tiles = -(-n // side)
    _kernel()[(tiles, -(-tiles // CHUNK))](
        joined if by_rows else joined.T.contiguous(),
        xp.asarray(edges, dtype=xp.int32, device=block.device),
        padded,
        out,
        n,
        joined.shape[1],
        len(factors),
        BY_ROWS=by_rows,
        WIDTH=padded_width,
        SIDE=side,
        STEP=STEP,
        CHUNK=CHUNK,
        PRECISION="tf32" if rough else "ieee",
        num_warps=WARPS_ROUGH if rough else WARPS,
        num_stages=3,
    )
    return out[:, :width]


def _padded(columns: int, step: int) -> int:
    return -(-columns // step) * step


def _pad_columns(x: Array, columns: int) -> Array:
    xp = namespace(x)
    missing = columns - x.shape[1]
    filler = like(np.zeros((1, 1)), x)
    return xp.concat([x, xp.broadcast_to(filler, (x.shape[0], missing))], axis=1) if missing else x.contiguous()


def _kernel() -> Any:
    """Import the kernel on use, since Triton is there only with torch for CUDA."""
    from dkpca.linalg.hadamard_triton import hadamard_kernel

    return hadamard_kernel
