"""The center learns the sum of all parties' numbers, and from fewer than all of them nothing."""

import hashlib
import hmac
import json
import struct
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from dkpca.errors import InputError
from dkpca.kernels import RBF
from dkpca.party.answers import Party
from dkpca.party.questions import SumsWanted
from dkpca.protection import keys, masks, quantities
from dkpca.protection.masks import ModularRing
from dkpca.protection.quantities import Addends, Compared

NAMES = ("bank", "clinic", "shop")
QUESTION = "ab" * 32
VECTORS = json.loads((Path(__file__).parent / "vectors" / "masks.json").read_text())
bits = st.sampled_from([32, 64])


def pair_keys(run="first", names=NAMES, secret=b"secret of "):
    """Keys of all pairs, by party, from seeds that all have exchanged."""
    seeds = {name: keys.seeds_for(secret + name.encode(), run, name, names) for name in names}
    return {
        name: {
            other: keys.pair_key(secret + name.encode(), run, name, names, seeds[other][name])
            for other in names
            if other != name
        }
        for name in names
    }


def numbers(seed=0, count=1000, scale=1.0):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=count) * scale for name in NAMES}


def masked(values, ring, bound, question=QUESTION, part="values"):
    secret = pair_keys()
    return {
        name: masks.under_masks(ring.encode(values[name], bound), name, NAMES, secret[name], question, part)
        for name in values
    }


@given(bits, st.integers(1, 60), st.integers(0, 2**32), st.sampled_from([1e-9, 1.0, 1e12]))
def test_the_sum_of_all_is_the_sum_to_half_a_step_each(n_bits, count, seed, scale):
    values = numbers(seed, count, scale)
    bound = max(float(np.abs(each).max()) for each in values.values())
    ring = ModularRing.for_sum(n_bits, 3 * bound, 3)
    total = masks.added(list(masked(values, ring, bound).values()), ring, count)
    truth = sum(values.values())
    assert np.abs(total - truth).max() <= 1.5 * ring.step + 4e-16 * np.abs(truth).max()


@pytest.mark.parametrize("n_bits", [32, 64])
def test_masked_messages_look_uniform_whatever_is_in_them(n_bits):
    ring = ModularRing.for_sum(n_bits, 3.0, 3)
    for values in ({name: np.zeros(20_000) for name in NAMES}, {name: np.ones(20_000) for name in NAMES}):
        for packed in masked(values, ring, 1.0).values():
            counts = np.bincount(packed.data, minlength=256)
            assert scipy.stats.chisquare(counts).pvalue > 1e-6


def test_some_of_the_messages_tell_nothing_about_the_sum():
    ring = ModularRing.for_sum(32, 3.0, 3)
    sent = masked({name: np.zeros(5000) for name in NAMES}, ring, 1.0)
    partial = masks.added([sent["bank"], sent["clinic"]], ring, 5000)
    assert np.std(partial) > 0.5 * 2**31 * ring.step / 2


def test_another_question_piece_run_or_count_has_other_masks():
    ring = ModularRing.for_sum(32, 3.0, 3)
    zero = {name: np.zeros(100) for name in NAMES}
    first = masked(zero, ring, 1.0)["bank"].data
    others = [
        masked(zero, ring, 1.0, question="cd" * 32)["bank"].data,
        masked(zero, ring, 1.0, part="lengths")["bank"].data,
        masked({name: np.zeros(101) for name in NAMES}, ring, 1.0)["bank"].data[:400],
        masks.under_masks(ring.encode(np.zeros(100), 1.0), "bank", NAMES, pair_keys("second")["bank"], QUESTION).data,
    ]
    for other in others:
        assert np.mean(first == other) < 0.05


def test_keys_depend_on_run_roster_and_every_partys_seed():
    def group(run, names, changed=b""):
        seeds = {n: keys.seeds_for(b"secret of " + n.encode(), run, n, names) for n in names}
        if changed:
            seeds["shop"] = keys.seeds_for(changed, run, "shop", names)
        received = {n: seeds[n]["bank"] for n in names if n != "bank"}
        return keys.group_key(b"secret of bank", run, "bank", names, received)

    first = group("first", NAMES)
    assert len({first, group("second", NAMES), group("first", NAMES[::-1]), group("first", NAMES, b"other")}) == 4
    mine = pair_keys()
    assert mine["bank"]["shop"] == mine["shop"]["bank"]
    assert len({mine[a][b] for a in NAMES for b in NAMES if a < b}) == 3


