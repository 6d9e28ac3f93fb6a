"""The center's routes. A caller's name is that on its certificate; nothing sent becomes a path or a header."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from dkpca import wording
from dkpca.errors import DKPCAError, WireError
from dkpca.network import protocol as p
from dkpca.network import tls
from dkpca.network.center import Center
from dkpca.network.events import Events
from dkpca.network.membership import OPERATOR
from dkpca.network.pending import Pending, Waiting
from dkpca.network.receiving import STALLED, CutOffError, Piece, receive
from dkpca.network.remote import Delivered, Failure

LOOK_SECONDS = 1.0  # after which a poll that waits looks whether its certificate is still good
SEEN_SECONDS = 5.0  # a party that asked so lately is connected, even between two polls
NOTED_PER_MINUTE = 60  # refusals of one name, so that it cannot push the rest out of the log
PARTY, ANYBODY = "party", "anybody"
METHODS = ("GET", "POST", "PUT")
CALLER = web.RequestKey("caller", str)  # name on the certificate
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Server:
    """All routes, who may call them, and who called lately."""

    pending: Pending
    work: Center
    events: Events
    seen: dict[str, float] = field(default_factory=dict)  # when a name asked last
    under_way: Counter[str] = field(default_factory=Counter)  # requests by name
    counted: Counter[tuple[str, ...]] = field(default_factory=Counter)  # for the metrics
    rates: dict[str, p.Rate] = field(default_factory=dict)  # of requests, by name
    noted: dict[str, p.Rate] = field(default_factory=dict)  # of refusals in the event log, by name

    def application(self, pages: list[web.RouteDef]) -> web.Application:
        """Routes of the address that certificates protect."""
        app = web.Application(middlewares=[self._guard], client_max_size=p.LARGEST_SUBMIT)
        app.add_routes(
            [
                self._route("GET", p.QUESTIONS, PARTY, self.questions),
                self._route("GET", p.QUESTIONS + "/{number}/attached", PARTY, self.attached),
                self._route("GET", p.ANSWERS + "/{number}", PARTY, self.offset),
                self._route("PUT", p.ANSWERS + "/{number}", PARTY, self.take),
                self._route("POST", p.ANSWERS + "/{number}/notice", PARTY, self.notice),
                self._route("GET", p.REVOCATIONS, ANYBODY, self.revocations),
                self._route("POST", p.RUNS, OPERATOR, self.submit),
                self._route("GET", p.RUNS, OPERATOR, self.status),
                self._route("GET", p.RUNS + "/{run}", OPERATOR, self.status),
                *pages,
            ]
        )
        app.on_response_prepare.append(bare_headers)
        return app

    def connected(self, party: str) -> bool:
        """Whether a party waits for questions, or did a moment ago."""
        return self.under_way[party] > 0 or time.monotonic() - self.seen.get(party, -1e9) < SEEN_SECONDS

    async def questions(self, request: web.Request) -> web.Response:
        """Questions for the caller that it does not hold yet; waits for one, or until one it holds is closed."""
        party = request[CALLER]
        known = set(filter(None, request.query.get("known", "").split(",")))
        if not all(p.NUMBER.fullmatch(number) for number in known) or len(known) > p.MOST_OPEN:
            raise WireError("the list of known questions cannot be used")
        end = time.monotonic() + (0.0 if request.query.get("wait") == "0" else p.POLL_SECONDS)
        number = _whole(request, "revocations")
        while True:
            items = {item.outgoing.asked.number: item for item in self.pending.of(party)[: p.MOST_OPEN]}
            new = [item for each, item in items.items() if each not in known]
            left = end - time.monotonic()
            if new or not known <= set(items) or left <= 0 or self.work.revocations()[0] != number:
                break
            await self.pending.change(party, min(left, LOOK_SECONDS))
            self._check_certificate(request)
        for item in new:
            item.taken = True
        asked = [p.from_json(item.outgoing.asked.to_bytes(), p.LARGEST_QUESTION) for item in new]
        return _json({"questions": asked, "open": sorted(items), "revocations": self.work.revocations()[0]})

    async def attached(self, request: web.Request) -> web.Response:
        """The message attached to a question of the caller."""
        return _bytes(self._find(request).outgoing.attached)

    async def offset(self, request: web.Request) -> web.Response:
        """How much of an answer is here."""
        path = self._find(request).outgoing.part
        return _json({"offset": path.stat().st_size if path.exists() else 0})

    async def take(self, request: web.Request) -> web.Response:
        """A piece of an answer, or all of it."""
        item, digest = self._find(request), request.query.get("sha256", "")
        if not p.DIGEST.fullmatch(digest) or not p.DIGEST.fullmatch(request.query.get("ledger", "")):
            raise WireError("an answer names no digest")
        largest = item.outgoing.largest
        piece = Piece(_whole(request, "offset"), _whole(request, "size"), digest, request.query["ledger"])
        if piece.size > largest:
            await self._close(item, Failure(f"its answer has {piece.size} bytes, more than the {largest} possible"))
            raise CutOffError(413, f"an answer to this question has at most {largest} bytes")
        if request.content_length != piece.size - piece.offset:
            raise WireError("an answer does not have the length that it names")
        if item.receiving:
            raise CutOffError(409, "it is being received already")
        item.receiving = True
        try:
            whole = await receive(request.content.iter_any(), piece, item.outgoing.part)
            if not whole:
                raise CutOffError(409, "another part of it is wanted")
            sent = Delivered(item.outgoing.part, piece.size, piece.sha256, piece.ledger)
            reason = await asyncio.shield(self._close(item, sent))
        except CutOffError as cut:
            if cut.final:
                await self._close(item, Failure(cut.reason))
            raise
        finally:
            item.receiving = False
            self.counted["dkpca_received_bytes_total", "party", item.party] += request.content.total_bytes
        return _json({"accepted": not reason, "reason": reason})

    async def notice(self, request: web.Request) -> web.Response:
        """What a party says instead of an answer: done, not yet, or no."""
        item = self._find(request)
        told = p.from_json(await _body(request, p.LARGEST_NOTICE), p.LARGEST_NOTICE)
        if not isinstance(told, dict) or set(told) != {"code", "reason"}:
            raise WireError("a notice has a code and a reason")
        if not all(isinstance(value, str) for value in told.values()):
            raise WireError("a notice has a code or a reason that is no text")
        code, reason = wording.printable(told["code"])[:32], wording.printable(told["reason"])[:500]
        if code == "waiting":
            await asyncio.to_thread(item.noticed, item.party, reason)
        elif code == "ok" and item.outgoing.largest > 0:
            await self._close(item, Failure("it says that it has answered, without an answer"))
        else:
            words = reason if reason.startswith(code) else f"{code}: {reason}"
            done = Delivered(item.outgoing.part, 0, "")
            await self._close(item, done if code == "ok" else Failure(words))
        return _json({})

    async def revocations(self, request: web.Request) -> web.Response:
        """The revocation list, as the authority signed it."""
        return _bytes(self.work.revocations()[2])

    async def submit(self, request: web.Request) -> web.Response:
        """A job of the operator."""
        job = p.from_json(await _body(request, p.LARGEST_SUBMIT), p.LARGEST_SUBMIT)
        return _json(await asyncio.to_thread(self.work.submit, job), status=202)

    async def status(self, request: web.Request) -> web.Response:
        """Where a run stands, or everything."""
        return _json(await asyncio.to_thread(self.work.status, request.match_info.get("run", "")))

    async def _close(self, item: Waiting, brought: Delivered | Failure) -> str:
        reason = await asyncio.to_thread(self.pending.close, item, brought)
        item.outgoing.part.unlink(missing_ok=True)
        event = "no answer" if reason else "answer received"
        level = logging.WARNING if reason else logging.INFO
        number = item.outgoing.asked.number
        self.events.note(event, level=level, party=item.party, number=number, reason=reason)
        return reason

    def _find(self, request: web.Request) -> Waiting:
        """The open question that a request is about."""
        number, party = request.match_info["number"], request[CALLER]
        item = self.pending.find(party, number)
        if item is None:
            ended = self.pending.ended(party, number)
            raise CutOffError(410 if ended is not None else 404, ended or "this question is not open")
        return item

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        name, _ = tls.peer(request.transport)
        try:
            self._check_manners(self._check_certificate(request), request)
            self.seen[name] = time.monotonic()
            self.under_way[name] += 1
            request[CALLER] = name
            try:
                response = await handler(request)
            finally:
                self.under_way[name] -= 1
                self.seen[name] = time.monotonic()
        except CutOffError as cut:
            response = _refusal(cut.status, cut.reason)
        except WireError as error:
            response = _refusal(400, str(error))
        except DKPCAError as error:
            response = _refusal(409, str(error))
        except web.HTTPException as error:
            response = _refusal(error.status, "there is no such route")
        except TimeoutError:
            response = _refusal(408, "nothing came for too long")
        except (ConnectionError, asyncio.CancelledError):
            raise
        except Exception as error:  # one request; the others go on
            logging.getLogger(__name__).exception("a request of %s", name)
            self.events.note("error", level=logging.ERROR, party=name, reason=repr(error))
            response = _refusal(500, "an error that was not expected; the center's log has it")
        method = request.method if request.method in METHODS else "other"  # not a new number for each that is sent
        self.counted["dkpca_requests_total", "method", method, "status", str(response.status)] += 1
        if response.status >= 400 and self.noted.setdefault(name, p.Rate(NOTED_PER_MINUTE, 60.0)).take():
            self.events.note("refused", level=logging.WARNING, party=name, status=response.status)
        return response

    def _check_certificate(self, request: web.Request) -> str:
        """The caller's name; a certificate may expire or be revoked while a connection is open or a poll waits."""
        name, serial = tls.peer(request.transport)
        if not name or (name != OPERATOR and name not in self.work.roster):
            raise CutOffError(403, "this certificate is not good here")
        if serial in self.work.revocations()[1]:
            raise CutOffError(403, "this certificate was revoked")
        return name

    def _check_manners(self, name: str, request: web.Request) -> None:
        rate = self.rates.setdefault(name, p.Rate(2 * p.REQUESTS_PER_SECOND, 2.0))
        if not rate.take() or self.under_way[name] >= p.MOST_OPEN:
            raise CutOffError(429, "too many requests; come back later")
        if {"Transfer-Encoding", "Content-Encoding", "Expect", "Upgrade", "Cookie"} & set(request.headers):
            raise WireError("a header that this protocol does not have")

    def _route(self, method: str, path: str, who: str, handler: Handler) -> web.RouteDef:
        async def allowed(request: web.Request) -> web.StreamResponse:
            role = OPERATOR if request[CALLER] == OPERATOR else PARTY
            if who not in (role, ANYBODY):
                raise CutOffError(403, "this route is not for you")
            return await handler(request)

        return web.route(method, path, allowed, expect_handler=_no_expectation)


async def _no_expectation(request: web.Request) -> None:
    raise web.HTTPExpectationFailed


async def bare_headers(request: web.Request, response: web.StreamResponse) -> None:
    """Say nothing about the software, and have nothing guessed or kept by a browser."""
    response.headers.pop("Server", None)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cache-Control"] = "no-store"


def _json(value: Any, *, status: int = 200) -> web.Response:
    return web.Response(body=p.to_json(value), status=status, content_type="application/json")


def _bytes(data: bytes) -> web.Response:
    return web.Response(body=data, content_type="application/octet-stream")


def _refusal(status: int, reason: str) -> web.Response:
    response = _json({"reason": wording.printable(reason)[:500]}, status=status)
    if status in (403, 408, 411, 413, 507):  # a body that nobody will read
        response.force_close()
    return response


async def _body(request: web.Request, largest: int) -> bytes:
    """A small body of a stated length."""
    if request.content_length is None or request.content_length > largest:
        raise CutOffError(413, f"a body here has a stated length of at most {largest} bytes")
    async with asyncio.timeout(STALLED):
        return await request.content.read(-1)


def _whole(request: web.Request, name: str) -> int:
    text = request.query.get(name, "")
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise WireError(f"{name} is no whole number that can be used")
    return int(text)
