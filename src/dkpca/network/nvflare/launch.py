"""Our own start of NVFlare, in the foreground: check, close what is open, run, and leave nothing behind."""

import argparse
import contextlib
import fcntl
import os
import shutil
import signal
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from dkpca.errors import InputError
from dkpca.network import remote
from dkpca.network.nvflare import certificates as pki
from dkpca.network.nvflare import consortium as members
from dkpca.network.nvflare import hardening, kits
from dkpca.network.nvflare.consortium import Consortium, Membership
from dkpca.store import storage


def party(path: Path) -> NoReturn:
    """Run a party until it is stopped."""
    member = members.membership(path)
    problems = [*hardening.check(member.engine), *members.check_invitation(member)]
    if problems:
        raise InputError(f"{member.party} does not start: {'; '.join(problems)}")
    warn_before_expiry(members.check_certificate(member), f"{member.party}: the certificate", "dkpca party renew")
    meet_center(member)
    hardening.forget_engine_variables()
    with alone(member.engine):
        _clear(member.engine, "transfer")
        _run(lambda: _party(member), member.engine)


def center(path: Path) -> NoReturn:
    """Run the center until it is stopped."""
    consortium = members.load(path)
    certificate_file = consortium.engine / "startup" / "server.crt"
    certificate = pki.from_pem(storage.read(certificate_file), certificate_file)
    warn_before_expiry(
        pki.check_valid(certificate, "the center's"), "the center's certificate", "dkpca consortium renew"
    )
    problem = hardening.check_version()
    if problem:
        raise InputError(problem)
    check_port_is_free(consortium)
    hardening.forget_engine_variables()
    with alone(consortium.engine):
        # A job is only a transport, the run directory is the truth: after a restart no old job goes on.
        _clear(consortium.engine, "jobs", "snapshots", "transfer")
        for run in (consortium.path / "runs").iterdir():
            remote.mark_interrupted(run)
        members.announce(consortium)
        kits.write_local(consortium.engine, kits.center_resources(consortium.engine), kits.AT_THE_CENTER)
        _run(lambda: _center(consortium), consortium.engine)


def warn_before_expiry(days: int, what: str, command: str) -> None:
    """Say it in time."""
    if days < pki.DAYS_TO_WARN:
        print(f"note: {what} expires in {days} days; renew it with '{command}'", file=sys.stderr)


def meet_center(member: Membership) -> None:
    """Find out by one TLS handshake whether both ends trust each other; a center that is not up yet is no error."""
    startup = member.engine / "startup"
    context = ssl.create_default_context(cafile=startup / "rootCA.pem")
    context.load_cert_chain(startup / "client.crt", startup / "client.key")
    context.set_alpn_protocols(["h2"])
    try:
        with (
            socket.create_connection((member.host, member.port), timeout=5) as plain,
            context.wrap_socket(plain, server_hostname=member.host) as secure,
        ):
            secure.settimeout(2)
            with contextlib.suppress(TimeoutError):
                if not secure.recv(1):  # in TLS 1.3 the other end refuses after the handshake, gRPC without a word
                    raise ssl.SSLError("closed", "certificate not accepted")
    except ssl.SSLCertVerificationError as error:
        raise InputError(
            f"{member.party}: center {member.host}:{member.port} shows a certificate of another CA or host "
            f"({error.verify_message}); check the address, or ask for a new invitation"
        ) from error
    except ssl.SSLError as error:
        raise InputError(
            f"{member.party}: center {member.host}:{member.port} refuses this party's certificate; "
            "join again with an invitation of that center"
        ) from error
    except OSError:
        print(f"{member.party}: no center at {member.host}:{member.port} yet; trying again", flush=True)


