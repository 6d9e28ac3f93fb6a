"""A party's table as its file and party.toml say, its private state, and its message as files."""

import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from dkpca import party, wire
from dkpca.errors import InputError
from dkpca.linalg.arrays import MemoryLimit
from dkpca.messages import Summary
from dkpca.party.questions import SummaryWanted
from dkpca.party.recovery import KNOWN_ROWS
from dkpca.party.state import PartyState
from dkpca.store import storage
from dkpca.store.files import encode_state, naming, read_state
from dkpca.tables.preparation import Preparation, numbers_for, preparation_of
from dkpca.tables.reading import Reading, Table, read, read_ids
from dkpca.wire import codec


@dataclass
class Holding:
    """A party's own table, as its options and its party.toml describe it, and which of its rows take part.

    Who calls it, as a worker does, gets its numbers; the last three fields then say how it became these.
    """

    party: str
    path: Path
    reading: Reading
    rows: Sequence[int] | None = None  # that take part, in this order; None: all, as they stand
    memory: MemoryLimit | None = None  # that its numbers may take
    folder: Path = field(default_factory=Path.cwd)  # that a relative path starts from
    preparation: dict[str, Any] = field(default_factory=dict)
    standardized: bool = False  # whether the numbers were standardized
    keys: list[str] | None = None  # what its samples are matched by

    def load(self) -> Table:
        """Return the rows that take part."""
        there = self.folder / self.path
        with naming(self.path, opened=there):
            table = replace(read(there, self.reading), source=str(self.path), memory=self.memory)
        return table if self.rows is None else table.take(self.rows)

    def ids(self) -> list[str]:
        """Ids of all rows, without loading the rest of the table."""
        return read_ids(self.path, self.reading)

    def take(self, rows: Sequence[int]) -> "Holding":
        """Return the table of these rows, by number."""
        return replace(self, rows=rows)

    def __call__(self, columns_are: str) -> Any:
        """Read and prepare the table for a kernel that takes its columns so."""
        if multiprocessing.parent_process() is not None:  # in a worker
            _end_with_the_command()
        with naming(self.path):
            table = self.load()
            numbers, preparation = numbers_for(table, self.reading, columns_are)
        self.keys, self.preparation = table.keys, codec.described(preparation)
        self.standardized = preparation.reading.standardize and columns_are == "quantities"
        return numbers


@cache
def _end_with_the_command() -> None:
    """A command that is killed cannot end its processes, which hold private tables in memory."""
    command = os.getppid()

    def watch() -> None:
        while os.getppid() == command:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def summarize(
    holding: Holding, asked: SummaryWanted, out: Path, state: Path, device: str | None = None
) -> tuple[Summary, PartyState]:
    """Return and write the one numerical message, attacked first, and the private state."""
    with naming(holding.path):
        summary, kept = party.summarize(
            holding(asked.kernel.columns_are),  # first; nobody else holds the numbers, which may fill the memory
            asked,
            party=holding.party,
            prepared=holding.standardized,
            sample_ids=holding.keys,
            known_rows=KNOWN_ROWS,
            device=device,
            memory=holding.memory,
        )
    kept = replace(kept, preparation=holding.preparation)
    storage.write(state, encode_state(kept), private=True)
    storage.write(out, lambda file: file.writelines(wire.pieces(summary)))
    return summary, kept


def load_state(path: Path) -> tuple[PartyState, Preparation]:
    """Read a party's private state."""
    state = read_state(path)
    with naming(path):
        if not isinstance(state, PartyState):
            raise InputError("new samples of a fit by masked sums are placed with all parties; use DKPCA, or a study")
        return state, preparation_of(state)
