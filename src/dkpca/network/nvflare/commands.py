"""What the center may tell a party's own process: a few commands, each about a job and that job's folder.

NVFlare takes the number of a job as the name of a folder in the party's workspace, and empties that folder before
it brings the job there: with the number 'local' it would be the party's settings.
"""

import logging
from collections.abc import Collection
from typing import Any

from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.defs import RequestHeader
from nvflare.private.fed.client.admin import FedAdminAgent

from dkpca.network.nvflare import kits

log = logging.getLogger(__name__)


def refuse_and_log() -> None:
    """Answer every other command with a refusal, and write it down."""
    dispatch = FedAdminAgent._dispatch_request

    def dispatch_if_allowed(agent: FedAdminAgent, request: Any) -> Any:
        reason = refusal(request.payload, agent.processors)
        if reason:
            log.error("refused a command of the center: %s", reason)
            return new_cell_message({}, error_reply(f"refused by the party: {reason}"))
        return dispatch(agent, request)

    FedAdminAgent._dispatch_request = dispatch_if_allowed


def refusal(command: Any, known: Collection[str]) -> str:
    """Return why a command is not carried out; empty if it is."""
    if not isinstance(command, Message):
        return "it cannot be read"
    if command.topic not in known:
        return f"{str(command.topic)[:100]!r} is not for the center"
    if not all(str(value).isprintable() for value in command.headers.values()):
        return "it has a header that would spoil the log"
    number = command.get_header(RequestHeader.JOB_ID)
    if number is not None and not (isinstance(number, str) and kits.JOB_NUMBER.fullmatch(number)):
        return f"{str(number)[:100]!r} is not the number of a job"
    return ""
