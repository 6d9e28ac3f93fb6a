"""What the center tells beside the derived values: common samples of a batch, widths, counts; and false answers."""

import contextlib
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dkpca.cli import studies
from dkpca.errors import FusionError, InputError, StorageError, WireError
from dkpca.exchange import founding, member, plan, protocols, replay, study
from dkpca.exchange.folder import Folder
from dkpca.exchange.identity import is_fingerprint
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.kernels import RBF
from dkpca.party import answers
from dkpca.party import questions as q
from dkpca.party.limits import Limits
from dkpca.wire import container
from testkit.studies import ANYTHING, Actors, Consortium
from tests.study.test_a_study import MODES, tables
from tests.study.test_new_samples import put

SUMS = {"protect": "sums", "n_components": 2}


@pytest.fixture(scope="module")
def fitted_once(tmp_path_factory):
    root = tmp_path_factory.mktemp("fitted")
    consortium = Consortium(root, tables(30), MODES["open"], samples=10, batches=1, batch_samples=5, align="tokens")
    consortium.join(**ANYTHING).sign().finish()
    return consortium


def tell_that_all_new_samples_are_common(monkeypatch):
    """A center that does not mind either that the parties' samples differ."""
    found: Any = protocols._matched
    received = replay.received

    def matched(lists, ring, union, batch):
        if not batch:
            return found(lists, ring, union, batch)
        every = {n: (len(own), q.packed_numbers(range(len(own)))) for n, own in lists.items()}
        return {n: q.MatchedGiven(length, each, length, ring, None, batch) for n, (length, each) in every.items()}

    def alike(membership, step, *about):
        answers = received(membership, step, *about)
        if step != "batch-1/shape":
            return answers
        first = next(iter(answers.values()))
        return {n: replace(each, samples=first.samples) for n, each in answers.items()}

    monkeypatch.setattr(protocols, "_matched", matched)
    monkeypatch.setattr(replay, "received", alike)


@pytest.mark.parametrize("careless", [False, True])
def test_rows_of_new_samples_leave_once_all_signed_the_same_samples(careless, fitted_once, tmp_path, monkeypatch):
    """Six of eleven samples of each party are nobody else's. The careless twin sends the rows of all of them."""
    consortium = fitted_once.copy(tmp_path)
    put(consortium, tmp_path, 1, {n: [f"n{i}" for i in range(5)] + [f"{n}{i}" for i in range(6)] for n in tables()})
    tell_that_all_new_samples_are_common(monkeypatch)
    if careless:
        monkeypatch.setattr(protocols, "_same", lambda names, terms, shape: protocols.Ask(terms.step("samples"), {}))
        with pytest.raises(RefusedError, match="'fusion'"):  # by the center, which has all rows by then
            consortium.finish()
    else:
        with pytest.raises(RefusedError, match=r"'batch-1/samples': the members were told different values"):
            consortium.finish()
    assert bool(list((tmp_path / "shared").glob("*/batch-1.rows"))) == careless


def test_mean_distances_leave_once_all_have_signed_the_same_samples(tmp_path, monkeypatch):
    fit = {"kernel": "rbf", "gamma": "scale", "n_components": 2}
    consortium = Consortium(tmp_path, tables(30), fit, samples=10, align="tokens").join(**ANYTHING).sign()
    found: Any = protocols._matched

    def others(*lists):
        """Ten samples for each party, those of the first ones among its tokens or of the last ones."""
        told = found(*lists)
        places = {n: np.sort(q.numbers_in(each.common))[: 10 + 5 * (n == "weather")] for n, each in told.items()}
        return {
            n: replace(told[n], common=q.packed_numbers(own[-10:].tolist()), n_samples=10)
            for n, own in places.items()
        }

    received = replay.received

    def alike(membership, step, *about):
        answers = received(membership, step, *about)
        first = next(iter(answers.values()))
        if step != "shape":
            return answers
        return {n: replace(each, samples=first.samples) for n, each in answers.items()}

    monkeypatch.setattr(protocols, "_matched", others)
    monkeypatch.setattr(replay, "received", alike)
    with pytest.raises(RefusedError, match="'samples': the members were told different values"):
        consortium.finish()
    assert not list((tmp_path / "shared").glob("*/statistics"))


