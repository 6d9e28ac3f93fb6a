"""A frozen dataclass as a JSON header and arrays, and back: for files that stay with whoever wrote them."""

import math
from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_origin

import numpy as np

from dkpca import kernels
from dkpca.errors import DKPCAError, WireError
from dkpca.linalg.arrays import to_numpy
from dkpca.wire.container import Arrays, Header

Record = TypeVar("Record")


def split(record: Any, *, skip: Collection[str] = ()) -> tuple[Header, Arrays]:
    """Scalar fields, and fields that are arrays; those of a record inside carry its name in front."""
    header: Header = {}
    arrays: Arrays = {}
    for field in fields(record):
        value = getattr(record, field.name)
        if field.name in skip:
            continue
        if hasattr(value, "dtype") and hasattr(value, "shape"):
            arrays[field.name] = np.ascontiguousarray(to_numpy(value))
        elif is_dataclass(value) and not isinstance(value, kernels.Kernel):
            header[field.name], inside = split(value)
            arrays |= {f"{field.name}.{name}": array for name, array in inside.items()}
        else:
            header[field.name] = _plain(value)
    return header, arrays


def join(cls: type[Record], header: Any, arrays: Arrays, **given: Any) -> Record:
    """Rebuild a record; `given` are the fields that were skipped."""
    known = {field.name: field.type for field in fields(cls)}  # type: ignore[arg-type]
    outer = {name: array for name, array in arrays.items() if "." not in name}
    if not isinstance(header, dict) or set(header) | set(outer) | set(given) != set(known):
        raise WireError("the file was written by another version of dkpca; make it again")
    values: dict[str, Any] = {}
    try:
        for name, value in header.items():
            kind = known[name]
            if isinstance(kind, type) and is_dataclass(kind):
                inside = {key.removeprefix(f"{name}."): a for key, a in arrays.items() if key.startswith(f"{name}.")}
                values[name] = join(kind, value, inside)
            else:
                values[name] = _restored(kind, value)
        return cls(**values, **outer, **given)
    except (TypeError, ValueError, DKPCAError) as error:
        raise WireError(f"the file holds a value that cannot be used ({error}); make it again") from error


def _plain(value: Any) -> Any:
    """Value as JSON has it."""
    if isinstance(value, kernels.Kernel):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    return value


def _restored(kind: Any, value: Any) -> Any:
    """Value of a field of this type."""
    if kind is kernels.Kernel:
        return kernels.from_dict(value)
    if get_origin(kind) is tuple:
        return tuple(float(item) if isinstance(item, str) else item for item in value)
    return float(value) if kind is float else value
