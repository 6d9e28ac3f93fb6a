"""Real processes with mutual TLS: who is let in, and what is left to whom."""

import shutil
import subprocess
import sys
import time

import psutil
import pytest

from dkpca.errors import InputError
from dkpca.network.nvflare import consortium as members
from dkpca.network.nvflare import hardening, launch
from tests.network.federation import CARELESS, environment, refused, wait_for

pytestmark = pytest.mark.network


@pytest.fixture
def careless(federate):
    """Start NVFlare's client in a folder under any name; ended with the test."""
    started = []

    def start(engine, name):
        home = engine.parents[1] / "home"
        words = (engine / "console.txt").open("ab")
        command = [sys.executable, "-c", CARELESS, str(engine), name]
        started.append(
            subprocess.Popen(command, env=environment(home), stdout=words, stderr=words, start_new_session=True)
        )
        words.close()

    yield start
    for process in started:
        process.kill()
        process.wait(10)


def log_of(engine) -> str:
    names = ("log.txt", "console.txt")
    return "".join((engine / name).read_text(errors="replace") for name in names if (engine / name).exists())


def test_a_second_site_with_one_name_is_refused_and_the_first_keeps_working(federate):
    f = federate(["airline"]).start()
    twin = f.copy("airline", "twin").start()
    twin.wait_said("another site with the name 'airline' is connected")
    assert twin.wait_ended() == 1
    assert "another site with the name 'airline' is connected" in twin.log()
    assert "refused a connection: another site with the name 'airline'" in f.center.log()
    first = f.party("airline")
    quiet = f.center.said()
    heartbeat = time.monotonic()
    wait_for(lambda: time.monotonic() - heartbeat > 5, "two heartbeats")
    assert first.running
    assert "airline is gone" not in f.center.said()
    assert f.center.said() == quiet
    first.kill()
    f.copy("airline", "successor").start().wait_connected(30)


def test_one_folder_is_served_by_one_process(federate):
    f = federate(["airline"])
    f.party("airline").start().wait_said("no center at")
    wait_for(lambda: (f.path / "airline/engine/lock").exists(), "the lock")
    wait_for(lambda: (f.path / "airline/engine/console.txt").exists(), "the engine")
    assert "is running already" in refused("party", "start", "airline", cwd=f.path)


def test_a_party_of_another_ca_is_refused_at_tls(federate):
    f, foreign = federate(["airline"]), federate(["airline"], "g")
    f.center.start().wait_connected()
    # The foreign party trusts our center's CA, but its own certificate is another CA's.
    shutil.copy(f.path / "airline/invitation.toml", foreign.path / "airline/invitation.toml")
    for file in ("rootCA.pem", "fed_client.json"):
        shutil.copy(f.path / "airline/engine/startup" / file, foreign.path / "airline/engine/startup" / file)
    assert "not signed by the CA of the invitation" in refused("party", "start", "airline", cwd=foreign.path)
    with pytest.raises(InputError, match="refuses this party's certificate"):
        launch.meet_center(members.membership(foreign.path / "airline"))
    wait_for(lambda: "CERTIFICATE_VERIFY_FAILED" in f.center.log(), "the center's log of the refused handshake")
    assert "airline is connected" not in f.center.said()


def test_a_center_of_another_ca_is_refused(federate):
    f, foreign = federate(["airline"]), federate(["airline"], "g")
    foreign.center.start().wait_connected()
    for path in (f.path / "airline/invitation.toml", f.path / "airline/engine/startup/fed_client.json"):
        path.write_text(path.read_text().replace(str(f.port), str(foreign.port)))
    assert "certificate of another CA" in refused("party", "start", "airline", cwd=f.path)


def test_a_certificate_under_another_partys_name_is_refused(federate, careless):
    f = federate()
    f.center.start().wait_connected()
    engine = f.path / "airline" / "engine"
    assert "made out to 'weather'" in _start_with_certificate_of(f, "weather", "airline")
    shutil.copytree(engine, f.path / "thief" / "engine")
    for file in ("startup/fed_client.json", "local/resources.json"):
        path = f.path / "thief/engine" / file
        path.write_text(path.read_text().replace('"airline"', '"weather"').replace("10.0", "2.0"))
    careless(f.path / "thief" / "engine", "weather")
    wait_for(lambda: "claimed endpoint 'weather' requires identity 'weather'" in f.center.log(), "the center's log")
    wait_for(lambda: "could not register" in log_of(f.path / "thief/engine"), "the party's log")
    assert "weather is connected" not in f.center.said()


def _start_with_certificate_of(f, other, party) -> str:
    shutil.copytree(f.path / party, f.path / "dressed")
    for file in ("client.crt", "client.key"):
        shutil.copy(f.path / other / "engine/startup" / file, f.path / "dressed/engine/startup" / file)
    return refused("party", "start", "dressed", cwd=f.path)


def test_a_port_in_use_is_said_and_not_waited_for(federate):
    f = federate(["airline"])
    f.center.start().wait_connected()
    shutil.copytree(f.path / "center", f.path / "second")
    assert f"port {f.port} cannot be used" in refused("center", "start", "second", cwd=f.path)


def test_a_restarted_center_forgets_the_jobs_of_its_former_life(federate):
    f = federate(["airline"])
    engine = f.path / "center" / "engine"
    for stale in ("jobs/old/data", "snapshots/old", "0f5b1a52-3ad6-4f3f-9a83-8fd7d1d7a3ce/app_server"):
        (engine / stale).mkdir(parents=True)
    f.center.start().wait_connected()
    assert not list((engine / "jobs").iterdir())
    assert not list((engine / "snapshots").iterdir())
    assert not list(engine.glob("0f5b*"))


def test_only_the_processors_our_jobs_need_are_left():
    ran = subprocess.run(
        [
            sys.executable,
            "-c",
            "from pathlib import Path; from dkpca.network.nvflare import hardening\n"
            "hardening.remove_processors(Path())\n"
            "from nvflare.private.fed.app.deployer.base_client_deployer import BaseClientDeployer as D\n"
            "print(sorted(type(p).__name__ for p in D().req_processors))",
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ran.stdout.strip() == str(sorted(hardening.NEEDED - {"DeployProcessor"} | {"OnlyOurJobs"}))
    assert "ShellCommandProcessor" not in ran.stdout


JOB = """
import os, threading, time
from dkpca.network.nvflare import job
threading.Thread(target=job._end_with, args=(os.getppid(),), daemon=True).start()
time.sleep(60)
"""
SITE = f"""
import subprocess, sys
job = subprocess.Popen([sys.executable, '-c', {JOB!r}])
print(job.pid, flush=True)
job.wait()
"""


def test_a_job_process_ends_when_its_site_is_killed():
    site = subprocess.Popen([sys.executable, "-c", SITE], stdout=subprocess.PIPE, text=True, start_new_session=True)
    with site:
        job = psutil.Process(int(site.stdout.readline()))
        wait_for(lambda: job.num_threads() > 1, "the watching thread")
        site.kill()
        wait_for(lambda: not job.is_running() or job.status() == "zombie", "the end of the job", 5)
