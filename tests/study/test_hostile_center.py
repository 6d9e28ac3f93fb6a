"""A center that attacks with its own valid keys: by the plan it writes, and by what it tells during the study.

Each attack has a careless twin: parties whose limits allow everything, or who left a check out. There the study runs
to its end, and the attacker's files give the columns away.
"""

import contextlib
import hashlib
import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import pytest
from scipy.linalg import eigh
from scipy.spatial.distance import cdist
from sklearn.decomposition import FastICA

from dkpca import wire
from dkpca.errors import InputError, ProtectionError, WireError
from dkpca.exchange import founding, leaving, own_table, protocols, replay, study
from dkpca.exchange import review as reviews
from dkpca.exchange.identity import Secrets, sha256
from dkpca.exchange.member import Membership, RefusedError, WaitingError
from dkpca.exchange.memory import ABOUT
from dkpca.exchange.protocols import Terms
from dkpca.exchange.replay import PartySide
from dkpca.exchange.sealed import Part
from dkpca.fusion.audit import uniform_request
from dkpca.kernels import RBF, Laplacian, Linear, Polynomial
from dkpca.linalg.precision import Rounded
from dkpca.messages import AuditRows, Reveal, Rows, Statistics, Summary
from dkpca.party import answers, recovery, summaries
from dkpca.party import questions as q
from dkpca.party.limits import Limits
from dkpca.protection.quantities import as_distances, of_fit
from dkpca.settings import Fit
from dkpca.store.files import decode_model
from experiments.public_columns import without_rotation
from testkit.studies import ANYTHING, Consortium, a_plan

pytestmark = pytest.mark.slow  # each review attacks a table
CAUTIOUS = vars(Limits())
MEASURED = ANYTHING | {"known_rows": CAUTIOUS["known_rows"]}
NAMES = ("airline", "registry", "weather")
FEW = 6  # columns, where it does not matter how well they are hidden


def tables(n=120, width=25, names=NAMES):
    """Tables of independent columns; of 25 of them, a careful plan is green."""
    random = np.random.default_rng(0)
    return {name: ([f"s{row}" for row in range(n)], random.normal(size=(n, width))) for name in names}


def without_content(monkeypatch):
    """Attack with known rows only, as a careless review does."""
    attacks = {name: attack for name, attack in recovery.ATTACKS.items() if name != "content"}
    monkeypatch.setattr(recovery, "ATTACKS", attacks)


def received(consortium, writer, step, kind):
    """A message that the center opened."""
    (path,) = (consortium.root / "center/studies").glob(f"*/opened/{writer}.{step}.center")
    message = wire.decode(path.read_bytes())
    assert isinstance(message, kind)
    return message


def by_summary(consortium, X):
    return recovery.measure(received(consortium, "airline", "summary", Summary), X).worst


def by_audit(consortium, X):
    return by_numbers(received(consortium, "airline", "audit", AuditRows).rows.decode().T, X)


def by_joint_matrix(consortium, X):
    (joined,) = decode_model((consortium.root / "center/result/model.safetensors").read_bytes()).summaries.values()
    return recovery.against([recovery.seen_in(joined, np.arange(len(X)))], X).worst


def by_result(consortium, X):
    """A member who gets the result helps the center."""
    return by_numbers(consortium.embedding("weather")[1], X)


def by_new_rows(consortium, X):
    new = received(consortium, "airline", "batch-1.rows", Rows)
    order = [int(name.removeprefix("ns")) for name in consortium.embedding("airline", "batch-1")[0]]
    return by_numbers(new.factor.decode(), X[order])


def by_numbers(numbers, X):
    seen = recovery.Seen(np.asarray(numbers), Linear(), 0.0, X.shape[1])
    return recovery.against([seen], X).worst


@dataclass(frozen=True)
class Attack:
    """A plan, the limit that stops it, and how its author reads the careless party's columns."""

    fit: Mapping[str, Any]
    limit: str
    succeeds: Callable[[Any, Any], float] | None
    plan: Mapping[str, Any] = field(default_factory=dict)
    width: int = 25


BLIND = {"protect": "blind", "law": "sum", "n_components": 2, "standardize": True}
CAREFUL = BLIND | {"gamma": 0.02}
ALONE = {"airline": 0.02, "registry": 1e-12, "weather": 1e-12}
TINY = {"airline": 1e-13, "registry": 1.0, "weather": 1.0}
LINEAR_BUT_ONE = {"airline": "rbf", "registry": "linear", "weather": "linear"}
PLANS = {
    "audit rows": Attack({"gamma": 0.02, "rank": 1, "n_components": 1, "audit": 60}, "audit_rows", by_audit, width=5),
    "batches as questions": Attack(
        {"gamma": 0.02, "rank": 12, "n_components": 2}, "batches", by_new_rows,
        {"batches": 3, "batch_samples": 2, "align": "tokens"}, width=5,
    ),
    "kernels constant for the others": Attack(BLIND | {"n_components": 25, "gamma": ALONE}, "recovery", by_result),
    "as many components as the rank": Attack(
        CAREFUL | {"n_components": 59, "gamma": 0.05}, "recovery", by_result, width=5
    ),
    "everything in the open": Attack({"gamma": 0.02, "n_components": 30}, "recovery", by_summary),
    "a joint matrix of few columns": Attack(
        {"gamma": 0.02, "protect": "sums", "n_components": 2}, "recovery", by_joint_matrix, width=2
    ),
    "a wide range of gamma": Attack(
        {"n_components": 12, "rank": 12}, "recovery", by_summary, {"gamma": (1e-4, 1.0)}, width=5
    ),
    "kernels too narrow for the others": Attack(
        BLIND | {"n_components": 25, "gamma": {"airline": 0.02, "registry": 1e4, "weather": 1e4}}, "recovery", None
    ),  # the others refuse
    "a weight that makes one party small": Attack(
        BLIND | {"kernel": "linear", "n_components": 6, "weights": TINY}, "recovery", by_result, width=2
    ),
    "a kernel that makes one party small": Attack(
        BLIND | {"kernel": LINEAR_BUT_ONE, "gamma": {"airline": 1e-13}, "n_components": 6}, "recovery", by_result,
        width=2,
    ),
    "few samples": Attack(CAREFUL, "samples", None, {"samples": 5}),
    "finest numbers": Attack({"gamma": 0.02, "rank": 1, "precision": "float64"}, "precision", None),
}  # fmt: skip


def founded(tmp_path, fit, limits, given=None, **plan):
    about: dict[str, Any] = {"align": "position", "samples": 50} | plan
    consortium = Consortium(tmp_path, given or tables(), fit, **about)
    return consortium.join("airline", **limits).join(*consortium.names[1:], **ANYTHING)


def kernel_of(consortium):
    """The joint kernel matrix, as the center has it at the end of a study of masked sums."""
    consortium.finish()
    (joined,) = decode_model((consortium.root / "center/result/model.safetensors").read_bytes()).summaries.values()
    return joined.factor.decode() @ joined.factor.decode().T


def test_the_rank_is_the_highest_over_all_widths_that_the_plan_allows(tmp_path_factory):
    def rank(gamma):
        plan = {} if gamma else {"gamma": (1e-3, 1e-1)}
        fit = {"gamma": gamma or "scale", "rank": "auto", "n_components": 2}
        consortium = founded(tmp_path_factory.mktemp("rank"), fit, ANYTHING, tables(width=5), **plan)
        found = consortium.at("airline", study.review)
        return next(finding.asked for finding in found.findings if finding.limit == "rank")

    apart = [rank(gamma) for gamma in (1e-3, 1e-2, 1e-1)]
    assert len(set(apart)) > 1
    assert rank(None) == max(apart)


@pytest.mark.parametrize("attack", PLANS)
def test_a_plan_that_attacks_is_red_and_is_not_signed(attack, tmp_path):
    how = PLANS[attack]
    consortium = founded(tmp_path, how.fit, CAUTIOUS, tables(width=how.width), **how.plan)
    found = consortium.at("airline", study.review)
    assert how.limit in [finding.limit for finding in found.findings if not finding.ok]
    with pytest.raises(InputError, match="the last review was red"):
        consortium.at("airline", study.sign, found.study.fingerprint[:40])
    assert not (tmp_path / "shared/airline/signature-1").exists()


@pytest.mark.parametrize("width", [1e200, 1e-200])
def test_widths_whose_product_is_no_number_are_measured(width):
    assert np.allclose(reviews._widths(a_plan(gamma=(width, width)), Fit()), width, rtol=1e-9, atol=0.0)


def test_a_careful_plan_is_green(tmp_path):
    consortium = founded(tmp_path, CAREFUL, CAUTIOUS)
    found = consortium.at("airline", study.review)
    assert found.green, found.words()
    consortium.at("airline", study.sign, found.study.fingerprint[:40])


@pytest.mark.parametrize("attack", [name for name, how in PLANS.items() if how.succeeds])
def test_a_careless_party_signs_and_loses_its_columns(attack, tmp_path):
    how, given = PLANS[attack], tables(width=PLANS[attack].width)
    assert how.succeeds is not None
    consortium = founded(tmp_path, how.fit, MEASURED, given, **how.plan)
    told = max(consortium.at("airline", study.review).columns.values())
    consortium.sign().finish()
    if how.plan.get("batches"):
        for name in NAMES:
            lines = (tmp_path / f"{name}.csv").read_text().splitlines()
            (tmp_path / name / "new").mkdir()
            (tmp_path / name / "new/1.csv").write_text("\n".join([lines[0], *(f"n{line}" for line in lines[1:])]))
        consortium.finish()
    found = how.succeeds(consortium, given["airline"][1])
    assert found > CAUTIOUS["recovery"]
    assert told > found - 0.1  # the review had said so


def test_where_nobody_minds_narrow_kernels_the_result_is_one_partys(tmp_path, monkeypatch):
    """The careless twin: parties that send nearly the identity. It leaves the components of the third as they are."""
    how, given = PLANS["kernels too narrow for the others"], tables()
    monkeypatch.setattr(summaries, "_check_spectrum", lambda *arguments: None)
    consortium = founded(tmp_path, how.fit, ANYTHING, given)
    consortium.sign().finish()
    assert by_result(consortium, given["airline"][1]) > CAUTIOUS["recovery"]


