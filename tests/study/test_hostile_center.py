"""A center that attacks with its own valid keys: by the plan it writes, and by what it tells during the study.

Each attack has a careless twin: a party whose limits allow everything, on whose table the attack succeeds.
"""

import contextlib
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from dkpca.errors import InputError, ProtectionError
from dkpca.exchange import founding, study
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.exchange.sealed import Part
from dkpca.kernels import RBF
from dkpca.party import questions as q
from dkpca.party.limits import Limits
from testkit.studies import ANYTHING, Consortium

CAUTIOUS = vars(Limits())
NAMES = ("airline", "registry", "weather")


def tables(n=120, width=25):
    """Wide tables of independent columns, so that a careful plan is green."""
    random = np.random.default_rng(0)
    return {name: ([f"s{row}" for row in range(n)], random.normal(size=(n, width))) for name in NAMES}


BLIND = {"protect": "blind", "law": "sum", "n_components": 2, "standardize": True}
CAREFUL = BLIND | {"gamma": 0.02}
PLANS = {
    "chosen audit rows": ({"gamma": 0.02, "rank": 1, "n_components": 1, "audit": 30}, {}, "audit_rows"),
    "batches as questions": (CAREFUL, {"batches": 3, "batch_samples": 2}, "batches"),
    "kernels too narrow for the others": (
        BLIND | {"n_components": 25, "gamma": {"airline": 0.02, "registry": 1e4, "weather": 1e4}},
        {},
        "recovery",
    ),
    "kernels constant for the others": (
        BLIND | {"n_components": 25, "gamma": {"airline": 0.02, "registry": 1e-12, "weather": 1e-12}},
        {},
        "recovery",
    ),
    "as many components as the rank": (CAREFUL | {"n_components": 100}, {}, "recovery"),
    "everything in the open": ({"gamma": 0.02, "n_components": 30}, {}, "recovery"),
    "a joint matrix of few columns": ({"gamma": 0.02, "protect": "sums", "n_components": 2}, {}, "recovery"),
    "few samples": (CAREFUL, {"samples": 5}, "samples"),
    "finest numbers": ({"gamma": 0.02, "rank": 1, "n_components": 1, "precision": "float64"}, {}, "precision"),
}


def founded(tmp_path, fit, limits, given=None, **plan):
    about: dict[str, Any] = {"align": "position", "samples": 50} | plan
    return Consortium(tmp_path, given or tables(), fit, **about).join(**limits)


@pytest.mark.parametrize("attack", PLANS)
def test_a_plan_that_attacks_is_red_and_is_not_signed(attack, tmp_path):
    fit, plan, limit = PLANS[attack]
    consortium = founded(tmp_path, fit, CAUTIOUS, **plan)
    found = consortium.at("airline", study.review)
    assert limit in [finding.limit for finding in found.findings if not finding.ok]
    with pytest.raises(InputError, match="beyond limits.toml"):
        consortium.at("airline", study.sign, found.study.fingerprint[:40])
    assert not (tmp_path / "shared/airline/signature-1").exists()


def test_a_careful_plan_is_green(tmp_path):
    consortium = founded(tmp_path, CAREFUL, CAUTIOUS)
    found = consortium.at("airline", study.review)
    assert found.green, found.words()
    consortium.at("airline", study.sign, found.study.fingerprint[:40])


@pytest.mark.parametrize("attack", ["kernels too narrow for the others", "as many components as the rank"])
def test_a_careless_party_signs_and_loses_its_columns(attack, tmp_path):
    fit, plan, _ = PLANS[attack]
    consortium = founded(tmp_path, fit, ANYTHING, **plan)
    found = consortium.at("airline", study.review)
    assert max(found.columns.values()) > 0.5
    consortium.at("airline", study.sign, found.study.fingerprint[:40])


def test_batches_of_one_sample_are_no_plan_at_all(tmp_path):
    with pytest.raises(InputError, match="single it out"):
        founded(tmp_path, CAREFUL, CAUTIOUS, batches=1, batch_samples=1)


def test_red_names_the_nearest_plan_that_is_green(tmp_path):
    fit = {"gamma": 0.02, "n_components": 30, "law": "sum", "standardize": True}
    found = founded(tmp_path, fit, CAUTIOUS).at("airline", study.review)
    assert not found.green
    assert found.nearest
    assert "RED" in "\n".join(found.words())


