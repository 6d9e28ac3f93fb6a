"""Every request of a party and of the operator, answered with anything by a center that has its own valid keys."""

import asyncio
import contextlib
import hashlib
import json
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dkpca.errors import DKPCAError
from dkpca.network import protocol as p
from dkpca.network import submit
from dkpca.network.client import Client
from dkpca.network.events import Events
from dkpca.network.jobs import FitWanted
from dkpca.network.polling import Party, Worker
from dkpca.store import ledger
from testkit.by_hand import FIT
from testkit.raw import HOST, Listener, page

pytestmark = pytest.mark.network

MARKER = "Zaphod-Beeblebrox"
ATTACHED = b"no message at all"

WORDS = st.text(st.characters(min_codepoint=0, max_codepoint=255, exclude_characters="\r\n"), max_size=20)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.just(MARKER) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=6,
)
STATUS = st.sampled_from(
    [99, 100, 101, 200, 201, 204, 206, 301, 302, 304, 401, 407, 409, 410, 413, 429, 500, 503, 999, "x"]
)
HEADERS = st.dictionaries(
    st.sampled_from(
        ["Content-Length", "Transfer-Encoding", "Content-Encoding", "Set-Cookie", "Location", "Connection", "Upgrade"]
    )
    | WORDS,
    WORDS | st.sampled_from(["5", "-1", "9" * 30, "chunked", "gzip", MARKER, f"https://{HOST}:1/{MARKER}"]),
    max_size=4,
)
FIELDS = [
    "questions",
    "open",
    "revocations",
    "offset",
    "accepted",
    "reason",
    "number",
    "run",
    "job",
    "state",
    "parties",
]


@st.composite
def replies(draw) -> bytes:
    """Bytes of one reply: mostly HTTP in due form with a body that is JSON, sometimes neither."""
    kind = draw(st.sampled_from(["object", "object", "object", "http", "bytes"]))
    if kind == "bytes":
        return draw(st.binary(max_size=300))
    if kind == "object":
        value = draw(VALUES | st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=6))
        return page(json.dumps(value).encode(), f"{draw(STATUS)} OK")
    lines = [f"{draw(st.sampled_from(['HTTP/1.1', 'HTTP/1.0', 'HTTP/2', 'x']))} {draw(STATUS)} {draw(WORDS)}"]
    lines += [f"{key}: {value}" for key, value in draw(HEADERS).items()]
    return "\r\n".join(lines).encode("latin1") + b"\r\n\r\n" + draw(st.binary(max_size=100))


@dataclass
class Dishonest:
    """Answers the first request of one kind with what a test says, everything else in due form."""

    kind: str = ""
    reply: bytes = b""
    spent: bool = True
    numbers: tuple[str, ...] = ()
    seen: list[str] = field(default_factory=list)

    def set(self, kind: str, reply: bytes, number: int) -> None:
        self.kind, self.reply, self.spent, self.seen = kind, reply, False, []
        self.numbers = (f"{2 * number:032x}", f"{2 * number + 1:032x}")

    def __call__(self, request: bytes):
        method, path = request.decode("latin1").split()[:2]
        kind = kind_of(method, path)
        self.seen.append(kind)
        if kind == self.kind and not self.spent:
            self.spent = True
            return [self.reply]  # then the connection ends
        if (kind, self.kind, self.spent) == ("answer", "offset", False):
            return page(b"{}", "409 Conflict")
        return page(json.dumps(self._honest(kind)).encode()) if kind != "attached" else page(ATTACHED)

    def _honest(self, kind: str) -> object:
        plain = {"number": self.numbers[0], "run": "first", "question": {"kind": "StatisticsWanted"}}
        with_message = plain | {"number": self.numbers[1]}
        digest = hashlib.sha256(ATTACHED).hexdigest()
        questions = [
            plain | {"attached": 0, "sha256": ""},
            with_message | {"attached": len(ATTACHED), "sha256": digest},
        ]
        listed = int(self.kind == "revocations" and not self.spent)
        return {
            "questions": {"questions": questions, "open": list(self.numbers), "revocations": listed},
            "offset": {"offset": 0},
            "answer": {"accepted": True, "reason": ""},
            "submit": {"job": "1"},
            "run": {"job": "1", "state": "finished", "reason": "", "parties": {}},
            "runs": {"connected": [], "parties": [], "runs": {}},
        }.get(kind, {})


