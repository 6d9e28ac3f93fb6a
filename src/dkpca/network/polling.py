"""A party's process: it asks the center for questions, has its worker answer them, and hands the answers over.

It waits as a small process: what reads tables and computes is in the worker, which ends when there is nothing to do.
"""

import asyncio
import contextlib
import json
import logging
import os
import random
import signal
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dkpca.errors import DKPCAError, StorageError, WireError
from dkpca.network import approvals, process
from dkpca.network import protocol as p
from dkpca.network.client import Client, LostError
from dkpca.network.events import Events
from dkpca.network.protocol import Asked
from dkpca.store import ledger, storage

IDLE_SECONDS = 60.0  # after which a worker without work ends
APPROVAL_SECONDS = 0.5  # between two looks whether a person has decided
SLOWEST_RETRY = 5.0
BETWEEN_POLLS = 0.05  # seconds, so that a center that answers at once and with nothing is not asked all the time
REVOKED = "revoked.crl"


@dataclass
class Worker:
    """The process that computes, started when there is something to do; one question at a time."""

    folder: Path
    party: str
    process: asyncio.subprocess.Process | None = None
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _used: float = 0.0

    async def ask(self, do: str, asked: Asked, attached: bytes = b"") -> dict[str, Any]:
        """Return the answer, or that there is none because the worker ended."""
        async with self._lock:
            process = await self._started()
            assert process.stdin is not None
            assert process.stdout is not None
            command = {"do": do, "asked": json.loads(asked.to_bytes()), "attached": len(attached)}
            with contextlib.suppress(ConnectionError):
                process.stdin.write(json.dumps(command).encode() + b"\n" + attached)
                await process.stdin.drain()
            line = await process.stdout.readline()
            self._used = asyncio.get_running_loop().time()
            if line:
                answer: dict[str, Any] = json.loads(line)
                return answer
            code = await process.wait()
            killed = code == -signal.SIGKILL
            facts = {"number": asked.number, "run": asked.run, "reason": f"the worker ended with code {code}"}
            ledger.append(self.folder / ledger.NAME, "not answered", **facts)
            reason = "its worker was killed, perhaps for want of memory; ask again, or for less"
            return {"code": "failed", "reason": reason if killed else "its worker ended; its log says why"}

    async def end_if_idle(self) -> None:
        """Give the memory back when there is nothing to do."""
        idle = asyncio.get_running_loop().time() - self._used
        if self.process is not None and idle > IDLE_SECONDS and not self._lock.locked():
            async with self._lock:  # or a question that comes meanwhile goes to a process that is about to end
                await self.end()

    async def end(self) -> None:
        """End the process."""
        if self.process is not None and self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()
        self.process = None

    async def _started(self) -> asyncio.subprocess.Process:
        if self.process is None or self.process.returncode is not None:
            arguments = [str(self.folder), self.party, str(os.getpid())]
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "dkpca.network.worker", *arguments,
                stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=2**20,
            )  # fmt: skip
        return self.process


