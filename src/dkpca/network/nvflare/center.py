"""Runs at the center, in the process of a job: carries questions by NVFlare; `exchange.center` does the rest."""

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nvflare.apis.client import Client
from nvflare.apis.controller_spec import ClientTask, Task
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.apis.signal import Signal

from dkpca.errors import DKPCAError
from dkpca.exchange import rounds
from dkpca.network.coordinator import Coordinator
from dkpca.network.nvflare import consortium, endings
from dkpca.network.nvflare.party import ANSWER, REQUEST, TASK
from dkpca.network.remote import Failure

WAIT_SECONDS = 0.1
GREETING_SECONDS = 60.0

Arrived = Callable[[str, bytes | Failure], None]


class Transport:
    """Carries a request to the parties of a job, and their answers back."""

    def __init__(self, controller: Controller, fl_ctx: FLContext, abort_signal: Signal) -> None:
        self.controller, self.fl_ctx, self.abort_signal = controller, fl_ctx, abort_signal
        workspace = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT)
        self.job = Path(workspace.get_run_dir(fl_ctx.get_job_id()))
        self.asked: set[str] = set()

    def carry(self, request: bytes, parties: Sequence[str], seconds: float, arrived: Arrived) -> None:
        """See `dkpca.exchange.remote.Transport`."""
        here = self._here()
        known = endings.noted(self.job)
        for absent in sorted(set(parties) - here):
            arrived(absent, Failure(known.get(absent, "it did not take the job: it is not connected")))
        data = Shareable()
        data[REQUEST] = request
        self._send(data, set(parties) & here, seconds, arrived)

    def greet(self) -> None:
        """Wait for the parties that were asked nothing: NVFlare never ends a job at one that begins it too late."""
        self._send(Shareable(), self._here() - self.asked, GREETING_SECONDS, lambda party, brought: None)

    def _here(self) -> set[str]:
        return {client.name for client in self.fl_ctx.get_engine().get_clients()}

    def _send(self, data: Shareable, waiting: set[str], seconds: float, arrived: Arrived) -> None:
        self.asked |= waiting

        def brought(client_task: ClientTask, fl_ctx: FLContext) -> None:
            # NVFlare has checked this name against the certificate of the connection.
            name = client_task.client.name
            arrived(name, _contents(client_task.result))
            client_task.result = None  # its memory is wanted for the next
            waiting.discard(name)

        end = time.monotonic() + seconds
        task = Task(TASK, data, timeout=math.ceil(seconds) + 1, result_received_cb=brought)
        if waiting:
            self.controller.broadcast(task, self.fl_ctx, targets=sorted(waiting), min_responses=len(waiting))
        while waiting and time.monotonic() < end and not self.abort_signal.triggered:
            for party, reason in endings.noted(self.job).items():
                if party in waiting:
                    waiting.discard(party)
                    arrived(party, Failure(reason))
            time.sleep(WAIT_SECONDS)
        if self.abort_signal.triggered:
            for party in sorted(waiting):
                arrived(party, Failure("the job was aborted"))
        self.controller.cancel_task(task)


def _contents(result: Shareable) -> bytes | Failure:
    code, answer = result.get_return_code(), result.get(ANSWER)
    if code != ReturnCode.OK:
        return Failure(f"its engine reports {code}; its log has the reason")
    return answer if isinstance(answer, bytes) else Failure("its answer holds no message")


class Job(Controller):  # type: ignore[misc]
    """What the two jobs have in common."""

    def __init__(self, run: str, seconds: float, **settings: Any) -> None:
        super().__init__()
        self.run_name, self.seconds, self.settings = run, seconds, settings

    def start_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to prepare."""

    def stop_controller(self, fl_ctx: FLContext) -> None:
        """Nothing to clean up: what arrived is in the run's directory."""

    def process_result_of_unknown_task(
        self, client: Client, task_name: str, client_task_id: str, result: Shareable, fl_ctx: FLContext
    ) -> None:
        """An answer after its time is not used; the next run asks again."""
        self.log_warning(fl_ctx, f"{client.name} answered {task_name} after its time")

    def control_flow(self, abort_signal: Signal, fl_ctx: FLContext) -> None:
        """Called by NVFlare."""
        folder = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir()).parent
        transport = Transport(self, fl_ctx, abort_signal)
        center = Coordinator(
            folder / "runs", consortium.load(folder).parties, transport, self.seconds, fl_ctx.get_job_id()
        )
        try:
            self.work(center)
            transport.greet()
        except DKPCAError as error:
            self.system_panic(str(error), fl_ctx)

    @abstractmethod
    def work(self, center: Coordinator) -> None:
        """Do what the job is for."""


class Fit(Job):
    """Align where needed, summaries, then the result to the parties."""

    def work(self, center: Coordinator) -> None:
        """See `Coordinator.fit`."""
        settings = dict(self.settings)
        center.fit(self.run_name, rounds.Fit.from_dict(settings.pop("fit")), **settings)


class Project(Job):
    """Place batches of new samples, all in one job."""

    def work(self, center: Coordinator) -> None:
        """See `Coordinator.project`."""
        center.project(self.run_name, **self.settings)
