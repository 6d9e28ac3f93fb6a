"""The one format of everything that a member signs: a header, its signature, and parts for their readers.

A file is `MAGIC`, the length of the header, the header (canonical JSON), an Ed25519 signature over it, and the parts.
The header says who wrote the file for which agreement, step and question, and for each part its readers, length and
digest. A part without readers is public; any other is encrypted once under a fresh key, in pieces of 1 MiB, and the
key is sealed to each reader and to the writer, bound to the whole header. Nothing is opened before the signature
and the digest of the ciphertext are verified.
"""

import hashlib
import io
import json
import os
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import IO, Any, BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from dkpca.errors import ProtectionError, WireError
from dkpca.exchange.folder import NAME
from dkpca.exchange.identity import Secrets, is_signed, seal, sha256

MAGIC = b"dkpca sealed 1\n"
SIGNED = b"dkpca signed file 1\0"
PREFIX = len(MAGIC) + 4
SIGNATURE_BYTES = 64
MOST_HEADER = 2**20  # of 200 parts for one reader each: a tenth of it
PIECE = 2**20
TAG = 16
HEX = re.compile(r"[0-9a-f]{64}")
ALL = "all"  # the part for everybody
ANYBODY: tuple[str, ...] = ()
WORDS = ("kind", "agreement", "step", "writer", "question")  # of a header, beside its parts


class NotWholeError(Exception):
    """A file that is shorter than its header says: it is still on its way."""


@dataclass(frozen=True)
class Part:
    """One content and who may read it; no readers: everybody."""

    name: str
    readers: tuple[str, ...]
    content: Sequence[bytes | memoryview]  # pieces of any size


