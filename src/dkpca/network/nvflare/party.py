"""The one class that a job may name at a party. It translates: bytes in, the responder's answer out."""

from pathlib import Path

from nvflare.apis.executor import Executor
from nvflare.apis.fl_constant import FLContextKey, ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply
from nvflare.apis.signal import Signal

from dkpca.network.responder import Responder

TASK, REQUEST, ANSWER = "ask", "request", "answer"


class PartyExecutor(Executor):  # type: ignore[misc]
    """Answers for the party whose folder holds NVFlare's workspace; the job cannot name another."""

    def execute(self, task_name: str, shareable: Shareable, fl_ctx: FLContext, abort_signal: Signal) -> Shareable:
        """Called by NVFlare for each task."""
        request = shareable.get(REQUEST)
        if task_name != TASK or not isinstance(request, bytes):
            return make_reply(ReturnCode.BAD_TASK_DATA)
        workspace = Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir())
        reply = make_reply(ReturnCode.OK)
        reply[ANSWER] = Responder(workspace.parent, identity=fl_ctx.get_identity_name()).answer(request)
        return reply
