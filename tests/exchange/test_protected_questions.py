"""Protected fits between a center and parties with folders of their own, and what a dishonest center may try.

The transport is a function call here; real processes and certificates are in tests/network/test_protected.py.
"""

import hashlib
import secrets
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import PCA, KernelPCA

from dkpca import subspace_error, wire
from dkpca.errors import InputError, NoAnswerError
from dkpca.exchange import sum_files
from dkpca.exchange.questions import OfferWanted, ShareOfferWanted, SumsWanted
from dkpca.kernels import RBF
from dkpca.messages import MaskedSum, Offer, Offers
from dkpca.network.envelopes import encode_question
from dkpca.network.protocol import Asked
from dkpca.network.remote import Failure
from dkpca.network.responder import Responder
from dkpca.protection import quantities
from dkpca.protection.keys import Identity, make_offer
from dkpca.rank import Auto
from dkpca.store import ledger, message_files
from testkit.by_hand import FIT, consortium_in, scores
from testkit.owners import GAMMA, OWNERS, frame, numbers, people, standardized

pytestmark = pytest.mark.slow  # whole exchanges; test_protected_fits.py has the same sums in one process

SUMS = replace(FIT, protect="sums", rank=Auto(3))
BLIND = replace(FIT, kernel="linear", protect="blind", precision="float64")
JOINED = np.hstack([standardized(X) for X in numbers().values()])


@pytest.fixture
def peers(tmp_path):
    """Three parties that have pinned each other's identities."""
    consortium = consortium_in(tmp_path)
    pins = {o: sum_files.new_identity(consortium.party(o) / "identity.key").fingerprint for o in OWNERS}
    for owner in OWNERS:
        others = "".join(f'{name} = "{pin}"\n' for name, pin in pins.items() if name != owner)
        (consortium.party(owner) / "peers.toml").write_text(others)
        with (consortium.party(owner) / "party.toml").open("a") as settings:
            settings.write('peers = "peers.toml"\n')
    return consortium


def unit(found):
    return found / np.linalg.norm(found, axis=0)


def ask(consortium, owner, question, number="", run="first"):
    """Put a question to a party as a center might."""
    described, attached = encode_question(question)
    digest = hashlib.sha256(attached).hexdigest() if attached else ""
    number = number or secrets.token_hex(16)
    return Responder(consortium.party(owner), owner).answer(
        Asked(number, run, described, len(attached), digest), attached
    )


def offers_of(consortium, run="first", owners=OWNERS, **settings):
    made = {}
    for owner in owners:
        answer = ask(consortium, owner, OfferWanted(run, RBF(GAMMA), **settings), run=run)
        assert answer.code == "ok", answer
        made[owner] = message_files.read(answer.file, Offer)
    return made


def test_masked_sums_over_a_transport_are_kernel_pca_of_the_joined_table(peers):
    run = peers.center().fit("first", SUMS)
    truth = KernelPCA(3, kernel="rbf", gamma=GAMMA).fit(JOINED)
    assert subspace_error(truth.eigenvectors_, run.model.eigenvectors) < 1e-12
    for owner in OWNERS:
        kept = peers.party(owner) / "runs" / "first"
        assert pl.read_csv(kept / "embedding.csv")["sample"].to_list() == people()
        np.testing.assert_array_equal(scores(kept), scores(run.path))
        assert (kept / f"{owner}.sumkey").stat().st_mode & 0o077 == 0
    sent = [wire.decode(data) for data in peers.transport.sent if data]
    assert {type(message) for message in sent} == {Offer, MaskedSum}  # nothing in the open


@pytest.mark.parametrize("landmarks", [0, 50])
def test_new_samples_follow_a_fit_by_masked_sums(peers, monkeypatch, landmarks):
    if landmarks:
        monkeypatch.setattr("dkpca.exchange.sum_rounds.PAIRS_UP_TO", 10)
        monkeypatch.setattr(quantities, "PIECE", 1000)  # several pieces
    peers.center().fit("first", replace(SUMS, n_landmarks=landmarks or 500, precision="float64"))
    (place,) = peers.center().project("first", ["spring"])
    truth = KernelPCA(3, kernel="rbf", gamma=GAMMA).fit(JOINED)
    new = np.hstack([(X[:7] + 0.1 - X.mean(axis=0)) / X.std(axis=0) for X in numbers().values()])
    expected, found = truth.transform(new), scores(place)
    signs = np.sign((expected * found).sum(axis=0))
    np.testing.assert_allclose(found * signs, expected, atol=0.02 if landmarks else 1e-7)
    assert scores(peers.party("bank") / "runs" / "first" / "new" / "spring").shape == (7, 3)
    assert landmarks == 0 or (peers.path / "center" / "first" / "messages" / "bank.sums-2").exists()


