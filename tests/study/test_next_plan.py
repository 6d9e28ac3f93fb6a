"""The next plan of a study: plan-2.toml in the same folder, signed by all old and new members."""

import numpy as np
import pytest

from dkpca.errors import InputError, ProtectionError
from dkpca.exchange import founding, study
from dkpca.exchange.folder import Folder
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.party.limits import Limits
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, put_new, tables
from tests.study.test_closing import forge


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    root = tmp_path_factory.mktemp("done")
    done = Consortium(root, tables(20), MODES["open"], align="position", samples=10).join(**ANYTHING).sign()
    done.finish()
    return done


@pytest.fixture
def first(done, tmp_path):
    return done.copy(tmp_path)


def following(first, names=None, **changes):
    given = dict(first.tables) | {"port": (first.tables["weather"][0], first.tables["weather"][1] + 1.0)}
    given = {name: given[name] for name in names or given}
    return Consortium(first.root, given, MODES["open"] | changes, align="position", samples=10)


@pytest.mark.slow
def test_is_signed_and_run_by_old_and_new_members(first, tmp_path):
    before = contents(tmp_path / "shared")
    again = following(first)
    assert (tmp_path / "shared/center/plan-2.toml").exists()
    again.join(**ANYTHING).sign().finish()
    files = {path.relative_to(tmp_path / "shared").as_posix() for path in contents(tmp_path / "shared")}
    assert {"port/member-2.toml", "airline/signature-2", "airline/2.summary", "center/2.result"} <= files
    assert all(path.read_bytes() == data for path, data in before.items())  # the first plan's files stay
    results = [(tmp_path / name / "result-2/embedding.csv").read_bytes() for name in again.names]
    assert len(set(results)) == 1
    assert results[0] != (tmp_path / "airline/result/embedding.csv").read_bytes()
    assert founding.status(Folder(again.url))["waiting"] == {}


def test_a_study_in_another_folder_has_a_result_and_new_samples_of_its_own(first, tmp_path):
    """Before, it wrote over the result of the first one, and each placed the other's new samples."""
    result = (tmp_path / "airline/result/embedding.csv").read_bytes()
    url = str(tmp_path / "other")
    other = Consortium(tmp_path, first.tables, MODES["open"], url=url, align="position", samples=10)
    other.join(**ANYTHING).sign().finish()
    found, own = other.run("airline"), tmp_path / "airline"
    assert found["result"] == str(own / "result-2")
    assert f"this study has {own / 'result-2'} and {own / 'new-2'}: another study of {own}" in found["notes"][0]
    assert (own / "result-2/embedding.csv").exists()
    assert first.run("airline")["result"] == str(own / "result")
    assert (own / "result/embedding.csv").read_bytes() == result


@pytest.mark.longer
def test_needs_everybody_who_signed_the_first(first):
    with pytest.raises(InputError, match="plan-2.toml: every member of plan-1.toml must sign it, but weather"):
        following(first, ["airline", "registry", "port"])


def test_whose_founder_is_not_the_center_is_refused(first, tmp_path):
    plan = (tmp_path / "shared/center/plan-1.toml").read_text().replace('center = "center"', 'center = "weather"')
    (tmp_path / "shared/weather/plan-2.toml").write_text(plan)
    with pytest.raises(ProtectionError, match="center and weather each wrote a plan"):
        first.at("airline", study.join, tmp_path / "airline.csv", "id", "airline")


@pytest.mark.slow
def test_counts_as_one_more_study_of_a_table(first, tmp_path):
    again = following(first).join(**ANYTHING | {"studies": 1})
    found = again.at("airline", study.review)
    assert "studies" in [finding.limit for finding in found.findings if not finding.ok]


def test_changes_nothing_for_a_member_that_has_not_joined_it(first, tmp_path):
    result = (tmp_path / "airline/result/embedding.csv").read_bytes()
    following(first)
    first.run("airline")
    assert (tmp_path / "airline/result/embedding.csv").read_bytes() == result


@pytest.mark.slow
def test_hidden_by_the_host_is_remembered_by_those_who_joined(first, tmp_path):
    again = following(first).join(**ANYTHING).sign()
    (tmp_path / "shared/center/plan-2.toml").unlink()
    with pytest.raises(WaitingError, match="go"):
        again.run("airline")
    assert (tmp_path / "shared/airline/2.shape").exists()


def test_closing_deletes_the_keys_and_tables_of_every_plan(first, tmp_path):
    following(first).join(**ANYTHING).sign("airline")
    assert len([*(tmp_path / "airline/studies").glob("*/seed.key")]) == 2
    said = first.at("airline", founding.close, give_up=True)
    assert said == "Plan 1 closed: its keys are deleted; plan 2 closed: its keys are deleted."
    left = {path.name for path in (tmp_path / "airline/studies").glob("*/*")}
    assert not {"seed.key", "table", "opened"} & left
    assert [*(tmp_path / "airline/studies").glob("*/left.json")]  # numbers left: it counts


