"""The upgrade guard: a dishonest center attacks, and a new NVFlare must not reopen what we closed.

Every attack goes to two parties at once. At `careless`, which runs NVFlare's own client with NVFlare's own settings,
it succeeds, so that the test can fail; at `careful`, which our launcher started, it does nothing.
"""

import base64
import itertools
import json
import os
import pickle
import re
import socket
import ssl
import subprocess
import sys
import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from dkpca.exchange.questions import StatisticsWanted
from dkpca.network.envelopes import Request, decode_answer, encode_request
from dkpca.network.nvflare import kits
from dkpca.network.nvflare.hardening import RESOURCES
from dkpca.network.nvflare.kits import EXECUTOR, LAUNCHER
from dkpca.store import storage
from tests.network.federation import CARELESS, Federation, Site, environment, wait_for

pytestmark = [pytest.mark.network, pytest.mark.slow]

PARTIES = ("careful", "careless")
DISHONEST = str(Path(__file__).with_name("dishonest.py"))
SECRET = "Ford-Prefect-42"
NP_TRAINER = "nvflare.app_common.np.np_trainer.NPTrainer"


class DishonestCenter(Site):
    """Our center with an attacker in it; see `dishonest.py`."""

    numbers = itertools.count()

    def command(self) -> list[str]:
        return [sys.executable, DISHONEST, "start", str(self.path)]

    def order(self, do: str, **arguments) -> dict[str, str]:
        """Have the center do something; return what the party answered."""
        order = self.path / "orders" / f"{next(self.numbers):04d}.order"
        written = order.with_suffix(".new")
        written.write_text(json.dumps({"do": do, **arguments}))
        written.rename(order)
        answer = order.with_suffix(".answer")
        wait_for(answer.exists, f"the center's answer to {do}", 70)
        return json.loads(answer.read_text())


class CarelessParty(Site):
    """NVFlare's own client."""

    def command(self) -> list[str]:
        return [sys.executable, "-c", CARELESS, str(self.path / "engine"), self.name]

    def wait_connected(self, seconds: float = 0) -> None:
        """It says nothing; the center does."""


