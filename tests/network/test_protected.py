"""Protected fits over HTTPS between real processes; and what stands behind an offer: certificates, or pins."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import PCA, KernelPCA

from dkpca import subspace_error, wire
from dkpca.errors import ProtectionError
from dkpca.messages import Agreed, MaskedSum, Offer, Scores, digest
from dkpca.network import membership as members
from dkpca.network import vouching
from dkpca.protection.keys import Identity, check_offers, make_offer
from dkpca.store import message_files
from testkit.by_hand import scores
from testkit.federation import ok, refused
from testkit.owners import OWNERS, numbers, people, standardized
from tests.network.conftest import with_tables

pytestmark = pytest.mark.network

AGREED = Agreed("first", "pairs", "rbf", 60, 60, digest(people()), 32, signed=False)
JOINED = np.hstack([standardized(X) for X in numbers().values()])


def write_peers(federation, pin="certificate"):
    (federation.path / "shared.key").write_text("a key that the center does not have")
    for owner in OWNERS:
        folder = federation.path / owner
        (folder / "peers.toml").write_text("".join(f'{name} = "{pin}"\n' for name in OWNERS if name != owner))
        if "peers" not in (folder / "party.toml").read_text():
            with (folder / "party.toml").open("a") as settings:
                settings.write('peers = "peers.toml"\nkey_file = "../shared.key"\n')
    return federation


@pytest.fixture(scope="module")
def peers(running):
    return write_peers(running)


@pytest.fixture(scope="module")
def apart(tmp_path_factory):
    """The same folders without a process."""
    return write_peers(with_tables(tmp_path_factory.mktemp("apart")))


def unit(found):
    return found / np.linalg.norm(found, axis=0)


def test_masked_sums_over_https_are_kernel_pca_of_the_joined_table(peers):
    asked = ("--protect", "sums", "--gamma", 0.05, "--components", 3)
    ok("submit", "fit", "center", "hidden", *asked, cwd=peers.path)
    truth = KernelPCA(3, kernel="rbf", gamma=0.05).fit(JOINED)
    assert subspace_error(truth.eigenvectors_, unit(scores(peers.runs / "hidden"))) < 1e-12
    for owner in OWNERS:
        kept = peers.path / owner / "runs" / "hidden"
        assert pl.read_csv(kept / "embedding.csv")["sample"].to_list() == people()
        np.testing.assert_array_equal(scores(kept), scores(peers.runs / "hidden"))
        assert peers.party(owner).ledger()[-1]["event"] == "result kept"
    received = {type(wire.decode(file.read_bytes())) for file in (peers.runs / "hidden" / "messages").glob("bank.*")}
    assert received == {Offer, MaskedSum}
    ok("submit", "project", "center", "hidden", "spring", cwd=peers.path)
    assert scores(peers.path / "bank" / "runs" / "hidden" / "new" / "spring").shape == (7, 3)
    ok("report", "center/runs/hidden", cwd=peers.path)


def test_a_blind_center_over_https_and_the_parties_own_report(peers):
    asked = ("--protect", "blind", "--kernel", "linear", "--components", 3, "--precision", "float64", "--rank", 10)
    ok("submit", "fit", "center", "blind", *asked, cwd=peers.path)
    truth = PCA(3).fit_transform(JOINED)
    at_party = scores(peers.path / "bank" / "runs" / "blind")
    assert subspace_error(unit(truth), unit(at_party)) < 1e-12
    ok("submit", "project", "center", "blind", "spring", cwd=peers.path)
    assert scores(peers.path / "shop" / "runs" / "blind" / "new" / "spring").shape == (7, 3)
    kept = message_files.read(peers.path / "bank" / "runs" / "blind" / "result.scores", Scores)
    np.testing.assert_array_equal(kept.scores.decode(), at_party)  # what the report draws
    ok("report", "bank/runs/blind", "--table", "bank/people.csv", "--id", "person", cwd=peers.path)
    assert (peers.path / "bank" / "runs" / "blind" / "report.html").exists()


def test_the_command_refuses_what_does_not_go_together(peers):
    words = refused("submit", "fit", "center", "x", "--protect", "sums", "--rank", 5, cwd=peers.path)
    assert "takes no rank" in words
    assert "an audit asks for rows in the open" in refused("submit", "audit", "center", "hidden", cwd=peers.path)


def test_a_partys_check_says_with_whom_it_adds_numbers_and_its_own_fingerprint(apart):
    told = ok("party", "check", "bank", cwd=apart.path)
    assert "with clinic (by certificate), shop (by certificate)" in told
    assert vouching.own_identity(apart.path / "bank", "bank").fingerprint in told
    kept = (apart.path / "bank" / "peers.toml").read_text()
    (apart.path / "bank" / "peers.toml").write_text('shop = "nobody"\n')
    assert "is no fingerprint" in refused("party", "check", "bank", cwd=apart.path)
    (apart.path / "bank" / "peers.toml").write_text(kept)


# What stands behind an offer.


def offer_of(federation, owner, folder=""):
    identity = vouching.own_identity(federation.path / (folder or owner), owner)
    return make_offer(identity, owner, AGREED, n_features=3, largest=1.0)


def checked(federation, own, *others, at="bank"):
    offers = {each.party: each for each in (own.offer, *others)}
    known = {name: "certificate" for name in OWNERS if name != at}
    check_offers(own, offers, vouching.pinned(federation.path / at, known, list(offers.values())))


def test_certificates_of_the_consortium_stand_behind_offers(apart):
    own, clinic, shop = (offer_of(apart, owner) for owner in OWNERS)
    checked(apart, own, clinic.offer, shop.offer)
    assert vouching.own_identity(apart.path / "bank", "bank").public == own.offer.identity  # it is kept


def test_an_identity_without_the_word_of_its_certificate_is_refused(apart):
    own, clinic, shop = (offer_of(apart, owner) for owner in OWNERS)
    thief = Identity.new()
    for forged, words in (
        (make_offer(thief, "shop", AGREED, n_features=3, largest=1.0), "has no certificate"),
        (
            make_offer(replace(thief, vouch=shop.offer.vouch), "shop", AGREED, n_features=3, largest=1.0),
            "signed something else",
        ),
        (
            make_offer(replace(thief, vouch=clinic.offer.vouch), "shop", AGREED, n_features=3, largest=1.0),
            "does not stand behind its offer|certificate of 'clinic'",
        ),
    ):
        with pytest.raises(ProtectionError, match=words):
            checked(apart, own, clinic.offer, forged.offer)


def test_another_partys_certificate_and_that_of_another_authority_are_refused(apart, tmp_path):
    own, clinic, _ = (offer_of(apart, owner) for owner in OWNERS)
    posing = vouching.own_identity(apart.path / "clinic", "shop")  # clinic's key says that it is shop
    with pytest.raises(ProtectionError, match="certificate of 'clinic'"):
        checked(apart, own, clinic.offer, make_offer(posing, "shop", AGREED, n_features=3, largest=1.0).offer)
    elsewhere = with_tables(tmp_path)
    with pytest.raises(ProtectionError, match="not signed by the CA"):
        checked(apart, own, clinic.offer, offer_of(elsewhere, "shop").offer)


def test_a_revoked_certificate_stands_behind_nothing(apart):
    own, clinic, shop = (offer_of(apart, owner) for owner in OWNERS)
    members.revoke(apart.consortium, "shop")
    (apart.path / "bank" / "revoked.crl").write_bytes((apart.path / "center" / "revoked.crl").read_bytes())
    with pytest.raises(ProtectionError, match="the certificate of its offer was revoked"):
        checked(apart, own, clinic.offer, shop.offer)
    apart.join("shop", "shop-again")
    checked(apart, own, clinic.offer, offer_of(apart, "shop", "shop-again").offer)


def test_a_center_that_holds_the_authority_is_stopped_by_a_pinned_fingerprint(apart):
    """It can certify a key of its own as anybody's; a fingerprint that was compared by phone stays what it is."""
    own, clinic = (offer_of(apart, owner) for owner in ("bank", "clinic"))
    real = vouching.own_identity(apart.path / "shop", "shop").fingerprint
    apart.join("shop", "center-as-shop")
    forged = offer_of(apart, "shop", "center-as-shop").offer
    checked(apart, own, clinic.offer, forged)  # the authority's word is all that was asked for
    offers = {offer.party: offer for offer in (own.offer, clinic.offer, forged)}
    known = vouching.pinned(apart.path / "bank", {"clinic": "certificate", "shop": real}, list(offers.values()))
    with pytest.raises(ProtectionError, match="party 'shop': its offer is signed by"):
        check_offers(own, offers, known)


def test_a_renewed_certificate_keeps_the_identity(apart):
    before = vouching.own_identity(apart.path / "clinic", "clinic")
    members.renew(members.membership(apart.path / "clinic"))
    apart.admit("clinic")
    after = vouching.own_identity(apart.path / "clinic", "clinic")
    assert after.public == before.public
    assert after.vouch.certificate != before.vouch.certificate
    own, renewed = offer_of(apart, "bank"), offer_of(apart, "clinic").offer
    known = vouching.pinned(apart.path / "bank", {"clinic": "certificate"}, [renewed])
    check_offers(own, {"bank": own.offer, "clinic": renewed}, known)
