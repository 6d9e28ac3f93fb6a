"""Tests in several processes, each a fork of the one that collected them: imports and collection are paid for once.

`pytest --workers 2` deals the tests out by file, so that what a file sets up is set up once. When no file is left, a
worker that is done takes half of what another still has. Each finished test is reported here in one piece, so that
everything that pytest makes of reports (-x, --lf, --junit-xml, --durations) is as with one process.
"""

import atexit
import contextlib
import marshal
import os
import signal
import threading
import traceback
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any

import pytest

HOUSEKEEPING = {"jemalloc_bg_thd", "polars-ooc-clea"}  # threads that nobody waits for
AHEAD = 2  # tests that a worker knows of: pytest takes down what the next one does not need


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--workers", type=int, default=1, help="processes that run the tests")


def pytest_runtestloop(session: pytest.Session) -> bool | None:
    options = session.config.option
    if options.workers < 2 or options.collectonly or options.usepdb or session.testsfailed:
        return None  # as pytest does
    run(session, options.workers)
    return True


class Deal:
    """Which worker gets which test: whole files, and at the end halves of what is left."""

    def __init__(self, files: Sequence[str]) -> None:
        positions = groupby(range(len(files)), key=lambda position: files[position])
        self.untouched = deque(deque(group) for _, group in positions)
        self.own: dict[int, deque[int]] = {}

    def next(self, worker: int) -> int | None:
        """Return the position of a test that nobody else gets, or None if all have been dealt."""
        own = self.own.setdefault(worker, deque())
        if not own and self.untouched:
            own.extend(self.untouched.popleft())
        if not own:
            longest = max(self.own.values(), key=len)
            own.extend(longest.pop() for _ in range((len(longest) + 1) // 2))
            own.reverse()
        return own.popleft() if own else None

    def take_back(self, worker: int, positions: Iterable[int]) -> None:
        """Deal again what a worker was given and has not run."""
        self.untouched.appendleft(deque([*positions, *self.own.pop(worker, ())]))


class Worker:
    """A process that runs tests, seen from the one that deals them out."""

    def __init__(self, number: int, session: pytest.Session, others: Sequence["Worker"], base: Path) -> None:
        self.number = number
        self.given: deque[int] = deque()  # and not finished
        self.running: int | None = None
        self.told_end = False
        self.connection, theirs = Pipe()
        self.process = os.fork()
        if self.process == 0:
            for connection in (self.connection, *(other.connection for other in others)):
                connection.close()
            _work(session, theirs, base / f"worker{number}")
        theirs.close()
        self.death = os.pidfd_open(self.process)

    def give(self, position: int | None) -> None:
        """Hand out one more test; None: there is none."""
        if not self.told_end:
            self.told_end = position is None
            if position is not None:
                self.given.append(position)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # a dead one is dealt with elsewhere
                self.connection.send_bytes(marshal.dumps(position))

    def messages(self) -> Iterator[Any]:
        """What it has sent."""
        try:
            while self.connection.poll():
                yield marshal.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionResetError):
            return

    def end(self) -> str:
        """Wait for the end of the process and say how it was; nothing: as it should be."""
        self.connection.close()  # what it wants to say now, nobody hears
        os.close(self.death)
        code = os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        return "" if code == 0 and not self.given else f"signal {-code}" if code < 0 else f"exit code {code}"


def run(session: pytest.Session, n_workers: int) -> None:
    """Run all tests of a session, each once."""
    _check_threads()
    session.config.pluginmanager.getplugin("terminalreporter").showfspath = False  # files take turns
    base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]
    deal = Deal([str(item.path) for item in session.items])
    workers: list[Worker] = []
    finished: set[int] = set()
    try:
        for number in range(n_workers):
            workers.append(_started(number, session, workers, base, deal))
        while workers:
            wait([end for worker in workers for end in (worker.connection, worker.death)])
            for worker in list(workers):
                dead = bool(wait([worker.death], 0))  # before its last messages are read
                for message in worker.messages():
                    finished |= _told(session, deal, worker, message)
                if dead:
                    workers.remove(worker)
                    how = worker.end()
                    if how:
                        finished.add(_crashed(session, worker, how))
                        deal.take_back(worker.number, worker.given)
                        workers.append(_started(worker.number, session, workers, base, deal))
    finally:
        for worker in workers:
            os.kill(worker.process, signal.SIGINT)
            worker.end()
    if session.shouldfail:
        raise session.Failed(session.shouldfail)
    if session.shouldstop:
        raise session.Interrupted(session.shouldstop)
    assert finished == set(range(len(session.items))), "tests were collected and not run"