def distances_told(consortium, given):
    """How well the result tells the joint distances in feature space, as a correlation over all pairs."""
    scores = consortium.embedding("weather")[1]
    found = ((scores[:, None] - scores[None]) ** 2).sum(axis=2)
    true = np.zeros_like(found)
    for _, X in given.values():
        Z = (X - X.mean(axis=0)) / X.std(axis=0)
        true += 2.0 - 2.0 * np.exp(-0.02 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
    pairs = np.triu_indices(len(found), 1)
    return np.corrcoef(found[pairs], true[pairs])[0, 1]


def test_of_few_samples_the_result_tells_how_far_apart_any_two_are(tmp_path, monkeypatch):
    """The careless twin of a plan with few samples, whose matrices are nearly flat; and the same plan with many."""
    monkeypatch.setattr(summaries, "_check_spectrum", lambda *arguments: None)
    told = {}
    for n in (3, 120):
        (tmp_path / f"{n}").mkdir()
        given = tables(n, 4)
        consortium = founded(tmp_path / f"{n}", CAREFUL, ANYTHING, given, samples=2)
        consortium.sign().finish()
        told[n] = distances_told(consortium, given)
    assert told[3] > 0.999
    assert told[120] < 0.8


LEVELS = 32  # of each of six columns: 30 bits a sample, more than one number of 24 bits tells


def decoded(numbers, X, known=40):
    """Whole numbers whose weighted sum one number is: the weights from known rows, then a meeting in the middle."""
    A = np.column_stack([X[:known], np.ones(known)])
    *weights, offset = np.linalg.lstsq(A, numbers[:known], rcond=None)[0]
    halves = np.array(np.meshgrid(*[np.arange(LEVELS)] * 3, indexing="ij")).reshape(3, -1).T
    left, right = halves @ weights[:3], halves @ weights[3:]
    order = np.argsort(right)
    found = []
    for number in numbers[known:]:
        wanted = number - offset - left
        at = np.clip(np.searchsorted(right[order], wanted), 1, len(right) - 1)
        near = np.where(wanted - right[order[at - 1]] < right[order[at]] - wanted, at - 1, at)
        best = int(np.argmin(np.abs(wanted - right[order[near]])))
        found.append(np.concatenate([halves[best], halves[order[near[best]]]]))
    return np.array(found)


@pytest.mark.parametrize(("precision", "succeeds"), [("float64", True), ("float32", False)])
def test_the_finest_numbers_tell_six_columns_by_one_number_a_sample(precision, succeeds, tmp_path):
    """The careless twin takes float64; under the default limits float32 is the finest, and has not the digits."""
    random = np.random.default_rng(3)
    given = tables(60, 4) | {"airline": ([f"s{row}" for row in range(60)], random.integers(0, LEVELS, (60, 6)) * 1.0)}
    fit = {"kernel": "linear", "rank": 1, "n_components": 1, "precision": precision}
    consortium = founded(tmp_path, fit, ANYTHING, given)
    consortium.sign().finish()
    numbers = np.ravel(received(consortium, "airline", "summary", Summary).factor.decode()).astype(float)
    X = given["airline"][1]
    right = np.all(decoded(numbers, X) == X[40:], axis=1).mean()
    assert right > 0.9 if succeeds else right < 0.2


NARROW = {"gamma": 30.0, "protect": "sums", "n_components": 2, "standardize": True}


@pytest.mark.parametrize("kernel", ["rbf", "laplacian"])
def test_a_narrow_kernel_hides_nothing_of_the_sums_that_the_center_holds(kernel, tmp_path):
    """Every sample is similar only to itself, but the center adds up distances before it forms the kernel."""
    consortium = founded(tmp_path, NARROW | {"kernel": kernel}, MEASURED, tables(width=6))
    found = consortium.at("airline", study.review)
    assert min(found.columns.values()) > CAUTIOUS["recovery"]


def test_under_masked_sums_the_measure_at_go_is_on_the_sums_too(tmp_path):
    consortium = founded(tmp_path, NARROW, ANYTHING, tables(width=6))
    table = own_table.load(tmp_path / "airline", "quantities")
    derived = q.Derived(120, "00" * 32, dict.fromkeys(NAMES, 6), dict.fromkeys(NAMES, RBF(30.0)))
    seen = consortium.at("airline", lambda *here: founding.shown(founding.seat(*here)))
    case = leaving.Case.of(seen, consortium.fit, "airline", table, Limits(), consortium.memory("airline"))
    (found,) = reviews.at_go(case, derived, range(120))
    assert (found.limit, found.asked > 0.95) == ("recovery", True)


def test_a_plan_with_a_kernel_of_counts_is_measured(tmp_path):
    """The columns in the others' place are counts too: the kernel is not defined for any below 0."""
    counts = {name: (ids, np.abs(X)) for name, (ids, X) in tables(width=6).items()}
    consortium = founded(tmp_path, {"kernel": "chi2", "rank": 2, "n_components": 2}, MEASURED, counts)
    found = consortium.at("airline", study.review)
    assert not any(leaving.UNMEASURED in each.what for each in found.leaving)
    assert 0.0 < max(found.columns.values()) < 1.0


@pytest.mark.parametrize(("protect", "width"), [("blind", 6), ("sums", 15)])
def test_in_small_units_the_review_says_what_it_says_in_others(protect, width, tmp_path):
    """Without standardizing, columns of size 1 in the others' place would drown this party's."""
    fit = {"kernel": "linear", "protect": protect, "n_components": 10, "law": "sum"}
    told = []
    for unit in (1.0, 1e-3):
        (tmp_path / f"{unit}").mkdir()
        given = {name: (ids, unit * X) for name, (ids, X) in tables(width=width).items()}
        consortium = founded(tmp_path / f"{unit}", fit, MEASURED, given)
        told.append(max(consortium.at("airline", study.review).columns.values()))
    assert told[1] == pytest.approx(told[0], abs=0.1)
    assert told[0] > 0.3


def test_a_blind_plan_is_red_where_the_center_may_have_another_partys_columns(tmp_path):
    fit = CAREFUL | {"rank": 60}
    consortium = founded(tmp_path, fit, CAUTIOUS)
    found = consortium.at("airline", study.review)
    assert found.green
    assert "list that party under public in limits.toml" in "\n".join(found.words())
    (tmp_path / "airline/limits.toml").write_text(Limits(public=("registry",)).to_toml())
    found = consortium.at("airline", study.review)
    assert [finding.limit for finding in found.findings if not finding.ok] == ["recovery"]


def test_masked_sums_are_red_where_the_center_may_have_another_partys_columns(tmp_path):
    wide = tables(width=60)
    sums = {"gamma": 0.01, "protect": "sums", "n_components": 2}
    consortium = founded(tmp_path, sums, CAUTIOUS, wide)
    without = consortium.at("airline", study.review).columns
    (tmp_path / "airline/limits.toml").write_text(Limits(public=("registry",)).to_toml())
    found = consortium.at("airline", study.review)
    assert "recovery" in [finding.limit for finding in found.findings if not finding.ok]
    assert max(found.columns.values()) > max(without.values()) + 0.2


@pytest.mark.parametrize("kernel", [RBF(0.1), Laplacian(0.1), Linear(), Polynomial(0.1)], ids=lambda k: k.name)
def test_rows_are_as_far_apart_as_in_the_sum(kernel):
    prepared = 5.0 * np.random.default_rng(1).normal(size=(60, 3)) + 1.0
    metric = "cityblock" if kernel.name == "laplacian" else "sqeuclidean"
    np.testing.assert_allclose(leaving._distances(kernel, prepared), cdist(prepared, prepared, metric), atol=1e-9)


@pytest.mark.parametrize("protect", ["sums", "blind"])
def test_independent_columns_of_many_samples_are_in_the_review(protect, tmp_path, monkeypatch):
    """The careless twin of masked sums asks what known rows tell, and not what is contained in the sums."""
    random, names = np.random.default_rng(5), [f"s{row}" for row in range(2500)]
    given = {name: (names, random.exponential(size=(2500, 50))) for name in NAMES}
    fit = {"protect": protect, "kernel": "linear", "standardize": True, "n_components": 150}
    consortium = founded(tmp_path, fit, CAUTIOUS | {"recovery": 0.7}, given)
    found = consortium.at("airline", study.review)
    if protect == "sums":
        without_content(monkeypatch)
        careless = max(consortium.at("airline", study.review).columns.values())
        assert careless < max(found.columns.values()) - 0.1
    # What the center has: all columns, up to a rotation. It searches from anywhere.
    X, own = np.hstack([X for _, X in given.values()]), given["airline"][1]
    joint = (X - X.mean(axis=0)) / X.std(axis=0)
    turned = joint @ np.linalg.qr(random.normal(size=(150, 150)))[0]
    components = FastICA(whiten="unit-variance", random_state=0, tol=1e-3).fit_transform(turned)
    real = max(np.max(np.corrcoef(column, components.T)[0, 1:] ** 2) for column in own.T)
    assert [finding.limit for finding in found.findings if not finding.ok] == ["recovery"]
    assert max(found.columns.values()) > real - 0.05 > 0.7


def test_who_has_what_few_of_many_samples_have_is_in_the_review(tmp_path, monkeypatch):
    """The careless twin attacks some rows, whatever is in them: in none of them is there anything to name."""
    few, given = 4, tables(600, 15)
    X = given["airline"][1]
    X[:, 0] = 1.0
    last = np.argsort([sha256(row.tobytes()) for row in X])[-few:]  # rows are drawn by their digests
    X[:, 0] = 0.0
    X[last, 0] = 1.0
    sums = {"protect": "sums", "kernel": "linear", "standardize": True, "n_components": 2}
    monkeypatch.setattr(recovery, "MOST_ROWS", 200)
    consortium = founded(tmp_path, sums, MEASURED, given)
    found = consortium.at("airline", study.review)
    monkeypatch.setattr(recovery, "rare_first", lambda order, table: order)
    careless = consortium.at("airline", study.review)
    consortium.sign().finish()
    # The center has all rows: the direction of largest kurtosis that begins at the sample farthest out.
    (joined,) = decode_model((tmp_path / "center/result/model.safetensors").read_bytes()).summaries.values()
    Z = recovery.in_equal_lengths(np.asarray(joined.factor.decode())) * np.sqrt(len(X))
    w = Z[np.argmax((Z**2).sum(axis=1))]
    for _ in range(20):
        w = w / np.linalg.norm(w)
        w = Z.T @ (Z @ w) ** 3 / len(X) - 3.0 * w
    assert X[np.argsort(-np.abs(Z @ w))[:few], 0].min() == 1.0
    assert (careless.columns["airline0"], found.columns["airline0"]) == (0.0, 1.0)


def near_copies(random, n):
    return random.normal(size=(n, 1)) + 0.01 * random.normal(size=(n, 150))


def three_factors(random, n):
    factors = np.random.default_rng(9).normal(size=(n, 3))  # the same of all others
    return factors @ random.normal(size=(3, 60)) + 0.3 * random.normal(size=(n, 60))


@pytest.mark.parametrize("others", [near_copies, three_factors])
@pytest.mark.parametrize("width", [12, 25])
def test_columns_of_the_others_that_hide_little_are_in_the_review(others, width, tmp_path, monkeypatch):
    """The careless twin is told what independent columns would hide, and signs; the center has its columns."""
    random = np.random.default_rng(1)
    given = tables(120, width) | {
        name: ([f"s{row}" for row in range(120)], others(random, 120)) for name in NAMES[1:]
    }
    sums = {"gamma": 0.01, "protect": "sums", "n_components": 2}
    consortium = founded(tmp_path, sums, CAUTIOUS | {"recovery": 0.85 if width == 12 else 0.97}, given)
    found = consortium.at("airline", study.review)
    monkeypatch.setattr(reviews, "COUNTED", (leaving.INDEPENDENT,))
    careless = consortium.at("airline", study.review)
    assert careless.green
    consortium.sign().finish()
    real = by_joint_matrix(consortium, given["airline"][1])
    assert real > 0.6
    assert found.at_worst is not None
    assert found.at_worst > real - 0.05
    if width == 12:  # the own columns, shuffled, hide as little
        assert not found.green
    else:
        assert f"If they hid nothing: {found.at_worst:.2f}." in "\n".join(found.words())
        assert found.words()[-1].startswith("GREEN, if that assumption holds")


def test_whole_numbers_of_the_others_hide_nothing_in_masked_sums(tmp_path, monkeypatch):
    """The careless twin takes them for columns like any other; the center finds them, and subtracts what they add."""
    random, names = np.random.default_rng(2), [f"s{row}" for row in range(300)]
    given = {
        name: (names, np.hstack([random.normal(size=(300, 5)), 0.5 * random.integers(0, 5, (300, 30))]))
        for name in NAMES
    }
    sums = {"kernel": "linear", "protect": "sums", "n_components": 2}
    consortium = founded(tmp_path, sums, MEASURED, given)
    found = consortium.at("airline", study.review).columns
    without_content(monkeypatch)
    careless = consortium.at("airline", study.review).columns
    consortium.sign().finish()
    (joined,) = decode_model((tmp_path / "center/result/model.safetensors").read_bytes()).summaries.values()
    F, X = np.asarray(joined.factor.decode(), dtype=float), given["airline"][1]
    F = F - F.mean(axis=0)
    whole = np.hstack([each[:, 5:] - each[:, 5:].mean(axis=0) for _, each in given.values()])
    rest = recovery.Seen(recovery.points(as_distances(F @ F.T - whole @ whole.T)), Linear(), 0.0, 15)
    real = recovery.against([rest], X[:, :5]).columns
    own = [f"airline{column}" for column in range(5)]
    assert min(real) > 0.95
    assert min(found[name] for name in own) > 0.95
    assert max(careless[name] for name in own) < 0.92


def aimed(known, n, copies=60):
    """Table whose blind result with others is near (K_1 + ... + K_J) v, the first known column if K_1 = X X'."""
    v = np.zeros(n)
    v[: len(known)] = np.linalg.pinv(known - known.mean(axis=0))[0]
    return np.tile(10.0 * v[:, None], copies)


def test_a_made_up_table_that_aims_the_result_at_a_column_gets_no_more_than_the_review_shows(tmp_path):
    """The member follows the protocol, knows as many rows as the limits say, and has only its embedding.csv."""
    n, known = 200, CAUTIOUS["known_rows"]
    given = tables(n, 10)
    X = given["airline"][1]
    given["weather"] = (given["weather"][0], aimed(X[:known], n))
    consortium = founded(tmp_path, BLIND | {"kernel": "linear", "n_components": 1}, CAUTIOUS, given)
    found = consortium.at("airline", study.review)
    consortium.sign().finish()
    # Its own part of u is constant on the rows that it does not know; the rest is the column, in a unit and with a
    # sign that the known rows tell.
    u = consortium.embedding("weather")[1][:, 0]
    told, own, rest = u[known:] - u[known:].mean(), X[:known, 0], X[known:, 0]
    guess = own.mean() + 0.85 * own.std() * np.sign((own - own.mean()) @ u[:known]) * told / told.std()
    real = 1.0 - np.sum((guess - rest) ** 2) / np.sum((rest - rest.mean()) ** 2)
    assert real > CAUTIOUS["recovery"]
    assert found.at_worst is not None
    assert real < found.at_worst + 0.05
    assert found.words()[-1].startswith("GREEN, if that assumption holds")


@pytest.mark.parametrize("others", [("weather",), ("registry", "weather")], ids=["one", "together"])
def test_other_parties_take_their_columns_out_of_the_result_and_the_review_has_said_so(others, tmp_path):
    """They follow the protocol, with real columns that are unrelated to yours; the center is not with them."""
    n, known, given = 200, CAUTIOUS["known_rows"], tables(200, 10)
    consortium = founded(tmp_path, BLIND | {"kernel": "linear", "n_components": 10}, MEASURED, given)
    found = consortium.at("airline", study.review)
    consortium.sign().finish()
    Z, X = consortium.embedding("weather")[1], given["airline"][1]
    lengths = np.linalg.norm(Z, axis=0)
    rest = Z.copy()
    for name in others:  # Z = K V / |Z|, and K is the sum of the parties' K_j
        Y = given[name][1]
        Y = (Y - Y.mean(axis=0)) / Y.std(axis=0)
        rest -= Y @ (Y.T @ (Z / lengths)) / lengths
    told = np.hstack([np.ones((n, 1)), rest])
    guess = told[known:] @ np.linalg.lstsq(told[:known], X[:known])[0]
    real = 1.0 - np.sum((guess - X[known:]) ** 2, axis=0) / np.sum((X[known:] - X[known:].mean(axis=0)) ** 2, axis=0)
    assert max(real) > CAUTIOUS["recovery"]
    assert found.at_worst is not None
    shown = max(found.columns.values()) if len(others) == 1 else found.at_worst
    assert max(real) < shown + 0.05
    assert any("no two other members put together" in line for line in found.words())
    (tmp_path / "kept").mkdir()
    kept = founded(tmp_path / "kept", BLIND | {"kernel": "linear"}, MEASURED, given, result_to=("center", "airline"))
    assert not [each for each in kept.at("airline", study.review).leaving if each.to in others]  # who gets no result


def test_another_party_decodes_zeros_and_ones_from_a_blind_result_and_the_review_has_said_so(tmp_path):
    """It knows 30 rows and the result, of which a mixture is one of the columns; all possible rows are tried."""
    known, given = CAUTIOUS["known_rows"], tables(120, 10)
    X = (given["airline"][1] > 0.3).astype(float)
    given["airline"] = given["airline"][0], X
    fit = BLIND | {"kernel": "linear", "rank": 1, "n_components": 3}
    consortium = founded(tmp_path, fit, MEASURED, given)
    found = consortium.at("airline", study.review)
    assert max(found.columns.values()) == 1.0
    consortium.sign().finish()
    Z = consortium.embedding("weather")[1]
    Z = Z / np.abs(Z).max(axis=0)
    D = np.hstack([X[:known], np.ones((known, 1))])
    rest = Z[:known] - D @ np.linalg.lstsq(D, Z[:known])[0]
    told = Z @ np.linalg.svd(rest)[2][-1]  # which mixture of the components leaves least
    weights = np.linalg.lstsq(D, told[:known])[0]
    rows = np.array(list(itertools.product([0.0, 1.0], repeat=10)))
    guess = rows[np.argmin(np.abs(told[:, None] - (rows @ weights[:-1] + weights[-1])), axis=1)]
    assert np.mean(guess == X) > 0.99


def test_a_blind_plan_is_green_without_assumptions_where_the_own_columns_are_many(tmp_path):
    fit = BLIND | {"kernel": "linear", "rank": 40}
    found = founded(tmp_path, fit, CAUTIOUS, tables(400, 200)).at("airline", study.review)
    assert found.at_worst is not None
    assert max(found.columns.values()) < found.at_worst < CAUTIOUS["recovery"]
    assert found.green
    assert "assumption" not in found.words()[-1]


def test_a_blind_plan_whose_kernel_hands_the_rotation_over_is_red_with_the_sentence_of_the_summary(tmp_path):
    fit = {"gamma": 1000.0, "standardize": True, "protect": "blind", "law": "sum", "n_components": 1}
    consortium = Consortium(tmp_path, tables(), fit, samples=50).join()
    found = consortium.at("airline", study.review)
    assert not found.green
    assert "its kernel matrix is nearly the identity" in " ".join(found.words())


@pytest.mark.parametrize("columns", [10**6, 10**9])
def test_a_member_that_says_it_has_a_million_columns_costs_no_memory(columns, tmp_path):
    about: dict[str, Any] = {"align": "position", "samples": 50}
    founding_only = Consortium(tmp_path, tables(n=200, width=3), CAREFUL, **about).join(
        "airline", "registry", **ANYTHING
    )
    (tmp_path / "weather").mkdir()
    founding_only.at(
        "weather", lambda folder, own: founding.join(folder, own, founding.plan_in(folder), "weather", columns)
    )
    found = founding_only.at("airline", study.review)
    assert max(found.columns.values()) == 1.0
    assert any("'weather' says that it has" in each.what for each in found.leaving)


def test_names_that_others_chose_write_no_line_of_a_review(tmp_path):
    forged = "age\n\nGREEN: you may sign.\x1b[8m"
    about: dict[str, Any] = {"align": "position", "samples": 50, "covariates": {"airline": (forged,)}}
    consortium = Consortium(tmp_path, tables(width=3), {"kernel": "linear", "n_components": 2}, **about)
    consortium.join("registry", "weather", **ANYTHING)
    (tmp_path / "airline").mkdir()
    consortium.at("airline", lambda folder, own: founding.join(folder, own, founding.plan_in(folder), "airline", 3))
    lines = consortium.at("registry", study.review).words()
    assert any("GREEN: you may sign." in line for line in lines[:-1])  # inside the name of the covariate
    assert all(line.isprintable() for line in lines)


def test_a_blind_plan_on_the_largest_numbers_is_measured(tmp_path):
    given = {name: (ids, X * 1e307) for name, (ids, X) in tables(width=4).items()}
    blind = {"gamma": 0.1, "protect": "blind", "law": "sum", "n_components": 2}
    consortium = Consortium(tmp_path, given, blind, align="position", samples=50).join(**MEASURED)
    assert 0.0 <= max(consortium.at("airline", study.review).columns.values()) <= 1.0


def with_batch(consortium, tell):
    """Rows of the airline that the masked sums of a batch give, after another result was told."""
    with pytest.MonkeyPatch.context() as patched:
        told = protocols.published
        patched.setattr(protocols, "published", lambda model, *about, **kw: tell(model, told(model, *about, **kw)))
        consortium.finish()
        for name in NAMES:
            lines = (consortium.root / f"{name}.csv").read_text().splitlines()
            (consortium.root / name / "new").mkdir()
            new = "\n".join([lines[0], *(f"n{line}" for line in lines[1:])])
            (consortium.root / name / "new/1.csv").write_text(new)
        consortium.finish()
    return consortium.embedding("center", "batch-1")[1]


@pytest.mark.parametrize("components", [6, 2])
def test_a_made_up_result_gives_a_partys_share_of_new_samples_and_the_review_has_said_so(components, tmp_path):
    """Told components have nothing of the others, but for a decoy. The careless twin signs what review calls red."""
    given = tables(width=40) | {"airline": tables(width=5)["airline"]}
    fit = BLIND | {"kernel": "linear", "n_components": components}

    def made_up(model, told):
        A = {name: np.asarray(summary.factor.decode(), float) for name, summary in model.summaries.items()}
        others = np.linalg.qr(np.hstack([A["registry"], A["weather"]]))[0]
        alone = np.linalg.qr(A["airline"] - others @ (others.T @ A["airline"]))[0]
        return replace(told, scores=Rounded(np.hstack([alone, others[:, :1]])))

    consortium = founded(tmp_path, fit, CAUTIOUS | {"batches": 1}, given, batches=1, batch_samples=50)
    found = consortium.at("airline", study.review)
    assert [finding.limit for finding in found.findings if not finding.ok] == ["recovery"]
    assert not found.nearest  # five columns beside forty are told by the result, too
    (tmp_path / "airline/limits.toml").write_text(Limits(**MEASURED).to_toml())
    said = max(consortium.at("airline", study.review).columns.values())
    consortium.sign()
    if components == 2:
        with pytest.raises(RefusedError, match="refused at step 'result': .*not in the plan"):
            with_batch(consortium, made_up)
        return
    real = by_numbers(with_batch(consortium, made_up), given["airline"][1])
    assert real > 0.95
    assert said > real - 0.05


def test_small_batches_are_red_and_are_not_answered(tmp_path):
    limits = CAUTIOUS | {"batches": 1, "recovery": 1.0}
    consortium = founded(tmp_path, CAREFUL, limits, batches=1, batch_samples=2, align="position")
    found = consortium.at("airline", study.review)
    assert [(each.limit, each.asked) for each in found.findings if not each.ok] == [("samples", 2)]
    assert found.nearest == "the same plan, with 1 batch of at least 50 samples"
    # One who lowered the limit for the signature only answers no small batch either.
    (tmp_path / "airline/limits.toml").write_text(Limits(**limits | {"samples": 2}).to_toml())
    consortium.sign().finish()
    (tmp_path / "airline/limits.toml").write_text(Limits(**limits).to_toml())
    lines = (tmp_path / "airline.csv").read_text().splitlines()
    (tmp_path / "airline/new").mkdir()
    (tmp_path / "airline/new/1.csv").write_text("\n".join([lines[0], *(f"n{line}" for line in lines[1:11])]) + "\n")
    with pytest.raises(InputError, match="batch-1 has 10 samples; limits.toml asks for at least 50"):
        consortium.run("airline")


def test_batches_of_one_sample_are_no_plan_at_all(tmp_path):
    with pytest.raises(InputError, match="single it out"):
        founded(tmp_path, CAREFUL, CAUTIOUS, batches=1, batch_samples=1)


def test_red_names_the_nearest_plan_that_is_green(tmp_path):
    fit = {"gamma": 0.02, "n_components": 30, "law": "sum", "standardize": True}
    found = founded(tmp_path, fit, CAUTIOUS).at("airline", study.review)
    assert not found.green
    assert found.nearest
    assert "RED" in "\n".join(found.words())


def careful(tmp_path):
    """A study of few columns for what is signed, of which no number counts."""
    return founded(tmp_path, CAREFUL, ANYTHING, tables(60, 3))


def test_the_plan_swapped_between_review_and_sign_is_not_signed(tmp_path):
    consortium = careful(tmp_path)
    reviewed = consortium.at("airline", study.review).study.fingerprint[:40]
    path = tmp_path / "shared/center/plan-1.toml"
    path.write_bytes(path.read_bytes().replace(b"n_components = 2", b"n_components = 90"))
    other = consortium.at("weather", study.review).study.fingerprint[:40]
    with pytest.raises(ProtectionError, match="fingerprint does not match the reviewed study"):
        consortium.at("airline", study.sign, other)
    consortium.at("airline", study.sign, reviewed)  # what was shown is what is signed
    consortium.sign("weather", "registry")
    with pytest.raises(ProtectionError, match="is not the file that this member wrote"):
        consortium.sign("center")
    with pytest.raises(ProtectionError, match="another plan or other members"):
        consortium.run("weather")


def test_a_table_changed_between_review_and_sign_is_not_signed(tmp_path):
    consortium = careful(tmp_path)
    fingerprint = consortium.at("airline", study.review).study.fingerprint[:40]
    path = tmp_path / "airline.csv"
    path.write_text(path.read_text().replace("s7,", "s700,"))
    with pytest.raises(InputError, match="changed since the review"):
        consortium.at("airline", study.sign, fingerprint)


def test_ids_read_in_another_way_between_review_and_sign_are_not_signed(tmp_path):
    consortium = careful(tmp_path)
    fingerprint = consortium.at("airline", study.review).study.fingerprint[:40]
    with (tmp_path / "airline/party.toml").open("a") as file:
        file.write('id_normalize = ["case"]\n')
    with pytest.raises(InputError, match="changed since the review"):
        consortium.at("airline", study.sign, fingerprint)


def test_a_mistyped_fingerprint_keeps_nothing_and_the_table_reviewed_last_is_the_one_signed(tmp_path):
    consortium = careful(tmp_path)
    fingerprint = consortium.at("airline", study.review).study.fingerprint[:40]
    (kept,) = (tmp_path / "airline/studies").iterdir()
    with pytest.raises(ProtectionError, match="mistyped"):
        consortium.at("airline", study.sign, "0" * 40)
    assert not (kept / "table").exists()
    assert not (kept / "left.json").exists()
    memory = consortium.memory("airline").study(kept.name)
    own_table.freeze(memory, own_table.load(tmp_path / "airline", "quantities"))  # by a signature that was cut short
    path = tmp_path / "airline.csv"
    path.write_text(path.read_text().replace("s7,", "s700,"))
    with pytest.raises(InputError, match="changed since the review"):
        consortium.at("airline", study.sign, fingerprint)
    consortium.at("airline", study.review)
    consortium.at("airline", study.sign, fingerprint)
    assert "s700" in list(own_table.frozen(memory).ids or [])


def test_a_review_that_was_cut_short_is_not_signed(tmp_path, monkeypatch):
    consortium = careful(tmp_path)
    fingerprint = consortium.at("airline", study.review).study.fingerprint[:40]

    def killed(found, case):
        raise KeyboardInterrupt

    monkeypatch.setattr(reviews, "kept", killed)
    with pytest.raises(KeyboardInterrupt):
        consortium.at("airline", study.review)
    with pytest.raises(InputError, match="has not been reviewed"):
        consortium.at("airline", study.sign, fingerprint)


def test_a_signed_study_is_reviewed_with_the_table_that_was_signed(tmp_path):
    consortium = careful(tmp_path).sign("airline")
    (signed,) = (tmp_path / "airline/studies").glob("*/review.json")
    before, signature = signed.read_bytes(), (tmp_path / "shared/airline/signature-1").read_bytes()
    path = tmp_path / "airline.csv"
    path.write_text(path.read_text().replace("s7,", "s700,"))
    consortium.sign("airline")
    assert signed.read_bytes() == before
    assert (tmp_path / "shared/airline/signature-1").read_bytes() == signature


def test_a_foreign_signature_in_the_folder_keeps_nothing(tmp_path):
    consortium = careful(tmp_path)
    fingerprint = consortium.at("airline", study.review).study.fingerprint[:40]
    (tmp_path / "shared/airline/signature-1").write_bytes(b"x")
    with pytest.raises(ProtectionError, match="airline/signature-1: this member's own folder has no record of this"):
        consortium.at("airline", study.sign, fingerprint)
    (kept,) = (tmp_path / "airline/studies").iterdir()
    assert not (kept / "left.json").exists()


def test_raising_the_limits_after_a_red_review_needs_another_review(tmp_path):
    consortium = founded(tmp_path, PLANS["audit rows"].fit, CAUTIOUS, tables(width=5))
    fingerprint = consortium.at("airline", study.review).study.fingerprint[:40]
    (tmp_path / "airline/limits.toml").write_text(Limits(**ANYTHING).to_toml())
    with pytest.raises(InputError, match="the last review was red"):
        consortium.at("airline", study.sign, fingerprint)


def test_true_rows_of_an_audit_are_measured_as_the_distances_they_tell(tmp_path):
    """-log K are squared distances: their differences are straight lines in the columns. Before: 0.08."""
    fit = {"gamma": 0.05, "rank": 1, "n_components": 1, "audit": 12, "precision": "float32"}
    consortium = founded(tmp_path, fit, MEASURED, tables(200, 6))
    found = consortium.at("airline", study.review)
    consortium.sign().finish()
    squared = -np.log(received(consortium, "airline", "audit", AuditRows).rows.decode().T)
    X, known = consortium.tables["airline"][1], np.arange(30)
    guess = next(recovery.regressions(squared - squared[:, :1], known, X[known]))
    real = 1.0 - ((guess - X)[30:] ** 2).sum(axis=0) / ((X - X.mean(axis=0))[30:] ** 2).sum(axis=0)
    assert real.min() > 0.95
    assert min(found.columns.values()) > 0.95


def test_a_party_takes_its_columns_out_of_the_result_of_masked_sums_and_the_review_has_said_so(tmp_path):
    """The center cannot, and is reviewed at 0.3: most of what hides a small party are one other's columns."""
    given = tables(200, 40) | {"registry": tables(200, 140)["registry"], "weather": tables(200, 2)["weather"]}
    fit = {"kernel": "linear", "protect": "sums", "standardize": True, "n_components": 182}
    consortium = founded(tmp_path, fit, MEASURED, given)
    reviewed = consortium.at("airline", study.review)
    consortium.sign().finish()
    Z, S = given["registry"][1], consortium.embedding("registry")[1]
    Z, X = (Z - Z.mean(axis=0)) / Z.std(axis=0), given["airline"][1]
    rest = recovery.points(cdist(S, S, "sqeuclidean") - cdist(Z, Z, "sqeuclidean"))[:, :42]
    real = recovery.against([recovery.Seen(rest, Linear(), 0.0, 42)], X).worst
    assert real > 0.6
    assert max(reviewed.columns.values()) > real - 0.1


class TestASecondStudy:
    """Founded anew without one member, with one sample less, with another gamma: the table's folder remembers."""

    def second(
        self, tmp_path, fit, limits, names=NAMES, rows=120, width=25, same_keys=True, later=0, named="s", **plan
    ):
        """A study of the samples from number `later` on; those beyond the first table are others."""
        ids, given = [f"{named}{row + later}" for row in range(rows)], {}
        for number, name in enumerate(names):
            others = np.random.default_rng(number + 1).normal(size=(later, width))
            X = np.vstack([tables(width=width)[name][1], others])
            given[name] = (ids, X[later : later + rows])
        (tmp_path / "second").mkdir()
        about: dict[str, Any] = {"align": "position", "samples": 50} | plan
        again = Consortium(tmp_path / "second", given, fit, **about)
        for name in names[1:]:
            if same_keys:
                (again.root / name).mkdir()
                shutil.copy(tmp_path / name / "identity.key", again.root / name)
            again.join(name, **ANYTHING)
        own = again.root / "airline"
        own.symlink_to(tmp_path / "airline")  # the same folder: it belongs to the table
        (own / "party.toml").write_text((own / "party.toml").read_text().replace(str(tmp_path), str(again.root)))
        again.join("airline", **limits)
        return again

    def test_is_one_more_than_the_limits_allow(self, tmp_path):
        founded(tmp_path, CAREFUL, CAUTIOUS).sign("airline")
        again = self.second(tmp_path, CAREFUL | {"gamma": 0.021}, CAUTIOUS, rows=119)
        found = again.at("airline", study.review)
        assert [finding.limit for finding in found.findings if not finding.ok] == ["recovery", "studies"]

    def test_reviewed_before_the_first_was_signed_is_reviewed_again(self, tmp_path):
        first = founded(tmp_path, CAREFUL, CAUTIOUS)
        one = first.at("airline", study.review)
        again = self.second(tmp_path, CAREFUL | {"gamma": 0.021}, CAUTIOUS)
        other = again.at("airline", study.review)
        assert one.green
        assert other.green
        first.at("airline", study.sign, one.study.fingerprint[:40])
        with pytest.raises(InputError, match="since the review; review again"):
            again.at("airline", study.sign, other.study.fingerprint[:40])
        assert not (again.root / "shared/airline/signature-1").exists()

    @pytest.mark.parametrize("change", ["another gamma", "one sample less", "without one member"])
    def test_is_measured_together_with_the_first(self, change, tmp_path):
        """The careless twin joins with a folder that remembers nothing, and is told less than what could be done."""
        few = {"gamma": 0.02, "rank": 4, "n_components": 2, "standardize": True}
        names = NAMES[:2] if change == "without one member" else NAMES
        rows = 119 if change == "one sample less" else 120
        founded(tmp_path, few, MEASURED, tables(width=6)).sign("airline")
        other = few | {"gamma": 0.1} if change == "another gamma" else few | {"kernel": "laplacian", "gamma": 0.1}
        again = self.second(tmp_path, other, MEASURED, names, rows, width=6)
        both = again.at("airline", study.review).columns
        (tmp_path / "careless").mkdir()
        fresh = Consortium(tmp_path / "careless", again.tables, other, align="position", samples=50)
        alone = fresh.join(**MEASURED).at("airline", study.review).columns
        assert max(both[column] - alone[column] for column in alone) > 0.15
        assert all(both[column] > alone[column] - 0.1 for column in alone)

    @pytest.mark.parametrize(("protect", "width"), [("sums", 40), ("none", 70)])
    def test_under_other_weights_tells_the_columns_and_is_red(self, protect, width, tmp_path):
        """With a sample less, all deviations are others, and so are the weights. The careless twin forgets."""
        fit = {"kernel": "linear", "protect": protect, "n_components": 2, "standardize": True}
        fit |= {"rank": width, "precision": "float64"} if protect == "none" else {}
        given, matrices = tables(150, width), []
        less = {name: (ids[:-1], X[:-1]) for name, (ids, X) in given.items()}
        (tmp_path / "second").mkdir()
        second = Consortium(tmp_path / "second", less, fit, align="position", samples=50).join(**MEASURED)
        first = founded(tmp_path, fit, MEASURED, given)
        for each in (first, second):
            alone = max(each.at("airline", study.review).columns.values())
            each.sign().finish()
            sent = decode_model((each.root / "center/result/model.safetensors").read_bytes()).summaries
            A = np.asarray(sent["airline" if protect == "none" else min(sent)].factor.decode(), dtype=float)[:149]
            matrices.append((A - A.mean(axis=0)) @ (A - A.mean(axis=0)).T)
        # K_1 = X W_1 X' and K_2 = X W_2 X' have X in common: the generalized eigenvectors, without any known row.
        Q = np.linalg.svd(matrices[0])[0][:, : width if protect == "none" else 3 * width]
        one, two = (Q.T @ K @ Q for K in matrices)
        columns = Q @ one @ eigh(two, one)[1]
        real = [np.max(np.corrcoef(column, columns.T)[0, 1:] ** 2) for column in less["airline"][1].T]
        assert np.median(real) > 0.9
        assert alone < 0.9
        for path in (tmp_path / "airline/studies").iterdir():
            shutil.copytree(path, second.root / "airline/studies" / path.name)
        assert min(second.at("airline", study.review).columns.values()) > 0.99

    @pytest.mark.parametrize(
        "change", ["the first sample is gone", "a column more", "a column changed", "other units"]
    )
    def test_that_differs_by_a_sample_or_a_column_is_red(self, change, tmp_path, monkeypatch):
        """Rows match by position, and few of them are attacked. What two full messages differ by is told."""
        monkeypatch.setattr(recovery, "MOST_ROWS", 100)
        fit = {"kernel": "linear", "n_components": 2, "rank": 40, "precision": "float64"}
        given = tables(300, 40)
        then = {name: (ids, X.copy()) for name, (ids, X) in given.items()}
        if change == "the first sample is gone":
            fit |= {"standardize": True}
            then = {name: (ids[:-1], X[1:]) for name, (ids, X) in given.items()}
        elif change == "a column more":
            given = {name: (ids, X[:, :-1]) for name, (ids, X) in given.items()}
        elif change == "a column changed":
            then["airline"][1][:40, -1] = 0.123456789
        else:
            then["airline"][1][:] *= np.linspace(0.9, 1.1, 40)
        first = founded(tmp_path, fit | {"rank": given["airline"][1].shape[1]}, MEASURED, given)
        alone = first.at("airline", study.review).columns
        first.sign("airline")
        (tmp_path / "second").mkdir()
        second = founded(tmp_path / "second", fit, MEASURED, then)
        for path in (tmp_path / "airline/studies").iterdir():
            shutil.copytree(path, second.root / "airline/studies" / path.name)
        both = second.at("airline", study.review).columns
        assert max(alone.values()) < 0.99
        assert both["airline39"] > (0.85 if change == "the first sample is gone" else 0.999)

    @pytest.mark.parametrize("change", ["a sample less", "a column measured anew"])
    def test_of_two_blind_ones_the_results_tell_the_columns_and_it_is_red(self, change, tmp_path):
        """No rotation hides a result: two of them have the columns in common. Before: 0.4."""
        fit = BLIND | {"kernel": "linear", "n_components": 60, "rank": 20, "standardize": change == "a sample less"}
        given = tables(150, 20)
        then = {name: (ids[:110], X[:110].copy()) for name, (ids, X) in given.items()}
        if not fit["standardize"]:
            then = {name: (ids, X.copy()) for name, (ids, X) in given.items()}
            then["airline"][1][:75, 0] = np.random.default_rng(5).normal(size=75)
        results = []
        for number, each in enumerate((given, then)):
            (tmp_path / str(number)).mkdir()
            consortium = founded(tmp_path / str(number), fit, MEASURED, each).sign()
            consortium.finish()
            results.append(consortium.embedding("weather")[1][:110])
        for path in (tmp_path / "0/airline/studies").iterdir():
            shutil.copytree(path, consortium.root / "airline/studies" / path.name)
        found = consortium.at("airline", study.review)
        S1, S2 = (S - S.mean(axis=0) for S in results)
        X = then["airline"][1][:110]
        if fit["standardize"]:
            M = np.linalg.lstsq(S1, S2)[0]
            guess, sought = S1 @ np.linalg.eigh(M @ M.T)[1], X.T
        else:
            guess = np.linalg.eigh(S1 @ S1.T - S2 @ S2.T)[1][:, [0, -1]]
            sought = [X[:, 0] - given["airline"][1][:110, 0]]
        real = [np.max(np.corrcoef(column, guess.T)[0, 1:] ** 2) for column in sought]
        assert np.median(real) > 0.45
        assert min(found.columns.values()) > 0.9

    WIDE: Mapping[str, Any] = {"kernel": "linear", "n_components": 2, "rank": 89}

    def wide(self, tmp_path, change="", named="s"):
        """A study of more columns than samples, of which nobody else's are as many."""
        given = tables(90, 20) | {"airline": tables(90, 200)["airline"]}
        _, X = given["airline"]
        X[7, 3] += 5.0 * (change == "a number")
        X = X[:, :-1] if change == "a column less" else X
        (tmp_path / (change or "first")).mkdir()
        given["airline"] = ([f"{named}{row}" for row in range(90)], X)
        return founded(tmp_path / (change or "first"), self.WIDE, CAUTIOUS | {"studies": 2, "recovery": 0.8}, given)

    @pytest.mark.parametrize(("change", "named"), [("a number", "s"), ("a number", "t"), ("a column less", "s")])
    def test_of_a_wide_table_is_red_where_it_differs_a_little(self, change, named, tmp_path):
        first = self.wide(tmp_path)
        assert first.at("airline", study.review).green
        first.sign("airline")
        second = self.wide(tmp_path, change, named)
        for path in (first.root / "airline/studies").iterdir():
            shutil.copytree(path, second.root / "airline/studies" / path.name)
        found = second.at("airline", study.review)
        assert [each.limit for each in found.findings if not each.ok] == ["recovery"]
        assert set(found.columns.values()) == {1.0}

    def test_of_a_wide_table_tells_the_column_of_a_changed_number_where_folders_remember_nothing(self, tmp_path):
        """The careless twin: no row is known, and however many columns there are."""
        sent = []
        for change in ("", "a number"):
            each = self.wide(tmp_path, change).sign()
            each.finish()
            A = received(each, "airline", "summary", Summary).factor.decode()
            sent.append((A - A.mean(axis=0)) @ (A - A.mean(axis=0)).T)
        others = np.arange(90) != 7
        column = tables(90, 200)["airline"][1][others, 3]
        assert abs(np.corrcoef((sent[1] - sent[0])[7, others], column)[0, 1]) > 0.99

    def test_of_other_samples_is_measured_as_if_it_were_the_first(self, tmp_path):
        few = {"gamma": 0.02, "rank": 2, "n_components": 2, "standardize": True}
        founded(tmp_path, few, MEASURED).sign("airline")
        found = self.second(tmp_path, few, MEASURED, later=120).at("airline", study.review)
        assert not any(leaving.UNMEASURED in each.what for each in found.leaving)
        assert max(found.columns.values()) < 0.9

    def test_of_a_table_with_a_row_more_is_attacked_at_the_same_samples(self, tmp_path):
        """Rows drawn by the length of the table are others as soon as it grows, and then no union is measured."""
        few = {"gamma": 0.02, "rank": 2, "n_components": 2}
        first = Consortium(tmp_path, tables(n=900, width=4), few, align="position", samples=50).join(**MEASURED)
        keys = set(json.loads((self.reviewed(first) / f"reviewed-{ABOUT}").read_bytes())["keys"])
        (tmp_path / "grown").mkdir()
        grown = Consortium(tmp_path / "grown", tables(n=901, width=4), few, align="position", samples=50)
        again = set(json.loads((self.reviewed(grown.join(**MEASURED)) / f"reviewed-{ABOUT}").read_bytes())["keys"])
        assert len(keys) < 900
        assert len(keys & again) >= len(keys) - 1

    def reviewed(self, consortium):
        consortium.at("airline", study.review)
        return consortium.root / "airline" / "studies" / consortium.plan.id

    LINEAR: dict[str, Any] = BLIND | {"kernel": "linear"}
    ROOM: dict[str, Any] = CAUTIOUS | {"recovery": 0.97}

    @pytest.mark.parametrize("first", ["sums", "blind", "none"])
    def test_of_another_mode_is_measured_as_if_no_fit_were_blind(self, first, tmp_path):
        rank: dict[str, Any] = {"rank": 1} if first == "none" else {}
        modes = [
            self.LINEAR | {"protect": first} | rank,
            self.LINEAR | {"protect": "sums" * (first == "blind") or "blind"},
        ]
        one = founded(tmp_path, modes[0], self.ROOM)
        assert one.at("airline", study.review).green
        one.sign("airline")
        again = self.second(tmp_path, modes[1], self.ROOM | {"studies": 2})
        found = again.at("airline", study.review)
        assert [finding.limit for finding in found.findings if not finding.ok] == ["recovery"]
        assert min(found.columns.values()) > 0.9

    def test_with_masked_sums_undoes_a_blind_fit_of_folders_that_remember_nothing(self, tmp_path):
        """The careless twin: the joint matrix of one study has the eigenvectors of the rotated ones of the other."""
        opened = {}
        for protect in ("sums", "blind"):
            (tmp_path / protect).mkdir()
            each = founded(tmp_path / protect, self.LINEAR | {"protect": protect}, self.ROOM)
            assert each.at("airline", study.review).green
            each.sign().finish()
            opened[protect] = each
        (joined,) = decode_model((tmp_path / "sums/center/result/model.safetensors").read_bytes()).summaries.values()
        A = np.asarray(joined.factor.decode())
        vectors = np.linalg.eigh(A @ A.T)[1][:, ::-1]
        sent = {name: received(opened["blind"], name, "summary", Summary).factor.decode() for name in NAMES}
        X = tables()["airline"][1]
        Z, known = (X - X.mean(axis=0)) / X.std(axis=0), recovery.draws_of(len(X), 30, 0)
        found = []
        for rows in known:
            K = Z[rows] @ Z[rows].T
            F = without_rotation(sent["airline"], np.hstack([*sent.values()]), vectors, K, rows)
            found.append(by_numbers(F, X))
        assert min(found) > 0.9

    SUMS: Mapping[str, Any] = {"gamma": 0.01, "protect": "sums", "n_components": 2, "precision": "float64"}

    def four(self, tmp_path, **plan):
        given = tables(width=FEW, names=(*NAMES, "port"))
        return Consortium(tmp_path, given, self.SUMS, align="position", samples=50, **plan).join(**ANYTHING)

    @pytest.fixture(scope="class")
    @classmethod
    def batch_once(cls, tmp_path_factory):
        """A study of four after its fit, and tables of new samples that a second one begins with."""
        first = cls().four(tmp_path_factory.mktemp("batch"), batches=1, batch_samples=50).sign()
        first.finish()
        for name in first.names:
            header, *rows = (first.root / f"{name}.csv").read_text().splitlines()
            new = [f"s{120 + number},{row.partition(',')[2]}" for number, row in enumerate(rows[:60])]
            (first.root / name / "new").mkdir()
            (first.root / name / "new/1.csv").write_text("\n".join([header, *new]) + "\n")
        return first

    def test_with_another_roster_shares_no_new_sample_of_masked_sums(self, batch_once, tmp_path):
        first = batch_once.copy(tmp_path)
        before = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW, later=120)
        reviewed = before.at("airline", study.review)
        assert reviewed.green
        with contextlib.suppress(WaitingError):
            first.run("airline")
        with pytest.raises(InputError, match="since the review; review again"):
            before.at("airline", study.sign, reviewed.study.fingerprint[:40])
        found = before.at("airline", study.review)
        assert [each.limit for each in found.findings if not each.ok] == [reviews.SUMMED_OTHERWISE]

    def test_with_another_roster_leaves_its_samples_to_no_batch_of_the_first(self, batch_once, tmp_path):
        first = batch_once.copy(tmp_path)
        self.second(tmp_path, self.SUMS, ANYTHING, width=FEW, later=120).sign("airline")
        with pytest.raises(InputError, match="batch-1: some of its samples were in another study"):
            first.run("airline")
        assert not list((tmp_path / "shared").glob("airline/batch-1*"))

    def test_with_another_roster_of_masked_sums_is_red(self, tmp_path):
        self.four(tmp_path).sign("airline")
        again = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW, rows=119)
        found = again.at("airline", study.review)
        assert [f.limit for f in found.findings if not f.ok] == [reviews.SUMMED_OTHERWISE]
        assert f"RED   {reviews.SUMMED_OTHERWISE}: 1 (must be 0)" in found.words()
        with pytest.raises(InputError, match="the last review was red"):
            again.at("airline", study.sign, found.study.fingerprint[:40])

    @pytest.mark.parametrize("line", ['exclude = ["airline0"]', 'id_normalize = ["zeros"]'])
    def test_of_masked_sums_with_a_column_less_or_ids_read_in_another_way_is_red(self, line, tmp_path):
        first = self.four(tmp_path) if "zeros" in line else founded(tmp_path, self.SUMS, ANYTHING, tables(width=FEW))
        first.sign("airline")
        with (tmp_path / "airline/party.toml").open("a") as file:
            file.write(f"{line}\n")
        found = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW).at("airline", study.review)
        red = [finding.limit for finding in found.findings if not finding.ok]
        assert red == [reviews.SUMMED_OTHERWISE]

    def test_of_0_2_0_counts_as_one_of_the_same_samples_that_told_all(self, tmp_path):
        self.four(tmp_path).sign("airline")
        (path,) = (tmp_path / "airline/studies").glob("*/left.json")
        about = json.loads(path.read_text())
        path.write_text(
            json.dumps({name: about[name] for name in ("protect", "keys", "columns")} | {"parties": NAMES})
        )
        found = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW, later=120).at("airline", study.review)
        assert [each.limit for each in found.findings if not each.ok] == [reviews.SUMMED_OTHERWISE]
        assert set(found.columns.values()) == {1.0}

    @pytest.mark.parametrize("who", ["the same", "others"])
    def test_of_the_same_names_is_another_roster_where_the_keys_are_others(self, who, tmp_path):
        founded(tmp_path, self.SUMS, ANYTHING, tables(width=FEW)).sign("airline")
        again = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW, same_keys=who != "others")
        found = again.at("airline", study.review)
        red = [] if who == "the same" else [reviews.SUMMED_OTHERWISE]
        assert [finding.limit for finding in found.findings if not finding.ok] == red

    @pytest.mark.parametrize(
        ("later", "masked"), [(70, 1), (118, 1), (119, 1), (120, 0)], ids=lambda value: f"{value}"
    )
    def test_with_another_roster_shares_no_sample_of_masked_sums(self, later, masked, tmp_path, monkeypatch):
        """A table that moves on by a few rows: each pair of samples in both sums gives one member's distance away."""
        monkeypatch.setattr(recovery, "MOST_ROWS", 60)  # of which neither review may have attacked a shared one
        self.four(tmp_path).sign("airline")
        found = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW, later=later).at("airline", study.review)
        (asked,) = [each for each in found.findings if each.limit.startswith("masked sums")]
        assert (asked.asked, asked.ok) == (masked, not masked)

    @pytest.mark.parametrize("how", ["other ids", "other ids, two rows alike", "by position"])
    def test_of_masked_sums_is_red_where_the_same_rows_have_other_ids_or_none(self, how, tmp_path):
        self.four(tmp_path).sign("airline")
        if how == "other ids, two rows alike":
            (path,) = (tmp_path / "airline/studies").glob(f"*/{ABOUT}")
            about = json.loads(path.read_bytes())
            first, other, *_ = about["numbers"]
            about["numbers"][first] = about["numbers"][other]  # as of a table in which two rows are alike
            path.write_text(json.dumps(about))
        again = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW, named="t")
        if how == "by position":
            path = tmp_path / "airline/party.toml"
            path.write_text(path.read_text().replace('id = "id"', 'exclude = ["id"]'))
        found = again.at("airline", study.review)
        assert [each.limit for each in found.findings if not each.ok] == [reviews.SUMMED_OTHERWISE]

    def test_of_masked_sums_is_red_where_one_number_has_changed(self, tmp_path):
        founded(tmp_path, self.SUMS, ANYTHING, tables(width=FEW)).sign("airline")
        again = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW)
        self.corrected(again)
        found = again.at("airline", study.review)
        assert [each.limit for each in found.findings if not each.ok] == [reviews.SUMMED_OTHERWISE]

    @pytest.mark.parametrize("alike", ["new ids", "ids that differ in case"])
    def test_of_masked_sums_is_red_where_one_number_has_changed_under(self, alike, tmp_path):
        given, named = tables(width=FEW), "s" if alike != "new ids" else "t"
        ids = ["k1", "K1", *(f"s{row}" for row in range(2, 120))] if named == "s" else given["airline"][0]
        founded(tmp_path, self.SUMS, ANYTHING, {name: (ids, X) for name, (_, X) in given.items()}).sign("airline")
        again = self.second(tmp_path, self.SUMS, ANYTHING, width=FEW, named=named)
        path = again.root / "airline.csv"
        if named == "s":
            path.write_text(path.read_text().replace("s0,", "k1,").replace("s1,", "K1,"))
        self.corrected(again, row=0 if named == "s" else 8)
        found = again.at("airline", study.review)
        assert [each.limit for each in found.findings if not each.ok] == [reviews.SUMMED_OTHERWISE]

    def test_with_another_roster_is_red_where_all_rows_are_alike_and_have_new_ids(self, tmp_path):
        random = np.random.default_rng(3)
        given = {
            name: (ids, random.integers(0, 2, (120, 3)) * 1.0)
            for name, (ids, _) in tables(names=(*NAMES, "port")).items()
        }
        plan: dict[str, Any] = {"align": "position", "samples": 50}
        Consortium(tmp_path, given, self.SUMS, **plan).join(**ANYTHING).sign("airline")
        again = self.second(tmp_path, self.SUMS, ANYTHING, width=3, named="t")
        lines = [f"t{row},{','.join(map(repr, x))}" for row, x in enumerate(given["airline"][1].tolist())]
        header = (again.root / "airline.csv").read_text().partition("\n")[0]
        (again.root / "airline.csv").write_text("\n".join([header, *lines]) + "\n")
        found = again.at("airline", study.review)
        assert [each.limit for each in found.findings if not each.ok] == [reviews.SUMMED_OTHERWISE]

    def test_with_folders_that_remember_nothing_tells_the_column_of_a_changed_number(self, tmp_path):
        """The careless twin: distances from one sample differ by that number's column, but for a line."""
        first = founded(tmp_path, self.SUMS, ANYTHING, tables(width=FEW)).sign()
        (tmp_path / "second").mkdir()
        again = founded(tmp_path / "second", self.SUMS, ANYTHING, tables(width=FEW))
        self.corrected(again)
        found = np.log(kernel_of(again.sign()) / kernel_of(first))[8] / -0.01
        others = np.arange(120) != 8
        assert abs(np.corrcoef(found[others], tables(width=FEW)["airline"][1][others, 4])[0, 1]) > 0.999

    def corrected(self, consortium, row=8):
        path = consortium.root / "airline.csv"
        lines = path.read_text().splitlines()
        cells = lines[row + 1].split(",")
        cells[5] = "0.1234567"
        lines[row + 1] = ",".join(cells)
        path.write_text("\n".join(lines) + "\n")

    @pytest.mark.parametrize("parties", [3, 4])
    @pytest.mark.parametrize("modes", [("sums", "none"), ("none", "sums"), ("none", "none")], ids=" then ".join)
    def test_in_the_open_beside_masked_sums_is_red(self, modes, parties, tmp_path):
        """What the others send openly, taken off the sum, is one party's, whatever little that party sends."""
        first, then = ({**self.SUMS, "protect": mode} for mode in modes)
        given = tables(width=FEW, names=(*NAMES, "port")[:parties])
        Consortium(tmp_path, given, first, align="position", samples=50).join(**ANYTHING).sign("airline")
        found = self.second(tmp_path, then, ANYTHING, width=FEW).at("airline", study.review)
        masked = [each for each in found.findings if each.limit.startswith("masked sums")]
        assert [each.ok for each in masked] == [modes == ("none", "none")]

    def test_in_the_open_with_folders_that_remember_nothing_tells_what_one_party_kept(self, tmp_path):
        """The careless twin: airline sends one eigenpair in the open, and its distances come out all the same."""
        sums = founded(tmp_path, self.SUMS, ANYTHING, tables(width=FEW)).sign()
        total = np.log(kernel_of(sums)) / -0.01
        open_fit = {"gamma": 0.01, "n_components": 2, "precision": "float64"}
        (tmp_path / "second").mkdir()
        again = Consortium(tmp_path / "second", tables(width=FEW), open_fit | {"rank": 119}, align="position")
        again.join(*NAMES[1:], **ANYTHING).join("airline", **ANYTHING).sign().finish()
        for name in NAMES[1:]:
            A = received(again, name, "summary", Summary).factor.decode()
            total = total - np.log(A @ A.T) / -0.01
        X = tables(width=FEW)["airline"][1]
        assert np.corrcoef(total.ravel(), cdist(X, X, "sqeuclidean").ravel())[0, 1] > 0.99

    def test_with_folders_that_remember_nothing_tells_what_one_member_added(self, tmp_path):
        """The careless twin: another DIR for the last rows. Two sums differ by one member's distances."""
        first = self.four(tmp_path).sign()
        (tmp_path / "second").mkdir()
        given = {name: (ids[70:], X[70:]) for name, (ids, X) in first.tables.items() if name != "port"}
        again = (
            Consortium(tmp_path / "second", given, self.SUMS, align="position", samples=50).join(**ANYTHING).sign()
        )
        found = np.log(kernel_of(again) / kernel_of(first)[70:, 70:]) / 0.01
        X = first.tables["port"][1][70:]
        true = ((X[:, None] - X[None]) ** 2).sum(axis=2)
        assert np.corrcoef(found.ravel(), true.ravel())[0, 1] > 0.99