def kind_of(method: str, path: str) -> str:
    """Which of the requests one is."""
    if path.startswith(p.QUESTIONS):
        return "attached" if path.endswith("/attached") else "questions"
    if path.startswith(p.ANSWERS):
        return {"GET": "offset", "PUT": "answer", "POST": "notice"}[method]
    if path.startswith(p.RUNS):
        return "submit" if method == "POST" else "runs" if path == p.RUNS else "run"
    return "revocations"


@dataclass
class Attacked:
    """A party with its real worker, and the center it talks to."""

    party: Party
    listener: Listener
    center: Dishonest
    runner: asyncio.Runner
    count: int = 0

    async def _poll(self) -> None:
        for _ in range(2):
            with contextlib.suppress(DKPCAError):  # what the loop of a party takes for a center that is lost
                await self.party.poll()
            ends = await asyncio.gather(*self.party.held.values(), return_exceptions=True)
            assert not [end for end in ends if end is not None], ends

    def withstand(self, kind: str, reply: bytes) -> None:
        self.count += 1
        self.center.set(kind, reply, self.count)
        self.runner.run(self._poll())


@pytest.fixture(scope="module")
def attacked(quiet):
    folder, center = quiet.path / "bank", Dishonest()

    async def begin() -> Party:
        client = Client(HOST, quiet.port, folder / "tls")
        return Party(folder, client, Events(folder, "bank"), Worker(folder, "bank"), rate=p.Rate(10**6, 1.0))

    async def end(party: Party) -> None:
        await party.worker.end()
        await party.client.close()
        party.events.close()

    with Listener(quiet.path / "center" / "tls", quiet.port, center) as listener, asyncio.Runner() as runner:
        party = runner.run(begin())
        try:
            yield Attacked(party, listener, center, runner)
        finally:
            runner.run(end(party))


KINDS = ("questions", "revocations", "attached", "offset", "answer", "notice")


@settings(max_examples=120, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(KINDS), replies())
def test_whatever_a_center_replies_to_any_request_a_party_goes_on_and_gives_nothing_away(attacked, kind, reply):
    """No exception that was not foreseen, no file of another name, nothing repeated to the center."""
    attacked.withstand(kind, reply)
    assert attacked.party.held == {}


def test_after_all_that_the_party_answers_and_has_written_nothing_else(attacked, quiet):
    """Each kind of request was made, and answered with something that it should not be, at least once."""
    for kind in KINDS:
        attacked.withstand(kind, b"")
        assert kind in attacked.center.seen
    folder, requests = quiet.path / "bank", attacked.listener.requests
    assert not [request for request in requests if MARKER.encode() in request]
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text().splitlines()]
    assert not [event for event in events if event["event"] == "error"]
    book = ledger.records(folder / ledger.NAME)
    ledger.verify(folder / ledger.NAME)
    assert [record for record in book if record["event"] == "sent" and record["outcome"] == "accepted"]
    written = {path.name for path in (folder / "runs").rglob("*") if path.is_file()}
    assert written == {"bank.statistics", "answered.json"}
    assert not list(folder.glob("*.part"))


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(["submit", "run", "runs"]), replies())
def test_whatever_a_center_replies_to_the_operator_is_an_answer_or_one_sentence(attacked, quiet, kind, reply):
    job = FitWanted(run="first", fit=FIT)
    attacked.center.set(kind, reply, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(submit, "FIRST_LOOK", 0.0)
        patch.setattr(submit, "PATIENCE", 0.0)
        with contextlib.suppress(DKPCAError):
            submit.follow(quiet.consortium, job, submit.submit(quiet.consortium, job), told=lambda _: None)
        with contextlib.suppress(DKPCAError):
            assert "connected" in submit.status(quiet.consortium)
