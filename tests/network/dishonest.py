"""A center that attacks its parties: ours, allowed everything, with orders from a test. Runs as a process of its own.

An order is a file in the center's `orders` folder; its answer appears beside it.
"""

import base64
import contextlib
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
from nvflare.apis.controller_spec import Task
from nvflare.apis.dxo import DXO, DataKind
from nvflare.apis.event_type import EventType
from nvflare.apis.impl.controller import Controller
from nvflare.apis.shareable import Shareable
from nvflare.fuel.f3.cellnet.defs import CellChannel, MessageHeaderKey
from nvflare.fuel.f3.cellnet.utils import new_cell_message
from nvflare.fuel.utils.zip_utils import zip_directory_to_bytes
from nvflare.lighter.utils import load_private_key_file, sign_folders
from nvflare.private.admin_defs import Message, MsgHeader
from nvflare.private.defs import RequestHeader, SysCommandTopic, TrainingTopic
from nvflare.private.fed.server.fed_server import FederatedServer
from nvflare.private.scheduler_constants import ShareableHeader

from dkpca.network.nvflare import consortium as members
from dkpca.network.nvflare import kits, launch, site, submit
from dkpca.store import storage

ORDERS = "orders"
NOBODY_ASKS = {RequestHeader.REQUIRE_AUTHZ: "false", RequestHeader.USER_ROLE: "project_admin"}


def ask(cell: Any, target: str, channel: str, topic: str, payload: Any, seconds: float = 20.0) -> tuple[str, Any]:
    """Send anything to any process of a party; return the code and what came back."""
    reply = cell.send_request(channel, topic, target, new_cell_message({}, payload), timeout=seconds)
    return str(reply.get_header(MessageHeaderKey.RETURN_CODE)), reply.payload


def command(engine: Any, party: str, topic: str, body: Any, **headers: Any) -> dict[str, Any]:
    """Send a command to a party's own process, in the name of a project admin and without asking whether it may."""
    message = Message(topic, body)
    for key, value in (NOBODY_ASKS | headers).items():
        message.set_header(key, value)
    code, reply = ask(engine.server.cell, party, CellChannel.CLIENT_MAIN, "admin", message)
    if not isinstance(reply, Message):
        return {"code": code, "body": str(reply)}
    return {"code": str(reply.get_header(MsgHeader.RETURN_CODE, "ok")), "body": str(reply.body), "message": reply}


def shell(engine: Any, party: str, line: str) -> dict[str, Any]:
    return command(engine, party, SysCommandTopic.SHELL, line)


def cellnet(
    engine: Any, target: str, channel: str, topic: str, payload: Any = None, seconds: float = 20.0
) -> dict[str, Any]:
    code, reply = ask(engine.server.cell, target, channel, topic, payload, seconds)
    return {"code": code, "body": str(reply)}


