"""Messages to bytes and back: one safetensors file a message, versioned, checked, never executed.

The header holds the kind of message, its scalar fields and a checksum over those fields and all array bytes;
`dkpca.container` has the layout.
"""

import json
import math
import re
from dataclasses import fields
from itertools import pairwise
from typing import Any, get_args

import numpy as np

from dkpca import kernels
from dkpca.errors import InputError, WireError
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.precision import Rounded
from dkpca.messages import TOKEN_BYTES, Message, Summary, Tokens, check_party_name
from dkpca.wire.container import WIRE_DTYPES, Arrays, canonical, pack, unpack, verify

VERSION = 1
ENTRY = "dkpca"
KINDS: dict[str, type[Any]] = {cls.__name__.lower(): cls for cls in get_args(Message)}
MAX_HEADER = 2**16  # bytes; ours are under a kilobyte
BULK = (Rounded, Tokens)  # fields that travel as arrays


def encode(message: Message) -> bytes:
    """Return the message as the bytes of one safetensors file; the same message gives the same bytes."""
    scalars, arrays = _split(message)
    return pack(_header(message, scalars), arrays, entry=ENTRY)


def decode(data: bytes) -> Message:
    """Return the message in the bytes, or raise `WireError` with the first thing that is wrong."""
    header, arrays = unpack(bytes(data), entry=ENTRY, max_header=MAX_HEADER, dtypes=WIRE_DTYPES)
    kind, version = header.get("kind"), header.get("version")
    if version != VERSION:
        raise WireError(f"message has format version {version!r}; this dkpca reads version {VERSION}")
    if not isinstance(kind, str) or kind not in KINDS:
        raise WireError(f"message is of unknown kind {kind!r}; expected one of {sorted(KINDS)}")
    return _join(KINDS[kind], verify(header, arrays).get("fields"), arrays)


def kind_of(message: Message) -> str:
    """Name of a kind of message."""
    return type(message).__name__.lower()


def size(message: Message) -> int:
    """Length of `encode(message)` without encoding it."""
    scalars, _ = _split(message, bulk=False)
    header = _header(message, scalars) | {"checksum": "0" * 64}
    layout: dict[str, Any] = {"__metadata__": {ENTRY: canonical(header)}}
    offset = 0
    # safetensors lays arrays out by falling size of their numbers, then by name.
    bulk = [(f.name, getattr(message, f.name)) for f in fields(message) if f.type in BULK]
    scales = [
        (f"{name}.scale", (value.shape[1],), "float64")
        for name, value in bulk
        if isinstance(value, Rounded) and value.scale is not None
    ]
    for name, shape, precision in [*scales, *((name, value.shape, value.precision) for name, value in bulk)]:
        end = offset + math.prod(shape) * np.dtype(precision).itemsize
        code = next(code for code, known in WIRE_DTYPES.items() if known == precision)
        layout[name] = {"dtype": code, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    length = len(json.dumps(layout, separators=(",", ":")).encode())
    return 8 + -(-length // 8) * 8 + offset


def _header(message: Message, scalars: dict[str, Any]) -> dict[str, Any]:
    """Everything but the checksum and the arrays."""
    return {"kind": kind_of(message), "version": VERSION, "fields": scalars}


def _split(message: Message, *, bulk: bool = True) -> tuple[dict[str, Any], Arrays]:
    """Scalars and arrays of a message."""
    scalars: dict[str, Any] = {}
    arrays: Arrays = {}
    for field in fields(message):
        value = getattr(message, field.name)
        if isinstance(value, kernels.Kernel):
            scalars[field.name] = value.to_dict()
        elif not isinstance(value, BULK):
            scalars[field.name] = value
        elif bulk:
            arrays[field.name] = np.ascontiguousarray(to_numpy(value.data))
            if isinstance(value, Rounded) and value.scale is not None:
                arrays[f"{field.name}.scale"] = np.ascontiguousarray(to_numpy(value.scale))
    return scalars, arrays


def _join(cls: type[Any], scalars: Any, arrays: Arrays) -> Message:
    """Rebuild a message, checking every field."""
    kind = cls.__name__.lower()
    expected = {f.name: f.type for f in fields(cls)}
    bulk = {name for name, kind_of in expected.items() if kind_of in BULK}
    if not isinstance(scalars, dict) or set(scalars) != set(expected) - bulk:
        raise WireError(f"{kind} message does not have the fields of its kind")
    if not bulk <= set(arrays) <= bulk | {f"{name}.scale" for name in bulk}:
        raise WireError(f"{kind} message does not have the arrays of its kind")
    values = {name: _scalar(kind, name, expected[name], value) for name, value in scalars.items()}
    values |= {name: (_rounded if expected[name] is Rounded else _tokens)(kind, name, arrays) for name in bulk}
    message: Message = cls(**values)
    if isinstance(message, Summary) and message.rank > message.n_samples:
        raise WireError(f"summary message has rank {message.rank} for {message.n_samples} samples")
    return message


def _scalar(kind: str, name: str, wanted: Any, value: Any) -> Any:
    """One scalar field, of the right type and in range."""
    try:
        if wanted is kernels.Kernel:
            if not isinstance(value, dict):
                raise InputError("the kernel is not described by an object")
            return kernels.from_dict(value)
        if name == "party":
            return check_party_name(value)
    except InputError as error:
        raise WireError(f"{kind} message: {error}") from error
    if type(value) is not wanted:
        raise WireError(f"{kind} message: {name} is a {type(value).__name__}, not a {wanted.__name__}")
    if wanted is str and not re.fullmatch(r"[0-9a-f]{64}", value):
        raise WireError(f"{kind} message: {name} is not a sha256 digest")
    if wanted is int and value < 1:
        raise WireError(f"{kind} message: {name} is {value}, less than 1")
    # Rounding may add to the trace of a factor, so that a little less than nothing is left out.
    if wanted is float and not (math.isfinite(value) and (value >= 0 or name == "trace_left_out")):
        raise WireError(f"{kind} message: {name} is {value}, not a finite number >= 0")
    return value


def _rounded(kind: str, name: str, arrays: Arrays) -> Rounded:
    """One matrix, finite and of a precision that the wire allows."""
    data, scale = arrays[name], arrays.get(f"{name}.scale")
    if data.ndim != 2 or 0 in data.shape or data.dtype.kind != "f" or not np.isfinite(data).all():
        raise WireError(f"{kind} message: {name} is not a matrix of finite numbers (shape {data.shape})")
    if (scale is not None) != (data.dtype == np.float16):
        raise WireError(f"{kind} message: {name} must have a scale if it is float16, and only then")
    if scale is not None and not (
        scale.dtype == np.float64 and scale.shape == data.shape[1:] and np.isfinite(scale).all() and (scale > 0).all()
    ):
        raise WireError(f"{kind} message: the scale of {name} is not one positive float64 a column")
    return Rounded(data, scale)


def _tokens(kind: str, name: str, arrays: Arrays) -> Tokens:
    """Keyed hashes: ascending, so that no order is told, and each of them once."""
    data = arrays[name]
    if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != TOKEN_BYTES or data.shape[0] == 0:
        raise WireError(f"{kind} message: {name} is not a list of {TOKEN_BYTES}-byte tokens (shape {data.shape})")
    tokens = Tokens(data)
    listed = tokens.listed()
    if any(earlier >= later for earlier, later in pairwise(listed)):
        raise WireError(f"{kind} message: {name} is not sorted, or has a token twice")
    return tokens
