"""Who a member is: an identity that signs, a sealing key made for one study, and secrets that follow from one seed.

Everything random that a member ever uses in a study follows from `Secrets.seed` and the place where it is used. A
member's folder that was restored or cloned therefore repeats its numbers and never adds others under the same masks.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import cache

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from dkpca.errors import ProtectionError

SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)
SECRET_BYTES = 32
SHOWN = 40  # hexadecimal digits of a fingerprint that people compare: 160 bits, 2^80 work for a collision


@dataclass(frozen=True)
class Secrets:
    """The private half of a member: its identity, for all studies, and the seed of one study."""

    identity: bytes = field(repr=False)
    seed: bytes = field(repr=False)

    @property
    def public(self) -> str:
        """Key with which the others check signatures."""
        return Ed25519PrivateKey.from_private_bytes(self.identity).public_key().public_bytes_raw().hex()

    @property
    def sealing(self) -> str:
        """Key to which the others seal what this member may read in this study."""
        return self._unsealing().public_key().public_bytes_raw().hex()

    def derive(self, *place: str) -> bytes:
        """Return 32 bytes for one place, such as ("nonce", "first"): always the same ones."""
        context = b"".join(len(part.encode()).to_bytes(4, "big") + part.encode() for part in ("dkpca 1", *place))
        return hmac.digest(self.seed, context, "sha256")

    def sign(self, data: bytes) -> bytes:
        """Return the signature of some bytes."""
        return Ed25519PrivateKey.from_private_bytes(self.identity).sign(data)

    def unseal(self, sealed: bytes, info: bytes) -> bytes:
        """Open what was sealed to this member for exactly this place."""
        try:
            return SUITE.decrypt(sealed, self._unsealing(), info=info)
        except (InvalidTag, ValueError) as error:
            raise ProtectionError("it was not sealed to this member for this place") from error

    def _unsealing(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.derive("sealing key"))


def seal(data: bytes, sealing: str, info: bytes) -> bytes:
    """Seal some bytes to a member's sealing key, for one place."""
    return SUITE.encrypt(data, X25519PublicKey.from_public_bytes(bytes.fromhex(sealing)), info=info)


def is_signed(data: bytes, signature: bytes, public: str) -> bool:
    """Whether the owner of this identity signed exactly these bytes."""
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public)).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


@cache
def check_keys(name: str, public: str, sealing: str) -> None:
    """Refuse keys that are none: points that are not on the curve, or of small order."""
    try:
        # R = 1 and S = 0 is a signature that anybody can make; under a key of small order many messages have it.
        if any(is_signed(bytes([message]), (1).to_bytes(64, "little"), public) for message in range(32)):
            raise ValueError("of small order")
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(bytes.fromhex(sealing)))
    except ValueError as error:
        raise ProtectionError(f"{name}: its keys cannot be used; have it join again in another folder") from error


def shown(digest: str) -> str:
    """Fingerprint as people read it out: groups of four."""
    return " ".join(digest[start : start + 4] for start in range(0, SHOWN, 4))


def is_fingerprint(typed: str, digest: str) -> bool:
    """Whether somebody typed this fingerprint, with or without spaces, in any case."""
    return hmac.compare_digest("".join(typed.split()).lower().encode(errors="replace"), digest[:SHOWN].encode())


def sha256(data: bytes) -> str:
    """Digest in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
