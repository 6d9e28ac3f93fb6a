"""The center's remote: a question goes out by a transport, answers are kept in the run's directory as they come.

What has arrived stays: a center that died, or a party that could not be reached, costs only the question again, and
only to the parties that have not answered. A message that came by hand (`dkpca fuse`) counts like any other.

    messages/PARTY.KIND   as received, byte for byte
    ledger.jsonl          what was asked, what arrived, what was turned away
    asked.json            the number of each question, so that after a break the same answer is taken
    exchange.json         where the exchange stands, party by party
"""

import hashlib
import json
import logging
import math
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dkpca import wire
from dkpca.errors import DKPCAError, InputError, NoAnswerError, StorageError, WireError
from dkpca.exchange.files import Answers
from dkpca.exchange.questions import TOLD, Question, RowsWanted, SummaryWanted
from dkpca.messages import Statistics, Summary
from dkpca.network.envelopes import encode_question
from dkpca.network.matching import KINDS, check
from dkpca.network.protocol import Asked, to_json
from dkpca.network.sizes import largest_answer
from dkpca.store import ledger, message_files, storage
from dkpca.store.runs import LEDGER

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())

STATUS, NUMBERS = "exchange.json", "asked.json"
RUNNING = "running"
COMPUTING = "computing"  # the center is at work, no party is waited for
AT_ONCE = threading.BoundedSemaphore(2)  # answers that are examined: each may take its own size in memory


@dataclass(frozen=True)
class Outgoing:
    """A question for one party, and where its answer is collected."""

    asked: Asked
    attached: bytes
    part: Path  # in the folder of the messages; taken away from there only by whoever gets it
    largest: int  # bytes of the answer


@dataclass(frozen=True)
class Delivered:
    """An answer that lies whole in a file, its digest checked."""

    path: Path
    bytes: int
    sha256: str
    ledger: str = ""  # digest of the last line of the party's ledger: it has to be found there later


@dataclass(frozen=True)
class Failure:
    """Why there is no answer, from the party or from the transport."""

    reason: str


# Called with the name on a party's certificate, whatever the answer says; returns why it is turned away, or nothing.
Arrived = Callable[[str, Delivered | Failure], str]
Noticed = Callable[[str, str], None]  # with a party's name and words
# What a network does for us: bring each party its question and the answers back, so many seconds at most.
Carry = Callable[[Mapping[str, Outgoing], float, Arrived, Noticed], None]


@dataclass
class Status:
    """Where an exchange stands; a file that is replaced whole at each step."""

    path: Path
    what: str
    job: str = ""  # number under which the transport knows it
    parties: dict[str, dict[str, Any]] = field(default_factory=dict)

    def write(self, state: str, reason: str = "") -> None:
        """Say how the exchange as a whole stands."""
        told = {"state": state, "what": self.what, "job": self.job, "reason": reason, "parties": self.parties}
        storage.write(self.path, storage.as_json(told))

    def party(self, name: str, step: str, state: str, reason: str = "") -> None:
        """Say how one party stands."""
        self.parties[name] = {"step": step, "state": state} | ({"reason": reason} if reason else {})
        self.write(RUNNING)


def exchange_of(folder: Path) -> dict[str, Any]:
    """Where the last exchange of a run stands; empty if there was none."""
    path = folder / STATUS
    if not path.exists():
        return {}
    try:
        return dict(json.loads(storage.read(path)))
    except ValueError as error:
        raise InputError(f"{path}: cannot be read ({error}); remove it and repeat the command") from error


def state_of(folder: Path) -> str:
    """How the last exchange of a run stands; empty if there was none."""
    return str(exchange_of(folder).get("state", ""))


