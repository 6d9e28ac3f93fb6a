"""Masked sums with files: keys, offers, numbers, and what the center makes of them."""

import json
import shutil

import numpy as np
import polars as pl
import pytest
from sklearn.decomposition import KernelPCA

from dkpca import subspace_error
from dkpca.protection import quantities
from dkpca.store import ledger
from testkit.owners import OWNERS, frame, numbers, people, standardized

pytestmark = pytest.mark.slow  # whole exchanges; test_protected_fits.py has the same sums in one process

GAMMA = 0.05


@pytest.fixture
def parties(office):
    """Three parties that have made identities and pinned each other's fingerprints."""
    for owner in OWNERS:
        office.ok("keys", "new", "--out", f"{owner}.identity")
    prints = {o: office.ok("keys", "show", f"{o}.identity", "--json").json["fingerprint"] for o in OWNERS}
    (office.path / "peers.toml").write_text("".join(f'{o} = "{prints[o]}"\n' for o in OWNERS))
    return office


def offer(office, owner, run="spring", *more):
    table = (f"{owner}.csv", "--id", "person", "--identity", f"{owner}.identity")
    return office.ok("mask", "offer", *table, "--run", run, "--out", f"{owner}.offer", *more)


def numbers_of(owner, *more):
    offers = [part for o in OWNERS for part in ("--offer", f"{o}.offer")]
    private = ("--state", f"{owner}.state", "--key", f"{owner}.sumkey")
    return ("mask", "numbers", f"{owner}.csv", *private, *offers, "--peers", "peers.toml", "--out", f"{owner}.sums")


def fitted(office, *more):
    for owner in OWNERS:
        offer(office, owner, "spring", *more)
    for owner in OWNERS:
        office.ok(*numbers_of(owner))
    files = sorted(p.name for p in office.path.glob("*.sums"))
    office.ok("add", *files, "--gamma", GAMMA, "--out", "joined.summary")
    office.ok("fuse", "joined.summary", "--components", 3, "--out", "run")
    return files


def embedding(path):
    return pl.read_csv(path / "embedding.csv").drop("sample").to_numpy()


def joined():
    return np.hstack([standardized(X) for X in numbers().values()])


def test_files_give_kernel_pca_of_the_joined_table(parties):
    fitted(parties)
    truth = KernelPCA(3, kernel="rbf", gamma=GAMMA).fit(joined())
    found = embedding(parties.path / "run")
    assert subspace_error(truth.eigenvectors_, found / np.linalg.norm(found, axis=0)) < 1e-12
    assert json.loads((parties.path / "run" / "certificate.json").read_text())["optimality_at_least"] > 0.999
    parties.ok("report", "run")


def test_the_center_chooses_the_width_afterwards(parties):
    files = fitted(parties)
    parties.ok("add", *files, "--gamma", 0.3, "--out", "other.summary")
    parties.ok("fuse", "other.summary", "--components", 3, "--out", "other")
    truth = KernelPCA(3, kernel="rbf", gamma=0.3).fit(joined())
    found = embedding(parties.path / "other")
    assert subspace_error(truth.eigenvectors_, found / np.linalg.norm(found, axis=0)) < 1e-12


@pytest.mark.parametrize("landmarks", [0, 40])
def test_new_samples_are_placed_by_masked_sums_too(parties, landmarks):
    fitted(parties, "--landmarks", landmarks)
    new = {owner: X[:7] for owner, X in numbers(n_samples=60).items()}
    for owner, X in new.items():
        frame(X, people(7)).write_csv(parties.path / f"{owner}-new.csv")
        told = (f"{owner}-new.csv", "--state", f"{owner}.state", "--identity", f"{owner}.identity", "--run", "later")
        parties.ok("mask", "offer-new", *told, "--id", "person", "--out", f"{owner}-new.offer")
    offers = [part for o in OWNERS for part in ("--offer", f"{o}-new.offer")]
    for owner in OWNERS:
        private = ("--state", f"{owner}.state", "--key", f"{owner}-new.sumkey", "--id", "person")
        parties.ok(
            *("mask", "numbers", f"{owner}-new.csv", *private, *offers),
            *("--peers", "peers.toml", "--out", f"{owner}-new.sums"),
        )
    named = ("--fit", "joined.summary", "--fit-run", "spring", "--out", "joined.rows")
    parties.ok("add", *(f"{o}-new.sums" for o in OWNERS), *named)
    parties.ok("project", "run", "joined.rows", "--out", "new")
    placed, known = embedding(parties.path / "new")[:, :3], embedding(parties.path / "run")[:7]
    np.testing.assert_allclose(placed, known, atol=1e-3 if landmarks else 1e-6)


