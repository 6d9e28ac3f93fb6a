"""Peers that speak TLS with valid keys, and say whatever a test wants."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from dkpca.network import tls

HOST = "127.0.0.1"


class Caller:
    """A client that sends bytes."""

    def __init__(self, folder: Path, port: int, timeout: float = 20.0):
        plain = socket.create_connection((HOST, port), timeout=timeout)
        self.socket = tls.client_context(folder).wrap_socket(plain, server_hostname=HOST)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def reply(self) -> tuple[int, bytes]:
        """Status and body of one reply; (0, b"") if the other end closed."""
        data = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            while b"\r\n\r\n" not in data:
                more = self.socket.recv(2**16)
                if not more:
                    return 0, b""
                data += more
            head, _, body = data.partition(b"\r\n\r\n")
            lines = head.decode("latin1").split("\r\n")
            headers = {key.lower(): value.strip() for key, _, value in (line.partition(":") for line in lines[1:])}
            length = int(headers.get("content-length", 0))
            while len(body) < length:
                more = self.socket.recv(2**16)
                if not more:
                    break
                body += more
            return int(lines[0].split()[1]), body
        return 0, b""

    def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> tuple[int, bytes]:
        """One request in due form."""
        lines = [f"{method} {path} HTTP/1.1", f"Host: {HOST}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if "Content_Length" not in headers and "Transfer_Encoding" not in headers:
            lines.append(f"Content-Length: {len(body)}")
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self.send("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
        return self.reply()


class Listener:
    """A server that answers each request with the bytes that a function makes of it; keeps what it was sent."""

    def __init__(self, folder: Path, port: int, answer: Callable[[bytes], bytes | Iterable[bytes]]):
        self.context, self.answer, self.requests = tls.server_context(folder), answer, list[bytes]()
        self.sent = 0  # bytes
        self.listening = socket.create_server((HOST, port))
        self.thread = threading.Thread(target=self._accept, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        self.thread.join()

    def _accept(self) -> None:
        while True:
            try:
                plain, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(plain,), daemon=True).start()

    def _serve(self, plain: socket.socket) -> None:
        with contextlib.suppress(OSError, ssl.SSLError):
            plain.settimeout(20)
            with self.context.wrap_socket(plain, server_side=True) as secure:
                while request := self._request(secure):
                    self.requests.append(request)
                    answer = self.answer(request)
                    for part in [answer] if isinstance(answer, bytes) else answer:
                        secure.sendall(part)
                        self.sent += len(part)
                    if b"Content-Length" not in (answer if isinstance(answer, bytes) else b""):
                        return

    @staticmethod
    def _request(secure: ssl.SSLSocket) -> bytes:
        data = b""
        while b"\r\n\r\n" not in data:
            more = secure.recv(2**16)
            if not more:
                return b""
            data += more
        return data


def page(body: bytes, status: str = "200 OK", **headers: str) -> bytes:
    """A reply in due form."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body
