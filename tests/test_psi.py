"""Alignment by a ring of exponentiations: the sets are right, and a hop that cheats is refused or caught."""

import hashlib
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dkpca.errors import FusionError, InputError, ProtectionError
from dkpca.messages import POINT_BYTES
from dkpca.party import questions as q
from dkpca.party.answers import Party
from dkpca.protection import keys
from dkpca.protection.psi import ORDER, Ring, RingMember, fully_raised, intersection, union

STUDY = "ab" * 32


def seed(name):
    return hashlib.sha256(name.encode()).digest()


def members(ids, *, pad=False, study=STUDY):
    ring = Ring(study, tuple(ids), "nfc")
    return ring, {name: RingMember(ring, name, own, seed(name), pad=pad) for name, own in ids.items()}


def around(ring, parties, tamper=lambda raised: raised):
    """Entries of the fully raised lists by owner; `tamper` sees each list after each hop."""
    return fully_raised(ring, sent_around(ring, parties, tamper))


def sent_around(ring, parties, tamper=lambda raised: raised):
    lists = []
    for owner in ring.roster:
        raised = tamper(parties[owner].first())
        for hop in range(1, ring.hops + 1):
            raised = tamper(parties[ring.at(owner, hop)].raise_list(raised))
        lists.append(raised)
    return lists


def common_ids(ids, parties, found):
    return {name: [ids[name][row] for row in parties[name].rows(found[name])] for name in ids}


THREE = {"clinic": ["Åsa", "b", "c", "d"], "lab": ["d", "x", "Åsa", "c"], "register": ["c", "Åsa", "名前", "d", "b"]}
texts = st.text(max_size=4).map(lambda text: text.encode("utf-8", "ignore").decode())


@settings(deadline=None, max_examples=10)
@given(st.lists(st.lists(texts, unique=True, max_size=5), min_size=2, max_size=5))
def test_intersection_and_union_are_those_of_the_clear_ids(lists):
    ids = {f"p{i}": own for i, own in enumerate(lists)}
    ring, parties = members(ids, pad=True)
    found = common_ids(ids, parties, intersection(around(ring, parties)))
    assert set(found["p0"]) == set.intersection(*map(set, lists))
    assert all(own == found["p0"] for own in found.values())

    ring, parties = members(ids)
    raised = around(ring, parties)
    total, places = union(raised)
    everybody = set().union(*lists)
    assert total == len(everybody)
    at: dict[int, str] = {}
    for name in ids:
        for position, place in enumerate(places[name]):
            assert at.setdefault(place, ids[name][parties[name].rows([position])[0]]) in ids[name]
    assert sorted(at.values()) == sorted(everybody)
    assert agree(ids, parties, intersection(raised))


@pytest.mark.longer
def test_twenty_parties():
    ids = {f"p{i}": ["one", "two", *(f"{i}-{k}" for k in range(i % 3))] for i in range(20)}
    ring, parties = members(ids, pad=True)
    found = common_ids(ids, parties, intersection(around(ring, parties)))
    assert set(found["p7"]) == {"one", "two"}
    assert all(own == found["p0"] for own in found.values())


def test_a_party_raises_each_id_of_the_others_once_and_its_own_at_most_twice(monkeypatch):
    """Exponentiations are what the ring costs."""
    raised, raise_one = [], RingMember._raised

    def counted(self, x):
        raised.append(x)
        return raise_one(self, x)

    monkeypatch.setattr(RingMember, "_raised", counted)
    ids = {name: [f"{i}" for i in range(k, 20 + k)] for k, name in enumerate("abcd")}
    assert len(intersection(around(*members(ids)))["a"]) == 17
    assert len(raised) <= (3 + 2) * 4 * 20


def test_lists_look_alike_whatever_was_padded():
    """Neither the order of the ids nor their number shows."""
    ring, parties = members({"a": ["1", "2", "3", "4"], "b": ["1", "2", "3"]}, pad=True)
    lists = [party.first() for party in parties.values()]
    assert {raised.points.size for raised in lists} == {4 * POINT_BYTES}
    other = RingMember(ring, "b", ["3", "2", "1"], seed("another seed"), pad=True)
    assert set(other.first().entries()).isdisjoint(lists[1].entries())