def test_pieces_are_files_of_their_own(parties, monkeypatch):
    monkeypatch.setattr(quantities, "PIECE", 500)
    assert len(fitted(parties)) > 3 * 3
    truth = KernelPCA(3, kernel="rbf", gamma=GAMMA).fit(joined())
    found = embedding(parties.path / "run")
    assert subspace_error(truth.eigenvectors_, found / np.linalg.norm(found, axis=0)) < 1e-12


def test_a_piece_or_a_party_that_is_missing_is_named(parties, monkeypatch):
    files = fitted(parties)
    words = parties.refused("add", *files[:2], "--gamma", GAMMA, "--out", "two.summary")
    assert "no masked sum from ['shop']" in words
    assert "all of them or nothing" in words
    assert not (parties.path / "two.summary").exists()


def test_a_context_is_answered_once_and_the_ledger_knows(parties):
    fitted(parties)
    first = (parties.path / "bank.sums").read_bytes()
    parties.ok(*numbers_of("bank"))  # the same again is no second answer
    assert (parties.path / "bank.sums").read_bytes() == first
    table = pl.read_csv(parties.path / "bank.csv").with_columns(x0=pl.lit(0.0))
    table.write_csv(parties.path / "bank.csv")
    words = parties.refused(*numbers_of("bank"))
    assert "has answered this before with other numbers" in words
    assert (parties.path / "bank.sums").read_bytes() == first
    assert sum("context" in record for record in ledger.records(parties.path / ledger.NAME)) == 4


def test_a_foreign_offer_an_unknown_party_and_another_table_are_refused(parties):
    for owner in OWNERS:
        offer(parties, owner)
    parties.ok("keys", "new", "--out", "thief.identity")
    shutil.copy(parties.path / "shop.offer", parties.path / "kept.offer")
    forged = ("shop.csv", "--id", "person", "--identity", "thief.identity", "--run", "spring", "--out", "shop.offer")
    parties.ok("mask", "offer", *forged)
    assert "party 'shop': its offer is signed by" in parties.refused(*numbers_of("bank"))
    shutil.copy(parties.path / "kept.offer", parties.path / "shop.offer")
    kept = (parties.path / "peers.toml").read_text()
    (parties.path / "peers.toml").write_text(kept.replace("shop =", "mall ="))
    assert "the pinned parties are" in parties.refused(*numbers_of("bank"))
    (parties.path / "peers.toml").write_text(kept)
    pl.read_csv(parties.path / "bank.csv")[:50].write_csv(parties.path / "bank.csv")
    assert "has other rows than the offer is about" in parties.refused(*numbers_of("bank"))
    assert not (parties.path / "bank.sums").exists()


def test_an_offer_that_was_altered_on_the_way_is_refused(parties):
    for owner in OWNERS:
        offer(parties, owner)
    offer(parties, "clinic", "autumn")
    assert "offer different sums: run" in parties.refused(*numbers_of("bank"))


def test_a_policy_may_insist_on_masked_sums(parties):
    (parties.path / "policy.toml").write_text('protect = "sums"\nmax_fits = 1\n')
    asked = ("summarize", "bank.csv", "--id", "person", "--gamma", 1, "--out", "b.summary", "--policy", "policy.toml")
    assert "takes part with protect = 'sums' only" in parties.refused(*asked)
    offer(parties, "bank", "spring", "--policy", "policy.toml")
    table = ("bank.csv", "--id", "person", "--identity", "bank.identity", "--policy", "policy.toml")
    again = parties.refused("mask", "offer", *table, "--run", "summer", "--out", "second.offer")
    assert "max_fits = 1" in again


def test_secrets_are_private_files_and_are_not_printed(parties):
    told = offer(parties, "bank").out
    for name in ("bank.identity", "bank.sumkey", "bank.state"):
        assert (parties.path / name).stat().st_mode & 0o077 == 0
    secret = json.loads((parties.path / "bank.sumkey").read_text())["secret"]
    assert secret not in told
    assert secret not in (parties.path / ledger.NAME).read_text()
    assert secret.encode() not in (parties.path / "bank.offer").read_bytes()
    assert "is there already" in parties.refused("keys", "new", "--out", "bank.identity")


