"""Attempts of a dishonest center, or of a dishonest party, against protected fits; each of them was tried and fails.

What a center can do all the same is in docs/threat-model.md.
"""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from dkpca import wire
from dkpca.errors import FusionError, NoAnswerError, ProtectionError
from dkpca.exchange.questions import (
    OfferWanted,
    RowsWanted,
    ScorerGiven,
    ShareOfferWanted,
    StatisticsWanted,
    SumsWanted,
    TokensWanted,
)
from dkpca.fusion.scoring import scorers
from dkpca.kernels import RBF
from dkpca.linalg.precision import Rounded
from dkpca.messages import CommonTokens, MaskedSum, Offer, Offers, SampleTokens, Tokens
from dkpca.network.protocol import Asked
from dkpca.network.responder import Responder
from dkpca.protection.ring import Ring
from dkpca.rank import Fixed
from dkpca.store import ledger, message_files
from testkit.owners import GAMMA, OWNERS
from tests.exchange.test_protected_questions import BLIND, SUMS, ask, offers_of, peers

pytestmark = pytest.mark.slow  # whole exchanges; test_protected_fits.py has the same sums in one process

__all__ = ["peers"]  # a fixture


def bringing(consortium, party, change):
    """Have what a party sends changed on its way, as if the party had sent it so."""

    def tamper(name, data):
        if name != party or not data:
            return data
        return wire.encode(change(wire.decode(data)))

    consortium.transport.tamper = tamper


def test_rows_of_new_samples_in_the_open_after_a_protected_fit(peers):
    peers.center().fit("first", SUMS)
    peers.center().fit("second", BLIND)
    for run in ("first", "second"):
        for exact in (False, True):
            answer = ask(peers, "bank", RowsWanted("spring", exact), run=run)
            assert answer.code == "cannot answer"
            assert "its fit was protected" in (peers.party("bank") / ledger.NAME).read_text()
    assert not list(peers.party("bank").rglob("*.rows"))


def test_other_samples_behind_an_offer_that_stands(peers):
    """The common samples are replaced, by another question, between the offer and the numbers."""
    tokens = [
        message_files.read(ask(peers, o, TokensWanted(), run="first").file, SampleTokens).tokens.listed()
        for o in OWNERS
    ]
    first, second = (CommonTokens(3, Tokens.of(tokens[0][part])) for part in (slice(0, 30), slice(1, 31)))
    offers = []
    for owner in OWNERS:
        answer = ask(peers, owner, OfferWanted("first", RBF(GAMMA), common=first))
        offers.append(message_files.read(answer.file, Offer))
    assert ask(peers, "bank", StatisticsWanted(second)).code == "ok"
    answer = ask(peers, "bank", SumsWanted(Offers(tuple(offers))))
    assert answer.code == "cannot answer"
    assert not (peers.party("bank") / "runs" / "first" / "bank.sums").exists()


def test_one_more_sum_about_all_samples_but_one_under_the_same_keys(peers):
    """Two sums that differ by a sample need two offers of everybody, and each of them is a fit that is counted."""
    peers.policy("bank", "max_fits = 1\n")
    offers_of(peers)
    tokens = message_files.read(ask(peers, "bank", TokensWanted(), run="second").file, SampleTokens).tokens.listed()
    answer = ask(
        peers, "bank", OfferWanted("second", RBF(GAMMA), common=CommonTokens(3, Tokens.of(tokens[1:]))), run="second"
    )
    assert answer.code == "refused"
    assert "max_fits = 1" in answer.reason


def test_offers_without_end(peers):
    offers = offers_of(peers)
    asked = Asked("7" * 32, "first", {"kind": "SumsWanted"}, 10**9, "0" * 64)
    answer = Responder(peers.party("bank"), "bank").weigh(asked)
    assert answer.code == "not understood"
    many = Offers((*offers.values(),) * 40)
    assert ask(peers, "bank", SumsWanted(many)).code == "refused"


def test_a_scorer_for_somebody_else_of_another_fit_or_too_large(peers):
    run = peers.center().fit("first", BLIND)
    peers.center().fit("other", replace(BLIND, rank=Fixed(2)))
    mine = scorers(run.model)["bank"]
    assert ask(peers, "bank", ScorerGiven(replace(mine, party="shop"))).code == "cannot answer"
    assert ask(peers, "bank", ScorerGiven(mine), run="other").code == "cannot answer"
    large = Asked("7" * 32, "first", {"kind": "ScorerGiven"}, 10**9, "0" * 64)
    assert Responder(peers.party("bank"), "bank").weigh(large).code == "not understood"
    endless = replace(mine, weights=Rounded(np.full(mine.weights.shape, 1e308)))
    assert ask(peers, "bank", ScorerGiven(endless)).code == "ok"
    answer = ask(peers, "bank", ScorerGiven(mine))
    assert "it has a scorer for this fit, and takes no other" in answer.reason
    assert (
        ask(peers, "bank", ShareOfferWanted("later", "spring")).code == "cannot answer"
    )  # its shares are no numbers


