"""A member's own folder: killed at any write, a full disk, two commands at once, no fcntl."""

import os
import resource
import signal
import sqlite3
import stat
import subprocess
import sys
from unittest import mock

import pytest

from dkpca.errors import DKPCAError, InputError, StorageError
from dkpca.exchange import founding, own_table, study
from dkpca.exchange import plan as plans
from dkpca.exchange.member import Membership, WaitingError
from dkpca.exchange.memory import Memory
from dkpca.exchange.sealed import Part
from dkpca.party import limits
from dkpca.store import party_file
from dkpca.store.storage import write
from testkit import dying
from testkit.program import in_process as command
from testkit.studies import ANYTHING, Actors, Consortium, a_plan
from tests.study.test_a_study import MODES, tables


def in_a_child(act, *, dies_at=0):
    """Run in a fork; return its exit code, negative for a signal."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            if dies_at:
                dying.at_call(dies_at)
            act()
            code = 0
        except DKPCAError as error:
            print(error, file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def exchange_step(actors, content=b"numbers of the airline"):
    actors.member("airline").send("summary", [Part("all", ("center",), [content])])
    return actors.member("center").receive("airline", "summary", "all", at_most=1000).read_bytes()


def steps_in(memory):
    return [line["step"] for line in memory.ledger() if line["event"] == "sent"]


@pytest.mark.slow
def test_killed_at_every_write_and_repeated_it_ends_with_the_same_content(tmp_path):
    died, at = 0, 0
    while True:
        at += 1
        actors = Actors(tmp_path / f"{at}", tmp_path / f"own {at}").ready()
        code = in_a_child(lambda here=actors: exchange_step(here), dies_at=at)
        left = tmp_path / f"{at}/airline/summary"
        seen = left.read_bytes() if left.exists() else None
        assert exchange_step(actors) == b"numbers of the airline"
        assert seen is None or left.read_bytes() == seen  # nothing is answered twice with other bytes
        assert steps_in(actors.memories["airline"]) == ["summary"]
        if code == 0:
            break
        assert code == -signal.SIGKILL
        died += 1
    assert died > 15


@pytest.mark.longer
def test_killed_while_joining_and_signing_it_signs_the_same(tmp_path):
    at = 0
    while True:
        at += 1
        actors = Actors(tmp_path / f"{at}", tmp_path / f"own {at}")
        code = in_a_child(actors.ready, dies_at=at)
        seen = {p: p.read_bytes() for p in (tmp_path / f"{at}").rglob("[a-z]*") if p.is_file()}
        actors.ready()
        assert all(path.read_bytes() == before for path, before in seen.items())
        actors.member("airline")
        if code == 0:
            break
        at += 6  # there are many writes; each of them is hit by the test above


def test_a_full_disk_is_one_sentence_and_nothing_leaves(tmp_path):
    actors = Actors(tmp_path / "folder", tmp_path / "own").ready()

    def on_a_full_disk():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with pytest.raises(StorageError, match="cannot be written"):
            exchange_step(actors, b"x" * 5000)

    assert in_a_child(on_a_full_disk) == 0
    assert not (tmp_path / "folder/airline/summary").exists()
    assert not list((tmp_path / "own/airline").rglob("*.part"))
    assert actors.memories["airline"].ledger() == []
    assert exchange_step(actors) == b"numbers of the airline"


def test_two_commands_at_once_are_refused(tmp_path):
    memory = Memory(tmp_path)

    def second():
        with pytest.raises(InputError, match="another command is running here"), memory.locked(new=True):
            pass

    with memory.locked(new=True):
        assert in_a_child(second) == 0
    with memory.locked(new=True):
        pass


@pytest.mark.parametrize("before", [False, True])
def test_nobody_else_may_open_the_lock(before, tmp_path):
    """The careless twin: SQLite's own file, which other users of the machine can open, and so hold."""
    old = os.umask(0o022)
    try:
        if before:
            sqlite3.connect(tmp_path / "lock").close()
            assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o644
        with Memory(tmp_path).locked(new=True):
            assert stat.S_IMODE((tmp_path / "lock").stat().st_mode) == 0o600
    finally:
        os.umask(old)


