"""Health, metrics and a page of the center: where certificates protect it, and on this machine."""

import os
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from aiohttp import web

from dkpca.network import protocol as p
from dkpca.network import status_page
from dkpca.network import x509 as pki
from dkpca.network.membership import OPERATOR, Consortium
from dkpca.network.receiving import CutOffError
from dkpca.network.server import ANYBODY, CALLER, Server, bare_headers
from dkpca.store import storage

LOCAL_HOSTS = ("127.0.0.1", "localhost")
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'"
REPORT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' 'unsafe-eval' blob:; " \
    "img-src data: blob:; font-src data:; worker-src blob:; frame-ancestors 'none'"  # fmt: skip


@dataclass
class Monitor:
    """Reads what server and center know; changes nothing."""

    consortium: Consortium
    server: Server
    center: Any

    def protected(self) -> list[web.RouteDef]:
        """Routes of the address that certificates protect: the page is for the operator."""
        route = self.server._route
        return [
            route("GET", "/", OPERATOR, self.page),
            route("GET", "/runs/{run}/report", OPERATOR, self.report),
            route("GET", p.HEALTH, ANYBODY, self.health),
            route("GET", p.METRICS, ANYBODY, self.metrics),
        ]

    def local(self) -> web.Application:
        """Routes for this machine: no reports, for any user of the machine can read them."""
        app = web.Application(middlewares=[_only_local])
        app.add_routes([web.get("/", self.page), web.get(p.HEALTH, self.health), web.get(p.METRICS, self.metrics)])
        app.on_response_prepare.append(bare_headers)
        return app

    async def page(self, request: web.Request) -> web.Response:
        """Parties, runs, progress, reports."""
        reports = self._reports() if request.get(CALLER) == OPERATOR else ()
        text = status_page.render(self.consortium, self.center.status(), reports)
        headers = {"Content-Security-Policy": PAGE_POLICY}
        return web.Response(text=text, content_type="text/html", charset="utf-8", headers=headers)

    async def report(self, request: web.Request) -> web.StreamResponse:
        """The report of a run, as 'dkpca report' wrote it."""
        file = self._reports().get(request.match_info["run"])
        if file is None:
            raise CutOffError(404, "there is no report of that run; make it with 'dkpca report'")
        body = storage.read(file)
        headers = {"Content-Security-Policy": REPORT_POLICY}
        return web.Response(body=body, content_type="text/html", charset="utf-8", headers=headers)

    async def health(self, request: web.Request) -> web.Response:
        """Whether the center can work: its runs can be written to, its certificate is good."""
        problems = []
        if not os.access(self.consortium.path / "runs", os.W_OK):
            problems.append("runs cannot be written")
        if self._seconds_left() <= 0:
            problems.append("the certificate expired")
        told = {"status": "failing" if problems else "ok", "problems": problems}
        return web.Response(body=p.to_json(told), status=503 if problems else 200, content_type="application/json")

    async def metrics(self, request: web.Request) -> web.Response:
        """Numbers, as Prometheus reads them."""
        told = self.center.status()
        states = Counter(run.get("state", "unknown") for run in told["runs"].values())
        lines = ["# TYPE dkpca_party_connected gauge"]
        connected = set(told["connected"])
        lines += [f'dkpca_party_connected{{party="{x}"}} {int(x in connected)}' for x in self.consortium.parties]
        lines += ["# TYPE dkpca_runs gauge", *(f'dkpca_runs{{state="{s}"}} {n}' for s, n in sorted(states.items()))]
        lines += ["# TYPE dkpca_questions_open gauge", f"dkpca_questions_open {self.server.pending.count()}"]
        lines += ["# TYPE dkpca_certificate_seconds_left gauge"]
        lines += [f"dkpca_certificate_seconds_left {self._seconds_left():.0f}"]
        for name in sorted({key[0] for key in self.server.counted}):
            lines.append(f"# TYPE {name} counter")
            for key, count in sorted(self.server.counted.items()):
                labels = ",".join(f'{a}="{b}"' for a, b in zip(key[1::2], key[2::2], strict=True))
                lines += [f"{name}{{{labels}}} {count}"] if key[0] == name else []
        return web.Response(text="\n".join(lines) + "\n", content_type="text/plain", charset="utf-8")

    def _reports(self) -> dict[str, Path]:
        return {file.parent.name: file for file in (self.consortium.path / "runs").glob("*/report.html")}

    def _seconds_left(self) -> float:
        file = self.consortium.tls / "own.crt"
        return pki.from_pem(storage.read(file), file).not_valid_after_utc.timestamp() - time.time()


@web.middleware
async def _only_local(request: web.Request, handler: Any) -> web.StreamResponse:
    """Refuse a page of somebody else's that a browser here was made to load from this address."""
    if request.host.partition(":")[0] not in LOCAL_HOSTS:
        return web.Response(status=403, text="only for this machine\n")
    response: web.StreamResponse = await handler(request)
    return response
