"""The center learns the sum of all parties' numbers, and from fewer than all of them nothing."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from dkpca import wire
from dkpca.errors import FusionError, InputError, ProtectionError
from dkpca.kernels import RBF
from dkpca.messages import Agreed, digest
from dkpca.protection import joint, keys, quantities, sums
from dkpca.protection.ring import DTYPES, Ring, reach_of

NAMES = ("bank", "clinic", "shop")
IDENTITIES = {name: keys.Identity.new() for name in (*NAMES, "thief")}
PINNED = {name: IDENTITIES[name].fingerprint for name in NAMES}
DIGEST = digest(["a", "b"])
bits = st.sampled_from(sorted(DTYPES))


def agreed_on(count, n_bits=32, run="first"):
    return Agreed(run, "pairs", "rbf", count, 1, DIGEST, n_bits)


def own_keys(values, n_bits=32, run="first", names=NAMES):
    return {
        name: keys.make_offer(
            IDENTITIES[name],
            name,
            agreed_on(len(values[name]), n_bits, run),
            n_features=3,
            largest=float(np.abs(values[name]).max()),
        )
        for name in names
    }


def offers_of(own):
    return {name: key.offer for name, key in own.items()}


def masked(values, own, **settings):
    return [sums.masked(values[name], own[name], offers_of(own), PINNED, **settings) for name in own]


def numbers(seed=0, count=1000, scale=1.0):
    random = np.random.default_rng(seed)
    return {name: random.normal(size=count) * scale for name in NAMES}


@given(bits, st.integers(1, 60), st.integers(0, 2**32), st.sampled_from([1e-9, 1.0, 1e12]))
def test_the_sum_of_all_is_the_sum_to_half_a_step_each(n_bits, count, seed, scale):
    values = numbers(seed, count, scale)
    own = own_keys(values, n_bits)
    received = masked(values, own)
    total = sums.added(received, count)
    assert np.abs(total - sum(values.values())).max() <= 1.5001 * received[0].step


@given(bits, st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9))
def test_packing_loses_nothing(n_bits, whole):
    ring = Ring(n_bits, 1.0)
    reduced = ring.reduced(np.array(whole, dtype=np.uint64))
    packed = ring.pack(reduced)
    assert len(packed) == ring.packed_bytes(len(whole))
    np.testing.assert_array_equal(ring.unpack(packed, len(whole)), reduced)


def test_twenty_bits_take_five_bytes_for_two_numbers():
    assert [Ring(n_bits, 1.0).packed_bytes(1000) for n_bits in (16, 20, 32, 64)] == [2000, 2500, 4000, 8000]


@pytest.mark.parametrize("n_bits", sorted(DTYPES))
def test_masked_messages_look_uniform_whatever_is_in_them(n_bits):
    values = {name: np.full(60_000, 0.001) for name in NAMES}
    values["bank"][0] = values["clinic"][0] = values["shop"][0] = 1.0  # so that the ring is not made for 0.001
    for message in masked(values, own_keys(values, n_bits)):
        counts = np.bincount(message.values.data, minlength=256)
        assert scipy.stats.chisquare(counts).pvalue > 1e-6, message.party
        pairs = np.bincount(message.values.data[:-1].astype(int) * 256 + message.values.data[1:], minlength=2**16)
        assert scipy.stats.chisquare(pairs).pvalue > 1e-6, message.party


def with_lengths(values, lengths, own):
    return [
        sums.masked(values[name], own[name], offers_of(own), PINNED, lengths=lengths[name], n_parts=1) for name in own
    ]


@given(bits, st.integers(1, 60), st.integers(0, 2**32), st.sampled_from([1e-9, 1.0, 1e12]))
def test_lengths_are_added_with_the_digits_of_a_double(n_bits, count, seed, scale):
    values = numbers(seed, count, scale)
    own = own_keys(values, n_bits)
    lengths = {name: 15.9 * np.abs(values[name]).max() * np.linspace(0, 1, 7) for name in NAMES}
    total = sums.added_lengths(with_lengths(values, lengths, own), 7)
    truth = sum(lengths.values())
    assert np.abs(total - truth).max() <= 2e-13 * truth.max()


def test_lengths_are_noise_alone_under_masks_of_their_own_and_come_from_all():
    values = {name: np.full(60_000, 1.0) for name in NAMES}
    own = own_keys(values, 64)
    received = with_lengths(values, values, own)
    for message in received:
        assert scipy.stats.chisquare(np.bincount(message.lengths.data, minlength=256)).pvalue > 1e-6, message.party
        assert np.mean(message.lengths.data == message.values.data) < 0.02
    with pytest.raises(FusionError, match=r"no lengths of samples from \['clinic'\]"):
        sums.added_lengths([received[0], replace(received[1], lengths=None), received[2]], 60_000)


def test_a_length_out_of_range_is_refused():
    values = numbers()
    own = own_keys(values)
    with pytest.raises(InputError, match="is beyond the .* that was offered"):
        sums.masked(values["bank"], own["bank"], offers_of(own), PINNED, lengths=np.array([1e3]))


@given(st.integers(2, 200), st.integers(1, 500))
def test_pieces_of_all_pairs_have_every_pair_once_and_none_is_empty(n, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantities, "PIECE", piece)
        agreed = replace(agreed_on(n), columns=n)
        found = quantities.pieces(agreed)
        assert [row for rows in found for row in range(rows.start, rows.stop)] == list(range(n))
        counts = [quantities.count(agreed, rows) for rows in found]
        assert min(counts) > 0
        assert sum(counts) == n * (n - 1) // 2


def test_some_of_the_messages_tell_nothing_about_the_sum():
    values = numbers(count=60_000, scale=0.001)
    own = own_keys(values)
    first, second, _ = masked(values, own)
    ring = Ring(32, first.step)
    partial = ring.unpack(first.values.data, 60_000) + ring.unpack(second.values.data, 60_000)
    assert scipy.stats.chisquare(np.bincount(partial >> 24, minlength=256)).pvalue > 1e-6
    seen = ring.decode(partial)
    assert abs(np.corrcoef(seen, values["bank"] + values["clinic"])[0, 1]) < 0.02
    with pytest.raises(FusionError, match=r"no masked sum from \['shop'\]; .* all of them or nothing"):
        sums.added([first, second], 60_000)


def test_the_same_numbers_in_two_sums_share_no_mask():
    values = numbers()
    first, again = (masked(values, own_keys(values, run=run)) for run in ("first", "second"))
    differences = first[0].values.data.astype(int) - again[0].values.data
    assert np.unique(differences).size > 200


def test_pieces_of_one_sum_share_no_mask():
    values = numbers()
    own = own_keys(values)
    one, two = (masked(values, own, part=part, n_parts=2)[0] for part in (1, 2))
    assert np.mean(one.values.data == two.values.data) < 0.02


def test_a_context_is_answered_once():
    values = numbers()
    own = own_keys(values)
    masked(values, own)
    with pytest.raises(ProtectionError, match="party 'bank' has answered this before .* start another sum"):
        masked(values, own)


def test_another_roster_is_refused():
    values = numbers()
    own = own_keys(values)
    fewer = {name: offer for name, offer in offers_of(own).items() if name != "shop"}
    with pytest.raises(ProtectionError, match=r"offers are from \['bank', 'clinic'\], and the pinned parties are"):
        sums.masked(values["bank"], own["bank"], fewer, PINNED)
    with pytest.raises(ProtectionError, match="party 'bank' is alone"):
        sums.masked(values["bank"], own["bank"], {"bank": own["bank"].offer}, {})


def test_a_roster_changed_for_one_party_gives_noise_and_is_noticed():
    values = numbers()
    own = own_keys(values)
    other = own_keys(values)["shop"]  # an offer of the same party for the same sum, made twice
    mixed = offers_of(own) | {"shop": other.offer}
    messages = [
        sums.masked(values["bank"], own["bank"], mixed, PINNED),
        *(sums.masked(values[name], own[name], offers_of(own), PINNED) for name in ("clinic", "shop")),
    ]
    with pytest.raises(FusionError, match="'bank' and 'clinic' answered different sums: other offers"):
        sums.added(messages, 1000)


def test_a_foreign_key_is_refused():
    values = numbers()
    own = own_keys(values)
    forged = keys.make_offer(IDENTITIES["thief"], "shop", agreed_on(1000), n_features=3, largest=1.0)
    with pytest.raises(ProtectionError, match=r"party 'shop': its offer is signed by .* is pinned; somebody else"):
        sums.masked(values["bank"], own["bank"], offers_of(own) | {"shop": forged.offer}, PINNED)


@pytest.mark.parametrize("change", ["key", "reach", "n_features"])
def test_an_offer_that_was_altered_is_refused(change):
    values = numbers()
    own = own_keys(values)
    new = {"key": own_keys(values)["clinic"].offer.key, "reach": 512.0, "n_features": 4}[change]
    swapped = replace(own["shop"].offer, **{change: new})
    with pytest.raises(ProtectionError, match="party 'shop': its offer was altered on the way"):
        sums.masked(values["bank"], own["bank"], offers_of(own) | {"shop": swapped}, PINNED)


def test_swapped_offers_are_refused():
    values = numbers()
    own = own_keys(values)
    offers = offers_of(own)
    offers["shop"], offers["clinic"] = offers["clinic"], offers["shop"]
    with pytest.raises(ProtectionError, match="party 'clinic': its offer is signed by"):
        sums.masked(values["bank"], own["bank"], offers, PINNED)
    with pytest.raises(ProtectionError, match="under its own name is not the one it made"):
        sums.masked(values["shop"], own["shop"], offers, PINNED)


def test_one_key_under_two_names_is_refused():
    values = numbers()
    own = own_keys(values)
    copied = own | {"clinic": replace(own["clinic"], offer=replace(own["clinic"].offer, key=own["bank"].offer.key))}
    with pytest.raises(ProtectionError, match="two parties offer the same key"):
        sums.masked(values["bank"], own["bank"], offers_of(copied), PINNED)


def test_a_key_that_makes_every_secret_the_same_is_refused():
    values = numbers()
    own = own_keys(values)
    zero = replace(own["shop"].offer, key="0" * 64)
    signed = replace(zero, signature=IDENTITIES["shop"].sign(keys._signed_part(zero)))
    with pytest.raises(ProtectionError, match="party 'shop': the key it offers is none"):
        sums.masked(values["bank"], own["bank"], offers_of(own) | {"shop": signed}, PINNED)


@pytest.mark.parametrize(
    ("what", "value", "words"),
    [
        ("rows", 999, "number of samples 1000 against 999"),
        ("bits", 16, "bits 32 against 16"),
        ("kernel", "laplacian", "kernel rbf against laplacian"),
        ("run", "other", "run first against other"),
        ("sample_digest", digest(["b", "a"]), "other samples, or the same in another order"),
    ],
)
def test_parties_that_agreed_on_different_sums_are_told(what, value, words):
    values = numbers()
    own = own_keys(values)
    other = replace(agreed_on(1000), **{what: value})
    offers = offers_of(own) | {
        "shop": keys.make_offer(IDENTITIES["shop"], "shop", other, n_features=3, largest=1.0).offer
    }
    with pytest.raises(ProtectionError, match=f"'bank' and 'shop' offer different sums: {words}"):
        sums.masked(values["bank"], own["bank"], offers, PINNED)


@pytest.mark.parametrize("value", [5000.0, -5000.0, np.nan, np.inf])
def test_a_value_out_of_range_is_refused_and_never_clipped(value):
    values = numbers()
    own = own_keys(values)
    values["bank"][3] = value
    with pytest.raises(InputError, match="is beyond the .* that was offered"):
        masked(values, own)


def test_the_largest_values_of_all_parties_at_once_do_not_overflow():
    values = {name: np.array([8.0, -8.0]) for name in NAMES}
    np.testing.assert_allclose(sums.added(masked(values, own_keys(values, 16)), 2), [24.0, -24.0], atol=0.01)


def test_a_reach_tells_the_largest_value_to_a_tenth_only():
    assert [reach_of(value) for value in (0.5, 1.0, 8.0, 2048.0)] == [0.5, 1.0, 8.0, 2048.0]
    for value in np.exp(np.random.default_rng(0).uniform(-300, 300, size=1000)):
        assert value <= reach_of(value) <= 1.0906 * value
        assert reach_of(reach_of(value)) == reach_of(value)
    with pytest.raises(InputError, match="not finite"):
        reach_of(np.inf)


def test_bits_too_few_for_the_parties_are_refused():
    with pytest.raises(InputError, match="16 bits are too few for a sum of 20000 parties"):
        Ring.for_sum(16, [1.0] * 20_000)


def test_bytes_that_do_not_fit_the_shape_are_refused():
    values = numbers()
    with pytest.raises(InputError, match="4000 bytes are not 999 numbers of 32 bits"):
        sums.added(masked(values, own_keys(values)), 999)


def test_a_message_twice_and_a_stranger_are_refused():
    values = numbers()
    messages = masked(values, own_keys(values))
    with pytest.raises(FusionError, match=r"two masked sums from \['bank'\]"):
        sums.added([*messages, messages[0]], 1000)
    with pytest.raises(FusionError, match=r"masked sums from \['thief'\], who made no offer"):
        sums.added([*messages, replace(messages[0], party="thief")], 1000)


def test_pieces_that_are_missing_or_come_twice_are_named(monkeypatch):
    monkeypatch.setattr(quantities, "PIECE", 900)
    values = numbers(count=999)  # the pairs of 45 samples with each other, and nine more
    values = {name: np.abs(each[:990]) for name, each in values.items()}
    own = {
        name: keys.make_offer(
            IDENTITIES[name],
            name,
            replace(agreed_on(45), columns=45, signed=False),
            n_features=3,
            largest=float(each.max()),
        )
        for name, each in values.items()
    }
    pieces = quantities.pieces(own["bank"].offer.agreed)
    assert len(pieces) == 2
    first = masked(
        {name: each[: quantities.count(own[name].offer.agreed, pieces[0])] for name, each in values.items()},
        own,
        n_parts=2,
    )
    with pytest.raises(FusionError, match="has 2 pieces, and only 1 came"):
        joint.summary_of(RBF(1.0), lambda: [first])
    with pytest.raises(FusionError, match="has 2 pieces, and others than these came"):
        joint.summary_of(RBF(1.0), lambda: [first, first])


def test_offers_and_masked_sums_travel():
    values = numbers()
    own = own_keys(values)
    messages: list[Any] = [wire.decode(wire.encode(message)) for message in masked(values, own)]
    np.testing.assert_allclose(sums.added(messages, 1000), sum(values.values()), atol=1e-7)
    assert wire.decode(wire.encode(own["bank"].offer)) == own["bank"].offer


def test_secrets_are_not_shown():
    own = own_keys(numbers())["bank"]
    assert own.secret.hex() not in repr(own)
    assert repr(own.secret) not in repr(own)
    assert repr(IDENTITIES["bank"].secret) not in repr(IDENTITIES["bank"])
