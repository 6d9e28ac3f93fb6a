"""Who belongs to a consortium: invitations, requests and admissions, all of them public files.

A private key is made where it is used and never leaves that folder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from dkpca.errors import InputError
from dkpca.messages import check_party_name
from dkpca.network.nvflare import certificates as pki
from dkpca.network.nvflare import hardening, kits, templates
from dkpca.store import storage

# The engine's own names, and what it reads as a number or as yes and no.
RESERVED = frozenset({"server", "center", "operator", "admin", "all", "ca"}) | frozenset(
    {"inf", "infinity", "nan", "true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "none"}
)
PENDING_KEY = "pending.key"


@dataclass(frozen=True)
class Consortium:
    """The center's folder."""

    path: Path
    name: str
    host: str
    port: int
    parties: tuple[str, ...]

    @property
    def engine(self) -> Path:
        """NVFlare's workspace."""
        return self.path / "engine"


@dataclass(frozen=True)
class Membership:
    """A party's folder."""

    path: Path
    name: str
    party: str
    host: str
    port: int
    ca: x509.Certificate

    @property
    def engine(self) -> Path:
        """NVFlare's workspace."""
        return self.path / "engine"

    @property
    def certificate(self) -> Path:
        """The admitted certificate; not there before the center's answer is installed."""
        return self.engine / "startup" / "client.crt"


def init(
    path: Path, *, name: str, host: str, port: int, parties: Sequence[str], days: int
) -> tuple[Consortium, list[Path]]:
    """Write the center's folder and one invitation a party."""
    _check_roster(parties)
    _check_address(host, port)
    if (path / "consortium.toml").exists():
        raise InputError(f"{path}: there is a consortium already; choose another directory")
    made = Consortium(path.resolve(), check_party_name(name), host, port, tuple(parties))
    folders = [path, *(path / part for part in ("ca", "operator", "runs", "invitations"))]
    for folder in folders:
        storage.make_directory(folder)
    kits.make_folders(made.engine)
    kits.make_folders(path / "operator")
    path.chmod(0o700)
    (path / "ca").chmod(0o700)
    key, ca = pki.new_ca(name)
    _write_private(path / "ca" / "ca.key", pki.key_to_pem(key))
    storage.write(path / "ca" / "ca.crt", pki.to_pem(ca))
    kits.write_local(made.engine, kits.center_resources(made.engine), kits.AT_THE_CENTER)
    storage.write(path / "operator" / "local" / "resources.json", storage.as_json(templates.OPERATOR_RESOURCES))
    renew_center(made, days=days)
    announce(made)
    invitations = [path / "invitations" / f"{party}.toml" for party in parties]
    # Written last: a folder without it was not finished.
    storage.write(path / "consortium.toml", templates.consortium(name, host, port, parties).encode())
    return made, invitations


def announce(consortium: Consortium) -> None:
    """Write address and roster of consortium.toml to where the engine, the operator and the parties look for them."""
    name, host, port = consortium.name, consortium.host, consortium.port
    startup = consortium.engine / "startup"
    ca = storage.read(startup / "rootCA.pem").decode()
    storage.write(startup / "fed_server.json", storage.as_json(kits.center_startup(name, host, port)))
    operator = consortium.path / "operator" / "startup" / "fed_admin.json"
    storage.write(operator, storage.as_json(kits.operator_startup(name, host, port)))
    for party in consortium.parties:
        invitation = consortium.path / "invitations" / f"{party}.toml"
        storage.write(invitation, templates.invitation(name, party, host, port, ca).encode())


def load(path: Path) -> Consortium:
    """Read a center's folder."""
    table = _read_toml(path / "consortium.toml", "make it with 'dkpca consortium init'")
    try:
        address = table["center"], int(table["port"])
        found = Consortium(path.resolve(), table["name"], *address, tuple(table["parties"]))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{path / 'consortium.toml'}: {error} is missing or wrong; restore the file") from error
    _check_roster(found.parties)
    _check_address(found.host, found.port)
    return found


