"""Messages to bytes and back: one safetensors file per message, versioned, checked, never executed.

The header holds the kind of message, its scalar fields and a checksum over those fields and all arrays;
`dkpca.wire.container` has the layout, `dkpca.wire.codec` the fields. Arrays of whole numbers travel coded
(`dkpca.wire.compact`); the header then says their shapes, and the checksum is over the numbers, not their code.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from dkpca.errors import InputError, WireError
from dkpca.linalg.arrays import is_dask_array
from dkpca.linalg.on_dask import digest
from dkpca.messages import Count, Message
from dkpca.wire import codec, compact, container
from dkpca.wire.container import MESSAGE, WIRE_DTYPES, Arrays, Buffer, Header, checksum, unpack, verify

__all__ = ["decode", "encode"]

VERSION, CODED_VERSION = 1, 2  # the second has coded arrays; a dkpca from before them says that it cannot read it
KINDS: dict[str, type[Any]] = {cls.__name__.lower(): cls for cls in Message.__subclasses__()}
MAX_HEADER = 2**18  # bytes; ours are under a kilobyte, but for the positions of up to 5,000 audited samples


def encode(message: Message) -> bytes:
    """Return the message as the bytes of one safetensors file; the same message gives the same bytes.

    Parameters
    ----------
    message : message of dkpca.messages
        What is to be sent.

    Examples
    --------
    >>> from dkpca import wire
    >>> from dkpca.messages import Statistics
    >>> wire.decode(wire.encode(Statistics("bank", 100, 5, 12.5)))
    Statistics(party='bank', n_samples=100, n_features=5, mean_squared_distance=12.5)
    """
    if not isinstance(message, Message):  # a state has arrays too, and among them the party's rows
        raise InputError(f"a {type(message).__name__} is not a message, and is never sent; keep it with dkpca.save")
    return b"".join(pieces(message))


def pieces(message: Message, stated: str = "") -> list[Buffer]:
    """Return `encode(message)` in pieces, to be written one after the other: large arrays are not copied."""
    header, arrays = encoded(message)
    header |= {"checksum": stated or checksum(header, arrays)}
    shapes = {name: list(array.shape) for name, array in arrays.items() if array.dtype == np.int32}
    coded = {name: compact.code(array) if name in shapes else array for name, array in arrays.items()}
    return container.pieces(header | ({"coded": shapes} if shapes else {}), coded, entry=MESSAGE)


def decode(data: Buffer) -> Message:
    """Return the message in the bytes, or raise `WireError` with the first thing that is wrong.

    Parameters
    ----------
    data : bytes, or a memoryview of some
        From anyone: nothing in them is executed. Arrays of the message are views of them.

    Examples
    --------
    >>> from dkpca import errors, wire
    >>> try:
    ...     wire.decode(b"not a message")
    ... except errors.WireError as error:
    ...     print(str(error).partition(";")[0])
    not a whole dkpca file (13 bytes): truncated, or another kind of file
    """
    data = data if isinstance(data, bytes | memoryview) else bytes(data)  # nobody else writes to these
    header, arrays = unpack(data, entry=MESSAGE, max_header=MAX_HEADER, dtypes=WIRE_DTYPES)
    kind, version = header.get("kind"), header.get("version")
    if version not in (VERSION, CODED_VERSION) or isinstance(version, bool):
        raise WireError(f"message has format version {version!r}; this dkpca reads versions 1 and 2: update dkpca")
    if not isinstance(kind, str) or kind not in KINDS:
        raise WireError(f"message is of unknown kind {kind!r}; expected one of {sorted(KINDS)}")
    arrays = _decoded(header.pop("coded", {}), arrays, expected=version == CODED_VERSION)
    message: Message = codec.decode(KINDS[kind], verify(header, arrays).get("fields"), arrays, what=f"{kind} message")
    return message


def fingerprint(message: Message) -> str:
    """Name of a message, from everything in it: the checksum that its file carries."""
    tall = _on_workers(message)
    if tall:  # it is not sent: its name is made of digests of chunks
        digests = {name: digest(matrix.data) for name, matrix in tall.items()}
        return checksum({"kind": kind_of(message), "fields": codec.described(message), "arrays": digests}, {})
    return checksum(*encoded(message))


def kind_of(message: Message) -> str:
    """Name of a kind of message."""
    return type(message).__name__.lower()


def size(message: Message) -> int:
    """Length of `encode(message)`, without hashing or copying its arrays; what travels coded has to be coded."""
    tall = _on_workers(message)
    if tall:  # rows on the workers of a cluster are counted, to a few bytes
        count = max(m.shape[1] for m in tall.values())
        few = {name: replace(m, data=np.zeros((count, m.shape[1]), m.data.dtype)) for name, m in tall.items()}
        rows: list[int] = [(m.shape[0] - count) * m.shape[1] * m.data.dtype.itemsize for m in tall.values()]
        return size(replace(message, **few)) + sum(rows)
    return sum(map(len, pieces(message, "0" * 64)))


def _on_workers(message: Message) -> dict[str, Any]:
    """Matrices of a message whose rows stay on the workers of a cluster."""
    values = {field.name: getattr(message, field.name) for field in fields(message)}
    return {name: value for name, value in values.items() if is_dask_array(getattr(value, "data", None))}


def encoded(message: Message) -> tuple[Header, Arrays]:
    """Header without the checksum and how arrays are coded, and the arrays."""
    scalars, arrays = codec.encode(message)
    version = CODED_VERSION if any(array.dtype == np.int32 for array in arrays.values()) else VERSION
    return {"kind": kind_of(message), "version": version, "fields": scalars}, arrays


def _decoded(shapes: object, arrays: Arrays, *, expected: bool) -> Arrays:
    """Arrays as they were before they were coded, if the header says how to read exactly those."""
    known = codec.values(dict.fromkeys(arrays, tuple[Count, Count]), shapes, what="the shapes of coded arrays")
    if bool(known) != expected:
        raise WireError("the header does not describe the coded arrays")
    for name in known:
        if arrays[name].dtype != np.uint8 or arrays[name].ndim != 1:
            raise WireError(f"coded array {name!r} is not one of bytes")
    return arrays | {name: compact.decode(arrays[name], shape) for name, shape in known.items()}
