"""A center and three parties as processes: what people do with them, what goes wrong; nothing received is lost."""

import base64
import contextlib
import http.server
import json
import os
import shutil
import signal
import socket
import socketserver
import struct
import subprocess
import threading
import time
from dataclasses import replace
from functools import partial

import numpy as np
import psutil
import pytest

from dkpca import DKPCA
from dkpca.errors import DKPCAError
from dkpca.kernels import Kernel
from dkpca.network import approvals, submit
from dkpca.network import membership as members
from dkpca.network import x509 as pki
from dkpca.network.jobs import FitWanted
from dkpca.store import ledger, runs
from testkit.by_hand import FIT, scores
from testkit.federation import Site, asked, configure, free_port, listens, ok, refused, status, wait_for
from testkit.owners import OWNERS, numbers, standardized

pytestmark = [pytest.mark.network, pytest.mark.slow]

MARKER, MARKED_ID, MARKED_COLUMN = 481516.234275, "Zaphod-Beeblebrox-42", "heart_of_gold"


def fit(federation, run, *, gamma=0.05, timeout=60.0, **options) -> str:
    """What 'dkpca submit fit' does, without the start of a program; return why it failed, empty if it did not."""
    job = FitWanted(run=run, fit=replace(FIT, gamma=gamma), timeout=timeout, **options)
    try:
        number = submit.submit(federation.consortium, job)
        submit.follow(federation.consortium, job, number, told=lambda _: None)
    except DKPCAError as error:
        return str(error)
    return ""


def stands(federation, run) -> dict:
    return json.loads((federation.runs / run / "exchange.json").read_text())


@contextlib.contextmanager
def fitting(federation, run, **options):
    """A fit that goes on while the test does something; yields a list that holds why it failed at the end."""
    ended = []
    thread = threading.Thread(target=lambda: ended.append(fit(federation, run, **options)))
    thread.start()
    try:
        yield ended
    finally:
        thread.join()


@contextlib.contextmanager
def configured(federation, party, **more):
    """Other settings of a party while the test does something."""
    configure(federation.path / party, "people.csv", **more)
    try:
        yield
    finally:
        configure(federation.path / party, "people.csv")


def test_a_waiting_party_is_a_small_process_with_no_open_port(running):
    party = running.party("bank")
    party.stop()
    party.start(as_program=True).wait_connected()
    process = psutil.Process(party.pid)
    assert process.memory_info().rss < 60e6
    assert not [c for c in process.net_connections() if c.status == psutil.CONN_LISTEN]


def test_a_fit_a_projection_and_their_traces_at_both_ends(running):
    ok("submit", "fit", "center", "first", "--gamma", 0.05, "--rank", 20, "--components", 3, cwd=running.path)
    ok("submit", "project", "center", "first", "spring", cwd=running.path)
    at_center = ledger.records(running.runs / "first" / "ledger.jsonl")
    for owner in OWNERS:
        book = running.party(owner).ledger()
        (written,) = [r for r in book if r["event"] == "written" and r["kind"] == "summary"]
        received = next(r for r in at_center if r["event"] == "received" and r["party"] == owner)
        assert written["sha256"] == received["sha256"]
        assert written["number"] == received["number"]
        assert (written["n_samples"], len(written["sample_digest"])) == (60, 64)
        sent = next(r for r in book if r["event"] == "sent" and r["number"] == written["number"])
        assert sent["bytes_left"] == sent["bytes"] == written["bytes"]
        assert sent["outcome"] == "accepted"
        ledger.verify(running.path / owner / ledger.NAME, received["party_ledger"])  # the center's receipt
        assert (running.path / owner / "runs" / "first" / "new" / "spring" / "embedding.csv").exists()
    assert status(running, "first")[0] == 0
    shown = ok("ledger", "show", "bank", cwd=running.path)
    assert "written" in shown
    assert "unaltered; head" in ok("ledger", "verify", "bank", cwd=running.path)


def test_an_audit_asks_every_party_and_is_kept_at_both_ends(running):
    ok("submit", "fit", "center", "audited", "--gamma", 0.05, "--rank", 10, "--components", 3, cwd=running.path)
    told = ok("submit", "audit", "center", "audited", "--rows", 30, "--seed", 5, cwd=running.path)
    assert "An audit of 30 true rows (seed 5) proves, each at 95%" in told
    certificate = json.loads((running.runs / "audited" / "certificate.json").read_text())
    assert certificate["audit"]["n_rows"] == 30
    for owner in OWNERS:
        (written,) = [
            r for r in running.party(owner).ledger() if r.get("kind") == "auditrows" and r["event"] == "written"
        ]
        assert (written["run"], written["seed"]) == ("audited", 5)
    with configured(running, "bank", policy="max_audits = 1\n"):
        told = refused("submit", "audit", "center", "audited", "--rows", 30, "--seed", 6, cwd=running.path)
    assert "bank: refused by the party's policy: it has answered max_audits = 1 audits" in told