def test_blind_over_a_transport_equals_open_and_only_the_parties_see_samples(peers):
    opened = peers.center().fit("open", replace(BLIND, protect="none"))
    blind = peers.center().fit("first", BLIND)
    at_party = scores(peers.party("clinic") / "runs" / "first")
    assert subspace_error(unit(scores(opened.path)), unit(at_party)) < 1e-12
    at_center = scores(blind.path)
    assert max(abs(np.corrcoef(at_center[:, d], at_party[:, d])[0, 1]) for d in range(3)) < 0.6
    sizes = [(peers.path / "center" / run / "messages" / "bank.summary").stat().st_size for run in ("open", "first")]
    assert abs(sizes[0] - sizes[1]) < 0.05 * sizes[0]
    (place,) = peers.center().project("first", ["spring"])
    (seen,) = peers.center().project("open", ["spring"])
    signs = np.sign((scores(seen) * scores(place)).sum(axis=0))
    np.testing.assert_allclose(scores(place) * signs, scores(seen), atol=1e-8)
    truth = PCA(3).fit_transform(JOINED)
    assert subspace_error(unit(truth), unit(at_party)) < 1e-12
    assert (peers.party("bank") / "runs" / "first" / "new" / "spring" / "embedding.csv").exists()


@pytest.mark.parametrize("fit", [SUMS, BLIND], ids=["sums", "blind"])
def test_samples_that_differ_are_aligned_in_protected_fits(peers, fit):
    X = numbers()["clinic"]
    frame(X[20:][::-1], people()[20:][::-1]).write_csv(peers.party("clinic") / "people.csv")
    run = peers.center().fit("first", replace(fit, align=True))
    assert run.settings["n_samples"] == 40
    kept = {o: pl.read_csv(peers.party(o) / "runs" / "first" / "embedding.csv") for o in OWNERS}
    assert sorted(kept["bank"]["sample"]) == people()[20:]
    for owner in OWNERS:
        assert kept[owner].sort("sample").drop("sample").to_numpy() == pytest.approx(
            kept["bank"].sort("sample").drop("sample").to_numpy()
        )
    (place,) = peers.center().project("first", ["spring"], align=True)
    assert scores(place).shape == (7, 3)


def test_what_arrived_is_kept_and_only_the_missing_party_is_asked_again(peers):
    center = peers.center()
    peers.transport.tamper = lambda party, message: (
        Failure("cut off") if party == "shop" and message and isinstance(wire.decode(message), MaskedSum) else message
    )
    with pytest.raises(NoAnswerError, match=r"no sums from \['shop'\]"):
        center.fit("first", SUMS)
    peers.transport.tamper = lambda party, message: message
    peers.transport.asked.clear()
    center.fit("first", SUMS)
    assert peers.transport.asked[0] == ["shop"]
    assert len(ledger.records(peers.party("shop") / ledger.NAME)) > 3


def test_a_party_that_offers_anew_makes_the_others_answer_anew(peers):
    center = peers.center()
    center.fit("first", SUMS)
    (peers.party("bank") / "runs" / "first" / "bank.sumkey").unlink()
    peers.transport.asked.clear()
    center.fit("first", SUMS, again=["bank"])
    assert peers.transport.asked[:2] == [["bank"], list(OWNERS)]


def test_a_party_takes_part_only_as_its_policy_insists(peers):
    peers.policy("bank", 'protect = "sums"\n')
    with pytest.raises(NoAnswerError, match="takes part with protect = 'sums' only, and 'none' was asked for"):
        peers.center().fit("open", FIT)
    with pytest.raises(NoAnswerError, match="takes part with protect = 'sums' only, and 'blind' was asked for"):
        peers.center().fit("blind", BLIND)
    peers.center().fit("first", SUMS)
    peers.policy("bank", 'protect = "blind"\n')
    with pytest.raises(NoAnswerError, match="takes part with protect = 'blind' only, and 'sums' was asked for"):
        peers.center().fit("second", SUMS)


