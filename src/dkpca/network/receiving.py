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
    """Append a piece to the file; return whether the answer is whole now. Hashing and writing leave the loop free."""
    here = path.stat().st_size if path.exists() else 0
    if piece.offset != here or here > piece.size:
        if here > piece.size:
            path.unlink()
        raise CutOffError(409, "another part of it is wanted")
    _check_room(piece.size - here, path)
    received, waiting, held = here, list[bytes](), 0
    digest = await asyncio.to_thread(_digest_so_far, path)
    with path.open("ab", buffering=0) as file:
        try:
            while True:
                async with asyncio.timeout(STALLED):
                    data = await anext(body, b"")
                received, held = received + len(data), held + len(data)
                if received > piece.size:
                    raise CutOffError(413, "more came than was announced", final=True)
                waiting.append(data)
                if held >= PIECE or len(waiting) >= MOST_WAITING or (not data and held):
                    await asyncio.to_thread(_write, file.fileno(), waiting, digest)
                    waiting, held = [], 0
                if not data:
                    break
        except TimeoutError as error:
            raise CutOffError(408, f"nothing came for {STALLED:g} s") from error
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise CutOffError(507, "the center's disk is full", final=True) from error
            raise
        if received < piece.size:
            return False
        await asyncio.to_thread(os.fsync, file.fileno())
    if digest.hexdigest() != piece.sha256:
        path.unlink()
        raise CutOffError(422, "what arrived has another digest than was announced")
    return True


def _digest_so_far(path: Path) -> "hashlib._Hash":
    """SHA-256 of what a file holds, to go on with."""
    if not path.exists():
        return hashlib.sha256()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256")


def _write(descriptor: int, pieces: list[bytes], digest: "hashlib._Hash") -> None:
    for piece in pieces:
        view = memoryview(piece)
        while view:
            view = view[os.write(descriptor, view) :]
        digest.update(piece)


def _check_room(wanted: int, path: Path) -> None:
    if shutil.disk_usage(path.parent).free < wanted + SPARE:
        raise CutOffError(507, "the center's disk is full", final=True)
