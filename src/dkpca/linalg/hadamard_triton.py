"""The Triton kernel behind `dkpca.linalg.hadamard`. Imported only where Triton is installed."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def hadamard_kernel(
    joined,  # all factors side by side, each padded to a multiple of STEP columns: (n, total), or its transpose
    edges,  # where each factor begins and ends
    block,  # (n, WIDTH)
    out,  # (n, WIDTH), zero at the start
    n,
    total,
    n_factors,
    BY_ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    SIDE: tl.constexpr,
    STEP: tl.constexpr,
    CHUNK: tl.constexpr,
    PRECISION: tl.constexpr,
):
    dtype: tl.constexpr = block.dtype.element_ty
    i = tl.program_id(0)
    start = tl.maximum(tl.program_id(1) * CHUNK, i)  # tiles below the diagonal are mirror images
    stop = tl.minimum(tl.program_id(1) * CHUNK + CHUNK, tl.cdiv(n, SIDE))
    if start < stop:
        rows = i * SIDE + tl.arange(0, SIDE)
        w = tl.arange(0, WIDTH)
        row_mask = rows < n
        own = tl.zeros((SIDE, WIDTH), dtype)
        for j in range(start, stop):
            columns = j * SIDE + tl.arange(0, SIDE)
            column_mask = columns < n
            tile = tl.full((SIDE, SIDE), 1.0, dtype)
            for f in range(n_factors):
                part = tl.zeros((SIDE, SIDE), dtype)
                for k in range(tl.load(edges + f), tl.load(edges + f + 1), STEP):
                    d = k + tl.arange(0, STEP)
                    if BY_ROWS:
                        left = tl.load(joined + rows[:, None] * total + d[None, :], mask=row_mask[:, None], other=0.0)
                        right = tl.load(
                            joined + columns[:, None] * total + d[None, :], mask=column_mask[:, None], other=0.0
                        )
                        right = tl.trans(right)
                    else:
                        left = tl.load(joined + d[None, :] * n + rows[:, None], mask=row_mask[:, None], other=0.0)
                        right = tl.load(
                            joined + d[:, None] * n + columns[None, :], mask=column_mask[None, :], other=0.0
                        )
                    part = tl.dot(left, right, part, input_precision=PRECISION, out_dtype=dtype)
                tile = tile * part
            theirs = tl.load(block + columns[:, None] * WIDTH + w[None, :], mask=column_mask[:, None], other=0.0)
            own = tl.dot(tile, theirs, own, input_precision=PRECISION, out_dtype=dtype)
            if j > i:
                mine = tl.load(block + rows[:, None] * WIDTH + w[None, :], mask=row_mask[:, None], other=0.0)
                mirrored = tl.dot(tl.trans(tile), mine, input_precision=PRECISION, out_dtype=dtype)
                tl.atomic_add(
                    out + columns[:, None] * WIDTH + w[None, :], mirrored, mask=column_mask[:, None], sem="relaxed"
                )
        tl.atomic_add(out + rows[:, None] * WIDTH + w[None, :], own, mask=row_mask[:, None], sem="relaxed")