def test_a_command_reads_the_members_a_fixed_number_of_times(tmp_path, monkeypatch):
    """Each file of a member costs dozens of signature checks; once for each look at the folder they were squares."""
    read = mock.Mock(wraps=plans.read_member)
    monkeypatch.setattr(plans, "read_member", read)
    times = []
    for parties in (("a", "b"), ("a", "b", "c", "d", "e", "f")):
        actors = Actors(tmp_path / f"{len(parties)}", tmp_path / f"of-{len(parties)}", a_plan(parties)).ready()
        member = actors.member("a")
        read.reset_mock()
        again = Membership("a", actors.folder, member.memory)
        assert not again.check_refusals()
        assert all(again.has(name, "signature-1") for name in parties)
        times.append(read.call_count / len(actors.plan.members))
    assert times[0] == times[1]


def test_a_killed_command_leaves_no_lock(tmp_path):
    def dies():
        with Memory(tmp_path).locked(new=True):
            os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_child(dies) == -signal.SIGKILL
    with Memory(tmp_path).locked(new=True):
        pass


def test_an_altered_ledger_is_noticed(tmp_path):
    memory = Memory(tmp_path)
    for step in ("tokens", "summary", "audit"):
        memory.study("ab").log({"step": step}, {})
    path = tmp_path / "ledger.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[2])
    with pytest.raises(StorageError, match="line 2 does not follow"):
        memory.ledger()
    path.write_bytes(b"".join(lines) + b'{"cut sho')  # by a crash
    assert steps_in(memory) == ["tokens", "summary", "audit"]
    memory.study("ab").log({"step": "result"}, {})
    assert steps_in(memory) == ["tokens", "summary", "audit", "result"]


def test_private_files_are_readable_by_their_owner_only(tmp_path):
    Memory(tmp_path).study("ab").secrets()
    assert {path.stat().st_mode & 0o777 for path in tmp_path.rglob("*.key")} == {0o600}


def test_closing_deletes_the_keys(tmp_path):
    study = Memory(tmp_path).study("ab")
    study.secrets()
    study.replace("opened/x", b"1")
    study.close()
    assert not (study.path / "seed.key").exists()
    assert not (study.path / "opened").exists()
    with pytest.raises(InputError, match="closed"):
        study.secrets()


@pytest.mark.parametrize(("steps", "counts"), [
    ([], False), (["tokens", "seeds", "ring-2", "refusal"], False), (["tokens", "statistics"], True), (["go"], False),
    (["go", "summary"], True), (["2.go", "2.sums-1"], True),
])  # fmt: skip
def test_a_closed_study_counts_once_numbers_have_left(tmp_path, steps, counts):
    study = Memory(tmp_path).study("ab")
    study.secrets()
    for name in ("left.json", "left.npz", *(f"sent/{step}" for step in steps)):
        study.replace(name, b"1")
    study.close()
    assert (study.kept("left.json") is not None) is counts
    assert (study.kept("left.npz") is not None) is counts


def test_a_closed_study_counts_if_the_ledger_or_the_folder_knows_of_numbers(tmp_path):
    for number, (logged, shown) in enumerate(
        [("sums-1", []), ("tokens", ["tokens", "sums-1"]), ("tokens", ["tokens"]), ("tokens", None)]
    ):
        study = Memory(tmp_path / str(number)).study("ab")
        study.secrets()
        study.replace("left.json", b"1")
        study.log({"agreement": "", "step": logged}, {"bytes": 1})  # what `sent` had is lost
        study.close(shown)
        assert (study.kept("left.json") is None) == (number == 2)