def test_every_party_may_have_a_kernel_of_its_own(running):
    """A sum of different kernels, balanced, over HTTPS: the same as in one process."""
    kernel: dict[str, str | Kernel] = {"bank": "laplacian", "clinic": "overlap", "shop": "poly"}
    wanted = ("--kernel", "bank=laplacian", "--kernel", "clinic=overlap", "--kernel", "shop=poly", "--law", "sum")
    ok("submit", "fit", "center", "mixed", *wanted, "--weights", "balanced", "--rank", 20, "--components", 3,
       "--gamma", 0.05, cwd=running.path)  # fmt: skip
    ok("submit", "project", "center", "mixed", "spring", cwd=running.path)
    tables = {owner: standardized(X) for owner, X in numbers().items()}
    model = DKPCA(3, kernel=kernel, law="sum", weights="balanced", gamma=0.05, rank=20).fit(tables)
    run = runs.load(running.runs / "mixed")
    assert run.model.meaning == "the sum of the parties' kernels"
    np.testing.assert_allclose(run.model.eigenvalues, model.eigenvalues_, rtol=1e-9)
    new = {owner: (X[:7] + 0.1 - X.mean(0)) / X.std(0) for owner, X in numbers().items()}
    placed = scores(running.runs / "mixed" / "new" / "spring")
    np.testing.assert_allclose(np.abs(placed), np.abs(model.transform(new)), atol=1e-5)


def test_every_fault_in_one_run_is_named_and_the_repeated_command_completes(running):
    """One party stopped by a signal, one whose worker dies, one that refuses; then all is well again."""
    stopped, killed = running.party("bank"), running.party("shop")
    assert fit(running, "warm") == ""
    (running.path / "clinic" / "policy.toml").write_text("max_rank = 19\n")
    os.kill(stopped.pid, signal.SIGSTOP)
    (worker,) = killed.workers()
    worker.suspend()
    with fitting(running, "second", timeout=5.0) as ended:
        wait_for(lambda: '"run": "second"' in (killed.path / "events.jsonl").read_text(), "question")
        worker.kill()
    os.kill(stopped.pid, signal.SIGCONT)
    (ran,) = ended
    reasons = {party: at.get("reason", "") for party, at in stands(running, "second")["parties"].items()}
    assert reasons["bank"] == "no answer within 5 s"
    assert "rank 20 is more than max_rank = 19" in reasons["clinic"]
    assert "its worker was killed" in reasons["shop"]
    assert all(party in ran for party in OWNERS)
    (running.path / "clinic" / "policy.toml").write_text("max_rank = 64\n")
    assert fit(running, "second") == ""
    assert sorted(runs.load(running.runs / "second").model.summaries) == sorted(OWNERS)
    for owner in OWNERS:
        running.party(owner).ledger()


def test_a_person_approves_by_command_also_while_the_party_is_off(running):
    bank = running.party("bank")
    with configured(running, "bank", approval=True), fitting(running, "third") as ended:
        (number,) = wait_for(lambda: approvals.waiting(bank.path), "question that waits")
        assert "SummaryWanted" in ok("party", "approve", "bank", cwd=running.path)
        wait_for(lambda: "has to approve" in json.dumps(stands(running, "third")), "center being told")
        bank.stop()
        assert "approved" in ok("party", "approve", "bank", number, cwd=running.path)
        bank.start()
    assert ended == [""]
    wait_for(lambda: not list((bank.path / "approvals").iterdir()), "the question being forgotten")


