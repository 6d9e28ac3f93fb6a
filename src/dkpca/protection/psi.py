"""Which samples the parties share, found so that no member alone can test a guess offline.

Each party hashes its ids to points of P-256, raises them to its secret and hands the list on; every other party
raises it further. Exponents commute: the fully raised values of an id are equal whichever party it came from, and
nobody who lacks one of the secrets can compute them from an id. Only x-coordinates travel: x(sP) = x(-sP), so a hop
may decode either sign. P-256 has cofactor 1, hence every x that decodes is a point of the group.

What each member learns: a hop sees how long the lists are; whoever compares sees which entries of which lists are
equal; a party learns the places of its own entries. A party can enter ids that it invents, once per study.
"""

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric import ec

from dkpca.errors import FusionError, InputError, ProtectionError
from dkpca.messages import POINT_BYTES, RaisedIds

CURVE = ec.SECP256R1()
ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
MOST_TRIES = 256  # each succeeds for half of all ids


@dataclass(frozen=True)
class Ring:
    """What all parties of one alignment agree on; every hash is bound to it."""

    study: str  # digest of the agreement
    roster: tuple[str, ...]  # in the order in which a list goes round
    normalization: str = ""  # how ids were brought into one form before they were hashed

    def __post_init__(self) -> None:
        if len(self.roster) < 2 or len(set(self.roster)) != len(self.roster):
            raise InputError(f"a ring needs two or more parties with different names, not {list(self.roster)}")

    @property
    def hops(self) -> int:
        """Hops after which a list is fully raised."""
        return len(self.roster) - 1

    def at(self, owner: str, hop: int) -> str:
        """Name of the party that raises a list at a hop; hop 0 is its owner."""
        return self.roster[(self.roster.index(owner) + hop) % len(self.roster)]

    def bound(self, *parts: str | bytes) -> bytes:
        """SHA-256 of the agreed values and of more, each with its length in front."""
        fixed = ("dkpca psi 1", self.study, str(len(self.roster)), *self.roster, self.normalization, "")
        state = hashlib.sha256()
        for part in (*fixed, *parts):
            data = part.encode() if isinstance(part, str) else part
            state.update(len(data).to_bytes(8, "big") + data)
        return state.digest()

    def hashed(self, kind: str, value: str | bytes) -> bytes:
        """Hash to the curve: the x-coordinate of the first SHA-256(context, i, value) that is one."""
        for i in range(MOST_TRIES):
            x = self.bound(kind, str(i), value)
            if _decoded(x) is not None:
                return x
        raise ProtectionError("no point of the curve was found for an id")  # once in 2^256 ids


class RingMember:
    """One party of a ring, with its normalized ids.

    Exponent, order and padding follow from 32 random bytes that it uses for one ring only. A list that is padded to a
    power of two hides the number of its ids; for a union it must not be.
    """

    def __init__(self, ring: Ring, name: str, ids: Sequence[str], seed: bytes, *, pad: bool = False) -> None:
        twice = [value for value, count in Counter(ids).items() if count > 1]
        if twice:
            raise InputError(f"{len(twice):,} ids of {name!r} occur more than once, for example {twice[0]!r}")
        self.ring, self.name, self._seed = ring, name, seed
        scalar = int.from_bytes(self._drawn("exponent", "0") + self._drawn("exponent", "1"), "big") % (ORDER - 1) + 1
        self._key = ec.derive_private_key(scalar, CURVE)
        self._ids = list(ids)
        self.length = 1 << max(0, len(ids) - 1).bit_length() if pad else len(ids)
        self._order = sorted(range(self.length), key=lambda i: self._drawn("order", str(i)))
        self._answered: dict[str, tuple[list[bytes], RaisedIds]] = {}
        self._sent: set[bytes] = set()

    def first(self) -> RaisedIds:
        """Own list: hashed, padded, in a private random order, raised to the secret."""
        # H(id)^a for each id, a the party's secret exponent: points of P-256, of which only x-coordinates travel.
        n, hashed = len(self._ids), self.ring.hashed
        padding = (self._drawn("padding", str(i)) for i in range(n, self.length))
        points = [*(hashed("id", each) for each in self._ids), *(hashed("padding", each) for each in padding)]
        sent = self._list_of(self.name, 0, (points[i] for i in self._order))
        self.remember(sent)
        return sent

    def remember(self, sent: RaisedIds) -> None:
        """Know the own list again, as an earlier command sent it."""
        self._sent = set(sent.entries())

    def raise_list(self, received: RaisedIds) -> RaisedIds:
        """Another party's list, raised to the own secret, in its order; once a list."""
        check(self.ring, received)
        hop = received.hop + 1
        if self.ring.at(received.owner, hop) != self.name or received.owner == self.name:
            raise ProtectionError(f"the list of {received.owner!r} after {hop - 1} hops is not for {self.name!r}")
        entries = received.entries()
        if received.owner in self._answered:
            question, answer = self._answered[received.owner]
            if question == entries:
                return answer
            raise ProtectionError(f"another list of {received.owner!r} was raised before; a secret serves one run")
        if not self._sent:
            self.first()
        if not self._sent.isdisjoint(entries):
            raise ProtectionError(f"the list of {received.owner!r} has entries that {self.name!r} sent itself")
        answer = self._list_of(received.owner, hop, entries)
        self._answered[received.owner] = (entries, answer)
        return answer

    def rows(self, positions: Sequence[int]) -> list[int]:
        """Row numbers of the own ids at some positions of the list as sent; padding is refused."""
        rows = [self._order[position] for position in positions]
        if any(row >= len(self._ids) for row in rows):
            raise ProtectionError("a padded entry was said to be a common sample: someone changed a list")
        return rows

    def _list_of(self, owner: str, hop: int, points: Iterable[bytes]) -> RaisedIds:
        """A list whose points are raised to the own secret."""
        data = np.frombuffer(b"".join(map(self._raised, points)), dtype=np.uint8)
        return RaisedIds(self.name, owner, hop, self.ring.normalization, _context(self.ring, owner, hop), data)

    def _raised(self, x: bytes) -> bytes:
        point = _decoded(x)
        if point is None:
            raise ProtectionError(f"{x.hex()[:16]}... is not a point of P-256: someone changed a list")
        return self._key.exchange(ec.ECDH(), point)

    def _drawn(self, what: str, which: str) -> bytes:
        return hmac.digest(self._seed, self.ring.bound("drawn", self.name, what, which), "sha256")