@pytest.mark.parametrize(("n", "length"), [(1, 1), (3, 4), (4, 4), (5, 8)])
def test_a_party_pads_its_list_to_a_power_of_two(n, length):
    own = [str(i) for i in range(n)]
    party = RingMember(Ring(STUDY, ("a", "b")), "a", own, seed("a"), pad=True)
    assert party.length == len(party.first().entries()) == length


@pytest.mark.parametrize(("study", "normalization"), [("cd" * 32, "nfc"), (STUDY, "nfkc")])
def test_one_seed_in_another_study_is_another_secret(study, normalization):
    first = RingMember(Ring(STUDY, ("a", "b"), "nfc"), "a", ["1"], seed("a")).first()
    ring = Ring(study, ("a", "b"), normalization)
    assert RingMember(ring, "a", ["1"], seed("a")).first().entries() != first.entries()
    with pytest.raises(ProtectionError, match="another study, roster, normalization or hop"):
        RingMember(ring, "b", ["1"], seed("b")).raise_list(first)


def with_points(raised, data):
    return replace(raised, points=np.frombuffer(data, dtype=np.uint8))


def reversed_(raised):
    return with_points(raised, b"".join(reversed(raised.entries())))


ATTACKS = {
    "doubles an entry": (
        lambda r: with_points(r, b"".join([r.entries()[0], r.entries()[0], *r.entries()[2:]])),
        "twice",
    ),
    "cuts a point": (lambda r: with_points(r, b"".join(r.entries())[:-1]), "127 bytes, not whole points"),
    "leaves the curve": (lambda r: with_points(r, b"\xff" * POINT_BYTES + b"".join(r.entries()[1:])), "not a point"),
    "claims another owner": (lambda r: replace(r, owner="lab"), "another study, roster, normalization or hop"),
    "claims another hop": (lambda r: replace(r, hop=1 - r.hop), "another study, roster, normalization or hop"),
    "claims a stranger": (lambda r: replace(r, owner="bank"), "'bank' is not in the ring"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hop_that_changes_the_form_of_a_list_is_refused(attack):
    change, reason = ATTACKS[attack]
    ring, parties = members(THREE, pad=True)
    with pytest.raises(ProtectionError, match=reason):
        around(ring, parties, lambda r: change(r) if r.owner == "clinic" and r.hop == 1 else r)


def replaced(ring):
    """Points that fit the form, and are nobody's."""
    return lambda r: with_points(r, b"".join(ring.hashed("id", f"invented {i}") for i in range(len(r.entries()))))


def agree(ids, parties, found):
    """Whether all parties come to the same common samples, of which each sends a digest."""
    try:
        return len({tuple(own) for own in common_ids(ids, parties, found).values()}) == 1
    except ProtectionError:  # a padded entry would be a common sample
        return False


@pytest.mark.parametrize("padded", [True, False])
@pytest.mark.parametrize("hop", [0, 1, 2])
def test_a_hop_that_reorders_is_caught_by_the_digest_of_common_samples(hop, padded):
    ring, parties = members(THREE, pad=padded)
    lists = around(ring, parties, lambda r: reversed_(r) if r.owner == "clinic" and r.hop == hop else r)
    found = intersection(lists)
    assert not agree(THREE, parties, found)


def test_a_hop_that_changes_entries_makes_a_smaller_set_and_no_false_match():
    ring, parties = members(THREE, pad=True)
    invent = replaced(ring)
    lists = around(ring, parties, lambda r: invent(r) if r.owner == "lab" and r.hop == 1 else r)
    assert intersection(lists) == {"clinic": [], "lab": [], "register": []}


def test_a_secret_raises_each_list_once():
    _, parties = members(THREE, pad=True)
    sent = parties["clinic"].first()
    answer = parties["lab"].raise_list(sent)
    assert parties["lab"].raise_list(sent) == answer
    with pytest.raises(ProtectionError, match="another list of 'clinic' was raised before; a secret serves one run"):
        parties["lab"].raise_list(reversed_(sent))


def test_a_party_does_not_raise_its_own_entries_again():
    _, parties = members(THREE, pad=True)
    own, sent = parties["lab"].first(), parties["clinic"].first()
    with pytest.raises(ProtectionError, match="has entries that 'lab' sent itself"):
        parties["lab"].raise_list(replace(sent, points=own.points))


def test_a_list_goes_to_the_next_party_only():
    _, parties = members(THREE, pad=True)
    with pytest.raises(ProtectionError, match="after 0 hops is not for 'register'"):
        parties["register"].raise_list(parties["clinic"].first())


def test_whoever_compares_wants_every_list_once_and_fully_raised():
    ring, parties = members(THREE, pad=True)
    lists = sent_around(ring, parties)
    with pytest.raises(FusionError, match=r"no list from \['register'\]"):
        fully_raised(ring, lists[:2])
    with pytest.raises(FusionError, match="two lists of party 'clinic'"):
        fully_raised(ring, [lists[0], *lists])
    with pytest.raises(FusionError, match="went 0 of 2 hops"):
        fully_raised(ring, [parties["clinic"].first(), *lists[1:]])


def test_what_a_party_enters_is_checked():
    ring = Ring(STUDY, ("a", "b"))
    with pytest.raises(InputError, match="1 ids of 'a' occur more than once, for example 'x'"):
        RingMember(ring, "a", ["x", "x"], seed("a"))
    with pytest.raises(InputError, match="two or more parties"):
        Ring(STUDY, ("a",))
    padded = RingMember(ring, "a", [], seed("a"), pad=True)
    with pytest.raises(ProtectionError, match="a padded entry was said to be a common sample"):
        padded.rows([0])


def on_the_curve(x):
    """P-256 by its equation alone: y^2 = x^3 - 3x + b has a root."""
    p = 2**256 - 2**224 + 2**192 + 2**96 - 1
    b = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
    square = (pow(x, 3, p) - 3 * x + b) % p
    return pow(square, (p - 1) // 2, p) == 1


def test_wire_vectors():
    """Written down once: whoever changes a byte of the protocol breaks studies that are under way."""
    ring = Ring(STUDY, ("clinic", "lab"), "nfc")
    assert ring.bound().hex() == VECTORS["context"]
    assert ring.hashed("id", "Åsa").hex() == VECTORS["Åsa"]
    assert on_the_curve(int(VECTORS["Åsa"], 16))
    clinic, lab = (
        RingMember(ring, "clinic", ["Åsa"], seed("clinic")),
        RingMember(ring, "lab", ["x", "Åsa"], seed("lab")),
    )
    sent = clinic.first()
    assert [x.hex() for x in sent.entries()] == VECTORS["clinic"]
    assert sent.context == VECTORS["context of the list"]
    assert [x.hex() for x in lab.raise_list(sent).entries()] == VECTORS["clinic raised by lab"]
    assert ORDER % 2 == 1


VECTORS = {
    "context": "99de44c88c555efca48624d1272f0df2ffab68f875b8031c367f3d8416fef15b",
    "Åsa": "098808c2c9c5bd3677af3f0edabfdb7a2286b0707a3baba6c72a08bab05c08fd",
    "clinic": ["c0263b4258165d8dd0c0498184b089f872d3d44327654260da9f531f482b9405"],
    "context of the list": "58c0244ff6770b3a3eba9085f9204a1663599bb6ad9fcd2a26974da9b03c79fc",
    "clinic raised by lab": ["7c5aca4efddfd3f26507333f4d8df48f4f20d3f093bb731adc99df27f200d79e"],
}


@pytest.mark.parametrize("positions", [[0, 3], [1, 1]])
def test_positions_that_are_not_in_the_list_of_tokens_are_refused(positions):
    party = Party("a", lambda _: np.zeros((3, 1)), ("a", "b"), "run", b"its own", ids=["x", "y", "z"])
    party.received["", "b"] = keys.seeds_for(b"of the other", "run", "b", ("a", "b"))["a"]
    with pytest.raises(ProtectionError, match="the common samples are not entries of its list, each once"):
        party.answer(q.MatchedGiven(3, q.packed_numbers(positions), 2))
