"""A center and its parties as real processes on loopback, with mutual TLS; nothing is left behind."""

import asyncio
import contextlib
import io
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from dkpca import cli
from dkpca.network import membership as members
from dkpca.network import serving
from dkpca.store import ledger
from testkit import sites
from testkit.sites import MODULES

HOST = "127.0.0.1"
DEADLINE = 120.0


def environment(home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HOME": str(home)}


def dkpca(*arguments, cwd: Path, timeout: float = DEADLINE, **options) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "dkpca", *map(str, arguments)],
        cwd=cwd,
        env=environment(cwd / "home"),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )


def here(*arguments, cwd: Path) -> subprocess.CompletedProcess[str]:
    """The same in this process, without the second that a program takes to start."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.chdir(cwd), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = cli.run(list(map(str, arguments)))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def ok(*arguments, cwd: Path, **options) -> str:
    """Run a command that must go well: in this process, or with `timeout` in one of its own."""
    ran = dkpca(*arguments, cwd=cwd, **options) if options else here(*arguments, cwd=cwd)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refused(*arguments, cwd: Path, **options) -> str:
    """Run a command that must fail with one sentence."""
    ran = dkpca(*arguments, cwd=cwd, **options) if options else here(*arguments, cwd=cwd)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("dkpca: "), ran.stderr
    return ran.stderr.splitlines()[-1]


def wait_for(condition: Callable[[], object], what: str, timeout: float = DEADLINE):
    """Wait until something holds; return it."""
    end = time.monotonic() + timeout
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {timeout:g} s")
        time.sleep(0.02)
    return found


def free_port() -> int:
    """A port below those that the system gives to clients, or one of them may have it before the server."""
    while True:
        port = 15_000 + secrets.randbelow(15_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port


class Site:
    """One folder and the process that serves it."""

    def __init__(self, kind: str, name: str, path: Path, home: Path):
        self.kind, self.name, self.path, self.home = kind, name, path, home
        self.process: subprocess.Popen[bytes] | sites.Fork | None = None
        self.terminal = path.with_name(f"{path.name}.terminal")

    def start(self, *, as_program: bool = False) -> "Site":
        """Start it without waiting for anything; its words go to a file of its own.

        As `dkpca ... start` does after its checks, which test_consortium.py goes through; two seconds less each time.
        """
        assert not self.running, f"{self.name} is running"
        self.terminal.write_text("")
        with self.terminal.open("ab") as words:
            if sites.servers and not as_program:
                self.process = sites.Fork(self.kind, self.path, self.home.parent, environment(self.home), words)
                return self
            self.process = subprocess.Popen(
                [sys.executable, "-m", MODULES[self.kind], str(self.path)],
                cwd=self.home.parent,
                env=environment(self.home),
                stdin=subprocess.DEVNULL,
                stdout=words,
                stderr=words,
                start_new_session=True,
            )
        return self

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def said(self) -> str:
        """What it printed since its start."""
        return self.terminal.read_text()

    def wait_said(self, words: str, timeout: float = DEADLINE) -> str:
        def there() -> bool:
            assert words in self.said() or self.running, f"{self.name} ended: {self.said()}"
            return words in self.said()

        wait_for(there, f"{self.name} saying {words!r}", timeout)
        return self.said()

    def wait_connected(self, timeout: float = DEADLINE) -> None:
        """Wait until a party is connected, or the center listens."""
        self.wait_said("listening on" if self.kind == "center" else "connected to center", timeout)

    def wait_ended(self, timeout: float = DEADLINE) -> int:
        assert self.process is not None
        return self.process.wait(timeout=timeout)

    def workers(self) -> list[psutil.Process]:
        """The processes that this one started."""
        return psutil.Process(self.pid).children(recursive=True) if self.running else []

    def stop(self, timeout: float = DEADLINE) -> int:
        """Ask it to end, as a person or a service manager does."""
        return self.signal(signal.SIGTERM, timeout)

    def kill(self) -> None:
        """Take its process away without a word; what it started has to notice."""
        self.signal(signal.SIGKILL, DEADLINE)

    def signal(self, number: int, timeout: float) -> int:
        if self.process is None:
            return 0
        if (code := self.process.poll()) is not None:
            return code
        os.kill(self.pid, number)
        return self.wait_ended(timeout)

    def ledger(self) -> list[dict]:
        """A party's ledger, its chain followed to the end."""
        ledger.verify(self.path / ledger.NAME)
        return ledger.records(self.path / ledger.NAME)


