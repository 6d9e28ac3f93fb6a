"""A folder whose host cuts, alters, swaps, replays, squats, hides and rolls back: refused by name, or waited for."""

import datetime
import os
import shutil
import tracemalloc
from dataclasses import replace

import psutil
import pytest

from dkpca.cli.studies import _when
from dkpca.errors import DKPCAError, InputError, ProtectionError, StorageError
from dkpca.exchange import founding
from dkpca.exchange import plan as plans
from dkpca.exchange.folder import MOST_FILES, Folder
from dkpca.exchange.identity import Secrets, is_signed
from dkpca.exchange.member import RefusedError, WaitingError
from dkpca.exchange.memory import Memory
from dkpca.exchange.plan import Study
from dkpca.exchange.sealed import Part
from testkit.studies import PARTIES, Actors, a_plan

MUCH = 10**7


@pytest.fixture
def actors(tmp_path):
    return Actors(tmp_path / "folder", tmp_path / "own").ready()


@pytest.fixture
def where(tmp_path):
    return tmp_path / "folder"


def send(actors, name="airline", step="summary", content=b"numbers of the airline", **how):
    actors.member(name).send(step, [Part("all", ("center",), [content])], **how)


def received(actors, writer="airline", step="summary", reader="center", **how):
    return actors.member(reader).receive(writer, step, "all", at_most=MUCH, **how).read_bytes()


class TestOneFile:
    def test_arrives_as_it_was_sent(self, actors):
        send(actors)
        assert received(actors) == b"numbers of the airline"

    def test_cut_short_is_waited_for(self, actors, where):
        send(actors)
        path = where / "airline" / "summary"
        whole = path.read_bytes()
        for length in (0, 1, 20, 200, len(whole) - 1):
            path.write_bytes(whole[:length])
            with pytest.raises(WaitingError, match="airline"):
                received(actors)
        path.write_bytes(whole)
        assert received(actors)

    @pytest.mark.parametrize("position", [3, 60, 300, -70, -1])
    def test_altered_is_refused_by_name(self, actors, where, position):
        send(actors)
        path = where / "airline" / "summary"
        data = bytearray(path.read_bytes())
        data[position] ^= 4
        path.write_bytes(data)
        with pytest.raises(ProtectionError, match="airline/summary"):
            received(actors)

    def test_swapped_with_another_members_is_refused(self, actors, where):
        for name in ("airline", "weather"):
            send(actors, name, content=name.encode())
        shutil.copy(where / "weather" / "summary", where / "airline" / "summary")
        with pytest.raises(ProtectionError, match="airline/summary: is weather's answer"):
            received(actors)

    def test_swapped_with_another_steps_is_refused(self, actors, where):
        send(actors, step="tokens")
        send(actors, step="summary")
        shutil.copy(where / "airline" / "tokens", where / "airline" / "summary")
        with pytest.raises(ProtectionError, match="for step 'tokens', in the wrong place"):
            received(actors)

    def test_of_another_kind_is_refused(self, actors):
        send(actors, kind="question")
        with pytest.raises(ProtectionError, match="in the wrong place"):
            received(actors)

    def test_of_a_kind_that_a_terminal_would_obey_is_named_without_that(self, actors):
        send(actors, kind="\x1b[2Jnothing")
        with pytest.raises(ProtectionError, match="in the wrong place") as error:
            received(actors)
        assert "\x1b" not in str(error.value)

    def test_for_another_question_is_refused(self, actors):
        send(actors, question="ab" * 32)
        with pytest.raises(ProtectionError, match="answers another question"):
            received(actors)

    def test_of_another_study_is_refused(self, actors, where, tmp_path):
        others = Actors(tmp_path / "other", tmp_path / "other own", actors.plan).ready()
        send(others)
        (where / "airline").joinpath("summary").write_bytes((tmp_path / "other/airline/summary").read_bytes())
        with pytest.raises(ProtectionError, match="airline/summary: is not signed by 'airline'"):
            received(actors)

    def test_seen_once_counts_whatever_the_folder_shows_later(self, actors, where):
        send(actors)
        first = received(actors)
        (where / "airline" / "summary").write_bytes(b"something else")
        assert received(actors) == first
        (where / "airline" / "summary").unlink()
        assert received(actors) == first

    def test_no_other_members_key_opens_it(self, actors):
        send(actors)
        with pytest.raises(ProtectionError, match="sealed to center only"):
            received(actors, reader="weather")

    def test_a_folder_or_a_pipe_in_its_place_is_not_opened(self, actors, where):
        (where / "airline" / "summary").mkdir()
        with pytest.raises(WaitingError, match="airline"):
            received(actors)
        (where / "airline" / "summary").rmdir()
        os.mkfifo(where / "airline" / "summary")
        with pytest.raises(WaitingError, match="airline"):
            received(actors)
        with pytest.raises(StorageError, match="not a plain file"):
            actors.folder.read("airline/summary", 10)

    def test_a_link_in_the_place_of_a_member_or_of_its_file_is_refused_by_name(self, actors, where, tmp_path):
        (where / "airline").rename(tmp_path / "elsewhere")
        (where / "airline").symlink_to(tmp_path / "elsewhere")
        for act in (lambda: send(actors), lambda: actors.folder.listing("airline")):
            with pytest.raises(StorageError, match=r"/airline: is a link to another place, not a member's folder"):
                act()
        (where / "airline").unlink()
        (tmp_path / "elsewhere").rename(where / "airline")
        (where / "airline" / "member.toml").rename(tmp_path / "member.toml")
        (where / "airline" / "member.toml").symlink_to(tmp_path / "member.toml")
        with pytest.raises(StorageError, match=r"airline/member.toml: is not a plain file"):
            actors.seen()


