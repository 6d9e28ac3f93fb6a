"""A party's policy, its ledger, and what it can see before it sends."""

import json
import re

import numpy as np
import polars as pl
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from dkpca import wire
from dkpca.disclosure import describe
from dkpca.errors import InputError
from dkpca.exchange import forecast
from dkpca.kernels import CosineKernel, Polynomial
from dkpca.messages import Statistics, Summary
from dkpca.policy import Policy
from dkpca.rank import Adaptive, AtMost, Auto, Fixed
from dkpca.store import policy_file
from testkit.owners import GAMMA, OWNERS, numbers, people, standardized
from testkit.program import Office
from testkit.protocol import summaries_of

SUMMARISE = ("summarize", "bank.csv", "--id", "person", "--out", "bank.summary", "--policy", "policy.toml")
POLICY = """
max_rank = 12
min_samples = 50
kernels = ["rbf"]
gamma = [0.01, 0.1]
max_precision = "float32"
projection = false
"""


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (("--gamma", 0.05, "--rank", 13), "rank 13 is more than max_rank = 12"),
        (("--gamma", 0.5), "gamma 0.5 is outside gamma = [0.01, 0.1]"),
        (("--kernel", "linear"), "the linear kernel is not among kernels = ['rbf']"),
        (("--gamma", 0.05, "--precision", "float64"), "float64 is finer than max_precision = 'float32'"),
    ],
)
def test_a_request_beyond_the_policy_is_refused_and_logged(office, asked, words):
    (office.path / "policy.toml").write_text(POLICY)
    error = office.refused(*SUMMARISE, *asked)
    assert words in error
    assert "bank.csv" in error
    (line,) = (office.path / "dkpca-ledger.jsonl").read_text().splitlines()
    assert json.loads(line)["event"] == "refused"
    assert words in json.loads(line)["reason"]


def test_projection_and_small_samples_are_refused_where_the_policy_says_so(office):
    (office.path / "policy.toml").write_text(POLICY)
    office.ok(*SUMMARISE, "--gamma", 0.05, "--rank", "auto")
    extend = ("extend", "bank.csv", "--state", "bank.state", "--out", "bank.rows", "--policy", "policy.toml")
    assert "projection = false" in office.refused(*extend)
    (office.path / "policy.toml").write_text("min_samples = 61")
    assert "fewer samples than the 61" in office.refused(*SUMMARISE, "--gamma", 0.05)


@pytest.mark.parametrize("command", ["summarize", "statistics"])
def test_after_so_many_different_fits_only_old_messages_are_sent_again(office, command):
    (office.path / "policy.toml").write_text("max_fits = 2")
    table = pl.read_csv(office.path / "bank.csv")
    ask = [command, "bank.csv", "--id", "person", "--policy", "policy.toml", "--out", f"bank.{command}"]
    ask += ["--gamma", "0.05", "--rank", "5"] if command == "summarize" else []
    office.ok(*ask)
    first = (office.path / f"bank.{command}").read_bytes()
    table.head(50).write_csv(office.path / "bank.csv")
    office.ok(*ask)
    table.head(40).write_csv(office.path / "bank.csv")
    assert "it has answered max_fits = 2 fits; only these can be repeated" in office.refused(*ask)
    table.write_csv(office.path / "bank.csv")
    office.ok(*ask)
    assert (office.path / f"bank.{command}").read_bytes() == first


def test_a_rank_rule_stops_at_the_limit_of_the_policy(office):
    (office.path / "policy.toml").write_text(POLICY)
    assert office.ok(*SUMMARISE, "--gamma", 0.05, "--rank", "auto", "--json").json["rank"] == 12


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("max_rnk = 3", "unknown keys ['max_rnk']"),
        ("max_rank = 0", "max_rank = 0 cannot be used; write a whole number"),
        ("gamma = [0.1, 0.01]", "gamma = [0.1, 0.01] cannot be used"),
        ('kernels = "rbf"', "kernels = 'rbf' cannot be used"),
        ("projection = 1", "write true, false or"),
        ("max_rank = ", "not a TOML file"),
    ],
)
def test_a_policy_with_a_mistake_is_refused(tmp_path, text, words):
    (tmp_path / "policy.toml").write_text(text)
    with pytest.raises(InputError, match=re.escape(words)) as caught:
        policy_file.read(tmp_path / "policy.toml")
    assert "policy.toml" in str(caught.value)


