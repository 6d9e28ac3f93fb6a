"""A party that does not take a job, or whose job process ends, costs only that party's answer.

The center's own process hears of it, the process of the job asks the parties: a file for each party, in the job's
folder, passes it on.
"""

import logging
from pathlib import Path
from typing import Any

from dkpca import wording
from dkpca.network.nvflare import kits
from dkpca.store import storage

FOLDER = "ended"

log = logging.getLogger(__name__)


def note(job: Path, party: str, reason: str) -> None:
    """Note that a party's part of a job has ended; the first reason counts, and none where the job is over."""
    if kits.JOB_NUMBER.fullmatch(job.name) and job.is_dir() and not (job / FOLDER / party).exists():
        storage.make_directory(job / FOLDER)
        storage.write(job / FOLDER / party, wording.printable(reason).encode())


def noted(job: Path) -> dict[str, str]:
    """Return the reasons by party."""
    folder = job / FOLDER
    return (
        {path.name: path.read_text() for path in folder.iterdir() if path.name[0] != "."} if folder.is_dir() else {}
    )


def cost_one_answer(engine: Path) -> None:
    """Have the center note a party's end, instead of ending the job for all as NVFlare would."""
    from nvflare.private.defs import CellMessageHeaderKeys, JobFailureMsgKey
    from nvflare.private.fed.server.fed_server import FederatedServer

    report = FederatedServer.process_job_failure

    def note_and_go_on(server: FederatedServer, request: Any) -> Any:
        client = server.client_manager.clients.get(request.get_header(CellMessageHeaderKeys.TOKEN))
        if client and isinstance(request.payload, dict) and request.payload.get(JobFailureMsgKey.REASON):
            reason = request.payload[JobFailureMsgKey.REASON]
            job = str(request.payload.get(JobFailureMsgKey.JOB_ID))
            note(engine / Path(job).name, client.name, f"its job process ended ({reason}); its log has the reason")
            request.payload[JobFailureMsgKey.CODE] = 0
        return report(server, request)

    def note_dead(server: FederatedServer, client: Any, job: str, reason: str) -> None:
        note(engine / Path(job).name, client.name, f"its job process ended ({reason})")

    FederatedServer.process_job_failure = note_and_go_on
    FederatedServer._notify_dead_job = note_dead


def note_refusals(engine: Path) -> None:
    """Have the center write down why a party did not take a job; NVFlare tells only who asks for the record."""
    from nvflare.apis.fl_constant import FLContextKey
    from nvflare.private.fed.server.job_runner import JobRunner

    deploy = JobRunner._deploy_job

    def deploy_and_note(runner: JobRunner, job: Any, sites: Any, fl_ctx: Any) -> Any:
        try:
            return deploy(runner, job, sites, fl_ctx)
        finally:
            for line in fl_ctx.get_prop(FLContextKey.JOB_DEPLOY_DETAIL) or []:
                party, _, reason = str(line).partition(": ")
                if party in sites and reason != "OK":
                    log.error("%s did not take job %s: %s", party, job.job_id, reason)
                    note(engine / job.job_id, party, f"it did not take the job: {reason}")

    JobRunner._deploy_job = deploy_and_note
