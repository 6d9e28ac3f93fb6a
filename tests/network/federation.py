"""A center and its parties as real processes on loopback, with mutual TLS; nothing is left behind."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil

from dkpca.network.nvflare import consortium as members
from dkpca.store import storage

HOST = "127.0.0.1"
DEADLINE = 120.0
CLOSED = {"NVFLARE_ALLOW_LOG_STREAMING": "true"}  # must not open anything


# NVFlare's own client, as a party would run it who does not use our launcher.
CARELESS = """
import argparse, sys
from nvflare.private.fed.app.client import client_train
client_train.main(argparse.Namespace(workspace=sys.argv[1], fed_client="fed_client.json", local_rank=0, set=[
    "secure_train=true", "uid=" + sys.argv[2], "org=" + sys.argv[2], "config_folder=config"]))
"""


def environment(home: Path) -> dict[str, str]:
    home.mkdir(exist_ok=True)
    return {**os.environ, **CLOSED, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "HOME": str(home)}


def dkpca(*arguments, cwd: Path, seconds: float = DEADLINE, **options) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [sys.executable, "-m", "dkpca", *map(str, arguments)],
        cwd=cwd,
        env=environment(cwd / "home"),
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
        **options,
    )


def ok(*arguments, cwd: Path, **options) -> str:
    ran = dkpca(*arguments, cwd=cwd, **options)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def refused(*arguments, cwd: Path, **options) -> str:
    """Run a command that must fail with one sentence."""
    ran = dkpca(*arguments, cwd=cwd, **options)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert ran.stderr.startswith("dkpca: "), ran.stderr
    assert ran.stderr.count("\n") == 1, ran.stderr
    return ran.stderr


def wait_for(condition: Callable[[], object], what: str, seconds: float = DEADLINE):
    """Wait until something holds; return it."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds:g} s")
        time.sleep(0.05)
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Site:
    """One folder and the process that serves it."""

    def __init__(self, kind: str, name: str, path: Path, home: Path):
        self.kind, self.name, self.path, self.home = kind, name, path, home
        self.process: subprocess.Popen[bytes] | None = None
        self.terminal = path.with_name(f"{path.name}.terminal")
        self.descendants: dict[int, psutil.Process] = {}
        self.variables: dict[str, str] = {}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "dkpca", self.kind, "start", str(self.path)]

    def start(self) -> "Site":
        """Start it without waiting for anything; its words go to a file of its own."""
        assert not self.running, f"{self.name} is running"
        self.terminal.write_text("")
        with self.terminal.open("ab") as words:
            self.process = subprocess.Popen(
                self.command(),
                cwd=self.home.parent,
                env=environment(self.home) | self.variables,
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

    def log(self) -> str:
        """What NVFlare wrote into its log files and past them."""
        files = [self.path / "engine" / name for name in ("log.txt", "error_log.txt", "console.txt")]
        return "\n".join(file.read_text(errors="replace") for file in files if file.exists())

    def wait_said(self, words: str, seconds: float = DEADLINE) -> str:
        def there() -> bool:
            assert words in self.said() or self.running, f"{self.name} ended: {self.said()}\n{self.log()[-3000:]}"
            return words in self.said()

        wait_for(there, f"{self.name} saying {words!r}", seconds)
        return self.said()

    def wait_connected(self, seconds: float = DEADLINE) -> None:
        """Wait until a party is connected, or the center listens."""
        self.wait_said("listening on" if self.kind == "center" else "connected to center", seconds)

    def wait_ended(self, seconds: float = 20.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout=seconds)

    def job_processes(self) -> list[psutil.Process]:
        """Processes of jobs that run here now."""
        if not self.running:
            return []
        found = psutil.Process(self.pid).children(recursive=True)
        self.descendants |= {child.pid: child for child in found}
        return found

    def stop(self, seconds: float = 15.0) -> int:
        """Ask it to end, as a person or a service manager does."""
        return self._signal(signal.SIGTERM, seconds)

    def kill(self) -> None:
        """Take the whole site away without a word: first the site's own process, then its jobs."""
        jobs = self.job_processes()
        self._signal(signal.SIGKILL, 10)
        for job in jobs:
            if job.is_running():
                job.kill()
        psutil.wait_procs(jobs, timeout=5)

    def kill_only_parent(self) -> None:
        """Kill the site's own process; its jobs have to notice."""
        self.job_processes()
        self._signal(signal.SIGKILL, 10)

    def left(self) -> list[psutil.Process]:
        """Processes of this site that are still there; after a stop there must be none."""
        own = [child for child in self.descendants.values() if child.is_running() and child.status() != "zombie"]
        return own + ([psutil.Process(self.pid)] if self.running else [])

    def _signal(self, number: int, seconds: float) -> int:
        if not self.running:
            return 0 if self.process is None else int(self.process.returncode)
        self.job_processes()
        os.kill(self.pid, number)
        return self.wait_ended(seconds)


class Federation:
    """A consortium in one folder: `center/`, and `<party>/` for each party."""

    def __init__(self, path: Path, parties: Sequence[str] = ("airline", "weather"), *, name: str = "dkpca"):
        self.path, self.names, self.port = path, tuple(parties), free_port()
        self.home = path / "home"
        self.consortium, _ = members.init(
            path / "center", name=name, host=HOST, port=self.port, parties=parties, days=90
        )
        self.center = Site("center", "center", path / "center", self.home)
        self.parties: dict[str, Site] = {}
        for party in parties:
            self.join(party)

    def join(self, party: str, folder: str = "") -> Site:
        """Join, approve and admit one party; test_consortium does the same by commands."""
        folder = folder or party
        members.join(self.path / "center" / "invitations" / f"{party}.toml", self.path / folder)
        return self.admit(party, folder)

    def admit(self, party: str, folder: str = "", days: int = 90) -> Site:
        """Approve the request that lies in a party's folder, and install the answer."""
        folder = folder or party
        request, admission = self.path / folder / f"{party}.request", self.path / f"{folder}.admission"
        members.approve(self.consortium, request, admission, days=days)
        members.admit(members.membership(self.path / folder), admission)
        self.parties[folder] = Site("party", party, self.path / folder, self.home)
        return self.parties[folder]

    def party(self, folder: str) -> Site:
        return self.parties[folder]

    @property
    def sites(self) -> list[Site]:
        return [self.center, *self.parties.values()]

    @property
    def operator(self) -> Path:
        """The operator's kit, for an NVFlare session."""
        return self.path / "center" / "operator"

    @property
    def runs(self) -> Path:
        return self.path / "center" / "runs"

    def start(self) -> "Federation":
        """Start all and wait until all are connected."""
        for site in self.sites:
            site.start()
        return self.wait_connected()

    def wait_connected(self, seconds: float = DEADLINE) -> "Federation":
        for site in self.sites:
            if site.running:
                site.wait_connected(seconds)
        for party in self.parties.values():
            if party.running:
                self.center.wait_said(f"{party.name} is connected", seconds)
        return self

    def copy(self, folder: str, twin: str) -> Site:
        """A second site with the same certificate."""
        shutil.copytree(self.path / folder, self.path / twin)
        self.parties[twin] = Site("party", self.parties[folder].name, self.path / twin, self.home)
        return self.parties[twin]

    def stop(self) -> None:
        """Stop all; fail if anything is left of them."""
        for site in reversed(self.sites):
            site.job_processes()
        for site in self.sites:
            if site.running:
                os.kill(site.pid, signal.SIGTERM)
        try:
            for site in self.sites:
                if site.process is not None:
                    site.wait_ended(15)
            wait_for(lambda: not self.left(), "end of all processes", 10)
        finally:
            left = self.left()
            for process in left:
                process.kill()
        assert not left, left

    def left(self) -> list[psutil.Process]:
        """Every process that has this federation's folder in its command line or is a child of one of its sites."""
        here = str(self.path)
        found = [process for site in self.sites for process in site.left()]
        for process in psutil.process_iter(["pid", "cmdline", "status"]):
            words = process.info["cmdline"] or []
            if (
                process.info["status"] != "zombie"
                and any(here in word for word in words)
                and any(name in " ".join(words) for name in ("dkpca", "nvflare"))
            ):
                found.append(process)
        return found


def configure(folder, table: str, id_column: str = "person") -> None:
    (folder / "party.toml").write_text(
        f'party = "{folder.name}"\ntable = "{table}"\nid = "{id_column}"\npolicy = "policy.toml"\n'
    )


def asked(federation, run: str) -> list[list[str]]:
    records = storage.read_records(federation.runs / run / "ledger.jsonl")
    return [record["parties"] for record in records if record["event"] == "asked"]


def status(federation, run: str):
    told = dkpca("status", "center", run, "--json", cwd=federation.path)
    return told.returncode, json.loads(told.stdout)


@contextlib.contextmanager
def background(federation, *arguments):
    """A command that runs while the test does something."""
    command = [sys.executable, "-m", "dkpca", *map(str, arguments)]
    with subprocess.Popen(
        command,
        cwd=federation.path,
        env=environment(federation.home),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        try:
            yield process
            process.communicate(timeout=240)
        finally:
            process.kill()


def job_of(site) -> psutil.Process:
    """The process of the job that runs at a site, once it is more than a copy of the process that starts it."""
    return wait_for(lambda: next(filter(is_job, site.job_processes()), None), f"job process of {site.name}")


def is_job(process: psutil.Process) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return "dkpca.network.nvflare.job" in process.cmdline()
    return False
