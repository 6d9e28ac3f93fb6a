"""Questions that wait for their answers: filled by the threads of runs, read by the server's loop."""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from dkpca.network.remote import Arrived, Delivered, Failure, Noticed, Outgoing

REMEMBERED = 1000  # questions closed lately, so that a party whose reply was lost learns how it ended


class StoppedError(BaseException):
    """The center is being stopped; the run goes on when it is started again."""


@dataclass
class Waiting:
    """One question for one party."""

    party: str
    outgoing: Outgoing
    arrived: Arrived
    noticed: Noticed
    taken: bool = False  # whether the party has seen it
    closed: bool = False
    receiving: bool = False  # whether a request brings a piece of the answer now


@dataclass
class Pending:
    """All open questions of a center."""

    loop: asyncio.AbstractEventLoop
    connected: Callable[[str], bool]
    stopping: bool = False
    _open: dict[str, Waiting] = field(default_factory=dict)  # by number
    _ended: dict[str, tuple[str, str]] = field(default_factory=dict)  # number: party, and why it was turned away
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _events: dict[str, asyncio.Event] = field(default_factory=dict)  # by party

    def carry(
        self,
        questions: Mapping[str, Outgoing],
        timeout: float,
        arrived: Arrived,
        noticed: Noticed,
        *,
        joined_by: float,
    ) -> None:
        """Wait for the answers, in the thread of a run; a `dkpca.network.remote.Carry`."""
        items = {party: Waiting(party, outgoing, arrived, noticed) for party, outgoing in questions.items()}
        end = time.monotonic() + timeout
        with self._changed:
            self._open |= {item.outgoing.asked.number: item for item in items.values()}
        self._tell(questions)
        try:
            while left := [item for item in items.values() if not item.closed]:
                now = time.monotonic()
                if self.stopping:
                    raise StoppedError
                if now >= end:
                    return
                for item in left:
                    if now >= joined_by and not item.taken and not self.connected(item.party):
                        self.close(item, Failure("it is not connected"))
                with self._changed:
                    if any(not item.closed for item in left):
                        self._changed.wait(min(0.5, end - now))
        finally:
            with self._changed:
                for item in items.values():
                    item.closed = True
                    self._open.pop(item.outgoing.asked.number, None)
            self._tell(questions)

    def close(self, item: Waiting, brought: Delivered | Failure) -> str:
        """Hand an answer over, from any thread; return why it was turned away, if so."""
        reason = item.arrived(item.party, brought)
        with self._changed:
            item.closed = True
            self._open.pop(item.outgoing.asked.number, None)
            self._ended[item.outgoing.asked.number] = item.party, reason
            while len(self._ended) > REMEMBERED:
                self._ended.pop(next(iter(self._ended)))
            self._changed.notify_all()
        return reason

    def stop(self) -> None:
        """Have all threads that wait here end."""
        with self._changed:
            self.stopping = True
            self._changed.notify_all()

    def find(self, party: str, number: str) -> Waiting | None:
        """The open question of a party under a number."""
        item = self._open.get(number)
        return item if item is not None and item.party == party else None

    def ended(self, party: str, number: str) -> str | None:
        """Why a question's answer was turned away; empty if it was taken, None if nothing is known of it."""
        whose, reason = self._ended.get(number, ("", ""))
        return reason if whose == party else None

    def of(self, party: str) -> list[Waiting]:
        """Open questions of a party, oldest first."""
        return [item for item in list(self._open.values()) if item.party == party]

    def count(self) -> int:
        """Open questions of all parties."""
        return len(self._open)

    async def change(self, party: str, timeout: float) -> None:
        """Wait until something changes for a party, or time is up."""
        event = self._events.setdefault(party, asyncio.Event())
        event.clear()
        try:
            async with asyncio.timeout(timeout):
                await event.wait()
        except TimeoutError:
            return

    def _tell(self, parties: Mapping[str, Outgoing]) -> None:
        for party in parties:
            self.loop.call_soon_threadsafe(self._set, party)

    def _set(self, party: str) -> None:
        self._events.setdefault(party, asyncio.Event()).set()