def test_secrets_are_nowhere_but_in_their_files(peers):
    peers.center().fit("first", SUMS)
    peers.center().fit("second", BLIND)
    peers.center().project("second", ["spring"])
    for owner in OWNERS:
        folder = peers.party(owner)
        secrets = [(folder / "identity.key").read_text().strip(), (folder / "shared.key").read_text().strip()]
        secrets += [json.loads(file.read_text())["secret"] for file in folder.rglob("*.sumkey")]
        private = {"identity.key", "shared.key"}
        others = [
            f
            for f in peers.path.rglob("*")
            if f.is_file() and f.name not in private and not f.name.endswith(".sumkey")
        ]
        for file in others:
            data = file.read_bytes()
            for secret in secrets:
                assert secret.encode() not in data, file
                if len(secret) == 64:
                    assert bytes.fromhex(secret) not in data, file


# A dishonest party.


def test_a_party_that_offers_something_else(peers):
    for change, words in (
        (lambda m: replace(m, agreed=replace(m.agreed, bits=16)), "which was not asked for"),
        (lambda m: replace(m, agreed=replace(m.agreed, run="mine")), "it offers the sum 'mine'"),
        (lambda m: replace(m, agreed=replace(m.agreed, kind="scores")), "of kind 'scores'"),
        (lambda m: replace(m, party="clinic"), "the message calls its sender 'clinic'"),
    ):
        bringing(peers, "shop", lambda m, change=change: change(m) if isinstance(m, Offer) else m)
        with pytest.raises(NoAnswerError, match=words):
            peers.center().fit("first", SUMS)


def test_a_party_that_alters_its_offer_after_it_signed_it(peers):
    """The others see it, and send nothing."""
    bringing(peers, "shop", lambda m: replace(m, reach=1e300) if isinstance(m, Offer) else m)
    with pytest.raises(NoAnswerError, match="altered on the way"):
        peers.center().fit("first", SUMS)


def test_a_party_whose_samples_are_others_is_named(peers):
    table = pl.read_csv(peers.party("shop") / "people.csv")
    table[::-1].write_csv(peers.party("shop") / "people.csv")
    with pytest.raises(ProtectionError, match="'bank' and 'shop' offer different sums") as caught:
        peers.center().fit("first", SUMS)
    assert "align them" in str(caught.value)
    assert not [m for m in map(wire.decode, filter(None, peers.transport.sent)) if isinstance(m, MaskedSum)]


def test_a_party_that_sends_numbers_of_another_sum(peers):
    peers.center().fit("first", SUMS)
    kept = (peers.party("shop") / "runs" / "first" / "shop.sums").read_bytes()
    bringing(peers, "shop", lambda m: wire.decode(kept) if isinstance(m, MaskedSum) else m)
    with pytest.raises(NoAnswerError, match="masked numbers are of another sum"):
        peers.center().fit("second", SUMS)
    bringing(peers, "shop", lambda m: replace(m, part=2) if isinstance(m, MaskedSum) else m)
    with pytest.raises(NoAnswerError, match="of another sum, or another piece"):
        peers.center().fit("third", SUMS)


def test_a_party_that_claims_a_range_out_of_all_proportion_makes_a_certificate_that_says_so(peers, monkeypatch):
    """It can spoil the sum, as it can by any wrong number; but not so that the others take it for good."""
    honest = peers.center().fit("first", SUMS).model.certificate
    true = Ring.for_sum
    monkeypatch.setattr(
        Ring,
        "for_sum",
        lambda bits, reaches, signed: true(bits, [*reaches, 1e12], signed=signed),
    )
    spoiled = peers.center().fit("second", SUMS).model.certificate
    assert honest.captured_share_at_least > 0.1
    assert spoiled.captured_share_at_least < 0.01
    assert spoiled.subspace_error_at_most >= 1


def test_a_party_that_does_not_turn_its_samples_in_a_blind_fit(peers):
    peers.center().fit("open", replace(BLIND, protect="none"))
    seen = (peers.path / "center" / "open" / "messages" / "shop.summary").read_bytes()
    bringing(peers, "shop", lambda m: wire.decode(seen))
    with pytest.raises(NoAnswerError, match="its samples are not turned"):
        peers.center().fit("first", BLIND)


def test_a_party_with_another_key_is_named_before_anything_is_fused(peers):
    (peers.party("shop") / "shared.key").write_text("another key, which is long enough")
    with pytest.raises(FusionError, match="shop") as caught:
        peers.center().fit("first", BLIND)
    assert "sample" in str(caught.value)
    assert not (peers.path / "center" / "first" / "embedding.csv").exists()
