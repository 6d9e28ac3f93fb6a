"""A member's own folder, DIR: keys, what it saw, what it answered, and the ledger of all that ever left its table.

The study's folder is no memory: before it sees a file, DIR holds exactly these bytes. A repeat sends them again, and
another question for a step that was answered is refused, whatever the folder shows. DIR is moved, never copied.
"""

import contextlib
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from dkpca.errors import InputError, ProtectionError, StorageError
from dkpca.exchange import sealed
from dkpca.exchange.identity import SECRET_BYTES, Secrets
from dkpca.exchange.plan import Agreement, Study

RENAMES = 20  # attempts where a scanner or an indexer holds a file open for a moment
START = "0" * 64


@dataclass(frozen=True)
class Memory:
    """One member's folder on its own disk."""

    path: Path

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder for one process; the system lets go of it when the process ends, however it ends."""
        if not self.path.is_dir():
            raise InputError(f"{self.path}: there is no such folder; 'dkpca study join' makes it")
        with (
            explained(self.path / "lock"),
            contextlib.closing(sqlite3.connect(self.path / "lock", timeout=0)) as held,
        ):
            held.isolation_level = None
            try:
                held.execute("BEGIN EXCLUSIVE")  # of all locks in the standard library the one on every system
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise  # such as of a full disk
                raise InputError(f"{self.path}: another command is running here; wait for it, or stop it") from error
            yield

    def identity(self) -> bytes:
        """Return the key that signs, for all studies of this folder; it is made at first use."""
        return self._secret(self.path / "identity.key")

    def study(self, study_id: str) -> "StudyMemory":
        """Return what belongs to one study."""
        return StudyMemory(self, self.path / "studies" / study_id)

    def studies(self) -> list[str]:
        """Ids of the studies that this folder has taken part in."""
        folder = self.path / "studies"
        return sorted(each.name for each in folder.iterdir()) if folder.is_dir() else []

    def ledger(self) -> list[dict[str, Any]]:
        """Everything that ever left this table, oldest first; raises if a line was altered or removed."""
        path, previous, lines = self.path / "ledger.jsonl", START, []
        if not path.exists():
            return []
        for number, line in enumerate(path.read_bytes().splitlines(keepends=True), start=1):
            if not line.endswith(b"\n"):  # cut short by a crash, before anything left
                break
            try:
                record = json.loads(line)
            except ValueError:
                record = {}
            if not isinstance(record, dict) or record.get("previous") != previous:
                raise StorageError(f"{path}: line {number} does not follow the one before it: the ledger was altered")
            previous = hashlib.sha256(line).hexdigest()
            lines.append(record)
        return lines

    def record(self, **facts: Any) -> None:
        """Add a line to the ledger and bring it to the disk."""
        path = self.path / "ledger.jsonl"
        whole = path.read_bytes() if path.exists() else b""
        whole = whole[: whole.rfind(b"\n") + 1]
        last = whole[whole[:-1].rfind(b"\n") + 1 :]
        previous = hashlib.sha256(last).hexdigest() if last else START
        now = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps({"time": now, **facts, "previous": previous}, allow_nan=False)
        write(path, whole + line.encode() + b"\n")

    def _secret(self, path: Path) -> bytes:
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

    def secrets(self) -> Secrets:
        """Keys of this study; they are made at first use and gone after `close`."""
        if (self.path / "closed").exists():
            raise InputError("this study is closed here: its keys were deleted, and nothing can be read or answered")
        (self.path / "sent").mkdir(parents=True, exist_ok=True)
        (self.path / "opened").mkdir(exist_ok=True)
        return Secrets(self.memory.identity(), self.memory._secret(self.path / "seed.key"))

    def close(self) -> None:
        """Delete the keys of this study and everything they opened; what was sent stays on record."""
        write(self.path / "closed", b"")
        (self.path / "seed.key").unlink(missing_ok=True)
        shutil.rmtree(self.path / "opened", ignore_errors=True)
        shutil.rmtree(self.path / "table", ignore_errors=True)

    def keep_once(self, name: str, data: bytes, what: str) -> None:
        """Keep some bytes for ever; others under the same name are refused."""
        kept = self.kept(name)
        if kept is None:
            write(self.path / name, data)
        elif kept != data:
            raise ProtectionError(f"{what} is not the one that this member saw before; someone changed it since")

    def kept(self, name: str) -> bytes | None:
        """Return what was kept under a name; None: nothing."""
        path = self.path / name
        return path.read_bytes() if path.exists() else None

    def replace(self, name: str, data: bytes) -> None:
        """Write a file of this study anew, whole."""
        write(self.path / name, data)

    def forget(self, name: str) -> None:
        """Remove a file of this study."""
        (self.path / name).unlink(missing_ok=True)

    def remember(self, study: Study, stem: str) -> None:
        """Keep a study as it was shown ("reviewed") or signed ("signed")."""
        self.replace(f"{stem}.json", _packed(study.number, {"plan": study.raw_plan, **study.raw_members}))

    def remembered(self, stem: str) -> Study | None:
        """Return the study that was kept."""
        kept = self.kept(f"{stem}.json")
        if kept is None:
            return None
        number, files = _unpacked(kept)
        return Study(number, files.pop("plan"), files)

    def agree(self, agreement: Agreement) -> Agreement:
        """Keep the agreement for ever; a set of other signatures is refused, and names whose changed."""
        packed = _packed(agreement.study.number, dict(agreement.raw_signatures))
        kept = self.kept("agreement.json")
        if kept is not None:
            before = _unpacked(kept)[1]
            changed = [name for name, raw in agreement.raw_signatures.items() if before.get(name) != raw]
            if changed:
                raise ProtectionError(f"{', '.join(changed)} signed twice, with other content; start another study")
            return agreement
        write(self.path / "agreement.json", packed)
        return agreement

    def agreed(self, study: Study) -> Agreement | None:
        """Return the agreement that was kept."""
        kept = self.kept("agreement.json")
        return None if kept is None else Agreement(study, _unpacked(kept)[1])

    def answered(self, step: str, public: dict[str, str]) -> tuple[Path, sealed.Header] | None:
        """Return the sealed file with which a step was answered, and its header."""
        path = self.path / "sent" / step
        if not path.exists():
            return None
        with path.open("rb") as file:
            return path, sealed.read_header(file, path.stat().st_size, public)

    def seal(self, about: sealed.Header, parts: Iterable[sealed.Part], me: Secrets, sealing: dict[str, str]) -> Path:
        """Seal an answer into DIR; return the sealed file."""
        path = self.path / "sent" / about.step
        write(path, lambda file: sealed.write(file, about, parts, me, sealing))
        return path

    def log(self, path: Path, header: sealed.Header) -> None:
        """Have the ledger say once that a file leaves."""
        place = {"study": self.path.name, "agreement": header.agreement, "step": header.step}
        if not any(place.items() <= line.items() for line in self.memory.ledger()):
            readers = sorted({reader for part in header.parts.values() for reader in part.readers})
            self.memory.record(**place, kind=header.kind, bytes=path.stat().st_size, readers=readers or "all")


def write(path: Path, content: bytes | Callable[[BinaryIO], object]) -> None:
    """Replace a file: all of it or nothing, readable by its owner only, on the disk before it has its name."""
    with explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        for stale in path.parent.glob(f".{path.name}.*.part"):  # of a process that was killed; DIR is locked
            stale.unlink(missing_ok=True)
        part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
        try:
            with open(part, "xb+", opener=_private) as file:  # Path.open takes no opener
                content(file) if callable(content) else file.write(content)
                file.flush()
                os.fsync(file.fileno())
            _rename(part, path)
        finally:
            part.unlink(missing_ok=True)
        if hasattr(os, "O_DIRECTORY"):
            folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _rename(part: Path, path: Path) -> None:
    """Give a file its name; Windows refuses while somebody has the old one open."""
    for attempt in range(RENAMES):
        try:
            part.replace(path)
            return
        except PermissionError:
            if attempt == RENAMES - 1:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn the system's refusal into a sentence."""
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise StorageError(f"{path}: cannot be written ({reason}); nothing was sent; fix that and repeat") from error


def _packed(number: int, files: dict[str, bytes]) -> bytes:
    return sealed.canonical({"number": number, "files": {name: raw.hex() for name, raw in files.items()}})


def _unpacked(data: bytes) -> tuple[int, dict[str, bytes]]:
    found = sealed.uncanonical(data, "a file of this member's own folder")
    return found["number"], {name: bytes.fromhex(raw) for name, raw in found["files"].items()}
