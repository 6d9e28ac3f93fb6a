"""An audit by files: the center draws, the parties answer, the center concludes."""

import json

import numpy as np
import pytest

from dkpca import DKPCA
from dkpca.store import ledger, runs
from testkit.owners import GAMMA, OWNERS, numbers, standardized


@pytest.fixture
def drawn(fused):
    fused.ok("audit", "run", "--rows", 40, "--seed", 7)
    return fused


def answer(office, owner, *more):
    return office.ok(
        "audit-rows", f"{owner}.csv", "--state", f"{owner}.state", "--request", "run/audit.request",
        "--out", f"{owner}.audit", *more,
    )  # fmt: skip


def test_files_give_the_findings_of_the_estimator(drawn):
    for owner in OWNERS:
        answer(drawn, owner)
    told = drawn.ok("audit", "run", *(f"{owner}.audit" for owner in OWNERS), "--json").json["certificate"]["audit"]
    tables = {owner: standardized(X) for owner, X in numbers().items()}
    model = DKPCA(3, gamma=GAMMA, rank=20, audit=40, random_state=7).fit(tables)
    expected = model.certificate_.audit
    np.testing.assert_allclose(told["kernel_error_at_most"], expected.kernel_error_at_most, rtol=1e-6)
    np.testing.assert_allclose(told["component_error_estimates"], expected.component_error_estimates, rtol=1e-3)
    run = runs.load(drawn.path / "run")
    assert run.model.certificate.audit.seed == 7
    assert json.loads((drawn.path / "run" / "certificate.json").read_text())["audit"] == told
    events = [record["event"] for record in ledger.records(drawn.path / "run" / "ledger.jsonl")]
    assert events[-5:] == ["audit drawn", *["received"] * 3, "audited"]
    shown = drawn.ok("audit", "run", *(f"{owner}.audit" for owner in OWNERS)).out
    assert "An audit of 40 true rows (seed 7) proves, each at 95%" in shown


def test_a_random_seed_is_published(fused):
    seeds = {fused.ok("audit", "run", "--json").json["seed"] for _ in range(2)}
    assert len(seeds) == 2


def test_what_a_party_sends_is_described_and_in_its_ledger(drawn):
    answer(drawn, "bank")
    told = drawn.ok("inspect", "bank.audit").out
    assert "the whole table up to a rotation" in told
    assert "which samples are looked at" in drawn.ok("inspect", "run/audit.request").out
    (written,) = [r for r in ledger.records(drawn.path / ledger.NAME) if r.get("kind") == "auditrows"]
    assert (written["event"], written["party"], written["seed"]) == ("written", "bank", 7)


def test_a_policy_limits_rows_and_audits(drawn):
    (drawn.path / "policy.toml").write_text("max_audit_rows = 3\n")
    command = (
        "audit-rows", "bank.csv", "--state", "bank.state", "--request", "run/audit.request", "--out", "bank.audit",
        "--policy", "policy.toml",
    )  # fmt: skip
    assert "are more than max_audit_rows = 3" in drawn.refused(*command)
    (drawn.path / "policy.toml").write_text("max_audits = 1\n")
    drawn.ok(*command)
    drawn.ok(*command)  # the same again
    drawn.ok("audit", "run", "--rows", 40, "--seed", 8)
    assert "it has answered max_audits = 1 audits" in drawn.refused(*command)


def test_answers_before_anything_was_drawn_and_missing_ones_are_refused(drawn):
    answer(drawn, "bank")
    assert "no audit from ['clinic', 'shop']" in drawn.refused("audit", "run", "bank.audit")
    (drawn.path / "run" / "audit.request").unlink()
    assert "no audit was drawn; begin with 'dkpca audit run --rows 100'" in drawn.refused(
        "audit", "run", "bank.audit"
    )


def test_a_contradicting_party_is_named_with_its_file(drawn):
    lines = (drawn.path / "shop.csv").read_text().splitlines()
    (drawn.path / "shop.csv").write_text("\n".join([lines[0], *lines[1:31], *_shuffled(lines[31:])]) + "\n")
    for owner in OWNERS:
        answer(drawn, owner)
    told = drawn.refused("audit", "run", *(f"{owner}.audit" for owner in OWNERS))
    assert "party 'shop': the rows it sent for the audit" in told
    assert "shop.audit" in told


def _shuffled(lines):
    """The same people with each other's numbers."""
    people, numbers = zip(*(line.split(",", 1) for line in lines), strict=True)
    return [f"{person},{other}" for person, other in zip(people, reversed(numbers), strict=True)]