def test_fits_are_counted_whatever_their_protection_and_new_samples_are_none(peers):
    peers.policy("bank", "max_fits = 2\n")
    peers.center().fit("first", SUMS)
    peers.center().project("first", ["spring"])
    peers.center().fit("second", FIT)
    with pytest.raises(NoAnswerError, match="max_fits = 2"):
        peers.center().fit("third", SUMS)
    peers.center().fit("first", SUMS)  # what was answered is repeated


def test_what_does_not_go_together_is_refused_before_anybody_is_asked(peers):
    center = peers.center()
    for fit, words in (
        (replace(SUMS, weights="balanced"), "one kernel for all parties"),
        (replace(SUMS, law="sum"), "by its own law"),
        (replace(BLIND, center=False), "use center=True"),
        (replace(BLIND, law="product"), "needs the sum law"),
        (replace(BLIND, kernel="rbf"), "can only add matrices up; use law='sum' with the rbf kernel"),
        (replace(BLIND, kernel="poly"), "can only add matrices up"),
    ):
        with pytest.raises(InputError, match=words):
            center.fit("first", fit)
    assert not peers.transport.questions
    center.fit("first", SUMS)
    with pytest.raises(InputError, match="an audit asks for rows in the open"):
        center.audit("first", 5, 0)
    with pytest.raises(InputError, match="distances in the open"):
        center.project("first", ["spring"], exact=True)


def test_without_peers_or_a_key_a_party_takes_no_part(consortium):
    with pytest.raises(NoAnswerError, match="it has not written down with whom it adds masked numbers"):
        consortium.center().fit("first", SUMS)
    (consortium.party("bank") / "party.toml").write_text(
        'party = "bank"\ntable = "people.csv"\nid = "person"\npolicy = "policy.toml"\n'
    )
    with pytest.raises(NoAnswerError, match="bank: cannot answer"):
        consortium.center().fit("second", BLIND)


def test_a_run_that_was_fused_by_hand_takes_new_samples(peers):
    """Nobody asked for it over the network, so that nothing says how it was protected: it was not."""
    peers.center().fit("first", FIT)
    (peers.path / "center" / "first" / "request.json").unlink()
    (place,) = peers.center().project("first", ["spring"])
    assert scores(place).shape == (7, 3)


# A dishonest center.


def test_a_swapped_offer_is_refused(peers):
    offers = offers_of(peers)
    thief = make_offer(Identity.new(), "shop", offers["shop"].agreed, n_features=3, largest=1.0).offer
    answer = ask(peers, "bank", SumsWanted(Offers((offers["bank"], offers["clinic"], thief))))
    assert answer.code == "refused"
    assert "party 'shop': its offer is signed by" in answer.reason
    stolen = replace(offers["shop"], key=thief.key)
    answer = ask(peers, "bank", SumsWanted(Offers((offers["bank"], offers["clinic"], stolen))))
    assert "its offer was altered on the way" in answer.reason
    assert not (peers.party("bank") / "runs" / "first" / "bank.sums").exists()


def test_a_subset_a_larger_roster_and_two_offers_of_one_party_are_refused(peers):
    offers = offers_of(peers)
    extra = make_offer(Identity.new(), "mall", offers["shop"].agreed, n_features=3, largest=1.0).offer
    for given, words in (
        ([offers["bank"], offers["clinic"]], "all of them have to take part, and nobody else"),
        ([*offers.values(), extra], "all of them have to take part, and nobody else"),
        ([offers["bank"]], "is alone"),
        ([*offers.values(), offers["shop"]], "two of the offers are from one party"),
        ([offers["clinic"], offers["shop"]], "the offer under its own name is not the one it made"),
    ):
        answer = ask(peers, "bank", SumsWanted(Offers(tuple(given))))
        assert answer.code == "refused"
        assert words in answer.reason


