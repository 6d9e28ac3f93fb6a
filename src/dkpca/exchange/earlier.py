"""What other studies of this table told, so that a review measures the next plan together with them.

A review keeps what its study would let out; from the signature on that counts as left. The samples of two studies are
compared by their names and by the digests of their rows, since ids, rows and numbers change between studies.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from dkpca.exchange.identity import sha256
from dkpca.exchange.memory import ABOUT, LEFT, Memory, StudyMemory, write
from dkpca.exchange.own_table import OwnTable, told_apart
from dkpca.party.recovery import Matrix


@dataclass(frozen=True)
class Samples:
    """Samples of a table as another study finds them again."""

    named_by: str | None  # the column of their ids
    numbers: Mapping[str, str]  # digest of each row by the sample's name; of all rows whose ids may be written alike

    @classmethod
    def of(cls, table: OwnTable) -> "Samples":
        """Return those of a table."""
        numbers = dict[str, str]()
        for name, row in zip(table.samples, table.rows, strict=True):
            numbers[name] = numbers.get(name, "") + row
        return cls(table.preparation.reading.id_column, numbers)

    def may_share(self, other: "Samples") -> bool:
        """Whether a sample may be in both, by its name or by its row."""
        if self.named_by is None or self.named_by != other.named_by:  # rows match by position, or otherwise
            return True
        return not self.numbers.keys().isdisjoint(other.numbers) or bool(self._alike(other))

    def renewed(self, since: "Samples") -> bool:
        """Whether a sample has other numbers than before: two sums of the same parties tell the difference."""
        then, here = since.numbers, self.numbers
        if self.named_by != since.named_by or any(then.get(name, row) != row for name, row in here.items()):
            return True
        # Where rows are in both under other names, a sample that is in one only may be one of the other that changed.
        moved = self._alike(since) - {row for name, row in here.items() if name in then}
        one, other = set(then.values()), set(here.values())
        return bool(moved) and not (one <= other or other <= one)

    def _alike(self, other: "Samples") -> set[str]:
        """Digests of rows of both that one sample of each has; any, if one of the two has no such rows."""
        both = self.numbers.values(), other.numbers.values()
        single = [set(told_apart(each)) - {""} for each in both]
        one, two = single if all(single) else map(set, both)
        return one & two


@dataclass(frozen=True, eq=False)
class Earlier:
    """What one study lets out about this table."""

    protect: str
    standardize: bool
    columns: Mapping[str, float]  # R squared of each, its covariates included
    roster: Mapping[str, str]  # identity of each party
    named_by: str | None
    numbers: Mapping[str, str]
    keys: Sequence[str]  # names of the samples that were attacked
    digests: Sequence[str]  # of their rows; empty where another row is alike
    factors: Mapping[str, Matrix]  # what is seen of these samples; `turned` ones if another study undoes a rotation

    @property
    def samples(self) -> Samples:
        """All its samples."""
        return Samples(self.named_by, self.numbers)

    @classmethod
    def read(cls, kept: StudyMemory) -> "Earlier":
        """Return what a signed study let out."""
        about = json.loads(kept.kept(ABOUT) or b"")
        if "digests" not in about:  # as 0.2.0 kept it: nothing tells its samples apart, and all counts as told
            about |= {"digests": [""] * len(about["keys"]), "named_by": None, "numbers": {}, "standardize": True}
            about |= {"columns": dict.fromkeys(about["columns"], 1.0), "roster": {}}
        with np.load(kept.path / LEFT, allow_pickle=False) as arrays:
            about["factors"] = dict(arrays)
        return cls(**{each.name: about[each.name] for each in fields(cls)})

    def keep(self, memory: StudyMemory) -> None:
        """Keep it until it is signed."""
        about = {name: value for name, value in vars(self).items() if name != "factors"}
        factors: dict[str, Any] = {name: factor.astype(np.float32) for name, factor in self.factors.items()}
        memory.replace(f"reviewed-{ABOUT}", json.dumps(about).encode())
        write(memory.path / f"reviewed-{LEFT}", lambda file: np.savez(file, **factors))

    def places(self, table: OwnTable) -> dict[int, int]:
        """Return by rows of a table where they stand among the samples that were attacked."""
        digests, samples = told_apart(table.rows), table.samples
        here = set(digests) - {""}
        # By their numbers; where these changed, by their names.
        by_digest = {digest: place for place, digest in enumerate(self.digests) if digest}
        gone = [(key, place) for place, key in enumerate(self.keys) if self.digests[place] not in here]
        by_name = dict(gone) if self.named_by == table.preparation.reading.id_column else {}
        found = [by_digest.get(digest, by_name.get(name)) for digest, name in zip(digests, samples, strict=True)]
        return {row: place for row, place in enumerate(found) if place is not None}

    def single_out(self, protect: str, roster: Mapping[str, str], columns: Collection[str], samples: Samples) -> bool:
        """Whether this study and another one together tell a party's part of some samples that are in both."""
        then, now, modes = set(self.roster.items()), set(roster.items()), {protect, self.protect}
        if modes <= {"none"}:
            differs = False
        elif modes == {"none", "sums"}:  # the sum, less what the others send openly, is this party's part
            differs = True
        elif "none" in modes:  # a blind fit, and what some of its parties send openly
            differs = not (now <= then if self.protect == "none" else then <= now)
        else:
            differs = then != now or sorted(self.columns) != sorted(columns)
            differs = differs or ("sums" in modes and samples.renewed(self.samples))
        return differs and samples.may_share(self.samples)


def commit(memory: StudyMemory) -> None:
    """Count what was reviewed as left, before the signature lets it."""
    for name in (LEFT, ABOUT):
        memory.replace(name, memory.kept(f"reviewed-{name}") or b"")


def place(memory: StudyMemory, batch: OwnTable) -> None:
    """Count new samples as samples of this study, before their numbers leave."""
    about = json.loads(memory.kept(ABOUT) or b"")
    about["numbers"] |= Samples.of(batch).numbers
    memory.replace(ABOUT, json.dumps(about).encode())


def studies(memory: Memory, study: str) -> dict[str, StudyMemory]:
    """Other studies of this table that were signed."""
    others = [each for each in memory.studies() if each.path.name != study]
    return {each.path.name: each for each in others if each.kept(ABOUT) is not None}


def digests(memory: Memory, study: str) -> dict[str, str]:
    """Digest of what each other signed study let out: a review holds as long as no study is added."""
    kept = studies(memory, study).items()
    return {name: sha256((each.kept(ABOUT) or b"") + (each.kept(LEFT) or b"")) for name, each in kept}
