"""A party with its own valid keys, or somebody without, against the center: what it sends costs nobody else anything.

The center runs in this process, so that what it writes and allocates can be looked at; the caller speaks raw TLS.
"""

import contextlib
import hashlib
import json
import shutil
import socket
import ssl
import time
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dkpca.network import membership as members
from dkpca.network import protocol as p
from dkpca.network import receiving, serving, tls
from dkpca.network import x509 as pki
from dkpca.network.jobs import FitWanted
from dkpca.network.server import NOTED_PER_MINUTE
from dkpca.network.submit import submit
from dkpca.store import ledger
from testkit.by_hand import FIT
from testkit.federation import center_in_this_process, wait_for
from testkit.owners import OWNERS
from testkit.raw import HOST, Caller

pytestmark = pytest.mark.network

MARKER = "Zaphod-Beeblebrox"


@pytest.fixture(scope="module")
def center(quiet):
    with pytest.MonkeyPatch.context() as patch, center_in_this_process(quiet):
        patch.setattr(p, "POLL_SECONDS", 0.05)
        yield quiet


def caller(center, name="shop", **options) -> Caller:
    folder = center.path / "center" / "operator" if name == "operator" else center.path / name / "tls"
    return Caller(folder, center.port, **options)


def alive(center) -> None:
    """The center still does its work for the others."""
    with caller(center, "clinic") as honest:
        assert honest.ask("GET", p.HEALTH)[0] == 200


def poll(party: Caller) -> list[dict]:
    status, body = party.ask("GET", f"{p.QUESTIONS}?known=&revocations=1")
    assert status == 200
    return json.loads(body)["questions"]


def mine(party: Caller, run: str) -> list[dict]:
    return [question for question in poll(party) if question["run"] == run]


@pytest.fixture
def asked(center, request):
    """A question that is open for all parties; yields its numbers, and the run's folder."""
    run = f"run-{time.monotonic_ns()}"
    job = FitWanted(run=run, fit=FIT, timeout=120.0, join_timeout=120.0)
    submit(center.consortium, job)
    numbers = {}
    for party in OWNERS:
        with caller(center, party) as polling:
            wait_for(lambda polling=polling: mine(polling, run), "question")  # type: ignore[misc]
            numbers[party] = mine(polling, run)[0]["number"]
    yield numbers, center.runs / run
    for party, number in numbers.items():  # ends the run
        with caller(center, party) as ending:
            notice = b'{"code": "refused", "reason": "enough"}'
            ending.ask("POST", f"{p.ANSWERS}/{number}/notice", notice)
    wait_for(lambda: json.loads((center.runs / run / "exchange.json").read_text())["state"] == "failed", "end of run")


def put(number, size, digest="0" * 64, offset=0) -> str:
    return f"{p.ANSWERS}/{number}?offset={offset}&size={size}&sha256={digest}&ledger={'0' * 64}"


def refused_handshake(context, port) -> bool:
    """Whether TLS ends without an answer."""
    try:
        with (
            socket.create_connection((HOST, port), timeout=10) as plain,
            context.wrap_socket(plain, server_hostname=HOST) as secure,
        ):
            secure.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            return secure.recv(100) == b""
    except (ssl.SSLError, ConnectionError):
        return True


def test_who_has_no_certificate_of_this_consortium_is_refused_by_tls(center, federate):
    foreign = federate(["shop"], "foreign")
    plain = ssl.create_default_context(cafile=center.path / "center" / "tls" / "ca.crt")
    other = tls.client_context(center.path / "shop" / "tls")
    other.load_cert_chain(foreign.path / "shop" / "tls" / "own.crt", foreign.path / "shop" / "tls" / "own.key")
    server = tls.client_context(center.path / "shop" / "tls")
    folder = center.path / "center" / "tls"
    server.load_cert_chain(folder / "own.crt", folder / "own.key")  # for a server, not for a client
    old = tls.client_context(center.path / "shop" / "tls")
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    good = tls.client_context(center.path / "shop" / "tls")
    assert not refused_handshake(good, center.port)
    assert all(refused_handshake(context, center.port) for context in (plain, other, server, old))


def test_a_name_that_is_not_on_the_roster_is_refused(center, tmp_path):
    authority = members._ca(center.path / "center" / "ca")
    key = pki.new_key()
    (tmp_path / "tls").mkdir()
    stranger = pki.sign(authority, "stranger", key.public_key(), purpose=pki.CLIENT, days=1)
    members._write_tls(tmp_path / "tls", key, stranger, authority[1])
    with Caller(tmp_path / "tls", center.port) as spy:
        assert spy.ask("GET", f"{p.QUESTIONS}?revocations=1")[0] == 403