def test_limits_hold_for_every_rule():
    strict = Policy(max_rank=5)
    assert strict.limit(Fixed(5)) == AtMost(Fixed(5), 5)
    for rule in (Auto(3), Adaptive(1e-9)):
        limited = strict.limit(rule)
        assert limited.first_guess(100) <= 5
        assert limited.choose(np.ones(5), 100) == 5
    assert Policy().limit(Auto(3)) == Auto(3)


def test_inspect_says_what_every_kind_of_file_discloses(fused):
    key = {"DKPCA_ALIGN_KEY": "a key of the parties, long enough"}
    fused.ok("align", "tokens", "bank.csv", "--id", "person", "--out", "bank.tokens", **key)
    fused.ok("align", "tokens", "shop.csv", "--id", "person", "--out", "shop.tokens", **key)
    fused.ok("align", "intersect", "bank.tokens", "shop.tokens", "--out", "common.tokens")
    fused.ok("statistics", "bank.csv", "--id", "person", "--out", "bank.statistics")
    fused.ok("extend", "bank.csv", "--state", "bank.state", "--out", "bank.rows")
    expected = {
        "bank.summary": ("summary", "how similar any two samples look to this party"),
        "bank.statistics": ("statistics", "how many rows and columns"),
        "bank.rows": ("rows", "how similar each new sample looks to every training sample"),
        "bank.tokens": ("sampletokens", "how many of them it shares"),
        "common.tokens": ("commontokens", "which of its own samples all the others have"),
    }
    for file, (kind, words) in expected.items():
        answer = fused.ok("inspect", file, "--json").json
        assert answer["kind"] == kind
        assert any(words in sentence for sentence in answer["reveals"]), answer
        assert answer["facts"]["bytes"] == (fused.path / file).stat().st_size


def test_inspect_says_how_much_of_the_gram_matrix_leaves(summarized):
    X = standardized(numbers()["bank"])
    values = np.linalg.eigvalsh(rbf_kernel(X, gamma=GAMMA))[::-1]
    share = values[:20].sum() / values.sum()
    assert 0.5 < share < 0.9994
    shown = " ".join(summarized.ok("inspect", "bank.summary").out.split())
    assert f"factor @ factor.T is its Gram matrix, {share:.1%} of it" in shown
    assert "It does not contain - column names, sample ids, and any value of a column as such" in shown
    facts = summarized.ok("inspect", "bank.summary", "--json").json["facts"]
    assert facts["largest eigenvalues"] == pytest.approx(values[:5], rel=1e-5)


def test_the_ledger_says_what_left(summarized):
    (line,) = [json.loads(text) for text in (summarized.path / "dkpca-ledger.jsonl").read_text().splitlines()][:1]
    assert (line["event"], line["file"], line["kind"]) == ("written", "bank.summary", "summary")
    assert line["bytes"] == (summarized.path / "bank.summary").stat().st_size


def test_plan_predicts_the_bytes_and_warns_when_the_factor_is_larger_than_the_data(summarized):
    tables = [f"{owner}.csv" for owner in OWNERS]
    plan = summarized.ok("plan", *tables, "--id", "person", "--rank", 20, "--json").json
    for owner in plan["parties"]:
        size = (summarized.path / f"{owner['name']}.summary").stat().st_size
        assert owner["bytes_sent"] == pytest.approx(size, abs=32)
        assert owner["larger_than_data"] is True
    words = summarized.ok("plan", *tables, "--id", "person").out
    assert "warning: bank would send more bytes than its columns have" in words
    small = summarized.ok("plan", *tables, "--id", "person", "--rank", 1, "--json").json
    assert not any(owner["larger_than_data"] for owner in small["parties"])


def test_plan_expects_more_work_and_memory_of_more_samples(tmp_path, monkeypatch):
    monkeypatch.setattr(forecast, "operations_per_second", lambda: 1e9)
    office = Office(tmp_path)
    for n in (500, 2000):
        (tmp_path / f"bank{n}.statistics").write_bytes(wire.encode(Statistics("bank", n, 30, 1.0)))
    few, many = (
        office.ok("plan", f"bank{n}.statistics", "--rank", 20, "--json").json["parties"][0] for n in (500, 2000)
    )
    assert few["memory"] > 8 * 500**2  # dense: at least the matrix itself
    assert 12 < many["memory"] / few["memory"] < 17
    assert 16 * few["seconds"] <= many["seconds"] < 64 * few["seconds"]  # between the square and the cube
    assert few["seconds"] > 500**2 * 30 / 1e9  # at least one operation for each pair of samples and column
    assert many["bytes_sent"] - few["bytes_sent"] == pytest.approx(1500 * 20 * 4, abs=64)


