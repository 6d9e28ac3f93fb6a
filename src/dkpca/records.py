"""A frozen dataclass as a JSON header and arrays, and back: for files that stay with whoever wrote them."""

import math
from collections.abc import Collection
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_origin

import numpy as np

from dkpca import kernels
from dkpca.arrays import to_numpy
from dkpca.container import Arrays, Header
from dkpca.errors import DKPCAError, WireError

Record = TypeVar("Record")


def split(record: Any, *, skip: Collection[str] = ()) -> tuple[Header, Arrays]:
    """Scalar fields, and fields that are arrays."""
    header: Header = {}
    arrays: Arrays = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in skip:
            continue
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            arrays[field.name] = np.ascontiguousarray(to_numpy(value))
        else:
            header[field.name] = _plain(value)
    return header, arrays


def join(cls: type[Record], header: Any, arrays: Arrays, **given: Any) -> Record:
    """Rebuild a record; `given` are the fields that were skipped."""
    known = {field.name: field.type for field in fields(cls)}  # type: ignore[arg-type]
    if not isinstance(header, dict) or set(header) | set(arrays) | set(given) != set(known):
        raise WireError("the file was written by another version of dkpca; make it again")
    try:
        return cls(**{name: _restored(known[name], value) for name, value in header.items()}, **arrays, **given)
    except (TypeError, ValueError, DKPCAError) as error:
        raise WireError(f"the file holds a value that cannot be used ({error}); make it again") from error


def _plain(value: Any) -> Any:
    """Value as JSON has it."""
    if isinstance(value, kernels.Kernel):
        return value.to_dict()
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _restored(kind: Any, value: Any) -> Any:
    """Value of a field of this type."""
    if kind is kernels.Kernel:
        return kernels.from_dict(value)
    if isinstance(kind, type) and is_dataclass(kind):
        types = {field.name: field.type for field in fields(kind)}
        return kind(**{name: _restored(types.get(name), item) for name, item in value.items()})
    if get_origin(kind) is tuple:
        return tuple(float(item) if isinstance(item, str) else item for item in value)
    return float(value) if kind is float else value
