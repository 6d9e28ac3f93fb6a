"""What NVFlare reads at start: connection, certificates, logging, and the settings that make jobs short."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dkpca.store import storage

PIN = "2.9.0"
CENTER = "center"  # the name in the center's certificate; parties check it
OPERATOR = "operator@center"
EXECUTOR = "dkpca.network.nvflare.party.PartyExecutor"
LAUNCHER = "dkpca.network.nvflare.job.PartyLauncher"
FIT, PROJECT = "dkpca.network.nvflare.center.Fit", "dkpca.network.nvflare.center.Project"
JOB_NUMBER = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")  # also the name of its folder
HEARTBEAT_SECONDS = 4
SILENT_SECONDS = 30  # a party not heard of for so long is gone
RIGHTS = (
    "byoc",
    "shell_commands",
    "submit_job",
    "clone_job",
    "manage_job",
    "download_job",
    "view",
    "operate",
    "server-predeployed-flwr",
)
ROLES = ("project_admin", "org_admin", "lead", "member")
NOTHING = dict.fromkeys(RIGHTS, "none")

COMMUNICATION: dict[str, Any] = {
    "allow_adhoc_conns": False,
    "heartbeat_interval": 10,
    # Between an engine and the processes of its jobs; NVFlare's default lets any user of the machine connect.
    "internal": {"scheme": "tcp", "resources": {"host": "localhost", "connection_security": "mtls"}},
}


def permissions(of_the_operator: Mapping[str, str]) -> dict[str, Any]:
    """Only the operator's role may do anything, and only this."""
    return {
        "format_version": "1.0",
        "permissions": {role: NOTHING | dict(of_the_operator if role == "lead" else {}) for role in ROLES},
    }


AT_A_PARTY = permissions({"submit_job": "any", "manage_job": "n:submitter", "view": "any"})
AT_THE_CENTER = permissions(
    {"submit_job": "any", "manage_job": "n:submitter", "download_job": "n:submitter", "view": "any"}
)


def party_startup(project: str, party: str, host: str, port: int) -> dict[str, Any]:
    """Where the center is, and that jobs have to be signed."""
    return {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [
            {"name": project, "service": {"target": f"{host}:{port}", "scheme": "grpc"}, "identity": CENTER},
        ],
        "client": {
            "ssl_private_key": "client.key",
            "ssl_cert": "client.crt",
            "ssl_root_cert": "rootCA.pem",
            "fqsn": party,
            "is_leaf": True,
            "connection_security": "mtls",
        },
    }


def center_startup(project: str, host: str, port: int) -> dict[str, Any]:
    """Where the center listens: on loopback if its host is loopback, else on all interfaces."""
    return {
        "format_version": 2,
        "require_signed_jobs": True,
        "servers": [
            {
                "name": project,
                "service": {"target": f"{host}:{port}", "scheme": "grpc"},
                "admin_server": CENTER,
                "admin_port": port,
                "ssl_private_key": "server.key",
                "ssl_cert": "server.crt",
                "ssl_root_cert": "rootCA.pem",
                "connection_security": "mtls",
            }
        ],
    }


def operator_startup(project: str, host: str, port: int) -> dict[str, Any]:
    """How the operator reaches the center."""
    return {
        "format_version": 1,
        "admin": {
            "project_name": project,
            "username": OPERATOR,
            "server_identity": CENTER,
            "scheme": "grpc",
            "host": host,
            "port": port,
            "connection_security": "mtls",
            "uid_source": "user_input",
            "with_file_transfer": True,
            "upload_dir": "transfer",
            "download_dir": "transfer",
            "client_key": "client.key",
            "client_cert": "client.crt",
            "ca_cert": "rootCA.pem",
        },
    }


def center_resources(engine: Path) -> dict[str, Any]:
    """The center's own folders, its two classes, and waits of a second instead of ten."""
    store = "nvflare.app_common.storages.filesystem_storage.FilesystemStorage"
    return {
        "format_version": 2,
        "class_list_enforcement_mode": "enforce",
        "class_allow_list": [FIT, PROJECT],
        "allow_log_streaming": False,
        "servers": [
            {
                "admin_storage": "transfer",
                "max_num_clients": 1000,
                "heart_beat_timeout": SILENT_SECONDS,
                "admin_timeout": 10.0,
                "check_engine_frequency": 0.2,
                "shutdown_period": 1.0,
            }
        ],
        "snapshot_persistor": {
            "path": "nvflare.app_common.state_persistors.storage_state_persistor.StorageStatePersistor",
            "args": {
                "uri_root": "/",
                "storage": {"path": store, "args": {"root_dir": str(engine / "snapshots"), "uri_root": "/"}},
            },
        },
        "components": [
            {
                "id": "job_scheduler",
                "path": "nvflare.app_common.job_schedulers.job_scheduler.DefaultJobScheduler",
                "args": {"max_jobs": 1, "min_schedule_interval": 1.0, "max_schedule_interval": 2.0},
            },
            {
                "id": "job_manager",
                "path": "nvflare.apis.impl.job_def_manager.SimpleJobDefManager",
                "args": {"uri_root": str(engine / "jobs"), "job_store_id": "job_store"},
            },
            {"id": "job_store", "path": store},
            {"id": "process_launcher", "path": "dkpca.network.nvflare.job.CenterLauncher", "args": {}},
            {"id": "reporter", "path": "dkpca.network.nvflare.site.CenterReporter", "args": {}},
        ],
    }


def logging_to_files() -> dict[str, Any]:
    """Logs go to the engine's folder; the terminal is for the sentences of our own commands."""
    formatter = {
        "()": "nvflare.fuel.utils.log_utils.BaseFormatter",
        "fmt": "%(asctime)s - %(name)s - %(levelname)s - %(fl_ctx)s - %(message)s",
    }
    handlers = {
        name: {
            "class": "logging.handlers.RotatingFileHandler",
            "level": level,
            "formatter": "plain",
            "filename": file,
            "mode": "a",
            "maxBytes": 20_000_000,
            "backupCount": 5,
        }
        for name, level, file in (("all", "DEBUG", "log.txt"), ("errors", "ERROR", "error_log.txt"))
    }
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "formatters": {"plain": formatter},
        "handlers": handlers,
        "loggers": {"root": {"level": "INFO", "handlers": list(handlers)}},
    }


def write_local(engine: Path, resources: Mapping[str, Any], authorization: Mapping[str, Any]) -> None:
    """Write the site's own settings."""
    local = engine / "local"
    storage.write_all(
        {
            local / "resources.json": storage.as_json(resources),
            local / "authorization.json": storage.as_json(authorization),
            local / "log_config.json": storage.as_json(logging_to_files()),
            local / "comm_config.json": storage.as_json(COMMUNICATION),
        }
    )


def make_folders(engine: Path) -> None:
    """Create the folders of a workspace."""
    for folder in (engine, engine / "startup", engine / "local", engine / "transfer"):
        storage.make_directory(folder)
