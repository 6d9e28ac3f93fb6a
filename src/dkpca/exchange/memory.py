"""A member's own folder, DIR: keys, what it saw, what it answered, and the ledger of all that ever left its table.

The study's folder is no memory: before it sees a file, DIR holds exactly these bytes. A repeat sends them again, and
another question for a step that was answered is refused, whatever the folder shows. DIR is moved, never copied.
"""

import contextlib
import re
import secrets
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from dkpca.errors import InputError, ProtectionError, StorageError
from dkpca.exchange import sealed
from dkpca.exchange.identity import SECRET_BYTES, Secrets
from dkpca.exchange.plan import Study
from dkpca.store import ledger, storage

LEFT, ABOUT = "left.npz", "left.json"  # what a signed study lets out, for the union with later ones
STUDY = re.compile("[0-9a-f]{32}")  # its id; files of other programs have other names
# Files about keys, ids, sizes and consent only.
BEFORE_NUMBERS = re.compile(r"(\d+\.)?(seeds|tokens|ring-\d+|matched|shape|samples|go|refusal)|(plan|member|sign).*")


@dataclass(frozen=True)
class Memory:
    """One member's folder on its own disk."""

    path: Path

    @contextlib.contextmanager
    def locked(self, *, new: bool = False) -> Iterator[None]:
        """Hold the folder for one process; the system lets go of it when the process ends, however it ends."""
        if new:
            with storage.explained(self.path):
                self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        elif not (self.path / "identity.key").exists():
            how = "pass the one you joined with as --as (its new place, if it was moved), or run 'dkpca study join'"
            raise InputError(f"{self.path}: is not a member's own folder; {how}")
        path = self.path / "lock"
        with storage.explained(path):
            path.touch(storage.PRIVATE_MODE)
            path.chmod(storage.PRIVATE_MODE)  # whoever may read the file could hold its lock
        with contextlib.ExitStack() as stack:
            try:
                connection = sqlite3.connect(path, timeout=0, isolation_level=None)
                held = stack.enter_context(contextlib.closing(connection))
                held.execute("BEGIN EXCLUSIVE")  # of all locks in the standard library the one on every system
            except sqlite3.Error as error:
                if error.sqlite_errorcode == sqlite3.SQLITE_BUSY:
                    raise InputError(f"{self.path}: another command is running here; wait, or stop it") from error
                raise StorageError(f"{self.path}: cannot be locked ({error}); nothing was sent") from error
            yield

    def study(self, study_id: str) -> "StudyMemory":
        """Return what belongs to one study."""
        return StudyMemory(self, self.path / "studies" / study_id)

    def studies(self) -> list["StudyMemory"]:
        """What belongs to each study that this folder has taken part in."""
        folder = self.path / "studies"
        found = sorted(folder.iterdir()) if folder.is_dir() else []
        return [self.study(each.name) for each in found if STUDY.fullmatch(each.name) and each.is_dir()]

    def ledger(self) -> list[dict[str, Any]]:
        """Everything that ever left this table, oldest first; raises if a line was altered or removed."""
        return ledger.followed(self.path / "ledger.jsonl")[0]

    def secret(self, path: Path) -> bytes:
        """Return a key in a file; it is made at first use."""
        if not path.exists():
            write(path, secrets.token_bytes(SECRET_BYTES))
        found = path.read_bytes()
        if len(found) != SECRET_BYTES:
            raise StorageError(f"{path}: is not a key of {SECRET_BYTES} bytes; restore a copy")
        return found


