"""DKPCA(protect=...): the real protocol in one process. The answer is right, and the center sees no sample."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import KernelPCA

import dkpca
from dkpca import DKPCA, subspace_error, summarize
from dkpca.errors import InputError, PolicyError, ProtectionError
from dkpca.exchange import protocols
from dkpca.kernels import RBF, Linear
from dkpca.messages import row_number_digest
from dkpca.party.questions import SummaryWanted
from dkpca.party.recovery import Seen, Truth
from dkpca.party.recovery import run as attacked
from dkpca.party.summaries import summarize as summarize_for
from dkpca.protection import quantities
from dkpca.protection.masks import POWERS
from dkpca.protection.rotation import UNIFORM_UP_TO, Rotation
from dkpca.rank import Fixed

X = load_breast_cancer().data
X = (X - X.mean(axis=0)) / X.std(axis=0)
GROUPS = {"clinic": slice(0, 10), "lab": slice(10, 20), "registry": slice(20, 30)}
FIT, MANY, NEW = 160, 400, X[400:450]
KEY = b"a key that the center does not have"


def turning(n, digest=None):
    """Rotations of a party of a blind fit."""
    return Rotation(KEY, "run", digest or row_number_digest(n), n, b"of this party alone")


def blindly(table, turned, party="clinic", *, sample_ids=None, precision="float32", **asked):
    """Summary and state of a party of a blind fit."""
    question = SummaryWanted(precision=precision, blind=True, **asked)
    return summarize_for(table, question, party=party, sample_ids=sample_ids, blind=turned)


def split(table):
    return {name: table[:, columns] for name, columns in GROUPS.items()}


@pytest.mark.parametrize(
    ("settings", "pooled"),
    [
        ({"gamma": 1 / 30}, {"kernel": "rbf", "gamma": 1 / 30}),
        ({"gamma": "scale"}, {"kernel": "rbf", "gamma": 1 / (2 * X[:FIT].var(axis=0, ddof=1).sum())}),
        ({"kernel": "linear"}, {"kernel": "linear"}),
        (
            {"kernel": dkpca.kernels.Polynomial(0.01, degree=2)},
            {"kernel": "poly", "gamma": 0.01, "degree": 2, "coef0": 1},
        ),
    ],
)
def test_masked_sums_give_kernel_pca_of_the_joined_table(settings, pooled):
    model = DKPCA(5, protect="sums", **settings).fit(split(X[:FIT]))
    truth = KernelPCA(5, **pooled).fit(X[:FIT])
    assert subspace_error(truth.eigenvectors_, model.eigenvectors_) < 1e-12
    np.testing.assert_allclose(model.eigenvalues_, truth.eigenvalues_, rtol=1e-6)
    np.testing.assert_allclose(np.abs(model.transform(split(NEW))), np.abs(truth.transform(NEW)), atol=1e-5)
    assert model.certificate_.subspace_error_at_most < 1e-4


@pytest.mark.parametrize("kernel", [RBF(1.0), Linear()])
def test_numbers_beyond_the_range_of_squares_are_refused(kernel):
    tables = {name: 1e300 * part for name, part in split(X[:20]).items()}
    with pytest.raises(InputError, match="not finite; scale the columns"):
        DKPCA(2, kernel=kernel, protect="sums").fit(tables)


def test_one_sample_far_from_all_others_costs_their_distances_no_digits():
    Y = X[:100].copy()
    Y[7] *= 50.0
    truth = KernelPCA(5, kernel="rbf", gamma=1 / 30).fit(Y)
    model = DKPCA(5, gamma=1 / 30, protect="sums").fit(split(Y))
    assert subspace_error(truth.eigenvectors_, model.eigenvectors_) < 1e-12


@pytest.mark.longer
@pytest.mark.parametrize("n_parties", [2, 15, 30])
def test_however_many_parties_the_sum_is_the_pooled_kernel(n_parties):
    parts = {f"p{j}": part for j, part in enumerate(np.array_split(X[:FIT], n_parties, axis=1))}
    model = DKPCA(5, gamma=1 / 30, protect="sums").fit(parts)
    truth = KernelPCA(5, kernel="rbf", gamma=1 / 30).fit(X[:FIT])
    assert subspace_error(truth.eigenvectors_, model.eigenvectors_) < 1e-12


def test_fewer_bits_are_fewer_bytes_and_a_larger_error_that_the_certificate_knows():
    truth = KernelPCA(5, kernel="rbf", gamma=1 / 30).fit(X[:FIT])
    errors, sent = [], []
    for precision in ("float32", "float64"):
        model = DKPCA(5, protect="sums", gamma=1 / 30, precision=precision).fit(split(X[:FIT]))
        errors.append(subspace_error(truth.eigenvectors_, model.eigenvectors_))
        sent.append(model.ledger_[0].bytes_sent)
        assert errors[-1] <= model.certificate_.subspace_error_at_most
    assert errors == sorted(errors, reverse=True)
    pairs, bounds = FIT * (FIT - 1) // 2, 16 * len(POWERS)
    assert sent == [each + 8 * FIT + bounds for each in (4 * pairs, 8 * pairs)]


def test_standardized_columns_need_no_bounds_and_no_statistics():
    tables = split(load_breast_cancer().data[:FIT])
    settings: dict[str, Any] = {"n_components": 5, "gamma": "scale", "standardize": True}
    hidden = DKPCA(**settings, protect="sums").fit(tables)
    assert hidden.ledger_[0].bytes_sent == 4 * FIT * (FIT - 1) // 2 + 8 * FIT
    seen = DKPCA(**settings, rank=FIT, precision="float64").fit(tables)
    assert hidden.gamma_ == seen.gamma_ == pytest.approx((FIT - 1) / (2 * 30 * FIT))
    assert subspace_error(seen.eigenvectors_, hidden.eigenvectors_) < 1e-12


@pytest.mark.versions
@pytest.mark.longer
def test_landmarks_serve_many_samples(monkeypatch):
    monkeypatch.setattr(quantities, "PAIRS_UP_TO", 300)
    monkeypatch.setattr(quantities, "PIECE", 5000)  # so that there are several pieces
    model = DKPCA(5, gamma=None, protect="sums", n_landmarks=150, precision="float64").fit(split(X[:MANY]))
    truth = KernelPCA(5, kernel="rbf", gamma=1 / 30).fit(X[:MANY])
    assert subspace_error(truth.eigenvectors_, model.eigenvectors_) < 0.01
    assert model.ledger_[0].bytes_sent == MANY * 150 * 8 + 16 * len(POWERS)
    scores, expected = model.transform(split(NEW)), truth.transform(NEW)
    assert np.linalg.norm(np.abs(scores) - np.abs(expected)) < 0.1 * np.linalg.norm(expected)
    np.testing.assert_allclose(model.transform(split(X[:MANY])), model.fit_transform(split(X[:MANY])), atol=1e-3)


@pytest.mark.longer
def test_landmarks_certify_what_they_leave_out(monkeypatch):
    monkeypatch.setattr(quantities, "PAIRS_UP_TO", 10)
    model = DKPCA(2, gamma=None, protect="sums", n_landmarks=200, precision="float64").fit(split(X[:MANY]))
    K = RBF(1 / 30)(X[:MANY], X[:MANY])
    factor = next(iter(model.model_.summaries.values())).factor.decode()
    values = np.linalg.eigvalsh(K - factor @ factor.T)
    assert values[-1] <= model.certificate_.kernel_error_above
    assert values[0] >= -model.certificate_.kernel_error_below


@pytest.mark.longer
@pytest.mark.parametrize("settings", [{"protect": "sums"}, {"protect": "blind", "kernel": "linear"}])
def test_a_protected_estimator_is_saved_and_goes_on(tmp_path, settings):
    model = DKPCA(3, **settings).fit(split(X[:FIT]))
    model.save(tmp_path / "model")
    again = DKPCA.load(tmp_path / "model")
    np.testing.assert_array_equal(again.eigenvectors_, model.eigenvectors_)
    np.testing.assert_allclose(again.transform(split(NEW)), model.transform(split(NEW)), atol=1e-7)
    assert again.ledger_ == model.ledger_


@pytest.mark.parametrize("settings", [{"protect": "sums"}, {"protect": "blind", "kernel": "linear"}])
def test_two_fits_agree_though_their_keys_do_not(settings):
    first, again = (DKPCA(3, **settings).fit_transform(split(X[:FIT])) for _ in range(2))
    np.testing.assert_allclose(first, again, atol=1e-5)


def test_blind_equals_open_and_sends_as_much():
    settings: dict[str, Any] = {"n_components": 5, "kernel": "linear", "rank": 8, "precision": "float64"}
    seen, blind = (DKPCA(**settings, protect=protect).fit(split(X[:FIT])) for protect in ("none", "blind"))
    assert subspace_error(seen.eigenvectors_, blind.eigenvectors_) < 1e-12
    np.testing.assert_allclose(seen.eigenvalues_, blind.eigenvalues_, rtol=1e-10)
    np.testing.assert_allclose(seen.transform(split(NEW)), blind.transform(split(NEW)), atol=1e-7)
    for open_, hidden in zip(seen.ledger_, blind.ledger_, strict=True):
        assert abs(open_.bytes_sent - hidden.bytes_sent) < 0.01 * open_.bytes_sent
    assert blind.certificate_.subspace_error_at_most < 1.1 * seen.certificate_.subspace_error_at_most + 1e-9


def test_blind_with_other_kernels_is_their_centered_sum():
    model = DKPCA(4, law="sum", gamma=0.05, rank=300, precision="float64", protect="blind").fit(split(X[:FIT]))
    total = sum(RBF(0.05)(part, part) for part in split(X[:FIT]).values())
    truth = KernelPCA(4, kernel="precomputed").fit(total)
    assert subspace_error(truth.eigenvectors_, model.eigenvectors_) < 1e-12


@pytest.mark.parametrize("n", [2, 50, UNIFORM_UP_TO, UNIFORM_UP_TO + 1, 4321])
def test_a_rotation_is_orthogonal_and_can_be_undone(n):
    A = np.random.default_rng(n).normal(size=(n, 3))
    rotation = Rotation(KEY, "run", row_number_digest(n), n)
    turned = rotation.turn(A)
    np.testing.assert_allclose(turned.T @ turned, A.T @ A, atol=1e-9)
    np.testing.assert_allclose(rotation.turn_back(turned), A, atol=1e-11)


def test_another_run_other_samples_or_another_key_turn_otherwise():
    A = np.random.default_rng(0).normal(size=(60, 2))
    first = Rotation(KEY, "run", row_number_digest(60), 60)
    others = [
        Rotation(KEY, "other", row_number_digest(60), 60),
        Rotation(KEY, "run", row_number_digest(61), 60),
        Rotation(KEY + b"!", "run", row_number_digest(60), 60),
    ]
    for other in others:
        assert np.abs(first.turn(A) - other.turn(A)).max() > 0.1
        assert first.hidden_digest != other.hidden_digest
    assert KEY.decode() not in repr(first)


# A uniform rotation, and rounds of cosine transforms.
@pytest.mark.longer
@pytest.mark.parametrize("n", [569, pytest.param(1200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kernel", [Linear(), RBF(1 / 30)])
def test_a_blind_center_with_a_hundred_known_rows_recovers_nothing(n, kernel):
    rows = np.random.default_rng(0).integers(0, len(X), size=n) if n != len(X) else np.arange(n)
    table = X[rows]
    received = [
        blindly(part, turning(n), name, kernel=kernel, rank=Fixed(10), law="sum")[0].factor.decode()
        for name, part in split(table).items()
    ]
    draws = [np.random.default_rng(seed).permutation(n)[:100] for seed in range(3)]
    for factor in [*received, np.hstack(received)]:
        found = attacked(Seen(factor, Linear(), 0.0, factor.shape[1]), Truth.of(table), draws)
        # Rotated rows are no samples: what their directions contain is there by chance.
        assert max(max(values) for attack, values in found.items() if attack != "content") < 0.1


def test_the_same_attack_recovers_everything_without_the_rotation():
    factor = summarize(X[:, :10], party="clinic", kernel=Linear(), rank=Fixed(10))[0].factor.decode()
    draws = [np.random.default_rng(0).permutation(len(X))[:100]]
    found = attacked(Seen(factor, Linear(), 0.0, 10), Truth.of(X[:, :10]), draws)
    assert min(found["factor rows"]) > 0.99


def test_a_blind_message_says_no_kernel_no_ids_and_no_mean():
    ids = [f"p{i}" for i in range(60)]
    turned = [
        blindly(
            X[:60, :10],
            turning(60, None if names is None else dkpca.messages.digest(names)),
            kernel=Linear(),
            rank=Fixed(5),
            sample_ids=names,
        )[0]
        for names in (ids, None)
    ]
    assert turned[0].kernel.name == "precomputed"
    assert turned[0].sample_digest not in (dkpca.messages.digest(ids), row_number_digest(60))
    assert turned[0].sample_digest != turned[1].sample_digest


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"protect": "sums", "rank": 5}, "protect='sums' has no rank"),
        ({"protect": "sums", "precision": "compact"}, "adds numbers of precision"),
        ({"protect": "sums", "weights": "balanced"}, "one kernel for all parties, without weights"),
        ({"protect": "sums", "kernel": {"clinic": "rbf", "lab": "rbf", "registry": "linear"}}, "one kernel for all"),
        ({"protect": "sums", "law": "sum"}, "by its own law"),
        ({"protect": "sums", "kernel": "cosine"}, "not a function of a sum .* and protect='none'"),
        ({"protect": "sums", "projection": "exact"}, "places new samples in its own way"),
        ({"protect": "blind"}, "a blind center can only add matrices up"),
        ({"protect": "blind", "law": "product"}, "needs the sum law"),
        ({"protect": "blind", "kernel": "linear", "center": False}, "use center=True"),
        ({"protect": "blind", "kernel": "poly"}, "a blind center can only add matrices up"),
        ({"protect": "secret"}, "protect"),
    ],
)
def test_what_does_not_go_together_is_refused_with_the_reason(settings, words):
    with pytest.raises(InputError, match=words):
        DKPCA(3, **settings).fit(split(X[:60]))


def test_a_single_party_and_a_missing_one_are_refused():
    with pytest.raises(InputError, match="hides a party among others"):
        DKPCA(2, protect="sums").fit({"clinic": X[:60, :10]})
    both: list[dict[str, Any]] = [{"protect": "sums"}, {"protect": "blind", "kernel": "linear"}]
    for settings in both:
        model = DKPCA(2, **settings).fit(split(X[:60]))
        with pytest.raises(InputError, match=r"needs the tables of every party; those of \['registry'\] are missing"):
            model.transform({"clinic": NEW[:, :10], "lab": NEW[:, 10:20]})


def test_what_a_protected_fit_cannot_say_is_refused():
    model = DKPCA(2, protect="sums").fit(split(X[:60]))
    with pytest.raises(InputError, match="score is for fits with protect='none'"):
        model.score(split(NEW))


@pytest.mark.longer
def test_a_share_of_the_variance_decides_the_components_of_a_protected_fit():
    shares = [DKPCA(0.6, protect=p, kernel="linear").fit(split(X[:FIT])) for p in ("none", "sums", "blind")]
    assert len({len(model.eigenvalues_) for model in shares}) == 1


def test_rows_of_a_protected_fit_are_not_sent_in_the_open():
    _, state = blindly(X[:60, :10], turning(60), kernel=Linear(), rank=Fixed(5))
    for exact in (False, True):
        with pytest.raises(InputError, match="its fit was protected"):
            dkpca.extend(replace(state, keep_training=True), X[:3, :10], exact=exact)


def test_a_party_may_insist_on_its_protection():
    limits = dkpca.Limits(protect=("sums",))
    with pytest.raises(PolicyError, match=r"takes part with protect = \['sums'\] only, and 'none' was asked for"):
        dkpca.summarize(X[:, :10], party="clinic", kernel=RBF(0.1), rank=3, limits=limits)


def narrow(n=200):
    """Three parties whose kernel is so narrow that each sample is similar only to itself."""
    return split(X[:n]), {"law": "sum", "gamma": 1e4, "protect": "blind", "rank": n - 1, "precision": "float64"}


def test_a_narrow_kernel_is_refused_by_a_blind_fit_with_the_reason():
    tables, settings = narrow()
    with pytest.raises(InputError, match="nearly the identity and would reveal the rotation"):
        DKPCA(3, **settings).fit(tables)


class Careless(Rotation):
    """Leaves a party's columns as they are."""

    def columns(self, rank):
        return np.eye(rank)