OPEN = {"gamma": "scale", "n_components": 2}


def honest(center):
    """What the center derived; its file is removed, so that another can be told."""
    path = center.memory.path / "sent" / "go"
    told: Any = q.decode(center.receive("center", "go", "all", at_most=10**6, kind="question").read_bytes())
    path.unlink()
    return told.derived


def tell(center, tmp_path, derived_by_party):
    """Tell each party derived values of one's own choice."""
    (tmp_path / "shared/center/go").unlink()
    parts = [Part(name, (name,), [q.encode(q.GoWanted(derived))]) for name, derived in derived_by_party.items()]
    replace(center).send("go", parts, kind="question")  # a new command, which looks at the folder again


def run_thrice(consortium):
    for _ in range(3):
        for name in NAMES:
            with contextlib.suppress(WaitingError):
                consortium.run(name)


@pytest.fixture(scope="module")
def told_once(tmp_path_factory):
    consortium = founded(tmp_path_factory.mktemp("told"), OPEN, ANYTHING, tables(60, 4)).sign()
    for name in (*NAMES, *NAMES, "center"):
        with contextlib.suppress(WaitingError):
            consortium.run(name)
    return consortium


@pytest.fixture
def before_go(told_once, tmp_path):
    """Parties that have not seen the derived values yet: the center wrote them after their last command."""
    consortium = told_once.copy(tmp_path)
    center = consortium.at("center", founding.seat)
    return consortium, center


