"""The center's remote: a question goes out by a transport, answers are kept in the run's directory as they come.

What has arrived stays: a center that died, or a party that could not be reached, costs only the question again, and
only to the parties that have not answered. A message that came by hand (`dkpca fuse`) counts like any other.

    messages/PARTY.KIND   as received, byte for byte
    ledger.jsonl          what was asked, what arrived, what was turned away
    exchange.json         where the exchange stands, party by party
"""

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from dkpca import messages, wire
from dkpca.errors import DKPCAError, NoAnswerError, StorageError, WireError
from dkpca.exchange import alignment
from dkpca.exchange.files import Answers
from dkpca.exchange.questions import Question, Result, RowsWanted, StatisticsWanted, SummaryWanted, TokensWanted
from dkpca.messages import Message, Partials, Rows, SampleTokens, Statistics, Summary
from dkpca.network.envelopes import Answer, Request, decode_answer, encode_request
from dkpca.store import message_files, storage

log = logging.getLogger(__name__)
log.addHandler(logging.NullHandler())

STATUS = "exchange.json"
LEDGER = "ledger.jsonl"
RUNNING = "running"
COMPUTING = "computing"  # the center is at work, no party is waited for
KINDS: Mapping[type[Any], tuple[type[Any], ...]] = {
    TokensWanted: (SampleTokens,),
    StatisticsWanted: (Statistics,),
    SummaryWanted: (Summary,),
    RowsWanted: (Rows, Partials),
}


@dataclass(frozen=True)
class Failure:
    """Why a transport brings no answer."""

    reason: str


class Transport(Protocol):
    """What a network engine does for us."""

    def carry(
        self,
        request: bytes,
        parties: Sequence[str],
        seconds: float,
        arrived: Callable[[str, bytes | Failure], None],
    ) -> None:
        """Bring a request to the parties and their answers back; return when all have answered or time is up.

        The name given to `arrived` is the one on the party's certificate, whatever the answer says.
        """


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


def state_of(folder: Path) -> str:
    """How the last exchange of a run stands; empty if there was none."""
    path = folder / STATUS
    return str(json.loads(storage.read(path))["state"]) if path.exists() else ""


def mark_interrupted(folder: Path) -> None:
    """Say of a run whose center was stopped that it does not go on by itself."""
    path = folder / STATUS
    if path.exists():
        told = json.loads(storage.read(path))
        if told["state"] in (RUNNING, COMPUTING):
            reason = "the center was stopped meanwhile; repeat the command"
            storage.write(path, storage.as_json(told | {"state": "failed", "reason": reason}))