class Proxy(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """A site's HTTPS proxy: it connects where it is told, and passes on what it cannot read."""

    allow_reuse_address, daemon_threads = True, True
    asked = ()


class Tunnel(http.server.BaseHTTPRequestHandler):
    def do_CONNECT(self):
        self.server.asked += (self.path,)  # type: ignore[attr-defined]
        host, _, port = self.path.partition(":")
        with socket.create_connection((host, int(port))) as away:
            self.send_response(200)
            self.end_headers()
            back = threading.Thread(target=self.copy, args=(away, self.connection), daemon=True)
            back.start()
            self.copy(self.connection, away)
            back.join()

    @staticmethod
    def copy(source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(2**16):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)

    def log_message(self, *_):
        pass


def test_a_party_behind_a_proxy_reaches_the_center_without_a_restart(running):
    with Proxy(("127.0.0.1", 0), Tunnel) as proxy:
        threading.Thread(target=proxy.serve_forever, daemon=True).start()
        configure(running.path / "shop", "people.csv", proxy=f"http://127.0.0.1:{proxy.server_address[1]}")
        assert fit(running, "proxied") == ""  # the poll that is open ends with this question
        assert fit(running, "proxied-2") == ""
        assert set(proxy.asked) == {f"127.0.0.1:{running.port}"}
        configure(running.path / "shop", "people.csv")
        assert fit(running, "direct") == ""
        proxy.shutdown()
    assert fit(running, "direct-2") == ""


def test_another_process_for_the_same_folder_or_port_is_refused_in_words(running, federate):
    assert "is running already" in refused("party", "start", "bank", cwd=running.path, timeout=60)
    again = Site("center", "center", running.path / "center", running.home)
    other = federate(["bank"], "other")
    record = other.path / "center" / "consortium.toml"
    record.write_text(record.read_text().replace(f"port = {other.port}", f"port = {running.port}"))
    for site, words in ((again, "is running already"), (other.center, f"port {running.port} cannot be used")):
        site.terminal = other.path / "words"
        assert site.start().wait_ended() == 1
        assert words in site.said()


def test_a_renewed_certificate_is_used_without_a_restart_and_a_revoked_one_is_not(running):
    member = members.membership(running.path / "shop")
    members.renew(member)
    running.admit("shop")
    members.revoke(running.consortium, "clinic")
    running.party("clinic").wait_said("was revoked")
    ran = fit(running, "without-clinic", timeout=20.0, join_timeout=0.0)
    assert "no summary from ['clinic'] (clinic: it is not connected)" in ran
    members.renew(members.membership(running.path / "clinic"))
    running.admit("clinic")
    assert fit(running, "without-clinic") == ""
    serials = {pki.from_pem((running.path / o / "tls" / "own.crt").read_bytes(), "").serial_number for o in OWNERS}
    listed = members.revocations(running.path / "bank", member.ca)
    assert listed[0] == 2
    assert not serials & listed[1]


def test_all_processes_are_restarted_in_the_middle_of_a_run_and_it_goes_on(running):
    """No command is repeated: the center resumes, the parties find it, the command that waits sees the end."""
    assert fit(running, "warm-again", gamma=0.04) == ""
    (worker,) = running.party("bank").workers()
    worker.suspend()
    with fitting(running, "resumed") as ended:
        messages = running.runs / "resumed" / "messages"
        wait_for(lambda: len(list(messages.glob("*.summary"))) == 2, "two answers")
        for site in running.sites:
            site.kill()
        for site in reversed(running.sites):
            site.start()
    assert ended == [""]
    for owner in OWNERS:
        book = [r for r in running.party(owner).ledger() if r.get("run") == "resumed"]
        assert len([r for r in book if r["event"] in ("written", "repeated") and r["kind"] == "summary"]) == 1
    assert [sorted(parties) for parties in asked(running, "resumed")][:2] == [list(OWNERS), ["bank"]]
    assert "going on with run resumed" in running.center.said()


def test_a_certificate_that_expires_while_all_run_ends_the_party_and_a_renewed_one_brings_it_back(running):
    members.renew(members.membership(running.path / "shop"))
    running.admit("shop", days=5 / 86400)
    fit(running, "expiring")  # the poll that is open ends with this question; it may end well or not
    running.party("shop").wait_said("it refuses")
    ran = fit(running, "expired", timeout=20.0, join_timeout=0.0)
    assert "no summary from ['shop'] (shop: it is not connected)" in ran
    members.renew(members.membership(running.path / "shop"))
    running.admit("shop")
    assert fit(running, "expired") == ""


def test_a_center_that_is_stopped_until_all_have_given_it_up_comes_back_to_its_parties(running):
    """Longer than any poll lasts; nobody ends, nothing is started again."""
    os.kill(running.center.pid, signal.SIGSTOP)
    assert listens(running.port)  # the kernel still takes connections
    for party in running.parties.values():
        party.wait_said("does not answer in time")
    os.kill(running.center.pid, signal.SIGCONT)
    assert fit(running, "after-stop") == ""


def test_a_center_at_another_address_is_found_by_parties_that_run(running):
    running.center.stop()
    record, running.port = running.path / "center" / "consortium.toml", free_port()
    old = running.consortium.port
    record.write_text(record.read_text().replace(f"port = {old}", f"port = {running.port}"))
    running.center.start().wait_connected()
    running.consortium = members.load(running.path / "center")
    for owner in OWNERS:
        invitation = running.path / "center" / "invitations" / f"{owner}.toml"
        shutil.copy(invitation, running.path / owner / "invitation.toml")
        running.party(owner).wait_said(f"connected to center 127.0.0.1:{running.port}")
    assert fit(running, "elsewhere") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small file system takes root: sudo make test")
@pytest.mark.parametrize("where", ["center", "party"])
def test_a_full_disk_is_said_and_the_next_command_works(running, where):
    folder = running.runs if where == "center" else running.path / "bank" / "runs"
    kept = running.path / "kept"
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={20 if where == 'center' else 1}m", "tmpfs", str(folder)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no mount here: {mounted.stderr.decode().strip()}; run where mounting is allowed")
    try:
        filler = folder / "filler"
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(bytes(2**16))
        ran = fit(running, f"full-{where}", timeout=20.0)
        assert "full" in ran or "cannot be read or written" in ran
        filler.unlink()
        assert fit(running, f"full-{where}") == ""
    finally:
        shutil.rmtree(kept, ignore_errors=True)
        subprocess.run(["umount", "-l", str(folder)], check=True)
    running.party("bank").ledger()