def test_different_derived_values_for_different_parties_are_noticed(before_go, tmp_path):
    consortium, center = before_go
    derived = honest(center)
    width = derived.kernels["airline"].gamma
    other = replace(derived, kernels={name: RBF(width / 2) for name in NAMES})
    tell(center, tmp_path, {"airline": derived, "registry": derived, "weather": other})
    with pytest.raises(RefusedError, match="told different values"):
        run_thrice(consortium)
    assert not list((tmp_path / "shared").glob("*/summary"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda d: replace(d, kernels=dict.fromkeys(NAMES, RBF(50.0))), "width of the kernel is outside"),
        (lambda d: replace(d, kernels=d.kernels | {"weather": RBF(1e-3)}), "width of the kernel is outside"),
        (lambda d: replace(d, n_samples=59), "not in the plan"),
        (lambda d: replace(d, columns=d.columns | {"weather": 1}), "not in the plan"),
        (lambda d: replace(d, samples="ab" * 32), "not in the plan"),
    ],
)
def test_derived_values_that_do_not_follow_from_the_plan_are_refused(change, reason, before_go, tmp_path):
    consortium, center = before_go
    derived = change(honest(center))
    tell(center, tmp_path, dict.fromkeys(NAMES, derived))
    with pytest.raises(RefusedError, match=f"airline refused at step 'go': .*{reason}"):
        consortium.run("airline")
    with pytest.raises(RefusedError, match="airline refused"):
        consortium.run("weather")
    assert not list((tmp_path / "shared").glob("*/summary"))


