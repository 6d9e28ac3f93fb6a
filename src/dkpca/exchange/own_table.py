"""A party's own table in its own folder: described by party.toml, and frozen when the party signs."""

import hashlib
import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dkpca.errors import DKPCAError, InputError, StorageError
from dkpca.exchange.identity import sha256
from dkpca.exchange.memory import StudyMemory, write
from dkpca.store import party_file
from dkpca.tables.checkup import examine
from dkpca.tables.formats import embedding_files
from dkpca.tables.ids import WAYS, in_words, made_alike
from dkpca.tables.preparation import Preparation, numbers_for
from dkpca.tables.reading import Matrix, read
from dkpca.wire import codec
from dkpca.wording import as_toml, some

PARTY_FILE = "party.toml"


@dataclass(frozen=True)
class OwnTable:
    """The numbers that a party computes with, before standardization, and the ids of its samples."""

    X: Matrix  # (n_samples, n_columns)
    ids: Sequence[str] | None  # as the party writes them
    keys: Sequence[str] | None  # as they are matched
    preparation: Preparation
    covariates: Mapping[str, Any] = field(default_factory=dict)  # columns that the plan takes out; not in X

    @property
    def columns(self) -> list[str]:
        """Name of each column of X."""
        return [name for name in self.preparation.names if name not in self.covariates]

    @cached_property
    def samples(self) -> list[str]:
        """Name of each sample however its id may be written, to find it again in other studies of this table."""
        return [*map(str, range(len(self.X)))] if self.ids is None else [*map(made_alike(WAYS), self.ids)]

    @cached_property
    def rows(self) -> list[str]:
        """Digest of the numbers of each sample, to find it again under another id, or see that they changed."""
        return [sha256(np.ascontiguousarray(row).tobytes())[:24] for row in self.X]

    @property
    def notes(self) -> list[str]:
        """What became of the columns, in words."""
        reading = self.preparation.reading
        left_out = [f"left out: {some(reading.exclude)} (exclude in {PARTY_FILE})"] if reading.exclude else []
        ids = [in_words(reading.id_column, self.keys or ())] if reading.id_column else []
        return [*ids, *left_out, *self.preparation.notes]

    def new_rows(self, path: Path) -> "OwnTable":
        """Read a table of new samples as this one was read."""
        table = read(path, self.preparation.reading_of_new)
        whole = OwnTable(self.preparation.apply(table), table.ids, table.keys, self.preparation)
        return whole.without(list(self.covariates))

    def named(self, names: Iterable[str]) -> set[str]:
        """Columns that these names mean: their own, or those of the text columns that they were made of."""
        known, made = set(names), zip(self.preparation.names, self.preparation.columns, strict=True)
        return {name for name, column in made if name in known or column.source in known}

    def of_rows(self, rows: Sequence[int]) -> "OwnTable":
        """Return the table of some samples, by number."""
        ids, keys = (None if each is None else [each[row] for row in rows] for each in (self.ids, self.keys))
        apart = {name: values[rows] for name, values in self.covariates.items()}
        return replace(self, X=self.X[rows], ids=ids, keys=keys, covariates=apart)

    def without(self, covariates: Sequence[str]) -> "OwnTable":
        """Return the table with some of its columns set apart."""
        names = self.preparation.names
        kept = [j for j, name in enumerate(names) if name not in covariates]
        apart = {name: self.X[:, names.index(name)] for name in covariates}
        return replace(self, X=self.X[:, kept], covariates=apart) if apart else self


def describe(folder: Path, table: Path, id_column: str | None, name: str, *, by_ids: bool) -> None:
    """Write party.toml for a table, or for the one that another party.toml describes; one that is there stays."""
    path, source, given = folder / PARTY_FILE, table, party_file.read(table)
    table, how = given.table, replace(given.reading, id_column=id_column or given.reading.id_column)
    if path.exists():
        before = party_file.read(path)
        if before.table.resolve() != table.resolve():
            raise InputError(
                f"{path}: describes {before.table}, not {table}; if that was corrected, change this line"
            )
        named = before.reading.id_column
        if id_column not in (None, named) or (by_ids and named is None):
            raise InputError(f"{path}: names {named or 'no column'!r} as the ids; correct the line id = ... there")
        if source != table and how != before.reading:  # nor as `examine` would have written it down
            here, there = map(party_file.described, (before.reading, examine(table, how).suggested))
            if other := sorted(key for key in here | there if here.get(key) != there.get(key)):
                differs = f"reads the table otherwise than {source} ({', '.join(other)})"
                raise InputError(f"{path}: {differs}; change these lines there, or pass it as --table")
        return
    found = examine(table, how)
    if found.problems:
        first = found.problems[0].removeprefix(f"{table}: ")
        raise InputError(f"{table}: {first}; 'dkpca check {table}' lists all; --write saves a party.toml")
    if by_ids and found.suggested.id_column is None:
        raise InputError(f"{table}: the plan matches samples by their ids; name the column with --id")
    values = {"party": name, "table": str(table.resolve())} | party_file.described(found.suggested)
    write(path, ("# How the table is read; 'dkpca check --help' explains the keys.\n" + as_toml(values)).encode())


