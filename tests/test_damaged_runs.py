"""A run whose files are damaged, or in use: the messages alone suffice, and the rest says which command to repeat."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dkpca import party, summarize, wire
from dkpca.errors import DKPCAError, FusionError, InputError, StorageError
from dkpca.kernels import RBF
from dkpca.messages import Summary
from dkpca.rank import Fixed
from dkpca.store import runs, storage
from dkpca.store.files import Received, receive, stored_summaries
from dkpca.tables.reading import Reading, read
from dkpca.wire import codec, container
from testkit.owners import GAMMA, OWNERS, numbers, people
from testkit.program import snapshot

PRODUCED = ("model.safetensors", "embedding.csv", "embedding.parquet", "certificate.json", "settings.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Summaries and rows of three owners, and a run."""
    path = tmp_path_factory.mktemp("made")
    for owner, X in numbers().items():
        summary, state = summarize(X, party=owner, kernel=RBF(GAMMA), rank=Fixed(20), sample_ids=people())
        (path / f"{owner}.summary").write_bytes(wire.encode(summary))
        (path / f"{owner}.rows").write_bytes(wire.encode(party.extend(state, X[:5])))
    runs.fuse(path / "run", summaries(path), n_components=3, sample_names=people())
    return path


@pytest.fixture
def office(made, tmp_path) -> Path:
    return shutil.copytree(made, tmp_path, dirs_exist_ok=True)


def summaries(path: Path, owners=OWNERS) -> list[Received]:
    return [receive(path / f"{owner}.summary", Summary) for owner in owners]


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]