def test_where_nobody_doubts_derived_values_the_center_singles_one_party_out(tmp_path, monkeypatch):
    """The careless twin: the others are told a width that makes them constant, and take it."""
    alone = {name: RBF(0.02 if name == "airline" else 1e-12).alone() for name in NAMES}
    monkeypatch.setattr(PartySide, "_check_derived", lambda *told: None)
    told, given = {}, tables()
    for false in (False, True):
        (tmp_path / f"{false}").mkdir()
        consortium = founded(tmp_path / f"{false}", BLIND | {"n_components": 20}, ANYTHING, given).sign()
        if false:
            monkeypatch.setattr(protocols, "kernels_of", lambda *asked: alone)
        consortium.finish()
        told[false] = by_result(consortium, given["airline"][1])
    assert told[True] > CAUTIOUS["recovery"]
    assert told[True] > told[False] + 0.1


LACKING = {"kernel": "linear", "lacking": "mean", "n_components": 2, "standardize": True}


def tell_of_samples(monkeypatch, change):
    """A center that tells other samples than those it found, and is not disturbed by answers that do not fit."""
    found: Any = protocols._matched
    received = replay.received

    def matched(*lists):
        return {n: replace(told, **change(j, told)) for j, (n, told) in enumerate(found(*lists).items())}

    def alike(member, step, *about):
        answers = received(member, step, *about)
        if step != "shape":
            return answers
        first = next(iter(answers.values()))
        alike = {"n_samples": max(first.n_samples, 60), "samples": first.samples}
        return {n: replace(each, **alike) for n, each in answers.items()}

    monkeypatch.setattr(protocols, "_matched", matched)
    monkeypatch.setattr(replay, "received", alike)


