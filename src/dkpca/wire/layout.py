"""The bytes of a safetensors file: eight for the length of its header, the header, then one array after the other.

Arrays are read as views of the bytes and written from where they are, so that a large one is never in memory twice.
The bytes are those that the package safetensors would write, and what it refuses is refused.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from dkpca import strict_json
from dkpca.errors import WireError

DTYPES = {
    "I64": "int64",
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "U8": "uint8",
}  # in the order of arrays
CODES = {name: code for code, name in DTYPES.items()}
METADATA = "__metadata__"
AGAIN = "get it again from whoever made it, or give the right file"
ENTRIES = {"dtype", "shape", "data_offsets"}

Buffer = bytes | memoryview
Arrays = dict[str, np.ndarray[Any, Any]]


def parts(metadata: Mapping[str, str], arrays: Arrays) -> list[Buffer]:
    """Return the pieces of the file, in order; arrays are not copied."""
    ordered = sorted(arrays.items(), key=lambda item: (list(CODES).index(item[1].dtype.name), item[0]))
    layout: dict[str, Any] = {METADATA: dict(metadata)}
    offset = 0
    for name, array in ordered:
        place = [offset, offset := offset + array.nbytes]
        layout[name] = {"dtype": CODES[array.dtype.name], "shape": list(array.shape), "data_offsets": place}
    head = json.dumps(layout, separators=(",", ":"), ensure_ascii=False).encode()
    head += b" " * (-len(head) % 8)
    bodies = [np.ascontiguousarray(array).data.cast("B") for _, array in ordered if array.nbytes]
    return [len(head).to_bytes(8, "little") + head, *bodies]


def header_of(data: Buffer, most: int) -> dict[str, Any]:
    """Return the header, if there is a whole one of at most so many bytes."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(most, len(data) - 8):
        raise WireError(f"not a whole dkpca file ({len(data)} bytes): truncated, or another kind of file; {AGAIN}")
    found = strict_json.loads(bytes(data[8 : 8 + length]))
    if not isinstance(found, dict):
        raise TypeError("the header is no object")
    return found


def arrays_in(data: Buffer, header: Mapping[str, Any], dtypes: Mapping[str, str]) -> Arrays:
    """Return the arrays as views of the bytes, which they fill without a gap."""
    body = memoryview(data)[8 + int.from_bytes(data[:8], "little") :]
    places: dict[str, tuple[int, int]] = {}
    arrays: Arrays = {}
    for name, entry in header.items():
        if name == METADATA:
            continue
        if not isinstance(entry, dict) or set(entry) != ENTRIES:
            raise TypeError("the entry of an array has other fields")
        if entry["dtype"] not in dtypes:
            raise WireError(f"array {name!r} has type {entry['dtype']}; the wire carries {sorted(dtypes)}")
        shape, (start, end) = _counts(entry["shape"]), _counts(entry["data_offsets"])
        dtype = np.dtype(dtypes[entry["dtype"]])
        if not 0 <= start <= end <= len(body) or end - start != math.prod(shape) * dtype.itemsize:
            raise ValueError("an array does not lie within the file")
        # No array of ours is empty or has more than two dimensions; NumPy refuses some shapes of those that are.
        if not 1 <= len(shape) <= 2 or 0 in shape:
            raise WireError(
                f"array {name!r} has {len(shape)} dimensions or no entry; ours have one or two, and entries"
            )
        places[name] = start, end
        arrays[name] = np.frombuffer(body[start:end], dtype=dtype).reshape(shape)
    reached = 0
    for start, end in sorted(places.values()):
        if start != reached:
            raise ValueError("arrays overlap, or leave a gap")
        reached = end
    if reached != len(body):
        raise ValueError("the file is longer than its arrays")
    return arrays


def _counts(value: object) -> list[int]:
    """A list of whole numbers, none negative."""
    if not isinstance(value, list) or not all(type(n) is int and 0 <= n < 2**63 for n in value):
        raise TypeError("not a list of counts")
    return value