@pytest.mark.parametrize("gamma", [1e-3, 0.05, 0.5])
@pytest.mark.parametrize("rank", [10, 100, 199])
def test_no_kernel_hands_the_rotation_over(gamma, rank):
    """Who knows a party's eigenvectors gets the samples' rotation from its message, unless columns are turned."""
    n, part = 200, X[:200, :10]
    turned = turning(n)
    rotation = Rotation(KEY, "run", row_number_digest(n), n)
    K = RBF(gamma)(part, part)
    K = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    _, vectors = np.linalg.eigh(K)
    known = vectors[:, ::-1][:, :rank]
    careless = Careless(KEY, "run", row_number_digest(n), n)
    errors = {}
    for how, blind in (("careless", careless), ("ours", turned)):
        settings: dict[str, Any] = {"kernel": RBF(gamma), "rank": Fixed(rank), "law": "sum", "precision": "float64"}
        sent = np.asarray(blindly(part, blind, **settings)[0].factor.decode())
        found = sent / np.linalg.norm(sent, axis=0) @ known[:, : sent.shape[1]].T  # Q, where the columns are V
        truth = rotation.turn(known[:, : sent.shape[1]]) @ known[:, : sent.shape[1]].T
        signs = np.sign(np.sum((found @ known) * rotation.turn(known), axis=0))  # the best case: signs are known
        found = (found @ known * signs) @ known.T if how == "careless" else found
        errors[how] = np.linalg.norm(found - truth) / np.linalg.norm(truth)
    assert errors["careless"] < 0.2
    assert errors["ours"] > 1.0


