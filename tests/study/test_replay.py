"""A protocol run from what lies in the folder: any order of commands ends with the same outcome, answered once."""

import contextlib
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from dkpca.errors import FusionError, ProtectionError
from dkpca.exchange import replay
from dkpca.exchange.member import OtherQuestionError, WaitingError
from testkit.studies import PARTIES, Actors

VALUES = {"airline": [1.0, 2.0], "registry": [3.0, 4.0], "weather": [5.0, 6.0]}


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Wanted:
    what: str
    factor: float = 1.0
    answer: ClassVar[type] = Number
    told: ClassVar[bool] = False

    def most_bytes(self):
        return 100

    def check(self, party, answer):
        if answer.value < 0:
            raise FusionError(f"{party} sent a number below 0")


@dataclass(frozen=True)
class Told(Wanted):
    told: ClassVar[bool] = True


@dataclass(frozen=True)
class Ask:
    step: str
    questions: Mapping[str, Any]
    readers: str = "center"


def pack(record):
    return [json.dumps({"type": type(record).__name__, **vars(record)}).encode()]


def unpack(path):
    found = json.loads(path.read_bytes())
    kinds = {"Number": Number, "Wanted": Wanted, "Told": Told}
    return kinds[found.pop("type")](**found)


def protocol(names):
    """The sum of all values times a factor that follows from their number."""
    yield Ask("seeds", dict.fromkeys(names, Wanted("seeds")), readers="parties")
    counts = yield Ask("counts", dict.fromkeys(names, Wanted("count")))
    factor = sum(number.value for number in counts.values())
    parts = yield Ask("batch-1/sums", dict.fromkeys(names, Told("sum", factor)))
    return sum(number.value for number in parts.values())


def told(ask):
    return [party for party, question in ask.questions.items() if question.told]


def run_center(actors, protocol=protocol):
    return replay.replay(
        actors.member("center"),
        protocol(PARTIES),
        pack=pack,
        unpack=unpack,
        told=told,
        acknowledged=lambda question, party: None,
    )


def run_party(actors, name, values=VALUES):
    member, others = actors.member(name), [each for each in PARTIES if each != name]
    seeds = pack(Wanted("seeds"))
    replay.answer(member, "seeds", seeds, lambda: {(o,): [f"{name} to {o}".encode()] for o in others})
    for other in others:
        path = replay.received(member, other, "seeds", seeds, at_most=100)
        assert path.read_text() == f"{other} to {name}"
    center = (actors.plan.center,)
    replay.answer(member, "counts", pack(Wanted("count")), lambda: {center: pack(Number(len(values[name])))})
    asked = replay.question_of(member, "batch-1/sums", at_most=200)
    question = Told(**{k: v for k, v in json.loads(asked).items() if k != "type"})
    replay.answer(
        member, "batch-1/sums", [asked], lambda: {center: pack(Number(sum(values[name]) * question.factor))}
    )


@pytest.fixture
def actors(tmp_path):
    return Actors(tmp_path / "folder", tmp_path / "own").ready()


@pytest.mark.parametrize("seed", range(5))
def test_any_order_of_commands_ends_with_the_same_outcome(actors, seed):
    order = random.Random(seed)
    for _ in range(200):
        who = order.choice(actors.plan.members)
        try:
            outcome = run_center(actors) if who == "center" else run_party(actors, who)
        except WaitingError:
            continue
        if who == "center":
            assert outcome == 6 * 21.0
            break
    else:
        raise AssertionError("it did not end")


def everybody(actors, values=VALUES):
    """Run all in turn until nobody gets on."""
    for _ in range(4):
        for name in PARTIES:
            with contextlib.suppress(WaitingError):
                run_party(actors, name, values)
        with contextlib.suppress(WaitingError):
            return run_center(actors)
    raise AssertionError("it did not end")


def test_all_who_are_waited_for_are_named(actors):
    with pytest.raises(WaitingError) as waiting:
        run_center(actors)
    assert waiting.value.members == PARTIES
    assert waiting.value.step == "counts"


def test_a_question_that_is_computed_again_differently_is_not_asked(actors):
    assert everybody(actors) == 126.0

    def otherwise(names):
        yield Ask("seeds", dict.fromkeys(names, Wanted("seeds")), readers="parties")
        yield Ask("counts", dict.fromkeys(names, Wanted("count")))
        parts = yield Ask("batch-1/sums", dict.fromkeys(names, Told("sum", 6.000001)))
        return sum(number.value for number in parts.values())

    assert run_center(actors, otherwise) == 126.0


def test_an_answer_to_another_question_than_the_centers_is_refused(actors):
    with pytest.raises(WaitingError):
        run_party(actors, "airline")

    def greedy(names):
        yield Ask("counts", dict.fromkeys(names, Wanted("all your rows")))

    for name in PARTIES[1:]:
        with pytest.raises(WaitingError):
            run_party(actors, name)
    with pytest.raises(OtherQuestionError, match="weather/counts: answers another question"):
        run_center(actors, greedy)


def test_an_impossible_answer_is_refused_by_name(actors):
    with pytest.raises(FusionError, match="weather sent a number below 0"):
        everybody(actors, VALUES | {"weather": [-50.0]})


def test_parties_read_seeds_of_each_other_and_the_center_does_not(actors):
    for name in PARTIES:
        with contextlib.suppress(WaitingError):
            run_party(actors, name)
    with pytest.raises(ProtectionError):
        actors.member("center").receive("airline", "seeds", "weather", at_most=100, question="0" * 64)


def test_the_folder_has_one_file_for_each_step_of_a_member(actors, tmp_path):
    everybody(actors)
    files = sorted(
        p.relative_to(tmp_path / "folder").as_posix() for p in (tmp_path / "folder").rglob("*") if p.is_file()
    )
    assert len(files) == 4 * 2 + 1 + 3 * 3 + 1  # member and signature, plan, three steps, one question
