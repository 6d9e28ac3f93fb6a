"""A consortium is made of public files; private keys stay where they were made; what is wrong is refused."""

import asyncio
import base64
import gc
import re
import shutil
import socket
import stat
import subprocess
import sys
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dkpca.errors import InputError
from dkpca.network import membership as members
from dkpca.network import serving
from dkpca.network import x509 as pki
from testkit.federation import HOST, listens, ok, refused

pytestmark = pytest.mark.network

TABLE = "flight,a,b\n" + "".join(f"f{i},{i},{i * i}\n" for i in range(120))


def mode(path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_two_organizations_found_a_consortium_by_commands(tmp_path):
    said = ok("consortium", "init", "center", "--host", "127.0.0.1", "--party", "airline", cwd=tmp_path)
    ca = re.search(r"fingerprint of the CA.*: ([0-9a-f ]+)", said).group(1)
    said = ok("party", "join", "center/invitations/airline.toml", "airline", "--id", "flight", cwd=tmp_path)
    assert ca in said
    key = re.search(r"key, to read out: ([0-9a-f ]+)", said).group(1)
    arguments = ("consortium", "approve", "center", "airline/airline.request", "--out", "airline.admission")
    assert "not 1234" in refused(*arguments, "--fingerprint", "1234", cwd=tmp_path)
    assert key in ok(*arguments, "--fingerprint", key, cwd=tmp_path)
    assert "not admitted yet" in refused("party", "start", "airline", cwd=tmp_path)
    assert "admitted for" in ok("party", "admit", "airline", "airline.admission", cwd=tmp_path)
    assert "airline.csv: there is no such file" in refused("party", "check", "airline", cwd=tmp_path)
    (tmp_path / "airline" / "airline.csv").write_text(TABLE)
    said = ok("party", "check", "airline", cwd=tmp_path)
    assert said.count("ok: ") == 5
    assert "120 samples, 2 columns; 0 of 5 fits answered" in said
    assert 'id = "flight"' in (tmp_path / "airline" / "party.toml").read_text()


def test_what_travels_holds_no_private_key_and_private_files_are_private(federate):
    f = federate(["airline"])
    for travels in ("airline/airline.request", "airline.admission", "center/invitations/airline.toml"):
        assert "PRIVATE" not in (f.path / travels).read_text()
    keys = list(f.path.rglob("*.key"))
    assert len(keys) == 4  # CA, center, operator, party
    assert {mode(key) for key in keys} == {0o600}
    holders = [path for path in f.path.rglob("*") if path.is_file() and b"PRIVATE KEY" in path.read_bytes()]
    assert sorted(holders) == sorted(keys)


def test_an_altered_admission_is_refused(federate):
    f = federate(["airline"])
    admission = f.path / "airline.admission"
    lines = admission.read_text().splitlines()
    middle = len(lines) // 2
    lines[middle] = lines[middle][::-1]
    admission.write_text("\n".join(lines))
    assert "airline.admission" in refused("party", "admit", "airline", "airline.admission", cwd=f.path)


def test_an_admission_of_another_name_key_or_center_is_refused(federate):
    f = federate()
    airline = members.membership(f.path / "airline")
    with pytest.raises(InputError, match="admits 'weather', not 'airline'"):
        members.admit(airline, f.path / "weather.admission")
    members.join(f.path / "center" / "invitations" / "airline.toml", f.path / "again")
    with pytest.raises(InputError, match="is for another key"):
        members.admit(members.membership(f.path / "again"), f.path / "airline.admission")
    foreign = federate(["airline"], "g")
    with pytest.raises(InputError, match="not signed by the CA of the invitation"):
        members.admit(airline, foreign.path / "airline.admission")


def test_a_request_under_a_name_that_is_not_on_the_roster_is_refused(federate, tmp_path):
    f = federate(["airline"])
    request = tmp_path / "spy.request"
    request.write_bytes(pki.to_pem(pki.new_request("spy", pki.new_key())))
    said = refused("consortium", "approve", "center", request, "--out", "spy.admission", cwd=f.path)
    assert "'spy' is not on the roster ['airline']" in said
    assert not (f.path / "spy.admission").exists()


def test_an_altered_request_is_refused(federate):
    f = federate(["airline", "weather"])
    data = pki.to_pem(pki.new_request("airline", pki.new_key()))
    der = bytearray(base64.b64decode("".join(data.decode().splitlines()[1:-1])))
    der[-1] ^= 1
    text = base64.b64encode(bytes(der)).decode()
    request = f.path / "altered.request"
    request.write_text(f"-----BEGIN CERTIFICATE REQUEST-----\n{text}\n-----END CERTIFICATE REQUEST-----\n")
    with pytest.raises(InputError, match=r"signature is wrong|not a certificate request"):
        members.approve(f.consortium, request, f.path / "out", days=1)


@pytest.mark.parametrize("name", ["a.b", "center", "../up", "", "Operator", "a b", "-x"])
def test_names_that_are_taken_or_no_names_are_refused(tmp_path, name):
    with pytest.raises(InputError, match="cannot be used"):
        members.init(tmp_path / "c", name="dkpca", host="127.0.0.1", port=8002, parties=[name], days=1)


def test_a_renewed_certificate_replaces_the_old_one_only_when_installed(federate):
    f = federate(["airline"])
    member = members.membership(f.path / "airline")
    startup = f.path / "airline" / "tls"
    before = (startup / "own.crt").read_bytes(), (startup / "own.key").read_bytes()
    members.renew(member)
    assert ((startup / "own.crt").read_bytes(), (startup / "own.key").read_bytes()) == before
    members.check_certificate(member)
    f.admit("airline", days=365)
    assert (startup / "own.key").read_bytes() != before[1]
    assert members.check_certificate(member) == 364
    assert not (f.path / "airline" / "pending.key").exists()


def test_an_old_admission_does_not_cost_the_key_that_waits_for_a_new_one(federate):
    f = federate(["airline"])
    member = members.membership(f.path / "airline")
    old = shutil.copy(f.path / "airline.admission", f.path / "old.admission")
    members.renew(member)
    with pytest.raises(InputError, match="is for another key than the one that waits"):
        members.admit(member, Path(old))
    f.admit("airline")
    members.check_certificate(member)


def test_an_expired_certificate_is_refused_at_start(federate, monkeypatch):
    f = federate(["airline"])

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(UTC) + timedelta(days=days)

    days = 89
    monkeypatch.setattr(pki, "datetime", Later)
    assert members.check_certificate(members.membership(f.path / "airline")) < pki.DAYS_TO_WARN
    days = 91
    with pytest.raises(InputError, match=r"airline: the certificate expired on .*; renew it"):
        members.check_certificate(members.membership(f.path / "airline"))


def test_a_center_whose_address_or_roster_was_edited_tells_the_parties(federate):
    f = federate(["airline"])
    record = f.path / "center" / "consortium.toml"
    record.write_text(record.read_text().replace(str(f.port), "18123").replace('"airline"', '"airline", "weather"'))
    members.announce(members.load(f.path / "center"))
    text = (f.path / "center" / "invitations" / "airline.toml").read_text()
    assert "18123" in text
    assert str(f.port) not in text
    member, _, _ = members.join(f.path / "center" / "invitations" / "weather.toml", f.path / "weather")
    assert (member.party, member.port) == ("weather", 18123)
    record.write_text(record.read_text().replace("weather", "a.b"))
    with pytest.raises(InputError, match="cannot be used on the network"):
        members.load(f.path / "center")


def test_a_certificate_is_taken_back_by_command_and_the_list_grows(federate):
    f = federate(["airline"])
    assert "revoked 1 certificates of airline; revocation list 2" in ok(
        "consortium", "revoke", "center", "airline", cwd=f.path
    )
    assert "no certificate was issued to 'nobody'" in refused("consortium", "revoke", "center", "nobody", cwd=f.path)
    ca = members.membership(f.path / "airline").ca
    number, revoked = members.revocations(f.path / "center", ca)
    own = pki.from_pem((f.path / "airline" / "tls" / "own.crt").read_bytes(), "")
    assert (number, revoked) == (2, frozenset({own.serial_number}))


def test_party_check_says_what_is_wrong(federate):
    f = federate(["airline"])
    (f.path / "airline" / "airline.csv").write_text(TABLE.replace("flight,", "c,").replace("f", ""))
    ledger = f.path / "airline" / "dkpca-ledger.jsonl"
    ledger.write_text('{"event": "asked", "previous": "' + "0" * 64 + '"}\n{"event": "put in"}\n')
    said = refused("party", "check", "airline", cwd=f.path)
    assert "line 2 does not follow the line before it" in said
    (f.path / "airline" / "policy.toml").write_text("max_rank = 0\n")
    said = refused("party", "check", "airline", cwd=f.path)
    assert "max_rank = 0 cannot be used" in said


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('proxy = "proxy:3128"', "proxy = 'proxy:3128' cannot be used"),
        ("approval = 1", "approval = 1 cannot be used"),
    ],
)
def test_a_mistake_in_party_toml_is_said_at_the_start(federate, line, words):
    f = federate(["airline"])
    file = f.path / "airline" / "party.toml"
    key = line.partition(" ")[0]
    kept = [each for each in file.read_text().splitlines() if not each.startswith(f"{key} =")]
    file.write_text("\n".join([*kept, line]) + "\n")
    assert words in refused("party", "start", "airline", cwd=f.path)


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_a_center_whose_second_port_is_taken_says_so_and_leaves_the_first_one_free(federate):
    federation = federate(["bank"])
    with socket.create_server((HOST, federation.local_port)), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(InputError, match=f"port {federation.local_port} cannot be used"):
            asyncio.run(serving.serve(federation.path / "center", asyncio.Event()))
        gc.collect()
    assert [str(warning.message) for warning in caught] == []
    assert not listens(federation.port)


def test_help_does_not_load_the_network():
    ran = python(
        "import sys; from dkpca.cli import run; run(['--help']); run(['party', '--help'])\n"
        "sys.exit(any(name.partition('.')[0] in ('aiohttp', 'cryptography') for name in sys.modules))"
    )
    assert ran.returncode == 0, ran.stderr


def test_without_the_extra_a_command_says_how_to_install_it():
    ran = python(
        "import sys; sys.modules['aiohttp'] = None; from dkpca.cli import run; sys.exit(run(['party', 'check', 'x']))"
    )
    assert ran.returncode == 1
    assert "pip install 'dkpca[network]'" in ran.stderr
