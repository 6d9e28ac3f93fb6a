"""Who a party is, and its key for one sum. All cryptography is that of the `cryptography` package.

A party has a long-lived identity (Ed25519), whose fingerprint the others have pinned, and a fresh key for every sum
(X25519), signed by the identity in its offer: whoever carries offers between parties cannot put another in its place.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dkpca.errors import InputError, ProtectionError
from dkpca.fields import RING_BITS
from dkpca.messages import Agreed, Offer, Vouch
from dkpca.protection.ring import reach_of
from dkpca.wire import codec
from dkpca.wire.container import canonical

SIGNED = b"dkpca offer 1\0"
UNSIGNED = "0" * 128
WORDS = {
    "run": "run",
    "kind": "kind",
    "kernel": "kernel",
    "rows": "number of samples",
    "columns": "samples to compare with",
    "bits": "bits",
    "signed": "numbers below zero",
    "sample_digest": "other samples, or the same in another order",
}  # for what parties agree on, the most telling first


@dataclass(frozen=True)
class Identity:
    """A party's long-lived key. It stays with the party."""

    secret: bytes = field(repr=False)
    vouch: Vouch | None = None  # of a consortium, for this identity

    @classmethod
    def new(cls) -> "Identity":
        """Make one from the randomness of the operating system."""
        return cls(Ed25519PrivateKey.generate().private_bytes_raw())

    @property
    def public(self) -> str:
        """Key that the others check signatures with."""
        return self._key().public_key().public_bytes_raw().hex()

    @property
    def fingerprint(self) -> str:
        """What people compare, and pin."""
        return fingerprint(self.public)

    def sign(self, data: bytes) -> str:
        """Return the signature of some bytes."""
        return self._key().sign(data).hex()

    def _key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.secret)


@dataclass(frozen=True)
class SumKey:
    """A party's secret for one sum: forgotten afterwards. It answers each context once."""

    offer: Offer
    secret: bytes = field(repr=False)
    answered: set[str] = field(default_factory=set, repr=False, compare=False)

    def shared_with(self, other: Offer) -> bytes:
        """Return what only these two parties can compute."""
        key = X25519PrivateKey.from_private_bytes(self.secret)
        try:
            return key.exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(other.key)))
        except ValueError as error:  # a point of small order, which no honest party has
            raise ProtectionError(f"party {other.party!r}: the key it offers is none; ask it again") from error


def fingerprint(public: str) -> str:
    """Fingerprint of an identity's public key."""
    return hashlib.sha256(bytes.fromhex(public)).hexdigest()


def make_offer(identity: Identity, party: str, agreed: Agreed, *, n_features: int, largest: float) -> SumKey:
    """Make a fresh key for one sum, and the signed offer that goes to all parties.

    Parameters
    ----------
    identity : Identity
        Of the party.
    party : str
        Its name.
    agreed : Agreed
        What is to be added up.
    n_features : int
        Columns the party has.
    largest : float
        Size of the largest number that it will add.
    """
    if agreed.bits not in RING_BITS:
        raise InputError(f"bits is {agreed.bits}, not one of {list(RING_BITS)}")
    key = X25519PrivateKey.generate()
    public = key.public_key().public_bytes_raw().hex()
    offer = Offer(party, agreed, n_features, reach_of(largest), identity.public, public, UNSIGNED, identity.vouch)
    return SumKey(replace(offer, signature=identity.sign(_signed_part(offer))), key.private_bytes_raw())


def check_offers(own: SumKey, offers: Mapping[str, Offer], pinned: Mapping[str, str]) -> None:
    """Raise unless these are the offers of all pinned parties for one sum, ours among them as we made it.

    Parameters
    ----------
    own : SumKey
        This party's.
    offers : mapping of party to Offer
        Everybody's, as they arrived.
    pinned : mapping of party to fingerprint
        Of the identities of the others; nobody else may take part.
    """
    us = own.offer.party
    if offers.get(us) != own.offer:
        raise ProtectionError(f"party {us!r}: the offer under its own name is not the one it made; make a new one")
    others = sorted(set(offers) - {us})
    if not others:
        raise ProtectionError(f"party {us!r} is alone; a masked sum hides nothing of a single party")
    if set(others) != set(pinned) - {us}:
        raise ProtectionError(
            f"the offers are from {sorted(offers)}, and the pinned parties are {sorted({*pinned, us})}; "
            "all of them have to take part, and nobody else"
        )
    keys = [offer.key for offer in offers.values()]
    if len(set(keys)) < len(keys):
        raise ProtectionError("two parties offer the same key; one of the offers was copied")
    for name in others:
        _check_offer(name, offers[name], own.offer, pinned[name])


def offers_digest(offers: Mapping[str, Offer]) -> str:
    """Fingerprint of all offers, by party."""
    listed = [codec.described(offers[name]) for name in sorted(offers)]
    return hashlib.sha256(canonical({"offers": listed}).encode()).hexdigest()


def _check_offer(name: str, offer: Offer, ours: Offer, pinned: str) -> None:
    if offer.party != name or fingerprint(offer.identity) != pinned:
        raise ProtectionError(
            f"party {name!r}: its offer is signed by {fingerprint(offer.identity)[:16]}..., and {pinned[:16]}... is "
            "pinned; somebody else made it, or the party has a new identity: ask it by another way"
        )
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(offer.identity)).verify(
            bytes.fromhex(offer.signature), _signed_part(offer)
        )
    except (InvalidSignature, ValueError) as error:
        raise ProtectionError(f"party {name!r}: its offer was altered on the way; ask for it again") from error
    differ = difference(ours.agreed, offer.agreed)
    if differ:
        raise ProtectionError(f"parties {ours.party!r} and {name!r} offer different sums: {differ}; agree first")


def difference(one: Agreed, other: Agreed) -> str:
    """First thing that two parties did not agree on, in words; empty if they agree."""
    for what, word in WORDS.items():
        mine, theirs = getattr(one, what), getattr(other, what)
        if mine != theirs:
            return word if what == "sample_digest" else f"{word} {mine} against {theirs}"
    return ""


def _signed_part(offer: Offer) -> bytes:
    described = codec.described(offer)
    described.pop("signature")
    return SIGNED + canonical(described).encode()


def check_identity(secret: bytes) -> Identity:
    """Return the identity of these bytes, if they are one."""
    if len(secret) != 32:
        raise InputError("not the private key of an identity")
    return Identity(secret)
