"""Closing a study: a plan that runs is not left without a word, and one that is over is left as ever."""

import contextlib
import datetime
import re
import shutil

import pytest

from dkpca.errors import InputError
from dkpca.exchange import founding
from dkpca.exchange import plan as plans
from dkpca.exchange.member import RefusedError, WaitingError
from testkit.program import in_process as command
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, put_new, tables


@pytest.fixture
def joined(tmp_path):
    return Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING)


def close(consortium, name, *words):
    return command("study", "close", consortium.url, "--as", consortium.root / name, *words, cwd=consortium.root)


def test_a_running_plan_is_not_closed_by_mistake(joined, tmp_path):
    """Before, its keys were gone, the others waited for ever, and `status` said that nobody was waited for."""
    with pytest.raises(WaitingError):
        joined.sign().run("airline")
    answer = close(joined, "airline")
    how = "finish it with 'dkpca study run', or pass --give-up, which tells them"
    assert answer.err == f"dkpca: plan 1 is running, and the others wait for this member; {how}\n"
    assert not (tmp_path / "shared/airline/refusal").exists()
    joined.finish()
    assert close(joined, "airline").out == "Plan 1 closed: its keys are deleted.\n"


def test_whoever_gives_up_tells_the_others(joined):
    with pytest.raises(WaitingError):
        joined.sign().run("airline")
    assert close(joined, "airline", "--give-up").out == "Plan 1 closed: its keys are deleted.\n"
    said = "airline refused at step 'close': it closed the study before the end"
    for name in ("registry", "center"):
        with pytest.raises(RefusedError, match=said):
            joined.run(name)
    assert joined.status()["refusals"][0].startswith(said)
    assert close(joined, "registry").out == "Plan 1 closed: its keys are deleted.\n"


def test_who_gives_up_before_all_have_signed_is_no_longer_waited_for(joined, tmp_path):
    joined.sign("airline", "registry")
    with pytest.raises(InputError, match="plan 1 is running"):
        joined.at("airline", founding.close)
    joined.at("airline", founding.close, give_up=True)
    with pytest.raises(RefusedError, match="airline refused at step 'close'"):
        joined.run("registry")
    joined.sign("weather", "center")
    with pytest.raises(RefusedError, match="airline refused at step 'close'"):
        joined.run("weather")
    assert not [*(tmp_path / "airline/studies").glob("*/left.json")]  # it counts for nothing


@pytest.mark.parametrize("how", ["a forged plan", "no plan"])
def test_a_plan_that_was_signed_runs_whatever_plan_the_folder_shows(how, joined, tmp_path):
    """Before, a `plan-2.toml` that the folder's host wrote made `close` leave the others without a word."""
    joined.sign()
    plan = tmp_path / "shared/center/plan-1.toml"
    if how == "no plan":
        plan.unlink()
    else:
        forge(tmp_path)
    with pytest.raises(InputError, match="plan 1 is running"):
        joined.at("airline", founding.close)
    joined.at("airline", founding.close, give_up=True)
    assert (tmp_path / "shared/airline/refusal").exists()


def forge(root):
    """Write a next plan, as the folder's host can: the first one under another id."""
    plan = (root / "shared/center/plan-1.toml").read_text()
    (root / "shared/center/plan-2.toml").write_text(re.sub(r'id = "\w+"', f'id = "{"ab" * 16}"', plan))


def test_who_could_not_be_told_is_named_and_the_keys_are_deleted(joined, tmp_path):
    """Before, any file in the place of the refusal kept keys and table in DIR for ever."""
    joined.sign()
    (tmp_path / "shared/airline/refusal").write_bytes(b"garbage")
    said = joined.at("airline", founding.close, give_up=True)
    start = "Plan 1 closed: its keys are deleted; the others could not be told that you left (airline/refusal: this"
    assert said.startswith(start)
    (kept,) = (tmp_path / "airline/studies").iterdir()
    assert not {"seed.key", "table"} & {path.name for path in kept.iterdir()}


def until_the_result(here):
    while not (here.root / "shared/center/result").exists():
        for name in (*here.names, here.center):
            with contextlib.suppress(WaitingError):
                here.run(name)


def test_another_refusal_comes_before_that_of_a_member_that_left(joined):
    until_the_result(joined.sign())
    for name, reason in (("airline", "closed"), ("weather", "agree")):
        with pytest.raises(RefusedError):
            joined.at(name, founding.seat).refuse("summary", reason)
    told = joined.run("registry")  # what the center has told already it keeps
    assert told["notes"][0].startswith("weather refused at step 'summary': the members were told different")


def test_no_refusal_and_no_last_day_takes_a_result_away_that_was_told(joined, monkeypatch):
    """Before, a party that came late got nothing: one member, or a host that delays, decided that."""
    until_the_result(joined.sign())
    with pytest.raises(RefusedError):
        joined.at("airline", founding.seat).refuse("go", "data")
    assert "its table cannot be used as the plan says" in joined.run("weather")["notes"][0]
    monkeypatch.setattr(plans, "_after", lambda days: datetime.date(2100, 1, 1))
    told = joined.run("registry")
    assert "the study ended on" in told["notes"][0] + told["notes"][1]
    assert joined.embedding("registry")[0] == joined.embedding("weather")[0]


def test_whoever_refused_gets_no_further(joined):
    until_the_result(joined.sign())
    with pytest.raises(RefusedError):
        joined.at("airline", founding.seat).refuse("go", "data")
    with pytest.raises(RefusedError, match="airline refused at step 'go'"):
        joined.run("airline")


def test_nothing_new_is_answered_after_the_last_day(joined, monkeypatch):
    joined.sign()
    monkeypatch.setattr(plans, "_after", lambda days: datetime.date(2100, 1, 1))
    with pytest.raises(InputError, match="the study ended on .*; nothing is answered after that day"):
        joined.run("airline")
    assert not (joined.root / "shared/airline/tokens").exists()