def test_the_plan_swapped_between_review_and_sign_is_not_signed(tmp_path):
    consortium = founded(tmp_path, CAREFUL, ANYTHING)
    reviewed = consortium.at("airline", study.review).study.fingerprint[:40]
    path = tmp_path / "shared/center/plan-1.toml"
    path.write_bytes(path.read_bytes().replace(b"n_components = 2", b"n_components = 90"))
    other = consortium.at("weather", study.review).study.fingerprint[:40]
    with pytest.raises(ProtectionError, match="fingerprint is not that of the study that was reviewed"):
        consortium.at("airline", study.sign, other)
    consortium.at("airline", study.sign, reviewed)  # what was shown is what is signed
    consortium.sign("weather", "registry", "center")
    with pytest.raises(ProtectionError, match="another plan or other members"):
        consortium.run("weather")


def test_a_table_changed_between_review_and_sign_is_not_signed(tmp_path):
    consortium = founded(tmp_path, CAREFUL, ANYTHING)
    fingerprint = consortium.at("airline", study.review).study.fingerprint[:40]
    path = tmp_path / "airline.csv"
    path.write_text(path.read_text().replace("s7,", "s700,"))
    with pytest.raises(InputError, match="changed since the review"):
        consortium.at("airline", study.sign, fingerprint)


def test_raising_the_limits_after_a_red_review_needs_another_review(tmp_path):
    consortium = founded(tmp_path, PLANS["everything in the open"][0], CAUTIOUS)
    fingerprint = consortium.at("airline", study.review).study.fingerprint[:40]
    (tmp_path / "airline/limits.toml").write_text(Limits(**ANYTHING).to_toml())
    with pytest.raises(InputError, match="beyond limits.toml"):
        consortium.at("airline", study.sign, fingerprint)


class TestASecondStudy:
    """Founded anew without one member, with one sample less, with another gamma: the table's folder remembers."""

    def second(self, tmp_path, fit, limits, names=NAMES, rows=120, **plan):
        given = {name: (ids[:rows], X[:rows]) for name, (ids, X) in tables().items() if name in names}
        (tmp_path / "second").mkdir()
        about: dict[str, Any] = {"align": "position", "samples": 50} | plan
        again = Consortium(tmp_path / "second", given, fit, **about)
        for name in names[1:]:
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
        assert [finding.limit for finding in found.findings if not finding.ok] == ["studies"]

    def test_is_measured_together_with_the_first(self, tmp_path):
        few = {"gamma": 0.02, "rank": 4, "n_components": 2}
        first = founded(tmp_path, few, ANYTHING)
        alone = max(first.at("airline", study.review).columns.values())
        first.sign("airline")
        again = self.second(tmp_path, few | {"gamma": 2.0}, ANYTHING)
        both = max(again.at("airline", study.review).columns.values())
        assert both >= alone

    def test_with_another_roster_of_masked_sums_is_red(self, tmp_path):
        sums = {"gamma": 0.02, "protect": "sums", "n_components": 2}
        given = tables() | {"port": tables()["weather"]}
        consortium = Consortium(tmp_path, given, sums, align="position", samples=50).join(**ANYTHING)
        consortium.sign("airline")
        again = self.second(tmp_path, sums, ANYTHING)
        found = again.at("airline", study.review)
        assert [f.limit for f in found.findings if not f.ok] == ["masked sums with other rosters on the same samples"]


OPEN = {"gamma": "scale", "n_components": 2}


def honest(center):
    """What the center derived; its file is removed, so that another can be told."""
    path = center.memory.path / "sent" / "go"
    derived = q.decode(center.receive("center", "go", "all", at_most=10**6, kind="question").read_bytes()).derived
    path.unlink()
    return derived


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


@pytest.fixture
def before_go(tmp_path):
    """Parties that have not seen the derived values yet: the center wrote them after their last command."""
    consortium = founded(tmp_path, OPEN, ANYTHING, tables(60, 4)).sign()
    for name in NAMES:
        with contextlib.suppress(WaitingError):
            consortium.run(name)
    with contextlib.suppress(WaitingError):
        consortium.run("center")
    center = founding.membership(consortium.at("center", founding.seat))
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


def test_another_question_in_the_place_of_one_is_refused(before_go, tmp_path):
    consortium, center = before_go
    honest(center)
    (tmp_path / "shared/center/go").unlink()
    greedy = q.encode(q.RowsWanted("batch-1"))
    replace(center).send("go", [Part("all", NAMES, [greedy])], kind="question")
    with pytest.raises(RefusedError, match="not in the plan"):
        consortium.run("airline")
