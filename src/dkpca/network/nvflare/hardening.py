"""What a party's engine must not do, whatever the center asks; checked at every start."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from dkpca.network.nvflare import kits
from dkpca.network.nvflare.kits import EXECUTOR, LAUNCHER

# All the center needs to run one of our jobs; each other processor tells it or lets it change something.
NEEDED = frozenset(
    {
        "DeployProcessor",
        "CheckResourceProcessor",
        "CancelResourceProcessor",
        "StartJobProcessor",
        "NotifyJobStatusProcessor",
        "AbortAppProcessor",
    }
)
NEEDED_IN_A_JOB = frozenset({"CheckStatusCommand", "AbortCommand", "AbortTaskCommand", "ByeCommand"})
STARTUP_FILES = frozenset({"client.key", "client.crt", "rootCA.pem", "fed_client.json"})
LOCAL_FILES = frozenset({"resources.json", "authorization.json", "log_config.json", "comm_config.json"})
GRANTED = frozenset(right for right, who in kits.AT_A_PARTY["permissions"]["lead"].items() if who != "none")
# NVFlare reads settings from variables too.
ENGINE_VARIABLES = ("NVFLARE_", "NVFL_", "FL_")

RESOURCES: dict[str, Any] = {
    "format_version": 2,
    "class_list_enforcement_mode": "enforce",
    "class_allow_list": [EXECUTOR],
    "allow_log_streaming": False,
    "client": {
        "retry_timeout": 30,
        "compression": "Gzip",
        "client_register_interval": 1.0,
        "maint_msg_timeout": 10.0,
    },
    "components": [
        {
            "id": "resource_manager",
            "path": "nvflare.app_common.resource_managers.gpu_resource_manager.GPUResourceManager",
            "args": {"num_of_gpus": 0, "mem_per_gpu_in_GiB": 0, "expiration_period": 300},
        },
        {
            "id": "resource_consumer",
            "path": "nvflare.app_common.resource_consumers.gpu_resource_consumer.GPUResourceConsumer",
            "args": {},
        },
        {"id": "process_launcher", "path": LAUNCHER, "args": {}},
        {"id": "reporter", "path": "dkpca.network.nvflare.site.PartyReporter", "args": {}},
    ],
}


@dataclass(frozen=True)
class Setting:
    """One thing that must hold, and the sentence that says why it does not."""

    name: str
    problem: str = ""


def harden(engine: Path) -> None:
    """Write the party's settings."""
    kits.write_local(engine, RESOURCES, kits.AT_A_PARTY)


def check(engine: Path) -> list[str]:
    """Return one sentence for each setting that is not as it must be."""
    return [setting.problem for setting in settings(engine) if setting.problem]


def settings(engine: Path) -> list[Setting]:
    """Return the state of each setting."""
    resources = _read(engine / "local" / "resources.json")
    return [
        Setting("no custom code and no shell commands for anyone", _permissions(engine)),
        Setting("one class may run: the party's executor", _classes(engine, resources)),
        Setting("logs stay at the party", _log_streaming(engine, resources)),
        Setting("remote shell and other remote requests removed", _processors()),
        Setting("only signed jobs", _signed_jobs(engine)),
        Setting(f"NVFlare is version {kits.PIN}", check_version()),
        Setting("nothing else and nothing changed in the kit", _rest(engine, resources)),
    ]


def remove_processors(engine: Path) -> None:
    """Take from NVFlare's client every request processor that our jobs do not need, and look into each job."""
    from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors

    from dkpca.network.nvflare import commands
    from dkpca.network.nvflare.deploy import OnlyOurJobs

    close_network_agent()
    commands.refuse_and_log()
    OnlyOurJobs.root = str(engine / "startup" / "rootCA.pem")
    known = ClientRequestProcessors.request_processors
    kept = [processor for processor in known if type(processor).__name__ in NEEDED - {"DeployProcessor"}]
    known[:] = [OnlyOurJobs(), *kept]


def close_job_process() -> None:
    """Leave the process of a job no more than to be stopped."""
    from nvflare.private.fed.client.admin_commands import AdminCommands

    AdminCommands.commands[:] = [c for c in AdminCommands.commands if type(c).__name__ in NEEDED_IN_A_JOB]
    close_network_agent()