def one_in_common(party, told):
    """Places among which the second party meets the first one in its seventh sample only, and the third in none."""
    places = np.arange(told.length) + party * told.length
    places[7] = 7 if party == 1 else places[7]
    return {"places": q.packed_numbers(places), "n_samples": 3 * told.length}


@pytest.mark.parametrize("align", ["tokens", "psi"])
def test_places_of_common_samples_on_which_parties_differ_are_noticed(align, tmp_path, monkeypatch):
    consortium = founded(tmp_path, LACKING, ANYTHING, tables(60, 5), align=align).sign()
    tell_of_samples(monkeypatch, one_in_common)
    with pytest.raises(RefusedError, match="registry refused at step 'go': .*not in the plan"):
        consortium.finish()
    assert not list((tmp_path / "shared").glob("*/summary"))


@pytest.mark.parametrize("positions", [[0] * 50, [10**6] * 50])
def test_common_samples_are_entries_of_the_list_each_once(positions, tmp_path, monkeypatch):
    consortium = founded(tmp_path, LACKING, ANYTHING, tables(60, 5), align="tokens").sign()
    tell_of_samples(monkeypatch, lambda *told: {"common": q.packed_numbers(positions)})
    with pytest.raises(RefusedError, match="airline refused at step 'matched': the lists of sample ids"):
        consortium.finish()
    assert not list((tmp_path / "shared").glob("*/shape"))