def test_alignment_needs_a_key_that_is_not_on_the_command_line(office):
    tokens = ("align", "tokens", "bank.csv", "--id", "person", "--out", "bank.tokens")
    assert "give --key-file, or set the variable DKPCA_ALIGN_KEY" in office.refused(*tokens)
    assert "at least 16" in office.refused(*tokens, DKPCA_ALIGN_KEY="short")
    office.ok("align", "key", "--out", "shared.key")
    assert (office.path / "shared.key").stat().st_mode & 0o777 == 0o600
    office.ok(*tokens, "--key-file", "shared.key")
    office.ok("align", "tokens", "shop.csv", "--id", "person", "--out", "shop.tokens", DKPCA_ALIGN_KEY="x" * 32)
    error = office.refused("align", "intersect", "bank.tokens", "shop.tokens", "--out", "common.tokens")
    assert "no sample is common to all of ['bank', 'shop']; check that they used the same key" in error


def test_the_center_names_samples_only_by_ids_that_fit(summarized):
    fuse = ("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, "--out", "run", "--id", "person")
    (summarized.path / "ids.csv").write_text("person\n" + "\n".join(f"q{i}" for i in range(60)))
    assert "are not those of the 60 samples" in summarized.refused(*fuse, "--ids", "ids.csv")
    error = summarized.refused(*fuse, "--roster", "bank,clinic,shop,school")
    assert "no summary from ['school']; fusion needs every party" in error


@pytest.mark.parametrize("kernel", [Polynomial(0.1), CosineKernel()], ids=lambda k: k.name)
def test_the_length_of_each_sample_is_said_to_leave_where_it_does(kernel):
    X = numbers()["bank"]
    (summary,) = summaries_of([X], kernel, rank=3)
    assert summary.diagonal is not None
    np.testing.assert_allclose(summary.diagonal.decode()[:, 0], (X**2).sum(axis=1))
    described = describe(summary)
    assert any("the length of each sample" in sentence for sentence in described.reveals)
    assert described.facts["numbers"] == 60 * 3 + 60


def test_a_message_is_all_that_is_described():
    assert set(Summary.__dataclass_fields__) == {
        *("party", "kernel", "sample_digest", "n_features", "factor"),
        *("left_out_norm", "trace_left_out", "rounding_norm", "rounding_nuclear", "diagonal"),
        *("left_out_overlap", "turned"),
    }, "a new field is a new disclosure: describe it in disclosure.py and docs/disclosure.md, then here"


def test_a_party_toml_describes_the_table_for_alignment_and_for_the_report_too(office):
    """Party by party: only the labels are named, and the center's answer."""
    (office.path / "key").write_text("k" * 32)
    for owner in ("bank", "shop"):
        office.ok("check", f"{owner}.csv", "--id", "person", "--write", f"{owner}.toml")
        with (office.path / f"{owner}.toml").open("a") as file:
            file.write('key_file = "key"\n')
        office.ok("align", "tokens", "--config", f"{owner}.toml", "--out", f"{owner}.tokens")
    office.ok("align", "intersect", "bank.tokens", "shop.tokens", "--out", "common")
    for owner in ("bank", "shop"):
        asked = ("--config", f"{owner}.toml", "--align", "common", "--gamma", 0.05, "--out", f"{owner}.summary")
        office.ok("summarize", *asked)
    office.ok("fuse", "bank.summary", "shop.summary", "--components", 2, "--out", "run")
    (office.path / "labels.csv").write_text("person;kind\n" + "".join(f"{p};{p[-1]}\n" for p in people()))
    drawn = ("report", "run/result.scores", "--config", "bank.toml", "--labels", "labels.csv", "--out", "report.html")
    told = office.ok(*drawn, "--align", "common", "--json").json
    assert told["label_columns"] == ["kind"]
    assert "named by the ids of bank.csv, aligned by tokens" in told["notes"]
    (office.path / "bank.toml").write_text('party = "bank"\ntable = "bank.csv"\nid = "person"\n')
    assert "if samples were aligned, give --align and --key-file" in office.refused(*drawn)
    nameless = ("align", "tokens", "bank.csv", "--key-file", "key", "--out", "t.tokens")
    assert "tokens are made of sample ids; name their column with --id" in office.refused(*nameless)
