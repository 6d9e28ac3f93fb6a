"""Attacks on protected fits: each succeeds on a careless twin of the protocol, and fails on ours."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from dkpca import DKPCA
from dkpca.errors import InputError, ProtectionError
from dkpca.exchange import in_process, protocols
from dkpca.kernels import RBF, ChiSquared, CosineKernel, Kernel, Laplacian, Linear, Overlap, Polynomial
from dkpca.messages import MaskedSum, Scores, Seed, Shape, Summary, Told, row_number_digest
from dkpca.party import summarize
from dkpca.party.questions import BoundsWanted, SummaryWanted, SumsWanted
from dkpca.party.recovery import Seen, against
from dkpca.protection.rotation import Rotation
from dkpca.rank import Fixed
from dkpca.settings import Compute, Fit
from experiments.public_columns import with_public_columns

N, NARROW, WIDE = 120, 1e3, 1e-3
pytestmark = pytest.mark.slow  # each review attacks a table
X = load_breast_cancer().data
X = (X - X.mean(axis=0)) / X.std(axis=0)
PARTS = {"clinic": slice(0, 10), "lab": slice(10, 20), "registry": slice(20, 30)}
SAMPLES = Rotation(b"a key that the center does not have", "run", row_number_digest(N), N)


def split(table: Any) -> dict[str, Any]:
    return {name: table[:, columns] for name, columns in PARTS.items()}


def for_kernel(kernel: Kernel, table: Any) -> Any:
    """Columns that the kernel takes: counts, categories, or numbers as they are."""
    if kernel.of_counts:
        return table - table.min(axis=0)
    return np.round(2.0 * table) if kernel.columns_are == "categories" else table


def centered(K: Any) -> Any:
    return K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()


def turning(name: str) -> Rotation:
    return replace(SAMPLES, own=name.encode())


def sent(name: str, table: Any, kernel: Kernel, rank: int) -> Any:
    asked = SummaryWanted(kernel, Fixed(rank), "float64", law="sum", blind=True)
    return summarize(table, asked, party=name, blind=turning(name))[0]


def gram_error(found: Any, truth: Any) -> float:
    """Between different samples: everybody knows that a sample is like itself."""
    apart = ~np.eye(len(truth), dtype=bool)
    return float(np.linalg.norm((found - truth)[apart]) / np.linalg.norm(truth[apart]))


def identity_factor(rank: int = N - 1) -> Any:
    """Factor of a matrix that every center can guess: of a kernel so narrow that K = I."""
    values, vectors = np.linalg.eigh(centered(np.eye(N)))
    return (vectors * np.sqrt(np.maximum(values, 0.0)))[:, ::-1][:, :rank]


def back_turned(guide: Any, message: Any) -> Any:
    """Take a message to be the turned factor of the identity; turn another message back by the rotation between."""
    left, _, right = np.linalg.svd(guide, full_matrices=False)  # their product is the nearest orthonormal factor
    return identity_factor(guide.shape[1]) @ (left @ right).T @ message


def recovered(factors: list[Any], table: Any) -> float:
    seen = [Seen(factor, Linear(), 0.0, min(factor.shape)) for factor in factors]
    # What directions contain is counted whoever knows how to mix them; here it is there by chance.
    attacks = against(seen, table, known_rows=30).by_attack
    return max(max(found) for attack, found in attacks.items() if attack != "content")


class TestANarrowKernelInABlindFit:
    def test_hands_the_rotation_over_where_only_samples_are_turned(self):
        table = X[:N, 10:20]
        factor = np.linalg.svd(table - table.mean(axis=0), full_matrices=False)
        A = factor[0] * factor[1]
        guide, message = SAMPLES.turn(identity_factor()), SAMPLES.turn(A)
        found = back_turned(guide, message)
        assert gram_error(found @ found.T, A @ A.T) < 1e-6
        assert recovered([found], table) > 0.99

        guide = guide @ turning("clinic").columns(guide.shape[1])  # ours
        found = back_turned(guide, message @ turning("lab").columns(message.shape[1]))
        assert gram_error(found @ found.T, A @ A.T) >= 1.0
        assert recovered([found], table) <= 0.1

    @pytest.mark.parametrize("kernel", [RBF(NARROW), Laplacian(NARROW), ChiSquared(NARROW)], ids=lambda k: k.name)
    @pytest.mark.parametrize("rank", [10, N - 1])
    def test_is_refused_with_the_reason(self, kernel, rank):
        with pytest.raises(InputError, match="nearly the identity and would reveal the rotation"):
            sent("lab", for_kernel(kernel, X[:N, 10:20]), kernel, rank)


KERNELS: dict[str, tuple[Kernel, Kernel]] = {  # narrow but accepted, and wide
    "rbf": (RBF(0.3), RBF(WIDE)),
    "laplacian": (Laplacian(0.2), Laplacian(WIDE)),
    "chi2": (ChiSquared(1.0), ChiSquared(WIDE)),
    "overlap": (Overlap(0.1), Overlap(WIDE)),
    "linear": (Linear(), Linear()),
    "poly": (Polynomial(1.0, own=True), Polynomial(WIDE, own=True)),
    "cosine": (CosineKernel(own=True), CosineKernel(own=True)),
}
MIXED = {"clinic": Laplacian(0.2), "lab": Linear(), "registry": RBF(WIDE)}


@pytest.mark.parametrize("rank", [10, 60, N - 1])
@pytest.mark.parametrize(
    ("name", "width"),
    [(n, w) for n, (narrow, wide) in KERNELS.items() for w in ("narrow", "wide")[: 1 + (narrow != wide)]]
    + [("mixed", "")],
)
def test_a_blind_center_with_thirty_known_rows_gets_no_matrix_and_no_column(name, width, rank):
    kernels = MIXED if name == "mixed" else dict.fromkeys(PARTS, KERNELS[name][width == "wide"])
    tables = {party: for_kernel(kernels[party], part) for party, part in split(X[:N]).items()}
    messages = {p: np.asarray(sent(p, tables[p], kernels[p], rank).factor.decode()) for p in PARTS}
    truth = {party: centered(np.asarray(kernels[party](table, table))) for party, table in tables.items()}
    for guide, target in (("clinic", "lab"), ("lab", "registry"), ("registry", "clinic")):
        found = back_turned(messages[guide], messages[target])
        assert gram_error(found @ found.T, truth[target]) >= 1.0
    everything = [*messages.values(), back_turned(messages["clinic"], messages["lab"])]
    # Of five who have a rare value, two are named by chance.
    assert recovered(everything, tables["lab"]) <= 0.17


def test_with_public_columns_and_known_rows_blind_promises_nothing():
    kernels = {"clinic": RBF(0.1), "lab": Linear()}
    tables = split(X[:N])
    messages = {
        name: (sent(name, tables[name], kernel, N - 1), tables[name], kernel) for name, kernel in kernels.items()
    }
    found = with_public_columns(messages["lab"], messages["clinic"], known_rows=60)
    assert min(found.columns) > 0.9


def placing(tables: dict[str, Any], new: dict[str, Any], settings: Fit) -> list[tuple[Any, Any]]:
    """All questions and answers of placing new samples after a fit, as the center sees them."""
    names = list(tables)
    heard: list[tuple[Any, Any]] = []
    parties = in_process.parties_of(tables, "run", settings, Compute())
    for name, party in parties.items():
        party.open_new = lambda batch, kind, rows=new[name]: rows
    terms = protocols.Terms("run", study=True)

    def listened(protocol: Any) -> Any:
        answers: Any = None
        while True:
            try:
                ask = protocol.send(answers)
            except StopIteration as end:
                return end.value
            answers = yield ask
            if ask.readers != "parties" and not ask.step.endswith("result"):  # which the center tells
                heard.extend((ask.questions[name], answers[name]) for name in names)

    model, _ = in_process.drive(listened(protocols.fit(names, settings, protocols.Terms("run"))), parties, Compute())
    fitted = len(heard)
    in_process.drive(listened(protocols.place(names, settings, model, "new", terms)), parties, Compute())
    return heard[fitted:]


class TestBoundsOfNewSamples:
    """An offer with a party's own largest number tells its share of the score of one new sample."""

    def test_in_the_clear_are_the_share_of_a_sample(self):
        scorer = np.linalg.svd(X[:N, :10], full_matrices=False)[2][:1].T
        reach = [float(np.max(np.abs(row @ scorer))) for row in X[200:260, :10]]
        assert np.corrcoef(reach, np.ravel(np.abs(X[200:260, :10] @ scorer)))[0, 1] > 0.999

    def test_are_one_power_of_two_of_all_parties_under_masks(self):
        settings = Fit(n_components=2, gamma=0.05, protect="sums")
        powers = []
        for factor in (1.0, 0.3):  # of one party's new samples, which are not the farthest
            new = split(X[200:230])
            new["lab"] = factor * new["lab"]
            new["clinic"] = 5.0 * new["clinic"]
            heard = placing(split(X[:N]), new, settings)
            asked = [question for question, _ in heard if isinstance(question, SumsWanted)]
            assert {len(set(question.bounds.values())) for question in asked} == {1}
            powers.append(asked[0].bounds["lab"])
            assert np.log2(powers[-1]) == round(np.log2(powers[-1]))
            for question, answer in heard:
                assert isinstance(answer, Shape | MaskedSum)
                if isinstance(question, BoundsWanted):
                    assert np.bincount(answer.values, minlength=256).max() < 130  # of 16,192 bytes: uniform
        assert powers[0] == powers[1]


