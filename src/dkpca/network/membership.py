"""Who belongs to a consortium: invitations, requests and admissions, all of them public files.

A private key is made where it is used and never leaves that folder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey as PrivateKey
from cryptography.x509 import Certificate

from dkpca.errors import InputError
from dkpca.fields import check_party_name
from dkpca.network import templates
from dkpca.network import x509 as pki
from dkpca.store import ledger, storage

OPERATOR = "operator"  # the name on the certificate with which 'submit' speaks to the center
RESERVED = frozenset({"center", OPERATOR, "ca"})
MAX_ANSWER = 4 * 10**9  # bytes; what a party may send at most, where no smaller size is known
PENDING_KEY = "pending.key"
ISSUED, REVOKED = "issued.jsonl", "revoked.crl"


@dataclass(frozen=True)
class Consortium:
    """The center's folder."""

    path: Path
    name: str
    host: str
    port: int
    parties: tuple[str, ...]
    local_port: int = 0  # of the page on this machine without a certificate; 0: none
    max_answer: int = MAX_ANSWER

    @property
    def tls(self) -> Path:
        """Folder with the center's own key and certificate, and the CA's certificate."""
        return self.path / "tls"


@dataclass(frozen=True)
class Membership:
    """A party's folder."""

    path: Path
    name: str
    party: str
    host: str
    port: int
    ca: Certificate

    @property
    def tls(self) -> Path:
        """Folder with the party's key and certificate, and the CA's certificate; made by `admit`."""
        return self.path / "tls"


def init(
    path: Path, *, name: str, host: str, port: int, parties: Sequence[str], days: float, local_port: int = 0
) -> tuple[Consortium, list[Path]]:
    """Write the center's folder and one invitation per party."""
    _check_roster(parties)
    _check_address(host, port)
    if (path / "consortium.toml").exists():
        raise InputError(f"{path}: there is a consortium already; choose another directory")
    made = Consortium(path.resolve(), check_party_name(name), host, port, tuple(parties), local_port)
    for folder in [path, *(path / part for part in ("ca", "tls", OPERATOR, "runs", "invitations"))]:
        storage.make_directory(folder)
    for folder in (path, path / "ca", path / "tls", path / OPERATOR):
        folder.chmod(0o700)
    key, ca = pki.new_ca(name)
    storage.write(path / "ca" / "ca.key", pki.key_to_pem(key), private=True)
    storage.write(path / "ca" / "ca.crt", pki.to_pem(ca))
    storage.write(path / REVOKED, pki.to_pem(pki.new_revocations((key, ca), (), 1)))
    renew_center(made, days=days)
    announce(made)
    invitations = [path / "invitations" / f"{party}.toml" for party in parties]
    # Written last: a folder without it was not finished.
    text = templates.consortium(name, host, port, parties, local_port)
    storage.write(path / "consortium.toml", text.encode())
    return made, invitations


def announce(consortium: Consortium) -> None:
    """Write address and roster of consortium.toml into the invitations."""
    ca = storage.read(consortium.tls / "ca.crt").decode()
    for party in consortium.parties:
        invitation = templates.invitation(consortium.name, party, consortium.host, consortium.port, ca)
        storage.write(consortium.path / "invitations" / f"{party}.toml", invitation.encode())


def load(path: Path) -> Consortium:
    """Read a center's folder."""
    file = path / "consortium.toml"
    table = storage.read_toml(file, "make it with 'dkpca consortium init'")
    try:
        address, limits = (table["center"], int(table["port"])), (table.get("local_port", 0), table.get("max_answer"))
        port, most = int(limits[0]), int(limits[1] or MAX_ANSWER)
        known = Consortium(path.resolve(), table["name"], *address, tuple(table["parties"]), port, most)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{file}: {error} is missing or wrong; restore the file") from error
    _check_roster(known.parties)
    _check_address(known.host, known.port)
    return known


def renew_center(consortium: Consortium, *, days: float, ca_folder: Path | None = None) -> None:
    """Make new keys and certificates for the center and its operator."""
    authority = _ca(ca_folder or consortium.path / "ca")
    for folder, name, host, purpose in (
        (consortium.tls, "center", consortium.host, pki.SERVER),
        (consortium.path / OPERATOR, OPERATOR, "", pki.CLIENT),
    ):
        key = pki.new_key()
        certificate = pki.sign(authority, name, key.public_key(), purpose=purpose, days=days, host=host)
        _write_tls(folder, key, certificate, authority[1])
        _note_issued(ca_folder or consortium.path / "ca", name, certificate)