def test_inspect_says_what_offers_and_masked_numbers_reveal(parties):
    fitted(parties)
    assert "nothing but that the party takes part" in parties.ok("inspect", "bank.sums").out
    assert "its public keys" in parties.ok("inspect", "bank.offer").out


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--bits", 12), "bits is 12, not one of"),
        (("--kernel", "cosine"), "no function of a sum over parties"),
        (("--kernel", "linear", "--landmarks", 20), "landmarks are for kernels of distances"),
        (("--landmarks", 100), "100 landmarks of 60 samples"),
    ],
)
def test_what_cannot_be_added_up_is_refused(parties, asked, words):
    table = ("bank.csv", "--id", "person", "--identity", "bank.identity", "--run", "spring", "--out", "bank.offer")
    assert words in parties.refused("mask", "offer", *table, *asked)


def overlapping(office):
    """Tables of other people in another order, and what all of them share; the names of these, in their order."""
    (office.path / "shared.key").write_text("k" * 32)
    order = np.random.default_rng(5)
    for number, (owner, X) in enumerate(numbers().items()):
        kept = order.permutation(np.arange(len(X))[number : len(X) - 2 + number])
        frame(X[kept], [people()[row] for row in kept]).write_csv(office.path / f"{owner}.csv")
        known = ("--id", "person", "--key-file", "shared.key", "--out", f"{owner}.tokens")
        office.ok("align", "tokens", f"{owner}.csv", *known)
    office.ok("align", "intersect", *(f"{o}.tokens" for o in OWNERS), "--out", "common.tokens")
    return people()[2:-2]


ALIGNED = ("--align", "common.tokens", "--key-file", "shared.key")


def test_tables_of_partly_other_samples_are_aligned_and_added_up(parties):
    common = overlapping(parties)
    for owner in OWNERS:
        offer(parties, owner, "spring", *ALIGNED)
    for owner in OWNERS:
        parties.ok(*numbers_of(owner), *ALIGNED)
    parties.ok("add", *(f"{o}.sums" for o in OWNERS), "--gamma", GAMMA, "--out", "joined.summary")
    parties.ok("fuse", "joined.summary", "--components", 3, "--ids", "common.tokens", "--out", "run")
    rows = [people().index(name) for name in common]
    truth = KernelPCA(3, kernel="rbf", gamma=GAMMA).fit(
        np.hstack([standardized(X[rows]) for X in numbers().values()])
    )
    known = ("--table", "bank.csv", "--id", "person", "--key-file", "shared.key", "--out", "named.csv")
    parties.ok("align", "names", "run/embedding.csv", *known)
    named = pl.read_csv(parties.path / "named.csv")
    found = named.sort(pl.Series(list(map(common.index, named["sample"])))).drop("sample").to_numpy()
    assert subspace_error(truth.eigenvectors_, found / np.linalg.norm(found, axis=0)) < 1e-12


def test_masks_are_not_used_twice_from_another_folder(parties):
    fitted(parties)
    (parties.path / "elsewhere").mkdir()
    parties.ok(*numbers_of("bank")[:-1], "elsewhere/again.sums")  # the same numbers once more are no news
    frame(numbers()["bank"] + 1e-3 * np.eye(len(people()))[:, :1], people()).write_csv(parties.path / "changed.csv")
    changed = ["changed.csv" if part == "bank.csv" else part for part in numbers_of("bank")]
    words = parties.refused(*changed[:-1], "third.sums", "--ledger", "third.jsonl")
    assert "says nothing twice under one mask; start another sum" in words


def test_the_key_of_another_party_is_refused(parties):
    for owner in OWNERS:
        offer(parties, owner)
    swapped = ["shop.sumkey" if part == "bank.sumkey" else part for part in numbers_of("bank")]
    assert "is the key of party 'shop', and the state is that of 'bank'" in parties.refused(*swapped)


def test_a_limit_on_recovery_is_said_not_to_cover_the_sum(parties):
    (parties.path / "policy.toml").write_text("max_recovery = 0.5\n")
    said = offer(parties, "bank", "spring", "--policy", "policy.toml")
    assert "max_recovery is about what this party sends alone" in said.out
    assert "max_recovery" not in offer(parties, "bank", "summer").out


