"""A protocol run from what lies in the folder: any order of commands ends with the same outcome, answered once."""

import contextlib
import random
from dataclasses import replace

import numpy as np
import pytest

from dkpca import wire
from dkpca.errors import FusionError, ProtectionError
from dkpca.exchange import founding, protocols, replay
from dkpca.exchange.member import OtherQuestionError, RefusedError, WaitingError
from dkpca.exchange.protocols import Ask
from dkpca.linalg.precision import Rounded
from dkpca.messages import Summary
from dkpca.party import questions as q
from testkit.studies import ANYTHING, PARTIES, Consortium
from tests.study.test_a_study import MODES, tables


@pytest.fixture(scope="module")
def signed_once(tmp_path_factory):
    root = tmp_path_factory.mktemp("signed")
    return Consortium(root, tables(14), MODES["sums, bounds from data"], samples=10).join(**ANYTHING).sign()


@pytest.fixture
def signed(signed_once, tmp_path):
    return signed_once.copy(tmp_path)


@pytest.fixture(scope="module")
def finished_once(signed_once, tmp_path_factory):
    finished = signed_once.copy(tmp_path_factory.mktemp("finished"))
    finished.finish()
    return finished


@pytest.fixture
def finished(finished_once, tmp_path):
    return finished_once.copy(tmp_path)


def center_of(consortium):
    return consortium.at("center", founding.seat)


@pytest.mark.longer
@pytest.mark.parametrize(
    "seed", [0, pytest.param(1, marks=pytest.mark.slow), pytest.param(2, marks=pytest.mark.slow)]
)
def test_any_order_of_commands_ends_with_the_same_outcome(signed, seed):
    order, waiting = random.Random(seed), [*PARTIES, "center"]
    for _ in range(300):
        who = order.choice(waiting)
        with contextlib.suppress(WaitingError):
            signed.run(who)
            waiting.remove(who)
        if not waiting:
            break
    assert not waiting
    assert np.array_equal(signed.embedding("airline")[1], signed.embedding("center")[1])


def test_all_who_are_waited_for_are_named(signed):
    with pytest.raises(WaitingError) as waiting:
        signed.run("center")
    assert (waiting.value.step, waiting.value.members) == ("tokens", PARTIES)


@pytest.mark.longer
def test_what_would_be_computed_otherwise_by_now_is_not_told_again(finished):
    center = center_of(finished)
    first = (finished.root / "shared/center/sums-1").read_bytes()
    asked = q.decode(center.memory.kept("asked/sums-1.all") or b"")
    assert isinstance(asked, q.SumsWanted)

    def otherwise():
        other = replace(asked, bounds=dict.fromkeys(PARTIES, 1e9))
        ask = Ask("sums-1", lambda: dict.fromkeys(PARTIES, other))
        answers = yield ask
        return ask.one, answers

    taken, answers = replay.replay(center, otherwise())
    assert taken == asked
    assert set(answers) == set(PARTIES)
    assert (finished.root / "shared/center/sums-1").read_bytes() == first


def test_an_answer_to_another_question_than_the_centers_is_refused(signed):
    for name in (*PARTIES, *PARTIES):  # seeds, then tokens
        with pytest.raises(WaitingError):
            signed.run(name)

    def greedy():
        yield Ask("tokens", dict.fromkeys(PARTIES, q.TokensWanted("batch-1")))

    with pytest.raises(OtherQuestionError, match="airline/tokens: answers another question"):
        replay.replay(center_of(signed), greedy())


def test_an_answer_of_another_kind_is_refused_by_name(finished, monkeypatch):
    monkeypatch.setattr(q.ShapeWanted, "answer", Summary)

    def asking():
        yield Ask("shape", dict.fromkeys(PARTIES, q.ShapeWanted()))

    with pytest.raises(FusionError, match="party 'airline' answered with Shape"):
        replay.replay(center_of(finished), asking())