@pytest.fixture
def joined(tmp_path):
    return Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING)


def test_files_of_other_programs_are_no_studies(joined, tmp_path):
    for name in (".DS_Store", "Thumbs.db", "f" * 32):
        (tmp_path / "airline/studies" / name).write_bytes(b"1")
    (tmp_path / "airline/studies/old").mkdir()
    assert [each.path.name for each in joined.memory("airline").studies()] == [joined.plan.id]
    assert joined.at("airline", study.review).green


@pytest.mark.parametrize("name", [".DS_Store", ".shape.0a1b2c3d.part"])
def test_a_dot_file_among_what_was_sent_does_not_make_a_study_count(name, tmp_path):
    study = Memory(tmp_path).study("ab")
    for file in ("left.json", f"sent/{name}", "sent/tokens"):
        study.replace(file, b"1")
    study.close()
    assert study.kept("left.json") is None


def test_a_lost_key_is_not_replaced_in_silence(joined, tmp_path):
    """Before, another key was made, and each member named another one as whoever had altered its files."""
    joined.sign("airline")
    (key,) = tmp_path.glob("airline/studies/*/seed.key")
    key.unlink()
    for act in (study.review, study.run, lambda *_: joined.join("airline")):
        with pytest.raises(StorageError, match=r"seed\.key: is missing; restore it from a backup"):
            joined.at("airline", act)
    assert not key.exists()
    told = joined.at("airline", founding.close, give_up=True)
    assert told.startswith("Plan 1 closed: its keys are deleted; the others could not be told")


def test_a_rename_that_fails_while_a_file_is_open_is_tried_again(tmp_path, monkeypatch):
    from pathlib import Path

    replace, failures = Path.replace, [PermissionError(), PermissionError()]

    def refusing(self, target):  # as Windows does while a scanner has the file open
        if failures:
            raise failures.pop()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", refusing)
    write(tmp_path / "x", b"1")
    assert (tmp_path / "x").read_bytes() == b"1"