@dataclass
class Party:
    """What one party's process holds."""

    folder: Path
    client: Client
    events: Events
    worker: Worker
    held: dict[str, asyncio.Task[None]] = field(default_factory=dict)  # questions, by number
    open: frozenset[str] = frozenset()  # those that the center still waits for
    revocations: int = 0  # number of the list seen last
    rate: p.Rate = field(default_factory=lambda: p.Rate(p.QUESTIONS_PER_MINUTE, 60.0))

    async def poll(self, *, wait: bool = True) -> bool:
        """Ask once, wait for a question, and begin with what is new; return whether anything is."""
        query = {"known": ",".join(sorted(self.open & set(self.held))), "revocations": str(self.revocations)}
        query |= {} if wait else {"wait": "0"}
        status, reply = await self.client.get(
            p.QUESTIONS, largest=p.LARGEST_POLL, timeout=p.POLL_SECONDS + p.POLL_SPARE, **query
        )
        if status != 200:
            raise LostError(f"it refuses ({status}: {str(reply.get('reason', ''))[:200]})")
        asked, numbers, revocations = (reply.get(name) for name in ("questions", "open", "revocations"))
        if len(reply) != 3 or not (
            isinstance(asked, list) and isinstance(numbers, list) and type(revocations) is int
        ):
            raise WireError("the center's reply does not have the fields of a reply")
        if len(asked) > p.MOST_OPEN or not all(isinstance(n, str) and p.NUMBER.fullmatch(n) for n in numbers):
            raise WireError("the center's reply has more questions than it may have, or odd ones")
        await self._heed(revocations)
        questions = [Asked.from_dict(each) for each in asked]
        self.open = frozenset(numbers)
        approvals.keep_only(self.folder, self.open)
        new = [each for each in questions if each.number not in self.held][: p.MOST_OPEN - len(self.held)]
        for question in new:
            while not self.rate.take():
                await asyncio.sleep(1)
            self.held[question.number] = asyncio.create_task(self._handle(question))
        return bool(new)

    async def _heed(self, number: int) -> None:
        """Take a newer revocation list; with an older one the center is not believed."""
        if number < self.revocations:
            raise LostError(f"it has revocation list {number}, older than list {self.revocations} that was seen here")
        if number > self.revocations:
            data = await self.client.fetch(p.REVOCATIONS, p.LARGEST_REVOCATIONS)
            found, revoked = await asyncio.to_thread(read_revocations, self.folder, data)
            if found != number:
                raise LostError(f"it has revocation list {found}, not the list {number} that it announces")
            storage.write(self.folder / REVOKED, data)
            self.revocations = found
            self.client.refuse(revoked)
            self.events.note("revocation list", number=found, entries=len(revoked))

    async def _handle(self, asked: Asked) -> None:
        self.events.note("question", run=asked.run, number=asked.number, question=dict(asked.question))
        try:
            answer = await self._answer(asked)
            if answer["code"] == "ok" and answer["file"]:
                await self._upload(asked, Path(answer["file"]), answer["bytes"], answer["sha256"])
            else:
                await self._notice(asked, answer["code"], answer["reason"])
            self.events.note("answered", run=asked.run, number=asked.number, code=answer["code"])
        except LostError as error:  # the center asks again if it still wants to know
            self.events.note("lost", level=logging.WARNING, number=asked.number, reason=str(error))
        except DKPCAError as error:
            self.events.note("not answered", level=logging.ERROR, number=asked.number, reason=str(error))
            await self._notice(asked, "cannot answer", "one of its files cannot be read or written")
        except Exception as error:  # one question; the others go on
            logging.getLogger(__name__).exception("question %s", asked.number)
            self.events.note("error", level=logging.ERROR, number=asked.number, reason=repr(error))
            await self._notice(asked, "failed", "an error that was not expected; its log has it")
        finally:
            self.held.pop(asked.number, None)
            self.open -= {asked.number}

    async def _answer(self, asked: Asked) -> dict[str, Any]:
        attached = b""
        if asked.attached:
            weighed = await self.worker.ask("weigh", asked)
            if weighed["code"] != "ok":
                return weighed
            attached = await self.client.fetch(f"{p.QUESTIONS}/{asked.number}/attached", asked.attached)
        while True:
            answer = await self.worker.ask("answer", asked, attached)
            if answer["code"] != approvals.WAITING:
                return answer
            await self._notice(asked, answer["code"], answer["reason"])
            words = f"question {asked.number} of run {asked.run} waits: dkpca party approve {self.folder}"
            self.events.say(words, "approval wanted", run=asked.run, number=asked.number)
            while asked.number in self.open and approvals.state(self.folder, asked.number) == approvals.WAITING:
                await asyncio.sleep(APPROVAL_SECONDS)
            if asked.number not in self.open:
                raise LostError("the center waits no longer for this answer")

    async def _notice(self, asked: Asked, code: str, reason: str) -> None:
        path, value = f"{p.ANSWERS}/{asked.number}/notice", {"code": code, "reason": reason}
        for wait in _retries():
            with contextlib.suppress(LostError, WireError):
                status, _ = await self.client.post(path, value)
                if status < 500 and status != 429:
                    return
            await asyncio.sleep(wait)

    async def _upload(self, asked: Asked, file: Path, size: int, digest: str) -> None:
        """Hand a message over, in as many pieces as it takes; the ledger has what left."""
        book, path = self.folder / ledger.NAME, f"{p.ANSWERS}/{asked.number}"
        facts = {"run": asked.run, "number": asked.number, "bytes": size, "sha256": digest}
        query = {"size": str(size), "sha256": digest, "ledger": ledger.append(book, "sending", **facts)}
        left, offset, outcome = [0], 0, ""
        for wait in _retries():
            if not file.exists() or file.stat().st_size != size:
                raise StorageError(f"{file}: was changed before it was sent; ask again")
            try:
                pieces = _pieces(file, offset, size, left)
                status, told = await self.client.put(path, pieces, size - offset, offset=str(offset), **query)
                if status in (200, 404, 410, 413, 507):
                    accepted = told.get("accepted") is True or (status == 410 and not told.get("reason"))
                    outcome = "accepted" if accepted else f"not taken ({status}: {told.get('reason', '')})"
                    break
                status, told = await self.client.get(path)
                found = told.get("offset")
                offset = found if type(found) is int and 0 <= found <= size else 0
            except (LostError, WireError) as error:
                self.events.note("broken off", level=logging.WARNING, number=asked.number, reason=str(error))
                offset = size  # asks for nothing but where to go on
            await asyncio.sleep(wait)
        ledger.append(book, "sent", **facts, bytes_left=left[0], outcome=outcome)


