"""The operator's side: hand a job to the center, follow it, and say how it ended."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from dkpca import wording
from dkpca.errors import InputError, NoAnswerError, WireError
from dkpca.network import jobs
from dkpca.network import protocol as p
from dkpca.network.client import Client, LostError, Reply
from dkpca.network.jobs import Job
from dkpca.network.membership import OPERATOR, Consortium

FIRST_LOOK, SLOWEST_LOOK = 0.1, 1.0  # seconds between two looks
PATIENCE = 60.0  # seconds that a center may be away while it is followed
LARGEST_STATUS = 64 * 2**20

STATUS_FIELDS = {"connected": list, "parties": list, "runs": dict}
RUN_FIELDS = {"job": str, "state": str, "reason": str, "parties": dict}

Progress = Callable[[Mapping[str, Any]], None]
Value = TypeVar("Value")


def status(consortium: Consortium) -> dict[str, Any]:
    """Who is connected, and where all runs stand."""
    return _as_operator(consortium, lambda client: _get(client, p.RUNS, STATUS_FIELDS))


def submit(consortium: Consortium, job: Job) -> str:
    """Hand a job to the center; return its number."""

    async def ask(client: Client) -> str:
        return str(_accepted(await client.post(p.RUNS, jobs.to_dict(job)), {"job": str})["job"])

    return _as_operator(consortium, ask)


def follow(consortium: Consortium, job: Job, number: str, *, told: Progress) -> None:
    """Wait for the end of a job, also while the center is restarted; raise an error that says why it failed."""

    async def ask(client: Client) -> None:
        wait, heard = FIRST_LOOK, time.monotonic()
        while True:
            await asyncio.sleep(wait)
            wait = min(wait * 1.3, SLOWEST_LOOK)
            try:
                found = await _get(client, f"{p.RUNS}/{job.run}", RUN_FIELDS)
                heard = time.monotonic()
            except LostError as error:
                if time.monotonic() - heard < PATIENCE:
                    continue
                words = f"the center was lost ({error}); what had arrived is kept, repeat the command later"
                raise NoAnswerError(f"{job.run}: {words}") from error
            if found["job"] != number:
                raise NoAnswerError(f"{job.run}: another command about it was begun meanwhile; see 'dkpca status'")
            told(found)
            if found["state"] == "finished":
                return
            if found["state"] == "failed":
                raise NoAnswerError(f"{job.run}: {found['reason']}")

    _as_operator(consortium, ask)


def _as_operator(consortium: Consortium, ask: Callable[[Client], Awaitable[Value]]) -> Value:
    async def connect() -> Value:
        async with Client(consortium.host, consortium.port, consortium.path / OPERATOR) as client:
            return await ask(client)

    try:
        return asyncio.run(connect())
    except LostError as error:
        raise NoAnswerError(
            f"the center of {consortium.name} does not answer at {consortium.host}:{consortium.port} ({error}); "
            f"start it with: dkpca center start {consortium.path}"
        ) from error


async def _get(client: Client, path: str, expected: Mapping[str, type]) -> dict[str, Any]:
    return _accepted(await client.get(path, largest=LARGEST_STATUS), expected)


def _accepted(reply: Reply, expected: Mapping[str, type]) -> dict[str, Any]:
    status, told = reply
    if status not in (200, 202):
        raise InputError(wording.printable(str(told.get("reason", f"the center refuses ({status})"))))
    if not all(isinstance(told.get(name), kind) for name, kind in expected.items()):
        raise WireError("the center's reply does not have the fields of a reply")
    return told
