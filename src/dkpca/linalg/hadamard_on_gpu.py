"""Hadamard product of low-rank matrices times a thin block, on a GPU, without the matrix in device memory.

(A1 A1' o ... o AJ AJ') B in one kernel: a tile of the product lives in registers from its first factor to its use,
and a tile above the diagonal is used for its mirror image too. Sums over tiles are atomic, so the last bits of the
answer differ from run to run. Rough products have float16 factors and tiles, and float32 sums: seven times faster,
and good for finding where to look, not for what is stated. Written in Triton, which comes with torch for CUDA;
without it, for blocks wider than 64, and where a tile does not fit the device, `FusedGram` works with plain torch.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import cache, partial
from importlib.util import find_spec
from itertools import accumulate
from typing import Any, TypeVar

from dkpca.linalg.arrays import Array, namespace, on_gpu, or_one

WIDEST_BLOCK = 64
STEP = 16  # columns of a factor taken at a time: the least a tensor core instruction of Triton works on
SIDES = (64, 32)  # rows and columns of a tile, the largest that fits
TILES = ((128, 128), (128, 64), (64, 64))  # the same for rough products
SLOWER = {1: 1.5, 2: 1.2, 3: 1.0, 4: 1.0}  # time of a piece, by how many are loaded at one time, on an H200
CHUNK = 32  # tiles a program works on, so that its own rows are summed in registers

Shape = TypeVar("Shape")


def product(factors: Sequence[Array], block: Array) -> Array | None:
    """Multiply the Hadamard product of the factors' Gram matrices by a block; None if there is no such kernel."""
    n, width = block.shape
    if not _is_thin(factors, block, width):
        return None
    each, ends = _groups(factors)
    side = _side(block.device, block.dtype, each, ends, _padded_width(width))
    if side is None:
        return None
    xp, rows = namespace(block), _padded(n, side)
    padded = _filled(xp.zeros((rows, _padded_width(width)), dtype=block.dtype, device=block.device), block)
    out = xp.zeros_like(padded)
    _exact(side, _joined(factors, rows, each * STEP, block.dtype), padded, out, each, ends)
    return out[:n, :width]


def rough(factors: Sequence[Array], width: int) -> Callable[[Array], Array] | None:
    """Return what multiplies blocks of up to so many columns in few digits; None if there is no such kernel."""
    if not _is_thin(factors, factors[0], width):
        return None
    xp = namespace(*factors)
    ends = tuple(int(last) for A in factors for last in [*[0] * (_pieces(A) - 1), 1])
    tile = _tile(factors[0].device, ends, _padded_width(width))
    if tile is None:
        return None
    # A = diag(l) D with unit rows D, which float16 holds: the product is diag(w) (D1 D1' o ... ) diag(w) with w
    # the product of lengths.
    weights, directions = xp.ones_like(factors[0][:, 0]), []
    for A in factors:
        lengths = or_one(xp.sqrt(xp.sum(A * A, axis=1)))
        weights = weights * lengths
        directions.append(A / lengths[:, None])
    joined = _joined(directions, _padded(weights.shape[0], max(tile)), STEP, xp.float16)
    return partial(_rough_product, joined, weights, ends, tile)


def _rough_product(
    joined: Array, weights: Array, ends: tuple[int, ...], tile: tuple[int, int], block: Array
) -> Array:
    xp = namespace(block)
    n, width = block.shape
    # diag(w) M diag(w) B for M = D1 D1' o D2 D2' o ...: columns of diag(w) B are divided by their largest entry, so
    # that float16 holds them, and multiplied by it again after.
    weighted = block * xp.astype(weights, block.dtype)[:, None]
    sizes = or_one(xp.max(xp.abs(weighted), axis=0))
    padded = xp.zeros((joined.shape[0], _padded_width(width)), dtype=xp.float16, device=block.device)
    out = xp.zeros(padded.shape, dtype=xp.float32, device=block.device)
    _rough(tile, joined, _filled(padded, weighted / sizes[None, :]), out, ends)
    return xp.astype(out[:n, :width], block.dtype) * sizes[None, :] * xp.astype(weights, block.dtype)[:, None]


def _is_thin(factors: Sequence[Array], where: Array, width: int) -> bool:
    """Whether Triton can work on a block of so many columns there."""
    numbers = where.shape[0] * sum(STEP * max(SLOWER) * _pieces(A) for A in factors)
    return on_gpu(where) and width <= WIDEST_BLOCK and numbers < 2**31 and find_spec("triton") is not None


