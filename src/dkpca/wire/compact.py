"""Integers to few bytes and back, by the entropy coder `pcodec`.

A matrix is coded column by column. How many numbers a chunk holds follows from the shape alone, so that the coded
bytes claim nothing. A coded matrix has at least one byte per `NUMBERS_PER_BYTE` numbers; zeros are appended where
the coder needs fewer: a shape that claims more than its bytes allow is refused before any memory is taken.

Only the coder's wrapped interface is used, where the caller says how many numbers there are. Its standalone one
believes the file: a few hundred bytes can ask for gigabytes and end the process.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from pcodec import ChunkConfig, DeltaSpec, ModeSpec, PagingSpec
from pcodec.wrapped import FileCompressor, FileDecompressor

from dkpca.errors import WireError
from dkpca.linalg.rows import in_order, slices

Integers = np.ndarray[Any, np.dtype[np.int32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

NUMBERS_PER_BYTE = 6  # at most; a matrix worth sending has more than 1.3 bits a number
LEVEL = 8
SMALL_CHUNK, LARGE_CHUNK = 6000, 2**18  # numbers: small matrices share a chunk's table among columns
PLAIN = b"\0"  # how a chunk begins in the coder's plain mode, without differences or dictionaries: all we read
MOST_BYTES_A_NUMBER, MOST_TABLE_BYTES = 8, 2**16  # of a chunk, with a wide margin


def code(matrix: Integers) -> Bytes:
    """Return the matrix as coded bytes; the same matrix gives the same bytes with the same release of the coder."""
    # Column after column, in chunks that the shape decides, over the cores: the coder lets other threads run. The
    # padding keeps at least a byte per NUMBERS_PER_BYTE numbers, by which `decode` refuses impossible shapes.
    flat, chunks = np.ascontiguousarray(matrix.T).reshape(-1), list(_chunks(*matrix.shape))
    parts = in_order(lambda numbers: _coded_chunk(flat[numbers]), chunks, flat)
    coded = b"".join([FileCompressor().write_header(), *parts])
    return np.frombuffer(coded.ljust(-(-matrix.size // NUMBERS_PER_BYTE), b"\0"), np.uint8)


def _coded_chunk(numbers: Integers) -> bytes:
    settings = ChunkConfig(
        compression_level=LEVEL,
        mode_spec=ModeSpec.classic(),
        delta_spec=DeltaSpec.no_op(),
        paging_spec=PagingSpec.exact_page_sizes([len(numbers)]),
    )
    chunk = FileCompressor().chunk_compressor(numbers, settings)
    return bytes(chunk.write_meta() + chunk.write_page(0))


def decode(coded: Bytes, shape: tuple[int, int]) -> Integers:
    """Return the matrix of this shape, or raise `WireError`; takes 4 bytes of memory a number and 4 a chunk's."""
    rows, columns = shape
    if rows * columns > NUMBERS_PER_BYTE * coded.size:
        raise WireError(f"{rows} x {columns} numbers cannot come from {coded.size} coded bytes")
    # Each chunk is given no more bytes than it could need, so that a forged one cannot make the coder read on.
    data = coded.tobytes()
    matrix: Integers = np.empty(shape, np.int32)
    try:
        coder, at = FileDecompressor.new(data[:MOST_TABLE_BYTES])
        for numbers in _chunks(rows, columns):
            chunk = matrix[numbers, 0] if columns == 1 else np.empty(numbers.stop - numbers.start, np.int32)
            at += _decode_chunk(coder, data, at, chunk)
            first, row = divmod(numbers.start, rows)
            if chunk.size < rows:
                matrix[row : row + chunk.size, first] = chunk
            else:
                matrix[:, first : first + chunk.size // rows] = chunk.reshape(-1, rows).T
    except RuntimeError as error:
        raise WireError(f"coded numbers cannot be read ({error}): the file was altered or damaged") from error
    if any(data[at:]) or len(data) != max(at, -(-matrix.size // NUMBERS_PER_BYTE)):
        raise WireError("coded numbers are followed by something else: the file was altered or damaged")
    return matrix


def _decode_chunk(coder: Any, data: bytes, at: int, out: Integers) -> int:
    """Fill `out` from the chunk that begins there; return the bytes it took."""
    end = at + MOST_BYTES_A_NUMBER * out.size + MOST_TABLE_BYTES
    if data[at : at + 1] != PLAIN:
        raise WireError("coded numbers are in a mode that dkpca does not write: the file was altered or damaged")
    chunk, table = coder.chunk_decompressor(data[at:end], "i32")
    progress, page = chunk.read_page_into(data[at + table : end], out.size, out)
    if progress.n_processed != out.size or not progress.finished:
        raise WireError("coded numbers end too early: the file was altered or damaged")
    return int(table + page)


def _chunks(rows: int, columns: int) -> Iterator[slice]:
    """Cut the numbers of a matrix, column after column, into chunks: some columns each, or parts of one column."""
    if rows <= LARGE_CHUNK:
        yield from slices(rows * columns, rows * max(1, SMALL_CHUNK // rows))
        return
    for first in range(0, rows * columns, rows):
        for start in range(first, first + rows, LARGE_CHUNK):
            yield slice(start, min(start + LARGE_CHUNK, first + rows))
