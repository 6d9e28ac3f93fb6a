"""One answer, taken in pieces into a file of a size known beforehand."""

import asyncio
import errno
import hashlib
import os
import shutil
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from dkpca.network.protocol import PIECE
from dkpca.store import storage

STALLED = 60.0  # seconds without a byte
SPARE = 16 * 2**20  # bytes of disk left alone
MOST_WAITING = 64  # parts of a piece: an object in memory takes fifty bytes, and a peer may send one at a time


class CutOffError(Exception):
    """A body that is not taken to its end."""

    def __init__(self, status: int, reason: str, *, final: bool = False) -> None:
        super().__init__(reason)
        self.status, self.reason, self.final = status, reason, final  # final: the question is closed by it


@dataclass(frozen=True)
class Piece:
    """What a party says it sends: bytes from an offset on, of so many with this digest."""

    offset: int
    size: int
    sha256: str
    ledger: str


async def receive(body: AsyncIterator[bytes], piece: Piece, path: Path) -> bool:
    """Append a piece to the file; return whether the answer is whole now."""
    here = path.stat().st_size if path.exists() else 0
    if piece.offset != here or here > piece.size:
        if here > piece.size:
            path.unlink()
        raise CutOffError(409, "another part of it is wanted")
    _check_room(piece.size - here, path)
    digest = await asyncio.to_thread(_digest_so_far, path)
    with path.open("ab", buffering=0) as file:
        try:
            await _append(body, piece.size - here, file.fileno(), digest)
            if os.fstat(file.fileno()).st_size < piece.size:
                return False
            await asyncio.to_thread(os.fsync, file.fileno())
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise CutOffError(507, "the center's disk is full", final=True) from error
            raise
    if digest.hexdigest() != piece.sha256:
        path.unlink()
        raise CutOffError(422, "what arrived has another digest than was announced")
    return True


async def _append(body: AsyncIterator[bytes], most: int, descriptor: int, digest: "hashlib._Hash") -> None:
    """Have a thread write and hash what has come, while more comes."""
    writing = asyncio.ensure_future(asyncio.sleep(0))
    try:
        async for parts in _batches(body, most):
            await asyncio.wait({writing})
            writing.result()
            writing = asyncio.ensure_future(asyncio.to_thread(_write, descriptor, parts, digest))
    finally:
        await asyncio.wait({writing})  # also if the request broke off: its thread must not outlive the open file
    writing.result()


async def _batches(body: AsyncIterator[bytes], most: int) -> AsyncIterator[list[bytes]]:
    """What comes, in parts enough to be written together; cut off at the first byte too many."""
    parts, held, data = list[bytes](), 0, b" "
    while data:
        try:
            async with asyncio.timeout(STALLED):
                data = await anext(body, b"")
        except TimeoutError as error:
            raise CutOffError(408, f"nothing came for {STALLED:g} s") from error
        held, most = held + len(data), most - len(data)
        if most < 0:
            raise CutOffError(413, "more came than was announced", final=True)
        parts.append(data)
        if held >= PIECE or len(parts) >= MOST_WAITING or not data:
            yield parts
            parts, held = [], 0


def _digest_so_far(path: Path) -> "hashlib._Hash":
    """SHA-256 of what a file holds, to go on with."""
    if not path.exists():
        return hashlib.sha256()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256")


def _write(descriptor: int, parts: list[bytes], digest: "hashlib._Hash") -> None:
    for part in parts:
        storage.write_fully(descriptor, part)
        digest.update(part)


def _check_room(wanted: int, path: Path) -> None:
    if shutil.disk_usage(path.parent).free < wanted + SPARE:
        raise CutOffError(507, "the center's disk is full", final=True)
