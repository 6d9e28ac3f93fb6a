"""The report where the labels are: a party draws what it received, and the center never has its ids."""

import base64
import json
import re
import zlib
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from dkpca import wire
from dkpca.fusion.fused_model import result
from dkpca.report import page as pages
from dkpca.report.columns import MOST_COLUMNS, NONE, own_columns, read_labels
from dkpca.report.content import Content, Source, packed, read_source
from dkpca.store import runs, storage
from dkpca.tables.formats import embedding_files
from dkpca.tables.reading import Reading
from testkit.owners import OWNERS, frame, numbers
from testkit.program import snapshot

PEOPLE = [f"p{i:02d}" for i in range(60)]


def embedding(scores, names, path=Path("embedding.csv")):
    return Source(path, names, np.asarray(scores, dtype=float), None)


def page_names(path):
    """Names that a page shows, read as its own script reads them."""
    text = path.read_text()
    (data,) = re.findall(r'id="data">(.*?)</script>', text, re.DOTALL)
    header = json.loads(data)
    return json.loads(zlib.decompress(base64.b64decode(header["names"]["data"]))), header


@pytest.fixture
def party(fused):
    """A party's result as a study leaves it, a message of scores, its own labels, and a center without names."""
    fused.ok("fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, "--out", "unnamed")
    run = runs.load(fused.path / "unnamed")
    assert run.sample_names[0] == "0"
    folder = fused.path / "clinic" / "result"
    folder.mkdir(parents=True)
    message = result(run.model, run.model.scores, run.settings["sample_digest"])
    storage.write(fused.path / "result.scores", wire.encode(message))
    storage.write(folder / "embedding.csv", embedding_files(PEOPLE, np.asarray(run.model.scores))["embedding.csv"])
    told = {"captured_share_at_least": 0.5, "optimality_at_least": 0.9, "meaning": "rbf", "n_parties": 3}
    storage.write(folder / "certificate.json", storage.as_json(told))
    labels = {"person": PEOPLE[::-1], "diagnosis": ["healthy", "ill"] * 30}
    pl.DataFrame(labels).write_csv(fused.path / "own.csv")
    return fused


@pytest.mark.longer
def test_a_party_draws_its_result_folder_with_its_own_labels(party):
    told = party.ok(
        *("report", "clinic/result", "--labels", "own.csv", "--id", "person", "--label", "diagnosis"),
        *("--table", "clinic.csv", "--json"),
    ).json
    assert told["label_columns"] == ["diagnosis"]
    assert len(told["top_columns"]) == 3
    names, header = page_names(party.path / "clinic" / "result" / "report.html")
    assert names == PEOPLE
    assert header["columns"][0]["name"] == "diagnosis"
    assert "scree" not in header  # the factors of the others stay at the center
    written = party.path / "clinic" / "result" / "report.html"
    assert written.stat().st_mode & 0o777 == 0o600  # it names people and their diagnoses
    page = written.read_text()
    assert "columns held by 3 parties" in page
    assert "Proved: the 3 components capture at least <strong>90.0%</strong> of the best possible variance" in page


def test_a_label_of_many_categories_that_was_a_column_of_the_fit_is_circular(party):
    codes = [f"C{i % 40}" for i in range(60)]
    pl.DataFrame({"person": PEOPLE, "code": codes, "age": range(60)}).write_csv(party.path / "coded.csv")
    described = 'table = "coded.csv"\nid = "person"\ntext_of = {"code" = "one-hot"}\n'
    (party.path / "coded.toml").write_text(described)
    asked = ("report", "clinic/result", "--labels", "coded.csv", "--label", "code", "--table")
    circular = "label 'code' was a column of the fit: its association with the components is circular"
    assert circular in party.ok(*asked, "coded.toml").out
    (party.path / "coded.toml").write_text(described.replace("one-hot", "ignore"))
    assert circular not in party.ok(*asked, "coded.toml").out


@pytest.mark.longer
def test_columns_that_party_toml_leaves_out_are_not_correlated(party):
    def related(table):
        told = party.ok("report", "clinic/result", "--table", table, "--id", "person", "--json").json
        return {name for top in told["top_columns"] for name, _ in top}

    left_out = sorted(related("clinic.csv"))[0]
    party.ok("check", "clinic.csv", "--id", "person", "--exclude", left_out, "--write", "party.toml")
    assert left_out not in related("party.toml")
    assert related("party.toml")


@pytest.mark.longer
@pytest.mark.parametrize(
    ("entry", "value", "reason"),
    [
        ("n_parties", "<script>alert(1)</script>", "n_parties must be a whole number, not '<script>"),
        ("n_parties", 10**400, "n_parties"),
        ("captured_share_at_least", None, "captured_share_at_least must be a number, not None"),
        ("optimality_at_least", -1e308, "optimality_at_least is -1e+308, not a share from 0 to 1"),
        ("optimality_estimate", "x", "optimality_estimate must be a number, not 'x'"),
        ("meaning", {"a": 1}, "meaning must be text, not {'a': 1}"),
        (None, [1], "does not have the fields of its kind"),
    ],
)
def test_a_certificate_whose_entries_have_other_types_is_refused(entry, value, reason, party):
    path = party.path / "clinic/result/certificate.json"
    told = json.loads(path.read_text())
    path.write_text(json.dumps(value if entry is None else told | {entry: value}))
    error = party.refused("report", "clinic/result")
    assert f"clinic/result/certificate.json: {reason}" in error
    assert "get the file again" in error


@pytest.mark.longer
def test_names_in_a_file_cannot_command_a_terminal(party):
    name = "a\x1b]0;owned\x07\x1b[31m\nred"
    pl.DataFrame({"person": PEOPLE, name: [0.5, 1.5, 2.5] * 20}).write_csv(party.path / "odd.csv")
    for command in (("check", "odd.csv"), ("report", "clinic/result", "--labels", "odd.csv")):
        said = party.ok(*command, "--id", "person").out
        assert "a?]0;owned??[31m?red" in said
        assert said.replace("\n", "").isprintable()


@pytest.mark.longer
def test_a_message_of_scores_is_named_by_the_party_whose_ids_were_fitted(party):
    party.ok("report", "result.scores")
    assert page_names(party.path / "result.html")[0][:2] == ["0", "1"]
    party.ok("report", "result.scores", "--table", "clinic.csv", "--id", "person", "--out", "mine.html")
    assert page_names(party.path / "mine.html")[0] == PEOPLE
    # The labels alone are in another order: their ids are not those of the fit, and nothing can be matched.
    error = party.refused("report", "result.scores", "--labels", "own.csv", "--id", "person")
    assert "own.csv: none of its 60 ids is a sample of result.scores, whose first is '0'" in error


@pytest.mark.longer
def test_labels_about_other_samples_are_counted_and_refused(party):
    strangers = [f"q{i:02d}" for i in range(60)]
    pl.DataFrame({"who": strangers, "diagnosis": ["ill"] * 60}).write_csv(party.path / "others.csv")
    asked = (
        "report",
        "result.scores",
        "--table",
        "clinic.csv",
        "--id",
        "person",
        "--out",
        "a.html",
    )
    error = party.refused(*asked, "--labels", "others.csv", "--label-id", "who")
    assert "none of its 60 ids (such as 'q00') is a sample" in error
    for id_column, table in (("person", "others.csv"), ("who", "clinic.csv")):
        error = party.refused(*asked, "--labels", "others.csv", "--id", id_column)
        assert f"{table}: has no column '{id_column}'" in error
    half = pl.DataFrame({"who": [*PEOPLE[:30], *strangers[:30]], "diagnosis": ["ill"] * 60})
    half.write_csv(party.path / "half.csv")
    told = party.ok(*asked, "--labels", "half.csv", "--label-id", "who")
    assert "half.csv has labels for 30 of 60 samples; 30 have none, for example 'p30'" in told.out


def test_row_numbers_of_a_message_are_no_ids(party):
    pl.DataFrame({"person": range(1, 51), "diagnosis": ["ill"] * 50}).write_csv(party.path / "numbers.csv")
    error = party.refused("report", "result.scores", "--labels", "numbers.csv", "--id", "person")
    assert "none of its 50 ids is a sample" in error


@pytest.mark.longer
def test_a_run_of_a_center_without_names_is_named_at_the_party(party):
    party.ok("report", "unnamed", "--table", "bank.csv", "--labels", "own.csv", "--id", "person", "--out", "my.html")
    names, header = page_names(party.path / "my.html")
    assert names == PEOPLE
    assert header["scree"]
    assert not (party.path / "unnamed" / "report.html").exists()
    page = (party.path / "my.html").read_text()
    said = "Estimated: the 3 components capture <strong>{}%</strong> of the best possible variance.<br>Proved: the 3"
    assert re.search(said.format(r"[\d.]+"), page)


def test_correlations_are_those_of_pearson(tmp_path):
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(40, 2))
    x = 2.0 * scores[:, 0] + rng.normal(size=40)
    y = -scores[:, 1]
    texts = np.where(scores[:, 0] > 0, "high", "low")
    frame = pl.DataFrame({"id": [f"s{i}" for i in range(40)], "x": x, "flat": 1.0, "text": texts, "y": y})
    frame = frame.with_columns(holes=pl.when(pl.int_range(40) < 5).then(None).otherwise(pl.col("x")))
    frame.with_columns(many=pl.col("id") + "!").sample(fraction=1.0, shuffle=True, seed=1).write_csv(
        tmp_path / "t.csv"
    )
    found = own_columns(tmp_path / "t.csv", Reading("id"), [f"s{i}" for i in range(40)], scores)
    assert set(found.names) == {"x", "text = high", "text = low", "y", "holes"}
    assert "left out as constant, or as text with too many different values: 'flat', 'many'" in found.notes[-1]
    filled = np.concatenate([np.full(5, x[5:].mean()), x[5:]])
    expected = {"x": x, "y": y, "text = high": (texts == "high").astype(float), "holes": filled}
    for name, values in expected.items():
        row = found.correlations[found.names.index(name)]
        np.testing.assert_allclose(row, [np.corrcoef(values, scores[:, d])[0, 1] for d in range(2)], atol=1e-12)
    ((name, value),) = found.top(found.correlations[:, 1], 1)
    assert name == "y"
    assert value == pytest.approx(-1.0)


