"""party.toml: what a party has written down about its table, for its own commands.

The table that it names is relative to its own folder. `dkpca check --write` writes one. Beside the party and its
table it has the fields of `Reading` and `Dialect`, under the names of their options.
"""

from collections.abc import Mapping
from dataclasses import Field, dataclass, fields
from pathlib import Path
from typing import Any

from dkpca.errors import InputError
from dkpca.party.limits import Limits
from dkpca.settings import Allowed, check_value, from_values
from dkpca.store import storage
from dkpca.tables.ids import check_ways
from dkpca.tables.reading import Reading
from dkpca.tables.text_files import NAME, Dialect


def keyed(record: type[Any]) -> dict[str, Field[Any]]:
    """Fields of a record by their entry in party.toml."""
    own = [each for each in fields(record) if each.metadata]
    return {(each.metadata["option"].partition("/")[0][2:].replace("-", "_") or each.name): each for each in own}


READING, DIALECT = keyed(Reading), keyed(Dialect)
FIELDS = READING | DIALECT
KEYS: Mapping[str, Allowed] = {
    "party": NAME,
    "table": (NAME[0], "the name of a file, relative to this one"),
    **{key: each.metadata["allowed"] for key, each in FIELDS.items()},
}


@dataclass(frozen=True)
class PartyFile:
    """What stands in a party.toml."""

    party: str | None
    table: Path
    reading: Reading


def read(path: Path) -> PartyFile:
    """Read party.toml, of which every key has to be one this library uses; any other file is a table itself."""
    if path.suffix != ".toml":
        return PartyFile(None, path, Reading())
    values = storage.read_toml(path, "see 'Tables' in the documentation")
    reading = reading_of(values, path)
    if not values.get("table"):
        raise InputError(f"{path}: names no table; write table = with the name of a file")
    return PartyFile(values.get("party"), path.parent / values["table"], reading)


def read_limits(path: Path) -> Limits:
    """Read limits.toml; every limit has to be there."""
    if not path.exists():
        raise InputError(f"{path}: there is no such file, so nothing is allowed; 'dkpca study join' writes it")
    values = storage.read_toml(path, "correct it, or delete it and run 'dkpca study join', which writes one")
    return from_values(Limits, values, what=str(path), complete=True)


def described(reading: Reading) -> dict[str, Any]:
    """Settings of a reading by the keys of party.toml; those that are as they would be anyway are left out."""
    values = vars(reading) | vars(reading.dialect)
    changed = {key: values[each.name] for key, each in FIELDS.items() if values[each.name] != each.default}
    return changed | ({"text_of": dict(changed["text_of"])} if "text_of" in changed else {})


def reading_of(values: Mapping[str, Any], source: object) -> Reading:
    """Return the reading that entries of party.toml describe, or options; refuse those that cannot be used."""
    if unknown := sorted(set(values) - set(KEYS)):
        raise InputError(f"{source}: unknown keys {unknown}; a party has {sorted(KEYS)}")
    for key, value in values.items():
        check_value(f"{source}: {key}", value, KEYS[key])
    plain: dict[str, Any] = {
        key: tuple(value.items()) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value
        for key, value in values.items()
    }
    dialect = {each.name: plain[key] for key, each in DIALECT.items() if key in plain}
    known = {each.name: plain[key] for key, each in READING.items() if plain.get(key, "") != ""}
    known |= {"id_normalize": check_ways(known["id_normalize"])} if "id_normalize" in known else {}
    return Reading(**known, dialect=Dialect(**dialect))