def renew_center(consortium: Consortium, *, days: int, ca_folder: Path | None = None) -> None:
    """Make new keys and certificates for the center and its operator."""
    ca_key, ca = _ca(ca_folder or consortium.path / "ca")
    for folder, file, name, role, host, purposes in (
        (consortium.engine, "server", kits.CENTER, "", consortium.host, (pki.SERVER, pki.CLIENT)),
        (consortium.path / "operator", "client", kits.OPERATOR, "lead", kits.CENTER, (pki.CLIENT,)),
    ):
        key = pki.new_key()
        certificate = pki.sign(
            ca_key, ca, name, key.public_key(), organization=kits.CENTER, purposes=purposes, days=days, role=role,
            host=host,
        )  # fmt: skip
        startup = folder / "startup"
        storage.write_all(
            {
                startup / f"{file}.key": pki.key_to_pem(key),
                startup / f"{file}.crt": pki.to_pem(certificate),
                startup / "rootCA.pem": pki.to_pem(ca),
            },
            private=[startup / f"{file}.key"],
        )


def approve(
    consortium: Consortium,
    request: Path,
    out: Path,
    *,
    days: int,
    expected: str = "",
    ca_folder: Path | None = None,
) -> tuple[str, str]:
    """Sign a party's request; return its name and the fingerprint of its key."""
    party, key = pki.read_request(storage.read(request), request)
    if party not in consortium.parties:
        raise InputError(
            f"{request}: {party!r} is not on the roster {list(consortium.parties)} of {consortium.name}; "
            "check who sent it"
        )
    found = pki.fingerprint(key)
    if expected and expected.replace(" ", "").lower() != found.replace(" ", ""):
        raise InputError(f"{request}: the fingerprint is {found}, not {expected}; nothing was signed, ask the party")
    ca_folder = ca_folder or consortium.path / "ca"
    ca_key, ca = _ca(ca_folder)
    certificate = pki.sign(ca_key, ca, party, key, organization=party, purposes=(pki.CLIENT,), days=days)
    storage.append_record(
        ca_folder / "issued.jsonl",
        {
            "party": party,
            "fingerprint": found,
            "serial": f"{certificate.serial_number:x}",
            "until": certificate.not_valid_after_utc.isoformat(),
        },
    )
    storage.write(out, templates.admission(consortium.name, party, pki.to_pem(certificate).decode()).encode())
    return party, found


def join(invitation: Path, path: Path, *, table: str = "", id_column: str = "") -> tuple[Membership, Path, str]:
    """Make a party's folder, its private key and its request; return also the key's fingerprint."""
    invited = _membership(path, invitation)
    if (path / "invitation.toml").exists():
        raise InputError(f"{path}: has joined already; for a new certificate use 'dkpca party renew {path}'")
    storage.make_directory(path)
    for folder in (path / "new", path / "runs"):
        storage.make_directory(folder)
    kits.make_folders(invited.engine)
    restore(invited)
    for name, text in (
        ("party.toml", templates.party(invited.party, table, id_column)),
        ("policy.toml", templates.POLICY),
    ):
        if not (path / name).exists():
            storage.write(path / name, text.encode())
    request, fingerprint = renew(invited)
    storage.write(path / "invitation.toml", storage.read(invitation))
    return invited, request, fingerprint


def membership(path: Path) -> Membership:
    """Read a party's folder."""
    return _membership(path, path / "invitation.toml")


def restore(member: Membership) -> None:
    """Write the engine's settings as the invitation and this program want them."""
    hardening.harden(member.engine)
    startup = member.engine / "startup"
    settings = kits.party_startup(member.name, member.party, member.host, member.port)
    storage.write(startup / "fed_client.json", storage.as_json(settings))
    storage.write(startup / "rootCA.pem", pki.to_pem(member.ca))


def check_invitation(member: Membership) -> list[str]:
    """Return a sentence if the engine would look for another center than the invitation names."""
    startup = member.engine / "startup"
    wanted = {
        "fed_client.json": storage.as_json(kits.party_startup(member.name, member.party, member.host, member.port)),
        "rootCA.pem": pki.to_pem(member.ca),
    }
    differ = [
        name for name, data in wanted.items() if (startup / name).is_file() and storage.read(startup / name) != data
    ]
    if not differ:
        return []
    return [
        f"{startup}: {differ} are not what invitation.toml says (center {member.host}:{member.port}); "
        f"write them anew with 'dkpca party check {member.path.name} --restore'"
    ]


def renew(member: Membership) -> tuple[Path, str]:
    """Make a new private key and a request for it; the old one stays in use until the answer is installed."""
    key = pki.new_key()
    request = member.path / f"{member.party}.request"
    _write_private(member.path / PENDING_KEY, pki.key_to_pem(key))
    storage.write(request, pki.to_pem(pki.new_request(member.party, key)))
    return request, pki.fingerprint(key.public_key())