def test_labels_of_every_kind_become_colors(tmp_path):
    table = pl.DataFrame(
        {
            "id": [f"s{i}" for i in range(40)],
            "text": ["a", "b", None, "b"] * 10,
            "few": [3, 1, 2, 1] * 10,
            "whole": [-10.0, 2.0, None, float("nan")] * 10,
            "number": [float(i) for i in range(40)],
            "yes": [True, False] * 20,
        }
    )
    table.write_parquet(tmp_path / "labels.parquet")
    found = read_labels(tmp_path / "labels.parquet", Reading("id"))
    columns = {column.name: column for column in found.columns(["s1", "s0", "unknown", "s2"])}
    text = columns["text"]
    assert [text.categories[code] for code in text.codes] == ["b", "a", NONE, NONE]
    assert columns["few"].categories == ("1", "2", "3", NONE)
    assert columns["whole"].categories == ("-10", "2", NONE)
    assert [columns["yes"].categories[code] for code in columns["yes"].codes] == ["False", "True", NONE, "True"]
    many = read_labels(tmp_path / "labels.parquet", Reading("id", ("number",))).columns([f"s{i}" for i in range(41)])[
        0
    ]
    np.testing.assert_array_equal(many.numbers, [*range(40), np.nan])


@pytest.mark.longer
def test_more_columns_than_a_page_should_carry_have_to_be_named(fused):
    wide = pl.DataFrame({"person": PEOPLE, **{f"c{j}": range(60) for j in range(MOST_COLUMNS + 1)}})
    wide.with_columns(free=pl.col("person") + " wrote this").write_csv(fused.path / "wide.csv")
    error = fused.refused("report", "run", "--labels", "wide.csv", "--id", "person")
    assert f"wide.csv: has {MOST_COLUMNS + 2} columns, too many for one page; name some with --label" in error
    told = fused.ok("report", "run", "--labels", "wide.csv", "--id", "person", "--label", "c3,free", "--json").json
    assert told["label_columns"] == ["c3", "free"]


