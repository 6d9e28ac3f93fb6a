"""A party accepts the configuration of its one class, signed by the operator, and nothing else."""

import io
import json
import subprocess
import sys
import zipfile

import pytest

from dkpca.network.nvflare.kits import EXECUTOR

pytestmark = pytest.mark.network

CONFIG = {"format_version": 2, "executors": [{"tasks": ["fit"], "executor": {"path": EXECUTOR, "args": {}}}]}
# In a process of its own: NVFlare's imports warn, and warnings are errors here.
ASK = """
import pathlib, sys
from nvflare.lighter.utils import load_private_key_file, sign_folders
from nvflare.fuel.utils.zip_utils import zip_directory_to_bytes
from dkpca.network.nvflare import deploy
root, kit, *apps = sys.argv[1:]
for app in apps:
    if kit:
        sign_folders(app, load_private_key_file(kit + "/client.key"), kit + "/client.crt")
    print(deploy.refusal(zip_directory_to_bytes(app, ""), root) or "accepted")
"""


def ask(federation, apps, kit) -> list[str]:
    root = federation.path / "airline" / "engine" / "startup" / "rootCA.pem"
    ran = subprocess.run(
        [sys.executable, "-c", ASK, str(root), str(kit), *map(str, apps)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def app(path, config=CONFIG, **files):
    (path / "config").mkdir(parents=True)
    (path / "config" / "config_fed_client.json").write_text(json.dumps(config))
    for name, text in files.items():
        file = path / name.replace("__", "/").replace("_dot_", ".")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    return path


def with_filter(path):
    return {"task_result_filters": [{"tasks": ["fit"], "filters": [{"path": path, "args": {}}]}]}


def test_what_a_job_may_bring(federate, tmp_path):
    f = federate()
    operator = f.operator / "startup"
    apps = {
        "accepted": app(tmp_path / "ours"),
        "'custom/evil.py'": app(tmp_path / "code", custom__evil_dot_py="print()"),
        "brings ['config/evil.py']": app(tmp_path / "hidden", config__evil_dot_py="print()"),
        "brings ['config/comm_config.json']": app(tmp_path / "comm", config__comm_config_dot_json="{}"),
        "brings ['config/resources.json']": app(tmp_path / "resources", config__resources_dot_json="{}"),
        "names ['subprocess.Popen']": app(tmp_path / "shell", CONFIG | with_filter("subprocess.Popen")),
        "sets ['task_data_filters']": app(tmp_path / "more", CONFIG | {"task_data_filters": []}),
        "names ['NPTrainer']": app(tmp_path / "short", CONFIG | {"components": [{"id": "x", "name": "NPTrainer"}]}),
    }
    answers = ask(f, apps.values(), operator)
    for expected, answer in zip(apps, answers, strict=True):
        assert expected in answer


def test_who_may_sign_a_job(federate, tmp_path):
    f, foreign = federate(), federate(["airline"], "g")
    assert "not signed" in ask(f, [app(tmp_path / "a")], "")[0]
    assert "signed by ['weather']" in ask(f, [app(tmp_path / "b")], f.path / "weather/engine/startup")[0]
    assert "signature is wrong" in ask(f, [app(tmp_path / "c")], foreign.operator / "startup")[0]


def test_what_is_no_archive_is_refused(federate):
    f = federate(["airline"])
    empty = io.BytesIO()
    zipfile.ZipFile(empty, "w").close()
    code = "from dkpca.network.nvflare.deploy import refusal\nfor app in (b'x', %r, None): print(refusal(app, ''))"
    ran = subprocess.run(
        [sys.executable, "-c", code % empty.getvalue()], capture_output=True, text=True, timeout=60, check=True
    )
    assert len(ran.stdout.splitlines()) == 3
    assert "None" not in ran.stdout
    assert f.left() == []
