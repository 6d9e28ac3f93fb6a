"""A center with its own valid keys that says what it should not: a party does nothing but what its policy allows.

Each attack on the transport is also made on a careless twin, an HTTP client as it comes, where it must succeed.
"""

import asyncio
import contextlib
import gc
import gzip
import json
import socket
import threading
import time
import tracemalloc
import warnings
from urllib.parse import parse_qsl, urlsplit

import aiohttp
import pytest

from dkpca.errors import DKPCAError
from dkpca.network import approvals, polling, tls
from dkpca.network import membership as members
from dkpca.network import protocol as p
from dkpca.network import x509 as pki
from dkpca.network.client import Client, LostError
from dkpca.network.events import Events
from dkpca.network.polling import Party, Worker
from testkit.federation import wait_for
from testkit.raw import HOST, Listener, page

pytestmark = pytest.mark.network

NUMBER = "a" * 32
BOMB = gzip.compress(bytes(50_000_000), compresslevel=9)
ENDLESS = 60_000_000  # bytes, where a careless client is to come to an end


def reply(questions=(), numbers=(), revocations=0) -> bytes:
    return page(
        json.dumps({"questions": list(questions), "open": list(numbers), "revocations": revocations}).encode()
    )


def question(**changed):
    return {
        "number": NUMBER,
        "run": "first",
        "question": {"kind": "StatisticsWanted"},
        "attached": 0,
        "sha256": "",
    } | (changed)