@pytest.mark.parametrize("value", [1.0001, -2.0, np.nan, np.inf])
def test_a_value_out_of_range_is_refused_and_never_clipped(value):
    ring = ModularRing.for_sum(32, 3.0, 3)
    with pytest.raises(InputError, match="beyond the bound"):
        ring.encode(np.array([0.5, value]), 1.0)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("n_bits", [32, 64])
def test_the_largest_values_of_all_parties_at_once_do_not_overflow(sign, n_bits):
    ring = ModularRing.for_sum(n_bits, 3.0, 3)
    total = masks.added(list(masked({n: np.full(5, sign) for n in NAMES}, ring, 1.0).values()), ring, 5)
    np.testing.assert_allclose(total, 3.0 * sign, rtol=1e-8)


@given(st.lists(st.floats(1e-290, 1e290), min_size=3, max_size=3))
def test_a_masked_bound_is_the_largest_power_of_two_and_tells_no_other(sizes):
    random = np.random.default_rng(0)
    secret, drawn = pair_keys(), {}
    for name, size in zip(NAMES, sizes, strict=True):
        own = masks.bits_of(size, random.integers(1, 2**63, len(masks.POWERS), dtype=np.uint64))
        drawn[name] = masks.under_masks(own, name, NAMES, secret[name], QUESTION)
    found = masks.largest_power(list(drawn.values()))
    assert max(sizes) <= found < 2.0 * max(sizes) * (1 + 1e-12)


def test_bounds_of_numbers_without_end_are_refused():
    with pytest.raises(InputError, match="not finite; scale the columns"):
        masks.bits_of(np.inf, np.ones(len(masks.POWERS), dtype=np.uint64))


@given(st.integers(2, 200), st.integers(1, 500))
def test_pieces_of_all_pairs_have_every_pair_once_and_none_is_empty(n, piece):
    what = Addends("pairs", n, n, 32, lengths=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantities, "PIECE", piece)
        pieces = what.pieces
    assert [rows.start for rows in pieces[1:]] == [rows.stop for rows in pieces[:-1]]
    assert sum(what.count(rows) for rows in pieces) == n * (n - 1) // 2
    assert all(what.count(rows) > 0 for rows in pieces)


def test_bounds_from_the_plan_hold_for_standardized_columns():
    random = np.random.default_rng(0)
    for table in (random.normal(size=(50, 3)), random.standard_cauchy(size=(50, 3)), np.eye(50)[:, :3]):
        X = (table - table.mean(axis=0)) / table.std(axis=0)
        for what in (Addends("pairs", 50, 50, 32, lengths=True), Addends("columns", 50, 20, 32)):
            values, lengths = quantities.largest(
                what, partial(quantities.addend, what, Compared(RBF(1.0), X, X[:20]))
            )
            bounds = quantities.bounds_without_data(what, RBF(1.0), 3)
            assert bounds is not None
            assert (values <= bounds[0], lengths <= bounds[1] or not what.lengths) == (True, True)


# A second implementation, from RFC 5869 and RFC 8439 and the sentences of `protection.masks`, without NumPy.


def naive_hkdf(secret: bytes, info: bytes) -> bytes:
    extracted = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(extracted, info + b"\x01", hashlib.sha256).digest()


def naive_chacha20(key: bytes, n_bytes: int) -> bytes:
    def quarter(s, a, b, c, d):
        for x, y, z, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            s[x] = (s[x] + s[y]) % 2**32
            s[z] ^= s[x]
            s[z] = ((s[z] << turn) | (s[z] >> (32 - turn))) % 2**32

    out, counter = b"", 0
    while len(out) < n_bytes:
        start = [0x61707865, 0x3320646E, 0x79622D32, 0x6B206574, *struct.unpack("<8I", key), counter, 0, 0, 0]
        state = list(start)
        for _ in range(10):
            for column in range(4):
                quarter(state, column, 4 + column, 8 + column, 12 + column)
            for diagonal in range(4):
                quarter(
                    state,
                    diagonal,
                    4 + (diagonal + 1) % 4,
                    8 + (diagonal + 2) % 4,
                    12 + (diagonal + 3) % 4,
                )
        out += struct.pack("<16I", *((a + b) % 2**32 for a, b in zip(state, start, strict=True)))
        counter += 1
    return out[:n_bytes]


