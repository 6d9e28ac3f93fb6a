"""Tests in several processes are the tests of one process: each runs once, and what it says is said."""

import os
import re
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testkit.workers import Deal

ROOT = Path(__file__).parents[1]
OUTCOMES = """
    import pytest, warnings

    @pytest.fixture
    def broken():
        raise OSError("no such fixture")

    @pytest.mark.parametrize("number", range(20))
    def test_passes(number, tmp_path):
        (tmp_path / "file").write_text("alone here")

    def test_fails():
        print("what was printed")
        seen = [1, 2]
        assert seen == [1, 3]

    def test_is_skipped():
        pytest.skip("for a reason")

    @pytest.mark.xfail
    def test_fails_as_expected():
        assert False

    def test_cannot_begin(broken):
        pass

    def test_warns():
        warnings.warn("beware")
"""


@given(st.lists(st.integers(0, 4), max_size=40).map(sorted), st.integers(0, 99))
def test_every_test_is_dealt_to_one_worker_whoever_asks_and_whoever_dies(files, seed):
    deal, dealt, random = Deal([str(file) for file in files]), [], Random(seed)
    while (position := deal.next(worker := random.randrange(3))) is not None:
        if random.random() < 0.2:
            deal.take_back(worker, [position])
        else:
            dealt.append(position)
    assert sorted(dealt) == list(range(len(files)))


def test_a_file_stays_with_one_worker_until_there_is_no_other():
    deal = Deal(["a"] * 4 + ["b"] * 2)
    assert [deal.next(0), deal.next(1), deal.next(1)] == [0, 4, 5]
    assert [deal.next(1), deal.next(0), deal.next(1), deal.next(0)] == [2, 1, 3, None]


@pytest.fixture
def outcome(tmp_path):
    """Run files of tests; return the exit code and what was said."""

    def run(files, *options):
        for name, text in files.items():
            (tmp_path / f"test_{name}.py").write_text(re.sub("^    ", "", text, flags=re.MULTILINE))
        command = [sys.executable, "-m", "pytest", "-p", "testkit.workers", "-p", "no:cacheprovider", "-vv", "-ra"]
        command += ["-c", os.devnull, "--rootdir", str(tmp_path), str(tmp_path), *options]
        alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        found = subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True)
        return found.returncode, found.stdout + found.stderr

    return run


def said(text):
    """Lines that do not depend on the time or on the order of the tests."""
    lines = (re.sub(r" *\[ *\d+%\]| in [\d.]+s", "", line) for line in text.splitlines())
    return sorted(line.strip("= ") for line in lines)


@pytest.mark.slow
def test_what_is_said_is_what_one_process_says(outcome):
    files = {"one": OUTCOMES, "other": OUTCOMES}
    alone, together = outcome(files), outcome(files, "--workers", "2")
    assert together[0] == alone[0] == 1
    assert "2 failed, 42 passed, 2 skipped, 2 xfailed, 2 warnings, 2 errors" in together[1]
    assert said(together[1]) == said(alone[1])


@pytest.mark.slow
def test_a_worker_that_dies_fails_the_test_it_died_in_and_the_others_run(outcome):
    dying = "    import os, pytest\n\n    @pytest.mark.parametrize('n', range(9))\n    def test_one(n):\n        "
    code, text = outcome({"a": dying + "n == 4 and os._exit(0)", "b": dying + "n == 7 and os.abort()"}, "--workers=2")
    assert code == 1
    assert "2 failed, 16 passed" in text
    for test, how in (("test_a.py::test_one[4]", "exit code 0"), ("test_b.py::test_one[7]", "signal 6")):
        assert re.search(f"^FAILED .*{re.escape(test)}", text, flags=re.MULTILINE)
        assert f"the worker died in this test ({how})" in text


@pytest.mark.slow
def test_after_the_first_failure_no_more_are_dealt(outcome):
    failing = "    import pytest\n\n    @pytest.mark.parametrize('n', range(99))\n    def test_one(n):\n        "
    code, text = outcome({"a": failing + "assert False"}, "--workers=2", "-x")
    assert code == 1
    assert "stopping after" in text
    assert int(re.findall(r"(\d+) failed", text)[-1]) < 10


@pytest.mark.slow
def test_threads_that_workers_would_not_have_are_refused(outcome):
    starting = "    import threading\n\n    threading.Thread(target=threading.Event().wait, daemon=True).start()\n\n"
    code, text = outcome({"a": starting + "    def test_one():\n        pass"}, "--workers=2")
    assert code == 4
    assert "start none where a test file is imported" in text