def test_another_plan_is_not_joined_while_one_runs(tmp_path):
    """Before, `join` of a plan that only the folder's host had written took a party out of its study for good."""
    here = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign()
    forge(tmp_path)
    join = (study.join, tmp_path / "airline.csv", "id", "airline")
    with pytest.raises(InputError, match="plan 1 is running; finish it, or 'dkpca study close --give-up' first"):
        here.at("airline", *join)
    assert not (tmp_path / "shared/airline/member-2.toml").exists()
    here.at("airline", founding.close, give_up=True)
    here.at("airline", *join)
    here.at("registry", study.join, tmp_path / "registry.csv", "id", "registry")  # airline ended plan 1


def test_another_plan_is_not_created_while_one_runs(tmp_path):
    """Else nobody could go on: the parties wait for the center, which has another plan to sign."""
    Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign()
    with pytest.raises(InputError, match="plan 1 is running; finish it, or 'dkpca study close --give-up' first"):
        Consortium(tmp_path, tables(20), MODES["open"], samples=10)
    assert not (tmp_path / "shared/center/plan-2.toml").exists()


@pytest.mark.slow
def test_a_batch_that_begins_beside_the_next_plan_is_placed_before_that_is_signed(tmp_path):
    one = Consortium(tmp_path, tables(), MODES["open"], samples=10, batches=1, batch_samples=5)
    one.join(**ANYTHING).sign().finish()
    Consortium(tmp_path, tables(), MODES["open"], samples=10).join("airline", **ANYTHING)
    put_new(tmp_path, tables(80))
    with pytest.raises(WaitingError):
        one.run("registry")
    one.finish()
    assert (tmp_path / "airline/result/batch-1/embedding.csv").exists()


def test_a_plan_that_is_gone_gives_its_place_back_to_the_one_that_all_have_signed(tmp_path):
    here = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign("airline")
    forge(tmp_path)
    here.at("airline", study.join, tmp_path / "airline.csv", "id", "airline")
    (tmp_path / "shared/center/plan-2.toml").unlink()
    here.sign("registry", "weather", "center").finish()
    assert (tmp_path / "airline/result/embedding.csv").exists()


def test_a_plan_that_never_started_is_closed_without_the_next_one_which_then_can_be_signed(tmp_path):
    """Before, `close` took the keys of the plan under review, which then was green and could not be signed."""
    one = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign("airline", "registry")
    two = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING | {"studies": 1})
    found = two.at("airline", study.review)
    assert [each.limit for each in found.findings if not each.ok] == ["studies"]
    for _ in range(2):
        said = one.at("airline", founding.close)
        assert said == "Plan 1 closed: its keys are deleted; plan 2, which is not signed, stays."
    assert two.at("airline", study.review).green
    two.sign("airline")
    assert two.at("airline", founding.close, give_up=True).count("closed") == 2


@pytest.mark.parametrize("signed", [False, True])
def test_a_closed_plan_says_so_at_every_command(signed, tmp_path):
    here = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING)
    found = here.at("airline", study.review)  # green
    if signed:
        here.sign("airline")
    here.memory("airline").study(here.plan.id).close()
    join = (study.join, tmp_path / "airline.csv", "id", "airline")
    for act, *arguments in (join, (study.review,), (study.sign, found.study.fingerprint), (study.run,)):
        with pytest.raises(InputError, match="plan 1: this study is closed here.*ask the center for another plan"):
            here.at("airline", act, *arguments)


def test_a_plan_whose_ids_did_not_match_does_not_count_once_the_study_is_closed(tmp_path):
    alien = {name: ([f"{name}{i}" for i in ids], X) for name, (ids, X) in tables(20).items()}

    def created():
        return Consortium(tmp_path, alien, MODES["open"], samples=10).join(**ANYTHING)

    first = created().sign()
    for name in (*first.names, *first.names, first.center) * 2:
        with pytest.raises((WaitingError, RefusedError)):
            first.run(name)
    with pytest.raises(RefusedError, match="too few samples are common to all"):
        first.run("airline")
    again = created()
    limits = Limits(**ANYTHING | {"recovery": 0.01, "studies": 1, "known_rows": 10})
    (tmp_path / "airline/limits.toml").write_text(limits.to_toml())
    words = "\n".join(again.at("airline", study.review).words())  # which had the advice to change the limits
    assert "RED   recovery" in words
    assert "Close earlier studies ('dkpca study close'; the plan under review stays): those that sent no" in words
    assert "exclude columns" not in words
    again.at("airline", founding.close)  # the next plan had been joined before
    (studies,) = [each for each in created().at("airline", study.review).findings if each.limit == "studies"]
    assert studies.asked == 1


@pytest.mark.slow
def test_the_same_question_under_another_agreement_is_answered_under_other_masks(tmp_path):
    for _ in range(2):
        here = Consortium(tmp_path, tables(20), MODES["sums"], align="position", samples=10)
        here.join(**ANYTHING).sign().finish()
    opened = [p.read_bytes() for p in (tmp_path / "center/studies").glob("*/opened/airline.sums-1.center")]
    assert len(opened) == 2
    one, other = (np.frombuffer(data[-400:], dtype=np.uint8) for data in opened)
    assert np.mean(one == other) < 0.1
