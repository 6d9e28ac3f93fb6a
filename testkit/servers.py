"""Real servers for folders: OpenSSH's sshd and rclone's WebDAV; moto as a stand-in for S3."""

import contextlib
import getpass
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

PATIENCE = 30.0  # seconds


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def served(command: list[str], port: int, log: Path, **environment: str) -> Iterator[None]:
    """A server process, from when it listens to the end."""
    with log.open("wb") as told:
        process = subprocess.Popen(command, stdout=told, stderr=told, env=os.environ | environment)
        try:
            ends = time.monotonic() + PATIENCE
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                assert process.poll() is None, log.read_text()
                assert time.monotonic() < ends, f"no server on port {port}"
            yield
        finally:
            process.terminate()
            process.wait(PATIENCE)


@contextlib.contextmanager
def sftp(root: Path, home: Path) -> Iterator[str]:
    """OpenSSH's server; `home` becomes the client's home folder, with its key and known_hosts."""
    port, ssh = free_port(), home / ".ssh"
    ssh.mkdir(parents=True, mode=0o700)
    for name in ("id_ed25519", "host"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(ssh / name)], check=True)
    shutil.copy(ssh / "id_ed25519.pub", ssh / "authorized_keys")
    (ssh / "known_hosts").write_text(f"[127.0.0.1]:{port} {(ssh / 'host.pub').read_text()}")
    settings = {
        "Port": port,
        "ListenAddress": "127.0.0.1",
        "HostKey": ssh / "host",
        "AuthorizedKeysFile": ssh / "authorized_keys",
        "StrictModes": "no",
        "UsePAM": "no",
        "PidFile": "none",
        "PasswordAuthentication": "no",
        "Subsystem": "sftp internal-sftp",
    }
    (home / "sshd_config").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd of root wants it
    command = [shutil.which("sshd") or "/usr/sbin/sshd", "-D", "-e", "-f", str(home / "sshd_config")]
    with served(command, port, home / "sshd.log"):
        yield f"sftp://{getpass.getuser()}@127.0.0.1:{port}{root}"


@contextlib.contextmanager
def webdav(root: Path, log: Path, user: str = "", password: str = "") -> Iterator[str]:
    """WebDAV by rclone, with a password or without."""
    port = free_port()
    command = ["rclone", "serve", "webdav", str(root), "--addr", f"127.0.0.1:{port}", "--dir-cache-time", "0s"]
    command += ["--user", user, "--pass", password] if user else []
    with served(command, port, log, RCLONE_CONFIG="/dev/null"):
        yield f"webdav+http://127.0.0.1:{port}"


@contextlib.contextmanager
def s3(log: Path) -> Iterator[tuple[str, str]]:
    """A stand-in for S3: moto's server. A URL of a bucket, and the endpoint."""
    port = free_port()
    with served([str(Path(sys.executable).parent / "moto_server"), "-H", "127.0.0.1", "-p", str(port)], port, log):
        yield "s3://studies/one", f"http://127.0.0.1:{port}"
