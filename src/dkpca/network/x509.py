"""Keys, certificates and revocation lists: who may speak to whom, and under which name."""

import hashlib
import ipaddress
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey as PrivateKey
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey as PublicKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dkpca.errors import InputError

CA_DAYS = 3650
DAYS_TO_WARN = 30
Purpose = x509.ObjectIdentifier
Authority = tuple[PrivateKey, x509.Certificate]
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


def new_key() -> PrivateKey:
    """Return a private key on the curve P-256, which every TLS library and browser takes."""
    return ec.generate_private_key(ec.SECP256R1())


def key_to_pem(key: PrivateKey) -> bytes:
    """Private key as text; goes into files of mode 0600 only."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def key_from_pem(data: bytes, where: object) -> PrivateKey:
    """Read a private key."""
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: not a private key this program wrote; restore it from a backup") from error
    if not isinstance(key, PrivateKey):
        raise InputError(f"{where}: not a key on an elliptic curve; restore the one this program wrote")
    return key


def to_pem(item: x509.Certificate | x509.CertificateSigningRequest | x509.CertificateRevocationList) -> bytes:
    """Public text of a certificate, of a request for one, or of a revocation list."""
    return item.public_bytes(serialization.Encoding.PEM)


def from_pem(data: bytes, where: object) -> x509.Certificate:
    """Read a certificate."""
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError as error:
        raise InputError(f"{where}: not a whole certificate; ask for the file again") from error


def new_ca(name: str) -> Authority:
    """Make the root of trust of one consortium."""
    key = new_key()
    basic = x509.BasicConstraints(ca=True, path_length=0)
    builder = _builder(name, _name(name), key.public_key(), CA_DAYS, [basic, _key_usage(ca=True)])
    return key, builder.sign(key, hashes.SHA256())


def sign(
    authority: Authority, name: str, key: PublicKey, *, purpose: Purpose, days: float, host: str = ""
) -> x509.Certificate:
    """Bind a name to a key, for one purpose and so many days, but no longer than the CA itself lives."""
    ca_key, ca = authority
    check_valid(ca, "the consortium's CA")
    days = min(days, (ca.not_valid_after_utc - datetime.now(UTC)).days)
    basic = x509.BasicConstraints(ca=False, path_length=None)
    builder = _builder(name, ca.subject, key, days, [basic, _key_usage(ca=False), x509.ExtendedKeyUsage([purpose])])
    builder = builder.add_extension(x509.SubjectAlternativeName([_host(host or name)]), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return builder.add_extension(identifier, critical=False).sign(ca_key, hashes.SHA256())


def new_request(name: str, key: PrivateKey) -> x509.CertificateSigningRequest:
    """Ask for a certificate; holds the name and the public key, signed by the private one."""
    return x509.CertificateSigningRequestBuilder().subject_name(_name(name)).sign(key, hashes.SHA256())


def read_request(data: bytes, where: object) -> tuple[str, PublicKey]:
    """Return the name and the key of a request whose signature is right."""
    try:
        request = x509.load_pem_x509_csr(data)
        whole = request.is_signature_valid
    except ValueError as error:
        raise InputError(
            f"{where}: not a certificate request; ask the party for the file 'party join' wrote"
        ) from error
    if not whole:
        raise InputError(f"{where}: its signature is wrong, so it was altered; ask the party for the file again")
    key = request.public_key()
    if not isinstance(key, PublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise InputError(f"{where}: its key is not of our kind; ask the party to make it with 'dkpca party join'")
    return name_of(request.subject), key


def new_revocations(authority: Authority, serials: Collection[int], number: int) -> x509.CertificateRevocationList:
    """List the certificates that are not good any more; a list with a higher number replaces one with a lower."""
    ca_key, ca = authority
    now = datetime.now(UTC)
    builder = x509.CertificateRevocationListBuilder().issuer_name(ca.subject).last_update(now)
    builder = builder.next_update(ca.not_valid_after_utc).add_extension(x509.CRLNumber(number), critical=False)
    for serial in sorted(serials):
        revoked = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now).build()
        builder = builder.add_revoked_certificate(revoked)
    return builder.sign(ca_key, hashes.SHA256())


def read_revocations(data: bytes, ca: x509.Certificate, where: object) -> tuple[int, frozenset[int]]:
    """Return the number of a list that this CA signed, and the serial numbers on it."""
    try:
        listed = x509.load_pem_x509_crl(data)
        whole = listed.issuer == ca.subject and listed.is_signature_valid(public_key(ca, where))
        number = int(listed.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number)
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise InputError(f"{where}: not a revocation list; ask the center for it again") from error
    if not whole:
        raise InputError(f"{where}: the revocation list was not signed by the CA of the invitation; ask the center")
    return number, frozenset(entry.serial_number for entry in listed)


def name_of(subject: x509.Name) -> str:
    """Common name; empty if there is none."""
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def fingerprint(key: PublicKey) -> str:
    """Short enough to read out over the phone, long enough that nobody finds another key for it."""
    data = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    text = hashlib.sha256(data).hexdigest()[:32]
    return " ".join(text[start : start + 4] for start in range(0, len(text), 4))


def fingerprint_of(certificate: x509.Certificate) -> str:
    """Fingerprint of the key of a certificate this program made."""
    return fingerprint(public_key(certificate, "the certificate"))


def check_issued_by(certificate: x509.Certificate, ca: x509.Certificate, where: object) -> None:
    """Refuse a certificate of another consortium."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature) as error:
        raise InputError(
            f"{where}: the certificate was not signed by the CA of the invitation; "
            "ask the center for a new one, and compare fingerprints"
        ) from error


def check_valid(certificate: x509.Certificate, whose: str) -> int:
    """Return the days it is still valid; refuse one that is not."""
    now = datetime.now(UTC)
    if certificate.not_valid_after_utc <= now:
        raise InputError(f"{whose} certificate expired on {certificate.not_valid_after_utc:%Y-%m-%d}; renew it")
    if certificate.not_valid_before_utc > now:
        raise InputError(
            f"{whose} certificate is valid only from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on; "
            "set the clock of this machine"
        )
    return (certificate.not_valid_after_utc - now).days


def public_key(certificate: x509.Certificate, where: object) -> PublicKey:
    """Return the key a certificate is about."""
    key = certificate.public_key()
    if not isinstance(key, PublicKey):
        raise InputError(f"{where}: the certificate is not about a key on an elliptic curve; ask for a new one")
    return key


def word(key: PrivateKey, statement: bytes) -> str:
    """Signature of a statement, in hexadecimal."""
    return key.sign(statement, ec.ECDSA(hashes.SHA256())).hex()


def check_word(certificate: x509.Certificate, statement: bytes, signature: str, whose: str) -> None:
    """Refuse a statement that the key of a certificate has not signed."""
    try:
        public_key(certificate, whose).verify(bytes.fromhex(signature), statement, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise InputError(f"{whose}: the certificate's key has signed something else; ask for it again") from error


def _builder(
    name: str, issuer: x509.Name, key: PublicKey, days: float, critical: Iterable[x509.ExtensionType]
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(issuer, _name(name), key, x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(minutes=10)).not_valid_after(now + timedelta(days=days))
    for extension in critical:  # ten minutes, because clocks differ
        builder = builder.add_extension(extension, critical=True)
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    others = dict.fromkeys(["content_commitment", "key_encipherment", "data_encipherment", "key_agreement"], False)
    ends = {"encipher_only": False, "decipher_only": False}
    return x509.KeyUsage(digital_signature=True, key_cert_sign=ca, crl_sign=ca, **others, **ends)
