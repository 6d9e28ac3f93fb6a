"""The center's process: connections, routes and runs, until it is stopped."""

import asyncio
import contextlib
import logging
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from aiohttp import web

from dkpca.errors import InputError
from dkpca.network import membership, process, tls
from dkpca.network import x509 as pki
from dkpca.network.center import Center
from dkpca.network.events import Events
from dkpca.network.monitoring import LOCAL_HOSTS, Monitor
from dkpca.network.pending import Pending
from dkpca.network.protocol import MOST_OPEN
from dkpca.network.server import Server
from dkpca.store import storage

LOOK_SECONDS = 1.0  # between two looks at who is connected
HANDSHAKE_SECONDS = 10.0
MOST_CONNECTIONS = 2000
MOST_PER_NAME = 2 * MOST_OPEN


class _Connection(web.RequestHandler):
    """One connection; a name has so many, and what is no HTTP is not repeated to whoever sent it."""

    def __init__(self, held: Counter[str], *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._held, self._name = held, ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._name, _ = tls.peer(transport)
        self._held[self._name] += 1
        if self._held[self._name] > MOST_PER_NAME or self._held.total() > MOST_CONNECTIONS:
            self.force_close()

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        self._held[self._name] -= 1

    def handle_error(self, request: Any, status: int = 500, *_: Any, **__: Any) -> web.StreamResponse:
        response = web.Response(status=status)
        response.force_close()
        return response


async def serve(folder: Path, stopped: asyncio.Event) -> None:
    """Serve until it is stopped."""
    consortium = membership.load(folder)
    certificate = pki.from_pem(storage.read(consortium.tls / "own.crt"), consortium.tls / "own.crt")
    days = pki.check_valid(certificate, "the center's")
    membership.announce(consortium)
    async with contextlib.AsyncExitStack() as held:
        events = Events(consortium.path, "center")
        held.callback(events.close)
        pending = Pending(asyncio.get_running_loop(), lambda party: server.connected(party))
        center = Center(consortium, pending, events)
        server = Server(pending, center, events)
        monitor = Monitor(consortium, server, center)
        host = consortium.host if consortium.host in LOCAL_HOSTS else None
        secure = {"ssl": tls.server_context(consortium.tls), "ssl_handshake_timeout": HANDSHAKE_SECONDS}
        await _listen(held, server.application(monitor.protected()), host, consortium.port, **secure)
        if consortium.local_port:
            await _listen(held, monitor.local(), "127.0.0.1", consortium.local_port)
        events.say(f"listening on {consortium.host}:{consortium.port}; waiting for parties", "started")
        if days < pki.DAYS_TO_WARN:
            words = f"its certificate expires in {days} days; renew it: dkpca consortium renew"
            events.say(words, "expires", days=days)
        center.resume()
        await _tell_who_comes_and_goes(server, events, stopped)
        pending.stop()
        events.note("stopped")


async def _tell_who_comes_and_goes(server: Server, events: Events, stopped: asyncio.Event) -> None:
    here: frozenset[str] = frozenset()
    while not stopped.is_set():
        now = frozenset(filter(server.connected, server.work.roster))
        for party in sorted(now ^ here):
            word = "connected" if party in now else "gone"
            events.say(f"{party} is {word}", word, party=party)
        here = now
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_SECONDS):
                await stopped.wait()


async def _listen(
    held: contextlib.AsyncExitStack, app: web.Application, host: str | None, port: int, **options: Any
) -> None:
    """Take connections at a port until the stack ends."""
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    held.push_async_callback(runner.cleanup)
    quiet = logging.getLogger("dkpca.http")  # what is no HTTP fills no log
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    loop = asyncio.get_running_loop()
    manners: dict[str, Any] = {"logger": quiet, "access_log": None, "auto_decompress": False}
    make = partial(_Connection, Counter[str](), runner.server, loop=loop, **manners)
    try:
        listening = await loop.create_server(make, host, port, **options)
    except OSError as error:
        raise InputError(
            f"port {port} cannot be used ({error.strerror}); stop what listens there, or change it in "
            "consortium.toml and send the new invitations"
        ) from error
    held.callback(listening.close)


if __name__ == "__main__":
    process.main(serve)