@pytest.mark.parametrize(
    ("fit", "change"),
    [
        (SUMS | {"gamma": "scale"}, {"kernel": RBF(1e9)}),
        (SUMS | {"gamma": "scale", "standardize": True}, {"kernel": RBF(0.9)}),
        (SUMS | {"gamma": 0.05}, {"kernel": RBF(0.06)}),
        (SUMS | {"gamma": 0.05}, {"n_parties": 77}),
    ],
)
def test_a_result_with_a_width_or_a_number_of_parties_that_does_not_follow_is_refused(
    fit, change, tmp_path, monkeypatch
):
    consortium = Consortium(tmp_path, tables(30), fit, samples=10, gamma=(1e-4, 1.0)).join(**ANYTHING).sign()
    tell = replay._tell

    def changed(center, ask):
        honest = ask.asked
        if ask.step == "result":
            ask.asked = lambda: {n: replace(t, scores=replace(t.scores, **change)) for n, t in honest().items()}
        tell(center, ask)

    monkeypatch.setattr(replay, "_tell", changed)
    with pytest.raises(RefusedError, match="'result': the center asked for something that is not in the plan"):
        consortium.finish()


def test_a_name_under_public_that_is_no_party_of_the_plan_is_red(tmp_path):
    consortium = Consortium(tmp_path, tables(30), MODES["open"], samples=10).join(**ANYTHING)
    limits = tmp_path / "airline/limits.toml"
    limits.write_text(Limits(**ANYTHING, public=("registry",)).to_toml())
    assert consortium.at("airline", study.review).green
    limits.write_text(Limits(**ANYTHING, public=("Registry",)).to_toml())
    found = consortium.at("airline", study.review)
    assert not found.green
    assert "RED   public: Registry (must be one of airline, registry, weather)" in found.words()


@pytest.mark.parametrize("mode", ["sums", "blind, gamma from a masked sum"])
def test_a_review_lists_seeds_and_masked_bounds(mode, tmp_path):
    fit = MODES[mode] | {"standardize": False}
    consortium = Consortium(tmp_path, tables(30), fit, samples=10).join(**ANYTHING)
    leaving = {each.what: each for each in consortium.at("airline", study.review).leaving}
    assert leaving["random numbers from which masks and keys follow"].to == "each other party"
    assert leaving["the power of two below which all numbers of all parties are, masked"].bytes > 30_000


def test_an_answer_that_was_signed_and_cannot_be_read_ends_the_study_for_all(tmp_path, monkeypatch):
    consortium = Consortium(tmp_path, tables(30), MODES["open"], samples=10).join(**ANYTHING).sign()
    send = member.Membership.send

    def garbage(self, step, parts, **about):
        bad = [replace(part, content=[b"no message"]) for part in parts]
        return send(self, step, bad if (self.name, step) == ("airline", "summary") else parts, **about)

    monkeypatch.setattr(member.Membership, "send", garbage)
    with pytest.raises(RefusedError, match="center refused at step 'fusion'"):
        consortium.finish()


@pytest.mark.longer
def test_an_answer_to_another_question_ends_the_study_for_all(tmp_path, monkeypatch):
    """Before, only the center knew, and the parties waited for it for ever."""
    consortium = Consortium(tmp_path, tables(30), MODES["open"], samples=10).join(**ANYTHING).sign()
    send = member.Membership.send

    def other(self, step, parts, *, question=plan.NO_QUESTION, **about):
        own = "1" * 64 if (self.name, step) == ("airline", "summary") else question
        return send(self, step, parts, question=own, **about)

    monkeypatch.setattr(member.Membership, "send", other)
    with pytest.raises(RefusedError, match=r"center refused at step 'fusion': .*airline/summary: answers another"):
        consortium.finish()
    with pytest.raises(RefusedError, match="center refused at step 'fusion': the members were told different values"):
        consortium.run("registry")


def test_a_party_that_answers_with_other_columns_than_it_joined_with_is_named(tmp_path, monkeypatch):
    consortium = Consortium(tmp_path, tables(30), MODES["open"], samples=10, align="position").join(**ANYTHING).sign()
    honest = answers.ANSWERS[q.ShapeWanted]

    def more(party, question):
        sent = honest(party, question)
        return replace(sent, n_features=sent.n_features + (party.name == "weather"))

    monkeypatch.setattr(answers, "ANSWERS", {**answers.ANSWERS, q.ShapeWanted: more})
    for name in consortium.names * 2:
        with contextlib.suppress(WaitingError, FusionError):  # the party itself has the false answer, too
            consortium.run(name)
    with pytest.raises(RefusedError, match=r"'weather' answered that its table has \d columns, and joined with"):
        consortium.run("center")


