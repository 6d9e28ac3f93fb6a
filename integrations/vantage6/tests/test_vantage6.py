"""The algorithm under the mocks of the vantage6 that is installed: the same bits as in one process, and refusals."""

import base64
import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import dkpca_vantage6
import numpy as np
import pandas as pd
import pytest
from dkpca_vantage6 import BEFORE_5, center, node

from dkpca import DKPCA
from dkpca.party.limits import Limits

NAMES = ("hospital", "registry", "insurer")
SETTINGS = {"n_components": 3, "rank": 20}
OPEN = {"recovery": 1.0, "samples": 20, "audit_rows": 20, "batches": 1}  # the defaults would lower the rank
AT_NODES = ("describe", "summarize", "extend")
CONTAINERFILE = Path(__file__).parents[1] / "Containerfile"
KEY = "a key of the administrators"


def frame(columns, n=60, seed=0, first=0):
    random = np.random.default_rng(seed)
    table = pd.DataFrame(random.normal(size=(n, columns)), columns=[f"c{j}" for j in range(columns)])
    table.insert(0, "id", [f"{first + row:04d}" for row in range(n)])
    return table


def tables(n=60, first=0, seed=0):
    return {name: frame(3 + j, n, seed + j, first) for j, name in enumerate(NAMES)}


class Network:
    """Nodes under a mock of the engine, each with a folder of its own."""

    def __init__(self, tmp_path, monkeypatch):
        self.folder, self.tables = tmp_path, tables()
        for name in NAMES:
            (tmp_path / name).mkdir()
            (tmp_path / name / "key").write_text(KEY)
            self.limit(name)
        real = node.answer
        self.asked: list[dict] = []

        def at_its_node(df, *, party, **asked):
            with monkeypatch.context() as own:
                own.setenv("DKPCA_FOLDER", str(tmp_path / party))
                self.asked.append(asked)
                return real(df, party=party, **asked)

        monkeypatch.setattr(node, "answer", at_its_node)
        monkeypatch.delenv("SESSION_FOLDER", raising=False)

    def limit(self, name, **limits):
        (self.folder / name / "limits.toml").write_text(Limits(**OPEN | limits).to_toml())

    def ask(self, method, **asked):
        """Ask for a run of all parties."""
        parties = dict(zip(NAMES, (0, 1, 2) if BEFORE_5 else (1, 2, 3), strict=True))  # as the mocks number them
        return self.task(
            method, {"parties": parties, "run": "first", "settings": SETTINGS, "id_column": "id"} | asked
        )

    def task(self, method, asked):
        """Create a task of a researcher for the first organization, and return its result."""
        given = [self.tables[name] for name in NAMES]
        if BEFORE_5:
            from vantage6.algorithm.tools.mock_client import MockAlgorithmClient

            data = [[{"database": table, "db_type": "csv"}] for table in given]
            client = MockAlgorithmClient(data, "dkpca_vantage6")
            task = client.task.create(input_={"method": method, "kwargs": asked}, organizations=[0])
        else:
            from vantage6.algorithm.mock.network import MockNetwork

            network = MockNetwork("dkpca_vantage6", [{"table": {"database": table}} for table in given])
            client = network.user_client
            chosen = {"organizations": [1], "databases": [{"type": "dataframe", "dataframe_id": 1}]}
            task = client.task.create(method=method, arguments=asked, **chosen)
        (result,) = client.wait_for_results(task["id"])
        return result

    def written(self, name, file="scores.csv", run="first"):
        """What a node wrote for its own people: ids, and their scores."""
        with (self.folder / name / "runs" / run / file).open() as lines:
            _, *rows = csv.reader(lines)
        return [row[0] for row in rows], np.array([row[1:] for row in rows], dtype=float)


@pytest.fixture
def network(tmp_path, monkeypatch):
    return Network(tmp_path, monkeypatch)


def by_id(given, ids=None):
    indexed = {name: table.set_index("id") for name, table in given.items()}
    return indexed if ids is None else {name: table.loc[ids] for name, table in indexed.items()}


def in_one_process(given, **settings):
    return DKPCA(**SETTINGS | settings).fit(given)


def test_a_fit_by_position_has_the_bits_of_one_process(network):
    columns = {name: [c for c in table.columns if c != "id"] for name, table in network.tables.items()}
    result = network.ask("fit", id_column=None, columns=columns)
    model = in_one_process({name: table.to_numpy() for name, table in by_id(network.tables).items()})
    assert np.array_equal(result["scores"], model.model_.scores)
    assert np.array_equal(result["eigenvalues"], model.eigenvalues_)
    assert result["certificate"] == model.certificate_.statements()