class TestHugeFiles:
    def used(self, act):
        before = psutil.Process().memory_info().rss
        with pytest.raises(DKPCAError):
            act()
        return psutil.Process().memory_info().rss - before

    def test_a_huge_file_of_a_stranger_takes_no_memory(self, actors, where):
        with (where / "airline" / "summary").open("wb") as file:
            file.truncate(2**40)
        assert self.used(lambda: received(actors)) < 5e7

    def test_a_huge_file_of_a_member_is_refused_by_what_it_declares(self, actors):
        send(actors, content=b"x" * (MUCH + 1))
        assert self.used(lambda: received(actors)) < 5e7
        assert not list((actors.root / "center").rglob("opened/*"))

    def test_huge_member_plan_and_signature_files_take_no_memory(self, tmp_path):
        actors = Actors(tmp_path / "folder", tmp_path / "own")
        actors.found_and_join()
        for name in ("center/plan-1.toml", "airline/member.toml"):
            path = tmp_path / "folder" / name
            kept = path.read_bytes()
            with path.open("wb") as file:
                file.truncate(2**40)
            assert self.used(actors.seen) < 5e7
            path.write_bytes(kept)
        actors.sign()
        with (tmp_path / "folder" / "airline" / "signature-1").open("wb") as file:
            file.truncate(2**40)
        assert self.used(lambda: actors.member("weather")) < 5e7

    @pytest.mark.longer
    def test_a_large_body_goes_through_in_pieces(self, actors):
        content = os.urandom(2**20) * 60
        send(actors, content=memoryview(content))
        path = actors.member("center").receive("airline", "summary", "all", at_most=2**27)
        assert path.read_bytes() == content


class TestManyFiles:
    """A member's folder that its host, or the member, fills with files."""

    @pytest.fixture
    def filled(self, where, actors):
        for number in range(MOST_FILES):
            (where / "airline" / f"junk-{number}").touch()
        return actors

    def peak(self, act):
        tracemalloc.start()
        try:
            act()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    @pytest.mark.longer
    def test_are_not_listed_beyond_what_the_plan_has_steps_for(self, filled):
        with pytest.raises(StorageError, match=f"has more than {MOST_FILES} files"):
            filled.member("center").has("airline", "summary")
        assert replace(filled.plan, batches=9).most_files > MOST_FILES + 9 * 20

    @pytest.mark.longer
    def test_take_no_memory_before_they_are_refused(self, filled):
        """The careless twin lists them all first."""

        def careful():
            with pytest.raises(StorageError, match="has more than 200 files"):
                filled.folder.listing("airline", 200)

        assert self.peak(careful) < 0.1 * self.peak(lambda: filled.folder.listing("airline", 10**6))

    @pytest.mark.longer
    def test_do_not_hide_a_plan(self, filled, where):
        for number in range(MOST_FILES):
            (where / "center" / f"junk-{number}").touch()
        assert founding.plan_in(filled.folder).plan == filled.plan


