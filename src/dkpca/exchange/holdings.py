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


@dataclass(frozen=True)
class Holding:
    """A party's own table, as its options and its party.toml describe it, and which of its rows take part."""

    party: str
    path: Path
    reading: Reading
    rows: Sequence[int] | None = None  # that take part, in this order; None: all, as they stand
    memory: MemoryLimit | None = None  # that its numbers may take

    def load(self) -> Table:
        """Return the rows that take part."""
        table = replace(read(self.path, self.reading), memory=self.memory)
        return table if self.rows is None else table.take(self.rows)

    def ids(self) -> list[str]:
        """Ids of all rows, without loading the rest of the table."""
        return read_ids(self.path, self.reading)


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


def summarize(
    holding: Holding, asked: SummaryWanted, out: Path, *, state: Path | None = None, device: str | None = None
) -> tuple[Summary, PartyState]:
    """Return and write the one numerical message, attacked first; keep the private state if wanted."""
    table = PreparedTable(holding)
    with naming(holding.path):
        summary, kept = party.summarize(
            table(asked.kernel.columns_are),  # first; nobody else holds the numbers, which may fill the memory
            asked,
            party=holding.party,
            prepared=table.standardized,
            sample_ids=table.keys,
            known_rows=KNOWN_ROWS,
            device=device,
            memory=holding.memory,
        )
    kept = replace(kept, preparation=table.preparation)
    if state is not None:
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