def approve(
    consortium: Consortium,
    request: Path,
    out: Path,
    *,
    days: float,
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
    certificate = pki.sign(_ca(ca_folder), party, key, purpose=pki.CLIENT, days=days)
    _note_issued(ca_folder, party, certificate)
    storage.write(out, templates.admission(consortium.name, party, pki.to_pem(certificate).decode()).encode())
    return party, found


def revoke(consortium: Consortium, name: str, *, ca_folder: Path | None = None) -> tuple[int, int]:
    """Take back every certificate issued to a name so far; return how many, and the number of the new list."""
    ca_folder = ca_folder or consortium.path / "ca"
    authority = _ca(ca_folder)
    issued = [int(record["serial"], 16) for record in ledger.records(ca_folder / ISSUED) if record["name"] == name]
    if not issued:
        raise InputError(f"{ca_folder / ISSUED}: no certificate was issued to {name!r}; check the name")
    number, revoked = revocations(consortium.path, authority[1])
    listed = pki.new_revocations(authority, revoked | set(issued), number + 1)
    storage.write(consortium.path / REVOKED, pki.to_pem(listed))
    return len(set(issued) - revoked), number + 1


def revocations(path: Path, ca: Certificate) -> tuple[int, frozenset[int]]:
    """Return number and entries of the revocation list in a folder; 0 if there is none yet."""
    file = path / REVOKED
    return pki.read_revocations(storage.read(file), ca, file) if file.exists() else (0, frozenset())


def join(invitation: Path, path: Path, *, table: str = "", id_column: str = "") -> tuple[Membership, Path, str]:
    """Make a party's folder, its private key and its request; return also the key's fingerprint."""
    invited = _membership(path, invitation)
    if (path / "invitation.toml").exists():
        raise InputError(f"{path}: has joined already; for a new certificate use 'dkpca party renew {path}'")
    for folder in (path, path / "new", path / "runs", path / "tls"):
        storage.make_directory(folder)
    for folder in (path, path / "tls"):
        folder.chmod(0o700)
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


def renew(member: Membership) -> tuple[Path, str]:
    """Make a new private key and a request for it; the old one stays in use until the answer is installed."""
    key = pki.new_key()
    request = member.path / f"{member.party}.request"
    storage.write(member.path / PENDING_KEY, pki.key_to_pem(key), private=True)
    storage.write(request, pki.to_pem(pki.new_request(member.party, key)))
    return request, pki.fingerprint(key.public_key())


def admit(member: Membership, admission: Path) -> int:
    """Check the center's answer and install it; return the days the certificate is valid."""
    table = storage.read_toml(admission, "ask the center for the file 'consortium approve' wrote")
    certificate = pki.from_pem(str(table.get("certificate", "")).encode(), admission)
    waiting = member.path / PENDING_KEY
    key, days = _check(member, certificate, waiting if waiting.exists() else member.tls / "own.key", admission)
    _write_tls(member.tls, key, certificate, member.ca)
    waiting.unlink(missing_ok=True)
    return days


def check_certificate(member: Membership) -> int:
    """Refuse a certificate with which the center would not let the party in; return the days it is valid."""
    file = member.tls / "own.crt"
    if not file.exists():
        raise InputError(
            f"{member.path}: not admitted yet; send {member.party}.request to the center, "
            "then install its answer with 'dkpca party admit'"
        )
    return _check(member, pki.from_pem(storage.read(file), file), member.tls / "own.key", file)[1]


def _check(member: Membership, certificate: Certificate, key_file: Path, where: Path) -> tuple[PrivateKey, int]:
    """Key and days of a certificate that this party can use."""
    pki.check_issued_by(certificate, member.ca, where)
    name = pki.name_of(certificate.subject)
    if name != member.party:
        raise InputError(f"{where}: admits {name!r}, not {member.party!r}; ask the center for yours")
    days = pki.check_valid(certificate, f"{member.party}: the")
    key = pki.key_from_pem(storage.read(key_file), key_file)
    if key.public_key() != certificate.public_key():
        raise InputError(
            f"{where}: is for another key than the one that waits for it; have the center approve the newest "
            f"{member.party}.request"
        )
    return key, days


def _membership(path: Path, invitation: Path) -> Membership:
    table = storage.read_toml(invitation, "ask the center for the invitation, then run 'dkpca party join'")
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


def _ca(folder: Path) -> tuple[PrivateKey, Certificate]:
    if not (folder / "ca.key").exists():
        raise InputError(
            f"{folder / 'ca.key'}: the CA's key is not there; if it is kept offline, name its folder: --ca"
        )
    key = pki.key_from_pem(storage.read(folder / "ca.key"), folder / "ca.key")
    return key, pki.from_pem(storage.read(folder / "ca.crt"), folder / "ca.crt")


def _write_tls(folder: Path, key: PrivateKey, certificate: Certificate, ca: Certificate) -> None:
    files = {
        folder / "own.key": pki.key_to_pem(key),
        folder / "own.crt": pki.to_pem(certificate),
        folder / "ca.crt": pki.to_pem(ca),
    }
    storage.write_all(files, private=[folder / "own.key"])


def _note_issued(folder: Path, name: str, certificate: Certificate) -> None:
    key = pki.public_key(certificate, name)
    facts = {"serial": f"{certificate.serial_number:x}", "until": certificate.not_valid_after_utc.isoformat()}
    ledger.append(folder / ISSUED, "issued", name=name, fingerprint=pki.fingerprint(key), **facts)


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