class TestWhatLiesInOurPlace:
    def test_a_squatted_file_is_named_and_stays(self, actors, where):
        (where / "airline" / "summary").write_bytes(b"squatted")
        with pytest.raises(ProtectionError, match="airline/summary"):
            send(actors)
        assert (where / "airline" / "summary").read_bytes() == b"squatted"

    def test_another_file_after_it_was_sent_is_named(self, actors, where):
        send(actors)
        (where / "airline" / "summary").write_bytes(b"squatted")
        with pytest.raises(ProtectionError, match="another file has replaced this member's"):
            send(actors)

    def test_a_file_that_the_host_hides_is_sent_again_byte_for_byte(self, actors, where):
        send(actors)
        first = (where / "airline" / "summary").read_bytes()
        (where / "airline" / "summary").unlink()
        send(actors)
        assert (where / "airline" / "summary").read_bytes() == first

    def test_other_content_for_an_answered_step_never_leaves(self, actors, where):
        send(actors)
        first = (where / "airline" / "summary").read_bytes()
        (where / "airline" / "summary").unlink()
        send(actors, content=b"other numbers")  # what was recorded counts
        assert (where / "airline" / "summary").read_bytes() == first

    def test_another_question_for_an_answered_step_is_refused(self, actors, where):
        send(actors, question="ab" * 32)
        shutil.rmtree(where / "airline")
        with pytest.raises(ProtectionError, match="another question"):
            send(actors, question="cd" * 32)
        assert not (where / "airline").exists()


class TestRestoredFolders:
    """A member's own folder that was put back from a copy, or is used twice."""

    def test_no_step_is_answered_again(self, actors, where, tmp_path):
        shutil.copytree(actors.root / "airline", tmp_path / "copy")
        send(actors)
        first = (where / "airline" / "summary").read_bytes()
        shutil.rmtree(actors.root / "airline")
        shutil.copytree(tmp_path / "copy", actors.root / "airline")
        for other in ({}, {"content": b"other numbers"}, {"question": "ab" * 32}):
            with pytest.raises(ProtectionError, match="restored"):
                send(actors, **other)
        assert (where / "airline" / "summary").read_bytes() == first

    def test_secrets_are_the_same_ones(self, actors, tmp_path):
        me = actors.kept("airline").secrets()
        shutil.copytree(actors.root / "airline", tmp_path / "copy")
        other = Memory(tmp_path / "copy").study(actors.plan.id).secrets()
        assert me.derive("seeds", "weather") == other.derive("seeds", "weather")

    def test_a_folder_from_before_joining_is_another_member(self, actors, tmp_path):
        shutil.rmtree(actors.root / "airline")
        (actors.root / "airline").mkdir()
        said = plans.make_member("airline", actors.kept("airline").secrets(), actors.plan, 4)
        assert said.to_toml() != actors.folder.read("airline/member.toml", 4096)