def _check_threads() -> None:
    """Refuse to fork where somebody would wait for a thread that a fork does not have."""
    threads = [(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
    needed = [name for name in threads[1:] if name not in HOUSEKEEPING]
    if needed:
        raise pytest.UsageError(
            f"importing the tests has started the threads {needed}, which workers would not have: start none where a "
            "test file is imported, and set OPENBLAS_NUM_THREADS=1 and OMP_NUM_THREADS=1"
        )


def _started(number: int, session: pytest.Session, others: Sequence[Worker], base: Path, deal: Deal) -> Worker:
    worker = Worker(number, session, others, base)
    for _ in range(AHEAD):
        worker.give(_next(session, deal, number))
    return worker


def _next(session: pytest.Session, deal: Deal, number: int) -> int | None:
    return None if session.shouldfail or session.shouldstop else deal.next(number)


def _told(session: pytest.Session, deal: Deal, worker: Worker, message: Any) -> set[int]:
    """Report what a worker says; return the test that it has finished."""
    if "started" in message:
        worker.running = message["started"]
        worker.give(_next(session, deal, worker.number))
        return set()
    config, worker.running = session.config, None
    worker.given.remove(message["finished"])
    for text, category, filename, line, when, nodeid in message["warnings"]:
        warning = warnings.WarningMessage(text, type(category, (Warning,), {}), filename, line)
        kwargs = {"warning_message": warning, "when": when, "nodeid": nodeid, "location": None}
        config.hook.pytest_warning_recorded.call_historic(kwargs=kwargs)
    reports = [
        config.hook.pytest_report_from_serializable(config=config, data=report) for report in message["reports"]
    ]
    _log(session.items[message["finished"]], reports)
    return {message["finished"]}


def _log(item: pytest.Item, reports: Sequence[pytest.TestReport]) -> None:
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)


def _crashed(session: pytest.Session, worker: Worker, how: str) -> int:
    """Fail the test in which a worker died; return it."""
    if worker.running is None:
        raise RuntimeError(f"worker {worker.number} ended between two tests ({how})")
    item = session.items[worker.running]
    report = pytest.TestReport(
        item.nodeid, item.location, {}, "failed", f"the worker died in this test ({how})", "call"
    )
    _log(item, [report])
    worker.given.remove(worker.running)
    return worker.running


class _Told:
    """In a worker, instead of what writes to the terminal: what there is to tell about one test."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self._tw = config.get_terminal_writer()  # asked for its colors
        self.reports: list[Any] = []
        self.warnings: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep a report."""
        self.reports.append(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    def pytest_warning_recorded(self, warning_message: warnings.WarningMessage, when: str, nodeid: str) -> None:
        """Keep a warning."""
        shown = warning_message
        told = [str(shown.message), shown.category.__name__, shown.filename, shown.lineno, when, nodeid]
        self.warnings.append(told)


def _work(session: pytest.Session, connection: Connection, folder: Path) -> None:
    """In a worker: run what comes, tell how it went, and end the process."""
    code = 1
    try:
        try:
            _run_tests(session, connection, folder)
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is ending
            session._setupstate.teardown_exact(None)
        code = 0
    except KeyboardInterrupt:
        pass
    except BaseException:  # noqa: BLE001  (this process ends here, whatever happens)
        traceback.print_exc()
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # what an interpreter does at its end
        atexit._run_exitfuncs()
        os._exit(code)


def _run_tests(session: pytest.Session, connection: Connection, folder: Path) -> None:
    config = session.config
    capture = config.pluginmanager.getplugin("capturemanager")
    capture.stop_global_capturing()  # the files it writes to are not this process's alone
    capture.start_global_capturing()
    capture.suspend_global_capture()
    folder.mkdir(exist_ok=True, mode=0o700)
    config._tmp_path_factory._basetemp = folder  # type: ignore[attr-defined]

    def received() -> int | None:
        position: int | None = marshal.loads(connection.recv_bytes())
        return position

    told = _Told(config)
    config.pluginmanager.unregister(name="terminalreporter")
    config.pluginmanager.register(told, "terminalreporter")
    current = received()
    while current is not None:
        following = received()
        connection.send_bytes(marshal.dumps({"started": current}))
        nextitem = None if following is None else session.items[following]
        config.hook.pytest_runtest_protocol(item=session.items[current], nextitem=nextitem)
        message = {"finished": current, "reports": told.reports, "warnings": told.warnings}
        connection.send_bytes(marshal.dumps(message))
        told.reports, told.warnings = [], []
        current = following