@pytest.mark.parametrize("limits", [CAUTIOUS | {"recovery": 1.0}, ANYTHING])
def test_two_common_samples_do_not_give_their_distance_away(limits, tmp_path, monkeypatch):
    """Parties answer with a mean distance before `go`. The careless twin checks neither limits nor samples."""
    two = {"common": q.packed_numbers([0, 1]), "n_samples": 2}
    consortium = founded(tmp_path, OPEN | {"rank": 1}, limits, tables(60, 5), align="tokens")
    assert "mean distance between your samples" in "\n".join(consortium.at("airline", study.review).words())
    consortium.sign()
    tell_of_samples(monkeypatch, lambda *told: two)
    if limits is ANYTHING:
        monkeypatch.setattr(PartySide, "_check_samples", lambda *told: None)
        monkeypatch.setattr(protocols, "_same", lambda names, terms, shape: protocols.Ask("samples", {}))
        for name in (*NAMES, "center") * 3:
            with contextlib.suppress(WaitingError, RefusedError):
                consortium.run(name)
        X = consortium.tables["airline"][1]
        told = received(consortium, "airline", "statistics", Statistics).mean_squared_distance
        assert np.isclose(((X[:, None] - X[None]) ** 2).sum(axis=2), told, rtol=1e-9).sum() == 2  # one pair
        return
    with pytest.raises(RefusedError, match="airline refused at step 'shape': too few samples"):
        consortium.finish()
    assert not list((tmp_path / "shared").glob("*/statistics"))


