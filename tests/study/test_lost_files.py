"""A shared folder that lost files of members, or was made anew: each writes its own again, the same bytes."""

import shutil
from typing import Any

import pytest

from dkpca.errors import InputError, ProtectionError, StorageError
from dkpca.exchange import founding, study
from dkpca.exchange.folder import Folder
from dkpca.exchange.member import WaitingError
from testkit.program import in_process as command
from testkit.program import snapshot
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables
from tests.study.test_new_samples import put


@pytest.fixture
def created(tmp_path):
    return Consortium(tmp_path, tables(20), MODES["open"], samples=10)


def create(root):
    words = ["study", "create", "shared", "--as", "center", "--name", "center", "--align", "position"]
    return command(*words, *[word for name in tables(20) for word in ("--member", name)], cwd=root)


def test_a_folder_that_was_made_anew_is_filled_again_and_the_study_ends(created, tmp_path):
    created.join(**ANYTHING).sign()
    before = snapshot(tmp_path / "shared")
    shutil.rmtree(tmp_path / "shared")
    with pytest.raises(InputError, match="there is no such folder"):
        created.run("airline")
    (tmp_path / "shared").mkdir()
    for name in (*created.names, "center"):
        with pytest.raises(WaitingError):
            created.run(name)
    after = snapshot(tmp_path / "shared")
    assert after == after | before
    created.finish()


def test_a_lost_plan_is_written_again_by_the_center_and_not_created_again(created, tmp_path):
    """Before, `status` advised `create`, which left the center with two studies, and the folder without a plan."""
    plan = tmp_path / "shared/center/plan-1.toml"
    raw = plan.read_bytes()
    plan.unlink()
    before = snapshot(tmp_path)
    answer = create(tmp_path)
    assert answer.code == 1
    assert "plan-1.toml is missing, which this member wrote; write it again with 'dkpca study run'" in answer.err
    assert snapshot(tmp_path) == before
    status = command("study", "status", "shared", cwd=tmp_path)
    assert "Waiting for the center to write the plan ('dkpca study create'; 'dkpca study run' if it was" in status.out
    with pytest.raises(InputError, match="center has not signed"):
        created.run("center")
    assert plan.read_bytes() == raw


@pytest.mark.longer
@pytest.mark.parametrize("also", [(), ("member.toml",)])
def test_a_lost_plan_that_was_given_up_makes_way_for_the_next(also, created, tmp_path):
    """Before, `create` found another member's file under the first number, and could not be repeated ever."""
    created.join(**ANYTHING)
    for file in ("plan-1.toml", *also):
        (tmp_path / "shared/center" / file).unlink()
    created.at("center", founding.close, give_up=True)
    again = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign()
    assert (tmp_path / "shared/center/plan-2.toml").exists()
    again.finish()


def test_files_that_others_put_there_stay_and_are_named(created, tmp_path):
    created.join(**ANYTHING)
    (tmp_path / "shared/airline/member.toml").write_bytes(b"another")
    with pytest.raises(ProtectionError, match="is not the file that this member wrote"):
        created.at("airline", study.review)
    assert (tmp_path / "shared/airline/member.toml").read_bytes() == b"another"


def test_a_plan_that_the_host_altered_is_not_signed_by_the_center_that_wrote_it(created, tmp_path):
    """Before, the center signed whatever lay there under the id of its plan, protection and all."""
    plan = tmp_path / "shared/center/plan-1.toml"
    plan.write_text(plan.read_text().replace("n_components = 3", "n_components = 2"))
    created.join(**ANYTHING)
    with pytest.raises(ProtectionError, match=r"center/plan-1\.toml: is not the file that this member wrote"):
        created.at("center", study.review)


