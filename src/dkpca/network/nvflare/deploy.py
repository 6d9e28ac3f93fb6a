"""What a job may bring to a party: the configuration of our one class, signed by the operator, and nothing else.

NVFlare looks for its settings in every folder below its workspace, those of jobs included; so a job that brought a
file named like one of them could change how the party's engine runs.
"""

import io
import json
import logging
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nvflare.fuel.utils.zip_utils import unzip_all_from_bytes
from nvflare.lighter.tool_consts import NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE
from nvflare.lighter.utils import verify_folder_signature_and_get_signers
from nvflare.private.admin_defs import Message, error_reply
from nvflare.private.fed.client.training_cmds import DeployProcessor

from dkpca.network.nvflare import kits
from dkpca.network.nvflare.kits import EXECUTOR

log = logging.getLogger(__name__)

SIGNATURES = {NVFLARE_SIG_FILE, NVFLARE_SUBMITTER_CRT_FILE}
CLIENT_CONFIG, SERVER_CONFIG = "config/config_fed_client.json", "config/config_fed_server.json"
MAY_BRING = {CLIENT_CONFIG, SERVER_CONFIG, *SIGNATURES, *(f"config/{name}" for name in SIGNATURES)}
MAY_SET = {"format_version", "default_task_fetch_interval", "components", "executors"}
CLASS_KEYS = {"path", "name", "class_path"}
LARGEST_CONFIG = 1_000_000


class OnlyOurJobs(DeployProcessor):  # type: ignore[misc]
    """Refuses a job before anything of it is written; what passes goes through NVFlare's own checks."""

    root = ""  # file with the consortium's CA, set by the launcher

    def process(self, req: Message, app_ctx: Any) -> Message:
        """Called by NVFlare."""
        reason = refusal(req.body, self.root)
        if reason:
            log.error("refused a job: %s", reason)
            return error_reply(f"refused by the party: {reason}")
        return super().process(req, app_ctx)


def refusal(app: Any, root: str) -> str:
    """Return why a job's files are not accepted; empty if they are."""
    if not isinstance(app, bytes):
        return "the job has no files"
    try:
        with zipfile.ZipFile(io.BytesIO(app)) as archive:
            files = {item.filename: item.file_size for item in archive.infolist() if not item.is_dir()}
            unexpected = sorted(set(files) - MAY_BRING)
            if unexpected:
                return f"the job brings {unexpected[:5]}; a job may bring only its configuration"
            if CLIENT_CONFIG not in files or max(files.values()) > LARGEST_CONFIG:
                return f"the job has no usable {CLIENT_CONFIG}"
            config = json.loads(archive.read(CLIENT_CONFIG))
    except (zipfile.BadZipFile, ValueError) as error:
        return f"the job cannot be read ({type(error).__name__})"
    foreign = sorted({name for name in _classes(config) if name != EXECUTOR})
    if foreign:
        return f"the job names {foreign[:5]}; this party runs only {EXECUTOR}"
    unknown = sorted(set(config) - MAY_SET)
    if unknown:
        return f"the job sets {unknown[:5]}; a job may name its executor and nothing else"
    return _signature_problem(app, root)


def _classes(config: Any) -> Iterator[str]:
    """Whatever NVFlare would make an object of."""
    if isinstance(config, dict):
        for key, value in config.items():
            if key in CLASS_KEYS:
                yield str(value)
            else:
                yield from _classes(value)
    elif isinstance(config, list):
        for value in config:
            yield from _classes(value)


def _signature_problem(app: bytes, root: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        unzip_all_from_bytes(app, folder)
        if not (Path(folder) / NVFLARE_SIG_FILE).exists():
            return "the job is not signed"
        whole, signers = verify_folder_signature_and_get_signers(folder, root)
    if not whole:
        return "the job's signature is wrong"
    if {(name, role) for name, _, role in signers} != {(kits.OPERATOR, "lead")}:
        return f"the job is signed by {sorted(name for name, *_ in signers)}, not by {kits.OPERATOR}"
    return ""