@pytest.mark.parametrize("settings", [{"standardize": True}, {"kernel": "linear", "center": False}, {"gamma": 0.1}])
def test_samples_are_matched_by_their_ids_in_any_order(network, settings):
    network.tables["registry"] = network.tables["registry"].sample(frac=1, random_state=1)
    result = network.ask("fit", settings=SETTINGS | settings)
    ids, scores = network.written("insurer")
    assert np.array_equal(result["scores"], scores)
    assert sorted(ids) == sorted(network.tables["insurer"]["id"])
    model = in_one_process(by_id(network.tables, ids), **settings)
    assert np.array_equal(scores, model.model_.scores)


def test_new_samples_have_the_bits_of_one_process(network):
    network.ask("fit")
    training, _ = network.written("hospital")
    model = in_one_process(by_id(network.tables, training))
    network.tables = tables(7, first=1000, seed=9)
    result = network.ask("place", batch="spring")
    ids, scores = network.written("registry", "scores-spring.csv")
    assert np.array_equal(result["scores"], scores)
    assert np.array_equal(scores, model.transform(by_id(network.tables, ids)))


def test_an_audit_asks_for_true_rows_and_for_nothing_again(network):
    plain = network.ask("fit")
    audited = network.ask("audit", n_rows=20)
    assert audited["scores"] == plain["scores"]
    assert audited["certificate"] != plain["certificate"]
    assert any("audit" in statement.lower() for statement in audited["certificate"])


@pytest.mark.parametrize("lacking", ["complete", "mean"])
def test_a_node_that_lacks_samples_has_them_completed_as_in_one_process(network, lacking):
    network.tables["registry"] = network.tables["registry"].iloc[:50]
    asked = {"settings": SETTINGS | {"lacking": lacking}}
    result = network.ask("fit", **asked)
    order = {name: network.written(name)[0] for name in NAMES}
    union = [""] * 60
    for name in NAMES:
        for place, each in zip(result["places"][name], order[name], strict=True):
            union[place] = each
    given = {name: by_id(network.tables)[name].loc[order[name]] for name in NAMES}
    assert list(given["hospital"].index) == union
    model = in_one_process(given, lacking=lacking)
    assert np.array_equal(result["scores"], model.model_.scores)
    assert np.array_equal(network.written("registry")[1], np.array(result["scores"])[result["places"]["registry"]])


def test_a_node_that_lacks_samples_is_refused_or_all_use_the_common_ones(network):
    network.tables["registry"] = network.tables["registry"].iloc[:50]
    assert "60, registry 50, insurer 60), 50 of them in common" in network.ask("fit")["refused"]
    assert network.ask("fit", settings=SETTINGS | {"lacking": "drop"})["samples"] == 50


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"samples": 100}, "fewer samples than samples = 100"),
        ({"rank": 5}, "rank 20 is more than"),
        ({"precision": "float16"}, "float32 is finer than"),
        ({"studies": 0}, "has answered 0 runs, and its limits allow 0"),
        ({"protect": ("sums",)}, "allow only protect = ['sums']"),
        ({"recovery": 0.01}, "recover"),
    ],
)
def test_a_node_refuses_by_its_own_limits_in_a_sentence(network, limits, words):
    network.limit("registry", **limits)
    refused = network.ask("fit")["refused"]
    assert refused.startswith("party 'registry' refused: ")
    assert words in refused
    assert "Traceback" not in refused
    assert "R²" not in refused


def test_limits_on_audits_batches_and_runs(network):
    network.ask("fit")
    assert "allow 1" in network.ask("fit", run="second")["refused"]
    network.limit("insurer", audit_rows=3)
    assert "rows for an audit are more than audit_rows = 3" in network.ask("audit", n_rows=20)["refused"]
    network.tables = tables(7, first=1000, seed=9)
    assert "scores" in network.ask("place", batch="spring")
    assert "allow 1 batches" in network.ask("place", batch="summer")["refused"]


def test_a_sample_is_placed_once(network):
    network.ask("fit")
    network.tables = tables(7, first=50, seed=9)
    assert "answered before" in network.ask("place", batch="spring")["refused"]


