"""What a party has written down about itself, in party.toml; a center can name nothing of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dkpca.errors import InputError
from dkpca.exchange.files import Holding
from dkpca.messages import check_party_name
from dkpca.policy import Policy
from dkpca.store import policy_file, storage
from dkpca.tables import reading
from dkpca.tables.reading import Reading

CONFIGURATION = "party.toml"


@dataclass(frozen=True)
class Configuration:
    """One party's table, how it is read, and under which policy it answers."""

    party: str
    table: Path
    reading: Reading
    policy: Policy
    key_file: Path | None
    new: Path  # folder with tables of new samples, one a batch

    def key(self) -> bytes | None:
        """Key shared with the other parties."""
        return None if self.key_file is None else storage.read(self.key_file).strip()

    def holding(self, batch: str) -> Holding:
        """Table of the fit, or with a batch of new samples."""
        return Holding(self.party, self._batch(batch) if batch else self.table, self.reading, key=self.key())

    def _batch(self, name: str) -> Path:
        found = sorted(path for path in self.new.glob(f"{name}.*") if reading.is_table(path) and path.stem == name)
        if len(found) != 1:
            raise InputError(f"{self.new}: has {len(found)} tables named {name!r}; put one there, such as {name}.csv")
        return found[0]


def read_configuration(path: Path) -> Configuration:
    """Read party.toml; every key has to be one this library uses."""
    table = storage.read_toml(path, "see 'Over a network' in the documentation")
    unknown = sorted(set(table) - set(KEYS))
    if unknown:
        raise InputError(f"{path}: unknown keys {unknown}; a party has {sorted(KEYS)}")
    missing = sorted({"party", "table", "policy"} - set(table))
    if missing:
        raise InputError(f"{path}: {missing} is missing; a party names itself, its table and its policy")
    for key, value in table.items():
        valid, advice = KEYS[key]
        if not valid(value):
            raise InputError(f"{path}: {key} = {value!r} cannot be used; {advice}")
    known = {name: table[key] for key, name in READING.items() if key in table and table[key] != ""}
    known |= {name: tuple(known[name]) for name in ("columns", "exclude") if name in known}
    return Configuration(
        party=check_party_name(table["party"]),
        table=path.parent / table["table"],
        reading=Reading(**known),
        policy=policy_file.read(path.parent / table["policy"]),
        key_file=path.parent / table["key_file"] if table.get("key_file") else None,
        new=path.parent / table.get("new", "new"),
    )


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_named(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


Check = tuple[Callable[[Any], bool], str]
KEYS: Mapping[str, Check] = {
    "party": (_is_named, "write the name on the invitation"),
    "table": (_is_named, "write the name of a file, relative to this one"),
    "id": (_is_text, "write the name of the column with the sample ids, or nothing"),
    "columns": (_is_names, "write a list of names; an empty one means all"),
    "exclude": (_is_names, "write a list of names"),
    "text": (lambda value: value in ("error", "one-hot", "ignore"), "write error, one-hot or ignore"),
    "max_missing": (
        lambda value: isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1,
        "write a share between 0 and 1",
    ),
    "standardize": (lambda value: isinstance(value, bool), "write true or false"),
    "policy": (_is_named, "write the name of the policy file, relative to this one"),
    "key_file": (_is_text, "write the name of the file with the parties' key, or nothing"),
    "new": (_is_named, "write the name of the folder with new samples"),
}
READING = {
    "id": "id_column",
    "columns": "columns",
    "exclude": "exclude",
    "text": "text",
    "max_missing": "max_missing",
    "standardize": "standardize",
}
