"""The same folder in other places: a real SFTP server, a real WebDAV server, and a stand-in for S3."""

import json
import os
import subprocess
import sys

import fsspec
import numpy as np
import pytest

from dkpca.errors import StorageError
from dkpca.exchange.folder import Folder
from dkpca.exchange.member import WaitingError
from dkpca.exchange.sealed import Part
from testkit import servers
from testkit.studies import ANYTHING, Actors, Consortium
from tests.study.test_a_study import MODES, in_one_process, tables

pytestmark = pytest.mark.slow


@pytest.fixture(params=["sftp", "webdav"])
def place(request, tmp_path, monkeypatch):
    (tmp_path / "served").mkdir()
    if request.param == "sftp":
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        with servers.sftp(tmp_path / "served", tmp_path / "home") as url:
            yield url
    else:
        with servers.webdav(tmp_path / "served", tmp_path / "log") as url:
            yield url


@pytest.fixture
def reach():
    """Folders that are closed at the end."""
    opened: list[Folder] = []

    def reached(url):
        opened.append(Folder(url))
        return opened[-1]

    yield reached
    for folder in opened:
        folder.close()


def test_files_are_written_once_and_whole_and_seen_at_once(place, reach):
    check_a_place(reach(place), reach(place))


def check_a_place(folder, other):
    assert folder.read("a/x", 10) is None
    assert folder.listing("a") == {}
    assert other.write("a/deep/er/x", b"1")  # no folder above it is there
    assert folder.read("a/deep/er/x", 10) == b"1"
    assert other.write("a/x", b"12345")
    assert folder.read("a/x", 10) == b"12345"
    assert not folder.write("a/x", b"other")
    assert folder.read("a/x", 10) == b"12345"
    assert {name: listed["bytes"] for name, listed in folder.listing("a").items()} == {"x": 5}
    assert folder.members() == ["a"]
    with pytest.raises(StorageError, match="more than the 4"):
        folder.read("a/x", 4)


def test_a_file_that_is_closed_early_leaves_nothing_for_the_next_listing(place, reach):
    folder = reach(place)
    content = os.urandom(2**20) * 9
    folder.write("a/x", content)
    for _ in range(20):
        with folder.opened("a/x") as (file, size):
            assert file.read(100) == content[:100]
            assert size == len(content)
        assert folder.listing("a")["x"]["bytes"] == len(content)
    assert folder.read("a/x", len(content)) == content


def test_a_study_is_signed_and_a_large_body_arrives(place, tmp_path):
    actors = Actors(place, tmp_path / "own").ready()
    check_a_large_body(actors)
    actors.folder.close()


def check_a_large_body(actors):
    content = os.urandom(2**20) * 9 + b"end"
    with pytest.raises(WaitingError):
        actors.member("center").receive("airline", "summary", "all", at_most=2**24)
    actors.member("airline").send("summary", [Part("all", ("center",), [content])])
    actors.member("airline").send("summary", [Part("all", ("center",), [content])])  # again: nothing happens
    path = actors.member("center").receive("airline", "summary", "all", at_most=2**24)
    assert path.read_bytes() == content


def test_a_stand_in_for_s3_works_alike(tmp_path):
    program = (
        "import sys, fsspec; from pathlib import Path; from dkpca.exchange.folder import Folder\n"
        "from testkit.studies import Actors; from tests.study.test_places import check_a_place, check_a_large_body\n"
        "fsspec.filesystem('s3', skip_instance_cache=True).mkdir('studies')\n"
        "check_a_place(Folder(sys.argv[1]), Folder(sys.argv[1]))\n"
        "check_a_large_body(Actors(sys.argv[1] + '2', Path(sys.argv[2])).ready())\n"
    )
    with servers.s3(tmp_path / "log") as (url, endpoint):
        settings = json.dumps({"endpoint_url": endpoint, "key": "stand-in", "secret": "stand-in"})
        command = [sys.executable, "-c", program, url, str(tmp_path / "own")]
        environment = os.environ | {"FSSPEC_S3": settings}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_host_that_is_not_known_is_refused(tmp_path, monkeypatch):
    (tmp_path / "served").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    with servers.sftp(tmp_path / "served", tmp_path / "home") as url:
        (tmp_path / "home/.ssh/known_hosts").write_text("")
        with pytest.raises(StorageError, match="is not in .*known_hosts"):
            Folder(url).members()


def test_a_server_that_is_not_there_is_one_sentence(reach):
    for url in ("sftp://127.0.0.1:9/x", "webdav+http://127.0.0.1:9/x"):
        with pytest.raises(StorageError, match="cannot be"):
            reach(url).members()


def test_credentials_come_from_fsspecs_configuration(tmp_path, monkeypatch, reach):
    (tmp_path / "served").mkdir()
    with servers.webdav(tmp_path / "served", tmp_path / "log", user="me", password="secret") as url:
        with pytest.raises(StorageError, match="cannot be used"):
            reach(url).members()
        monkeypatch.setitem(fsspec.config.conf, "webdav", json.loads('{"auth": ["me", "secret"]}'))
        check_a_place(reach(url), reach(url))


@pytest.mark.parametrize("mode", ["open", "sums", "blind"])
def test_a_study_there_is_the_fit_in_one_process_bit_for_bit(place, mode, tmp_path):
    (tmp_path / "own").mkdir()
    consortium = Consortium(tmp_path / "own", tables(24), MODES[mode], url=place, align="position", samples=10)
    consortium.join(**ANYTHING).sign().finish()
    _, center = consortium.embedding("center")
    assert np.array_equal(center, np.asarray(in_one_process(consortium).scores))
    assert np.array_equal(consortium.embedding("airline")[1], consortium.embedding("weather")[1])