def deploy(
    engine: Any, party: str, app: str, signer: str, number: str, meta: dict[str, Any], start: bool
) -> dict[str, Any]:
    """Bring a job to a party past the center's own checks, and perhaps start it, whatever the party says."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(app, Path(folder) / "app")
        if signer:
            sign_folders(str(copy), load_private_key_file(f"{signer}/client.key"), f"{signer}/client.crt")
        files = zip_directory_to_bytes(str(copy), "")
    headers = {
        RequestHeader.JOB_ID: number,
        RequestHeader.APP_NAME: "app",
        RequestHeader.JOB_META: {"job_id": number, "resource_spec": {}, **meta},
    }
    deployed = command(engine, party, TrainingTopic.DEPLOY, files, **headers)
    told = {"code": deployed["code"], "body": deployed["body"], "number": number, "started": ""}
    if not start:
        return told
    resources = command(engine, party, TrainingTopic.CHECK_RESOURCE, {}, **headers).get("message")
    if isinstance(resources, Message) and isinstance(resources.body, Shareable):
        headers[ShareableHeader.RESOURCE_RESERVE_TOKEN] = resources.body.get_header(
            ShareableHeader.RESOURCE_RESERVE_TOKEN
        )
    started = command(engine, party, TrainingTopic.START_JOB, {}, **headers)
    return told | {"started": started["body"]}


DOING = {function.__name__: function for function in (command, shell, cellnet, deploy)}


def obey(engine: Any, folder: Path) -> None:
    """Carry out one order after the other."""
    while True:
        for path in sorted(folder.glob("*.order")):
            order = json.loads(path.read_text())
            try:
                answer = DOING[order.pop("do")](engine, **order)
            except Exception as error:  # noqa: BLE001  the test has to see it
                answer = {"code": "failed at the center", "body": repr(error)}
            answer.pop("message", None)
            written = path.with_suffix(".part")
            written.write_text(json.dumps(answer))
            path.unlink()
            written.rename(path.with_suffix(".answer"))
        time.sleep(0.05)


class Ask(Controller):
    """Asks whatever the job says, of everyone in it, and writes down what came back."""

    def __init__(self, questions: list[dict[str, str]], report: str) -> None:
        super().__init__()
        self.questions, self.report = questions, report

    def start_controller(self, fl_ctx: Any) -> None: ...
    def stop_controller(self, fl_ctx: Any) -> None: ...
    def process_result_of_unknown_task(self, *arguments: Any) -> None: ...

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        told = [self.tasks(question, abort_signal, fl_ctx) for question in self.questions if "task" in question]
        told += [self.messages(question, fl_ctx) for question in self.questions if "channel" in question]
        storage.write(Path(self.report), json.dumps(told).encode())

    def tasks(self, question: dict[str, str], abort_signal: Any, fl_ctx: Any) -> dict[str, Any]:
        """Give everyone a task."""
        answers: dict[str, Any] = {}

        def note(client_task: Any, fl_ctx: Any) -> None:
            result, answer = client_task.result, client_task.result.get("answer")
            answers[client_task.client.name] = {
                "code": result.get_return_code(),
                "answer": base64.b64encode(answer).decode() if isinstance(answer, bytes) else "",
            }

        task = Task(question["task"], _data(question), timeout=10, result_received_cb=note)
        here = [client.name for client in fl_ctx.get_engine().get_clients()]
        self.broadcast_and_wait(
            task, fl_ctx, targets=here, min_responses=len(here), wait_time_after_min_received=0,
            abort_signal=abort_signal,
        )  # fmt: skip
        return answers

    def messages(self, question: dict[str, str], fl_ctx: Any) -> dict[str, Any]:
        """Send a message to everyone's process of this job."""
        engine, answers = fl_ctx.get_engine(), {}
        for party in [client.name for client in engine.get_clients()]:
            target = f"{party}.{fl_ctx.get_job_id()}"
            code, reply = ask(engine.get_cell(), target, question["channel"], question["topic"], "INFO")
            answers[party] = {"code": code, "answer": str(reply)}
        return answers


def _data(question: dict[str, str]) -> Shareable:
    if "request" not in question:
        return DXO(DataKind.WEIGHTS, data={"numpy_key": np.ones(3)}).to_shareable()
    data = Shareable()
    data["request"] = base64.b64decode(question["request"])
    return data


def run_job(center: Path, job: Path, report: Path) -> None:
    """Hand in a job as the operator; print what the engine says once the controller has reported."""
    with submit.session(members.load(center)) as opened:
        number = opened.submit_job(str(job))
        meta: dict[str, Any] = {}
        while not (report.exists() or str(meta.get("status", "")).startswith("FINISHED")):
            time.sleep(0.2)
            meta = opened.get_job_meta(number)
        detail = opened.get_job_meta(number).get("job_deploy_detail")
    print(json.dumps({"number": number, "detail": detail or []}))


def start(center: Path) -> None:
    """Start our center; it allows itself everything, keeps logs that are sent to it, and obeys the test."""
    resources, report = kits.center_resources, site.CenterReporter.handle_event
    (center / ORDERS).mkdir(exist_ok=True)

    def greedy(engine: Path) -> dict[str, Any]:
        receiver = {
            "id": "log_receiver",
            "path": "nvflare.app_common.logging.job_log_receiver.JobLogReceiver",
            "args": {"dest_dir": str(center / "logs")},
        }
        mine = resources(engine)
        scheduler = next(each for each in mine["components"] if each["id"] == "job_scheduler")
        scheduler["args"]["max_jobs"] = 9
        return mine | {"class_allow_list": ["*"], "components": [*mine["components"], receiver]}

    def report_and_obey(reporter: Any, event_type: str, fl_ctx: Any) -> None:
        report(reporter, event_type, fl_ctx)
        if event_type == EventType.SYSTEM_START:
            engine = fl_ctx.get_engine()
            threading.Thread(target=obey, args=(engine, center / ORDERS), daemon=True).start()

    kits.center_resources = greedy
    kits.AT_THE_CENTER = kits.permissions(dict.fromkeys(kits.RIGHTS, "any"))
    site.CenterReporter.handle_event = report_and_obey
    FederatedServer._sync_client_jobs = lambda *_: []  # or a party is told to end the jobs of `deploy`
    launch.center(center)


if __name__ == "__main__":
    os.environ["PYTHONPATH"] = os.pathsep.join([sys.path[0], os.environ.get("PYTHONPATH", "")])  # for `Ask`, in a job
    with contextlib.suppress(KeyboardInterrupt):
        {"start": start, "run_job": run_job}[sys.argv[1]](*map(Path, sys.argv[2:]))
