"""TLS 1.3 with certificates of the consortium's own authority at both ends."""

import ssl
import time
from pathlib import Path
from typing import Any


def server_context(folder: Path) -> ssl.SSLContext:
    """Context of the center: whoever connects must show a client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.num_tickets = 0  # no session goes on without its certificate being looked at again
    return _common(context, folder)


def client_context(folder: Path) -> ssl.SSLContext:
    """Context of a party or the operator: the center must show a server's certificate for its host."""
    return _common(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), folder)


def peer(transport: Any) -> tuple[str, int]:
    """Name and serial number on the certificate at the other end of a connection; ("", 0) if it is not good now.

    TLS checks it once, when the connection is made; a connection may outlive its certificate.
    """
    secure = transport.get_extra_info("ssl_object") if transport is not None else None
    shown = secure.getpeercert() if secure is not None else None
    if not shown or ssl.cert_time_to_seconds(shown["notAfter"]) <= time.time():
        return "", 0
    names = [value for part in shown["subject"] for key, value in part if key == "commonName"]
    return (names[0], int(shown["serialNumber"], 16)) if len(names) == 1 else ("", 0)


def _common(context: ssl.SSLContext, folder: Path) -> ssl.SSLContext:
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cafile=folder / "ca.crt")
    context.load_cert_chain(folder / "own.crt", folder / "own.key")
    context.set_alpn_protocols(["http/1.1"])
    return context