def load(folder: Path, columns_are: str, covariates: Sequence[str] = ()) -> OwnTable:
    """Read the table that party.toml describes, as a kernel of quantities, categories or samples takes it."""
    file = party_file.read(folder / PARTY_FILE)
    reading = replace(file.reading, standardize=False)  # the fit standardizes, or does not
    table = read(file.table, reading)
    X, preparation = numbers_for(table, reading, columns_are)
    sources = {column.source for column in preparation.columns}
    if not set(covariates) <= sources or (covariates and columns_are != "quantities"):
        what = "not columns of numbers or categories as this party's kernel reads them; see 'text' in party.toml"
        raise InputError(f"{file.table}: the plan takes out {some(covariates)}, but these are {what}")
    apart = [n for n, c in zip(preparation.names, preparation.columns, strict=True) if c.source in covariates]
    return OwnTable(X, table.ids, table.keys, preparation).without(apart)


def freeze(memory: StudyMemory, table: OwnTable, batch: str = "") -> str:
    """Keep the table before it is signed, or a batch before its first message leaves; return its digest."""
    names, numbers = table.preparation.names, io.BytesIO()
    whole = np.empty((len(table.X), len(names)))
    whole[:, [name not in table.covariates for name in names]] = table.X
    for name, values in table.covariates.items():
        whole[:, names.index(name)] = values
    np.save(numbers, whole, allow_pickle=False)
    described = codec.described(table.preparation)
    about = {"covariates": [*table.covariates], "ids": table.ids, "keys": table.keys, "preparation": described}
    memory.replace(f"table/{batch}/about.json", json.dumps(about, sort_keys=True).encode())
    memory.replace(f"table/{batch}/numbers.npy", numbers.getvalue())
    return digest(memory, batch)


def digest(memory: StudyMemory, batch: str = "") -> str:
    """Digest of a frozen table."""
    parts = [memory.kept(f"table/{batch}/{name}") for name in ("about.json", "numbers.npy")]
    if None in parts:
        raise StorageError(f"{memory.path}/table: the signed table is missing; this party cannot answer without it")
    return hashlib.sha256(b"".join(hashlib.sha256(part or b"").digest() for part in parts)).hexdigest()


def frozen(memory: StudyMemory, batch: str = "") -> OwnTable:
    """Return the table that was signed, or a batch as it was when its first message left."""
    digest(memory, batch)  # which says it if there is none
    about: dict[str, Any] = json.loads(memory.kept(f"table/{batch}/about.json") or b"{}")
    X = np.load(io.BytesIO(memory.kept(f"table/{batch}/numbers.npy") or b""), allow_pickle=False)
    preparation = codec.decode(Preparation, about["preparation"], what="the signed table")
    return OwnTable(X, about["ids"], about["keys"], preparation).without(about["covariates"])


def told_apart(digests: Iterable[str]) -> list[str]:
    """Digests of rows, empty where another row is alike."""
    digests = list(digests)
    times = Counter(digests)
    return [each * (times[each] == 1) for each in digests]


def changed_since(folder: Path, memory: StudyMemory) -> list[str]:
    """Say that the table was written after it was signed; of one that is gone or hidden there is nothing to say."""
    with suppress(DKPCAError, OSError):
        table = party_file.read(folder / PARTY_FILE).table
        if table.stat().st_mtime_ns > frozen_at(memory):
            return [f"{table} changed since you signed; the study uses the table that you signed"]
    return []


def frozen_at(memory: StudyMemory, batch: str = "") -> int:
    """When a table, or a batch, was frozen, in nanoseconds; 0: it was not."""
    with suppress(FileNotFoundError):
        return (memory.path / "table" / batch / "numbers.npy").stat().st_mtime_ns
    return 0


def write_result(folder: Path, samples: Sequence[str] | None, scores: Any, certificate: Mapping[str, Any]) -> None:
    """Keep an embedding with the names of its samples or their numbers, and what is certified about it."""
    samples = samples or [str(row + 1) for row in range(len(scores))]
    write(folder / "embedding.csv", embedding_files(samples, scores)["embedding.csv"])
    if certificate:
        write(folder / "certificate.json", (json.dumps(certificate, indent=2) + "\n").encode())
