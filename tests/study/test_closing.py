"""Closing a study: a plan that runs is not left without a word, and one that is over is left as ever."""

import datetime

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


@pytest.mark.parametrize("why", ["over", "another plan"])
def test_a_plan_that_cannot_go_on_is_closed_as_ever(why, joined, tmp_path, monkeypatch):
    joined.sign("airline")
    if why == "over":
        monkeypatch.setattr(plans, "_after", lambda days: datetime.date(2999, 1, 1))
    else:
        Consortium(tmp_path, tables(20), MODES["open"], samples=10)
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