def test_another_question_for_an_answered_step_is_refused_and_the_same_one_gets_the_same_bytes(network):
    first = network.ask("fit")
    network.tables = tables(60, seed=5)  # nobody looks at these: all was answered
    assert network.ask("fit") == first
    assert "has answered another" in network.ask("fit", settings=SETTINGS | {"gamma": 0.5})["refused"]
    assert "has answered another" in network.ask("fit", columns={"registry": ["c0"]})["refused"]


def test_a_table_that_changed_since_the_fit_is_not_audited(network):
    network.ask("fit")
    network.tables["registry"] = network.tables["registry"].assign(c0=0.5)
    assert "its table is another one" in network.ask("audit", n_rows=5)["refused"]


def test_wrong_columns_are_named_as_they_were_asked_for(network):
    refused = network.ask("fit", columns={"registry": ["c0", "weight"]})["refused"]
    assert refused == "party 'registry' refused: its table has no columns ['weight']"
    refused = network.ask("fit", id_column="patient", run="other")["refused"]
    assert refused == "party 'hospital' refused: its table has no column 'patient' with the ids"


def test_columns_of_new_samples_are_those_of_the_fit(network):
    network.ask("fit")
    network.tables = tables(7, first=1000)
    network.tables["insurer"] = network.tables["insurer"].drop(columns="c2").assign(other=1.0)
    refused = network.ask("place", batch="spring")["refused"]
    assert refused == "party 'insurer' refused: its table has no columns as the fit had: 1 are missing"


def test_new_samples_without_a_fit_are_refused(network):
    assert "fit first" in network.ask("place", batch="spring")["refused"]
    assert not list(network.folder.glob("*/runs/*/*.answer"))


def test_values_of_a_table_stay_in_its_node(network):
    network.tables["registry"]["c1"] = "Mrs. Jones"
    refused = network.ask("fit")["refused"]
    assert refused.startswith("party 'registry' refused: its table cannot be used as asked")
    assert "Jones" not in refused
    assert "c1" in (network.folder / "registry" / "refusals.log").read_text()


@pytest.mark.parametrize(
    ("ids", "words"),
    [([None] * 60, "has gaps"), ([1.0 * row for row in range(60)], "decimals"), (["same"] * 60, "more than once")],
)
def test_ids_that_cannot_be_matched_are_refused_without_being_shown(network, ids, words):
    network.tables["registry"]["id"] = ids
    assert words in network.ask("fit")["refused"]


def test_nodes_with_different_keys_find_nothing_in_common(network):
    (network.folder / "registry" / "key").write_text("another key, of somebody")
    assert "0 of them in common" in network.ask("fit", settings=SETTINGS | {"lacking": "drop"})["refused"]


def test_a_node_without_limits_folder_or_key_says_what_its_administrator_does(network, monkeypatch):
    (network.folder / "registry" / "key").unlink()
    assert "writes it to the file key" in network.ask("fit")["refused"]
    (network.folder / "registry" / "limits.toml").unlink()
    assert "writes limits.toml" in network.ask("fit")["refused"]
    monkeypatch.undo()
    monkeypatch.delenv("DKPCA_FOLDER", raising=False)
    assert "names one as DKPCA_FOLDER" in node.describe(frame(3))["refused"]


@pytest.mark.parametrize("where", ["answer", "question"])
def test_a_damaged_message_is_named_with_its_party(network, monkeypatch, where):
    honest = node.answer

    def damaged(df, *, party, question, **asked):
        if party == "registry" and where == "question":
            question = question[:40] + "AAAA" + question[44:]
        result = honest(df, party=party, question=question, **asked)
        if party == "registry" and where == "answer":
            data = bytearray(base64.b64decode(result["answer"]))
            data[-3] ^= 1
            result = {"answer": base64.b64encode(bytes(data)).decode()}
        return result

    monkeypatch.setattr(node, "answer", damaged)
    refused = network.ask("fit", id_column=None, columns={name: ["c0", "c1"] for name in NAMES})["refused"]
    assert refused.startswith("party 'registry'")
    assert "Traceback" not in refused


@pytest.mark.parametrize("returned", [None, 3, {"answer": 5}, {"answer": "é"}, {"answer": "A" * 10**6}, {}])
def test_whatever_a_node_returns_is_a_sentence(network, monkeypatch, returned):
    honest = node.answer
    monkeypatch.setattr(
        node, "answer", lambda df, *, party, **a: returned if party == "insurer" else honest(df, party=party, **a)
    )
    assert network.ask("fit")["refused"].startswith("party 'insurer'")


