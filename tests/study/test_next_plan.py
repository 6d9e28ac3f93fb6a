"""The next plan of a study: plan-2.toml in the same folder, once its members have closed the first."""

import contextlib

import numpy as np
import pytest

from dkpca.errors import InputError, ProtectionError
from dkpca.exchange import founding, study
from dkpca.exchange.folder import Folder
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.party.limits import Limits
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables
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


@pytest.fixture
def closed(first):
    first.close()
    return first


def following(first, names=None, **changes):
    given = dict(first.tables) | {"port": (first.tables["weather"][0], first.tables["weather"][1] + 1.0)}
    given = {name: given[name] for name in names or given}
    return Consortium(first.root, given, MODES["open"] | changes, align="position", samples=10)


@pytest.mark.slow
def test_is_signed_and_run_by_old_and_new_members(closed, tmp_path):
    before = contents(tmp_path / "shared")
    again = following(closed)
    assert (tmp_path / "shared/center/plan-2.toml").exists()
    again.join(**ANYTHING).sign().finish()
    files = {path.relative_to(tmp_path / "shared").as_posix() for path in contents(tmp_path / "shared")}
    assert {"port/member-2.toml", "airline/signature-2", "airline/2.summary", "center/2.result"} <= files
    assert all(path.read_bytes() == data for path, data in before.items())  # the first plan's files stay
    results = [(tmp_path / name / "result-2/embedding.csv").read_bytes() for name in again.names]
    assert len(set(results)) == 1
    assert results[0] != (tmp_path / "airline/result/embedding.csv").read_bytes()
    assert founding.status(Folder(again.url))["waiting"] == {}


def test_may_leave_a_member_out(closed, tmp_path):
    following(closed, ["airline", "registry", "port"]).join(**ANYTHING).sign().finish()
    assert not (tmp_path / "weather/result-2").exists()


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


def test_whose_founder_is_not_the_center_is_refused(first, tmp_path):
    plan = (tmp_path / "shared/center/plan-1.toml").read_text().replace('center = "center"', 'center = "weather"')
    (tmp_path / "shared/weather/plan-2.toml").write_text(plan)
    with pytest.raises(ProtectionError, match="center and weather each wrote a plan"):
        first.at("airline", study.join, tmp_path / "airline.csv", "id", "airline")


@pytest.mark.slow
def test_counts_as_one_more_study_of_a_table(closed, tmp_path):
    again = following(closed).join(**ANYTHING | {"studies": 1})
    found = again.at("airline", study.review)
    assert "studies" in [finding.limit for finding in found.findings if not finding.ok]


def test_changes_nothing_for_a_member_that_has_not_joined_it(first, tmp_path):
    result = (tmp_path / "airline/result/embedding.csv").read_bytes()
    first.at("center", founding.close)
    following(first)
    first.run("airline")
    assert (tmp_path / "airline/result/embedding.csv").read_bytes() == result


@pytest.mark.slow
def test_hidden_by_the_host_is_remembered_by_those_who_joined(closed, tmp_path):
    again = following(closed).join(**ANYTHING).sign()
    (tmp_path / "shared/center/plan-2.toml").unlink()
    with pytest.raises(WaitingError, match="go"):
        again.run("airline")
    assert (tmp_path / "shared/airline/2.shape").exists()


def test_closing_deletes_the_keys_and_tables_of_every_plan(closed, tmp_path):
    following(closed).join(**ANYTHING).sign("airline")
    assert len([*(tmp_path / "airline/studies").glob("*/seed.key")]) == 1
    assert closed.at("airline", founding.close, give_up=True) == "Plan 2 closed: its keys are deleted."
    left = {path.name for path in (tmp_path / "airline/studies").glob("*/*")}
    assert not {"seed.key", "table", "opened"} & left
    assert [*(tmp_path / "airline/studies").glob("*/left.json")]  # numbers left: it counts


FIRST = "plan 1 of this folder is signed here and not closed; run 'dkpca study close' first, with --give-up if it is"


@pytest.mark.parametrize("ended", [False, True])
def test_is_not_joined_beside_one_that_is_signed(ended, tmp_path):
    """Else a plan that only the folder's host has written takes a party out of its study for good."""
    here = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign()
    if ended:
        here.finish()
    forge(tmp_path)
    join = (study.join, tmp_path / "airline.csv", "id", "airline")
    with pytest.raises(InputError, match=FIRST):
        here.at("airline", *join)
    assert not (tmp_path / "shared/airline/member-2.toml").exists()
    here.at("airline", founding.close, give_up=not ended)
    here.at("airline", *join)
    assert (tmp_path / "shared/airline/member-2.toml").exists()