async def _pieces(file: Path, offset: int, size: int, left: list[int]) -> AsyncIterator[bytes]:
    """Bytes of a file from an offset on; counts what is handed to the connection."""
    with file.open("rb") as source:
        source.seek(offset)
        while offset < size:
            data = await asyncio.to_thread(source.read, min(p.PIECE, size - offset))
            if not data:
                raise OSError("the message is shorter than it was")
            offset += len(data)
            left[0] += len(data)
            yield data


def _retries() -> Any:
    """Seconds to wait before the next attempt, for ever."""
    wait = 0.1
    while True:
        yield wait * random.uniform(0.5, 1.0)
        wait = min(2 * wait, SLOWEST_RETRY)


def read_revocations(folder: Path, data: bytes) -> tuple[int, frozenset[int]]:
    """Check a revocation list against the CA of the invitation."""
    from dkpca.network import x509 as pki  # not while there is none: it takes ten megabytes

    ca = storage.read_toml(folder / "invitation.toml", "ask the center for it")["ca"]
    return pki.read_revocations(data, pki.from_pem(ca.encode(), "invitation.toml"), "the center's list")


def _connect(party: Party) -> Client:
    """A client with the certificate, the address and the proxy as they are now."""
    invited, own = (
        storage.read_toml(party.folder / name, "restore it") for name in ("invitation.toml", "party.toml")
    )
    client = Client(invited["center"], invited["port"], party.folder / "tls", proxy=own.get("proxy", ""))
    if (party.folder / REVOKED).exists():
        party.revocations, revoked = read_revocations(party.folder, storage.read(party.folder / REVOKED))
        client.refuse(revoked)
    return client


async def serve(folder: Path, stopped: asyncio.Event) -> None:
    """Ask and answer until it is stopped."""
    invited = storage.read_toml(folder / "invitation.toml", "ask the center for it")
    events = Events(folder, invited["party"])
    party = Party(folder, None, events, Worker(folder, invited["party"]))  # type: ignore[arg-type]
    party.client = _connect(party)
    asking = asyncio.create_task(_ask_for_ever(party))
    await asyncio.wait([asyncio.create_task(stopped.wait()), asking], return_when=asyncio.FIRST_COMPLETED)
    for task in (asking, *party.held.values()):
        task.cancel()
    await party.worker.end()
    await party.client.close()
    events.note("stopped")
    events.close()
    if asking.done() and not asking.cancelled():
        asking.result()


async def _ask_for_ever(party: Party) -> None:
    said, versions, retries = "", _versions(party.folder), _retries()
    while True:
        try:
            if (now := _versions(party.folder)) != versions:  # a renewed certificate, another address or proxy
                versions = now
                before, party.client = party.client, _connect(party)
                await before.close()  # what it had under way is tried again with the new one
            found = await party.poll(wait=said == "connected")
            if said != "connected":
                said, retries = "connected", _retries()
                party.events.say(f"connected to center {party.client.address}; waiting for questions", "connected")
            await party.worker.end_if_idle()
            await asyncio.sleep(0 if found else BETWEEN_POLLS)
        except (DKPCAError, OSError) as error:
            if said != str(error):
                said = str(error)
                words = f"no center at {party.client.address}: {error}; trying again"
                party.events.say(words, "lost", level=logging.WARNING)
            await asyncio.sleep(next(retries))


def _versions(folder: Path) -> list[tuple[int, int]]:
    """Which of the files that a connection is made of are there."""
    names = ("tls/own.crt", "tls/own.key", "invitation.toml", "party.toml")
    return [storage.version(folder / name) for name in names]


if __name__ == "__main__":
    process.main(serve)