def new_sums(office, run="later"):
    """Everybody's masked numbers of seven new samples."""
    for owner, X in numbers().items():
        frame(X[:7], people(7)).write_csv(office.path / f"{owner}-new.csv", separator=";")
        told = (f"{owner}-new.csv", "--state", f"{owner}.state", "--identity", f"{owner}.identity", "--run", run)
        office.ok("mask", "offer-new", *told, "--id", "person", "--out", f"{owner}-new.offer")
    offers = [part for o in OWNERS for part in ("--offer", f"{o}-new.offer")]
    for owner in OWNERS:
        private = ("--state", f"{owner}.state", "--key", f"{owner}-new.sumkey", "--id", "person")
        office.ok("mask", "numbers", f"{owner}-new.csv", *private, *offers, "--peers", "peers.toml",
                  "--out", f"{owner}-new.sums")  # fmt: skip
    return [f"{owner}-new.sums" for owner in OWNERS]


def test_what_files_are_of_different_sums_is_said_in_words(parties):
    fitted(parties)
    new = new_sums(parties)
    words = parties.refused("add", "bank.sums", "clinic.sums", new[2], "--out", "mixed.summary")
    assert "parties 'bank' and 'shop' answered different sums: run spring against later; " in words
    assert "Agreed(" not in words


def test_masked_numbers_given_to_the_wrong_command_are_told_the_right_one(parties):
    files = fitted(parties)
    new = new_sums(parties)
    assert "name the summary of the fit with --fit joined.summary" in parties.refused("add", *new, "--out", "r.rows")
    words = parties.refused("project", "run", *new, "--out", "new")
    assert "first 'dkpca add --fit joined.summary --out joined.rows'" in words
    assert "'dkpca add' makes its summary" in parties.refused("project", "run", *files, "--out", "new")


@pytest.mark.parametrize("rule", ["auto", "features"])
def test_the_width_may_be_derived_of_the_sum(parties, rule):
    files = fitted(parties)
    X = joined()
    squared = ((X[:, None] - X[None]) ** 2).sum(axis=2)
    expected = {"auto": 60 * 59 / squared.sum(), "features": 1 / X.shape[1]}[rule]
    told = parties.ok("add", *files, "--gamma", rule, "--out", "other.summary", "--json").json
    assert told["kernel"]["gamma"] == pytest.approx(expected, rel=1e-6)


def test_a_rule_for_the_width_is_for_the_kernels_own_distance(parties):
    for owner in OWNERS:
        offer(parties, owner, "spring", "--kernel", "laplacian")
    for owner in OWNERS:
        parties.ok(*numbers_of(owner))
    files = [f"{owner}.sums" for owner in OWNERS]
    X = joined()
    told = parties.ok("add", *files, "--gamma", "auto", "--out", "other.summary", "--json").json
    assert told["kernel"]["gamma"] == pytest.approx(60 * 59 / abs(X[:, None] - X[None]).sum(), rel=1e-6)
    assert "--gamma is 'wide'" in parties.refused("add", *files, "--gamma", "wide", "--out", "joined.summary")
    assert parties.ok("add", *files, "--out", "joined.summary", "--json").json["kernel"]["name"] == "laplacian"


def test_an_offer_says_how_the_table_was_read(parties):
    table = pl.read_csv(parties.path / "bank.csv").with_columns(city=pl.lit("here"))
    table[0, "city"] = "there"
    table.write_csv(parties.path / "bank.csv", separator=";")
    told = offer(parties, "bank", "spring", "--text", "one-hot").out
    assert "note: read as separated by semicolons" in told
    assert "note: expanded text column 'city' into 2 columns of 0 and 1" in told
    new = table[:3].with_columns(x0=pl.lit(1e6))
    new.write_csv(parties.path / "new.csv", separator=";")
    asked = ("--state", "bank.state", "--identity", "bank.identity", "--run", "later", "--id", "person")
    told = parties.ok("mask", "offer-new", "new.csv", *asked, "--out", "new.offer").out
    assert "note: 3 of 3 new rows leave the range of the fit, in 'x0'" in told


def test_a_file_that_is_cut_off_or_too_large_says_what_to_do(parties):
    fitted(parties)
    whole = (parties.path / "bank.sums").read_bytes()
    for damaged in (whole[:-100], whole[:20], whole + b"x"):
        (parties.path / "bank.sums").write_bytes(damaged)
        words = parties.refused("add", "bank.sums", "clinic.sums", "shop.sums", "--out", "j.summary")
        assert "bank.sums: not a " in words
        assert "get it again from whoever made it, or give the right file" in words
    (parties.path / "bank.identity").write_bytes(b"0" * 10_000)
    table = ("bank.csv", "--id", "person", "--identity", "bank.identity", "--run", "late", "--out", "bank.offer")
    assert "bank.identity: has 10.0 kB, and what belongs here at most 1.0 kB; give" in parties.refused(
        "mask", "offer", *table
    )