class TestPlanAndSignatures:
    def test_one_byte_of_the_plan_changes_the_fingerprint(self, actors):
        study = actors.seen()
        other = Study(1, study.raw_plan + b"\n", study.raw_members)
        assert other.fingerprint != study.fingerprint
        assert Study(2, study.raw_plan, study.raw_members).fingerprint != study.fingerprint

    def test_a_member_who_saw_another_plan_is_noticed(self, tmp_path):
        actors = Actors(tmp_path / "folder", tmp_path / "own")
        actors.found_and_join()
        actors.sign("center", "airline", "registry")
        path = tmp_path / "folder/center/plan-1.toml"
        path.write_bytes(path.read_bytes().replace(b"samples = 10", b"samples = 11"))
        actors.sign("weather")
        with pytest.raises(ProtectionError, match="weather is for another plan or other members"):
            actors.member("airline")
        with pytest.raises(ProtectionError, match="center is for another plan"):
            actors.member("weather")

    def test_another_identity_under_a_members_name_is_noticed(self, tmp_path):
        actors = Actors(tmp_path / "folder", tmp_path / "own")
        actors.found_and_join()
        before = actors.seen().fingerprint
        impostor = plans.make_member("airline", Secrets(os.urandom(32), os.urandom(32)), actors.plan, 4)
        (tmp_path / "folder/airline/member.toml").write_bytes(impostor.to_toml())
        assert actors.seen().fingerprint != before  # what people compare

    def test_two_members_with_one_identity_are_refused(self, tmp_path):
        actors = Actors(tmp_path / "folder", tmp_path / "own")
        actors.found_and_join()
        twin = actors.folder.read("airline/member.toml", 4096).replace(b'"airline"', b'"weather"')
        (tmp_path / "folder/weather/member.toml").write_bytes(twin)
        with pytest.raises(ProtectionError, match="same identity"):
            actors.seen()

    @pytest.mark.parametrize(
        "identity",
        [
            "01" + "00" * 31,
            "00" * 32,
            "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
            "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
        ],
    )
    def test_an_identity_of_small_order_under_which_anybody_signs_is_refused(self, actors, identity):
        signed = [is_signed(str(number).encode(), b"\1" + bytes(63), identity) for number in range(200)]
        assert sum(signed) > 10
        raw = actors.folder.read("airline/member.toml", 4096)
        own = actors.kept("airline").secrets().public.encode()
        with pytest.raises(ProtectionError, match="airline: its keys cannot be used"):
            plans.read_member(raw.replace(own, identity.encode()), "airline", actors.plan.id)

    def test_a_member_file_of_another_study_is_refused(self, tmp_path, actors):
        others = Actors(tmp_path / "other", tmp_path / "other own")
        others.found_and_join()
        raw = others.folder.read("airline/member.toml", 4096)
        with pytest.raises(ProtectionError, match="another member or study"):
            Study(1, actors.seen().raw_plan, dict(actors.seen().raw_members) | {"airline": raw}).members["airline"]

    def test_nothing_leaves_before_all_signatures_are_there(self, tmp_path):
        actors = Actors(tmp_path / "folder", tmp_path / "own")
        actors.found_and_join()
        actors.sign("center", "airline", "registry")
        with pytest.raises(WaitingError, match="weather"):
            actors.member("airline")

    def test_half_a_signature_is_waited_for(self, actors, where):
        path = where / "weather" / "signature-1"
        path.write_bytes(path.read_bytes()[:-5])
        with pytest.raises(WaitingError, match="weather"):
            actors.member("airline")

    def test_a_signature_under_another_name_is_refused(self, actors, where):
        shutil.copy(where / "weather" / "signature-1", where / "airline" / "signature-1")
        with pytest.raises(ProtectionError, match="the signature of airline"):
            actors.member("center")

    def test_the_agreement_stays_what_it_was(self, actors, where):
        first = actors.member("center").study.agreement
        (where / "weather" / "signature-1").write_bytes(b"rolled back")
        assert actors.member("center").study.agreement == first

    def test_the_same_plan_in_two_folders_is_two_agreements(self, actors, tmp_path):
        others = Actors(tmp_path / "other", tmp_path / "other own", actors.plan).ready()
        assert others.member("center").study.agreement != actors.member("center").study.agreement

    def test_a_member_who_signs_two_things_for_two_readers_splits_the_agreement(self, actors, where):
        center = actors.member("center").study.agreement
        study, me = actors.seen(), actors.kept("weather").secrets()
        other = plans.make_signature(study, "weather", me, "11" * 32)
        (where / "weather" / "signature-1").write_bytes(other)
        airline = actors.member("airline").study.agreement
        assert airline != center
        send(actors)
        with pytest.raises(ProtectionError, match="another agreement"):
            received(actors)

    def test_a_nonce_is_revealed_as_committed(self, actors):
        study, me = actors.seen(), actors.kept("weather").secrets()
        other = Secrets(me.identity, os.urandom(32))  # grinding: another nonce under the same identity
        with pytest.raises(ProtectionError, match="a nonce that it had not committed to"):
            plans.check_signature(plans.make_signature(study, "weather", other, "00" * 32), "weather", study)

    def test_signing_twice_writes_the_same_bytes(self, actors):
        study, me = actors.seen(), actors.kept("weather").secrets()
        assert plans.make_signature(study, "weather", me, "00" * 32) == actors.folder.read(
            "weather/signature-1", 10**5
        )


