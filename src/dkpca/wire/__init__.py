"""Messages to bytes and back: one safetensors file per message, versioned, checked, never executed.

The header holds the kind of message, its scalar fields and a checksum over those fields and all array bytes;
`dkpca.wire.container` has the layout, `dkpca.wire.codec` the fields.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any, get_args

import numpy as np

from dkpca.errors import WireError
from dkpca.linalg.arrays import dtype_name
from dkpca.messages import Message
from dkpca.wire import codec
from dkpca.wire.container import MESSAGE, WIRE_DTYPES, Header, canonical, checksum, pack, unpack, verify

__all__ = ["decode", "encode"]

VERSION = 1
KINDS: dict[str, type[Any]] = {cls.__name__.lower(): cls for cls in get_args(Message)}
MAX_HEADER = 2**16  # bytes; ours are under a kilobyte


def encode(message: Message) -> bytes:
    """Return the message as the bytes of one safetensors file; the same message gives the same bytes.

    Parameters
    ----------
    message : message of dkpca.messages
        What is to be sent.

    Returns
    -------
    bytes

    Examples
    --------
    >>> from dkpca import wire
    >>> from dkpca.messages import Statistics
    >>> wire.decode(wire.encode(Statistics("bank", 100, 5, 12.5)))
    Statistics(party='bank', n_samples=100, n_features=5, mean_squared_distance=12.5)
    """
    scalars, arrays = codec.encode(message)
    return pack(_header(message, scalars), arrays, entry=MESSAGE)


def decode(data: bytes) -> Message:
    """Return the message in the bytes, or raise `WireError` with the first thing that is wrong.

    Parameters
    ----------
    data : bytes
        From anyone: nothing in them is executed.

    Returns
    -------
    message of dkpca.messages

    Examples
    --------
    >>> from dkpca import errors, wire
    >>> try:
    ...     wire.decode(b"not a message")
    ... except errors.WireError as error:
    ...     print(error)
    not a whole dkpca file (13 bytes): truncated, or another kind of file
    """
    header, arrays = unpack(bytes(data), entry=MESSAGE, max_header=MAX_HEADER, dtypes=WIRE_DTYPES)
    kind, version = header.get("kind"), header.get("version")
    if version != VERSION:
        raise WireError(f"message has format version {version!r}; this dkpca reads version {VERSION}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise WireError(f"message is of unknown kind {kind!r}; expected one of {sorted(KINDS)}")
    message: Message = codec.decode(KINDS[kind], verify(header, arrays).get("fields"), arrays, what=f"{kind} message")
    return message


def fingerprint(message: Message) -> str:
    """Name of a message, from everything in it: the checksum that its file carries."""
    scalars, arrays = codec.encode(message)
    return checksum(_header(message, scalars), arrays)


def kind_of(message: Message) -> str:
    """Name of a kind of message."""
    return type(message).__name__.lower()


def size(message: Message) -> int:
    """Length of `encode(message)` without encoding it."""
    header = _header(message, codec.described(message)) | {"checksum": "0" * 64}
    layout: dict[str, Any] = {"__metadata__": {MESSAGE: canonical(header)}}
    offset = 0
    # safetensors lays arrays out by falling size of their numbers, then by name.
    for name, array in sorted(_arrays(message), key=lambda item: (-_width(item[1]), item[0])):
        end = offset + math.prod(array.shape) * _width(array)
        code = next(code for code, known in WIRE_DTYPES.items() if known == dtype_name(array))
        layout[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": [offset, end]}
        offset = end
    length = len(json.dumps(layout, separators=(",", ":")).encode())
    return 8 + -(-length // 8) * 8 + offset


def _header(message: Message, scalars: Header) -> Header:
    """Everything but the checksum and the arrays."""
    return {"kind": kind_of(message), "version": VERSION, "fields": scalars}


def _arrays(message: Message) -> Iterator[tuple[str, Any]]:
    for field in fields(message):
        value = getattr(message, field.name)
        if hasattr(value, "to_arrays"):
            yield from ((f"{field.name}{end}", array) for end, array in value.to_arrays().items())


def _width(array: Any) -> int:
    """Bytes of one number."""
    return np.dtype(dtype_name(array)).itemsize
