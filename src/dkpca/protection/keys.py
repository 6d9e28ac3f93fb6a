"""Secrets between parties: derived by HKDF-SHA256 from seeds that each party gave to each other one.

A share of the group key is the same for all parties; a pair seed is for two of them. Nobody who lacks the seed of one
party can compute the group key, and nobody but the two of a pair its key.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dkpca.errors import needed_from
from dkpca.messages import SEED_BYTES, Seed

GROUP, PAIR, OWN = b"dkpca group key 2\0", b"dkpca pair key 2\0", b"dkpca party 2\0"
Numbers = np.ndarray[Any, Any]


def hkdf(secret: bytes, info: bytes) -> bytes:
    """Derive 32 bytes by HKDF with SHA-256 and no salt (RFC 5869)."""
    with needed_from("protect", "protect="):
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    return HKDF(SHA256(), SEED_BYTES, None, info).derive(secret)


def own(secret: bytes, run: str, purpose: str) -> bytes:
    """What a party draws from its own secret, for one purpose in one run."""
    return hkdf(secret, OWN + f"{run}\0{purpose}".encode())


def seeds_for(secret: bytes, run: str, party: str, roster: Sequence[str]) -> dict[str, Seed]:
    """Seeds of a party for each of the others: one share for all of them, and one seed for each pair."""
    share, others = own(secret, run, "share").hex(), [other for other in roster if other != party]
    return {other: Seed(party, other, share, own(secret, run, f"pair {other}").hex()) for other in others}


def group_key(secret: bytes, run: str, party: str, roster: Sequence[str], received: Mapping[str, Seed]) -> bytes:
    """Key that all parties of the roster share; the order of the roster is that of the plan."""
    shares = {name: bytes.fromhex(seed.share) for name, seed in received.items()} | {party: own(secret, run, "share")}
    return hkdf(b"".join(shares[name] for name in roster), GROUP + _context(run, roster))


def pair_key(secret: bytes, run: str, party: str, roster: Sequence[str], seed: Seed) -> bytes:
    """Key of this party and the one that sent the seed."""
    seeds = {party: own(secret, run, f"pair {seed.party}"), seed.party: bytes.fromhex(seed.seed)}
    both = sorted(seeds, key=roster.index)
    return hkdf(b"".join(seeds[name] for name in both), PAIR + _context(run, both))


def stream(key: bytes, n_bytes: int) -> bytes:
    """ChaCha20 under a key that is used for this alone, hence without a nonce."""
    with needed_from("protect", "protect="):
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20
    return Cipher(ChaCha20(key, b"\0" * 16), mode=None).encryptor().update(b"\0" * n_bytes)


def uniform(key: bytes, count: int) -> Numbers:
    """Uniform whole numbers of 64 bits."""
    return np.frombuffer(stream(key, 8 * count), dtype="<u8")


def _context(run: str, names: Sequence[str]) -> bytes:
    return "\0".join((run, *names)).encode()
