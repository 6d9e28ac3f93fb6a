"""Keys and certificates: who may speak to whom, and under which name."""

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, RSAPublicKey, generate_private_key
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dkpca.errors import InputError

CA_DAYS = 3650
DAYS_TO_WARN = 30
Purpose = x509.ObjectIdentifier
CLIENT, SERVER = ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.SERVER_AUTH


def new_key(bits: int = 2048) -> RSAPrivateKey:
    """Return a private key; RSA, because NVFlare signs jobs with nothing else."""
    return generate_private_key(public_exponent=65537, key_size=bits)


def key_to_pem(key: RSAPrivateKey) -> bytes:
    """Private key as text; goes into files of mode 0600 only."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def key_from_pem(data: bytes, where: object) -> RSAPrivateKey:
    """Read a private key."""
    try:
        key = serialization.load_pem_private_key(data, password=None)
    except (ValueError, TypeError) as error:
        raise InputError(f"{where}: not a private key this program wrote; restore it from a backup") from error
    if not isinstance(key, RSAPrivateKey):
        raise InputError(f"{where}: not an RSA key; restore the one this program wrote")
    return key


def to_pem(item: x509.Certificate | x509.CertificateSigningRequest) -> bytes:
    """Public text of a certificate or of a request for one."""
    return item.public_bytes(serialization.Encoding.PEM)


def from_pem(data: bytes, where: object) -> x509.Certificate:
    """Read a certificate."""
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError as error:
        raise InputError(f"{where}: not a whole certificate; ask for the file again") from error


def new_ca(name: str) -> tuple[RSAPrivateKey, x509.Certificate]:
    """Make the root of trust of one consortium."""
    key = new_key(3072)
    builder = _builder(_name(name), _name(name), key.public_key(), CA_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_key_usage(ca=True), critical=True)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    return key, builder.sign(key, hashes.SHA256())


def self_signed(name: str) -> tuple[RSAPrivateKey, x509.Certificate]:
    """Make a certificate that only its own holders trust."""
    key = new_key()
    return key, _builder(_name(name), _name(name), key.public_key(), CA_DAYS).sign(key, hashes.SHA256())


def sign(
    ca_key: RSAPrivateKey,
    ca: x509.Certificate,
    name: str,
    public_key: RSAPublicKey,
    *,
    organization: str,
    purposes: tuple[Purpose, ...],
    days: int,
    role: str = "",
    host: str = "",
) -> x509.Certificate:
    """Bind a name to a key, for so many days but no longer than the CA itself lives."""
    check_valid(ca, "the consortium's CA")
    subject = _name(name, organization, role)
    days = min(days, (ca.not_valid_after_utc - datetime.now(UTC)).days)
    builder = _builder(subject, ca.subject, public_key, days)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_key_usage(ca=False), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
    builder = builder.add_extension(x509.SubjectAlternativeName([_host(host or name)]), critical=False)
    builder = builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    return builder.add_extension(identifier, critical=False).sign(ca_key, hashes.SHA256())


def new_request(name: str, key: RSAPrivateKey) -> x509.CertificateSigningRequest:
    """Ask for a certificate; holds the name and the public key, signed by the private one."""
    return x509.CertificateSigningRequestBuilder().subject_name(_name(name, name)).sign(key, hashes.SHA256())


def read_request(data: bytes, where: object) -> tuple[str, RSAPublicKey]:
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
    if not isinstance(key, RSAPublicKey):
        raise InputError(f"{where}: its key is not RSA; ask the party to make it with 'dkpca party join'")
    return name_of(request.subject), key


def name_of(subject: x509.Name) -> str:
    """Common name; empty if there is none."""
    names = subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if names else ""


def fingerprint(key: RSAPublicKey) -> str:
    """Short enough to read out over the phone, long enough that nobody finds another key for it."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo))
    text = digest.finalize().hex()[:32]
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


def public_key(certificate: x509.Certificate, where: object) -> RSAPublicKey:
    """Return the key a certificate is about."""
    key = certificate.public_key()
    if not isinstance(key, RSAPublicKey):
        raise InputError(f"{where}: the certificate is not about an RSA key; ask for a new one")
    return key


def _builder(subject: x509.Name, issuer: x509.Name, public_key: RSAPublicKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=10))  # clocks differ
        .not_valid_after(now + timedelta(days=days))
    )


def _name(name: str, organization: str = "", role: str = "") -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, name)]
    if organization:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    if role:
        attributes.append(x509.NameAttribute(NameOID.UNSTRUCTURED_NAME, role))  # where NVFlare looks for it
    return x509.Name(attributes)


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _key_usage(*, ca: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=not ca,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=ca,
        crl_sign=ca,
        encipher_only=False,
        decipher_only=False,
    )