def _groups(factors: Sequence[Array]) -> tuple[int, tuple[int, ...]]:
    """How many pieces of a factor to load at one time, and after which of these groups a factor ends."""

    def groups(each: int) -> list[int]:
        return [-(-_pieces(A) // each) for A in factors]

    each = min(reversed(SLOWER), key=lambda count: SLOWER[count] * count * sum(groups(count)))
    return each, tuple(int(last) for count in groups(each) for last in [*[0] * (count - 1), 1])


@cache
def _side(device: Any, dtype: Any, each: int, ends: tuple[int, ...], width: int) -> int | None:
    """Tile of the kernel for which the device has room."""
    import torch

    def tried(side: int) -> None:
        empty = partial(torch.zeros, dtype=dtype, device=device)
        _exact(side, empty(side, len(ends) * each * STEP), empty(side, width), empty(side, width), each, ends)

    return _first_that_fits(tried, SIDES)


@cache
def _tile(device: Any, ends: tuple[int, ...], width: int) -> tuple[int, int] | None:
    """Tile of the rough kernel for which the device has room."""
    import torch

    def tried(tile: tuple[int, int]) -> None:
        few = partial(torch.zeros, dtype=torch.float16, device=device)
        out = torch.zeros(tile[0], width, dtype=torch.float32, device=device)
        _rough(tile, few(tile[0], len(ends) * STEP), few(tile[0], width), out, ends)

    properties = torch.cuda.get_device_properties(device)
    room = getattr(properties, "shared_memory_per_block_optin", 2**30)  # not every build of torch says
    least = {tile: 2 * STEP * len(ends) * (tile[0] + 2 * tile[1]) for tile in TILES}  # bytes, of factors alone
    return _first_that_fits(tried, [tile for tile in TILES if least[tile] <= room])  # to compile takes seconds


def _first_that_fits(tried: Callable[[Shape], None], shapes: Iterable[Shape]) -> Shape | None:
    from triton.runtime.errors import OutOfResources

    for shape in shapes:
        with suppress(OutOfResources):
            tried(shape)
            return shape
    return None


def _exact(side: int, joined: Array, block: Array, out: Array, each: int, ends: tuple[int, ...]) -> None:
    from dkpca.linalg.hadamard_triton import exact_kernel

    xp, tiles = namespace(block), block.shape[0] // side
    by_rows = block.dtype == xp.float64  # the layout that was faster on an H200, for each precision
    exact_kernel[(tiles, -(-tiles // CHUNK))](
        joined if by_rows else joined.T.contiguous(),
        block,
        out,
        xp.asarray(ends, dtype=xp.int32, device=block.device),
        block.shape[0],
        GROUPS=len(ends),
        EACH=each,
        EVEN=all(ends),
        BY_ROWS=by_rows,
        WIDTH=block.shape[1],
        SIDE=side,
        STEP=STEP,
        CHUNK=CHUNK,
        num_warps=4,
        num_stages=2 if by_rows else 3,
    )


def _rough(tile: tuple[int, int], joined: Array, block: Array, out: Array, ends: tuple[int, ...]) -> None:
    from dkpca.linalg.hadamard_triton import rough_kernel

    n, (rows, columns) = block.shape[0], tile
    rough_kernel[(n // rows, -(-(n // columns) // CHUNK))](
        joined,
        block,
        out,
        n,
        ENDS=ends,
        PIECES=len(ends),
        WIDTH=block.shape[1],
        ROWS=rows,
        COLUMNS=columns,
        STEP=STEP,
        CHUNK=CHUNK,
        num_warps=rows // 16,
        num_stages=2,
    )


def _joined(factors: Sequence[Array], rows: int, step: int, dtype: Any) -> Array:
    """Factors side by side, each filled up with zeros to whole steps, and with rows of zeros."""
    xp = namespace(*factors)
    starts = [*accumulate((_padded(A.shape[1], step) for A in factors), initial=0)]
    joined = xp.zeros((rows, starts[-1]), dtype=dtype, device=factors[0].device)
    for A, start in zip(factors, starts, strict=False):
        _filled(joined[:, start:], A)
    return joined


def _filled(padded: Array, x: Array) -> Array:
    """Write an array into the corner of a larger one, in the precision of that."""
    padded[: x.shape[0], : x.shape[1]] = x
    return padded


def _pieces(A: Array) -> int:
    return -(-int(A.shape[1]) // STEP)


def _padded(count: int, step: int) -> int:
    return -(-count // step) * step


def _padded_width(width: int) -> int:
    return max(STEP, 1 << (width - 1).bit_length())