def test_a_task_that_the_server_does_not_make_is_a_sentence():
    tasks = center.Tasks(lambda *_: None, lambda task: [])
    refused = center.fit(tasks, parties={"hospital": 7}, run="first")["refused"]
    assert refused == "the server made no task for ['hospital']; look at their organizations"


@pytest.mark.parametrize("protect", ["sums", "blind"])
def test_protected_fits_are_refused_with_the_reason(network, protect):
    settings = {"n_components": 2, "protect": protect, "kernel": "linear"}
    assert "a node cannot check that whoever fuses" in network.ask("fit", settings=settings)["refused"]
    assert network.asked == []


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"settings": {"components": 3}}, "settings of a fit"),
        ({"settings": {"n_components": 0}}, "n_components is 0"),
        ({"run": "../elsewhere"}, "cannot be used"),
        ({"parties": {}}, "parties is a mapping"),
        ({"parties": {"one": 1, "other": 1}}, "same organization"),
        ({"columns": {"nobody": ["c0"]}}, "none of the parties"),
    ],
)
def test_a_researcher_is_told_what_cannot_be_asked(network, asked, words):
    assert words in network.ask("fit", **asked)["refused"]
    assert network.asked == []


def test_what_travels_is_json_and_holds_no_id(network):
    network.ask("fit")
    names = {"question", "run", "roster", "id_column", "columns"}
    assert all(set(asked) == names for asked in network.asked)
    questions = b"".join(base64.b64decode(asked["question"]) for asked in network.asked)
    answers = b"".join(file.read_bytes() for file in network.folder.glob("*/runs/*/*.answer"))
    assert len(answers) > 10_000
    assert b"0007" not in questions + answers
    assert json.loads(json.dumps(network.asked)) == network.asked


def test_describe_says_how_large_the_table_is_and_what_the_node_allows(network, monkeypatch):
    monkeypatch.setenv("DKPCA_FOLDER", str(network.folder / "hospital"))
    found = network.task("describe", {})
    assert (found["samples"], found["columns"], found["limits"]["rank"]) == (60, 4, 100)
    network.limit("hospital", samples=100)
    assert "fewer samples than the 100" in network.task("describe", {})["refused"]


def test_the_store_lists_the_functions_that_there_are():
    listed = json.loads((Path(__file__).parents[1] / "algorithm.json").read_text())
    assert listed["partitioning"] == "vertical"
    assert {each["name"] for each in listed["functions"]} == {
        "audit",
        "describe",
        "extend",
        "fit",
        "place",
        "summarize",
    }
    for each in listed["functions"]:
        assert callable(getattr(dkpca_vantage6, each["name"]))
        assert each["type"] == ("federated" if each["name"] in AT_NODES else "central")


@pytest.mark.parametrize("limits", [{}, {"samples": 100}])
def test_a_container_answers_by_the_command_of_its_image(tmp_path, limits):
    command = json.loads(CONTAINERFILE.read_text().rpartition("CMD ")[2])
    table, table_file = frame(3), tmp_path / ("table.csv" if BEFORE_5 else "table.parquet")
    table.to_csv(table_file, index=False) if BEFORE_5 else table.to_parquet(table_file)
    given: dict = {"method": "describe", "kwargs": {}} if BEFORE_5 else {}
    (tmp_path / "input").write_text(json.dumps(given))
    environment = {
        "PKG_NAME": "dkpca_vantage6",
        "INPUT_FILE": str(tmp_path / "input"),
        "OUTPUT_FILE": str(tmp_path / "output"),
        **({"DKPCA_FOLDER": str(tmp_path)} if BEFORE_5 else {"SESSION_FOLDER": str(tmp_path)}),
        "DKPCA_LIMITS": Limits(**OPEN | limits).to_toml(),
        "USER_REQUESTED_DATABASE_LABELS": "table",
        "TABLE_DATABASE_URI": str(table_file),
        "USER_REQUESTED_DATAFRAMES": "table",
        "FUNCTION_ACTION": "federated_compute",
        "ALGORITHM_METHOD": "describe",
    }
    subprocess.run([sys.executable, *command[1:]], env=os.environ | environment, check=True, capture_output=True)
    found = json.loads((tmp_path / "output").read_text())
    assert ("refused" in found) == bool(limits)
    assert limits or (found["samples"], found["columns"]) == (60, 4)