def naive_message(party: str, whole: list[int], n_bits: int) -> bytes:
    """Numbers of a party under masks, from the vectors' seeds."""
    roster, run, width = VECTORS["roster"], VECTORS["run"], n_bits // 8
    total = list(whole)
    for other in roster:
        if other == party:
            continue
        first, second = sorted((party, other), key=roster.index)
        seeds = bytes.fromhex(VECTORS["seeds"][first][second] + VECTORS["seeds"][second][first])
        key = naive_hkdf(seeds, b"dkpca pair key 2\0" + "\0".join((run, first, second)).encode())
        context = f"{VECTORS['question']}\0{VECTORS['part']}\0{len(whole)}"
        stream = naive_chacha20(naive_hkdf(key, b"dkpca masks 2\0" + context.encode()), width * len(whole))
        sign = 1 if party == first else -1
        for at in range(len(whole)):
            total[at] += sign * int.from_bytes(stream[width * at : width * (at + 1)], "little")
    return b"".join((number % 2**n_bits).to_bytes(width, "little") for number in total)


@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: f"{case['bits']} bits")
def test_published_vectors_hold_for_this_and_for_a_naive_implementation(case):
    roster, n_bits = VECTORS["roster"], case["bits"]
    ring = ModularRing(n_bits, case["step"])
    total = np.zeros(len(case["sum"]))
    for party in roster:
        whole = [round(value / case["step"]) for value in case["values"][party]]
        assert naive_message(party, whole, n_bits).hex() == case["messages"][party]
        seeds = VECTORS["seeds"]
        pair = {
            other: keys.hkdf(
                bytes.fromhex(
                    seeds[party][other] + seeds[other][party]
                    if roster.index(party) < roster.index(other)
                    else seeds[other][party] + seeds[party][other]
                ),
                keys.PAIR + "\0".join((VECTORS["run"], *sorted((party, other), key=roster.index))).encode(),
            )
            for other in roster
            if other != party
        }
        numbers = ring.encode(np.array(case["values"][party]), case["bound"])
        packed = masks.under_masks(numbers, party, roster, pair, VECTORS["question"], VECTORS["part"])
        assert packed.tobytes().hex() == case["messages"][party]
        total += np.array(case["values"][party])
    np.testing.assert_allclose(total, case["sum"])
    received = [np.frombuffer(bytes.fromhex(case["messages"][party]), dtype=np.uint8) for party in roster]
    np.testing.assert_allclose(masks.added(received, ring, len(total)), case["sum"], atol=2 * case["step"])


def test_secrets_are_not_shown():
    from dkpca.party.answers import Party

    party = Party("bank", lambda kind: np.zeros((2, 2)), NAMES, "run", b"a secret of 32 bytes, and no more")
    assert "secret" not in repr(party).replace("secrets", "")


def test_other_samples_under_one_question_are_under_other_masks():
    X = np.random.default_rng(0).normal(size=(31, 3))
    secrets = {name: b"secret of " + name.encode() for name in NAMES}
    seeds = {name: keys.seeds_for(secrets[name], "first", name, NAMES) for name in NAMES}
    asked = SumsWanted(
        "sums-1", "first", NAMES, RBF(0.5), Addends("pairs", 30, 30, 32),
        bounds=dict.fromkeys(NAMES, 100.0), length_bounds=dict.fromkeys(NAMES, 100.0),
    )  # fmt: skip

    def sent(rows):
        party = Party("bank", lambda _: X, NAMES, "first", secrets["bank"], ids=[f"p{i}" for i in range(31)])
        party.received = {("", other): seeds[other]["bank"] for other in NAMES if other != "bank"}
        party.order[""] = rows
        return np.frombuffer(party.answer(asked).values, dtype=np.uint32)

    first, again = sent(list(range(30))), sent(list(range(30)))
    other = sent([*range(29), 30])  # as a center names them that hopes for the difference of two samples
    assert np.array_equal(first, again)
    assert np.mean(first == other) < 0.05
