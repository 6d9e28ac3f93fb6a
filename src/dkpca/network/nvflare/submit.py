"""The operator's side: hand a job to the center, follow it, and say how it ended."""

import contextlib
import io
import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nvflare.fuel.flare_api.api_spec import InternalError, JobNotFound, NoConnection, NoReply, SessionClosed
from nvflare.fuel.flare_api.flare_api import Session, new_secure_session

from dkpca.errors import InputError, NoAnswerError
from dkpca.network.nvflare import kits
from dkpca.network.nvflare.consortium import Consortium
from dkpca.network.nvflare.party import TASK
from dkpca.network.remote import COMPUTING, STATUS
from dkpca.store import storage

POLL_SECONDS = 0.5
FETCH_SECONDS = 0.1  # between two looks of a party for a question
MARGIN_SECONDS = 60.0  # for processes to start

LOST = (NoConnection, SessionClosed, NoReply, InternalError, JobNotFound)  # a center that died or was restarted

Progress = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True)
class Job:
    """What the center is to do."""

    run: str
    controller: str  # class of `dkpca.network.nvflare.center`
    arguments: Mapping[str, Any]
    seconds: float  # for one question

    def definition(self, parties: Sequence[str]) -> dict[str, dict[str, Any]]:
        """Files of NVFlare's job: names of our classes and settings, no code."""
        controller = {
            "id": "dkpca",
            "path": self.controller,
            "args": {"run": self.run, "seconds": self.seconds, **self.arguments},
        }
        executor = {"tasks": [TASK], "executor": {"path": kits.EXECUTOR, "args": {}}}
        return {
            "meta.json": {
                "name": f"dkpca-{self.run}",
                "resource_spec": {},
                "min_clients": 1,
                "deploy_map": {"app": ["server", *parties]},
            },
            "app/config/config_fed_server.json": {
                "format_version": 2,
                "server": {"task_request_interval": FETCH_SECONDS},
                "components": [],
                "workflows": [controller],
            },
            "app/config/config_fed_client.json": {
                "format_version": 2,
                "default_task_fetch_interval": FETCH_SECONDS,
                "components": [],
                "executors": [executor],
            },
        }


@contextlib.contextmanager
def session(consortium: Consortium) -> Iterator[Session]:
    """Connect to the center as its operator."""
    logging.getLogger().addHandler(logging.NullHandler())  # or NVFlare's warnings come before our sentence
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # NVFlare greets on the terminal
            opened = new_secure_session(kits.OPERATOR, str(consortium.path / "operator"), timeout=10.0)
    except NoConnection as error:
        raise NoAnswerError(
            f"the center of {consortium.name} does not answer at {consortium.host}:{consortium.port}; "
            f"start it with: dkpca center start {consortium.path}"
        ) from error
    try:
        yield opened
    finally:
        opened.close()


def connected(opened: Session) -> list[str]:
    """Names of the parties that are connected now."""
    return sorted(client.name for client in opened.get_system_info().client_info)


def submit(
    opened: Session, parties: Sequence[str], job: Job, *, join_seconds: float, say: Callable[[str], None]
) -> str:
    """Hand a job to the center as soon as all parties are connected, or with those that are; return its number."""
    with tempfile.TemporaryDirectory() as folder:
        end = time.monotonic() + join_seconds
        missing = set(parties) - set(connected(opened))
        if missing:
            say(f"waiting up to {join_seconds:g} s for {', '.join(sorted(missing))}")
        while missing and time.monotonic() < end:
            time.sleep(POLL_SECONDS)
            missing = set(parties) - set(connected(opened))
        asked = [party for party in parties if party not in missing]
        if not asked:
            raise NoAnswerError(f"none of {list(parties)} was connected within {join_seconds:g} s; ask them to start")
        for name, content in job.definition(asked).items():
            file = Path(folder) / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(content))
        return str(opened.submit_job(folder))


def follow(opened: Session, consortium: Consortium, job: Job, number: str, *, told: Progress) -> None:
    """Wait for the end of a job; raise an error that says why, unless it ended well.

    A job that the engine neither starts nor ends in time is aborted.
    """
    state, found, meta = "", dict[str, Any](), dict[str, Any]()
    last, end = found, time.monotonic() + job.seconds + MARGIN_SECONDS
    while not state.startswith("FINISHED"):
        if found != last or found.get("state") == COMPUTING:
            last, end = found, time.monotonic() + job.seconds + MARGIN_SECONDS
        if time.monotonic() > end:
            opened.abort_job(number)
            raise NoAnswerError(
                f"{job.run}: the engine says {state}, and nothing happens any more; the job was aborted"
            )
        time.sleep(POLL_SECONDS)
        try:
            meta = opened.get_job_meta(number)
        except LOST as error:
            raise NoAnswerError(
                f"{job.run}: the center was lost ({error}); what had arrived is kept, repeat the command later"
            ) from error
        state = str(meta.get("status", ""))
        found = status(consortium, job.run)
        if found.get("job") == number:
            told(found)
        else:
            found = {}  # of an earlier job: this one has not begun
    if state == "FINISHED:COMPLETED" and found.get("state") == "finished":
        return
    if found.get("state") == "failed":
        raise NoAnswerError(f"{job.run}: {found['reason']}")
    detail = "; ".join(str(line) for line in meta.get("job_deploy_detail") or [])
    raise NoAnswerError(
        f"{job.run}: the engine ended the job ({state}{': ' if detail else ''}{detail}); "
        f"see {consortium.engine / 'log.txt'}, then repeat the command"
    )


def status(consortium: Consortium, run: str) -> dict[str, Any]:
    """Where a run stands; empty if nothing is known of it."""
    path = consortium.path / "runs" / run / STATUS
    if not path.exists():
        return {}
    try:
        return dict(json.loads(storage.read(path)))
    except ValueError as error:
        raise InputError(f"{path}: cannot be read ({error}); remove it and repeat the command") from error