def test_a_member_whose_folder_was_restored_does_not_forget_what_it_signed(created, tmp_path):
    """Before, the next plan was green, as if nothing had left the table, and answered; and its plan was joined."""
    created.join(**ANYTHING)
    shutil.copytree(tmp_path / "airline", tmp_path / "backup")
    created.sign("airline")
    shutil.rmtree(tmp_path / "airline")
    (tmp_path / "backup").rename(tmp_path / "airline")
    again = Consortium(tmp_path, tables(20), MODES["open"], samples=10)
    said = "airline/signature-1: this member's own folder has no record of this file: it was restored from an older"
    for act in (study.review, study.run, lambda *_: again.join("airline")):
        with pytest.raises(ProtectionError, match=said):
            created.at("airline", act)
    assert not (tmp_path / "shared/airline/member-2.toml").exists()


@pytest.mark.longer
@pytest.mark.parametrize("lost", ["before a batch", "before the plan was closed and the next one joined"])
def test_a_member_whose_folder_was_restored_does_not_forget_what_it_sent(lost, tmp_path):
    """Before, the next plan over samples of that batch was green, and answered."""
    made: dict[str, Any] = {"samples": 10, "batches": 1, "batch_samples": 5}
    here = Consortium(tmp_path, tables(20), MODES["open"], **made).join(**ANYTHING).sign()
    here.finish()
    shutil.copytree(tmp_path / "airline", tmp_path / "backup")
    put(here, tmp_path, 1, {name: [f"n{i}" for i in range(6)] for name in here.names})
    here.finish()
    if lost != "before a batch":
        here.close()
        here = Consortium(tmp_path, tables(20), MODES["open"], **made)
    shutil.rmtree(tmp_path / "airline")
    (tmp_path / "backup").rename(tmp_path / "airline")
    said = r"airline/batch-1\.\w+: this member's own folder has no record of this file: it was restored from an older"
    for act in (study.review, study.run, lambda *_: here.join("airline")):
        with pytest.raises(ProtectionError, match=said):
            here.at("airline", act)


def test_a_file_of_another_program_beside_the_own_ones_is_none_of_the_study(created, tmp_path):
    created.join(**ANYTHING).sign()
    for name in ("desktop.ini", "thumbs.db", "shape.tmp", "2.notes", "shape (conflicted copy)"):
        (tmp_path / "shared/airline" / name).write_bytes(b"")
    created.finish()


def test_a_folder_under_another_name_has_the_plans_that_were_signed_there(created, tmp_path):
    created.join(**ANYTHING).sign("airline")
    (tmp_path / "shared").rename(tmp_path / "moved")
    created.url = str(tmp_path / "moved")
    again = Consortium(tmp_path, tables(20), MODES["open"], url=created.url, samples=10)
    with pytest.raises(InputError, match="plan 1 of this folder is signed here and not closed"):
        again.join("airline", **ANYTHING)
    with pytest.raises(WaitingError, match="to sign"):
        again.run("airline")
    again.at("airline", founding.close, give_up=True)
    again.join(**ANYTHING).at("airline", study.review)


def test_a_folder_that_took_the_name_of_another_has_its_own_plans(created, tmp_path):
    created.join(**ANYTHING).sign().finish()
    created.close()
    other = Consortium(tmp_path, tables(20), MODES["open"], url=str(tmp_path / "other"), samples=10)
    other.join(**ANYTHING).sign()
    (tmp_path / "shared").rename(tmp_path / "old")
    (tmp_path / "other").rename(tmp_path / "shared")
    other.url = created.url
    other.finish()


def test_whoever_gives_up_a_study_that_is_gone_writes_nothing_into_the_next(created, tmp_path):
    created.join(**ANYTHING).sign("airline")
    (tmp_path / "shared").rename(tmp_path / "old")
    (tmp_path / "shared").mkdir()
    said = created.at("airline", founding.close, give_up=True)
    assert "the others could not be told that you left" in said
    assert not (tmp_path / "shared/airline/refusal").exists()


@pytest.mark.parametrize("file", ["member.toml", "signature-1", "seeds"])
def test_a_part_of_an_own_file_is_named_and_written_again_once_it_is_deleted(file, created, tmp_path):
    """Before, the others waited for this member for ever, and its `run` for them."""
    created.join(**ANYTHING).sign()
    with pytest.raises(WaitingError):
        created.run("airline")
    path = tmp_path / "shared/airline" / file
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    said = f"airline/{file}: is only a part of what this member wrote; delete the file and repeat the command"
    with pytest.raises(StorageError, match=said):
        created.run("airline")
    path.unlink()
    with pytest.raises(WaitingError):
        created.run("airline")
    assert path.read_bytes() == whole