def answered(tmp_path, monkeypatch, asked, altered, **fit):
    """A study in which airline answers one question falsely."""
    consortium = Consortium(tmp_path, tables(30), MODES["open"] | fit, samples=10).join(**ANYTHING).sign()
    honest = answers.ANSWERS[asked]

    def false(party, question):
        sent = honest(party, question)
        return altered(sent) if party.name == "airline" else sent

    monkeypatch.setattr(answers, "ANSWERS", {**answers.ANSWERS, asked: false})
    for name in (*consortium.names, consortium.center) * 4:
        with contextlib.suppress(WaitingError, RefusedError):
            consortium.run(name)
    return consortium


def test_a_mean_over_other_samples_names_its_party(tmp_path, monkeypatch):
    """Before, the center ended in an error about components, told nobody, and all waited for it."""
    fewer = lambda sent: replace(sent, n_samples=1)  # noqa: E731
    here = answered(tmp_path, monkeypatch, q.StatisticsWanted, fewer, gamma="scale", standardize=False)
    with pytest.raises(RefusedError, match="'airline' sent a mean of 1 samples, not"):
        here.run("center")
    with pytest.raises(RefusedError, match="center refused at step 'fusion'"):
        here.run("weather")


def test_seeds_for_another_reader_end_the_study_for_all(tmp_path, monkeypatch):
    """Before, the reader ended without a word, and all waited for it."""
    astray = lambda sent: {name: replace(seed, to="nobody") for name, seed in sent.items()}  # noqa: E731
    here = answered(tmp_path, monkeypatch, q.SeedsWanted, astray, protect="sums")
    with pytest.raises(
        RefusedError, match="registry refused at step 'seeds'.*airline: its seeds are not for registry"
    ):
        here.run("registry")
    with pytest.raises(RefusedError, match="refused at step 'seeds'"):
        here.run("center")


def test_fewer_samples_than_components_end_the_study_for_all(tmp_path):
    """Before, each member ended in the same error, and nobody had refused."""
    given = {name: (ids[:25], X[:25]) for name, (ids, X) in tables(30).items()}
    fit = MODES["open"] | {"n_components": 26}
    here = Consortium(tmp_path, given, fit, samples=10).join(**ANYTHING)
    here.sign()
    for name in (*here.names, here.center) * 3:
        with contextlib.suppress(WaitingError, RefusedError, InputError):
            here.run(name)
    with pytest.raises(InputError, match="n_components is 26, but there are 25 samples; ask for fewer"):
        here.run("airline")
    assert here.status()["refusals"][0].startswith("center refused at step 'fusion'")
    assert here.at("airline", founding.close) == "Plan 1 closed: its keys are deleted."


def test_status_names_whoever_is_next_where_nobody_lacks_a_step(tmp_path):
    """Before, it said that nobody was waited for."""
    here = Consortium(tmp_path, tables(30), MODES["open"], samples=10).join(**ANYTHING).sign()
    for name in here.names * 3:
        with contextlib.suppress(WaitingError):
            here.run(name)
    assert here.status()["waiting"] == {"result": ["center"]}
    with contextlib.suppress(WaitingError):
        here.run("center")
    assert here.status()["waiting"] == {"result": list(here.names)}


def test_a_pipe_that_takes_a_files_place_is_not_waited_for(tmp_path):
    (tmp_path / "airline").mkdir()
    path = tmp_path / "airline/signature-1"
    path.write_text("whole")
    folder = Folder(str(tmp_path))
    about = folder._fs.info(str(path))
    path.unlink()
    os.mkfifo(path)
    folder._fs.info = lambda path: about
    with pytest.raises(StorageError, match="is not a plain file of known size"):
        folder.read("airline/signature-1", 100)


def test_a_folder_of_no_member_wakes_nobody_and_the_last_day_does(tmp_path, monkeypatch):
    actors = Actors(tmp_path / "folder", tmp_path / "own").ready()
    seat = actors.member("airline")
    before = founding.footprint(seat)
    (tmp_path / "folder/zzz").mkdir()
    (tmp_path / "folder/zzz/file").write_text("x")
    assert founding.footprint(actors.member("airline")) == before
    monkeypatch.setattr(plan.Plan, "is_over", property(lambda self: True))
    assert founding.footprint(actors.member("airline")) != before


