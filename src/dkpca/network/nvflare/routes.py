"""Who may speak to whom, and under which name: the center with each party, a party with its own processes.

NVFlare is made for cells that trust each other. It forwards messages from party to party, believes the sender's name
in the header of a message, and connects in clear to any address that a header names. Names of connections are checked
against certificates, so that here they decide.
"""

import logging
from collections.abc import Callable
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey, MessageType
from nvflare.fuel.f3.streaming.stream_const import StreamHeaderKey

log = logging.getLogger(__name__)

CENTER = "server"  # NVFlare's name for it
# What a message is for; a part of a stream also names what the whole stream is for.
PURPOSES = (
    (MessageHeaderKey.CHANNEL, MessageHeaderKey.TOPIC),
    (StreamHeaderKey.CHANNEL, StreamHeaderKey.TOPIC),
)
ANY = None
# What others than the center's own processes may ask of the center: channels, and topics where not any.
ASKED: dict[str, set[str] | None] = {
    "task": {"challenge", "register", "heart_beat", "report_job_failure", "quit"},
    "server_command": {"get_task", "submit_update"},
    "cellnet.channel": {"bye"},
    "aux_communication": ANY,
    "download_service__": ANY,
    "hci_channel": ANY,  # NVFlare asks who it is: only the operator may do anything there
    "return_only": ANY,
    "sm__STREAM": ANY,
    "credential_manager": ANY,
}


def at_a_party(name: str) -> None:
    """In a party's processes: hear the center, and this party's own processes."""
    _hear_only(lambda sender, message: refusal_at_a_party(name, sender, message))


def at_the_center() -> None:
    """In the center's processes: a party speaks under its own name, and to the center only."""
    _hear_only(refusal_at_the_center)


def refusal_at_a_party(name: str, sender: str, message: Any) -> str:
    """Return why a message that came from a sender is not heard; empty if it is."""
    heard = {CENTER: {CENTER}, name: {name, CENTER}}.get(
        _root(sender)
    )  # a party's engine may pass on the center's words
    if heard is None:
        return "this party has no line to it"
    origin = str(message.get_header(MessageHeaderKey.ORIGIN))
    return "" if _root(origin) in heard else f"it speaks as {origin!r}"


def refusal_at_the_center(sender: str, message: Any) -> str:
    """Return why a message that came from a sender is not heard; empty if it is."""
    if _root(sender) == CENTER:
        return ""
    origin, to = (str(message.get_header(key)) for key in (MessageHeaderKey.ORIGIN, MessageHeaderKey.DESTINATION))
    if origin != sender and not origin.startswith(f"{sender}."):
        return f"it speaks as {origin!r}"
    if _root(to) != CENTER:
        return f"it is for {to!r}, and the center forwards nothing"
    if message.get_header(MessageHeaderKey.MSG_TYPE) in (MessageType.REPLY, MessageType.RETURN):
        return ""
    for channel, topic in (tuple(map(message.get_header, pair)) for pair in PURPOSES):
        topics = ASKED.get(str(channel), set())
        if channel is not None and topics is not ANY and topic not in topics:
            return f"{channel}:{topic} is not for it"
    return ""


def _hear_only(refusal: Callable[[str, Any], str]) -> None:
    CoreCell._add_adhoc_connector = _stay
    receive = CoreCell._process_received_msg

    def receive_if_allowed(cell: CoreCell, endpoint: Any, connection: Any, message: Any) -> None:
        reason = refusal(endpoint.name, message)
        if reason:
            log.error("refused a message of %r: %s", endpoint.name, reason)
        else:
            receive(cell, endpoint, connection, message)

    CoreCell._process_received_msg = receive_if_allowed


def _stay(cell: CoreCell, to_cell: str, url: str) -> None:
    log.error("refused to connect to %r", url)


def _root(name: str) -> str:
    """Party of a process, by NVFlare's name for the process."""
    return name.partition(".")[0]
