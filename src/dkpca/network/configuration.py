"""What a party has written down about itself, in party.toml; a center can name nothing of it."""

from dataclasses import dataclass
from pathlib import Path

from dkpca.errors import InputError
from dkpca.exchange.sending import Holding
from dkpca.fields import check_party_name
from dkpca.policy import Policy
from dkpca.store import party_file, policy_file, storage
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
    new: Path  # folder with tables of new samples, one per batch
    approval: bool = False  # whether a person approves each question
    peers: Path | None = None  # with whom it adds masked numbers; None: with nobody

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
    """Read party.toml; over a network it names the party, its table and its policy."""
    found = party_file.read(path)
    named = {"party": found.party, "table": found.table, "policy": found.policy}
    missing = sorted(key for key, value in named.items() if value is None)
    if found.party is None or found.table is None or found.policy is None:
        raise InputError(f"{path}: {missing} is missing; a party names itself, its table and its policy")
    return Configuration(
        party=check_party_name(found.party),
        table=found.table,
        reading=found.reading,
        policy=policy_file.read(found.policy),
        key_file=found.key_file,
        new=found.new,
        approval=found.approval,
        peers=found.peers,
    )