def test_parties_read_seeds_of_each_other_and_the_center_does_not(finished):
    center, asked = center_of(finished), q.SeedsWanted(center_of(finished).study.agreement, PARTIES)
    with pytest.raises(ProtectionError, match="sealed to weather only"):
        center.receive("airline", "seeds", "weather", at_most=10**6, question=q.digest(asked))


def test_the_folder_has_one_file_for_each_step_of_a_member(finished):
    files = [path.name for path in (finished.root / "shared").rglob("*") if path.is_file()]
    steps = ["seeds", "tokens", "shape", "go", "bounds", "sums-1"]
    told = ["matched", "go", "sums-1", "result"]
    expected = 4 * ["member.toml", "signature-1"] + ["plan-1.toml"] + 3 * steps + told
    assert sorted(files) == sorted(expected)


def told_what_was_told(consortium):
    """Files in which a center keeps what it told each party about its own samples."""
    return sorted((consortium.root / "center/studies").glob("*/asked/matched.*"))


def test_a_center_cut_short_among_the_things_it_tells_goes_on(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    one = Consortium(tmp_path / "one", tables(30, shared=False), MODES["open"], samples=10).join(**ANYTHING).sign()
    for name in (*one.names, *one.names):
        with pytest.raises(WaitingError):
            one.run(name)
    other = one.copy(tmp_path / "other")
    with pytest.raises(WaitingError):
        one.run("center")
    first, *others = told_what_was_told(one)
    assert len(others) == 2  # one for each party
    cut_short = other.root / first.relative_to(one.root)
    cut_short.parent.mkdir(exist_ok=True)
    cut_short.write_bytes(first.read_bytes())
    for each in (one, other):
        each.finish()
    for mine, theirs in zip(one.embedding("airline"), other.embedding("airline"), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_a_refusal_stays_whatever_the_folder_and_the_limits_say_later(tmp_path):
    consortium = Consortium(tmp_path, tables(30), MODES["open"], samples=10, align="position")
    consortium.join(**ANYTHING).sign()
    limits, refusal = tmp_path / "airline/limits.toml", tmp_path / "shared/airline/refusal"
    allowed = limits.read_text()
    limits.write_text(allowed.replace("samples = 2", "samples = 31"))
    with pytest.raises(RefusedError, match="airline refused at step 'shape': fewer samples are common to all"):
        consortium.run("airline")
    with pytest.raises(RefusedError):
        consortium.run("weather")
    limits.write_text(allowed)
    for _ in range(2):  # hidden by the folder's host
        said = refusal.read_bytes()
        refusal.unlink()
        with pytest.raises(RefusedError, match="airline refused at step 'shape'"):
            consortium.run("weather")
        with pytest.raises(RefusedError, match="airline refused at step 'shape'"):
            consortium.run("airline")
        assert refusal.read_bytes() == said
        assert not (tmp_path / "shared/airline/shape").exists()


def test_a_list_without_the_own_summary_is_called_the_centers_question_and_no_constant_share(tmp_path, monkeypatch):
    consortium = Consortium(tmp_path, tables(30), MODES["open"] | {"audit": 5}, samples=10, align="position")
    consortium.join(**ANYTHING).sign()
    for name in (*consortium.names, "center", *consortium.names, *consortium.names):
        with pytest.raises(WaitingError):
            consortium.run(name)
    with monkeypatch.context() as hostile:
        hostile.setattr(wire, "fingerprint", lambda message: "0" * 64)
        with pytest.raises(WaitingError):
            consortium.run("center")
    with pytest.raises(RefusedError) as refused:
        consortium.run("airline")
    assert (refused.value.step, refused.value.reason) == ("received", "question")


@pytest.mark.longer
def test_row_means_are_refused(tmp_path, monkeypatch):
    """A party could divide the fused kernel by its own, and have the kernel of all others."""
    consortium = Consortium(tmp_path, tables(), MODES["open"], align="position", samples=10)
    consortium.join(**ANYTHING).sign()
    honest, means = protocols.published, Rounded(np.ones((60, 1)))
    monkeypatch.setattr(protocols, "published", lambda *about: replace(honest(*about), row_means=means))
    with pytest.raises(RefusedError, match="result"):
        consortium.finish()
