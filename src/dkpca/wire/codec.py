"""Frozen dataclasses as JSON and arrays, and back, by their type hints: the one codec of every file and question.

A field's type says how it travels. `Annotated[T, check]` says what is asked of a value beyond its type: a function of
the field's name and the value that raises `InputError`. Arrays, and types that are made of arrays (`Rounded`),
travel as arrays named after their field. A field that has its default is left out, so that a program that
does not know it yet still reads the rest.
"""

import functools
import math
import reprlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from dkpca import kernels
from dkpca import rank as ranks
from dkpca.errors import InputError, WireError
from dkpca.kernels import Kernel
from dkpca.linalg.arrays import to_numpy
from dkpca.rank import RankRule
from dkpca.wire.container import Arrays, Header

RecordT = TypeVar("RecordT")
LARGEST = 2**63  # whole numbers beyond it are no counts of ours
# Types of the fields of a class; looked up once, since that takes longer than reading a message.
_hints = functools.cache(functools.partial(get_type_hints, include_extras=True))
UNBOUNDED = ("inf", "-inf", "nan")  # JSON has no such numbers
SIMPLE = {int: "a whole number", float: "a number", bool: "true or false", str: "text", NoneType: "none"}
WORDS: Mapping[type[Any], str] = {**SIMPLE, list: "a list", dict: "a table"}
# Types that are one of several classes: the entry that names the class, and where to find it.
FAMILIES: Mapping[type[Any], tuple[str, Callable[[object], type[Any]]]] = {
    Kernel: ("name", kernels.family),
    RankRule: ("rule", ranks.family),
}


def encode(record: Any, *, skip: Collection[str] = ()) -> tuple[Header, Arrays]:
    """Return the fields of a record as JSON values, and those that are arrays."""
    header, arrays = described(record, skip=skip), Arrays()
    for name in (field.name for field in fields(record) if field.name not in skip):
        value, inside = getattr(record, name), {}
        if _is_record(value):
            header[name], own = encode(value)
            inside = {f".{key}": array for key, array in own.items()}
        elif _is_array(value) or hasattr(value, "to_arrays"):
            inside = {"": value} if _is_array(value) else value.to_arrays()
        arrays |= {f"{name}{end}": np.ascontiguousarray(to_numpy(array)) for end, array in inside.items()}
    return header, arrays


def described(record: Any, *, skip: Collection[str] = ()) -> Header:
    """Return the fields of a record that are no arrays, as JSON values."""
    values = {field.name: getattr(record, field.name) for field in fields(record) if not _at_default(record, field)}
    return {
        name: plain(value)
        for name, value in values.items()
        if name not in skip and not _is_array(value) and not hasattr(value, "to_arrays")
    }


def decode(cls: type[RecordT], header: Any, arrays: Arrays | None = None, *, what: str, **given: Any) -> RecordT:
    """Rebuild a record, or raise `WireError` with the first thing that is wrong; `given` are the fields skipped."""
    try:
        return _record(cls, header, arrays or {}, given)
    except InputError as error:
        raise WireError(f"{what}: {error}" if what else str(error)) from error


def values(hints: Mapping[str, Any], described: Any, *, what: str) -> dict[str, Any]:
    """Rebuild named values of these types, as far as they are there, or raise `WireError`."""
    try:
        if not isinstance(described, dict) or not set(described) <= set(hints):
            raise InputError("does not have the fields of its kind")
        return {name: _value(name, hints[name], value) for name, value in described.items()}
    except InputError as error:
        raise WireError(f"{what}: {error}") from error


def _record(cls: type[RecordT], header: Any, arrays: Arrays, given: Mapping[str, Any]) -> RecordT:
    hints = _hints(cls)  # type: ignore[arg-type]  # mypy doubts that classes are hashable
    named = {field.name: field for field in fields(cls)}  # type: ignore[arg-type]
    if not isinstance(header, dict) or not set(header) <= set(named):
        raise InputError("does not have the fields of its kind")
    # A field comes from its arrays, from its entry in the header, or from its default; what is left over is refused.
    values, used = dict(given), set()
    for name, field in named.items():
        own = {key.removeprefix(name): a for key, a in arrays.items() if key == name or key.startswith(f"{name}.")}
        used |= {name + end for end in own}
        if name in given:
            continue
        if own or (hasattr(_bare(hints[name])[0], "to_arrays") and field.default is MISSING):
            values[name] = _from_arrays(name, hints[name], header.get(name), own)
        elif name in header:
            values[name] = _value(name, hints[name], header[name])
        elif field.default is MISSING and field.default_factory is MISSING:
            raise InputError("does not have the fields of its kind")
    if used != set(arrays):
        raise InputError("does not have the arrays of its kind")
    return cls(**values)


