"""A JSON header and arrays in one safetensors file: checked, and never executed.

The file's metadata has one entry, named after what the file is for, with the header as JSON text. The header
carries a checksum over itself and over the name, type, shape and bytes of every array.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from dkpca import strict_json
from dkpca.errors import WireError
from dkpca.linalg.memory import let_go
from dkpca.wire import layout
from dkpca.wire.layout import AGAIN, DTYPES, METADATA, Arrays, Buffer

WIRE_DTYPES = {code: name for code, name in DTYPES.items() if code != "I64"}  # row numbers do not travel
MESSAGE, PRIVATE, MODEL = "dkpca", "dkpca_private", "dkpca_model"  # entries: what a file is for
MEANING = {MESSAGE: "a message", PRIVATE: "a party's private file", MODEL: "a fused model"}

Header = dict[str, Any]


def pack(header: Header, arrays: Arrays, *, entry: str) -> bytes:
    """Return the bytes of one file; the same header and arrays give the same bytes."""
    return save(header | {"checksum": checksum(header, arrays)}, arrays, entry=entry)


def save(header: Header, arrays: Arrays, *, entry: str) -> bytes:
    """Return the bytes of one file whose header is complete."""
    return b"".join(pieces(header, arrays, entry=entry))


def pieces(header: Header, arrays: Arrays, *, entry: str) -> list[Buffer]:
    """Return the bytes of one file whose header is complete, in pieces: arrays are not copied."""
    return layout.parts({entry: canonical(header)}, arrays)


def unpack(data: Buffer, *, entry: str, max_header: int, dtypes: Mapping[str, str] = DTYPES) -> tuple[Header, Arrays]:
    """Header, its checksum not yet verified, and arrays of a file: views of its bytes."""
    try:
        described = layout.header_of(data, max_header)
        metadata = described[METADATA]
        if PRIVATE in metadata and entry == MESSAGE:
            raise WireError("this is a party's private state, not a message: it contains data; never send it")
        others = [meaning for name, meaning in MEANING.items() if name in metadata]
        if entry not in metadata and others:
            raise WireError(f"this is {others[0]}, not {MEANING[entry]}; give the right file")
        header = strict_json.loads(metadata[entry])
        if not isinstance(header, dict):
            raise WireError(f"not a dkpca file: its header is not an object; {AGAIN}")
        return header, layout.arrays_in(data, described, dtypes)
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(
            f"not a dkpca file, or not a whole one: its header or its length is wrong; {AGAIN}"
        ) from error


def entry_of(data: Buffer) -> str:
    """Return what a file is for: the name of its entry."""
    try:
        metadata = layout.header_of(data, len(data))[METADATA]
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, WireError):
            raise
        raise WireError(
            f"not a dkpca file, or not a whole one: its header or its length is wrong; {AGAIN}"
        ) from error
    for name in MEANING:
        if name in metadata:
            return name
    raise WireError(f"not a dkpca file: nothing in its header says so; {AGAIN}")


def verify(header: Header, arrays: Arrays) -> Header:
    """Header without its checksum, if that matches."""
    header = dict(header)
    stated = header.pop("checksum", None)
    if stated != checksum(header, arrays):
        raise WireError("checksum does not match: the file was altered or damaged; get it again from whoever made it")
    return header


def canonical(header: Header) -> str:
    """JSON text that is the same for the same header."""
    return json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checksum(header: Header, arrays: Arrays) -> str:
    """Digest over the header and the name, type, shape and bytes of every array."""
    state = hashlib.sha256(canonical(header).encode())
    for name in sorted(arrays):
        array = arrays[name]
        state.update(f"\0{name}\0{array.dtype.str}\0{array.shape}\0".encode())
        state.update(array.data if array.size else b"")
        let_go(array)
    return state.hexdigest()
