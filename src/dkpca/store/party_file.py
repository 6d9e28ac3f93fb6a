"""party.toml: what a party has written down about its table, for its own commands.

Files that it names are relative to its own folder. `dkpca check --write` writes one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dkpca.errors import InputError
from dkpca.party.policy import Policy, from_table
from dkpca.store import storage
from dkpca.tables.ids import WAYS
from dkpca.tables.reading import DATE_COLUMNS, TEXT_COLUMNS, Reading
from dkpca.tables.text_files import Dialect

Check = tuple[Callable[[Any], bool], str]


@dataclass(frozen=True)
class PartyFile:
    """What stands in a party.toml; None or empty: nothing."""

    path: Path
    party: str | None
    table: Path | None
    reading: Reading
    policy: Path | None


def read(path: Path) -> PartyFile:
    """Read party.toml; every key has to be one this library uses."""
    values = storage.read_toml(path, "see 'Tables' in the documentation")
    unknown = sorted(set(values) - set(KEYS))
    if unknown:
        raise InputError(f"{path}: unknown keys {unknown}; a party has {sorted(KEYS)}")
    for key, value in values.items():
        valid, advice = KEYS[key]
        if not valid(value):
            raise InputError(f"{path}: {key} = {value!r} cannot be used; {advice}")

    def beside(key: str) -> Path | None:
        return path.parent / values[key] if values.get(key) else None

    return PartyFile(
        path=path,
        party=values.get("party") or None,
        table=beside("table"),
        reading=_reading(values),
        policy=beside("policy"),
    )


def read_policy(path: Path) -> Policy:
    """Read a policy; every key has to be one this library enforces."""
    return from_table(storage.read_toml(path, "see 'A party's policy' in the documentation"), path)


def described(reading: Reading) -> dict[str, Any]:
    """Settings of a reading by the keys of party.toml; those that are as they would be anyway are left out."""
    plain, values = Reading(), {}
    for key, name in READING.items():
        value = getattr(reading, name)
        if value != getattr(plain, name):
            values[key] = dict(value) if key == "text_of" else list(value) if isinstance(value, tuple) else value
    for key, name in DIALECT.items():
        value = getattr(reading.dialect, name)
        if value is not None:
            values[key] = list(value) if isinstance(value, tuple) else value
    return values


def _reading(values: Mapping[str, Any]) -> Reading:
    known = {name: values[key] for key, name in READING.items() if values.get(key, "") != ""}
    known |= {name: tuple(known[name]) for name in ("columns", "exclude", "id_normalize") if name in known}
    if "text_of" in known:
        known["text_of"] = tuple(known["text_of"].items())
    written = {name: values[key] for key, name in DIALECT.items() if key in values}
    if "missing" in written:
        written["missing"] = tuple(written["missing"])
    return Reading(**known, dialect=Dialect(**written))


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_named(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_share(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1


def _handles_text(value: Any) -> bool:
    return isinstance(value, dict) and all(how in TEXT_COLUMNS for how in value.values())


KEYS: Mapping[str, Check] = {
    "party": (_is_named, "write the name of the party"),
    "table": (_is_named, "write the name of a file, relative to this one"),
    "id": (_is_text, "write the name of the column with the sample ids, or nothing"),
    "id_normalize": (lambda value: _is_names(value) and set(value) <= set(WAYS), f"write some of {list(WAYS)}"),
    "columns": (_is_names, "write a list of names; an empty one means all"),
    "exclude": (_is_names, "write a list of names"),
    "text": (lambda value: value in TEXT_COLUMNS, f"write one of {', '.join(TEXT_COLUMNS)}"),
    "text_of": (_handles_text, f"write {{ column = ... }} with one of {', '.join(TEXT_COLUMNS)}"),
    "dates": (lambda value: value in DATE_COLUMNS, f"write one of {', '.join(DATE_COLUMNS)}"),
    "max_missing": (_is_share, "write a share between 0 and 1"),
    "standardize": (lambda value: isinstance(value, bool), "write true or false"),
    "separator": (_is_named, "write the letter between columns"),
    "decimal": (_is_named, "write , or ."),
    "thousands": (_is_text, "write the mark between thousands, or nothing"),
    "encoding": (_is_named, "write the name of an encoding, such as utf-8"),
    "null_values": (_is_names, "write a list of the values that mean there is none"),
    "sheet": (_is_named, "write the name of a sheet of the workbook"),
    "policy": (_is_named, "write the name of the policy file, relative to this one"),
}
READING = {
    "id": "id_column",
    "id_normalize": "id_normalize",
    "columns": "columns",
    "exclude": "exclude",
    "text": "text",
    "text_of": "text_of",
    "dates": "dates",
    "max_missing": "max_missing",
    "standardize": "standardize",
}
DIALECT = {
    "separator": "separator",
    "decimal": "decimal",
    "thousands": "thousands",
    "encoding": "encoding",
    "null_values": "missing",
    "sheet": "sheet",
}