@dataclass(frozen=True)
class Sealed:
    """Where one part lies in its file, and how it is opened."""

    readers: tuple[str, ...]
    length: int  # bytes in the file
    sha256: str  # of these bytes
    keys: Mapping[str, str] = field(repr=False)  # sealed to each reader and to the writer, in hexadecimal
    offset: int = 0  # in the file

    @property
    def plain_length(self) -> int:
        """Bytes of the content."""
        return self.length - (TAG * -(-self.length // (PIECE + TAG)) if self.readers else 0)


@dataclass(frozen=True)
class Header:
    """What the writer signed."""

    kind: str  # "signature", "question", "answer", "refusal"
    agreement: str
    step: str
    writer: str
    question: str  # digest of the question that this answers; 64 zeros where there is none
    parts: Mapping[str, Sealed]

    @property
    def length(self) -> int:
        """Bytes of the whole file."""
        return max(part.offset + part.length for part in self.parts.values())


def write(file: BinaryIO, about: Header, parts: Sequence[Part], me: Secrets, sealing: Mapping[str, str]) -> None:
    """Write a signed file with these parts to a file that can seek; `about` says everything else."""
    keys, places = {part.name: secrets.token_bytes(32) for part in parts}, dict[str, Sealed]()
    header = replace(about, parts=places)  # as these become known
    for part in parts:
        length = sum(memoryview(piece).nbytes for piece in part.content)
        length += TAG * max(1, -(-length // PIECE)) if part.readers else 0  # an encrypted part has a piece at least
        holders = sorted({*part.readers, about.writer}) if part.readers else []
        places[part.name] = Sealed(part.readers, length, "0" * 64, dict.fromkeys(holders, "00" * 80))
    file.seek(PREFIX + len(_encoded(header)) + SIGNATURE_BYTES)  # digests and keys have fixed lengths
    for part in parts:
        places[part.name] = replace(places[part.name], sha256=_write_part(file, part, keys[part.name]))
    for name, place in places.items():
        wrapped = {holder: seal(keys[name], sealing[holder], _info(header, name)).hex() for holder in place.keys}
        places[name] = replace(place, keys=wrapped)
    text = _encoded(header)
    file.seek(0)
    file.write(MAGIC + len(text).to_bytes(4, "big") + text + me.sign(SIGNED + text))
    file.seek(0, os.SEEK_END)


def read_header(file: BinaryIO, size: int, public: Mapping[str, str]) -> Header:
    """Return the header of a file of this size if a member signed it; `NotWholeError` while the file is shorter."""
    prefix = file.read(PREFIX)
    if len(prefix) < PREFIX and MAGIC.startswith(prefix[: len(MAGIC)]):
        raise NotWholeError
    if not prefix.startswith(MAGIC):
        raise WireError("is not a file of a study, or has a version that this program does not read")
    length = int.from_bytes(prefix[len(MAGIC) :], "big")
    if length > MOST_HEADER:
        raise WireError(f"declares a header of {length} bytes; {MOST_HEADER} are the most")
    text = file.read(length + SIGNATURE_BYTES)
    if len(text) < length + SIGNATURE_BYTES:
        raise NotWholeError
    text, signature = text[:length], text[length:]
    header = _decoded(text, PREFIX + length + SIGNATURE_BYTES)
    if header.writer not in public:
        raise ProtectionError(f"names {header.writer!r} as its writer, who is not a member")
    if not is_signed(SIGNED + text, signature, public[header.writer]):
        raise ProtectionError(f"is not signed by {header.writer!r}: it was altered or forged")
    if size < header.length:
        raise NotWholeError
    if size > header.length:
        raise ProtectionError(f"has {size} bytes, and {header.writer!r} signed {header.length}")
    return header


def contents(
    file: BinaryIO, header: Header, part: str, reader: tuple[str, Secrets] | None, kept: IO[bytes]
) -> Iterator[bytes]:
    """Yield the content of one part in pieces, after its digest was verified."""
    # The ciphertext is copied into the empty file `kept` while it is hashed, and only opened there: a folder that
    # shows other bytes at the second look gains nothing.
    place = header.parts[part]
    file.seek(place.offset)
    state, left = hashlib.sha256(), place.length
    while left:
        piece = file.read(min(PIECE, left))
        if not piece:
            raise NotWholeError
        state.update(piece)
        kept.write(piece)
        left -= len(piece)
    if state.hexdigest() != place.sha256:
        raise ProtectionError(f"was altered after {header.writer!r} signed it")
    kept.seek(0)
    if not place.readers:
        while piece := kept.read(PIECE):
            yield piece
        return
    if reader is None or reader[0] not in place.keys:
        raise ProtectionError(f"is sealed to {', '.join(place.readers)} only")
    name, me = reader
    cipher = ChaCha20Poly1305(me.unseal(bytes.fromhex(place.keys[name]), _info(header, part)))
    count = -(-place.length // (PIECE + TAG))
    for number in range(count):
        try:
            yield cipher.decrypt(_nonce(number, count), kept.read(PIECE + TAG), None)
        except InvalidTag as error:
            raise ProtectionError(f"cannot be opened: {header.writer!r} sealed it wrongly") from error


def for_all(raw: bytes, public: Mapping[str, str], kind: str, writer: str) -> tuple[str, bytes]:
    """Return the agreement and the content of a small file for everybody, if this member wrote it."""
    file = io.BytesIO(raw)
    header = read_header(file, len(raw), public)
    if (header.kind, header.writer, [*header.parts]) != (kind, writer, [ALL]):
        raise ProtectionError(f"is not a {kind} of this member")
    return header.agreement, b"".join(contents(file, header, ALL, None, io.BytesIO()))


def canonical(value: Any) -> bytes:
    """JSON with one spelling."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def uncanonical(text: bytes, what: str) -> Any:
    """Return the value in canonical JSON; any other spelling is refused."""
    try:
        value = json.loads(text)
        if canonical(value) != text:
            raise ValueError("another spelling")
    except (ValueError, RecursionError) as error:
        raise WireError(f"{what} is not canonical JSON") from error
    return value


def _write_part(file: BinaryIO, part: Part, key: bytes) -> str:
    """Write one part; return the digest of what was written."""
    state, cipher, content = hashlib.sha256(), ChaCha20Poly1305(key), memoryview(b"".join(part.content))
    count = max(1, -(-len(content) // PIECE))
    for number in range(count):
        piece = content[number * PIECE : (number + 1) * PIECE]
        written = cipher.encrypt(_nonce(number, count), piece, None) if part.readers else piece
        state.update(written)
        file.write(written)
    return state.hexdigest()


def _nonce(number: int, count: int) -> bytes:
    """Position of a piece, and whether it is the last: none can be moved, left out or repeated."""
    return (b"last" if number == count - 1 else b"more") + number.to_bytes(8, "big")


def _info(header: Header, part: str) -> bytes:
    """Place to which a key is sealed: the whole header without the sealed keys, and the part."""
    bare = replace(header, parts={name: replace(place, keys={}) for name, place in header.parts.items()})
    return bytes.fromhex(sha256(_encoded(bare) + b"\0" + part.encode()))


def _encoded(header: Header) -> bytes:
    listed = [
        {"name": name, "readers": list(p.readers), "length": p.length, "sha256": p.sha256, "keys": dict(p.keys)}
        for name, p in header.parts.items()
    ]
    return canonical({**{word: getattr(header, word) for word in WORDS}, "parts": listed})


def _decoded(text: bytes, start: int) -> Header:
    """Header from its bytes; every entry has to be there and of its type, and no other."""
    found, parts = uncanonical(text, "its header"), dict[str, Sealed]()
    try:
        about = Header(**{word: found[word] for word in WORDS}, parts=parts)
        for part in found["parts"]:
            place = Sealed(tuple(part["readers"]), part["length"], part["sha256"], part["keys"], start)
            parts[part["name"]] = place
            start += place.length
        texts = [*(getattr(about, word) for word in WORDS), *parts]
        whole = bool(parts) and _encoded(about) == text and all(map(_is_whole, parts.values()))
        whole = whole and all(isinstance(each, str) for each in texts) and bool(HEX.fullmatch(about.question))
    except (KeyError, TypeError, AttributeError, ValueError):
        whole = False
    if not whole:
        raise WireError("its header lacks entries of its kind, or has others")
    return about


def _is_whole(part: Sealed) -> bool:
    """Whether the description of a part has values of their types."""
    names = all(isinstance(name, str) and NAME.fullmatch(name) for name in (*part.readers, *part.keys))
    keys = all(re.fullmatch(r"[0-9a-f]{160}", key) for key in part.keys.values())
    whole = names and keys and type(part.length) is int and 0 <= part.length < 2**48
    return whole and bool(HEX.fullmatch(part.sha256))