def test_a_certificate_that_expires_while_the_connection_is_open_is_refused(center, monkeypatch):
    with caller(center) as party:
        assert party.ask("GET", p.HEALTH)[0] == 200
        now = time.time()
        monkeypatch.setattr(time, "time", lambda: now + 91 * 86400)
        assert party.ask("GET", p.HEALTH)[0] == 403
        monkeypatch.undo()
    alive(center)


def test_a_party_reaches_nothing_that_is_the_operators_or_anothers(center, asked):
    numbers, _ = asked
    for path in ("/", p.RUNS, f"{p.RUNS}/first", "/runs/first/report"):
        with caller(center) as party:
            assert party.ask("GET", path)[0] == 403
    with caller(center) as party:
        assert party.ask("POST", p.RUNS, b"{}")[0] == 403
    with caller(center) as party:
        other = numbers["bank"]
        assert party.ask("GET", f"{p.QUESTIONS}/{other}/attached")[0] == 404
        assert party.ask("GET", f"{p.ANSWERS}/{other}")[0] == 404
        assert party.ask("POST", f"{p.ANSWERS}/{other}/notice", b'{"code": "refused", "reason": ""}')[0] == 404
        assert party.ask("PUT", put(other, 4), b"evil")[0] == 404
    with caller(center, "operator") as operator:
        assert operator.ask("PUT", put(other, 4), b"evil")[0] == 403


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/runs/..%2f..%2fetc/report", "/v1/answers/..%2f..%2fx", "/%00"]
)
def test_a_path_in_a_route_is_nothing(center, path):
    for name in ("shop", "operator"):
        with caller(center, name) as party:
            status, body = party.ask("GET", path)
            assert status in (0, 400, 403, 404)
            assert b"root:" not in body


def test_an_answer_larger_than_possible_is_refused_before_a_byte_of_it_is_taken(center, asked):
    numbers, folder = asked
    with caller(center) as party:
        status, body = party.ask("PUT", put(numbers["shop"], 10**12), b"", Content_Length=str(10**12))
        assert status == 413
        assert b"at most" in body
    assert not list((folder / "messages").iterdir())
    assert "more than the" in json.loads((folder / "exchange.json").read_text())["parties"]["shop"]["reason"]
    alive(center)


def test_a_large_size_that_is_only_claimed_takes_neither_memory_nor_disk(center, asked):
    """Seven of a gigabyte at once; under NVFlare these were 8.6 GB of memory."""
    numbers, folder = asked
    tracemalloc.start()
    with contextlib.ExitStack() as held:
        parties = [held.enter_context(caller(center)) for _ in range(7)]
        for place, party in enumerate(parties):
            head = f"PUT {put(numbers['shop'], 10**9)} HTTP/1.1\r\nHost: x\r\nContent-Length: {10**9}\r\n\r\n"
            party.send(head.encode() + b"tiny chunk")
            if place == 0:
                wait_for(lambda: list((folder / "messages").iterdir()), "the first being received")
        refused = [party.reply()[0] for party in parties[1:]]
        alive(center)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert refused == [409] * 6
        assert peak < 20_000_000
        assert sum(path.stat().st_blocks for path in (folder / "messages").iterdir()) * 512 <= 2**16


@pytest.mark.parametrize(
    ("claimed", "length", "body"),
    [(100, "100000", b"x" * 100), (100, "50", b"x" * 50), (100, "-1", b""), (100, "1e3", b""), (0, "0", b"")],
)
def test_a_length_that_lies_is_refused(center, asked, claimed, length, body):
    numbers, folder = asked
    with caller(center) as party:
        assert party.ask("PUT", put(numbers["shop"], claimed), body, Content_Length=length)[0] in (0, 400, 422)
    assert not [path for path in (folder / "messages").iterdir() if path.stat().st_size > claimed]
    alive(center)


@pytest.mark.parametrize(
    "headers",
    [
        {"Transfer_Encoding": "chunked"},
        {"Content_Encoding": "gzip", "Content_Length": "5"},
        {"Expect": "100-continue", "Content_Length": "5"},
        {"Upgrade": "websocket", "Connection": "Upgrade", "Content_Length": "5"},
        {"Cookie": "a=b", "Content_Length": "5"},
    ],
)
def test_what_http_has_and_this_protocol_has_not_is_refused(center, asked, headers):
    numbers, folder = asked
    with caller(center) as party:
        body = b"5\r\nhello\r\n0\r\n\r\n" if "Transfer_Encoding" in headers else b"hello"
        assert party.ask("PUT", put(numbers["shop"], 5), body, **headers)[0] in (0, 400, 417)
    assert not list((folder / "messages").iterdir())