def test_an_offer_of_another_run_or_for_other_samples_is_refused(peers):
    offers, others = offers_of(peers), offers_of(peers, "second")
    answer = ask(peers, "bank", SumsWanted(Offers((offers["bank"], offers["clinic"], others["shop"]))))
    assert "offer different sums: run" in answer.reason
    coarse = offers_of(peers, "third", bits=16)
    answer = ask(peers, "bank", SumsWanted(Offers((offers["bank"], offers["clinic"], coarse["shop"]))))
    assert "offer different sums" in answer.reason


def test_a_context_is_answered_once_with_the_same_bytes(peers):
    offers = offers_of(peers)
    question = SumsWanted(Offers(tuple(offers.values())))
    first = ask(peers, "bank", question, number="1" * 32)
    data = first.file.read_bytes()
    again = ask(peers, "bank", question, number="1" * 32)
    assert (again.sha256, again.file.read_bytes()) == (first.sha256, data)
    anew = ask(peers, "bank", question, number="2" * 32)  # under another number: the same mask, the same numbers
    assert anew.file.read_bytes() == data
    table = pl.read_csv(peers.party("bank") / "people.csv").with_columns(x0=pl.col("x0") * 0.5)
    table.write_csv(peers.party("bank") / "people.csv")
    answer = ask(peers, "bank", question, number="3" * 32)
    assert answer.code in ("refused", "cannot answer")
    assert (peers.party("bank") / "runs" / "first" / "bank.sums").read_bytes() == data


def test_a_number_that_was_used_for_one_sum_is_not_used_for_another(peers):
    offers = offers_of(peers)
    ask(peers, "bank", SumsWanted(Offers(tuple(offers.values()))), number="1" * 32)
    other = Offers(tuple(offers_of(peers, "first", bits=64).values()))
    answer = ask(peers, "bank", SumsWanted(other), number="1" * 32)
    assert "was used for another question" in answer.reason


def test_pieces_that_do_not_exist_and_sums_nobody_offered_are_refused(peers):
    offers = offers_of(peers)
    answer = ask(peers, "bank", SumsWanted(Offers(tuple(offers.values())), part=2))
    assert "piece 2 was asked for" in answer.reason
    answer = ask(peers, "bank", SumsWanted(Offers(tuple(offers.values()))), run="elsewhere")
    assert answer.code == "cannot answer"


@pytest.mark.parametrize("gamma", [None, "auto"])
def test_a_width_is_derived_of_the_sum_and_no_party_tells_its_own_spread(peers, gamma):
    run = peers.center().fit("first", replace(SUMS, gamma=gamma))
    distances = ((JOINED[:, None] - JOINED[None]) ** 2).sum(axis=2)[np.triu_indices(60, 1)]
    width = 1 / JOINED.shape[1] if gamma is None else 1 / distances.mean()
    truth = KernelPCA(3, kernel="rbf", gamma=width).fit(JOINED)
    assert subspace_error(truth.eigenvectors_, run.model.eigenvectors) < 1e-12
    sent = {type(wire.decode(data)) for data in peers.transport.sent if data}
    assert sent == {Offer, MaskedSum}
    peers.policy("bank", "gamma = [0.001, 0.1]\n")
    with pytest.raises(NoAnswerError, match="the width is chosen when all has been added up, and gamma"):
        peers.center().fit("second", replace(SUMS, gamma=gamma))
    peers.center().fit("third", SUMS)


def test_scores_of_the_fits_own_samples_are_not_shares_of_new_ones(peers):
    """Else a blind center would have the scores of all samples in their own order."""
    peers.center().fit("first", BLIND)
    peers.center().project("first", ["spring"])
    answer = ask(peers, "bank", ShareOfferWanted("later", ""))
    assert answer.code == "refused"
    assert "never the table of the fit" in answer.reason


def test_shares_of_scores_are_only_for_blind_fits(peers):
    peers.center().fit("first", SUMS)
    answer = ask(peers, "bank", ShareOfferWanted("later", "spring"))
    assert answer.code == "cannot answer"


def test_refusals_leave_without_a_path(peers):
    offers = offers_of(peers)
    answer = ask(peers, "bank", SumsWanted(Offers((offers["bank"], offers["clinic"]))))
    assert str(peers.path) not in answer.reason
    assert "people.csv" not in answer.reason
