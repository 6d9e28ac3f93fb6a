"""A JSON header and arrays in one safetensors file: checked, and never executed.

The file's metadata has one entry, named after what the file is for, with the header as JSON text. The header
carries a checksum over itself and over the name, type, shape and bytes of every array.

Arrays are read as views of the bytes and written from where they are, so that a large one is never in memory twice,
as it would be with the package safetensors. The bytes are those that it would write, and what it refuses is refused.
"""

import contextlib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from dkpca.errors import WireError
from dkpca.linalg.arrays import let_go
from dkpca.wording import json_values

# In the order of arrays.
DTYPES = {"I64": "int64", "F64": "float64", "F32": "float32", "F16": "float16", "U8": "uint8"}
CODES = {name: code for code, name in DTYPES.items()}
METADATA = "__metadata__"
AGAIN = "get it again from its sender, or give the right file"
ENTRIES = {"dtype", "shape", "data_offsets"}

Buffer = bytes | memoryview
Arrays = dict[str, np.ndarray[Any, Any]]
WIRE_DTYPES = {code: name for code, name in DTYPES.items() if code != "I64"}  # row numbers do not travel
MESSAGE, PRIVATE, MODEL = "dkpca", "dkpca_private", "dkpca_model"  # entries: what a file is for
MEANING = {MESSAGE: "a message", PRIVATE: "a party's private file", MODEL: "a fused model"}

Header = dict[str, Any]


def pack(header: Header, arrays: Arrays, *, entry: str) -> bytes:
    """Return the bytes of one file; the same header and arrays give the same bytes."""
    return b"".join(pieces(header | {"checksum": checksum(header, arrays)}, arrays, entry=entry))


def pieces(header: Header, arrays: Arrays, *, entry: str) -> list[Buffer]:
    """Return the bytes of one file whose header is complete, in pieces: arrays are not copied."""
    # Large numbers first, then by name, as the package does it; the header is padded to eight bytes.
    ordered = sorted(arrays.items(), key=lambda item: (list(CODES).index(item[1].dtype.name), item[0]))
    layout: dict[str, Any] = {METADATA: {entry: canonical(header)}}
    offset = 0
    for name, array in ordered:
        place = [offset, offset := offset + array.nbytes]
        layout[name] = {"dtype": CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": place}
    head = json.dumps(layout, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    bodies = [np.ascontiguousarray(array).data.cast("B") for _, array in ordered if array.nbytes]
    return [len(head).to_bytes(8, "little") + head, *bodies]


def unpack(data: Buffer, *, entry: str, max_header: int, dtypes: Mapping[str, str] = DTYPES) -> tuple[Header, Arrays]:
    """Header, its checksum not yet verified, and arrays of a file: views of its bytes."""
    with _as_wire_error():
        described = header_of(data, max_header)
        metadata = described[METADATA]
        if PRIVATE in metadata and entry == MESSAGE:
            raise WireError("this is a party's private state, not a message: it contains data; never send it")
        others = [MEANING[name] for name in MEANING if name in metadata]
        if entry not in metadata and others:
            raise WireError(f"this is {others[0]}, not {MEANING[entry]}; give the right file")
        header = json_values(metadata[entry])
        if not isinstance(header, dict):
            raise WireError(f"not a dkpca file: its header is not an object; {AGAIN}")
        # The checksum is over numbers: a digit that changes none of them is damage all the same.
        if canonical(header) != metadata[entry]:
            raise WireError(f"its header is not as dkpca writes it: the file was altered or damaged; {AGAIN}")
        return header, arrays_in(data, described, dtypes)


def entry_of(data: Buffer) -> str:
    """Return what a file is for: the name of its entry."""
    with _as_wire_error():
        metadata = header_of(data, len(data))[METADATA]
        for name in MEANING:
            if name in metadata:
                return name
    raise WireError(f"not a dkpca file: nothing in its header says so; {AGAIN}")


@contextlib.contextmanager
def _as_wire_error() -> Iterator[None]:
    """Let what a damaged header raises be one of our errors."""
    try:
        yield
    except (ValueError, KeyError, TypeError) as error:
        raise WireError(f"not a whole dkpca file: its header or its length is wrong; {AGAIN}") from error


def verify(header: Header, arrays: Arrays) -> Header:
    """Header without its checksum, if that matches."""
    header = dict(header)
    stated = header.pop("checksum", None)
    if stated != checksum(header, arrays):
        raise WireError(f"checksum does not match: the file was altered or damaged; {AGAIN}")
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


def header_of(data: Buffer, most: int) -> dict[str, Any]:
    """Return the header, if there is a whole one of at most so many bytes."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(most, len(data) - 8):
        raise WireError(f"not a whole dkpca file ({len(data)} bytes): truncated, or another kind of file; {AGAIN}")
    found = json_values(bytes(data[8 : 8 + length]))
    if not isinstance(found, dict):
        raise TypeError("the header is no object")
    return found


def arrays_in(data: Buffer, header: Mapping[str, Any], dtypes: Mapping[str, str]) -> Arrays:
    """Return the arrays as views of the bytes, which they fill without a gap."""
    body = memoryview(data)[8 + int.from_bytes(data[:8], "little") :]
    # Every number in the header is the sender's word: no array is made before its place in the file is checked
    # against its type and shape.
    places: list[list[int]] = []
    arrays: Arrays = {}
    for name, entry in header.items():
        if name == METADATA:
            continue
        if not isinstance(entry, dict) or set(entry) != ENTRIES:
            raise TypeError("the entry of an array has other fields")
        if entry["dtype"] not in dtypes:
            raise WireError(f"array {name!r} has type {entry['dtype']}; the wire carries {sorted(dtypes)}")
        shape, place, dtype = _counts(entry["shape"]), _counts(entry["data_offsets"]), dtypes[entry["dtype"]]
        start, end = place
        if not 0 <= start <= end <= len(body) or end - start != math.prod(shape) * np.dtype(dtype).itemsize:
            raise ValueError("an array does not lie within the file")
        # No array of ours is empty or has more than two dimensions; NumPy refuses some shapes of those that are.
        if not 1 <= len(shape) <= 2 or 0 in shape:
            raise WireError(f"array {name!r} has {len(shape)} dimensions or no entry; ours have one or two")
        places.append(place)
        arrays[name] = np.frombuffer(body[start:end], dtype=dtype).reshape(shape)
    # Together they fill the file: what nobody reads could carry something else.
    cuts = [0, *(cut for place in sorted(places) for cut in place), len(body)]
    if cuts[::2] != cuts[1::2]:
        raise ValueError("arrays overlap, or leave a gap")
    return arrays


def _counts(value: object) -> list[int]:
    """A list of whole numbers, none negative."""
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 2**63 for n in value):
        raise TypeError("not a list of counts")
    return value