@dataclass(frozen=True)
class StudyMemory:
    """What a member keeps of one study."""

    memory: Memory
    path: Path

    @property
    def member(self) -> str:
        """Name of this member in the plan; empty until it has joined."""
        return (self.kept("name") or b"").decode()

    @property
    def number(self) -> int:
        """Number of the plan in its folder."""
        return int(self.kept("number") or b"1")

    def place(self) -> int:
        """Number in the names of its folders in DIR: that of its plan, or the next that no other study here has."""
        if self.kept("place") is None:
            others = [each for each in self.memory.studies() if each.path != self.path]
            taken = {int(each.kept("place") or each.number) for each in others if each.kept("agreement.json")}
            self.replace("place", str(next(n for n in count(self.number) if n not in taken)).encode())
        return int(self.kept("place") or self.number)

    def secrets(self) -> Secrets:
        """Keys of this study; they are made at first use and gone after `close`."""
        if (self.path / "closed").exists():
            what = f"plan {self.number}: this study is closed here, and its keys were deleted"
            raise InputError(f"{what}; join the next one, or ask the center for another plan ('dkpca study create')")
        identity, seed = self.memory.path / "identity.key", self.path / "seed.key"
        if self.kept("member.toml") is not None and not seed.exists():
            raise StorageError(f"{seed}: is missing; restore it from a backup, or run 'dkpca study close --give-up'")
        return Secrets(self.memory.secret(identity), self.memory.secret(seed))

    def close(self, shown: Iterable[str] | None = ()) -> None:
        """Delete the keys of this study and everything they opened; what was sent stays on record."""
        self.replace("closed", b"")
        self.forget("seed.key")
        for folder in ("opened", "table"):
            shutil.rmtree(self.path / folder, ignore_errors=True)
        # A study that ended before any number left the table, and now cannot go on, counts as none.
        if shown is not None and not self.sent_numbers(shown):  # None: the folder cannot be read
            self.forget(ABOUT, LEFT)

    def sent_numbers(self, shown: Iterable[str] = ()) -> bool:
        """Whether a number may have left, by DIR, its ledger, and the names of files that the folder has shown."""
        sent = {path.name for path in (self.path / "sent").glob("[!.]*")} | set(shown)
        sent |= {line["step"] for line in self.memory.ledger() if line.get("study") == self.path.name}
        return not all(map(BEFORE_NUMBERS.fullmatch, sent))

    def keep_once(self, name: str, data: bytes, what: str) -> None:
        """Keep some bytes for ever; others under the same name are refused."""
        kept = self.kept(name)
        if kept is None:
            self.replace(name, data)
        elif kept != data:
            raise ProtectionError(f"{what} is not the one that this member saw before; someone changed it since")

    def kept(self, name: str) -> bytes | None:
        """Return what was kept under a name; None: nothing."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, name: str, data: bytes) -> None:
        """Write a file of this study anew, whole."""
        write(self.path / name, data)

    def forget(self, *names: str) -> None:
        """Remove files of this study."""
        for name in names:
            (self.path / name).unlink(missing_ok=True)

    def remember(self, study: Study, stem: str) -> None:
        """Keep a study as it was shown ("reviewed") or signed ("signed")."""
        self.replace(f"{stem}.json", packed(study.number, {"plan": study.raw_plan, **study.raw_members}))

    def remembered(self, stem: str) -> Study | None:
        """Return the study that was kept."""
        kept = self.kept(f"{stem}.json")
        if kept is None:
            return None
        number, files = unpacked(kept)
        return Study(number, files.pop("plan"), files)

    def log(self, place: dict[str, Any], facts: dict[str, Any]) -> None:
        """Have the ledger say once that a file leaves."""
        place = {"study": self.path.name, **place}
        if not any(place.items() <= line.items() for line in self.memory.ledger()):
            ledger.append(self.memory.path / "ledger.jsonl", "sent", **place, **facts)


def write(path: Path, content: storage.Content) -> None:
    """Replace a file: all of it or nothing, readable by its owner only, on the disk before it has its name."""
    with storage.explained(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
    storage.write(path, content, private=True)


def packed(number: int, files: dict[str, bytes]) -> bytes:
    """Files of a study, with the number of its plan, in one."""
    return sealed.canonical({"number": number, "files": {name: raw.hex() for name, raw in files.items()}})


def unpacked(data: bytes) -> tuple[int, dict[str, bytes]]:
    """Return the number of the plan, and the files."""
    found = sealed.uncanonical(data, "a file of this member's own folder")
    return found["number"], {name: bytes.fromhex(raw) for name, raw in found["files"].items()}