class Guarded:
    """The federation, and the attacks on it."""

    def __init__(self, path: Path):
        self.federation = Federation(path, (*PARTIES, "halfway"))
        self.path = path
        self.center = self.federation.center = DishonestCenter(
            "center", "center", path / "center", self.federation.home
        )
        self.careful = self.federation.party("careful")
        self.listening = path / "listening"
        self.listening.mkdir()
        script = str(Path(__file__).with_name("listening"))
        self.careful.variables = {
            "PYTHONPATH": os.pathsep.join([script, os.environ.get("PYTHONPATH", "")]),
            "DKPCA_LISTENING": str(self.listening),
        }
        self.careless, self.halfway = (
            CarelessParty("party", name, path / name, self.federation.home) for name in ("careless", "halfway")
        )
        self.federation.parties |= {"careless": self.careless, "halfway": self.halfway}
        be_careless(path / "careless" / "engine" / "local")
        for party in PARTIES:
            (path / party / "table.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(20)))
            (path / party / "party.toml").write_text(
                f'party = "{party}"\ntable = "table.csv"\npolicy = "policy.toml"\n'
            )
            (path / party / "policy.toml").write_text("max_rank = 20\n")
            (path / party / "secret.txt").write_text(f"{SECRET} of {party}\n")
        self.operator = str(path / "center" / "operator" / "startup")

    def both(self, do: str, **arguments) -> tuple[dict[str, str], dict[str, str]]:
        """Do the same to both parties; return the answer of the careful one first."""
        careful, careless = (self.center.order(do, party=party, **arguments) for party in PARTIES)
        return careful, careless

    def sentinel(self, name: str) -> dict[str, Path]:
        """File that an attack creates at each party if it succeeds."""
        return {party: self.path / party / f"{name}.sentinel" for party in PARTIES}

    def deploy(
        self, name: str, configs: dict, signer: str | None = None, number: str = "", meta=None, run=False, **files
    ) -> list[dict[str, str]]:
        """Bring a job to each party that has a configuration for it; return the answers.

        It is started even if the party refused it; at the careless one only to see it run.
        """
        answers = []
        for party in configs:
            folder = self.path / "apps" / f"{name}-{party}"
            for file, text in {"config/config_fed_client.json": json.dumps(configs[party]), **files}.items():
                (folder / file).parent.mkdir(parents=True, exist_ok=True)
                (folder / file).write_text(text)
            answers.append(
                self.center.order(
                    "deploy", party=party, app=str(folder), signer=self.operator if signer is None else signer,
                    number=number or str(uuid.uuid4()), meta=meta or {}, start=run or party != "careless",
                )
            )  # fmt: skip
        return answers

    def run_job(
        self, name: str, client: dict, questions: list[dict[str, str]], parties: Sequence[str] = PARTIES
    ) -> tuple[dict, list[dict]]:
        """Hand in a job as the operator does; return how it was taken, and what the dishonest controller was told."""
        folder, report = self.path / "jobs" / name, self.path / f"{name}.json"
        workflow = {"id": "ask", "path": "dishonest.Ask", "args": {"questions": questions, "report": str(report)}}
        for file, content in {
            "meta.json": {
                "name": name,
                "resource_spec": {},
                "min_clients": 1,
                "deploy_map": {"app": ["server", *parties]},
            },
            "app/config/config_fed_client.json": client,
            "app/config/config_fed_server.json": {
                "format_version": 2,
                "server": {"task_request_interval": 0.1},
                "workflows": [workflow],
            },
        }.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(json.dumps(content))
        ran = subprocess.run(
            [sys.executable, DISHONEST, "run_job", str(self.path / "center"), str(folder), str(report)],
            env=environment(self.federation.home),
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return json.loads(ran.stdout), json.loads(report.read_text()) if report.exists() else []


def be_careless(local: Path) -> None:
    """NVFlare's defaults, except that its list of classes is open."""
    resources = {key: RESOURCES[key] for key in ("format_version", "client")}
    streamer = {
        "id": "site_log_streamer",
        "path": "nvflare.app_common.logging.site_log_streamer.SiteLogStreamer",
        "args": {},
    }
    launcher = "nvflare.app_common.job_launcher.client_process_launcher.ClientProcessJobLauncher"
    kept = [each for each in RESOURCES["components"] if each["id"].startswith("resource")]
    components = [*kept, {"id": "process_launcher", "path": launcher, "args": {}}, streamer]
    (local / "resources.json").write_text(
        json.dumps(resources | {"class_allow_list": ["*"], "components": components})
    )
    (local / "authorization.json").write_text(
        json.dumps(kits.permissions({"submit_job": "any", "byoc": "any", "view": "any"}))
    )
    (local / "comm_config.json").unlink()
    assert LAUNCHER not in (local / "resources.json").read_text()


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    made = Guarded(tmp_path_factory.mktemp("guard"))
    try:
        for site in (made.center, made.careful, made.careless):
            site.start()
        made.federation.wait_connected()
        yield made
        assert made.careful.running, made.careful.said()
    finally:
        made.careless.kill()
        made.halfway.kill()
        made.federation.stop()


def client(path: str = EXECUTOR, tasks: tuple[str, ...] = ("ask",), **arguments) -> dict:
    executor = {"tasks": list(tasks), "executor": {"path": path, "args": arguments}}
    return {"format_version": 2, "default_task_fetch_interval": 0.1, "executors": [executor]}


def touching(path: str, sentinels: dict[str, Path]) -> dict[str, dict]:
    """Configuration of a class that makes a file if it is ever made itself."""
    return {party: client(path, args=["touch", str(sentinel)]) for party, sentinel in sentinels.items()}


def same(config: dict) -> dict[str, dict]:
    return dict.fromkeys(PARTIES, config)


def assert_refused(guarded, answer, reason: str) -> None:
    """The center is told why, the party's log has it, and neither a file nor a process of the job is there."""
    assert reason in answer["body"]
    assert reason in guarded.careful.log()
    assert_not_started(guarded, answer)


def assert_not_started(guarded, answer) -> None:
    assert answer["code"] == "_error"
    assert "does not exist" in answer["started"] or "refused" in answer["started"]
    assert not (guarded.path / "careful" / "engine" / answer["number"] / "meta.json").exists()
    assert not any(answer["number"] in word for job in guarded.careful.job_processes() for word in job.cmdline())


def assert_accepted(answer) -> None:
    assert (answer["code"], answer["body"]) == ("_ok", "deployed app to careless")


# An executor by whose making a file is made.
EVIL = """
from pathlib import Path
from nvflare.apis.executor import Executor

class Evil(Executor):
    def __init__(self, args):
        super().__init__()
        Path(args[1]).touch()

    def execute(self, *arguments): ...
"""


def test_a_server_changed_to_send_a_shell_command_reads_no_file(guarded):
    careful, careless = (
        guarded.center.order("shell", party=party, line=f"cat {guarded.path / party / 'secret.txt'}")
        for party in PARTIES
    )
    assert careless == {"code": "ok", "body": f"{SECRET} of careless\n"}
    assert careful == {"code": "_error", "body": "refused by the party: 'sys.shell' is not for the center"}
    assert "refused a command of the center: 'sys.shell'" in guarded.careful.log()
    assert f"{SECRET} of careful" not in "".join(
        path.read_text(errors="replace") for path in (guarded.path / "center").rglob("*") if path.is_file()
    )


@pytest.mark.parametrize(
    "topic",
    [
        "sys.info",
        "sys.report_env",
        "sys.report_version",
        "sys.configure_site_log",
        "resource_manager.report_resources",
        "train.check_status",
        "train.get_scopes",
        "train.delete_run",
    ],
)
def test_a_party_tells_the_center_nothing_of_itself_and_takes_no_orders(guarded, topic):
    careful, careless = guarded.both("command", topic=topic, body="INFO", job_id=str(uuid.uuid4()))
    assert careless["code"] in ("ok", "_ok")
    assert careful == {"code": "_error", "body": f"refused by the party: {topic!r} is not for the center"}
    assert f"refused a command of the center: {topic!r}" in guarded.careful.log()


@pytest.mark.parametrize("topic", ["process_info", "config_vars", "peers", "cells", "echo", "stop_cell"])
def test_a_partys_process_does_not_answer_the_network_agent(guarded, topic):
    careful, careless = (
        guarded.center.order("cellnet", target=party, channel="_net_manager", topic=topic) for party in PARTIES
    )
    assert careless["code"] == "ok"
    assert careful == {"code": "process_exception", "body": "None"}
    assert f"no callback for request ({topic}@_net_manager)" in guarded.careful.log()
    assert guarded.careful.running


def test_a_job_that_brings_code_is_refused(guarded):
    made = guarded.sentinel("code")
    careful, careless = guarded.deploy("code", touching("evil.Evil", made), run=True, **{"custom/evil.py": EVIL})
    assert_accepted(careless)
    wait_for(made["careless"].exists, "the code's file at the careless party")
    assert_refused(guarded, careful, "a job may bring only its configuration")
    assert not made["careful"].exists()


def test_a_job_that_names_popen_is_refused(guarded):
    made = guarded.sentinel("popen")
    careful, careless = guarded.deploy("popen", touching("subprocess.Popen", made), run=True)
    assert_accepted(careless)
    wait_for(made["careless"].exists, "the command's file at the careless party")
    assert_refused(guarded, careful, "the job names ['subprocess.Popen']")
    assert not made["careful"].exists()


@pytest.mark.parametrize("file", ["config/resources.json", "config/comm_config.json", "config/log_config.json"])
def test_a_job_that_brings_settings_of_the_engine_is_refused(guarded, file):
    careful, careless = guarded.deploy(Path(file).stem, same(client()), **{file: "{}"})
    assert_accepted(careless)
    assert_refused(guarded, careful, f"the job brings [{file!r}]")


def test_a_job_that_names_a_container_image_is_refused(guarded):
    careful, careless = guarded.deploy(
        "image", same(client()), meta={"launcher_spec": {"default": {"docker": {"image": "evil"}}}}
    )
    assert_accepted(careless)
    assert "BYOC not permitted" in careful["body"]
    assert_not_started(guarded, careful)


def test_a_job_that_a_party_signed_is_refused(guarded):
    careful, careless = guarded.deploy(
        "signed", same(client()), signer=str(guarded.path / "careless" / "engine" / "startup")
    )
    assert_accepted(careless)
    assert_refused(guarded, careful, "the job is signed by ['careless'], not by operator@center")


def test_a_job_that_nobody_signed_is_refused(guarded):
    careful, careless = guarded.deploy("unsigned", same(client()), signer="")
    assert "unsigned job rejected" in careless["body"]  # NVFlare's own settings say the same
    assert_refused(guarded, careful, "the job is not signed")


def test_what_is_sent_makes_no_object_of_a_class_that_was_not_registered(guarded):
    popen = {
        "__fobs_type__": "subprocess.Popen",
        "__fobs_data__": {"args": "true"},
        "__fobs_dc__": "nvflare.fuel.utils.fobs.decomposer.DataClassDecomposer",
    }
    told = guarded.center.order("cellnet", target="careful", channel="admin", topic="admin", payload=popen, seconds=1)
    assert told["body"] == "None"
    wait_for(lambda: "Type 'subprocess.Popen' is not allowed" in guarded.careful.log(), "the refusal in the log")


@pytest.fixture(scope="module")
def foreign(guarded):
    """A job of a class on NVFlare's own list, handed in as the operator does it."""
    return guarded.run_job("foreign", client(NP_TRAINER, ("train",)), [{"task": "train"}])


def test_a_job_of_a_class_that_nvflare_allows_is_refused_and_the_others_go_on(guarded, foreign):
    taken, told = foreign
    assert taken["detail"][1].startswith(f"careful: refused by the party: the job names ['{NP_TRAINER}']")
    assert told == [{"careless": {"code": "OK", "answer": ""}}]
    assert f"refused a job: the job names ['{NP_TRAINER}']" in guarded.careful.log()
    assert f"careful did not take job {taken['number']}: refused by the party" in guarded.center.log()
    assert [path.parts[-5] for path in guarded.path.rglob("best_numpy.npy")] == ["careless"]


def pickled(sentinel: Path) -> bytes:
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {sentinel}",)

    return pickle.dumps(Evil())


AGENT = [{"channel": "_net_manager", "topic": topic} for topic in ("process_info", "config_vars")]
STATISTICS = [{"channel": "client_command", "topic": topic} for topic in ("show_stats", "configure_job_log")]


@pytest.fixture(scope="module")
def replay(guarded):
    """A job of our own class, by a controller that asks what it should not."""
    fresh = encode_request(Request("old", StatisticsWanted()))
    requests = [fresh, fresh, b"\0 is no request", pickled(guarded.sentinel("pickle")["careful"]), b""]
    questions = [{"task": "ask", "request": base64.b64encode(request).decode()} for request in requests]
    _, told = guarded.run_job("replay", client(), [*questions, {"task": "ask"}, *AGENT, *STATISTICS], ["careful"])
    return [answer["careful"] for answer in told]


def test_a_request_is_answered_once(guarded, replay):
    first, again = (decode_answer(base64.b64decode(told["answer"])) for told in replay[:2])
    assert (first.code, again.code) == ("ok", "refused")
    assert "was answered before" in again.reason
    ledger = storage.read_records(guarded.path / "careful" / "dkpca-ledger.jsonl")
    assert [record["event"] for record in ledger[:3]] == ["asked", "written", "not answered"]
    assert "was answered before" in ledger[2]["reason"]


def test_what_is_no_request_is_not_answered_and_not_executed(guarded, replay):
    answers = [decode_answer(base64.b64decode(told["answer"])) for told in replay[2:5]]
    assert [answer.code for answer in answers] == ["not understood"] * 3
    assert replay[5] == {"code": "BAD_TASK_DATA", "answer": ""}
    ledger = storage.read_records(guarded.path / "careful" / "dkpca-ledger.jsonl")
    assert [record["code"] for record in ledger[3:]] == ["not understood"] * 3
    made = guarded.sentinel("pickle")["careful"]
    assert not made.exists()
    pickle.loads(pickled(made))
    assert made.exists()


def test_the_process_of_a_job_says_nothing_of_itself(replay):
    codes = ["process_exception"] * len(AGENT) + ["invalid_request"] * len(STATISTICS)
    assert replay[6:] == [{"code": code, "answer": "None"} for code in codes]


# Channels and topics. A new one is a new way to reach a party: find out what it does, close it or add it here.
LISTENS = {
    "aux_communication:*",
    "cellnet.channel:bulk",
    "cellnet.channel:bye",
    "credential_manager:key_exchange",
    "server_command:get_task",
    "server_command:submit_update",
    "sm__STREAM:sm__ACK",
    "sm__STREAM:sm__DATA",
    "sm__STREAM:sm__ERROR",
}
LISTENS_IN_A_JOB = {
    "client_command:*",
    "download_service__:download_service__download",
    "download_service__:download_service__source_failure",
}


def test_a_party_listens_to_what_we_know_and_to_nothing_new(guarded, replay):
    own, *jobs = sorted(guarded.listening.iterdir())
    assert own.name == "careful"
    assert set(json.loads(own.read_text())) == LISTENS | {"admin:*"}
    assert len(jobs) == 1
    assert {"client_command:*"} <= set(json.loads(jobs[0].read_text())) <= LISTENS | LISTENS_IN_A_JOB


def ports(site: Site) -> list[int]:
    """Where a site's own process listens."""
    connections = psutil.Process(site.pid).net_connections("tcp")
    return [connection.laddr.port for connection in connections if connection.status == psutil.CONN_LISTEN]


def wants_certificate(port: int, shown: Path | None = None) -> bool:
    """Whether a caller without the right certificate is turned away, and for that reason."""
    stranger = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    stranger.check_hostname, stranger.verify_mode = False, ssl.CERT_NONE
    if shown is not None:
        stranger.load_cert_chain(shown / "client.crt", shown / "client.key")
    try:
        with (
            socket.create_connection(("127.0.0.1", port), timeout=3) as plain,
            stranger.wrap_socket(plain) as secure,
        ):
            secure.settimeout(3)
            return secure.recv(1) == b""  # gRPC closes without a word
    except ssl.SSLError as error:
        return "CERTIFICATE_REQUIRED" in str(error) or "UNKNOWN_CA" in str(error)
    except TimeoutError:
        return False


def test_no_port_is_open_to_other_users_of_the_machine(guarded):
    assert [wants_certificate(port) for port in ports(guarded.careless)] == [False]
    assert [wants_certificate(port) for port in ports(guarded.careful)] == [True]
    assert [wants_certificate(port) for port in ports(guarded.center)] == [True, True]
    member = guarded.path / "halfway" / "engine" / "startup"
    assert [wants_certificate(port, member) for port in ports(guarded.careful)] == [True]


def test_a_job_speaks_with_its_engine_on_a_line_of_their_own(guarded, replay):
    """Else the center would carry it."""
    (port,) = ports(guarded.careful)
    assert re.search(rf"127\.0\.0\.1:{port} <= \S+ SSL careful\] is created", guarded.careful.log())


def test_no_log_of_a_party_is_at_the_center(guarded, foreign, replay):
    wait_for(lambda: not guarded.careful.job_processes(), "the end of the job at the careful party")
    center = guarded.path / "center"
    wait_for(
        lambda: [*center.glob("logs/*/careless/log.txt"), *center.rglob("LOG_log.txt_careless")],
        "the careless party's log at the center",
    )
    assert not [path for path in center.rglob("*careful*") if path.name != "careful.toml"]


@pytest.fixture(scope="module")
def halfway(guarded):
    """NVFlare's own client with our settings: what they close must be closed without our launcher, too."""
    site = guarded.halfway.start()
    guarded.center.wait_said("halfway is connected")
    return site


def test_the_settings_alone_refuse_a_job_that_brings_code(guarded, halfway):
    made = guarded.path / "halfway" / "code.sentinel"
    (told,) = guarded.deploy("code", touching("evil.Evil", {"halfway": made}), **{"custom/evil.py": EVIL})
    assert "BYOC not permitted" in told["body"]
    assert "does not exist" in told["started"]


@pytest.mark.parametrize("name", ["subprocess.Popen", NP_TRAINER])
def test_the_settings_alone_make_no_object_of_another_class(guarded, halfway, name):
    made = guarded.path / "halfway" / "popen.sentinel"
    (told,) = guarded.deploy("popen", touching(name, {"halfway": made}))
    assert told["started"] == "Start the client app..."
    log = guarded.path / "halfway" / "engine" / told["number"] / "log.txt"
    wait_for(lambda: log.exists() and f"{name!r} at config path" in log.read_text(), "the refusal in the job's log")
    assert "is not in allow_list" in log.read_text()
    assert not made.exists()


# The last two take the careless party apart.
def test_a_job_takes_no_folder_but_its_own(guarded):
    local = {party: guarded.path / party / "engine" / "local" / "resources.json" for party in PARTIES}
    careful, careless = guarded.deploy("folder", same(client()), number="local")
    assert_accepted(careless)
    assert not local["careless"].exists()
    assert_refused(guarded, careful, "'local' is not the number of a job")
    assert local["careful"].exists()


def test_a_party_is_not_shut_down_by_the_center(guarded):
    careful, careless = guarded.both("command", topic="train.shutdown", body="")
    assert careful["body"] == "refused by the party: 'train.shutdown' is not for the center"
    assert careless == {"code": "_ok", "body": "Shutdown the client..."}
    assert guarded.careful.running
