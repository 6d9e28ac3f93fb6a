"""How sites connect: one connection a name at the center; at a party quick retries, clear refusals, a new start."""

import logging
import time
from typing import Any

from nvflare.fuel.f3.cellnet.core_cell import CoreCell
from nvflare.fuel.f3.cellnet.defs import CellChannelTopic, MessageHeaderKey, ReturnCode
from nvflare.fuel.f3.cellnet.fqcn import FQCN
from nvflare.fuel.f3.comm_error import CommError
from nvflare.fuel.f3.drivers.connector_info import Mode
from nvflare.fuel.f3.sfm import conn_manager
from nvflare.fuel.f3.sfm.conn_manager import ConnManager
from nvflare.fuel.f3.sfm.constants import HandshakeKeys, Types

from dkpca.network.nvflare import kits, site

log = logging.getLogger(__name__)

REFUSED = "dkpca_refused"
RETRY_SECONDS = 2


def retry_soon() -> None:
    """Look for the center every two seconds, instead of after 1, 2, 4, 8, 10, 10..."""
    conn_manager.MAX_WAIT = RETRY_SECONDS


def one_for_each_name() -> None:
    """Refuse a second site under the name of one that is connected; NVFlare would let it displace the first."""
    accept = ConnManager.update_endpoint

    def accept_if_free(manager: ConnManager, connection: Any, data: dict[str, Any]) -> None:
        name = FQCN.normalize(data.get(HandshakeKeys.ENDPOINT_NAME, ""))
        if connection.conn.connector.mode == Mode.PASSIVE and _is_taken(manager, connection, name):
            sentence = f"another site with the name {name!r} is connected"
            log.error("refused a connection: %s", sentence)
            site.say(f"center: refused a second site with the name {name}")
            _refuse(connection, sentence)
        accept(manager, connection, data)

    ConnManager.update_endpoint = accept_if_free


def explain_refusals(party: str) -> None:
    """Say that the center closes the connection because the name is taken; stop, unless this party was connected."""
    accept = ConnManager.update_endpoint

    def accept_if_welcome(manager: ConnManager, connection: Any, data: dict[str, Any]) -> None:
        reason = data.pop(REFUSED, "")
        if reason:
            log.error("the center refused the connection: %r", reason)
            site.say(
                f"{party}: the center says that another site with the name {party!r} is connected; stop that one"
            )
            if not site.connected:
                site.stop(1)
        accept(manager, connection, data)

    ConnManager.update_endpoint = accept_if_welcome


class Heartbeats:
    """Whether the center answers this party, and what to do if it does not."""

    def __init__(self, party: str) -> None:
        self.party, self.answered, self.unanswered, self.lost = party, time.monotonic(), 0, False

    def note(self, code: str) -> None:
        """Say what changed; start anew if the center is there but does not answer, as after it got a new key."""
        if code == ReturnCode.OK:
            if self.lost:
                site.say(f"{self.party}: connected again; waiting for requests")
            self.answered, self.unanswered, self.lost = time.monotonic(), 0, False
            return
        if not self.lost:
            self.lost = True
            site.say(f"{self.party}: center lost; trying again")
        self.unanswered = self.unanswered + 1 if code in (ReturnCode.TIMEOUT, ReturnCode.UNAUTHENTICATED) else 0
        if self.unanswered > 1 and time.monotonic() - self.answered > kits.SILENT_SECONDS:
            log.error("the center does not answer heartbeats (%s); starting anew", code)
            site.say(f"{self.party}: the center is there but does not know this party any more; starting anew")
            site.restart()


def watch_heartbeats(party: str) -> None:
    """Look at the answer to each heartbeat; NVFlare would send them for ever to a center that rejects them."""
    send, heartbeats = CoreCell.send_request, Heartbeats(party)

    def send_and_look(cell: CoreCell, *arguments: Any, **named: Any) -> Any:
        reply = send(cell, *arguments, **named)
        if named.get("topic") == CellChannelTopic.HEART_BEAT:
            heartbeats.note(reply.get_header(MessageHeaderKey.RETURN_CODE))
        return reply

    CoreCell.send_request = send_and_look


def _is_taken(manager: ConnManager, connection: Any, name: str) -> bool:
    known = manager.sfm_endpoints.get(name)
    others = [other for other in known.connections if other is not connection] if known else []
    # A line that was cut without a word stays open here; heartbeats tell it from a living one.
    return any(time.time() - other.last_activity < kits.SILENT_SECONDS for other in others)


def _refuse(connection: Any, sentence: str) -> None:
    told = {HandshakeKeys.ENDPOINT_NAME: connection.local_endpoint.name, REFUSED: sentence}
    connection.send_dict(Types.READY, 1, told)
    time.sleep(0.5)  # or the closing overtakes the reason
    connection.conn.close()
    raise CommError(CommError.BAD_DATA, sentence)
