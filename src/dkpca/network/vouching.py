"""A party's identity in masked sums, and the consortium's word for it.

Offers are signed by an identity of the party's own, which outlives certificates. Others know it by its fingerprint,
or by the word of the key that the consortium's authority certified for the party: `peers.toml` says which, peer by
peer. Whoever holds the authority's key can certify anybody, so that a fingerprint is the stronger of the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dkpca.errors import InputError, ProtectionError
from dkpca.exchange import sum_files
from dkpca.messages import Offer, Vouch
from dkpca.network import x509 as pki
from dkpca.protection.keys import Identity, fingerprint
from dkpca.store import storage

IDENTITY = "identity.key"
REVOKED = "revoked.crl"


def own_identity(folder: Path, party: str) -> Identity:
    """Return the identity in a party's folder, with the word of its certificate; made at the first use."""
    file = folder / IDENTITY
    identity = sum_files.read_identity(file) if file.exists() else sum_files.new_identity(file)
    certificate, secret = folder / "tls" / "own.crt", folder / "tls" / "own.key"
    if not certificate.exists():
        return identity
    key = pki.key_from_pem(storage.read(secret), secret)
    word = pki.word(key, _statement(party, identity.public))
    return replace(identity, vouch=Vouch(storage.read(certificate).decode(), word))


def pinned(folder: Path, peers: Mapping[str, str], offers: Sequence[Offer]) -> dict[str, str]:
    """Return the fingerprint of each peer: as it was written down, or as its certificate vouches for it now."""
    by_party = {offer.party: offer for offer in offers}
    return {
        name: _certified(folder, by_party[name]) if pin == sum_files.CERTIFICATE and name in by_party else pin
        for name, pin in peers.items()
    }


def _certified(folder: Path, offer: Offer) -> str:
    """Fingerprint of the identity in an offer, if the consortium's authority stands behind it."""
    name = offer.party
    if offer.vouch is None:
        raise ProtectionError(
            f"party {name!r}: its offer has no certificate, and peers.toml asks for one; pin it there"
        )
    invitation = storage.read_toml(folder / "invitation.toml", "ask the center for it")
    ca = pki.from_pem(str(invitation["ca"]).encode(), "invitation.toml")
    try:
        certificate = pki.from_pem(offer.vouch.certificate.encode(), f"the certificate of {name!r}")
        pki.check_issued_by(certificate, ca, f"the certificate of {name!r}")
        pki.check_valid(certificate, f"{name!r}: the")
        pki.check_word(certificate, _statement(name, offer.identity), offer.vouch.word, repr(name))
    except InputError as error:
        raise ProtectionError(f"party {name!r}: its certificate does not stand behind its offer ({error})") from error
    if pki.name_of(certificate.subject) != name:
        raise ProtectionError(
            f"party {name!r}: its offer has the certificate of {pki.name_of(certificate.subject)!r}; somebody else "
            "made it"
        )
    if (folder / REVOKED).exists():
        _, revoked = pki.read_revocations(storage.read(folder / REVOKED), ca, folder / REVOKED)
        if certificate.serial_number in revoked:
            raise ProtectionError(f"party {name!r}: the certificate of its offer was revoked; it needs a new one")
    return fingerprint(offer.identity)


def _statement(party: str, identity: str) -> bytes:
    return f"dkpca identity 1\0{party}\0{identity}".encode()