@pytest.mark.longer
def test_labels_that_do_not_fit_are_said(fused):
    error = fused.refused("report", "run", "--labels", "bank.csv", "--id", "person", "--label", "x99")
    assert "bank.csv: has no column 'x99'" in error
    assert "is not a run directory" in fused.refused("report", "nowhere")
    rows = pl.read_csv(fused.path / "bank.csv").with_columns(pl.col("person") + "x")
    rows.write_csv(fused.path / "others.csv")
    error = fused.refused("report", "run", "--labels", "others.csv", "--id", "person", "--label", "x1")
    assert "others.csv: none of its 60 ids is a sample of run, whose first is 'p00'" in error
    assert "name its id column with --id" in fused.refused("report", "run", "--labels", "bank.csv")
    assert "with --labels" in fused.refused("report", "run", "--label", "x1")
    error = fused.refused("report", "run", "--labels", "bank.csv", "--id", "person", "--out", "bank.csv")
    assert "bank.csv: exists and is not a page; choose another name" in error
    before = snapshot(fused.path)
    for kept in ("run/embedding.csv", "run/result.scores", "run/model.safetensors"):
        assert f"{kept}: exists and is not a page" in fused.refused("report", "run", "--out", kept)
    assert snapshot(fused.path) == before
    fused.ok("report", "run", "--out", "page.html")
    fused.ok("report", "run", "--out", "page.html")