def check_port_is_free(consortium: Consortium) -> None:
    """NVFlare would wait for the port for ever, without a word."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", consortium.port))
        except OSError as error:
            raise InputError(
                f"port {consortium.port} cannot be used ({error.strerror}); stop what listens there, "
                f"or change 'port' in consortium.toml and send the new invitations"
            ) from error


@contextlib.contextmanager
def alone(engine: Path) -> Iterator[None]:
    """One process a folder."""
    with (engine / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"{engine.parent}: is running already; stop that process first") from error
        yield


def _party(member: Membership) -> None:
    from nvflare.private.fed.app.client import client_train

    from dkpca.network.nvflare import connections, inner, routes

    inner.make(member.engine, member.party)
    inner.use(member.engine)
    routes.at_a_party(member.party)
    hardening.remove_processors(member.engine)
    connections.retry_soon()
    connections.explain_refusals(member.party)
    connections.watch_heartbeats(member.party)
    client_train.main(
        argparse.Namespace(
            workspace=str(member.engine),
            fed_client="fed_client.json",
            local_rank=0,
            set=[
                "secure_train=true",
                f"uid={member.party}",
                f"org={member.party}",
                "config_folder=config",
                f"heart_beat_interval={kits.HEARTBEAT_SECONDS}",
            ],
        )
    )


def _center(consortium: Consortium) -> None:
    from nvflare.private.fed.app.server import server_train

    from dkpca.network.nvflare import connections, endings, inner, routes, site

    inner.make(consortium.engine, kits.CENTER)
    inner.use(consortium.engine)
    routes.at_the_center()
    _look_often()
    connections.one_for_each_name()
    endings.cost_one_answer(consortium.engine)
    endings.note_refusals(consortium.engine)
    site.address = f"{consortium.host}:{consortium.port}"
    server_train.main(
        argparse.Namespace(
            workspace=str(consortium.engine),
            fed_server="fed_server.json",
            set=["secure_train=true", f"org={kits.CENTER}", "config_folder=config"],
        )
    )


def _look_often() -> None:
    """NVFlare looks once a second for jobs that are new and for jobs that have ended; look five times."""
    from nvflare.private.fed.server import job_runner

    job_runner.time = SimpleNamespace(
        time=time.time, monotonic=time.monotonic, sleep=lambda seconds: time.sleep(min(seconds, 0.2))
    )


def _run(main: Callable[[], None], engine: Path) -> NoReturn:
    """Run NVFlare's main; end this process and all it started, whatever happens."""
    from dkpca.network.nvflare import site

    signal.signal(signal.SIGTERM, _interrupt)
    signal.signal(signal.SIGINT, _interrupt)
    os.environ.setdefault("GRPC_VERBOSITY", "INFO")  # or a refused handshake is not in any log
    site.terminal = os.dup(1)
    with (engine / "console.txt").open("ab") as console:  # what NVFlare and gRPC print past their logs
        os.dup2(console.fileno(), 1)
        os.dup2(console.fileno(), 2)
    try:
        main()
    except KeyboardInterrupt:
        _end(site.exit_code)
    except BaseException:  # noqa: BLE001  whatever it is, the children must not survive it
        traceback.print_exc()
    site.say(f"the engine has stopped; see {engine / 'console.txt'} and log.txt beside it")
    _end(1)


def _end(code: int) -> NoReturn:
    import psutil

    from dkpca.network.nvflare import site

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children = psutil.Process().children(recursive=True)
    for child in children:
        with contextlib.suppress(psutil.NoSuchProcess):
            child.kill()
    goodbye = threading.Thread(target=_say_goodbye, args=(site.PartyReporter.client,), daemon=True)
    goodbye.start()
    goodbye.join(timeout=2)
    psutil.wait_procs(children, timeout=3)
    if site.starts_anew:
        _start_anew(site.terminal)
    os._exit(code)


def _start_anew(terminal: int) -> NoReturn:
    """Run the same command again in this process; nothing of its former life is left open."""
    os.dup2(terminal, 1)
    os.dup2(terminal, 2)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _say_goodbye(client: Any) -> None:
    """Free the party's name at the center now instead of after thirty seconds of silence."""
    if client is not None and client.token:
        with contextlib.suppress(Exception):
            client.close()


def _clear(engine: Path, *folders: str) -> None:
    """Remove what a previous life left; logs stay."""
    for path in engine.iterdir():
        if path.is_dir() and (path.name in folders or kits.JOB_NUMBER.fullmatch(path.name)):
            shutil.rmtree(path)
    for name in folders:
        storage.make_directory(engine / name)


def _interrupt(*_: object) -> NoReturn:
    raise KeyboardInterrupt