class TestThePlan:
    def test_round_trips_with_every_field(self):
        plan = a_plan(fit={"protect": "sums", "kernel": {"airline": "rbf"}, "gamma": 0.5, "center": True})
        assert plans.read_plan(plan.to_toml()) == plan

    @pytest.mark.parametrize("line", ["samples", "ends", "gamma", "batches", "result_to", "align", "id"])
    def test_a_missing_key_is_refused(self, line):
        lines = [each for each in a_plan().to_toml().decode().splitlines() if not each.startswith(line)]
        with pytest.raises(InputError, match=f"lacks the keys {line}"):
            plans.read_plan("\n".join(lines).encode())

    def test_an_unknown_key_is_refused(self):
        with pytest.raises(InputError, match="unknown keys extra"):
            plans.read_plan(b"extra = 1\n" + a_plan().to_toml())

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            (b"samples = 10", b"samples = true"),
            (b"samples = 10", b"samples = 1"),
            (b"gamma = [0.001, 1.0]", b"gamma = [1.0, 0.001]"),
            (b"gamma = [0.001, 1.0]", b"gamma = [0.0, inf]"),
            (b"ends = 2999-01-01", b"ends = 2999-01-01T00:00:00"),
            (b'"weather"', b'"Weather"'),
            (b'"weather"', b'"con"'),
            (b'"weather"', b'"../x"'),
            (b'"weather"', b'"airline"'),
            (b'"weather"', b'"center"'),
            (b'result_to = ["center"', b'result_to = ["nobody"'),
            (b"batches = 0", b"batches = 1"),
            (b"version = 2", b"version = 3"),
        ],
    )
    def test_values_that_cannot_be_are_refused(self, old, new):
        raw = a_plan().to_toml()
        assert old in raw
        with pytest.raises(InputError):
            plans.read_plan(raw.replace(old, new))

    @pytest.mark.parametrize("key", ["parties", "fit.kernel", "fit.gamma", "zz"])
    @pytest.mark.parametrize("part", ["a", '"b c"', "'b c'", '"\\""', "[", "{ a ="])
    def test_nested_too_deep_is_one_sentence(self, key, part, tmp_path):
        deep = f".{'.'.join([part] * 20000)} = 1" if part[0] not in "[{" else f" = {part * 20000}"
        lines = [
            line for line in a_plan().to_toml().decode().splitlines() if not line.startswith(("parties", "[fit"))
        ]
        folder = Folder(str(tmp_path))
        folder.write("center/plan-1.toml", "\n".join([f"{key}{deep}", *lines]).encode())
        with pytest.raises(InputError, match="plan-1.toml: the plan has tables inside tables") as refused:
            founding.plan_in(folder)
        assert len(str(refused.value)) < len(folder.url) + 120

    def test_batches_need_the_result_at_all_parties(self):
        """A party without it could answer none, and the others would wait for ever."""
        raw = a_plan(result_to=("center", "airline"), batches=1, batch_samples=10).to_toml()
        with pytest.raises(InputError, match="the plan: batches of new samples need the result at all parties"):
            plans.read_plan(raw)

    def test_no_toml_is_one_sentence_without_its_content(self):
        for raw in (b"secret = = 1", b"secret = \xff", b"secret = 1\nsecret = 2"):
            with pytest.raises(InputError, match="the plan is not a TOML file") as refused:
                plans.read_plan(raw)
            assert "secret" not in str(refused.value)

    @pytest.mark.parametrize("line", ["batches = 0x" + "f" * 9000, "gamma = [1, 0x" + "f" * 9000 + "]"])
    def test_numbers_of_thousands_of_digits_are_refused(self, line):
        key = line.partition(" ")[0]
        lines = [each for each in a_plan().to_toml().decode().splitlines() if not each.startswith(f"{key} =")]
        with pytest.raises(InputError, match="the plan has a number of thousands of digits; do not sign it"):
            plans.read_plan("\n".join([line, *lines]).encode())

    def test_a_member_file_nested_too_deep_is_one_sentence(self, actors):
        raw = actors.folder.read("airline/member.toml", 4096).replace(b"columns", b"columns" + b".a" * 1500)
        with pytest.raises(InputError, match="the member file of airline has tables inside tables"):
            plans.read_member(raw, "airline", actors.plan.id)

    @pytest.mark.parametrize("name", ["all", "plan"])
    def test_members_do_not_have_the_names_of_what_is_for_all(self, name):
        for plan in (a_plan(parties=(name, "registry")), a_plan(center=name, result_to=(name,))):
            with pytest.raises(InputError, match=f"member name '{name}' is reserved"):
                plans.read_plan(plan.to_toml())

    def test_masked_sums_need_three_parties_besides_the_center(self):
        raw = a_plan(PARTIES[:2], fit={"protect": "sums"}).to_toml()
        with pytest.raises(InputError, match="needs 3 parties"):
            plans.read_plan(raw)

    def test_nothing_is_answered_after_the_last_day(self):
        with pytest.raises(InputError, match="ended on"):
            plans.check_end(a_plan(ends=datetime.date(2020, 1, 1)))