def test_a_party_whose_addend_is_constant_leaves_nobody_alone():
    tables = split(X[:FIT]) | {"lab": np.ones((FIT, 3))}
    with pytest.raises(ProtectionError, match="'lab': its contribution is nearly the same for all samples"):
        DKPCA(3, gamma=0.05, protect="sums").fit(tables)
    tables = split(X[:FIT])
    with pytest.raises(ProtectionError, match="would reveal that of the others"):
        DKPCA(3, gamma=1e-20, protect="sums").fit(tables | {"lab": 1e9 * tables["lab"]})


@pytest.mark.parametrize("settings", [{"protect": "sums"}, {"protect": "blind", "kernel": "linear"}])
def test_new_samples_that_are_all_alike_are_not_placed(settings):
    model = DKPCA(3, **settings).fit(split(X[:FIT]))
    assert model.transform(split(NEW[:1])).shape == (1, 3)
    with pytest.raises(ProtectionError, match="nearly constant|nearly the same"):
        model.transform(split(np.repeat(NEW[:1], 3, axis=0)))


def test_a_party_without_a_part_in_the_components_does_not_take_part():
    tables = split(X[:FIT])
    tables["lab"] = 1e-6 * tables["lab"]
    with pytest.raises(ProtectionError, match="its share of every component is nearly zero"):
        DKPCA(2, kernel="linear", protect="blind").fit(tables)


def test_a_party_of_a_blind_fit_takes_no_weight_that_the_plan_does_not_have(monkeypatch):
    asks = []
    fit = protocols.fit

    def watched(*given):
        protocol = fit(*given)
        ask = next(protocol)
        while True:
            asks.append(ask)
            try:
                ask = protocol.send((yield ask))
            except StopIteration as done:
                return done.value

    monkeypatch.setattr(protocols, "fit", watched)
    tables = {name: np.random.default_rng(j).normal(size=(40, 4)) for j, name in enumerate("abc")}
    DKPCA(2, kernel="linear", law="sum", protect="blind").fit(tables)
    (result,) = [ask for ask in asks if ask.step == "result"]
    told: Any = result.questions["a"]
    assert result.expects(told)
    assert not result.expects(replace(told, weight=1e-4))
