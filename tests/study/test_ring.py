"""`align = "psi"` in a plan: lists of ids go round a ring, one hop a round, and nobody can test a guess."""

from dataclasses import replace

import numpy as np
import pytest

from dkpca import wire
from dkpca.errors import ProtectionError
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.messages import RaisedIds
from dkpca.party import answers
from dkpca.party import questions as q
from testkit.studies import ANYTHING, Consortium

from .test_a_study import EVERY_PROTECTION, MODES, tables


def ring(root, mode="open", given=None, **plan):
    given = given or tables(shared=False)
    return Consortium(root, given, MODES[mode], align="psi", samples=10, **plan).join(**ANYTHING)


@pytest.fixture(scope="module")
def signed_once(tmp_path_factory):
    return ring(tmp_path_factory.mktemp("signed")).sign()


@pytest.fixture
def signed(signed_once, tmp_path):
    return signed_once.copy(tmp_path)


@pytest.mark.longer
@pytest.mark.parametrize("mode", EVERY_PROTECTION)
def test_the_samples_are_those_of_the_clear_ids_and_the_answer_that_of_tokens(mode, tmp_path):
    (tmp_path / "ring").mkdir()
    (tmp_path / "tokens").mkdir()
    given = tables(shared=False)
    consortium = ring(tmp_path / "ring", mode, given).sign()
    consortium.finish()
    common = set.intersection(*(set(ids) for ids, _ in given.values()))
    found = {name: consortium.embedding(name) for name in consortium.names}
    for ids, scores in found.values():
        assert set(ids) == common
        assert ids == found["airline"][0]
        assert np.array_equal(scores, found["airline"][1])
    assert not set(consortium.embedding("center")[0]) & common
    if mode != "open":
        return
    keyed = Consortium(tmp_path / "tokens", given, MODES[mode], samples=10).join(**ANYTHING).sign()
    keyed.finish()
    other = dict(zip(*keyed.embedding("airline"), strict=True))
    ids, scores = found["airline"]
    same = np.array([other[each] for each in ids])
    np.testing.assert_allclose(np.abs(scores), np.abs(same), atol=1e-5)


def test_review_says_how_many_rounds_a_ring_takes(tmp_path):
    from dkpca.exchange import study

    consortium = ring(tmp_path)
    (said,) = [line for line in consortium.at("airline", study.review).words() if "ring" in line]
    assert "a ring of 3 rounds" in said
    assert "to registry, and on to center" in said


@pytest.mark.slow
def test_new_samples_are_matched_by_a_ring_of_their_own(tmp_path):
    consortium = ring(tmp_path, given=tables(), batches=1, batch_samples=5).sign()
    consortium.finish()
    for number, (name, (_, X)) in enumerate(tables(80).items()):
        (tmp_path / name / "new").mkdir()
        head = (tmp_path / f"{name}.csv").read_text().splitlines()[0]
        lines = [f"n{i},{','.join(map(repr, row))}" for i, row in enumerate(X[60 + number :].tolist(), number)]
        (tmp_path / name / "new/1.csv").write_text("\n".join([head, *lines]) + "\n")
    consortium.finish()
    assert set(consortium.embedding("airline", "batch-1")[0]) == {f"n{i}" for i in range(2, 20)}


def dropped(points):
    return points[:-1]


def doubled(points):
    return np.concatenate([points[:-1], points[:1]])


def changed(points):
    points = points.copy()
    points[0] = 255  # beyond the field
    return points


def reversed_(points):
    return points[::-1]


@pytest.mark.longer
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dropped, "sent 64 entries, and 63 arrived"),
        (doubled, "has 1 entries twice"),
        (changed, "not a point of P-256"),
        (reversed_, "padded entry|different samples"),
    ],
)
def test_a_hop_that_cheats_and_signs_the_result_is_refused(change, words, signed, tmp_path, monkeypatch):
    """The weather party changes the list of the registry before it hands it on."""
    honest = answers.ANSWERS[q.HopWanted]

    def hop(party, question):
        sent = honest(party, question)
        if (party.name, question.hop) != ("weather", 1):
            return sent
        points = change(sent.points.reshape(-1, 32))
        return replace(sent, points=np.ascontiguousarray(points).ravel())

    monkeypatch.setattr(answers, "ANSWERS", {**answers.ANSWERS, q.HopWanted: hop})
    with pytest.raises(RefusedError, match=words):
        signed.finish()
    assert not list(tmp_path.glob("shared/*/summary"))  # no message with data has left


def test_a_second_list_at_a_later_hop_is_not_raised_by_another_command(signed, tmp_path, monkeypatch):
    """The registry hands on a list of its own choice, as its own first one, in the place of the airline's."""
    honest = answers.ANSWERS[q.HopWanted]
    first: dict[str, RaisedIds] = {}

    def hop(party, question):
        sent = honest(party, question)
        if party.name == "registry" and question.hop == 0:
            first["list"] = sent
        if party.name == "registry" and question.hop == 1:
            return replace(first["list"], points=sent.points)
        return sent

    monkeypatch.setattr(answers, "ANSWERS", {**answers.ANSWERS, q.HopWanted: hop})
    with pytest.raises(RefusedError, match="weather refused at step 'ring-3': .*a list of another hop than 1"):
        signed.finish()
    assert not list(tmp_path.glob("shared/weather/ring-3"))


@pytest.mark.longer
def test_ids_made_alike_in_other_ways_are_refused(tmp_path):
    consortium = ring(tmp_path)
    described = tmp_path / "weather/party.toml"
    described.write_text(described.read_text() + 'id_normalize = ["case"]\n')
    consortium.sign()
    with pytest.raises(RefusedError, match="another study, roster, normalization or hop"):
        consortium.finish()


@pytest.mark.longer
def test_a_second_list_under_one_secret_is_refused(signed):
    """A folder restored from a copy, and another list of the party before: nothing is raised a second time."""
    for name in signed.names:
        with pytest.raises(WaitingError):
            signed.run(name)
    kept = signed.memory("registry").study(signed.plan.id).path
    with pytest.raises(WaitingError):
        signed.run("registry")
    (mine,) = kept.glob("sent/ring-2")
    mine.unlink()
    opened = kept / "opened/airline.ring-1.registry"
    first = wire.decode(opened.read_bytes())
    assert isinstance(first, RaisedIds)
    other = replace(first, points=first.points.reshape(-1, 32)[::-1].ravel().copy())
    opened.write_bytes(wire.encode(other))
    with pytest.raises(ProtectionError, match="registry/ring-2: this member's own folder has no record"):
        signed.run("registry")
