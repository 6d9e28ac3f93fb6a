"""Masked sums: each party adds pairwise masks to its numbers that cancel in the sum of all.

For each pair of parties both derive the same stream (X25519, HKDF-SHA256, ChaCha20); the one whose name comes first
adds it, the other subtracts it. The stream's key is bound to the whole context: every offer, hence the run, the
roster with its keys, the samples, the kind, the shape, the bits and the reaches; and which piece of the sum it is. So
nothing said in one context can be compared with anything said in another, and each context is answered once.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dkpca.errors import FusionError, ProtectionError
from dkpca.messages import MaskedSum, Offer
from dkpca.packed import Packed
from dkpca.protection.keys import SumKey, check_offers, difference, offers_digest
from dkpca.protection.ring import LENGTHS, Numbers, Ring
from dkpca.wire.container import canonical

MASKS = b"dkpca masked sum 1\0"
SAME = {
    "parties": "other parties",
    "offers": "other offers",
    "n_features": "another number of columns",
    "step": "another step",
    "n_parts": "another number of pieces",
    "part": "another piece",
}


def ring_of(offers: Mapping[str, Offer]) -> Ring:
    """Ring on which these offers are added."""
    first = next(iter(offers.values()))
    reaches = [offers[name].reach for name in sorted(offers)]
    return Ring.for_sum(first.agreed.bits, reaches, signed=first.agreed.signed)


def masked(
    values: Numbers,
    own: SumKey,
    offers: Mapping[str, Offer],
    pinned: Mapping[str, str],
    *,
    lengths: Numbers | None = None,
    part: int = 1,
    n_parts: int = 1,
) -> MaskedSum:
    """Return a party's numbers under masks, as the message that it sends.

    Parameters
    ----------
    values : array
        What this party adds; rows after rows, of one piece where there are several.
    own : SumKey
        Its key for this sum.
    offers : mapping of party to Offer
        Of all parties.
    pinned : mapping of party to fingerprint
        Of the others' identities.
    lengths : array, optional
        Of the samples in these rows, added with more bits.
    part, n_parts : int
        Which piece of the sum this is.
    """
    check_offers(own, offers, pinned)
    name, digest, ring = own.offer.party, offers_digest(offers), ring_of(offers)
    context = canonical({"offers": digest, "part": part, "n_parts": n_parts, "count": int(np.size(values))})
    if context in own.answered:
        raise ProtectionError(
            f"party {name!r} has answered this before (sum {own.offer.agreed.run!r}, part {part}), and says nothing "
            "twice under one mask; start another sum"
        )
    numbers = [(context, ring, ring.encode(np.ravel(values), own.offer.reach))]
    if lengths is not None:
        wide = ring.for_lengths()
        numbers.append((f"{context} lengths", wide, wide.encode(lengths, LENGTHS * own.offer.reach)))
    own.answered.add(context)
    packed = [_under_masks(own, offers, *each) for each in numbers]
    return MaskedSum(
        party=name,
        agreed=own.offer.agreed,
        parties=tuple(sorted(offers)),
        offers=digest,
        n_features=sum(each.n_features for each in offers.values()),
        step=ring.step,
        part=part,
        n_parts=n_parts,
        values=packed[0],
        lengths=packed[1] if lengths is not None else None,
    )


def added(received: Sequence[MaskedSum], count: int) -> Numbers:
    """Return the sum of all parties' numbers of one piece: all parties or nothing.

    Parameters
    ----------
    received : sequence of MaskedSum
        One from each party, of the same piece.
    count : int
        How many numbers there are.
    """
    return _total([message.values for message in received], count, ring_at(check_complete(received)))


def added_lengths(received: Sequence[MaskedSum], count: int) -> Numbers:
    """Return the lengths of the samples in one piece, over all parties."""
    ring, given = ring_at(check_complete(received)).for_lengths(), [message.lengths for message in received]
    lacking = [message.party for message in received if message.lengths is None]
    if lacking:
        raise FusionError(f"no lengths of samples from {lacking}; let all parties use the same version of dkpca")
    return _total([packed for packed in given if packed is not None], count, ring)


def ring_at(message: MaskedSum) -> Ring:
    """Ring on which the numbers of this message are added."""
    return Ring(message.agreed.bits, message.step, message.agreed.signed)


def _total(given: Sequence[Packed], count: int, ring: Ring) -> Numbers:
    total = np.zeros(count, dtype=ring.dtype)
    for packed in given:
        total += ring.unpack(packed.data, count)
    return ring.decode(ring.reduced(total))


def check_complete(received: Sequence[MaskedSum]) -> MaskedSum:
    """Raise unless these are one message from each party of one sum, of one piece; return the first."""
    if not received:
        raise FusionError("no masked sum was given; the sum needs one from every party")
    first = received[0]
    names = [message.party for message in received]
    twice = sorted({name for name in names if names.count(name) > 1})
    missing, strangers = sorted(set(first.parties) - set(names)), sorted(set(names) - set(first.parties))
    if twice or missing or strangers:
        words = f"two masked sums from {twice}" if twice else f"no masked sum from {missing}"
        words = f"masked sums from {strangers}, who made no offer" if strangers else words
        raise FusionError(f"{words}; masks cancel in the sum of {list(first.parties)} only: all of them or nothing")
    for message in received[1:]:
        differ = difference(first.agreed, message.agreed) or next(
            (word for what, word in SAME.items() if getattr(message, what) != getattr(first, what)), ""
        )
        if differ:
            raise FusionError(
                f"parties {first.party!r} and {message.party!r} answered different sums: {differ}; let all of them "
                "use the same offers, and give the messages of one sum"
            )
    return first


def _under_masks(own: SumKey, offers: Mapping[str, Offer], context: str, ring: Ring, numbers: Numbers) -> Packed:
    name = own.offer.party
    for other in sorted(set(offers) - {name}):
        stream = _stream(own.shared_with(offers[other]), context, numbers.size, ring)
        numbers = numbers + stream if name < other else numbers - stream
    return Packed(ring.pack(ring.reduced(numbers)))


def _stream(shared: bytes, context: str, count: int, ring: Ring) -> Numbers:
    """Uniform numbers of the ring that both parties of a pair derive, for one context."""
    key = HKDF(SHA256(), length=32, salt=None, info=MASKS + context.encode()).derive(shared)
    width = np.dtype(ring.dtype).itemsize
    cipher = Cipher(ChaCha20(key, b"\0" * 16), mode=None).encryptor()  # a fresh key for every context: no nonce
    data = cipher.update(b"\0" * (count * width))
    return np.frombuffer(data, dtype=np.dtype(ring.dtype).newbyteorder("<")).astype(ring.dtype)