def chunks(part=b"x" * 2**16, total=ENDLESS):
    yield b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    for _ in range(total // len(part)):
        yield part


def header_flood():
    yield b"HTTP/1.1 200 OK\r\n"
    for number in range(100_000):
        yield f"X-{number}: {'y' * 100}\r\n".encode()


@pytest.fixture
def victim(quiet):
    """The party's own parts, in this process; and what lies in its folder before and after."""
    folder = quiet.path / "bank"
    before = contents(folder)
    yield folder
    for name in ("events.jsonl", "revoked.crl", "dkpca-ledger.jsonl"):
        (folder / name).unlink(missing_ok=True)
    assert contents(folder) == before


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@contextlib.asynccontextmanager
async def party_at(quiet, victim, **more):
    events, worker = Events(victim, "bank"), Worker(victim, "bank")
    async with Client(HOST, quiet.port, victim / "tls") as client:
        try:
            yield Party(victim, client, events, worker, **more)
        finally:
            await worker.end()
            events.close()


def attack(quiet, victim, answer, polls=1):
    """Poll a center that gives this answer; return what the party said, what it was sent, and its peak memory."""

    async def poll():
        async with party_at(quiet, victim) as party:
            for _ in range(polls):
                await party.poll()
            await asyncio.gather(*party.held.values())
            return party

    tracemalloc.start()
    with Listener(quiet.path / "center" / "tls", quiet.port, answer) as center:
        try:
            said = asyncio.run(poll())
        except DKPCAError as error:
            said = error
        finally:
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
    return said, center, peak


async def careless(quiet, victim, **options) -> tuple[aiohttp.ClientResponse, bytes]:
    """The same request by a client as it comes."""
    connector = aiohttp.TCPConnector(ssl=tls.client_context(victim / "tls"))
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(connector=connector, cookie_jar=jar) as session:
        for _ in range(options.pop("polls", 1)):
            async with session.get(f"https://{HOST}:{quiet.port}{p.QUESTIONS}") as response:
                data = await response.read()
    return response, data


@contextlib.contextmanager
def elsewhere():
    """A server in plain text to which a center may try to send a party; yields a list of those who came."""
    came: list[bytes] = []

    def accept() -> None:
        while True:
            connection, _ = listening.accept()
            with connection:
                words = connection.recv(1000)
            if words == b"the end":
                return
            came.append(words)

    with socket.create_server((HOST, 0)) as listening:
        thread = threading.Thread(target=accept)
        thread.start()
        port = listening.getsockname()[1]
        yield port, came
        with socket.create_connection((HOST, port)) as last:  # behind whoever came before
            last.sendall(b"the end")
        thread.join()


def test_a_redirect_is_not_followed(quiet, victim):
    with elsewhere() as (port, came):
        away = page(b"", "302 Found", Location=f"http://{HOST}:{port}/")
        said, _, _ = attack(quiet, victim, lambda _: away)
    assert isinstance(said, LostError)
    assert "302" in str(said)
    assert not came
    with elsewhere() as (port, came):
        away = page(b"", "302 Found", Location=f"http://{HOST}:{port}/")
        with (
            Listener(quiet.path / "center" / "tls", quiet.port, lambda _: away),
            contextlib.suppress(aiohttp.ClientError),
        ):
            asyncio.run(careless(quiet, victim))
    assert came


def test_a_cookie_is_neither_kept_nor_echoed(quiet, victim):
    """NVFlare echoed them, and its serializer opened the path in one."""
    sweet = reply().replace(b"Content-Length", b"Set-Cookie: path=/etc/passwd\r\nContent-Length")
    _, center, _ = attack(quiet, victim, lambda _: sweet, polls=3)
    assert len(center.requests) == 3
    assert not any(b"passwd" in request or b"Cookie" in request for request in center.requests)
    with Listener(quiet.path / "center" / "tls", quiet.port, lambda _: sweet) as center:
        asyncio.run(careless(quiet, victim, polls=2))
    assert b"passwd" in center.requests[-1]


def test_a_compressed_reply_is_not_unpacked(quiet, victim):
    bomb = page(BOMB, Content_Encoding="gzip")
    said, _, peak = attack(quiet, victim, lambda _: bomb)
    assert isinstance(said, DKPCAError)
    assert peak < 20_000_000
    with Listener(quiet.path / "center" / "tls", quiet.port, lambda _: bomb):
        _, data = asyncio.run(careless(quiet, victim))
    assert len(data) == 50_000_000


@pytest.mark.parametrize("how", ["no length", "large length", "chunked", "headers"])
def test_more_than_was_asked_for_is_cut_off_before_it_costs_memory(quiet, victim, how):
    def answer(_):
        if how == "large length":
            return [b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n", *([b"x" * 2**16] * 1000)]
        if how == "chunked":
            part = b"10000\r\n" + b"x" * 2**16 + b"\r\n"
            return [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *([part] * 1000), b"0\r\n\r\n"]
        return header_flood() if how == "headers" else chunks()

    said, center, peak = attack(quiet, victim, answer)
    assert isinstance(said, LostError)
    assert peak < 20_000_000
    assert center.sent < 10_000_000
    if how in ("no length", "chunked"):
        with Listener(quiet.path / "center" / "tls", quiet.port, answer):
            _, data = asyncio.run(careless(quiet, victim))
        assert len(data) > 50_000_000


@pytest.mark.parametrize(
    "answer",
    [
        b"\x80\x04.",
        b"GET / HTTP/1.1\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        [b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n{}"],
        page(b"[" * 100_000),
        page(b'{"questions": NaN}'),
        page(b'{"questions": [], "questions": [], "open": [], "revocations": 0}'),
        page(b'{"questions": [], "open": ["../../etc/passwd"], "revocations": 0}'),
        page(b'{"questions": {}, "open": [], "revocations": 0}'),
        page(b'{"questions": [], "open": [], "revocations": "0"}'),
        page(b'{"questions": [], "open": [], "revocations": 0, "path": "/etc/passwd"}'),
        reply([question(run="../../../etc/cron.d/x")]),
        reply([question(run="/etc/passwd")]),
        reply([question(number="../" * 8)]),
        reply([question(number="\x1b[31m" + "a" * 28)]),
        reply([question(attached=-1)]),
        reply([question(attached=10, sha256="x")]),
        reply([question(environment="HOME")]),
        reply([question()] * 17),
    ],
    ids=range(19),
)
def test_what_is_no_reply_of_a_center_is_not_acted_upon(quiet, victim, answer):
    said, _, _ = attack(quiet, victim, lambda _: answer)
    assert isinstance(said, DKPCAError)
    assert not (victim / "dkpca-ledger.jsonl").exists()


def test_a_question_about_a_class_a_path_or_a_large_message_is_refused_by_the_worker_and_noted(quiet, victim):
    """Five odd questions in one reply; the answers that leave are codes, and the ledger has all of them."""
    odd = [
        question(question={"kind": "subprocess.Popen", "args": ["id"]}),
        question(number="b" * 32, question={"kind": "StatisticsWanted", "path": "/etc/passwd"}),
        question(number="c" * 32, question={"kind": "RowsWanted", "batch": "../../bank"}),
        question(number="d" * 32, question={"kind": "Result"}, attached=10**12, sha256="0" * 64),
        question(number="e" * 32, question={"kind": "StatisticsWanted"}, attached=10**12, sha256="0" * 64),
    ]
    numbers = [each["number"] for each in odd]
    _, center, peak = attack(quiet, victim, lambda sent: page(b"{}") if b"/answers/" in sent else reply(odd, numbers))
    assert peak < 20_000_000
    notices = [request for request in center.requests if b"/notice" in request]
    assert len(notices) == 5
    assert not any(b"/attached" in request for request in center.requests)
    assert not any(b"root:" in request or str(victim).encode() in request for request in center.requests)
    ledger = (victim / "dkpca-ledger.jsonl").read_text()
    assert all(number in ledger for number in numbers)
    assert ledger.count("not answered") == 5


def upload(quiet, victim, offset) -> tuple[list[str], dict]:
    """Send 1,000 bytes to a center that says where to go on; return from where each time, and the line at the end."""
    message, asked = victim / "message", []
    message.write_bytes(b"m" * 1000)

    def answer(sent: bytes) -> bytes:
        if sent.startswith(b"GET"):
            return page(json.dumps({"offset": offset}).encode())
        asked.append(dict(parse_qsl(urlsplit(sent.split()[1].decode()).query))["offset"])
        done = asked[-1] == "1000" or len(asked) > 2
        return page(b'{"accepted": true, "reason": ""}' if done else b"{}", "200 OK" if done else "409 Conflict")

    async def send():
        async with party_at(quiet, victim) as party:
            await party._upload(p.Asked.from_dict(question()), message, 1000, "0" * 64)

    with Listener(quiet.path / "center" / "tls", quiet.port, answer):
        asyncio.run(send())
    message.unlink()
    book = [json.loads(line) for line in (victim / "dkpca-ledger.jsonl").read_text().splitlines()]
    assert [record["event"] for record in book] == ["sending", "sent"]
    assert book[1]["outcome"] == "accepted"
    return asked, book[1]


@pytest.mark.parametrize("offset", [-1, 1001, 10**15, "../../people.csv", True, None, [1]])
def test_an_offset_of_the_centers_choice_reads_nothing_but_the_message(quiet, victim, offset):
    """What is asked for beyond the message is sent from its beginning again, and the bytes that left are counted."""
    asked, sent = upload(quiet, victim, offset)
    assert asked == ["0", "0", "0"]
    assert sent["bytes_left"] == 3000


def test_a_center_that_died_with_all_of_an_answer_is_told_its_digest_and_takes_it(quiet, victim):
    asked, sent = upload(quiet, victim, 1000)
    assert asked == ["0", "1000"]
    assert sent["bytes_left"] == 1000


def revocation_reply(number, listed):
    return lambda sent: page(listed) if b"/v1/revocations" in sent else reply(revocations=number)


def test_a_revocation_list_is_taken_only_from_the_authority_and_never_an_older_one(quiet, victim):
    authority = members._ca(quiet.path / "center" / "ca")
    second = pki.to_pem(pki.new_revocations(authority, {1234}, 2))
    third = pki.to_pem(pki.new_revocations(authority, {1234, 5678}, 3))
    foreign_key, _ = pki.new_ca("dkpca")
    forged = pki.to_pem(pki.new_revocations((foreign_key, authority[1]), {1}, 9))
    for number, listed, words in (
        (9, forged, "was not signed by the CA"),
        (9, b"nonsense", "not a revocation list"),
        (9, second, "not the list 9 that it announces"),
    ):
        said, _, _ = attack(quiet, victim, revocation_reply(number, listed))
        assert words in str(said)
        assert not (victim / "revoked.crl").exists()
    said, _, _ = attack(quiet, victim, revocation_reply(3, third))
    assert said.revocations == 3

    async def again():
        async with party_at(quiet, victim, revocations=3) as party:
            await party.poll()

    asks = reply([question()], [NUMBER], 2)
    with (
        Listener(quiet.path / "center" / "tls", quiet.port, lambda _: asks),
        pytest.raises(LostError, match="revocation list 2, older than list 3"),
    ):
        asyncio.run(again())
    assert not (victim / "dkpca-ledger.jsonl").exists()


def test_a_center_whose_certificate_was_revoked_gets_nothing(quiet, victim):
    certificate = pki.from_pem((quiet.path / "center" / "tls" / "own.crt").read_bytes(), "")

    async def poll():
        async with Client(HOST, quiet.port, victim / "tls") as client:
            client.refuse(frozenset({certificate.serial_number}))
            await client.get(p.QUESTIONS)

    with (
        Listener(quiet.path / "center" / "tls", quiet.port, lambda _: reply()) as center,
        pytest.raises(LostError, match="expired or was revoked"),
    ):
        asyncio.run(poll())
    assert center.requests == []


def test_a_party_with_a_valid_certificate_cannot_play_the_center(quiet, victim):
    """Its certificate is for a client; that it is signed by the same authority does not help."""
    with Listener(quiet.path / "shop" / "tls", quiet.port, lambda _: reply()) as impostor:
        said, _, _ = said_of(quiet, victim)
    assert "another CA or host" in str(said)
    assert impostor.requests == []


def test_a_center_of_another_authority_is_refused(quiet, victim, federate):
    foreign = federate(["bank"], "foreign")
    with Listener(foreign.path / "center" / "tls", quiet.port, lambda _: reply()) as impostor:
        said, _, _ = said_of(quiet, victim)
    assert "another CA or host" in str(said)
    assert impostor.requests == []


def said_of(quiet, victim):
    async def poll():
        async with Client(HOST, quiet.port, victim / "tls") as client:
            await client.get(p.QUESTIONS)

    with pytest.raises(LostError) as caught:
        asyncio.run(poll())
    return caught.value, None, None


def test_a_silent_center_costs_a_party_one_request_at_a_time(quiet, victim, monkeypatch):
    monkeypatch.setattr(p, "POLL_SECONDS", -14.5)  # it gives up fifteen seconds after the poll should have ended

    def silent(_):
        time.sleep(1)
        return b""

    said, center, _ = attack(quiet, victim, silent)
    assert "does not answer in time" in str(said)
    wait_for(lambda: center.requests, "request being read")
    assert len(center.requests) == 1


@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"])
def test_a_client_leaves_no_connection_behind_whatever_the_center_does_with_its_end(quiet, victim, words):
    """A center that is silent after some words takes no part in the end of TLS; a closed client does not wait."""
    released = threading.Event()

    def silent(_):
        yield words
        released.wait(20)

    async def give_up():
        async with Client(HOST, quiet.port, victim / "tls") as client:
            with pytest.raises(LostError):
                await client.get(p.HEALTH, timeout=0.1)

    with Listener(quiet.path / "center" / "tls", quiet.port, silent):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            asyncio.run(give_up())
            gc.collect()
        released.set()
    assert [str(warning.message) for warning in caught] == []


def test_a_client_that_is_closed_while_its_party_works_is_a_center_that_was_lost(quiet, victim):
    """As when party.toml is changed: what was to be sent is tried again with the new client, not given up."""

    async def late():
        async with Client(HOST, quiet.port, victim / "tls") as client:
            pass
        with pytest.raises(LostError, match="was just changed"):
            await client.post(f"{p.ANSWERS}/{NUMBER}/notice", {"code": "waiting", "reason": ""})

    asyncio.run(late())


def test_an_error_that_nobody_expected_is_noted_said_to_the_center_and_ends_one_question(quiet, victim, monkeypatch):
    async def broken(self, do, asked, attached=b""):
        raise ZeroDivisionError("unforeseen")

    monkeypatch.setattr(Worker, "ask", broken)
    said, center, _ = attack(
        quiet, victim, lambda sent: page(b"{}") if b"/answers/" in sent else reply([question()], [NUMBER])
    )
    assert said.held == {}
    assert [request.split()[1] for request in center.requests][1:] == [f"{p.ANSWERS}/{NUMBER}/notice".encode()]
    assert "ZeroDivisionError('unforeseen')" in (victim / "events.jsonl").read_text()


def test_a_question_that_the_center_does_not_wait_for_any_more_does_not_wait_for_a_person(quiet, victim):
    """Or sixteen of them, left by a process that was killed, would have every later one refused."""
    approvals_of = victim / "approvals"
    approvals_of.mkdir()
    for number in (NUMBER, "b" * 32):
        (approvals_of / f"{number}.json").write_text('{"state": "waiting", "asked": "", "run": "first"}')
    attack(quiet, victim, lambda _: reply([], [NUMBER]))
    assert list(approvals.waiting(victim)) == [NUMBER]
    attack(quiet, victim, lambda _: reply([], []))
    assert approvals.waiting(victim) == {}
    approvals_of.rmdir()


class Spent(p.Rate):
    """Three questions, then none; whoever asks a second time after that has waited."""

    asked = 0

    def take(self) -> bool:
        self.asked += 1
        if self.asked == 5:
            raise LostError("it waited")
        return self.asked <= 3


def test_questions_without_end_are_taken_at_a_rate(quiet, victim, monkeypatch):
    """A new number each time: the party waits before it takes more, whatever the center does."""

    async def handle(self, asked):
        return None

    monkeypatch.setattr(Party, "_handle", handle)
    counter = iter(range(10**6))

    def answer(_):
        numbers = [f"{next(counter):032x}" for _ in range(2)]
        return reply([question(number=number) for number in numbers], numbers)

    async def poll():
        async with party_at(quiet, victim, rate=Spent(3, 60)) as party:
            await party.poll()
            party.held.clear()
            with pytest.raises(LostError, match="it waited"):
                await party.poll()
            return party

    with Listener(quiet.path / "center" / "tls", quiet.port, answer):
        party = asyncio.run(poll())
    assert len(party.held) == 1


def test_a_worker_that_is_ended_for_want_of_work_takes_no_question_with_it(victim, monkeypatch):
    monkeypatch.setattr(polling, "IDLE_SECONDS", -1.0)

    async def both():
        worker = Worker(victim, "bank")
        asked = p.Asked(NUMBER, "first", {"kind": "RowsWanted", "batch": "../x"})
        first = await worker.ask("answer", asked)
        before = worker.process
        ending, second = asyncio.create_task(worker.end_if_idle()), asyncio.create_task(worker.ask("answer", asked))
        answers = [first, (await asyncio.gather(ending, second))[1]]
        await worker.end()
        return answers, before

    answers, before = asyncio.run(both())
    assert [answer["code"] for answer in answers] == ["not understood", "not understood"]
    assert before.returncode is not None