def test_nothing_of_the_raw_data_is_outside_the_partys_folder(running):
    """After a success and a failure with marked data: search every file of the center, in every encoding."""
    table = running.path / "shop" / "people.csv"
    lines = table.read_text().splitlines()
    header = lines[0].replace("x2", MARKED_COLUMN)
    marked = lines[1].replace("p00", MARKED_ID).split(",")
    marked[2] = repr(MARKER)
    for row, code in ((",".join(marked), 0), (",".join([marked[0], f"text {MARKED_ID}", *marked[2:]]), 1)):
        table.write_text("\n".join([header, row, *lines[2:]]) + "\n")
        for owner in ("bank", "clinic"):
            other = (running.path / owner / "people.csv").read_text().replace("p00", MARKED_ID)
            (running.path / owner / "people.csv").write_text(other)
        ran = fit(running, f"marked-{code}")
        assert bool(ran) == code, ran
        assert not any(needle in ran.encode() for needle in NEEDLES)
    assert "shop: cannot answer" in ran
    assert MARKED_ID in (running.path / "shop" / "dkpca-ledger.jsonl").read_text()
    searched = 0
    for path in (running.path / "center").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            searched += 1
            assert not [needle for needle in NEEDLES if needle in data], path
    assert searched > 30
    assert any(needle in table.read_bytes() for needle in NEEDLES)


def _needles() -> list[bytes]:
    words = [repr(MARKER), f"{MARKER:.3f}", f"{MARKER:e}"[:8], MARKED_ID, MARKED_COLUMN]
    plain = [word.encode() for word in words] + [word.encode("utf-16-le") for word in words]
    values = [struct.pack(kind, MARKER) for kind in ("<d", ">d", "<f", ">f")]
    hexed = [data.hex().encode() for data in [*plain, *values]]
    # The text may begin at any of three places of a base64 group: leave out what depends on its neighbors.
    coded = [base64.b64encode(b" " * shift + data)[4 if shift else 0 : -4] for data in plain for shift in range(3)]
    return [*plain, *values, *hexed, *coded]


NEEDLES = _needles()


def passed(end: float, ended: list[str]) -> bool:
    return bool(ended) or time.monotonic() > end


def test_sixteen_kills_at_random_moments_cost_at_most_one_repeat(running):
    """Any process, at any moment of a fit; the same command completes, and no party wrote a message twice."""
    rng, kills, names = np.random.default_rng(5), 0, list[str]()
    table = running.path / "shop" / "people.csv"
    table.write_text(table.read_text().replace(f",text {MARKED_ID},", ",1.5,"))
    while kills < 16:
        names.append(f"kill-{len(names)}")
        gamma = 0.11 + 0.01 * len(names)
        with fitting(running, names[-1], gamma=gamma) as ended:
            for _ in range(4):
                victim = running.sites[int(rng.integers(len(running.sites)))]
                end = time.monotonic() + float(rng.uniform(0.0, 0.2))
                wait_for(partial(passed, end, ended), "the moment")
                if not ended:
                    victim.kill()
                    victim.start()
                    kills += 1
        assert ended == [""] or fit(running, names[-1], gamma=gamma) == ""
        assert sorted(runs.load(running.runs / names[-1]).model.summaries) == sorted(OWNERS)
    for owner in OWNERS:
        book = running.party(owner).ledger()
        for run in names:
            assert len([r for r in book if r["event"] == "written" and r.get("run") == run]) == 1
