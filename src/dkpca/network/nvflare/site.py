"""What the engine tells the person who started it, in sentences on the terminal."""

import os
import signal
from typing import Any

from nvflare.apis.event_type import EventType
from nvflare.apis.fl_component import FLComponent
from nvflare.apis.fl_constant import FLContextKey
from nvflare.apis.fl_context import FLContext

from dkpca import wording

exit_code = 130
starts_anew = False
connected = False  # whether this party ever was
address = ""
terminal = 1  # file descriptor; the launcher moves it before NVFlare's own output is sent to a file


def say(sentence: str) -> None:
    """Write one line to the terminal."""
    os.write(terminal, (wording.printable(sentence) + "\n").encode())


def stop(code: int) -> None:
    """Stop this site from any thread, the way a signal would."""
    global exit_code
    exit_code = code
    os.kill(os.getpid(), signal.SIGTERM)


def restart() -> None:
    """Stop this site and start it again, in the same process."""
    global starts_anew
    starts_anew = True
    stop(1)


class PartyReporter(FLComponent):  # type: ignore[misc]
    """Says when the party is connected."""

    client: Any = None  # of this process, for the launcher

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Called by NVFlare."""
        if event_type == EventType.SYSTEM_BOOTSTRAP:
            type(self).client = fl_ctx.get_prop(FLContextKey.SITE_OBJ)
        elif event_type == EventType.SYSTEM_START and self.client is not None:
            global connected
            connected = True
            target = next(iter(self.client.servers.values()))["target"]
            say(f"{self.client.client_name}: connected to center {target}; waiting for requests")


CHANGES = (EventType.CLIENT_REGISTER_PROCESSED, EventType.CLIENT_HEARTBEAT_PROCESSED, EventType.CLIENT_QUIT)


class CenterReporter(FLComponent):  # type: ignore[misc]
    """Says when the center listens, and who comes and goes."""

    here: frozenset[str] = frozenset()

    def handle_event(self, event_type: str, fl_ctx: FLContext) -> None:
        """Called by NVFlare."""
        if event_type == EventType.SYSTEM_START:
            say(f"center: listening on {address}; waiting for parties")
        elif event_type in CHANGES:
            self.update(fl_ctx)

    def update(self, fl_ctx: FLContext) -> None:
        """Say what changed since the last time."""
        now = frozenset(client.name for client in fl_ctx.get_engine().get_clients())
        for name in sorted(now - self.here):
            say(f"center: {name} is connected")
        for name in sorted(self.here - now):
            say(f"center: {name} is gone")
        self.here = now