def admit(member: Membership, admission: Path) -> int:
    """Check the center's answer and install it; return the days the certificate is valid."""
    table = _read_toml(admission, "ask the center for the file 'consortium approve' wrote")
    certificate = pki.from_pem(str(table.get("certificate", "")).encode(), admission)
    pki.check_issued_by(certificate, member.ca, admission)
    name = pki.name_of(certificate.subject)
    if name != member.party:
        raise InputError(f"{admission}: admits {name!r}, not {member.party!r}; ask the center for yours")
    days = pki.check_valid(certificate, f"{admission}: the")
    startup = member.engine / "startup"
    waiting = member.path / PENDING_KEY
    key_file = waiting if waiting.exists() else startup / "client.key"
    key = pki.key_from_pem(storage.read(key_file), key_file)
    if key.public_key() != certificate.public_key():
        raise InputError(
            f"{admission}: is for another key than the one that waits for it; have the center approve the newest "
            f"{member.party}.request"
        )
    storage.write_all(
        {startup / "client.key": pki.key_to_pem(key), startup / "client.crt": pki.to_pem(certificate)},
        private=[startup / "client.key"],
    )
    waiting.unlink(missing_ok=True)
    return days


def check_certificate(member: Membership) -> int:
    """Refuse a certificate with which the center would not let the party in; return the days it is valid."""
    if not member.certificate.exists():
        raise InputError(
            f"{member.path}: not admitted yet; send {member.party}.request to the center, "
            "then install its answer with 'dkpca party admit'"
        )
    certificate = pki.from_pem(storage.read(member.certificate), member.certificate)
    days = pki.check_valid(certificate, f"{member.party}: the")
    pki.check_issued_by(certificate, member.ca, member.certificate)
    name = pki.name_of(certificate.subject)
    if name != member.party:
        raise InputError(
            f"{member.certificate}: is made out to {name!r}, not {member.party!r}; run 'dkpca party admit'"
        )
    key_file = member.engine / "startup" / "client.key"
    if pki.key_from_pem(storage.read(key_file), key_file).public_key() != certificate.public_key():
        raise InputError(f"{key_file}: does not belong to the certificate; run 'dkpca party renew'")
    return days


def _membership(path: Path, invitation: Path) -> Membership:
    table = _read_toml(invitation, "ask the center for the invitation, then run 'dkpca party join'")
    try:
        name, party, host = str(table["consortium"]), str(table["party"]), str(table["center"])
        port, ca = int(table["port"]), str(table["ca"])
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{invitation}: {error} is missing or wrong; ask the center for it again") from error
    _check_roster([party])
    _check_address(host, port)
    return Membership(
        path.resolve(), check_party_name(name), party, host, port, pki.from_pem(ca.encode(), invitation)
    )


def _ca(folder: Path) -> tuple[RSAPrivateKey, x509.Certificate]:
    if not (folder / "ca.key").exists():
        raise InputError(
            f"{folder / 'ca.key'}: the CA's key is not there; if it is kept offline, name its folder: --ca"
        )
    key = pki.key_from_pem(storage.read(folder / "ca.key"), folder / "ca.key")
    return key, pki.from_pem(storage.read(folder / "ca.crt"), folder / "ca.crt")


def _check_roster(parties: Sequence[str]) -> None:
    if not parties:
        raise InputError("a consortium needs parties; name each with --party")
    for party in parties:
        check_party_name(party)
        if "." in party or party.lower() in RESERVED:
            raise InputError(
                f"party name {party!r} cannot be used on the network; take another, without '.', such as 'bank'"
            )
    if len({party.lower() for party in parties}) < len(parties):
        raise InputError(f"parties {list(parties)}: each needs a name of its own")


def _check_address(host: str, port: int) -> None:
    if not host or any(letter.isspace() or letter in ":/'\"" for letter in host):
        raise InputError(f"center {host!r} cannot be used; give a host name or an IPv4 address, without a port")
    if not 0 < port < 65536:
        raise InputError(f"port {port} cannot be used; take one from 1 to 65535")


def _read_toml(path: Path, advice: str) -> Mapping[str, Any]:
    if not path.exists():
        raise InputError(f"{path}: there is no such file; {advice}")
    return storage.read_toml(path, advice)


def _write_private(path: Path, data: bytes) -> None:
    path.parent.chmod(0o700)
    storage.write(path, data, private=True)