def test_another_question_in_the_place_of_one_is_refused(before_go, tmp_path):
    consortium, center = before_go
    honest(center)
    (tmp_path / "shared/center/go").unlink()
    greedy = q.encode(q.RowsWanted("batch-1"))
    replace(center).send("go", [Part("all", NAMES, [greedy])], kind="question")
    with pytest.raises(RefusedError, match="not in the plan"):
        consortium.run("airline")


@pytest.mark.parametrize("bounds", [{}, {"airline": 1.0}, dict.fromkeys((*NAMES, "nobody"), 1.0)])
@pytest.mark.parametrize("which", ["bounds", "length_bounds"])
def test_bounds_of_a_sum_are_those_of_all_parties(bounds, which):
    shape, what = q.Derived(10, "00" * 32, dict.fromkeys(NAMES, 2), {}), of_fit(Linear(), 10, 5, "float64")
    steps = protocols._added(Fit(kernel="linear", protect="sums"), Terms("run"), Linear(), what, shape)
    first, second = next(steps), steps.send({})
    about = {each.name: getattr(first.one, each.name) for each in fields(first.one)} | {"step": "sums-1"}
    told = q.SumsWanted(**about, bounds=dict.fromkeys(NAMES, 1.0), length_bounds=dict.fromkeys(NAMES, 1.0))
    assert second.expects(told)
    assert not second.expects(replace(told, **{which: bounds}))


@pytest.mark.parametrize("field", ["common", "places"])
def test_positions_that_are_no_whole_numbers_are_no_message(field):
    given: dict[str, Any] = {"common": q.packed_numbers([0, 1]), field: np.zeros(5, dtype=np.uint8)}
    with pytest.raises(WireError, match=f"{field} is not a row of whole numbers of 4 bytes"):
        q.decode(q.encode(q.MatchedGiven(length=2, n_samples=2, **given)))


@pytest.mark.parametrize("size", [400_000, 200_000])
def test_a_result_larger_than_the_plan_and_the_samples_allow_is_not_read(size, before_go, tmp_path, monkeypatch):
    """60 samples and 2 components are 960 bytes. The careless twin reads whatever the center declares."""
    consortium, center = before_go
    consortium.finish()
    for path in ("shared/center/result", f"center/studies/{consortium.plan.id}/sent/result"):
        (tmp_path / path).unlink()
    for name in NAMES:
        (opened,) = (tmp_path / name).glob("studies/*/opened/center.result.*")
        opened.unlink()
    replace(center).send("result", [Part("all", NAMES, [b"x" * size])], kind="question")
    if size < q.HEADER:
        words = "airline refused at step 'result': .*the center's result cannot be read"
    else:
        words = r"center/result: declares 400000 bytes; 26\d\d\d\d are the most for this step"
    with pytest.raises((ProtectionError, RefusedError), match=words):
        consortium.run("airline")
    monkeypatch.setattr(PartySide, "_most_told", lambda *asked: 2**31)
    with pytest.raises(RefusedError, match="airline refused at step 'result': .*the center's result cannot be read"):
        consortium.run("airline")
    with pytest.raises(RefusedError, match="airline refused at step 'result'"):  # nobody waits for ever
        consortium.run("center")


@pytest.mark.parametrize("rows", [1, 59, 61])
def test_a_result_of_another_number_of_samples_is_refused(rows, before_go, monkeypatch):
    consortium, _ = before_go
    told, scores = protocols.published, Rounded(np.zeros((rows, 2)))
    monkeypatch.setattr(protocols, "published", lambda *about, **kw: replace(told(*about, **kw), scores=scores))
    with pytest.raises(RefusedError, match="'result': .*not in the plan"):
        consortium.finish()


def test_a_result_too_large_to_be_squared_is_refused(before_go, tmp_path, monkeypatch):
    consortium, _ = before_go
    told, scores = protocols.published, Rounded(np.full((60, 2), 1e308))
    monkeypatch.setattr(protocols, "published", lambda *about, **kw: replace(told(*about, **kw), scores=scores))
    with pytest.raises(RefusedError, match="'result': .*not in the plan"):
        consortium.finish()
    assert not list(tmp_path.glob("airline/result/*"))


def category_tables(n=60):
    """One party of categories, two of numbers: under a kernel of categories these are constant."""
    given = tables(n, 4)
    return given | {"airline": (given["airline"][0], np.floor(2.0 * given["airline"][1]))}


OVERLAP = {"kernel": "overlap", "gamma": 0.5, "protect": "sums", "n_components": 2, "precision": "float64"}


def test_a_kernel_that_is_constant_for_the_others_singles_nobody_out_of_a_sum(tmp_path):
    consortium = founded(tmp_path, OVERLAP, ANYTHING, category_tables()).sign()
    with pytest.raises(RefusedError, match="share of the answer would be nearly constant"):
        consortium.finish()
    assert not list((tmp_path / "shared").glob("*/sums-1"))


def test_where_nobody_minds_constant_addends_the_sum_is_one_partys_distances(tmp_path, monkeypatch):
    """The careless twin: parties that add whatever they are asked for."""
    monkeypatch.setattr(answers, "_check_addend", lambda *arguments: None)
    consortium = founded(tmp_path, OVERLAP, ANYTHING, category_tables()).sign()
    consortium.finish()
    (joined,) = decode_model((tmp_path / "center/result/model.safetensors").read_bytes()).summaries.values()
    K, X = joined.factor.decode() @ joined.factor.decode().T, consortium.tables["airline"][1]
    differ = (X[:, None] != X[None]).sum(axis=2)
    found = -np.log(np.maximum(K, 1e-300))
    apart = ~np.eye(len(X), dtype=bool)
    assert np.corrcoef(found[apart], differ[apart])[0, 1] > 0.999


def test_a_blind_plan_on_categories_is_measured_by_who_has_which(tmp_path):
    """One component tells half of the samples from the others; the mean code of both is the same."""
    codes = np.repeat([0.0, 0.0, 1.0, -1.0], 30)[:, None]
    given = tables() | {"airline": (tables()["airline"][0], codes)}
    kernels = {"airline": "overlap"} | dict.fromkeys(NAMES[1:], "rbf")
    fit = {"kernel": kernels, "gamma": {"airline": 5.0} | dict.fromkeys(NAMES[1:], 1e-3), "law": "sum"}
    consortium = founded(tmp_path, fit | {"protect": "blind", "n_components": 1}, CAUTIOUS, given)
    found = consortium.at("airline", study.review)
    assert not found.green
    assert found.columns["airline0"] > 0.55
    (scores,) = [each.seen for each in found.leaving if each.what == "1 component"]
    assert abs(np.corrcoef(scores.factor[:, 0], codes[:, 0])[0, 1]) < 0.3  # what codes as numbers would say


@pytest.fixture(scope="module")
def received_once(tmp_path_factory):
    root = tmp_path_factory.mktemp("received")
    fit = {"gamma": 0.02, "rank": 3, "n_components": 2, "audit": 5}
    consortium = founded(root, fit, ANYTHING, tables(60, 4)).sign()
    for name in (*NAMES, "center") * 3:
        if not (root / "shared/center/received").exists():
            with contextlib.suppress(WaitingError):
                consortium.run(name)
    return consortium


class TestRowsOfAnAudit:
    @pytest.fixture
    def consortium(self, received_once, tmp_path):
        return received_once.copy(tmp_path)

    def test_are_drawn_by_every_party_itself(self, consortium, tmp_path):
        consortium.finish()
        assert not (tmp_path / "shared/center/audit").exists()  # the center has nothing to ask for

    def test_are_not_those_of_a_center_that_grinds_its_partners_nonce(self, consortium, tmp_path):
        """A party that helps the center reveals, after it has seen the others', a nonce that gives chosen rows."""
        for name in NAMES[1:]:
            with contextlib.suppress(WaitingError):
                consortium.run(name)
        airline = consortium.at("airline", founding.seat)
        asked = airline.receive("center", "received", "all", "airline", at_most=10**6, kind="question").read_bytes()
        ground = Secrets(airline.memory.secrets().identity, b"ground" * 6).derive("nonce", "second")
        reveal = wire.pieces(Reveal("airline", ground.hex()))
        airline.send("received", [Part("all", (), reveal)], question=q.digest(q.decode(asked)))
        for name in ("registry", "weather"):
            with pytest.raises(
                RefusedError, match=f"{name} .*airline: revealed a nonce that it had not committed to"
            ):
                consortium.run(name)
        with pytest.raises(RefusedError, match="registry refused at step 'received'"):  # nobody waits for ever
            consortium.run("center")
        for refusal in (tmp_path / "shared").glob("*/refusal"):
            refusal.unlink()
        for opened in tmp_path.glob("center/studies/*/opened/*.refusal.*"):
            opened.unlink()
        with pytest.raises(RefusedError, match="center .*airline: revealed a nonce that it had not committed to"):
            consortium.run("center")
        assert not list((tmp_path / "shared").glob("*/audit"))

    def test_are_those_of_a_ground_nonce_where_nobody_checks_it(self, consortium, tmp_path, monkeypatch):
        """The careless twin: rows of two samples of the center's choice, among five of sixty."""
        monkeypatch.setattr(Membership, "check_nonce", lambda self, writer, nonce: bytes.fromhex(nonce))
        for name in NAMES[1:]:
            with contextlib.suppress(WaitingError):
                consortium.run(name)
        airline = consortium.at("airline", founding.seat)
        asked = airline.receive("center", "received", "all", "airline", at_most=10**6, kind="question").read_bytes()
        kept = [consortium.memory(name).study(consortium.plan.id) for name in NAMES[1:]]
        others = [each.secrets().derive("nonce", "second") for each in kept]
        samples = received(consortium, "airline", "summary", Summary).sample_digest
        tries = (number.to_bytes(32, "big") for number in range(10**5))
        for nonce in tries:
            seed = int.from_bytes(hashlib.sha256(b"".join([nonce, *others])).digest()[:6], "big")
            drawn = uniform_request(60, samples, 5, seed).samples
            if {7, 8} <= set(drawn):
                break
        airline.send(
            "received",
            [Part("all", (), wire.pieces(Reveal("airline", nonce.hex())))],
            question=q.digest(q.decode(asked)),
        )
        for name in (*NAMES[1:], "center"):
            with contextlib.suppress(WaitingError):
                consortium.run(name)
        assert {7, 8} <= set(received(consortium, "registry", "audit", AuditRows).samples)

    def test_are_not_known_before_all_summaries_are_in(self, consortium, tmp_path):
        center = consortium.at("center", founding.seat)
        (tmp_path / "shared/center/received").unlink()
        (center.memory.path / "sent/received").unlink()
        early = q.ReceivedGiven(dict.fromkeys(NAMES, "ab" * 32))  # not the summary that the party sent
        replace(center).send("received", [Part("all", NAMES, [q.encode(early)])], kind="question")
        with pytest.raises(RefusedError, match="airline refused at step 'received'"):
            consortium.run("airline")
        assert not list((tmp_path / "shared").glob("airline/received"))