def test_the_transport_runs_without_fcntl_and_loads_no_numpy(tmp_path):
    program = (
        "import sys; sys.modules['fcntl'] = None\n"
        "from pathlib import Path\n"
        "from testkit.studies import Actors\n"
        "from dkpca.exchange.sealed import Part\n"
        f"actors = Actors({str(tmp_path / 'folder')!r}, Path({str(tmp_path / 'own')!r})).ready()\n"
        "with actors.memories['airline'].locked():\n"
        "    actors.member('airline').send('summary', [Part('all', ('center',), [b'1'])])\n"
        "print(actors.member('center').receive('airline', 'summary', 'all', at_most=9).read_bytes())\n"
        "assert not {'numpy', 'polars', 'sklearn'} & set(sys.modules)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (run.stdout, run.stderr) == ("b'1'\n", "")


def test_notes_are_printed_without_what_a_terminal_takes_for_a_command(tmp_path, monkeypatch):
    waiting = WaitingError("go", "center")
    waiting.add_note("ignored: \x1b[2J\nDone: sign this")
    monkeypatch.setattr(study, "run", mock.Mock(side_effect=waiting))
    words = ["study", "run", "shared", "--as", "airline"]
    assert command(*words, cwd=tmp_path).out.startswith("note: ignored: ?[2J Done: sign this\nWaiting for center")
    told = {"result": "x", "notes": ["\x1b[2J"], "batches_left_to_place": 0}
    monkeypatch.setattr(study, "run", mock.Mock(return_value=told))
    assert command(*words, cwd=tmp_path).out == "note: ?[2J\nDone: x\n"


class TestLimits:
    @pytest.fixture
    def read(self, tmp_path):
        def read(text):
            (tmp_path / "limits.toml").write_text(text)
            return party_file.read_limits(tmp_path / "limits.toml")

        return read

    def test_what_join_writes_is_read_back(self, read):
        assert read(limits.Limits().to_toml()) == limits.Limits()

    def test_an_empty_file_allows_nothing(self, read):
        with pytest.raises(InputError, match="limits.toml lacks audit_rows, batches"):
            read("")

    def test_a_misspelled_limit_is_refused(self, read):
        with pytest.raises(InputError, match="limits.toml does not know recovry; the settings are recovery"):
            read(limits.Limits().to_toml().replace("recovery =", "recovry ="))

    @pytest.mark.parametrize(
        "line", ["recovery = 1.5", "recovery = nan", "studies = true", "rank = 0", 'protect = "x"', "protect = []"]
    )
    def test_values_that_cannot_be_are_refused(self, read, line):
        key = line.partition(" ")[0]
        lines = [each for each in limits.Limits().to_toml().splitlines() if not each.startswith(f"{key} =")]
        with pytest.raises(InputError, match=key):
            read("\n".join([*lines, line]))


class TestWrongPlaces:
    """A folder in the place of DIR that is not the member's own: named, and left as it is."""

    @pytest.fixture
    def created(self, tmp_path):
        return Consortium(tmp_path, tables(20), MODES["open"], samples=10)

    def said(self, created, *words):
        before = {path: path.is_file() and path.read_bytes() for path in created.root.rglob("*")}
        answer = command("study", *words, cwd=created.root)
        assert answer.code == 1
        assert {path: path.is_file() and path.read_bytes() for path in created.root.rglob("*")} == before
        return answer.err

    @pytest.mark.parametrize("name", ["review", "run", "close"])
    @pytest.mark.parametrize("own", ["shared", "moved"])
    def test_is_not_locked(self, own, name, created):
        how = "pass the one you joined with as --as (its new place, if it was moved), or run 'dkpca study join'"
        assert f"{own}: is not a member's own folder; {how}" in self.said(created, name, "shared", "--as", own)

    @pytest.mark.parametrize("own", ["shared", "shared/airline"])
    def test_gets_no_keys(self, own, created):
        words = ["join", "shared", "--name", "airline", "--as", own, "--table", "airline.csv", "--id", "id"]
        why = f"{own}: is shared with the other members; pass a folder on your own disk as --as"
        assert why in self.said(created, *words)
        words[1] = f"file://{created.url}"
        assert why in self.said(created, *words)
        words = ["create", "other", "--name", "center", "--member", "a", "--member", "b", "--as", "shared"]
        assert "shared: is shared with the other members" in self.said(created, *words)

    def test_a_join_that_fails_leaves_no_party_toml(self, created, tmp_path, monkeypatch):
        words = ["study", "join", "shared", "--as", "airline", "--id", "id"]
        (tmp_path / "other.csv").write_text((tmp_path / "airline.csv").read_text())
        monkeypatch.setattr(own_table, "load", mock.Mock(side_effect=InputError("nothing to compute with")))
        assert "nothing to compute with" in command(*words, "--table", "other.csv", cwd=tmp_path).err
        assert not (tmp_path / "airline/party.toml").exists()
        monkeypatch.undo()
        assert command(*words, "--table", "airline.csv", cwd=tmp_path).code == 0


def test_a_last_day_that_is_over_is_refused(tmp_path):
    words = ["study", "create", "shared", "--as", "center", "--name", "center", "--member", "a", "--member", "b"]
    answer = command(*words, "--ends", "2020-01-31", cwd=tmp_path)
    assert answer.err == "dkpca: ends: 2020-01-31 is over; choose a later day\n"
    assert not [*tmp_path.iterdir()]


def test_a_message_of_a_command_names_options_as_the_command_line_has_them(tmp_path):
    words = ["study", "create", "shared", "--as", "center", "--name", "center", "--protect", "blind"]
    words += [word for name in ("a", "b", "c") for word in ("--member", name)]
    assert "use --law sum with the rbf kernel" in command(*words, cwd=tmp_path).err
