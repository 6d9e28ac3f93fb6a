"""A party's table, its private state, and its messages: each is in the ledger before it is written."""

import contextlib
import hashlib
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from dkpca import party, wire
from dkpca.errors import InputError, PolicyError, StorageError
from dkpca.linalg.arrays import MemoryLimit
from dkpca.messages import Message, Summary
from dkpca.party.limits import Limits
from dkpca.party.questions import SummaryWanted
from dkpca.party.state import PartyState
from dkpca.store import ledger, storage
from dkpca.store.files import encode_state, naming, read_state
from dkpca.tables.preparation import Preparation, numbers_for, preparation_of
from dkpca.tables.reading import Reading, Table, read, read_ids
from dkpca.wire import codec


@dataclass(frozen=True)
class Holding:
    """A party's own table, as its options and its party.toml describe it, and which of its rows take part."""

    party: str
    path: Path
    reading: Reading
    rows: Sequence[int] | None = None  # that take part, in this order; None: all, as they stand
    memory: MemoryLimit | None = None  # that its numbers may take
    limits: Path | None = None  # the party's limits.toml

    def load(self) -> Table:
        """Return the rows that take part."""
        table = replace(read(self.path, self.reading, by_column=True), memory=self.memory)
        return table if self.rows is None else table.take(self.rows)

    def ids(self) -> list[str]:
        """Ids of all rows, without loading the rest of the table."""
        assert self.reading.id_column is not None
        return read_ids(self.path, self.reading.id_column, self.reading.dialect, self.reading.id_normalize)


@dataclass
class PreparedTable:
    """A holding as numbers, opened by the worker that calls it; `preparation` then says how it became numbers."""

    holding: Holding
    preparation: dict[str, Any] = field(default_factory=dict)
    standardized: bool = False  # whether the numbers were standardized
    keys: list[str] | None = None  # what its samples are matched by
    folder: Path = field(default_factory=Path.cwd)  # that a relative path starts from

    def __call__(self, columns_are: str) -> Any:
        """Read and prepare the table for a kernel that takes its columns so."""
        if multiprocessing.parent_process() is not None:  # in a worker
            _end_with_the_command()
        there = self.folder / self.holding.path
        with naming(self.holding.path, opened=there):
            table = replace(self.holding, path=there).load()
            numbers, preparation = numbers_for(table, self.holding.reading, columns_are)
            self.keys = table.keys
            self.preparation = codec.described(preparation)
            self.standardized = preparation.reading.standardize and columns_are == "quantities"
            return numbers

    def take(self, rows: Sequence[int]) -> "PreparedTable":
        """Return the table of these rows, by number."""
        return PreparedTable(replace(self.holding, rows=rows))


@cache
def _end_with_the_command() -> None:
    """A command that is killed cannot end its processes, which hold private tables in memory."""
    command = os.getppid()

    def watch() -> None:
        while os.getppid() == command:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


@dataclass(frozen=True)
class Sender:
    """Where a party's messages go, under which limits, and which ledger says so."""

    message: Path
    limits: Limits = party.ANYTHING
    ledger: Path | None = None  # None: beside the message

    def check(self) -> None:
        """Find out before any work whether the message can be written; a file that is no message stays."""
        storage.check_writable(self.message, *storage.DKPCA_FILE)

    def send(self, message: Message, private_files: dict[Path, bytes], **facts: Any) -> None:
        """Write a message, and the private files that belong to it; the ledger says so before they are there."""
        pieces, state = wire.pieces(message), hashlib.sha256()
        for piece in pieces:
            state.update(piece)
        kind, fingerprint, folder = wire.kind_of(message), state.hexdigest(), self._ledger().parent
        below = self.message.is_relative_to(folder)
        name = str(self.message.relative_to(folder) if below else self.message.name)
        told = {"file": name, "kind": kind, "bytes": sum(map(len, pieces)), "sha256": fingerprint, **facts}
        with ledger.opened(self._ledger()) as book:  # until it is written: limits on what was sent hold for all
            before = book.sent(facts.get("party", ""), kind)
            if isinstance(message, Summary):
                self.limits.check_fits(len(before - {fingerprint}))
            book.append("repeated" if fingerprint in before else "written", **told)
            try:
                for path, data in private_files.items():
                    storage.write(path, data, private=True)
                storage.write(self.message, lambda file: file.writelines(pieces))
            except StorageError as error:
                book.append("not written", file=name, reason=str(error))
                raise

    def _ledger(self) -> Path:
        return self.ledger or self.message.parent / ledger.NAME

    @contextlib.contextmanager
    def answering(self, holding: Holding, what: str) -> Iterator[None]:
        """Name the table in every error, and log what the limits refuse."""
        try:
            with naming(holding.path):
                yield
        except PolicyError as refusal:
            ledger.append(self._ledger(), "refused", party=holding.party, asked=what, reason=str(refusal))
            raise


def summarize(
    holding: Holding,
    sender: Sender,
    asked: SummaryWanted,
    *,
    state: Path | None = None,
    device: str | None = None,
) -> tuple[Summary, PartyState]:
    """Return and write the one numerical message, attacked first; keep the private state if wanted."""
    table = PreparedTable(holding)
    with sender.answering(holding, f"summary with {asked.kernel}, {asked.rank}, {asked.precision}"):
        summary, kept = party.summarize(
            table(asked.kernel.columns_are),  # first; nobody else holds the numbers, which may fill the memory
            asked,
            party=holding.party,
            prepared=table.standardized,
            sample_ids=table.keys,
            limits=sender.limits,
            known_rows=sender.limits.known_rows,
            device=device,
            memory=holding.memory,
        )
        kept = replace(kept, preparation=table.preparation)
        about = {"n_samples": summary.n_samples, "sample_digest": summary.sample_digest, "decided": kept.decided}
        if kept.recovery is not None:
            about |= {"recovery": kept.recovery.sentence(), "recovered_at_most": kept.recovery.worst}
        private_files = {} if state is None else {state: encode_state(kept)}
        sender.send(summary, private_files, party=summary.party, rank=summary.rank, **about)
    return summary, kept


def load_state(path: Path) -> tuple[PartyState, Preparation]:
    """Read a party's private state."""
    state = read_state(path)
    with naming(path):
        if not isinstance(state, PartyState):
            raise InputError("new samples of a fit by masked sums are placed with all parties; use DKPCA, or a study")
        return state, preparation_of(state)