class TestScorers:
    """A party's part A' U / sqrt(lambda) in the scores of new samples, with as many components as its rank."""

    def test_that_the_center_holds_are_the_factor_rows_of_new_samples(self):
        A, rows = (np.random.default_rng(seed).normal(size=(n, 8)) for seed, n in ((0, N), (1, 30)))
        U = np.linalg.qr(np.random.default_rng(2).normal(size=(N, 8)))[0]
        scorer = A.T @ U
        found = (rows @ scorer) @ np.linalg.inv(scorer)
        assert gram_error(found @ found.T, rows @ rows.T) < 1e-9

    def test_never_leave_a_party(self):
        settings = Fit(n_components=8, kernel="linear", rank=8, protect="blind")
        new = split(X[200:230])
        heard = placing(split(X[:N]), new, settings)
        assert {type(answer) for _, answer in heard} == {Shape, MaskedSum}
        shares = [answer for question, answer in heard if isinstance(question, SumsWanted)]
        truth = centered(new["lab"] @ new["lab"].T)
        for share in shares:
            found = share.values.view("<u8").astype(float).reshape(30, 8)
            found = (found - found.mean(axis=0)) / found.std() * new["lab"].std()
            assert gram_error(found @ found.T, truth) >= 1.0


class TestASumToWhichTheOthersAddNothing:
    def test_is_one_partys_matrix(self):
        tables = split(X[:N]) | {"lab": np.full((N, 3), 7.0), "registry": np.zeros((N, 2))}
        total = sum(RBF(1.0).partial(part, part) for part in tables.values())
        assert gram_error(np.exp(-0.05 * total), RBF(0.05)(tables["clinic"], tables["clinic"])) < 1e-9

    @pytest.mark.parametrize(
        ("kernel", "constant"),
        [
            (RBF(0.05), np.full((N, 3), 7.0)),
            (RBF(0.05), 1e6 + 1e-9 * X[:N, :3]),
            (Linear(), np.full((N, 3), 7.0)),
            (Overlap(0.5), X[:N, :3]),  # few values are like any other
        ],
    )
    def test_is_refused_by_those_before_they_send_anything(self, kernel, constant):
        tables = {name: for_kernel(kernel, part) for name, part in split(X[:N]).items()} | {"lab": constant}
        with pytest.raises(ProtectionError, match="'lab': its contribution is nearly the same for all samples"):
            DKPCA(2, kernel=kernel, protect="sums").fit(tables)


def test_messages_of_a_blind_fit_are_these_and_no_others():
    names = ["clinic", "lab", "registry"]
    settings = Fit(n_components=3, kernel="linear", rank=8, protect="blind")
    parties = in_process.parties_of(split(X[:N]), "run", settings, Compute())
    kinds: list[type[Any]] = []

    def listened(protocol: Any) -> Any:
        answers: Any = None
        while True:
            try:
                ask = protocol.send(answers)
            except StopIteration as end:
                return end.value
            answers = yield ask
            kinds.extend(type(each) for each in answers.values())

    in_process.drive(listened(protocols.fit(names, settings, protocols.Terms("run"))), parties, Compute())
    assert set(kinds) == {dict, Summary, Told}
    assert not {Seed, Scores} & set(kinds)  # a dict has the seeds, from party to party