def check(ring: Ring, received: RaisedIds) -> None:
    """Refuse a list of another run, with half a point, or with an entry twice."""
    if received.owner not in ring.roster:
        raise ProtectionError(f"{received.owner!r} is not in the ring {list(ring.roster)}")
    if not 0 <= received.hop <= ring.hops or received.context != _context(ring, received.owner, received.hop):
        raise ProtectionError(f"the list of {received.owner!r} is of another study, roster, normalization or hop")
    entries, size = received.entries(), received.points.size
    if size % POINT_BYTES:
        raise ProtectionError(f"the list of {received.owner!r} has {size:,} bytes, not whole points")
    if len(set(entries)) != len(entries):
        raise ProtectionError(f"the list of {received.owner!r} has {len(entries) - len(set(entries))} entries twice")


def intersection(by_owner: Mapping[str, Sequence[bytes]]) -> dict[str, list[int]]:
    """Positions of the common samples in each party's list, in one common order: that of the entries."""
    # H(id)^(a b c ...) is the same point whoever raised it first: equal entries are equal ids.
    common = sorted(set.intersection(*(set(entries) for entries in by_owner.values())))
    position = {owner: {entry: i for i, entry in enumerate(entries)} for owner, entries in by_owner.items()}
    return {owner: [position[owner][entry] for entry in common] for owner in by_owner}


def union(by_owner: Mapping[str, Sequence[bytes]]) -> tuple[int, dict[str, list[int]]]:
    """Number of samples that any party has, and the place of each entry of each list, unpadded, among them."""
    place = {entry: i for i, entry in enumerate(sorted(set().union(*by_owner.values())))}
    return len(place), {owner: [place[entry] for entry in entries] for owner, entries in by_owner.items()}


def fully_raised(ring: Ring, lists: Iterable[RaisedIds]) -> dict[str, list[bytes]]:
    """Entries by owner, in the order of the roster, once everything is checked."""
    by_owner: dict[str, list[bytes]] = {}
    for received in lists:
        check(ring, received)
        if received.hop != ring.hops:
            raise FusionError(f"the list of {received.owner!r} went {received.hop} of {ring.hops} hops")
        if received.owner in by_owner:
            raise FusionError(f"two lists of party {received.owner!r}; keep one of them")
        by_owner[received.owner] = received.entries()
    absent = [name for name in ring.roster if name not in by_owner]
    if absent:
        raise FusionError(f"no list from {absent}; an alignment needs every party")
    return {name: by_owner[name] for name in ring.roster}


def _context(ring: Ring, owner: str, hop: int) -> str:
    return ring.bound("list", owner, str(hop)).hex()


def _decoded(x: bytes) -> ec.EllipticCurvePublicKey | None:
    """Point with this x-coordinate, of either sign; None if there is none."""
    try:
        return ec.EllipticCurvePublicKey.from_encoded_point(CURVE, b"\x02" + x)
    except ValueError:
        return None
