"""The process of one job: our launchers start it, and it ends with the process that started it."""

import os
import runpy
import shlex
import sys
import threading
import time
from pathlib import Path
from typing import Any

from nvflare.apis.fl_constant import FLContextKey, JobConstants
from nvflare.apis.fl_context import FLContext
from nvflare.apis.job_launcher_spec import JobProcessArgs
from nvflare.app_common.job_launcher.process_launcher import ProcessJobLauncher
from nvflare.utils.job_launcher_utils import get_client_job_args, get_server_job_args

from dkpca.network.nvflare import hardening, inner, routes

MODULES = {
    "party": "nvflare.private.fed.app.client.worker_process",
    "center": "nvflare.private.fed.app.server.runner_process",
}


class PartyLauncher(ProcessJobLauncher):  # type: ignore[misc]
    """Starts jobs at a party; one that brought code is not started."""

    def get_command(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> str:
        """Called by NVFlare."""
        custom = Path(
            fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_app_custom_dir(job_meta[JobConstants.JOB_ID])
        )
        if custom.exists():
            raise RuntimeError("the job brings code; this party runs none but its own")
        return _command("party", fl_ctx, get_client_job_args())


class CenterLauncher(ProcessJobLauncher):  # type: ignore[misc]
    """Starts jobs at the center."""

    def get_command(self, job_meta: dict[str, Any], fl_ctx: FLContext) -> str:
        """Called by NVFlare."""
        return _command("center", fl_ctx, get_server_job_args())


def _command(site: str, fl_ctx: FLContext, names: list[str]) -> str:
    """Quoted, unlike NVFlare's own, so that folders may have spaces in their names."""
    arguments = fl_ctx.get_prop(FLContextKey.JOB_PROCESS_ARGS)
    engine = fl_ctx.get_prop(FLContextKey.WORKSPACE_OBJECT).get_root_dir()
    words = [sys.executable, "-m", __name__, site, fl_ctx.get_identity_name(), engine]
    for name in names:
        if name in arguments and name != JobProcessArgs.EXE_MODULE:
            option, value = arguments[name]
            words += [option, *(str(value).split() if name == JobProcessArgs.OPTIONS else [str(value)])]
    return shlex.join(words)


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone, even if that one was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _stop_waiting() -> None:
    """Take out the waits with which NVFlare ends a job process: six seconds of work that is not there."""
    from nvflare.fuel.f3.mpm import MainProcessMonitor
    from nvflare.private.fed.app import utils

    run = MainProcessMonitor.run

    def run_and_leave(main_func: Any, run_dir: str, **arguments: Any) -> Any:
        return run(main_func=main_func, run_dir=run_dir, shutdown_grace_time=0.1, **arguments)

    MainProcessMonitor.run = run_and_leave
    utils.monitor_parent_process = lambda runner, parent, stopped: stopped.wait()  # `_end_with` does it
    sys.modules["nvflare.app_opt.pt.tensor_downloader"] = None  # type: ignore[assignment]  # would load torch, at the end


def main() -> None:
    """Run NVFlare's job process."""
    site, name, engine = (sys.argv.pop(1) for _ in range(3))
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    _stop_waiting()
    inner.use(Path(engine))
    if site == "party":
        hardening.close_job_process()
        routes.at_a_party(name)
    else:
        routes.at_the_center()
    runpy.run_module(MODULES[site], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
