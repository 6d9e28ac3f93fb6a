"""What could be recovered from a message, said and limited at the party, and kept there."""

import json

import pytest

from dkpca.cli.at_party import may_send
from dkpca.party.recovery import Measurement

SUMMARIZE = ("summarize", "bank.csv", "--id", "person", "--gamma", 0.05, "--rank", 20, "--out", "bank.summary")


def test_summarize_says_what_could_be_recovered(office):
    told = office.ok(*SUMMARIZE).out
    assert "an attacker who knows 30 rows can recover 4 of 4 columns (R² " in told
    found = office.ok(*SUMMARIZE, "--json").json["recovery"]
    assert found["worst"] == max(found["columns"])
    assert b"recover" not in (office.path / "bank.summary").read_bytes()


@pytest.mark.longer
def test_summarize_answers_red_or_green_whether_the_file_may_be_sent(office):
    answer = office.ok(*SUMMARIZE)
    (line,) = [line for line in answer.out.splitlines() if line.startswith("May I send this?")]
    assert "RED, no: an attacker who knows 30 rows can recover 4 of 4 columns with an R² above 0.5" in line
    assert office.ok(*SUMMARIZE, "--json").json["may_send"] is False
    told = office.ok(*SUMMARIZE, "--rank", "recovery=0.4")
    assert (
        "May I send this? GREEN, yes: an attacker who knows 30 rows can recover no column with an R² above 0.5"
        in told.out
    )


def test_the_answer_is_yes_no_or_unknown():
    no, why = may_send(Measurement(30, 60, {"rows": (1.0, 0.2)}))
    assert no is False
    assert "RED, no" in why
    assert may_send(Measurement(30, 60, {"rows": (0.1, 0.2)}))[0] is True
    assert may_send(Measurement(30, 60, not_measured="a matrix"))[0] is None


@pytest.mark.longer
def test_inspect_at_the_party_shows_it_by_column(office):
    office.ok(*SUMMARIZE)
    told = office.ok("inspect", "bank.summary").out
    assert "At this party: an attacker who knows 30 rows can recover" in told
    for column in ("x0", "x1", "x2", "x3"):
        assert column in told
    assert office.ok("inspect", "bank.state", "--json").json["recovery"]["worst"] > 0


@pytest.mark.longer
def test_inspect_elsewhere_knows_nothing_of_it(office):
    office.ok(*SUMMARIZE)
    (office.path / "bank.state").unlink()
    assert "At this party" not in office.ok("inspect", "bank.summary").out


@pytest.mark.longer
def test_the_state_of_another_summary_is_not_taken_for_this_one(office):
    office.ok(*SUMMARIZE)
    data = (office.path / "bank.summary").read_bytes()
    office.ok(*SUMMARIZE[:-4], "--rank", 3, "--out", "bank.summary")
    (office.path / "bank.summary").write_bytes(data)
    assert "At this party" not in office.ok("inspect", "bank.summary").out


@pytest.mark.longer
def test_a_goal_from_the_command_line_lowers_the_rank(office):
    told = office.ok(*SUMMARIZE, "--rank", "recovery=0.6,known_rows=20", "--json").json
    assert told["decided"] == "Recovery(at_most=0.6, known_rows=20)"
    assert told["rank"] < 20
    assert told["recovery"]["worst"] <= 0.6


@pytest.mark.longer
def test_one_owner_of_all_tables_is_free(office):
    tables = ("bank.csv", "clinic.csv", "shop.csv")
    office.ok("fit", *tables, "--id", "person", "--jobs", 1, "--components", 2, "--rank", 20, "--out", "run")
    settings = json.loads((office.path / "run" / "settings.json").read_text())
    assert {party["rank"] for party in settings["parties"].values()} == {20}


def test_a_kernel_matrix_has_no_columns_to_recover_and_inspect_says_so(office):
    rows = "\n".join(f"p{i},{','.join('1' if i == j else '0.5' for j in range(3))}" for i in range(3))
    (office.path / "similar.csv").write_text(f"person,p0,p1,p2\n{rows}\n")
    asked = ("similar.csv", "--id", "person", "--kernel", "precomputed", "--rank", 2, "--out", "similar.summary")
    told = office.ok("summarize", *asked).out
    assert "recovery is not measured: the table is a matrix of similarities" in told
    assert "recovery is not measured" in office.ok("inspect", "similar.summary").out


@pytest.mark.longer
def test_a_limit_that_leaves_little_says_how_little(office):
    told = office.ok(*SUMMARIZE, "--rank", "recovery=0.5").out
    assert "70.9% of its kernel matrix" in told
    assert "rank 1, to stay within the recovery limit" in told
    assert "to stay within the recovery limit" not in office.ok(*SUMMARIZE, "--rank", "recovery=1.0").out


@pytest.mark.longer
def test_one_known_row_is_counted_as_one(office):
    told = may_send(Measurement(1, 60, {"rows": (0.1, 0.2)}))[1]
    assert "an attacker who knows 1 row can recover no column" in told
    (office.path / "bank.csv").write_text("person,x0\n")
    assert "bank.csv: 0 rows; kernel PCA needs at least 2 samples" in office.refused(*SUMMARIZE)