def close_network_agent() -> None:
    """NVFlare's agent in each process reports settings and threads to the center, and takes a new address from it."""
    from nvflare.private.fed.client import fed_client_base

    fed_client_base.NetAgent = lambda cell: SimpleNamespace(close=lambda: None)


def forget_engine_variables() -> None:
    """Settings come from the files that were checked, not from the environment."""
    for name in [name for name in os.environ if name.startswith(ENGINE_VARIABLES)]:
        del os.environ[name]


def _permissions(engine: Path) -> str:
    path = engine / "local" / "authorization.json"
    roles = _read(path).get("permissions")
    if not isinstance(roles, Mapping) or not set(kits.ROLES) <= set(roles):
        return f"{path}: has no permissions for {', '.join(kits.ROLES)}, so anything is allowed; {_RESTORE}"
    for role, rights in roles.items():
        for right in kits.RIGHTS:
            allowed = rights.get(right) if isinstance(rights, Mapping) else rights
            if allowed != "none" and not (role == "lead" and right in GRANTED):
                return f"{path}: {right} of role {role} is {allowed!r} and must be 'none'; {_RESTORE}"
    return ""


def _classes(engine: Path, resources: Mapping[str, Any]) -> str:
    path = engine / "local" / "resources.json"
    if resources.get("class_allow_list") != [EXECUTOR]:
        return f"{path}: class_allow_list must be [{EXECUTOR!r}]; {_RESTORE}"
    if resources.get("class_list_enforcement_mode") != "enforce":
        return f"{path}: class_list_enforcement_mode must be 'enforce'; {_RESTORE}"
    return ""


def _log_streaming(engine: Path, resources: Mapping[str, Any]) -> str:
    if resources.get("allow_log_streaming") is not False:
        return f"{engine / 'local' / 'resources.json'}: allow_log_streaming must be false; {_RESTORE}"
    return ""


def _processors() -> str:
    try:
        from nvflare.private.fed.client.client_req_processors import ClientRequestProcessors
    except ImportError:
        return "NVFlare's request processors are not where they were; install the version this program is made for"
    found = {type(processor).__name__ for processor in ClientRequestProcessors.request_processors}
    if not found >= NEEDED:
        return f"NVFlare has no {sorted(NEEDED - found)}; install the version this program is made for"
    return ""


def _signed_jobs(engine: Path) -> str:
    path = engine / "startup" / "fed_client.json"
    if _read(path).get("require_signed_jobs") is not True:
        return f"{path}: require_signed_jobs must be true; {_RESTORE}"
    if not (engine / "startup" / "rootCA.pem").is_file():
        return f"{engine / 'startup' / 'rootCA.pem'}: is missing, so no signature can be checked; join again"
    return ""


def check_version() -> str:
    """Return a sentence if NVFlare is not the version that was tested."""
    try:
        found = version("nvflare")
    except PackageNotFoundError:
        found = "none"
    if found != kits.PIN:
        return f"NVFlare is {found}; what is closed here was tested with {kits.PIN}: pip install nvflare=={kits.PIN}"
    return ""


def _rest(engine: Path, resources: Mapping[str, Any]) -> str:
    for folder, expected in (("startup", STARTUP_FILES), ("local", LOCAL_FILES)):
        present = {path.name for path in (engine / folder).iterdir()} if (engine / folder).is_dir() else set()
        if present - expected:
            return f"{engine / folder}: {sorted(present - expected)} do not belong there; remove them"
    for key in resources:
        if key not in RESOURCES or (key in ("client", "components") and resources[key] != RESOURCES[key]):
            return f"{engine / 'local' / 'resources.json'}: {key} is not what 'party join' wrote; {_RESTORE}"
    if (engine / "local" / "comm_config.json").exists() and _read(engine / "local" / "comm_config.json") != (
        kits.COMMUNICATION
    ):
        return f"{engine / 'local' / 'comm_config.json'}: is not what 'party join' wrote; {_RESTORE}"
    return ""


def _read(path: Path) -> Mapping[str, Any]:
    """Return a settings file; one that cannot be read sets nothing, which every check refuses."""
    try:
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, Mapping) else {}


_RESTORE = "restore it with 'dkpca party check DIR --restore'"