def test_is_not_created_beside_one_that_is_signed(tmp_path):
    """Else nobody could go on: the parties wait for the center, which has another plan to sign."""
    Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign()
    with pytest.raises(InputError, match=FIRST):
        Consortium(tmp_path, tables(20), MODES["open"], samples=10)
    assert not (tmp_path / "shared/center/plan-2.toml").exists()


def test_a_plan_that_is_gone_gives_its_place_back_to_the_one_before(tmp_path):
    here = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING)
    forge(tmp_path)
    here.at("airline", study.join, tmp_path / "airline.csv", "id", "airline")
    (tmp_path / "shared/center/plan-2.toml").unlink()
    here.sign().finish()
    assert (tmp_path / "airline/result/embedding.csv").exists()


def test_a_plan_that_one_party_refused_to_sign_makes_way_for_the_next(tmp_path):
    """The way from a red review: the center writes another plan, and whoever has signed gives the first one up."""
    one = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign("airline")
    two = Consortium(tmp_path, tables(20), MODES["open"], samples=10)
    with pytest.raises(WaitingError) as waiting:
        one.run("airline")
    how = "to join it, run 'dkpca study close --give-up' first"
    assert waiting.value.__notes__ == [f"center has written plan-2.toml since you signed; {how}"]
    assert one.at("airline", founding.close, give_up=True) == "Plan 1 closed: its keys are deleted."
    two.join(**ANYTHING | {"studies": 1})
    assert two.at("airline", study.review).green
    two.sign().finish()


def test_a_plan_still_to_be_signed_is_not_closed_by_mistake(tmp_path):
    """Before, `close` took the keys of the plan under review, which then was green and could not be signed."""
    here = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING)
    with pytest.raises(InputError, match="plan 1 is still to be signed; pass --give-up if this member will not sign"):
        here.at("airline", founding.close)
    here.sign("airline", "registry")
    said = here.at("weather", founding.close, give_up=True)
    assert said.endswith("; the others are not told, since it was not signed here: tell them.")
    assert not (tmp_path / "shared/weather/refusal").exists()


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

    def created(url=""):
        return Consortium(tmp_path, alien, MODES["open"], url=url, samples=10).join(**ANYTHING)

    first = created().sign()
    for name in (*first.names, *first.names, first.center) * 2:
        with pytest.raises((WaitingError, RefusedError)):
            first.run(name)
    with pytest.raises(RefusedError, match="too few samples are common to all.*next, all run 'dkpca study close'"):
        first.run("airline")
    other = created(str(tmp_path / "other"))
    limits = Limits(**ANYTHING | {"recovery": 0.01, "studies": 1, "known_rows": 10})
    (tmp_path / "airline/limits.toml").write_text(limits.to_toml())
    words = "\n".join(other.at("airline", study.review).words())  # which had the advice to change the limits
    assert "RED   recovery" in words
    assert "Close earlier studies ('dkpca study close'): those that sent no number" in words
    assert "exclude such columns" not in words
    for name in (*first.names, first.center):
        first.at(name, founding.close)
    again = created()  # which is joined under the name of before
    (studies,) = [each for each in again.at("airline", study.review).findings if each.limit == "studies"]
    assert studies.asked == 1


@pytest.mark.slow
def test_the_same_question_under_another_agreement_is_answered_under_other_masks(tmp_path):
    opened = []
    for _ in range(2):
        here = Consortium(tmp_path, tables(20), MODES["sums"], align="position", samples=10)
        here.join(**ANYTHING).sign().finish()
        (path,) = (tmp_path / "center/studies").glob("*/opened/airline.sums-1.center")
        opened.append(np.frombuffer(path.read_bytes()[-400:], dtype=np.uint8))
        here.close()
    one, other = opened
    assert np.mean(one == other) < 0.1


def test_a_plan_that_ended_before_any_number_left_does_not_count(tmp_path):
    """One party's refusal after the consent of all made the next plan red for the others."""
    here = Consortium(tmp_path, tables(20), MODES["open"] | {"gamma": 0.1}, samples=10).join(**ANYTHING).sign()
    limits = tmp_path / "weather/limits.toml"
    limits.write_text(limits.read_text().replace('precision = "float64"', 'precision = "compact"'))
    for name in (*here.names, here.center) * 6:
        with contextlib.suppress(WaitingError, RefusedError):
            here.run(name)
    assert (tmp_path / "shared/airline/go").exists()
    assert [*tmp_path.glob("airline/studies/*/left.json")]
    here.at("airline", founding.close)
    assert not [*tmp_path.glob("airline/studies/*/left.json")]