@dataclass
class RemoteParties:
    """All parties of a roster, reached by a transport; answers go to a run's directory."""

    run: str
    folder: Path  # of the run, or of a batch of new samples in it
    roster: Sequence[str]
    carry: Carry
    timeout: float  # seconds for one question
    status: Status
    max_answer: int  # bytes of an answer, where the question does not say
    again: frozenset[str] = frozenset()  # parties that are asked even if an answer of theirs is here
    extending: Mapping[str, Summary] = field(default_factory=dict)  # by party, which new samples must extend

    @property
    def names(self) -> list[str]:
        """Parties of the roster."""
        return list(self.roster)

    def ask(self, question: Question | Mapping[str, Question]) -> Answers:
        """Ask those whose answer is not here yet; every answer that is good is kept, whatever the others do.

        One question for all, or one of the same kind for each.
        """
        asks = question if isinstance(question, Mapping) else dict.fromkeys(self.roster, question)
        one = asks[self.roster[0]]
        paths = {party: self.folder / "messages" / f"{party}.{one.answer}" for party in self.roster}
        here = self._told(asks) if isinstance(one, TOLD) else self._here(paths, one)
        for party in here:
            self.status.party(party, one.answer, "here")
        missing = {party: asks[party] for party in self.roster if party not in here}
        if missing:
            self._fetch(missing, paths)
        return Answers(paths)

    def _told(self, asks: Mapping[str, Question]) -> set[str]:
        """Parties that have been told this very message."""
        told = [r for r in ledger.records(self.folder / LEDGER) if r["event"] == "told"]
        digests = {party: _digest(encode_question(each)[1]) for party, each in asks.items()}
        return {str(r["party"]) for r in told if digests.get(r["party"]) == r["sha256"]} - self.again

    def _here(self, paths: Mapping[str, Path], question: Question) -> set[str]:
        found = set()
        for party, path in paths.items():
            if party in self.again or not path.exists():
                continue
            try:
                self._check(message_files.read(path, *KINDS[type(question)]), party, question)
                found.add(party)
            except (WireError, StorageError) as error:
                self._record("not used", party=party, file=path.name, reason=str(error))
                forget_numbers(self.folder, [party])  # under the old one it would send the same again
        return found

    def _fetch(self, asks: Mapping[str, Question], paths: Mapping[str, Path]) -> None:
        outgoing = self._outgoing(asks, paths)
        missing, question = list(asks), next(iter(asks.values()))
        numbers = {party: each.asked.number for party, each in outgoing.items()}
        lock, waiting, failed = threading.Lock(), set(missing), dict[str, str]()
        self._record("asked", question=dict(outgoing[missing[0]].asked.question), numbers=numbers)
        for party in missing:
            self.status.party(party, question.answer, "asked")

        def noticed(party: str, words: str) -> None:
            with lock:
                if party in waiting:
                    self.status.party(party, question.answer, "asked", words)

        def arrived(party: str, brought: Delivered | Failure) -> str:
            what = brought, asks[party], paths[party]
            reason = _refusal(party, self._examine, *what)  # not under the lock: answers are examined side by side
            with lock:
                if party not in waiting:
                    return "it was not asked, or has answered already"
                reason = reason or _refusal(party, self._keep, *what, outgoing[party].asked)
                waiting.discard(party)
                if reason:
                    failed[party] = reason
                    self._record("no answer", party=party, number=numbers[party], reason=reason)
                    if isinstance(brought, Delivered):
                        forget_numbers(self.folder, [party])  # under the old one it would send the same again
                self.status.party(party, question.answer, "failed" if reason else "answered", reason)
                return reason

        self.carry(outgoing, self.timeout, arrived, noticed)
        for party in sorted(waiting):
            arrived(party, Failure(f"no answer within {self.timeout:g} s"))
        if failed:
            batch = f" of batch {question.batch!r}" if question.batch else ""
            raise NoAnswerError(
                f"no {question.answer}{batch} from {sorted(failed)} ({_by_reason(failed)}); "
                "what the others sent is kept, repeat the command to ask only these again"
            )

    def _outgoing(self, asks: Mapping[str, Question], paths: Mapping[str, Path]) -> dict[str, Outgoing]:
        """Each question with its number: the one under which the party was asked the same before, or a new one."""
        made, known = {}, _read_numbers(self.folder)
        for party, question in asks.items():
            described, attached = encode_question(question)
            about: Any = {"attached": len(attached), "sha256": _digest(attached) if attached else ""}
            numbers = known.setdefault(_digest(to_json([self.run, described, about])), {})
            number = numbers.setdefault(party, secrets.token_hex(16))
            made[party] = Outgoing(
                Asked(number, self.run, described, **about),
                attached,
                paths[party].with_name(f".{party}.{number}.part"),
                self._largest(party, question),
            )
        storage.write(self.folder / NUMBERS, storage.as_json(known))
        return made

    def _largest(self, party: str, question: Question) -> int:
        told, n_samples, width = self.folder / "messages" / f"{party}.statistics", math.inf, math.inf
        if isinstance(question, SummaryWanted) and told.exists():
            n_samples = message_files.read(told, Statistics).n_samples
        if isinstance(question, RowsWanted) and party in self.extending:
            width = self.extending[party].n_samples if question.exact else self.extending[party].rank
        return int(min(self.max_answer, largest_answer(question, n_samples=n_samples, width=width)))

    def _examine(self, party: str, brought: Delivered | Failure, question: Question, path: Path) -> None:
        """Raise unless what came answers the question."""
        if isinstance(brought, Failure):
            raise NoAnswerError(brought.reason)
        if isinstance(question, TOLD):
            return
        with AT_ONCE:
            data = storage.mapped(brought.path)
            self._check(message_files.decode(Path(path.name), data, *KINDS[type(question)]), party, question)

    def _keep(self, party: str, brought: Delivered, question: Question, path: Path, asked: Asked) -> None:
        if isinstance(question, TOLD):
            self._record("told", party=party, number=asked.number, sha256=asked.sha256)
            return
        told = {"file": path.name, "bytes": brought.bytes, "sha256": brought.sha256, "party_ledger": brought.ledger}
        self._record("received", party=party, number=asked.number, **told)
        brought.path.replace(path)

    def _check(self, message: Any, party: str, question: Question) -> None:
        check(message, party, question)
        extended = wire.fingerprint(self.extending[party]) if party in self.extending else ""
        if extended and getattr(message, "summary_id", extended) != extended:
            raise WireError("its new samples extend another summary than the one that was fused")

    def _record(self, event: str, **facts: Any) -> None:
        ledger.append(self.folder / LEDGER, event, **facts)