@pytest.mark.parametrize("why", ["its member file is another's", "the folder cannot be written"])
def test_a_create_that_fails_leaves_no_study(why, tmp_path, monkeypatch):
    (tmp_path / "shared/center").mkdir(parents=True)
    if why.startswith("its"):
        (tmp_path / "shared/center/member.toml").write_text("of an earlier study")
    else:
        monkeypatch.setattr(Folder, "write", lambda *_: (_ for _ in ()).throw(StorageError("no space")))
    assert create(tmp_path).code == 1
    assert not [*tmp_path.glob("center/studies/*")]
    monkeypatch.undo()
    (tmp_path / "shared/center/member.toml").unlink(missing_ok=True)
    assert create(tmp_path).code == 0


def test_an_older_signature_of_a_member_does_not_count_whatever_the_folder_shows(created, tmp_path, monkeypatch):
    """Before, a host that answered two reads of one command differently had masks used for another table."""
    created.join(**ANYTHING)
    shutil.copytree(tmp_path / "airline", tmp_path / "backup")
    created.sign()
    first, path = created.at("airline", founding.seat).study.agreement, tmp_path / "shared/airline/signature-1"
    older = path.read_bytes()
    shutil.rmtree(tmp_path / "airline")
    (tmp_path / "backup").rename(tmp_path / "airline")
    path.unlink()
    table = tmp_path / "airline.csv"
    table.write_text(table.read_text().rstrip() + "7\n")
    created.sign("airline")
    read = Folder.read
    shown = lambda self, name, most: older if name == "airline/signature-1" else read(self, name, most)  # noqa: E731
    monkeypatch.setattr(Folder, "read", shown)
    assert created.at("airline", founding.seat).study.agreement != first


@pytest.mark.parametrize("spelling", ["file://{}", "{}/", "{}-link"])
def test_a_folder_is_the_same_one_however_it_is_written(spelling, created, tmp_path):
    created.join(**ANYTHING).sign("airline")
    (tmp_path / "shared-link").symlink_to(tmp_path / "shared")
    created.url = spelling.format(tmp_path / "shared")
    said = created.at("airline", founding.close, give_up=True)
    assert said == "Plan 1 closed: its keys are deleted."
    assert (tmp_path / "shared/airline/refusal").exists()
    assert not [*tmp_path.glob("airline/studies/*/seed.key")]


def test_a_plan_with_the_id_of_another_study_does_not_take_it_over(created, tmp_path):
    """Before, the files of the first study went into the other folder."""
    created.join(**ANYTHING).sign("airline")
    url, same = str(tmp_path / "other"), created.plan.id
    other = Consortium(tmp_path, tables(20), MODES["open"], url=url, center="evil", id=same, samples=10)
    with pytest.raises(
        ProtectionError, match=f"the plan with the id {same} is not the one that this member saw before"
    ):
        other.join("airline", **ANYTHING)
    for act in (study.review, study.run, founding.close):
        with pytest.raises(InputError, match="has not joined the study in"):
            other.at("airline", act)
    assert not (tmp_path / "other/airline").exists()
    with pytest.raises(WaitingError, match="to sign"):
        created.run("airline")


def test_no_file_of_a_study_is_written_into_another_that_took_its_place(created, tmp_path):
    created.join(**ANYTHING).sign("airline")
    (tmp_path / "shared").rename(tmp_path / "old")
    other = Consortium(tmp_path, tables(20), MODES["open"], center="other", samples=10)
    for name in ("airline", "center"):
        with pytest.raises(InputError, match="has another study as its plan 1"):
            created.at(name, study.run)
    assert founding.latest(Folder(other.url)).plan.id == other.plan.id
    assert not (tmp_path / "shared/airline").exists()
