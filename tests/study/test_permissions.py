"""Members with accounts of their own: what another user owns, or hides, is one sentence that names it."""

import os

import pytest

from dkpca.exchange.member import WaitingError
from testkit.program import program
from testkit.studies import ANYTHING, Consortium
from tests.study.test_a_study import MODES, tables

AS_ROOT = os.geteuid() == 0
# Root without its privileges is a user like any other.
PREFIX = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner") if AS_ROOT else ()
ANOTHER = 54321


@pytest.fixture
def joined(tmp_path):
    return Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING)


def study(consortium, command, name, *words):
    own = consortium.root / name
    return program("study", command, consortium.url, "--as", own, *words, cwd=consortium.root, prefix=PREFIX)


@pytest.mark.slow
@pytest.mark.skipif(not AS_ROOT, reason="only root can give a file to another user; run this test as root")
@pytest.mark.parametrize(
    ("which", "command"),
    [
        *((which, "review") for which in ("lock", "identity.key", "limits.toml", "studies", "studies/*/name")),
        *(("studies", command) for command in ("run --watch", "close")),
    ],
)
def test_a_file_of_another_user_in_dir_is_named(which, command, joined, tmp_path):
    """Before: tracebacks, which end with "PermissionError: [Errno 13]"."""
    (path,) = (tmp_path / "airline").glob(which)
    os.chown(path, ANOTHER, ANOTHER)
    path.chmod(0o700 if path.is_dir() else 0o600)
    answer = study(joined, *command.split()[:1], "airline", *command.split()[1:])
    assert answer.code == 1
    assert answer.err.startswith(f"dkpca: {path}")
    assert f"{path} belongs to another user: work as that user, or have its owner changed\n" in answer.err


@pytest.mark.slow
def test_what_a_member_writes_for_the_others_is_readable_whatever_its_umask_is(tmp_path):
    before = os.umask(0o077)
    try:
        here = Consortium(tmp_path, tables(20), MODES["open"], samples=10).join(**ANYTHING).sign()
        with pytest.raises(WaitingError):
            here.run("airline")
    finally:
        os.umask(before)
    modes = {path: path.stat().st_mode for path in (tmp_path / "shared").rglob("*")}
    assert len(modes) > 10
    assert all(mode & 0o044 == 0o044 for mode in modes.values())
    assert (tmp_path / "airline/identity.key").stat().st_mode & 0o077 == 0


@pytest.mark.slow
@pytest.mark.parametrize("which", ["", "member.toml"])
def test_what_a_member_hides_from_the_others_is_for_that_member_to_make_readable(which, joined, tmp_path):
    """Before: "the folder cannot be used ([Errno 13] Permission denied ...); check it and repeat"."""
    path = tmp_path / "shared/airline" / which
    path.chmod(0o000)
    answer = study(joined, "review", "weather")
    path.chmod(0o700)
    assert answer.code == 1
    can = "airline has to make its folder readable for the other members, such as by chmod -R a+rX"
    assert answer.err == f"dkpca: {path}: cannot be read (Permission denied); {can}\n"
