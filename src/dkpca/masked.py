"""What leaves a party in a masked sum: an offer, and numbers that are noise without those of all the others."""

from dataclasses import dataclass
from typing import Literal

from dkpca.fields import (
    Bits,
    Certificate,
    Count,
    Fingerprint,
    PartyName,
    Positive,
    PublicKey,
    RunName,
    Signature,
    Word,
)
from dkpca.packed import Packed

SumKind = Literal["pairs", "columns", "new", "scores", "audit"]


@dataclass(frozen=True)
class Agreed:
    """What parties have to agree on before they add numbers up."""

    run: RunName  # of this sum; landmarks are drawn by it
    kind: SumKind  # all pairs of samples, samples with landmarks, new samples with these, shares of scores, an audit
    kernel: str  # name of the kernel whose partial quantities these are
    rows: Count
    columns: Count
    sample_digest: Fingerprint  # of the samples in the rows
    bits: Bits  # of the ring on which numbers are added
    signed: bool = True  # whether numbers may be below zero: inner products may, distances have a bit more instead


@dataclass(frozen=True)
class Vouch:
    """That an identity is a party's: the word of the key that the consortium's authority certified for it."""

    certificate: Certificate
    word: Word  # signature of name and identity, by the certificate's key


@dataclass(frozen=True)
class Offer:
    """A party's key for one masked sum, signed by its long-lived identity: whoever passes it on cannot change it."""

    party: PartyName
    agreed: Agreed
    n_features: Count
    reach: Positive  # that none of the party's numbers exceeds in size, nor a length 16 times; eight per power of two
    identity: PublicKey  # Ed25519, of the party
    key: PublicKey  # X25519, of this sum
    signature: Signature  # of all this, by the identity
    vouch: Vouch | None = None  # over a network: of the consortium, for the identity


@dataclass(frozen=True)
class Offers:
    """The offers of all parties of a sum, as the center passes them on."""

    offers: tuple[Offer, ...]


@dataclass(frozen=True)
class MaskedSum:
    """Numbers of one party under masks that cancel when those of all parties are added: alone, they are noise."""

    party: PartyName
    agreed: Agreed
    parties: tuple[PartyName, ...]  # all of whom the sum needs, sorted
    offers: Fingerprint  # of the offers of all of them
    n_features: Count  # over all parties
    step: Positive  # what one unit of the ring stands for
    part: Count  # which of the pieces of the sum this is
    n_parts: Count
    values: Packed
    lengths: Packed | None = None  # of the samples in these rows, on a ring of 64 bits, where pairs are products

    @property
    def n_bytes(self) -> int:
        """Bytes of the numbers."""
        return sum(len(packed.data) for packed in (self.values, self.lengths) if packed is not None)
