"""A party's table, and where its messages go: every message is in the ledger before it is written."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dkpca import party, wire
from dkpca.errors import InputError, PolicyError, StorageError
from dkpca.linalg.arrays import MemoryLimit
from dkpca.messages import Message, Summary
from dkpca.party.limits import Policy
from dkpca.store import ledger, storage
from dkpca.store.files import naming
from dkpca.tables.ids import matching_keys
from dkpca.tables.preparation import Preparation, prepare, reading_for, with_samples_as_columns
from dkpca.tables.reading import Reading, Table, read, read_ids
from dkpca.wire import codec

SAFETENSORS_START = b"{"  # ninth byte of every file of ours


@dataclass(frozen=True)
class Holding:
    """A party's table, and which of its rows take part under which names.

    Rows are matched by `keys`: the ids, made alike where the parties agreed on it (`Reading.id_normalize`).
    """

    party: str
    path: Path
    reading: Reading
    order: Sequence[str] | None = None  # ids of the rows that take part; None: all, as they stand
    memory: MemoryLimit | None = None  # that its numbers may take

    def load(self) -> tuple[Table, Sequence[str] | None]:
        """Return the rows that take part, and their names."""
        table = replace(read(self.path, self.reading, by_column=True), memory=self.memory)
        if self.order is None:
            return table, table.keys
        assert table.ids is not None
        row = {sample_id: number for number, sample_id in enumerate(table.ids)}
        chosen = table.take([row[sample_id] for sample_id in self.order])
        return chosen, chosen.keys

    def ids(self) -> list[str]:
        """Sample ids, without loading the rest of the table."""
        if self.reading.id_column is None:
            raise InputError(f"{self.path}: name its id column with --id")
        return read_ids(self.path, self.reading.id_column, self.reading.dialect, self.reading.id_normalize)

    def keys(self, ids: Sequence[str]) -> list[str]:
        """Return what ids are matched by."""
        return matching_keys(ids, self.reading.id_normalize)


@dataclass
class PreparedTable:
    """A holding as numbers, opened by whoever calls it; `preparation` then says how it became numbers."""

    holding: Holding
    preparation: dict[str, Any] | None = None
    standardized: bool = False  # whether the numbers were standardized

    def __call__(self, columns_are: str) -> Any:
        """Read and prepare the table for a kernel that takes its columns so."""
        with naming(self.holding.path):
            numbers, preparation, _ = numbers_of(self.holding, columns_are)
            self.preparation = codec.described(preparation)
            self.standardized = preparation.reading.standardize and columns_are == "quantities"
            return numbers


def numbers_of(holding: Holding, columns_are: str) -> tuple[Any, Preparation, Sequence[str] | None]:
    """Numbers of a table, how they were made, and the names of its rows."""
    table, names = holding.load()
    if columns_are == "samples":
        table = with_samples_as_columns(table)
    preparation = prepare(table, reading_for(holding.reading, columns_are))
    if preparation.has_codes and columns_are != "categories":
        raise InputError("codes of text are no quantities for a kernel of quantities; use --text one-hot")
    return preparation.apply(table), preparation, names


@dataclass(frozen=True)
class Sender:
    """Where a party's messages go, under which policy, and which ledger says so."""

    message: Path
    policy: Policy = party.ANYTHING
    ledger: Path | None = None  # None: beside the message
    asked: Mapping[str, Any] = field(default_factory=dict)  # which question it answers, for the ledger
    measures: bool = True  # what could be recovered from a summary; not where one owner has all tables

    def check(self) -> None:
        """Find out before any work whether the message can be written; a file that is no message stays."""
        storage.check_writable(self.message)
        if self.message.exists() and self.message.stat().st_size:
            with self.message.open("rb") as file:
                if file.read(9)[8:] != SAFETENSORS_START:
                    raise InputError(f"{self.message}: exists and is not a dkpca file; choose another --out")

    def send(self, message: Message, private_files: dict[Path, bytes] | None = None, **facts: Any) -> None:
        """Write a message, and the private files that belong to it; the ledger says so before they are there."""
        pieces, state = wire.pieces(message), hashlib.sha256()
        for piece in pieces:
            state.update(piece)
        kind, fingerprint, size = wire.kind_of(message), state.hexdigest(), sum(map(len, pieces))
        told = {"file": self._named(), "kind": kind, "bytes": size, "sha256": fingerprint, **self.asked, **facts}
        kept = private_files or {}
        with ledger.opened(self._ledger()) as book:  # until it is written: limits on what was sent hold for all
            party_name = facts.get("party", "")
            before = book.sent(party_name, kind)
            if isinstance(message, Summary):
                self.policy.check_fits(len(before - {fingerprint}))
            book.append("repeated" if fingerprint in before else "written", **told)
            try:
                storage.write_all({**kept, self.message: lambda file: file.writelines(pieces)}, private=kept)
            except StorageError as error:
                book.append("not written", file=self._named(), reason=str(error))
                raise

    def record(self, event: str, **facts: Any) -> None:
        """Add a line to the ledger."""
        ledger.append(self._ledger(), event, **self.asked, **facts)

    def _ledger(self) -> Path:
        return self.ledger or self.message.parent / ledger.NAME

    def _named(self) -> str:
        """Name of the message, as seen from the ledger where it lies below it."""
        folder = self._ledger().parent
        return str(self.message.relative_to(folder) if self.message.is_relative_to(folder) else self.message.name)

    @contextlib.contextmanager
    def answering(self, holding: Holding, what: str) -> Iterator[None]:
        """Name the table in every error, and log what the policy refuses."""
        try:
            with naming(holding.path):
                yield
        except PolicyError as refusal:
            self.record("refused", party=holding.party, asked=what, reason=str(refusal))
            raise