DAMAGE = {
    "empty": lambda data: b"",
    "cut short": cut,
    "a bit flipped": flipped,
    "null": lambda data: b"null",
    "a list": lambda data: b"[1, 2]",
    "an object": lambda data: b"{}",
    "deeply nested": lambda data: b'{"parties":' * 5000 + b"1" + b"}" * 5000,
    "binary": lambda data: bytes(range(256)),
    "other types": lambda data: data.replace(b'"n_samples": 60', b'"n_samples": [60]') + b" ",
    "infinite": lambda data: data.replace(b"60", b"1e999") + b" ",
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
@pytest.mark.parametrize("name", [name for name in PRODUCED if name != "settings.json"])
def test_a_damaged_file_never_stops_fuse_and_is_whole_again_afterwards(office, name, damage):
    run, before = office / "run", snapshot(office / "run")
    (run / name).write_bytes(DAMAGE[damage]((run / name).read_bytes()))
    runs.fuse(run, [], n_components=3)
    assert snapshot(run) == before


@pytest.mark.parametrize("damage", sorted(DAMAGE))
@pytest.mark.parametrize("name", PRODUCED)
def test_reading_a_damaged_run_is_right_or_says_which_command_to_repeat(office, name, damage):
    run, whole = office / "run", runs.load(office / "run")
    (run / name).write_bytes(DAMAGE[damage]((run / name).read_bytes()))
    try:
        found = runs.load(run)
    except DKPCAError as refused:
        refusal = str(refused)
    else:
        refusal = ""
        assert {**found.settings, "versions": {}} == {**whole.settings, "versions": {}}
        assert found.sample_names == whole.sample_names
        np.testing.assert_array_equal(found.model.scores, whole.model.scores)
    assert not refusal or (name in refusal and f"repeat 'dkpca fuse --out {run}'" in refusal)


def test_damaged_settings_are_refused_and_can_be_deleted(office):
    file = office / "run" / "settings.json"
    file.write_text("[]")
    with pytest.raises(InputError, match=r"not the settings of a run; delete it, and repeat 'dkpca fuse"):
        runs.fuse(office / "run", [])
    file.unlink()
    assert runs.fuse(office / "run", [], n_components=3).sample_names == people()


def test_names_that_are_lost_with_both_embeddings_are_asked_for(office):
    for name in ("embedding.csv", "embedding.parquet"):
        (office / "run" / name).write_bytes(b"")
    words = r"the names of the samples cannot be read .*; repeat 'dkpca fuse --out .*' with --ids"
    with pytest.raises(FusionError, match=words):
        runs.load(office / "run")
    with pytest.raises(FusionError, match=words):
        runs.fuse(office / "run", [])
    assert runs.fuse(office / "run", [], sample_names=people()).sample_names == people()


def test_names_that_were_altered_are_not_taken_over(office):
    file = office / "run" / "embedding.parquet"
    frame = pl.read_parquet(file)
    frame.with_columns(pl.col("sample").str.replace("p00", "somebody")).write_parquet(file)
    assert runs.fuse(office / "run", []).sample_names == people()  # from the CSV beside it


def test_a_model_of_other_shapes_under_a_right_checksum_is_refused(office):
    run = runs.load(office / "run")
    shorter = replace(run.model, eigenvectors=run.model.eigenvectors[:-1])
    fields, arrays = codec.encode(shorter, skip=("summaries",))
    ids = {name: wire.fingerprint(summary) for name, summary in run.model.summaries.items()}
    data = container.pack({"summary_ids": ids, "fields": fields}, arrays, entry=container.MODEL)
    (office / "run" / "model.safetensors").write_bytes(data)
    with pytest.raises(
        DKPCAError, match="has arrays of other shapes than the messages that belong to it; repeat 'dkpca fuse"
    ):
        runs.load(office / "run")


def test_two_stored_messages_of_one_party_are_refused(office):
    messages = office / "run" / "messages"
    (messages / "copy.summary").write_bytes((messages / "bank.summary").read_bytes())
    with pytest.raises(FusionError, match="are both from party 'bank'; keep one of them"):
        runs.fuse(office / "run", [])


def test_the_settings_of_a_run_read_as_their_file(office):
    run = runs.load(office / "run")
    assert run.settings == json.loads((office / "run" / "settings.json").read_text())


class KilledError(BaseException):
    """What ends a process between two of its writes."""


@pytest.mark.parametrize("without", [(), ("shop",)], ids=["of other components", "without a party"])
def test_after_a_crash_there_is_the_old_run_or_the_new_or_one_sentence(office, monkeypatch, without):
    """Whatever is read is of one run; the same command repairs the rest."""
    before, asked = office / "run", {"n_components": 2, "without": without}
    wanted = runs.fuse(shutil.copytree(before, office / "whole" / "run"), [], **asked).model
    models, left = [wanted, runs.load(before).model], None
    refusals: list[str] = []
    for count in range(20):
        run, calls = shutil.copytree(before, office / str(count) / "run"), list[object]()

        def dying(function, calls=calls, count=count):
            def called(*arguments, **named):
                calls.append(function)
                if len(calls) > count:
                    raise KilledError
                function(*arguments, **named)

            return called

        with monkeypatch.context() as patch:
            for name in ("write", "remove"):
                patch.setattr(storage, name, dying(getattr(storage, name)))
            with contextlib.suppress(KilledError):
                runs.fuse(run, [], **asked)
                left = calls
        try:
            found = runs.load(run)
        except DKPCAError as error:
            refusals.append(str(error))
        else:
            (model,) = (m for m in models if m.n_components == found.model.n_components)
            np.testing.assert_array_equal(found.model.scores, model.scores)
            scores = pl.read_csv(run / "embedding.csv").drop("sample").to_numpy()
            np.testing.assert_allclose(scores, found.model.scores)
        if not left:
            np.testing.assert_array_equal(runs.fuse(run, [], **asked).model.scores, wanted.scores)
    assert left, "no repetition came to its end"
    assert refusals
    assert all("is at work: repeat it" in each or "; repeat 'dkpca" in each for each in refusals)


class TestLock:
    def test_a_second_command_is_told_to_wait_and_changes_nothing(self, office):
        before = snapshot(office)
        with storage.writing(office / "run"):
            with pytest.raises(StorageError, match="run: another dkpca command is at work there; repeat"):
                runs.fuse(office / "run", [])
            runs.load(office / "run")
        assert snapshot(office) == before

    def test_a_new_run_that_fails_leaves_no_directory(self, office):
        with pytest.raises(InputError, match="n_components is 99"):
            runs.fuse(office / "new", summaries(office), n_components=99)
        assert not (office / "new").exists()

    def test_fusions_at_once_leave_the_files_of_one_of_them(self, office):
        """Whichever comes first, and however many are turned away, every file belongs to the messages."""
        outcomes = []

        def fuse(owners):
            try:
                files = summaries(office, owners)
                runs.fuse(office / "new", files, n_components=2, keep=True, sample_names=people())
                outcomes.append("fused")
            except StorageError as error:
                outcomes.append(str(error))

        choices = [OWNERS[:1], OWNERS[1:], OWNERS, OWNERS[:2]] * 3
        threads = [threading.Thread(target=fuse, args=(owners,)) for owners in choices]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert "fused" in outcomes
        assert all(outcome == "fused" or "at work there" in outcome for outcome in outcomes), outcomes
        runs.fuse(office / "new", [])
        found, kept = runs.load(office / "new"), snapshot(office / "new")
        assert set(found.settings["parties"]) == set(found.model.summaries) == set(runs.parties_in(office / "new"))
        runs.fuse(office / "new", [])
        assert snapshot(office / "new") == kept

    def test_a_lock_goes_with_its_process(self, office):
        code = (
            "import os, sys\nfrom pathlib import Path\nfrom dkpca.store import storage\n"
            "with storage.writing(Path(sys.argv[1])):\n    os._exit(7)\n"
        )
        ended = subprocess.run([sys.executable, "-c", code, str(office / "run")], check=False)
        assert ended.returncode == 7
        runs.fuse(office / "run", [])


class TestWhatIsNoFile:
    """A pipe never ends, and so does /dev/zero."""

    @pytest.fixture(params=["pipe", "device", "link to a device", "directory"])
    def path(self, request, tmp_path):
        if request.param == "pipe":
            os.mkfifo(tmp_path / "input.csv")
        elif request.param == "link to a device":
            (tmp_path / "input.csv").symlink_to("/dev/zero")
        elif request.param == "directory":
            (tmp_path / "input.csv").mkdir()
        return Path("/dev/zero") if request.param == "device" else tmp_path / "input.csv"

    def test_it_is_refused_as_a_message_and_as_settings(self, path):
        for reader in (storage.read, storage.read_json, lambda path: storage.read_toml(path, "")):
            with pytest.raises(StorageError, match="is a directory, a pipe or a device; give a file"):
                reader(path)

    def test_it_is_refused_as_a_table(self, path):
        with pytest.raises(InputError, match="is a directory or a pipe, not a table"):
            read(path, Reading())


def test_settings_larger_than_any_are_not_read(tmp_path):
    with (tmp_path / "settings.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(StorageError, match=r"has 1,099.5 GB, but such files have at most 16.8 MB"):
        storage.read_json(tmp_path / "settings.json")
    with pytest.raises(StorageError, match="does not fit into memory"):
        storage.read(tmp_path / "settings.json")


def test_a_run_of_the_former_network_is_refused_with_the_way_to_its_messages(office):
    run = office / "run"
    (run / "request.json").write_text("{}")
    for work in (lambda: runs.load(run), lambda: runs.fuse(run, [], n_components=1)):
        with pytest.raises(InputError, match="a run of the network of an earlier version; fuse its messages"):
            work()
    model = runs.fuse(run.parent / "again", [*stored_summaries(run).values()], n_components=1).model
    assert model.n_components == 1
