"""A JSON header and arrays in one safetensors file: checked, and never executed.

The file's metadata has one entry, named after what the file is for, with the header as JSON text. The header
carries a checksum over itself and over the name, type, shape and bytes of every array.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from dkpca import strict_json
from dkpca.errors import WireError

WIRE_DTYPES = {"F64": "float64", "F32": "float32", "F16": "float16", "U8": "uint8"}
DTYPES = WIRE_DTYPES | {"I64": "int64"}  # row numbers, in files that do not travel
MESSAGE, PRIVATE, MODEL = "dkpca", "dkpca_private", "dkpca_model"  # entries: what a file is for
MEANING = {MESSAGE: "a message", PRIVATE: "a party's private file", MODEL: "a fused model"}

Header = dict[str, Any]
Arrays = dict[str, np.ndarray[Any, Any]]


def pack(header: Header, arrays: Arrays, *, entry: str) -> bytes:
    """Return the bytes of one file; the same header and arrays give the same bytes."""
    return save(header | {"checksum": checksum(header, arrays)}, arrays, entry=entry)


def save(header: Header, arrays: Arrays, *, entry: str) -> bytes:
    """Return the bytes of one file whose header is complete."""
    return safetensors.numpy.save(arrays, metadata={entry: canonical(header)})


def unpack(data: bytes, *, entry: str, max_header: int, dtypes: Mapping[str, str] = DTYPES) -> tuple[Header, Arrays]:
    """Header, its checksum not yet verified, and arrays of a file held in memory."""
    try:
        metadata = _metadata(data, max_header)
        if PRIVATE in metadata and entry == MESSAGE:
            raise WireError("this is a party's private state, not a message: it contains data; never send it")
        others = [meaning for name, meaning in MEANING.items() if name in metadata]
        if entry not in metadata and others:
            raise WireError(f"this is {others[0]}, not {MEANING[entry]}; give the right file")
        tensors = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        header = strict_json.loads(metadata[entry])
    except (safetensors.SafetensorError, ValueError, KeyError, TypeError) as error:
        raise WireError("not a dkpca file: its header cannot be read") from error
    if not isinstance(header, dict):
        raise WireError("not a dkpca file: its header is not an object")
    arrays: Arrays = {}
    for name, tensor in tensors:
        if tensor["dtype"] not in dtypes:
            raise WireError(f"array {name!r} has type {tensor['dtype']}; the wire carries {sorted(dtypes)}")
        shape = tensor["shape"]
        # No array of ours is empty or has more than two dimensions; NumPy refuses some shapes of those that are.
        if not 1 <= len(shape) <= 2 or 0 in shape:
            raise WireError(
                f"array {name!r} has {len(shape)} dimensions or no entry; ours have one or two, and entries"
            )
        arrays[name] = np.frombuffer(tensor["data"], dtype=dtypes[tensor["dtype"]]).reshape(shape)
    return header, arrays


def entry_of(data: bytes) -> str:
    """Return what a file is for: the name of its entry."""
    try:
        metadata = _metadata(data, len(data))
    except (ValueError, KeyError, TypeError) as error:
        raise WireError("not a dkpca file: its header cannot be read") from error
    for name in MEANING:
        if name in metadata:
            return name
    raise WireError("not a dkpca file: nothing in its header says so")


def _metadata(data: bytes, max_header: int) -> Any:
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(max_header, len(data) - 8):
        raise WireError(f"not a whole dkpca file ({len(data)} bytes): truncated, or another kind of file")
    return strict_json.loads(data[8 : 8 + length])["__metadata__"]


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
    return state.hexdigest()
