"""A client of the center: a few requests, each with a largest size and a deadline; nothing is followed or kept."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp

from dkpca.errors import DKPCAError, WireError
from dkpca.network import protocol as p
from dkpca.network import tls

REQUEST_SECONDS = 30.0
CLOSING_SECONDS = 5.0
BODY_SECONDS = 120.0  # without a sign of the other end, while something large travels
EMPTY = range(300, 400)  # a redirect has no object, and is not followed
Reply = tuple[int, dict[str, Any]]  # status and object


class LostError(DKPCAError):
    """A center that was not reached, or that broke off."""


class _Connector(aiohttp.TCPConnector):
    """Looks at the center's certificate before every request, also on a connection that is open already."""

    def __init__(self, context: ssl.SSLContext) -> None:
        super().__init__(ssl=context, limit=4, keepalive_timeout=60)
        self.revoked: frozenset[int] = frozenset()
        self._used: WeakKeyDictionary[Any, tuple[Any, Any]] = WeakKeyDictionary()  # by protocol: transport, socket

    async def connect(self, *arguments: Any, **options: Any) -> Any:
        connection = await super().connect(*arguments, **options)
        if connection.transport is not None:
            plain = connection.transport.get_extra_info("socket")
            self._used[connection.protocol] = connection.transport, plain
        name, serial = tls.peer(connection.transport)
        if name != "center" or serial in self.revoked:
            connection.close()
            raise LostError("the center's certificate expired or was revoked; ask the center to renew it")
        return connection

    async def end(self) -> None:
        """End also what aiohttp has closed: TLS waits half a minute for the other end to agree to it."""
        ends = [closed for protocol in self._used if (closed := protocol.closed) is not None]
        for transport, plain in self._used.values():
            transport.abort()
            with contextlib.suppress(OSError):
                plain.shutdown(socket.SHUT_RDWR)  # asyncio does not abort what was closed twice
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSING_SECONDS):
                await asyncio.gather(*ends, return_exceptions=True)


class Client:
    """One address, one certificate."""

    def __init__(self, host: str, port: int, folder: Path, *, proxy: str = "") -> None:
        self.address, self._proxy = f"{host}:{port}", proxy or None
        self._connector = _Connector(tls.client_context(folder))
        self._session = aiohttp.ClientSession(
            connector=self._connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            trust_env=False,
            headers={"Accept-Encoding": "identity", "User-Agent": "dkpca"},
            skip_auto_headers=["Content-Type", "Accept"],
        )

    async def __aenter__(self) -> "Client":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End its connections; what is under way on them is lost."""
        await self._session.close()
        await self._connector.end()

    def refuse(self, revoked: frozenset[int]) -> None:
        """Refuse a center with one of these serial numbers."""
        self._connector.revoked = revoked

    async def get(
        self, path: str, *, largest: int = p.LARGEST_NOTICE, timeout: float = REQUEST_SECONDS, **query: str
    ) -> Reply:
        """Return status and object."""
        return _as_object(*await self._request("GET", path, largest, timeout, params=query))

    async def fetch(self, path: str, largest: int) -> bytes:
        """Return a body that is no object."""
        status, data = await self._request("GET", path, largest, BODY_SECONDS)
        if status != 200:
            raise LostError(f"it refuses ({status})")
        return data

    async def post(self, path: str, value: Any) -> Reply:
        """Send a small object; return status and object."""
        return _as_object(
            *await self._request("POST", path, p.LARGEST_NOTICE, REQUEST_SECONDS, data=p.to_json(value))
        )

    async def put(self, path: str, body: AsyncIterator[bytes], length: int, **query: str) -> Reply:
        """Send a body of a known length; return status and object."""
        options = {"params": query, "data": body if length else b"", "headers": {"Content-Length": str(length)}}
        return _as_object(*await self._request("PUT", path, p.LARGEST_NOTICE, BODY_SECONDS, **options))

    async def _request(
        self, method: str, path: str, largest: int, timeout: float, **options: Any
    ) -> tuple[int, bytes]:
        if self._session.closed:  # or aiohttp raises an error of another kind
            raise LostError("its address or the certificate was just changed")
        limits = aiohttp.ClientTimeout(total=None, sock_connect=15, sock_read=timeout)
        options |= {"allow_redirects": False, "proxy": self._proxy, "timeout": limits}
        try:
            async with (
                asyncio.timeout(None if timeout == BODY_SECONDS else timeout + 15),
                self._session.request(method, f"https://{self.address}{path}", **options) as reply,
            ):
                return reply.status, await _bounded(reply, largest)
        except (aiohttp.ClientError, TimeoutError, OSError, EOFError, ValueError) as error:
            raise LostError(_why(error)) from error


async def _bounded(reply: aiohttp.ClientResponse, largest: int) -> bytes:
    """A body of a stated length; a longer one, or one without, is not read."""
    if reply.content_length is None or reply.content_length > largest or "Transfer-Encoding" in reply.headers:
        reply.close()
        raise LostError(f"the center sent a body without a length, or one of more than {largest} bytes")
    return await reply.content.readexactly(reply.content_length)


def _as_object(status: int, data: bytes) -> Reply:
    value = p.from_json(data, len(data)) if status not in EMPTY else {}
    if not isinstance(value, dict):
        raise WireError("the center's reply is not an object")
    return status, value


def _why(error: BaseException) -> str:
    """The reason in words; OpenSSL's own are only for experts."""
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ssl.SSLCertVerificationError) and hasattr(inner, "verify_message"):
            return f"it shows a certificate of another CA or host ({inner.verify_message}); check the invitation"
        if isinstance(inner, ssl.SSLError) and "ALERT" in str(getattr(inner, "reason", "")):
            alert = str(inner.reason).lower().replace("_", " ")
            return f"it refuses this certificate ({alert}); renew it or join again"
        inner = inner.__cause__ or getattr(inner, "os_error", None) or inner.__context__
    if isinstance(error, TimeoutError):
        return "it does not answer in time"
    return f"it cannot be reached ({type(error).__name__})"