class Federation:
    """A consortium in one folder: `center/`, and `<party>/` for each party."""

    def __init__(self, path: Path, parties: Sequence[str] = ("airline", "weather"), *, name: str = "dkpca"):
        self.path, self.names, self.port, self.local_port = path, tuple(parties), free_port(), free_port()
        self.home = path / "home"
        ports = {"port": self.port, "local_port": self.local_port}
        self.consortium, _ = members.init(path / "center", name=name, host=HOST, parties=parties, days=90, **ports)
        self.center = Site("center", "center", path / "center", self.home)
        self.parties: dict[str, Site] = {}
        for party in parties:
            self.join(party)

    def join(self, party: str, folder: str = "") -> Site:
        """Join, approve and admit one party; test_consortium does the same by commands."""
        folder = folder or party
        members.join(self.path / "center" / "invitations" / f"{party}.toml", self.path / folder)
        return self.admit(party, folder)

    def admit(self, party: str, folder: str = "", days: float = 90) -> Site:
        """Approve the request that lies in a party's folder, and install the answer."""
        folder = folder or party
        request, admission = self.path / folder / f"{party}.request", self.path / f"{folder}.admission"
        members.approve(self.consortium, request, admission, days=days)
        members.admit(members.membership(self.path / folder), admission)
        known = self.parties.get(folder)
        self.parties[folder] = known or Site("party", party, self.path / folder, self.home)
        return self.parties[folder]

    def party(self, folder: str) -> Site:
        return self.parties[folder]

    @property
    def sites(self) -> list[Site]:
        return [self.center, *self.parties.values()]

    @property
    def runs(self) -> Path:
        return self.path / "center" / "runs"

    def start(self) -> "Federation":
        """Start all and wait until all are connected."""
        for site in self.sites:
            site.start()
        return self.wait_connected()

    def wait_connected(self, timeout: float = DEADLINE) -> "Federation":
        for site in self.sites:
            if site.running:
                site.wait_connected(timeout)
        return self

    def copy(self, folder: str, twin: str) -> Site:
        """A second site with the same certificate."""
        shutil.copytree(self.path / folder, self.path / twin)
        self.parties[twin] = Site("party", self.parties[folder].name, self.path / twin, self.home)
        return self.parties[twin]

    def stop(self) -> None:
        """Stop all; fail if anything is left of them."""
        for site in self.sites:
            if site.running:
                os.kill(site.pid, signal.SIGCONT)
                os.kill(site.pid, signal.SIGTERM)
        try:
            for site in self.sites:
                if site.process is not None:
                    site.wait_ended()
            wait_for(lambda: not self.left(), "end of all processes")
        finally:
            left = self.left()
            for process in left:
                process.kill()
        assert not left, left

    def left(self) -> list[psutil.Process]:
        """Every process of ours that has this federation's folder in its command line, or works there as a fork."""
        here, found = str(self.path), []
        for process in psutil.process_iter(["cmdline", "status", "cwd"]):
            words = process.info["cmdline"] or []
            ours = any(here in word for word in words) and any("dkpca.network" in word for word in words)
            fork = "testkit.sites" in words and process.info["cwd"] == here
            if (ours or fork) and process.info["status"] != "zombie":
                found.append(process)
        return found


@contextlib.contextmanager
def center_in_this_process(federation: Federation):
    """The center's server in a thread of the test, where it can be looked into."""
    begun, loops, trouble = threading.Event(), [], []

    async def serve() -> None:
        stopped = asyncio.Event()
        loops.append((asyncio.get_running_loop(), stopped))
        begun.set()
        await serving.serve(federation.path / "center", stopped)

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001
            trouble.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    try:
        wait_for(lambda: listens(federation.port) or trouble, "center listening")
        assert not trouble, trouble
        yield
    finally:
        loop, stopped = loops[0]
        loop.call_soon_threadsafe(stopped.set)
        thread.join()
        assert not trouble, trouble


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((HOST, port)) == 0


def configure(folder: Path, table: str, id_column: str = "person", policy: str = "max_rank = 64\n", **more) -> None:
    """Write party.toml and policy.toml."""
    extra = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    (folder / "party.toml").write_text(
        f'party = "{folder.name}"\ntable = "{table}"\nid = "{id_column}"\npolicy = "policy.toml"\n{extra}'
    )
    (folder / "policy.toml").write_text(policy)


def asked(federation: Federation, run: str) -> list[list[str]]:
    """Whom the center asked, question by question."""
    records = ledger.records(federation.runs / run / "ledger.jsonl")
    return [list(record["numbers"]) for record in records if record["event"] == "asked"]


def status(federation: Federation, run: str):
    told = here("status", "center", run, "--json", cwd=federation.path)
    return told.returncode, json.loads(told.stdout)


@contextlib.contextmanager
def background(federation: Federation, *arguments):
    """A command that runs while the test does something."""
    command = [sys.executable, "-m", "dkpca", *map(str, arguments)]
    with subprocess.Popen(
        command,
        cwd=federation.path,
        env=environment(federation.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        try:
            yield process
            process.communicate(timeout=240)
        finally:
            process.kill()