def _refusal(party: str, work: Callable[..., None], *what: Any) -> str:
    """Do something with an answer; return why it is turned away, if so."""
    try:
        work(party, *what)
        return ""
    except NoAnswerError as error:  # the party's own words
        return str(error)
    except DKPCAError as error:
        return f"its answer is turned away: {error}"
    except Exception as error:  # whatever a party sends, the question is still open for it
        log.exception("the answer of %s", party)
        return f"its answer is turned away: it cannot be read ({type(error).__name__})"


def forget_numbers(folder: Path, parties: Sequence[str]) -> None:
    """Have these parties asked under new numbers, so that they work anew."""
    known = _read_numbers(folder)
    if known:
        kept = {key: {p: n for p, n in numbers.items() if p not in parties} for key, numbers in known.items()}
        storage.write(folder / NUMBERS, storage.as_json(kept))


def _read_numbers(folder: Path) -> dict[str, dict[str, str]]:
    file = folder / NUMBERS
    return dict(json.loads(storage.read(file))) if file.exists() else {}


def _by_reason(failed: Mapping[str, str]) -> str:
    """Each reason once, after the parties it holds for."""
    reasons = dict.fromkeys(failed[party] for party in sorted(failed))
    return "; ".join(f"{', '.join(p for p in sorted(failed) if failed[p] == why)}: {why}" for why in reasons)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