def _from_arrays(name: str, full_hint: Any, header: Any, own: Arrays) -> Any:
    hint, checks = _bare(full_hint)
    made_of = hasattr(hint, "from_arrays")
    if isinstance(hint, type) and is_dataclass(hint) and not made_of:
        return _record(hint, header, {end.removeprefix("."): array for end, array in own.items()}, {})
    plain_array = (hint is Any or get_origin(hint) is np.ndarray) and set(own) == {""}
    if not (plain_array or (made_of and "" in own)):
        raise InputError("does not have the arrays of its kind")
    if made_of:
        return hint.from_arrays(name, own)
    for check in checks:
        check(name, own[""])
    return own[""]


def _value(name: str, hint: Any, value: Any) -> Any:
    """One JSON value as a value of this type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        checked = _value(name, arguments[0], value)
        for check in arguments[1:]:
            check(name, checked)
        return checked
    if origin in (Union, UnionType):
        return _one_of(name, arguments, value)
    if origin is Literal:
        if value not in arguments or type(value) not in map(type, arguments):
            raise InputError(f"{name} is {value!r}, not one of {list(arguments)}")
        return value
    if origin is Sequence:
        return [_value(name, arguments[0], item) for item in _of_type(name, list, value)]
    if origin is tuple:
        items = _of_type(name, list, value)
        kinds = [arguments[0]] * len(items) if arguments[-1] is Ellipsis else arguments
        if len(items) != len(kinds):
            raise InputError(f"{name} has {len(items)} values, not {len(kinds)}")
        return tuple(_value(name, kind, item) for kind, item in zip(kinds, items, strict=True))
    if origin in (dict, Mapping):
        return {key: _value(name, arguments[1], item) for key, item in _of_type(name, dict, value).items()}
    if hint in FAMILIES:
        return _member(name, hint, value)
    if isinstance(hint, type) and is_dataclass(hint):
        return _record(hint, value, {}, {})
    return _scalar(name, hint, value)


def _member(name: str, family: type[Any], value: Any) -> Any:
    """One of a family of classes, named by an entry of its description."""
    entry, lookup = FAMILIES[family]
    if not isinstance(value, dict):
        raise InputError(f"{name} is not described by an object")
    cls = lookup(value.get(entry))
    try:
        return _record(cls, {key: item for key, item in value.items() if key != entry}, {}, {})
    except InputError as error:
        raise InputError(f"{name} {value[entry]!r}: {error}") from error


def _one_of(name: str, hints: tuple[Any, ...], value: Any) -> Any:
    """A value of the first type that takes it; types that do not travel take nothing."""
    refusals = []
    for hint in hints:
        try:
            return _value(name, hint, value)
        except InputError as error:
            refusals.append(error)
    simple = [SIMPLE[hint] for hint in hints if hint in SIMPLE]
    if len(simple) > 1 and isinstance(value, bool | float):
        raise InputError(f"{name} must be {' or '.join(simple)}, not {value}")
    raise refusals[0]  # the last one is about None


def _scalar(name: str, hint: Any, value: Any) -> Any:
    if hint is float and value in UNBOUNDED and isinstance(value, str):
        return float(value)
    if hint not in SIMPLE:
        raise InputError(f"{name} is of a type that does not travel")
    return float(_of_type(name, int, value)) if hint is float and type(value) is int else _of_type(name, hint, value)


def _of_type(name: str, wanted: type[Any], value: Any) -> Any:
    if type(value) is int and abs(value) >= LARGEST:
        raise InputError(f"{name} is a number of {value.bit_length()} bits, more than can be used")
    if type(value) is not wanted:
        raise InputError(f"{name} must be {WORDS[wanted]}, not {reprlib.repr(value)}")
    return value


def plain(value: Any) -> Any:
    """Return a value as JSON has it; `InputError` where it cannot be written."""
    if isinstance(value, Kernel | RankRule):
        return value.to_dict()
    if _is_record(value):
        return described(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Collection) and not isinstance(value, str | bytes):  # a group of columns may be any
        return [plain(item) for item in value]
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if value is None or isinstance(value, str | int):
        return value
    raise InputError(f"{value!r} cannot be written to a file or sent; give its name")


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") and bool(getattr(value, "shape", ()))


def _is_record(value: Any) -> bool:
    if isinstance(value, (type, *FAMILIES)) or hasattr(value, "to_arrays"):
        return False
    return is_dataclass(value) and not callable(value)  # a solver is a dataclass too, and travels by name only


def _at_default(record: Any, field: Any) -> bool:
    value, default = getattr(record, field.name), field.default
    default = default if field.default_factory is MISSING else field.default_factory()
    return default is not MISSING and type(value) is type(default) and value == default


def _bare(hint: Any) -> tuple[Any, Sequence[Callable[[str, Any], None]]]:
    """A type without its checks and without None, and the checks."""
    if get_origin(hint) is Annotated:
        inside, *checks = get_args(hint)
        return _bare(inside)[0], checks
    others = [each for each in get_args(hint) if each is not NoneType]
    return _bare(others[0]) if get_origin(hint) in (Union, UnionType) and len(others) == 1 else (hint, ())