def test_an_answer_comes_in_pieces_goes_on_after_a_break_and_is_checked(center, asked):
    numbers, folder = asked
    data = bytes(range(256)) * 16
    digest = hashlib.sha256(data).hexdigest()
    with caller(center) as party:
        party.send(
            f"PUT {put(numbers['shop'], 4096, digest)} HTTP/1.1\r\nHost: x\r\nContent-Length: 4096\r\n\r\n".encode()
        )
        party.send(data[:1500])
    with caller(center) as party:  # the connection broke; how much is here depends on what had been written

        def offset() -> int:
            return int(json.loads(party.ask("GET", f"{p.ANSWERS}/{numbers['shop']}")[1])["offset"])

        wait_for(lambda: party.ask("PUT", put(numbers["shop"], 4096, digest, 4000), data[4000:])[0] == 409, "release")
        here = offset()
        assert 0 <= here <= 1500
        assert party.ask("PUT", put(numbers["shop"], 4096, digest, 4000), data[4000:])[0] == 409
        status, body = party.ask("PUT", put(numbers["shop"], 4096, digest, here), data[here:])
    assert status == 200
    assert json.loads(body)["accepted"] is False  # whole, but no message
    assert "turned away" in json.loads(body)["reason"]
    assert not list((folder / "messages").iterdir())


def test_what_has_another_digest_than_announced_is_thrown_away(center, asked):
    numbers, folder = asked
    with caller(center) as party:
        status, _ = party.ask("PUT", put(numbers["shop"], 4, "1" * 64), b"evil")
        assert status == 422
        assert json.loads(party.ask("GET", f"{p.ANSWERS}/{numbers['shop']}")[1]) == {"offset": 0}
    assert not list((folder / "messages").iterdir())


def test_a_party_that_sends_nothing_more_is_given_up(center, asked, monkeypatch):
    numbers, _ = asked
    monkeypatch.setattr(receiving, "STALLED", 0.1)
    with caller(center) as party:
        assert party.ask("PUT", put(numbers["shop"], 100), b"x", Content_Length="100")[0] in (0, 408)
    alive(center)


def test_a_full_disk_at_the_center_is_said_and_the_question_ends(center, asked, monkeypatch):
    numbers, folder = asked
    usage = shutil.disk_usage(folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1000))
    with caller(center) as party:
        status, body = party.ask("PUT", put(numbers["shop"], 4), b"good")
    assert status == 507
    assert b"disk is full" in body
    assert "disk is full" in json.loads((folder / "exchange.json").read_text())["parties"]["shop"]["reason"]


def test_what_a_party_says_cannot_command_a_terminal_or_begin_a_line(center, asked):
    numbers, folder = asked
    reason = 'a\x1b]0;pwned\x07\nb\u2028{"event": "x"}'
    with caller(center) as party:
        notice = json.dumps({"code": "no\x1b[31m", "reason": reason}).encode()
        assert party.ask("POST", f"{p.ANSWERS}/{numbers['shop']}/notice", notice)[0] == 200
    told = json.loads((folder / "exchange.json").read_text())["parties"]["shop"]["reason"]
    assert told.startswith("no?[31m: a?]0;pwned? b")
    for file in (folder / "ledger.jsonl", center.path / "center" / "events.jsonl"):
        assert all(json.loads(line) for line in file.read_text().splitlines())
        assert "\x1b" not in file.read_text()


@pytest.mark.parametrize(
    "notice",
    [b"", b"[]", b'{"code": 1, "reason": ""}', b'{"code": "ok"}', b"{" * 4000, b'{"code": "ok", "reason": NaN}'],
)
def test_a_notice_that_is_none_is_refused_and_the_question_stays_open(center, asked, notice):
    numbers, _ = asked
    with caller(center) as party:
        assert party.ask("POST", f"{p.ANSWERS}/{numbers['shop']}/notice", notice)[0] == 400
        assert party.ask("GET", f"{p.ANSWERS}/{numbers['shop']}")[0] == 200