@pytest.mark.versions
@pytest.mark.longer
def test_new_samples_are_drawn_with_their_run_and_not_alone(fused):
    for owner, X in numbers().items():
        frame(X[:7], [f"n{i}" for i in range(7)]).write_csv(fused.path / f"{owner}.new.csv")
    fused.place({o: f"{o}.new.csv" for o in OWNERS})
    assert "draw them with their run: dkpca report RUN --new run/new" in fused.refused("report", "run/new")
    fused.ok("report", "run", "--new", "run/new")
    names, header = page_names(fused.path / "run" / "report.html")
    assert names[60:] == [f"n{i}" for i in range(7)]
    assert header["count"] == 67
    wrong = pl.read_csv(fused.path / "run/new/embedding.csv").drop("component_3")
    wrong.write_csv(fused.path / "wrong.csv")
    error = fused.refused("report", "run", "--new", "wrong.csv")
    assert "wrong.csv: its samples have 2 components and those of the report 3" in error


def test_many_samples_are_drawn_in_part_and_the_page_says_so(fused):
    content = Content(read_source(fused.path / "run"), "title")
    page = pages.render(content, points=20)
    assert "20 of the 60 samples, drawn at random" in page
    assert "p00" not in page  # ids travel as data


@pytest.mark.longer
def test_a_page_never_grows_over_its_limit(monkeypatch):
    rng = np.random.default_rng(0)
    names = [rng.bytes(20).hex() for _ in range(9000)]  # cannot be compressed well
    content = Content(embedding(rng.normal(size=(9000, 10)), names), "title")
    whole = len(pages.render(content, points=100_000))
    monkeypatch.setattr(pages, "LARGEST_PAGE", whole // 2)
    smaller = pages.render(content, points=100_000)
    assert len(smaller) <= whole // 2
    assert "of the 9,000 samples, drawn at random" in smaller


def test_packed_scores_are_within_a_step_of_the_scores():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(30, 3)) * [1e-3, 1.0, 1e6]
    content = Content(embedding(scores, [str(i) for i in range(30)]), "title")
    shown = packed(content, 100)["scores"]
    sent, low, high = (shown[key] for key in ("steps", "low", "high"))
    steps = np.frombuffer(zlib.decompress(base64.b64decode(sent["data"])), dtype="<u2").reshape(3, 30).T
    found = np.array(low) + steps * (np.array(high) - low) / 65_535
    assert (np.abs(found - scores) <= 0.51 * np.ptp(scores, axis=0) / 65_535).all()