@pytest.mark.longer
@pytest.mark.parametrize("gone", ["shared", "shared/airline"])
def test_a_restored_folder_forgets_no_study_where_the_shared_one_is_gone(gone, joined, tmp_path):
    """Before, the study whose numbers had left did not count in the next review."""
    joined.sign()
    shutil.copytree(tmp_path / "airline", tmp_path / "backup")
    joined.finish()
    shutil.rmtree(tmp_path / "airline")
    (tmp_path / "backup").rename(tmp_path / "airline")
    shutil.rmtree(tmp_path / gone)
    joined.at("airline", founding.close, give_up=True)
    assert [*tmp_path.glob("airline/studies/*/left.json")]


def test_a_place_that_was_emptied_takes_another_study(joined, tmp_path):
    joined.sign().finish()
    for name in (*joined.names, joined.center):
        close(joined, name)
    shutil.rmtree(tmp_path / "shared")
    again = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign()
    again.finish()
    assert again.status()["result"]


def test_a_result_that_was_not_fetched_is_not_closed_away(joined, tmp_path):
    """Before, `close` deleted the keys that open it, without a word."""
    until_the_result(joined.sign())
    said = "plan 1 has a result that this member has not fetched; do so with 'dkpca study run', or pass --give-up"
    with pytest.raises(InputError, match=said):
        joined.at("airline", founding.close)
    joined.run("airline")
    assert joined.at("airline", founding.close) == "Plan 1 closed: its keys are deleted."
    assert not (tmp_path / "shared/airline/refusal").exists()
    joined.at("weather", founding.close, give_up=True)
    assert joined.run("registry")["notes"][0].startswith("weather refused at step 'close'")


def test_a_file_in_the_place_of_the_result_does_not_let_a_member_leave_without_a_word(joined, tmp_path):
    with pytest.raises(WaitingError):
        joined.sign().run("airline")
    (tmp_path / "shared/center/result").write_bytes(b"of the host")
    with pytest.raises(InputError, match="has not fetched"):
        joined.at("airline", founding.close)
    joined.at("airline", founding.close, give_up=True)
    with pytest.raises(RefusedError, match="airline refused at step 'close'"):
        joined.run("registry")


def test_a_plan_that_is_over_is_closed_as_ever(joined, monkeypatch):
    joined.sign("airline")
    monkeypatch.setattr(plans, "_after", lambda days: datetime.date(2999, 1, 1))
    assert joined.at("airline", founding.close) == "Plan 1 closed: its keys are deleted."


def test_a_party_without_a_result_closes_once_it_has_answered_all(tmp_path):
    here = Consortium(tmp_path, tables(20), MODES["open"], samples=10, result_to=("center", "airline"))
    here.join(**ANYTHING).sign().finish()
    assert here.at("weather", founding.close) == "Plan 1 closed: its keys are deleted."


@pytest.mark.slow
def test_a_batch_that_has_begun_is_not_left_without_a_word(tmp_path):
    here = Consortium(tmp_path, tables(), MODES["open"], samples=10, batches=1, batch_samples=5)
    here.join(**ANYTHING).sign().finish()
    put_new(tmp_path, tables(80))
    with pytest.raises(WaitingError, match="The result of the fit is ready"):
        here.run("airline")
    with pytest.raises(InputError, match="plan 1 is running"):
        here.at("airline", founding.close)
    here.finish()
    assert here.at("airline", founding.close) == "Plan 1 closed: its keys are deleted."


@pytest.mark.slow
def test_a_member_that_is_done_does_not_leave_a_batch_and_leaves_the_result_to_all(tmp_path):
    """Before, it closed without a word; and whoever had not fetched the result of the fit lost it."""
    here = Consortium(tmp_path, tables(), MODES["open"], samples=10, batches=1, batch_samples=5)
    until_the_result(here.join(**ANYTHING).sign())
    here.run("airline")
    put_new(tmp_path, tables(80))
    shutil.rmtree(tmp_path / "weather/new")
    with pytest.raises(WaitingError):
        here.run("registry")
    with pytest.raises(InputError, match="plan 1 is running"):
        here.at("airline", founding.close)
    here.at("airline", founding.close, give_up=True)
    found = here.run("weather")
    assert found["notes"][0].startswith("airline refused at step 'close'")
    assert (tmp_path / "weather/result/embedding.csv").exists()
    put_new(tmp_path, {"weather": tables(80)["weather"]})
    with pytest.raises(RefusedError, match="airline refused at step 'close'"):
        here.run("weather")
    assert not [*(tmp_path / "weather/studies").glob("*/batch-1.sha256")]  # nothing of it counts as sent
    before = {path.name for path in (tmp_path / "shared/registry").iterdir()}
    with pytest.raises(RefusedError, match="airline refused at step 'close'"):
        here.run("registry")
    assert {path.name for path in (tmp_path / "shared/registry").iterdir()} == before


def test_where_the_folder_lost_a_members_file_the_others_are_still_told(joined, tmp_path):
    with pytest.raises(WaitingError):
        joined.sign().run("airline")
    (tmp_path / "shared/airline/member.toml").unlink()
    assert joined.at("airline", founding.close, give_up=True) == "Plan 1 closed: its keys are deleted."
    with pytest.raises(RefusedError, match="airline refused at step 'close'"):
        joined.run("registry")


def test_status_of_a_study_for_the_center_alone_waits_for_nobody(tmp_path):
    here = Consortium(tmp_path, tables(20), MODES["open"], samples=10, result_to=("center",)).join(**ANYTHING).sign()
    here.finish()
    assert here.status()["waiting"] == {}