class TestRefusals:
    def test_everybody_stops_waiting(self, actors):
        with pytest.raises(RefusedError, match="weather refused"):
            actors.member("weather").refuse("go", "limits")
        for name in ("center", "airline"):
            with pytest.raises(RefusedError, match="weather refused at step 'go': the study exceeds its limits"):
                actors.member(name).check_refusals()

    def test_has_no_figures(self, actors, where):
        with pytest.raises(RefusedError):
            actors.member("weather").refuse("go", "limits")
        assert (where / "weather/refusal").read_bytes().endswith(b'{"step": "go", "reason": "limits"}')

    def test_nested_too_deep_is_a_refusal_like_any_other(self, actors):
        actors.member("weather").send("refusal", [Part("all", (), [b"[" * 16000])], kind="refusal")
        with pytest.raises(RefusedError, match="weather refused at step '\\?': it gave no known reason"):
            actors.member("center").check_refusals()

    def test_cannot_be_forged_or_replayed(self, actors, where, tmp_path):
        others = Actors(tmp_path / "other", tmp_path / "other own").ready()
        with pytest.raises(RefusedError):
            others.member("weather").refuse("go", "limits")
        shutil.copy(tmp_path / "other/weather/refusal", where / "weather/refusal")
        (note,) = actors.member("center").check_refusals()
        assert note.startswith("weather/refusal: is not signed by 'weather'")


class TestFolders:
    @pytest.mark.parametrize("url", ["sftp://me:secret@host/x", "webdav+https://me:secret@host/x", "s3://a:b@host/x"])
    def test_a_url_with_a_password_is_refused(self, url):
        with pytest.raises(InputError, match="password") as error:
            Folder(url).members()
        assert "secret" not in str(error.value)

    @pytest.mark.parametrize("name", ["../x", "a/../x", "A/x", "a/.hidden", "con/x", "a//x", "", "a/x\n"])
    def test_names_that_are_none_are_refused(self, tmp_path, name):
        with pytest.raises(InputError):
            Folder(str(tmp_path)).read(name, 10)

    def test_a_new_file_is_seen_at_once(self, tmp_path):
        folder, other = Folder(str(tmp_path)), Folder(str(tmp_path))
        assert folder.listing("a") == {}
        assert other.write("a/x", b"1")
        assert list(folder.listing("a")) == ["x"]
        assert not folder.write("a/x", b"2")
        assert folder.read("a/x", 1) == b"1"

    def test_copies_of_sync_clients_and_unfinished_files_are_ignored(self, tmp_path):
        (tmp_path / "a").mkdir()
        for name in ("x", "x (conflicted copy 2026-11-17)", ".x.ab12.part", "x.part", "X", "Thumbs.db"):
            (tmp_path / "a" / name).write_bytes(b"1")
        assert list(Folder(str(tmp_path)).listing("a")) == ["x"]

    def test_a_disk_that_refuses_is_one_sentence(self, tmp_path):
        (tmp_path / "a").write_bytes(b"")
        with pytest.raises(StorageError, match="the folder cannot be used"):
            Folder(str(tmp_path)).write("a/x", b"1")


@pytest.mark.parametrize("seconds", [1e20, -1e15, float("nan"), float("inf")])
def test_a_time_that_cannot_be_is_shown_as_one(seconds):
    assert _when(seconds) == "an impossible date"