def test_a_lost_file_of_its_own_wakes_a_member_that_waits(tmp_path):
    """Before, all waited for ever for a file that one command would have written again."""
    actors = Actors(tmp_path / "folder", tmp_path / "own").ready()
    seat = actors.member("airline")
    before = founding.footprint(seat)
    (tmp_path / "folder/airline/signature-1").unlink()
    assert founding.footprint(seat) != before


def moved(root, here, there):
    return lambda: (root / here).rename(root / there)


class TestWatching:
    """`run --watch`, with the processes that it starts and its pauses replaced by what happens meanwhile."""

    @pytest.fixture
    def watched(self, tmp_path, monkeypatch):
        actors = Actors(tmp_path / "folder", tmp_path / "own").ready()
        kept = actors.kept("airline")
        for name, data in {"name": b"airline", "folder": str(tmp_path / "folder").encode()}.items():
            kept.replace(name, data)

        def watch(codes, *pauses):
            """The exit code, once the processes have ended so and this has happened in the pauses, one by one."""
            meanwhile, ends, slept = iter(pauses), iter(codes), []

            def sleep(seconds):
                slept.append(seconds)
                next(meanwhile)()

            def ended(*_, **__):
                assert (tmp_path / "folder").exists()  # nothing is started before it is back
                end = next(ends)
                code = end() if callable(end) else end
                return subprocess.CompletedProcess([], code)

            monkeypatch.setattr("dkpca.cli.studies.time.sleep", sleep)
            monkeypatch.setattr("dkpca.cli.studies.subprocess.run", ended)
            return studies._watch(str(tmp_path / "folder"), tmp_path / "own/airline", False), slept

        return watch

    def test_goes_on_where_the_folder_is_away_for_a_while(self, watched, tmp_path):
        away, back = moved(tmp_path, "folder", "away"), moved(tmp_path, "away", "folder")
        add = lambda: (tmp_path / "folder/weather/seeds").write_bytes(b"1")  # noqa: E731
        nothing = lambda: None  # noqa: E731
        code, slept = watched([75, 0], away, nothing, back, add)
        assert code == 0
        assert slept == sorted(slept)  # slowing down

    def test_goes_on_where_the_folder_went_away_under_a_command(self, watched, tmp_path):
        away, back = moved(tmp_path, "folder", "away"), moved(tmp_path, "away", "folder")
        add = lambda: (tmp_path / "folder/weather/seeds").write_bytes(b"1")  # noqa: E731
        code, _ = watched([75, lambda: away() and 1, 0], add, back)
        assert code == 0

    def test_ends_where_the_first_look_finds_no_folder(self, watched, tmp_path):
        (tmp_path / "folder").rename(tmp_path / "away")
        with pytest.raises(InputError, match="there is no such folder"):
            watched([])


def test_odd_letters_in_a_fingerprint_and_in_the_path_of_a_folder_are_only_letters(tmp_path):
    assert not is_fingerprint("\udcff", "ab" * 32)
    odd = str(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")))
    consortium = Consortium(tmp_path, tables(30), MODES["open"], samples=10, url=odd).join(**ANYTHING)
    assert consortium.at("airline", study.review).green


def test_a_table_whose_numbers_overflow_under_the_plans_widths_counts_as_recovered(tmp_path):
    given = {name: (ids, X * (1e-170 if name == "airline" else 1.0)) for name, (ids, X) in tables(30).items()}
    fit = {"kernel": "rbf", "gamma": "scale", "n_components": 2}
    consortium = Consortium(tmp_path, given, fit, samples=10, gamma=(5e-324, 1e308)).join(**ANYTHING)
    assert set(consortium.at("airline", study.review).columns.values()) == {1.0}


def test_the_header_of_a_question_is_small():
    data = container.pack({"question": "TokensWanted", "fields": [[]] * 200_000}, {}, entry=container.MESSAGE)
    with pytest.raises(WireError, match="not a whole dkpca file"):
        q.decode(data)


@pytest.mark.parametrize("url", ["sftp://me:s3cret/x@host/y", "webdav+https://me:s3cret\uff0fx@host/y"])
def test_a_password_with_a_slash_is_not_shown(url):
    with pytest.raises(InputError, match="a URL with a password is refused") as error:
        Folder(url)
    assert "s3cret" not in str(error.value)
