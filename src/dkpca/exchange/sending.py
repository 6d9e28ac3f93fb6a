"""A party's table, and where its messages go: every message is in the ledger before it is written."""

import contextlib
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dkpca import party, wire
from dkpca.errors import InputError, PolicyError, ProtectionError, StorageError
from dkpca.exchange import alignment
from dkpca.messages import AuditRows, CommonTokens, Message, Offer, Statistics, Summary
from dkpca.policy import Policy
from dkpca.store import ledger, storage
from dkpca.store.files import naming
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import Reading, Table, read, read_ids

FIT_OFFER = "offer"  # for the rows of a fit, in the ledger; that for new samples is no fit
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
    names: Sequence[str] | None = None  # what the center calls them; None: by their keys
    key: bytes | None = None  # shared with the other parties, for alignment

    def load(self) -> tuple[Table, Sequence[str] | None]:
        """Return the rows that take part, and their names."""
        table = read(self.path, self.reading, by_column=True)
        if self.order is None:
            return table, table.keys
        assert table.ids is not None
        row = {sample_id: number for number, sample_id in enumerate(table.ids)}
        chosen = table.take([row[sample_id] for sample_id in self.order])
        return chosen, self.names or chosen.keys

    def aligned(self, common: CommonTokens | None) -> "Holding":
        """Keep the common samples only, in the common order, under their tokens; None: leave it as it is."""
        if common is None:
            return self
        with naming(self.path):
            ids = self.ids()
            rows = alignment.common_rows(self.keys(ids), self.shared_key(), common)
        return replace(self, order=[ids[row] for row in rows], names=alignment.names(common))

    def shared_key(self) -> bytes:
        """Key under which ids become tokens."""
        if self.key is None:
            raise InputError("alignment needs the parties' key, and none was given")
        return self.key

    def ids(self) -> list[str]:
        """Sample ids, without loading the rest of the table."""
        if self.reading.id_column is None:
            raise InputError(f"{self.path}: name the column with the sample ids with --id")
        return read_ids(self.path, self.reading.id_column, self.reading.dialect, self.reading.id_normalize)

    def keys(self, ids: Sequence[str]) -> list[str]:
        """Return what ids are matched by."""
        return matching_keys(ids, self.reading.id_normalize)


def answered_before(party_name: str) -> ProtectionError:
    """Return what is said where a mask would be used for other numbers: their difference would be open."""
    return ProtectionError(
        f"party {party_name!r} has answered this before with other numbers, and says nothing twice "
        "under one mask; start another sum"
    )


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
                    raise InputError(f"{self.message}: is there already and is no dkpca file; choose another --out")

    def send(self, message: Message, private_files: dict[Path, bytes] | None = None, **facts: Any) -> None:
        """Write a message, and the private files that belong to it; the ledger says so before they are there."""
        pieces, state = wire.pieces(message), hashlib.sha256()
        for piece in pieces:
            state.update(piece)
        kind, fingerprint, size = _kind(message), state.hexdigest(), sum(map(len, pieces))
        told = {"file": self._named(), "kind": kind, "bytes": size, "sha256": fingerprint, **self.asked, **facts}
        kept = private_files or {}
        with ledger.opened(self._ledger()) as book:  # until it is written: limits on what was sent hold for all
            party_name = facts.get("party", "")
            before = book.sent(party_name, kind)
            if isinstance(message, Statistics | Summary) or kind == FIT_OFFER:
                fits = before if isinstance(message, Statistics) else book.sent(party_name, "summary", FIT_OFFER)
                self.policy.check_fits(len(fits - {fingerprint}))
            if fingerprint not in before and facts.get("context") in book.sent(party_name, ledger.CONTEXTS):
                raise answered_before(party_name)
            if isinstance(message, AuditRows):
                self.policy.check_audits(len(before - {fingerprint}))
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


def _kind(message: Message) -> str:
    """Kind of a message, as the ledger counts it."""
    new = isinstance(message, Offer) and message.agreed.kind in ("new", "scores")
    return "offer for new samples" if new else wire.kind_of(message)