@dataclass
class RemoteParties:
    """All parties of a roster, reached by a transport; answers go to a run's directory."""

    run: str
    folder: Path  # of the run, or of a batch of new samples in it
    roster: Sequence[str]
    transport: Transport
    seconds: float  # for one question
    status: Status
    again: frozenset[str] = frozenset()  # parties that are asked even if an answer of theirs is here
    extending: Mapping[str, str] = field(default_factory=dict)  # summaries, by party, that new samples must extend

    @property
    def names(self) -> list[str]:
        """Parties of the roster."""
        return list(self.roster)

    def ask(self, question: Question) -> Answers:
        """Ask those whose answer is not here yet; every answer that is good is kept, whatever the others do."""
        step = question.answer
        paths = {party: self.folder / "messages" / f"{party}.{step}" for party in self.roster}
        here = self._told(question) if isinstance(question, Result) else self._here(paths, question)
        for party in here:
            self.status.party(party, step, "here")
        missing = [party for party in self.roster if party not in here]
        if missing:
            self._fetch(question, missing, paths)
        return Answers(paths)

    def _told(self, result: Result) -> set[str]:
        """Parties that have this very result."""
        records = storage.read_records(self.folder / LEDGER)
        told = [r for r in records if r["event"] == "told" and r["sha256"] == _fingerprint(result)]
        return {str(record["party"]) for record in told} - self.again

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
        return found

    def _fetch(self, question: Question, missing: Sequence[str], paths: Mapping[str, Path]) -> None:
        request = Request(self.run, question)
        lock, waiting, failed = threading.Lock(), set(missing), dict[str, str]()
        self._record("asked", number=request.number, question=type(question).__name__, parties=list(missing))
        for party in missing:
            self.status.party(party, question.answer, "asked")

        def arrived(party: str, brought: bytes | Failure) -> None:
            with lock:
                if party not in waiting:
                    self._record("turned away", party=party, reason="it was not asked, or has answered already")
                    return
                waiting.discard(party)
                reason = self._accept(party, brought, request, paths[party])
                if reason:
                    failed[party] = reason
                    self._record("no answer", party=party, number=request.number, reason=reason)
                self.status.party(party, question.answer, "failed" if reason else "answered", reason)

        self.transport.carry(encode_request(request), missing, self.seconds, arrived)
        with lock:
            for party in sorted(waiting):
                failed[party] = f"no answer within {self.seconds:g} s"
                self._record("no answer", party=party, number=request.number, reason=failed[party])
                self.status.party(party, question.answer, "failed", failed[party])
            waiting.clear()
        if failed:
            batch = f" of batch {question.batch!r}" if question.batch else ""
            raise NoAnswerError(
                f"no {question.answer}{batch} from {sorted(failed)} ({_by_reason(failed)}); "
                "what the others sent is kept, repeat the command to ask only these again"
            )

    def _accept(self, party: str, brought: bytes | Failure, request: Request, path: Path) -> str:
        """Keep an answer; return why not, if so."""
        if isinstance(brought, Failure):
            return brought.reason
        try:
            answer = decode_answer(brought)
            if answer.code == "ok" and answer.number != request.number:
                raise WireError("it answers another request than the one that is open: an old message, sent again")
            if answer.code != "ok":
                return answer.reason if answer.reason.startswith(answer.code) else f"{answer.code}: {answer.reason}"
            if isinstance(request.question, Result):
                self._record("told", party=party, number=request.number, sha256=_fingerprint(request.question))
            else:
                self._keep(party, answer, request, path)
        except DKPCAError as error:
            return f"its answer is turned away: {error}"
        except Exception as error:  # whatever a party sends, the question is still open for it
            log.exception("the answer of %s", party)
            return f"its answer is turned away: it cannot be read ({type(error).__name__})"
        return ""

    def _keep(self, party: str, answer: Answer, request: Request, path: Path) -> None:
        message = message_files.decode(Path(path.name), answer.message, *KINDS[type(request.question)])
        self._check(message, party, request.question)
        if not path.exists() or storage.read(path) != answer.message:
            storage.write(path, answer.message)
        checksum = hashlib.sha256(answer.message).hexdigest()
        told = {"file": path.name, "bytes": len(answer.message), "sha256": checksum}
        self._record("received", party=party, number=request.number, **told)

    def _check(self, message: Any, party: str, question: Question) -> None:
        check(message, party, question)
        if party in self.extending and getattr(message, "summary_id", "") not in ("", self.extending[party]):
            raise WireError("its new samples extend another summary than the one that was fused")

    def _record(self, event: str, **facts: Any) -> None:
        storage.append_record(self.folder / LEDGER, {"event": event, **facts})


def _by_reason(failed: Mapping[str, str]) -> str:
    """Each reason once, after the parties it holds for."""
    reasons = dict.fromkeys(failed[party] for party in sorted(failed))
    return "; ".join(f"{', '.join(p for p in sorted(failed) if failed[p] == why)}: {why}" for why in reasons)


def _fingerprint(result: Result) -> str:
    return hashlib.sha256(wire.encode(result.scores)).hexdigest()


def check(message: Message, party: str, question: Question) -> None:
    """Raise `WireError` unless the message is from this party and answers this question."""
    if getattr(message, "party", party) != party:
        raise WireError(f"the message calls its sender {message.party!r}, its certificate {party!r}")  # type: ignore[union-attr]
    if isinstance(message, Summary) and isinstance(question, SummaryWanted):
        most = question.rank.stated() or message.rank
        if not question.asks_for(party, message.kernel):
            raise WireError(f"its kernel is {message.kernel}, not {question.kernel_of(party)}")
        if message.factor.precision != question.precision:
            raise WireError(f"its numbers are {message.factor.precision}, not {question.precision}")
        if message.rank > most:
            raise WireError(f"its rank is {message.rank}, more than the {most} asked for")
    if question.common is not None and isinstance(message, Summary | Rows | Partials):
        common = messages.digest(alignment.names(question.common))
        if message.sample_digest != common:
            raise WireError("it is not about the common samples in their order")
    if isinstance(question, RowsWanted) and isinstance(message, Partials) != question.exact:
        raise WireError("it places new samples in another way than was asked for")