def test_large_notices_and_jobs_are_refused_by_their_length(center, asked):
    numbers, _ = asked
    with caller(center) as party:
        path = f"{p.ANSWERS}/{numbers['shop']}/notice"
        assert party.ask("POST", path, b"", Content_Length=str(10**9))[0] == 413
    with caller(center, "operator") as operator:
        assert operator.ask("POST", p.RUNS, b"", Content_Length=str(10**9))[0] == 413


def test_requests_and_connections_without_end_are_limited_and_the_others_go_on(center):
    many, answers = 20 * p.REQUESTS_PER_SECOND, b""
    with caller(center) as party:
        party.send(f"GET {p.HEALTH} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * many)
        while answers.count(b"HTTP/1.1 ") < many and (more := party.socket.recv(2**16)):
            answers += more
    assert b"HTTP/1.1 429" in answers
    alive(center)
    noted = [json.loads(line) for line in (center.path / "center" / "events.jsonl").read_text().splitlines()]
    assert sum(event.get("status") == 429 for event in noted) <= NOTED_PER_MINUTE + 1
    held: list[Caller] = []
    with contextlib.suppress(OSError, ssl.SSLError):
        while len(held) < serving.MOST_PER_NAME + 5:
            held += [caller(center)]
    open_ones = 0
    for one in held:
        one.socket.settimeout(0.05)
        try:
            open_ones += one.socket.recv(1) != b""
        except TimeoutError:
            open_ones += 1
        except (OSError, ssl.SSLError):
            continue
    assert 0 < open_ones <= serving.MOST_PER_NAME
    alive(center)
    for one in held:
        one.socket.close()


def test_requests_without_end_behind_one_that_waits_take_no_memory(center, monkeypatch):
    """Sent on one connection, before the first of them is answered; the center stops reading."""
    monkeypatch.setattr(p, "POLL_SECONDS", 600.0)
    with caller(center) as party:
        _, body = party.ask("GET", f"{p.QUESTIONS}?known=&revocations=0")
        known = json.loads(body)["revocations"]
        party.send(f"GET {p.QUESTIONS}?known=&revocations={known} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        party.socket.settimeout(1.0)  # so long nothing more is taken
        tracemalloc.start()
        requests = f"GET {p.HEALTH} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 20_000
        with contextlib.suppress(TimeoutError):
            for _ in range(100):
                party.send(requests)
            pytest.fail("the center reads on")
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 20_000_000
    alive(center)


def test_two_submits_at_once_are_one_run_and_other_settings_are_refused(center, asked):
    _, folder = asked
    told = json.loads((folder / "job.json").read_text())
    body = json.dumps(told["job"]).encode()
    other = json.dumps(told["job"] | {"timeout": 77.0}).encode()
    with caller(center, "operator") as operator:
        answers = [operator.ask("POST", p.RUNS, body) for _ in range(2)]
        assert [status for status, _ in answers] == [202, 202]
        assert {json.loads(data)["job"] for _, data in answers} == {told["number"]}
        status, data = operator.ask("POST", p.RUNS, other)
        assert status == 409
        assert b"another command about it is at work" in data


@pytest.mark.parametrize(
    "job",
    [
        b"{}",
        b'{"what": "popen", "run": "x"}',
        b'{"what": "fit", "run": "../x", "fit": {}}',
        b'{"what": "projection", "run": "first", "batches": ["../../etc/passwd"]}',
        b'{"what": "projection", "run": "nowhere", "batches": ["spring"]}',
    ],
)
def test_a_job_that_is_none_is_refused_even_from_the_operator(center, job):
    with caller(center, "operator") as operator:
        status, body = operator.ask("POST", p.RUNS, job)
    assert status in (400, 409)
    assert json.loads(body)["reason"]


ROUTES = [
    p.QUESTIONS,
    f"{p.QUESTIONS}/NUMBER/attached",
    f"{p.ANSWERS}/NUMBER",
    f"{p.ANSWERS}/NUMBER/notice",
    p.REVOCATIONS,
    p.RUNS,
    f"{p.RUNS}/first",
    p.HEALTH,
    p.METRICS,
    "/",
    "/runs/first/report",
]
METHODS = ["GET", "PUT", "POST", "HEAD", "DELETE", "OPTIONS", "TRACE", "CONNECT", "BREW", "G\x00T", ""]
TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=255), max_size=30)
QUERY = st.dictionaries(
    st.sampled_from(["known", "revocations", "wait", "offset", "size", "sha256", "ledger"]), TEXT, max_size=4
)
HEADERS = st.dictionaries(
    st.sampled_from(["Content-Length", "Transfer-Encoding", "Host", "Range", "Connection", "X\x1b", "Cookie"]) | TEXT,
    TEXT | st.just("chunked") | st.just("5") | st.just(MARKER),
    max_size=4,
)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(METHODS),
    st.sampled_from(ROUTES),
    QUERY,
    HEADERS,
    st.binary(max_size=200) | st.just(b'{"code": "ok", "reason": "x"}'),
    st.sampled_from(["HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "HTTP/9", "x"]),
    st.sampled_from(["shop", "operator"]),
)
def test_every_route_withstands_whatever_is_sent(center, method, route, query, headers, body, version, who):
    """No answer of ours repeats what was sent, is a success that it should not be, or ends the center."""
    path = route.replace("NUMBER", "0" * 32) + "?" + "&".join(f"{key}={value}" for key, value in query.items())
    lines = [f"{method} {path} {version}", "Host: x", *(f"{key}: {value}" for key, value in headers.items())]
    before = sorted(path.name for path in center.runs.iterdir())
    with caller(center, who, timeout=0.5) as party, contextlib.suppress(OSError, ssl.SSLError, TimeoutError):
        party.send("\r\n".join(lines).encode("latin1") + b"\r\n\r\n" + body)
        status, told = party.reply()
        assert status < 500
        assert MARKER.encode() not in told
        if status == 200:
            assert method in ("GET", "HEAD")
    assert sorted(path.name for path in center.runs.iterdir()) == before


def test_methods_that_nobody_knows_do_not_make_the_metrics_grow(center):
    for number in range(5):
        with caller(center) as party:
            party.ask(f"BREW{number}", "/")
    with caller(center, "clinic") as honest:
        _, text = honest.ask("GET", p.METRICS)
    assert b'method="other"' in text
    assert b"BREW" not in text


def test_after_all_that_the_center_works_and_has_not_grown(center, asked):
    """Sixty megabytes of headers and bodies that nobody asked for leave nothing in memory."""
    numbers, _ = asked
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for _ in range(10):
        with caller(center) as party, contextlib.suppress(OSError, ssl.SSLError):
            party.send(b"PUT " + put(numbers["shop"], 5).encode() + b" HTTP/1.1\r\nHost: x\r\n")
            for number in range(1000):
                party.send(f"X-{number}: {'y' * 6000}\r\n".encode())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - before < 30_000_000
    alive(center)


def test_a_revoked_party_is_turned_away_on_its_open_connection_and_can_be_admitted_again(center):
    with caller(center) as party:
        assert party.ask("GET", p.HEALTH)[0] == 200
        count, number = members.revoke(center.consortium, "shop")
        assert (count, number) == (1, 2)
        status, body = party.ask("GET", p.HEALTH)
        assert status == 403
        assert b"was revoked" in body
    with caller(center, "bank") as other:
        _, body = other.ask("GET", f"{p.QUESTIONS}?known=&revocations=1")
        assert json.loads(body)["revocations"] == 2
        status, listed = other.ask("GET", p.REVOCATIONS)
        ca = pki.from_pem((center.path / "bank" / "tls" / "ca.crt").read_bytes(), "")
        assert pki.read_revocations(listed, ca, "")[0] == 2
    members.renew(members.membership(center.path / "shop"))
    center.admit("shop")
    with caller(center) as party:
        assert party.ask("GET", p.HEALTH)[0] == 200


def test_a_poll_that_waits_is_ended_when_its_certificate_is_revoked(center, monkeypatch):
    """Else the question that comes next would still be told to whoever was thrown out."""
    monkeypatch.setattr(p, "POLL_SECONDS", 600.0)
    _, authority = members._ca(center.path / "center" / "ca")
    known, _ = members.revocations(center.path / "center", authority)
    with caller(center, timeout=60.0) as party, caller(center, "bank", timeout=60.0) as other:
        for one in (party, other):
            one.send(f"GET {p.QUESTIONS}?known=&revocations={known} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        for _ in range(2):  # what came before them waits by then
            alive(center)
        members.revoke(center.consortium, "shop")
        status, body = party.reply()
        assert (status, b"was revoked" in body) == (403, True)
        status, body = other.reply()
        assert (status, json.loads(body)["revocations"]) == (200, known + 1)
    members.renew(members.membership(center.path / "shop"))
    center.admit("shop")


def test_the_ledger_of_every_run_holds_together(center, asked):
    for file in center.runs.glob("*/ledger.jsonl"):
        ledger.verify(file)
