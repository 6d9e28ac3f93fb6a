"""The Triton kernels behind `dkpca.linalg.hadamard_on_gpu`. Imported only where Triton is installed.

Factors stand side by side, each in pieces of STEP columns; rows are filled up with zeros to whole tiles, so that
nothing is masked. A program works on the tiles (i, j) of a chunk, j >= i: those below the diagonal are mirror images.
"""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def exact_kernel(
    joined,  # (n, total), or its transpose
    block,  # (n, WIDTH)
    out,  # (n, WIDTH), zero at the start
    ends,  # (GROUPS,): whether a factor ends with this group of pieces
    n,
    GROUPS: tl.constexpr,
    EACH: tl.constexpr,  # pieces in a group: loaded at one time, while the group before is multiplied
    EVEN: tl.constexpr,  # every group is a factor
    BY_ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    SIDE: tl.constexpr,
    STEP: tl.constexpr,
    CHUNK: tl.constexpr,
):
    dtype: tl.constexpr = block.dtype.element_ty
    total: tl.constexpr = GROUPS * EACH * STEP
    i = tl.program_id(0)
    start = tl.maximum(tl.program_id(1) * CHUNK, i)
    stop = tl.minimum(tl.program_id(1) * CHUNK + CHUNK, n // SIDE)
    if start < stop:
        rows = i * SIDE + tl.arange(0, SIDE)
        w = tl.arange(0, WIDTH)
        d = tl.arange(0, STEP)
        own = rows[:, None] * WIDTH + w[None, :]
        mine = tl.load(block + own)
        sums = tl.zeros((SIDE, WIDTH), dtype)
        for j in range(start, stop):
            columns = j * SIDE + tl.arange(0, SIDE)
            tile = tl.full((SIDE, SIDE), 1.0, dtype)
            part = tl.zeros((SIDE, SIDE), dtype)
            for group in range(GROUPS):
                for piece in tl.static_range(EACH):
                    k = (group * EACH + piece) * STEP + d
                    if BY_ROWS:
                        left = tl.load(joined + rows[:, None] * total + k[None, :])
                        right = tl.trans(tl.load(joined + columns[:, None] * total + k[None, :]))
                    else:
                        left = tl.load(joined + k[None, :] * n + rows[:, None])
                        right = tl.load(joined + k[:, None] * n + columns[None, :])
                    part = tl.dot(left, right, part, input_precision="ieee", out_dtype=dtype)
                if EVEN:
                    tile = tile * part
                    part = tl.zeros((SIDE, SIDE), dtype)
                else:
                    end = tl.load(ends + group) != 0
                    tile = tl.where(end, tile * part, tile)
                    part = tl.where(end, 0.0, part)
            theirs = columns[:, None] * WIDTH + w[None, :]
            sums = tl.dot(tile, tl.load(block + theirs), sums, input_precision="ieee", out_dtype=dtype)
            mirrored = tl.dot(tl.trans(tile), mine, input_precision="ieee", out_dtype=dtype)
            tl.atomic_add(out + theirs, tl.where(j > i, mirrored, 0.0), sem="relaxed")
        tl.atomic_add(out + own, sums, sem="relaxed")


@triton.jit
def rough_kernel(
    joined,  # (n, PIECES * STEP), float16
    block,  # (n, WIDTH), float16
    out,  # (n, WIDTH), float32, zero at the start
    n,
    ENDS: tl.constexpr,  # for each piece, whether a factor ends with it
    PIECES: tl.constexpr,
    WIDTH: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    STEP: tl.constexpr,
    CHUNK: tl.constexpr,
):
    total: tl.constexpr = PIECES * STEP
    i = tl.program_id(0)
    start = tl.maximum(tl.program_id(1) * CHUNK, i * ROWS // COLUMNS)
    stop = tl.minimum(tl.program_id(1) * CHUNK + CHUNK, n // COLUMNS)
    if start < stop:
        rows = i * ROWS + tl.arange(0, ROWS)
        w = tl.arange(0, WIDTH)
        d = tl.arange(0, STEP)
        left = ()  # stays in shared memory
        for piece in tl.static_range(PIECES):
            left = left + (tl.load(joined + rows[:, None] * total + (piece * STEP + d)[None, :]),)  # noqa: RUF005
        own = rows[:, None] * WIDTH + w[None, :]
        mine = tl.load(block + own)
        sums = tl.zeros((ROWS, WIDTH), tl.float32)
        for j in range(start, stop):
            columns = j * COLUMNS + tl.arange(0, COLUMNS)
            tile = tl.full((ROWS, COLUMNS), 1.0, tl.float32)
            part = tl.zeros((ROWS, COLUMNS), tl.float32)
            for piece in tl.static_range(PIECES):
                right = tl.load(joined + columns[:, None] * total + (piece * STEP + d)[None, :])
                part = tl.dot(left[piece], tl.trans(right), part)
                if ENDS[piece]:
                    tile = tile * part
                    part = tl.zeros((ROWS, COLUMNS), tl.float32)
            few = tile.to(tl.float16)
            theirs = columns[:, None] * WIDTH + w[None, :]
            sums = tl.dot(few, tl.load(block + theirs), sums)
            if j * COLUMNS >= i * ROWS + ROWS:
                tl.atomic_add(out + theirs, tl.dot(tl.trans(few), mine), sem="relaxed")
        tl.atomic_add(out + own, sums, sem="relaxed")