def test_every_script_is_part_of_the_page():
    scripts = {file.name for file in pages.PARTS.joinpath("script").iterdir()}
    assert scripts == {f"{name}.js" for name in pages.SCRIPTS}
    joined = pages.joined_scripts()
    assert "import {" not in joined
    assert "innerHTML" not in joined
    assert "eval(" not in joined


@pytest.mark.longer
def test_a_german_table_with_ids_in_other_letters_is_matched_as_agreed(party):
    text = "person;diagnose;größe\n" + "".join(
        f"P{i:02d} ;{'krank' if i % 2 else 'gesund'};1,{i:02d}\n" for i in range(60)
    )
    (party.path / "eigene.csv").write_bytes(text.encode("cp1252"))
    asked = ("report", "clinic/result", "--labels", "eigene.csv", "--table", "eigene.csv", "--id", "person")
    assert "none of its 60 ids is a sample" in party.refused(*asked)
    (party.path / "eigene.toml").write_text('table = "eigene.csv"\nid_normalize = ["strip", "case"]\n')
    told = party.ok(*asked, "--table", "eigene.toml", "--json").json
    assert told["label_columns"] == ["diagnose", "größe"]
    assert sum("semicolon" in note for note in told["notes"]) == 1
    labels = read_labels(party.path / "eigene.csv", Reading("person", id_normalize=("strip", "case"))).columns(PEOPLE)
    assert [labels[0].categories[code] for code in labels[0].codes[:2]] == ["gesund", "krank"]
    np.testing.assert_allclose(labels[1].numbers, 1 + np.arange(60) / 100)


@pytest.mark.slow
def test_ids_are_made_alike_as_for_the_run(party):
    for owner in OWNERS:
        how = f'table = "{owner}.csv"\nid = "person"\nid_normalize = ["strip"]\n'
        (party.path / f"{owner}.toml").write_text(how)
    party.ok("fit", *(f"{owner}.toml" for owner in OWNERS), "--components", 3, "--out", "agreed")
    pl.DataFrame({"person": [f"{person} " for person in PEOPLE], "x": range(60)}).write_csv(party.path / "padded.csv")
    party.ok("report", "agreed", "--labels", "padded.csv", "--id", "person", "--out", "labels.html")
    party.ok("report", "agreed", "--table", "padded.csv", "--id", "person", "--out", "table.html")


def test_a_partys_own_table_is_not_taken_for_a_result(fused):
    said = fused.refused("report", "bank.csv")
    assert "bank.csv: is a table, but not an embedding" in said
    assert "your own table with --table" in said


@pytest.mark.versions
@pytest.mark.longer
def test_every_component_is_drawn_with_its_error_bar(fused):
    fused.ok("report", "run", "--out", "page.html")
    certificate = runs.load(fused.path / "run").model.certificate
    drawn = page_names(fused.path / "page.html")[1]["errors"]
    np.testing.assert_allclose(np.square(drawn["estimated"]), certificate.component_estimates)
    np.testing.assert_allclose(np.square(drawn["proved"]), certificate.component_errors_at_most)
    assert "the dot is estimated from the messages alone" in (fused.path / "page.html").read_text()


def test_the_page_begins_the_certificate_with_the_verdict(fused):
    fused.ok("report", "run")
    page = (fused.path / "run" / "report.html").read_text()
    verdict = runs.load(fused.path / "run").model.certificate.verdict()
    assert page.index(verdict) < page.index("All statements") < page.index("Theorem 1 of the paper")
