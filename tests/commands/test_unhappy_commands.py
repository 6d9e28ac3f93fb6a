"""Every mistake ends in one sentence that names the file and what to do, and destroys nothing."""

import os
import signal
import subprocess
import sys

import polars as pl
import pytest

import dkpca
from dkpca.errors import InputError
from dkpca.party.limits import Limits
from dkpca.store import party_file
from testkit.owners import GAMMA, OWNERS
from testkit.program import program, snapshot

SUMMARISE = ("summarize", "bank.csv", "--id", "person", "--gamma", GAMMA, "--out", "bank.summary")


def rewrite(office, change, owner="bank"):
    path = office.path / f"{owner}.csv"
    change(pl.read_csv(path)).write_csv(path)


def constant(table):
    return table.with_columns(pl.lit(3.5).alias("x1"))


def all_missing(table):
    return table.with_columns(pl.lit(None, dtype=pl.Float64).alias("x1"))


def duplicate_ids(table):
    return table.with_columns(
        pl.when(pl.col("person") == "p07").then(pl.lit("p03")).otherwise("person").alias("person")
    )


def text_among_numbers(table):
    text = pl.when(pl.col("person") == "p04").then(pl.lit("none of it")).otherwise(pl.col("x2").cast(pl.String))
    return table.with_columns(text.alias("x2"))


def one_row(table):
    return table.head(1)


def infinite(table):
    return table.with_columns(pl.when(pl.col("person") == "p04").then(float("inf")).otherwise("x0").alias("x0"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (constant, ["bank.csv", "the same value in every row in column 'x1'", "--exclude x1"]),
        (all_missing, ["bank.csv", "no value at all in column 'x1'", "--exclude x1"]),
        (duplicate_ids, ["bank.csv", "ids in column 'person' occur more than once: 'p03' (rows 4, 8)", "keep one"]),
        (text_among_numbers, ["bank.csv", "'x2' holds numbers, but for 'none of it' in data row", "--exclude 'x2'"]),
        (one_row, ["bank.csv", "1 row", "at least 2 samples"]),
        (infinite, ["bank.csv", "column 'x0' is infinite in row 5", "correct"]),
    ],
)
def test_a_table_that_cannot_be_used_is_refused(office, change, words):
    rewrite(office, change)
    error = office.refused(*SUMMARISE)
    assert all(word in error for word in words), error


def test_a_wrong_id_column_is_named_beside_those_that_are_there(office):
    error = office.refused("summarize", "bank.csv", "--id", "persn", "--gamma", GAMMA, "--out", "bank.summary")
    assert "bank.csv: has no column 'persn'; it has 'person', 'x0'" in error


def test_tables_of_unequal_length_are_refused_with_the_option_that_matches_rows(office):
    rewrite(office, lambda table: table.drop("person"))
    rewrite(office, lambda table: table.drop("person").head(50), "clinic")
    said = office.refused("fit", "bank.csv", "clinic.csv", "--out", "run")
    assert "differ in number of samples (60 and 50)" in said
    assert "or let ids match them: 'dkpca fit' with --id" in said


@pytest.mark.longer
def test_fit_names_the_table_of_the_party_that_fails(office):
    rewrite(office, constant, "clinic")
    error = office.refused("fit", "bank.csv", "clinic.csv", "--id", "person", "--out", "run")
    assert "clinic.csv" in error
    assert "--exclude x1" in error
    assert not (office.path / "run").exists()


@pytest.mark.longer
def test_differing_gamma_is_refused_and_the_run_stays(fused):
    fused.ok("summarize", "shop.csv", "--id", "person", "--gamma", 0.07, "--rank", 20, "--party", "shop",
             "--out", "other.summary")  # fmt: skip
    error = fused.refused("fuse", "other.summary", "--keep", "--out", "run")
    assert "differ in kernel" in error
    assert "0.07" in error
    assert "'bank' and 'shop'" in error
    assert "use one kernel and one gamma" in error


@pytest.mark.parametrize("new", [("shop.csv",), ("bank=shop.csv", "bank=bank.csv")])
def test_new_tables_without_a_party_or_two_of_one_are_refused_before_the_fit(office, new):
    given = [part for each in new for part in ("--new", each)]
    error = office.refused("fit", "bank.csv", "shop.csv", "--id", "person", *given, "--out", "run")
    assert "--new: write NAME=FILE, with the name of a party of the fit, once for each party" in error


@pytest.mark.longer
def test_a_summary_of_other_samples_is_refused_and_the_run_stays(fused):
    rewrite(fused, lambda table: table.reverse(), "shop")
    fused.ok("summarize", "shop.csv", "--id", "person", "--gamma", GAMMA, "--rank", 20, "--out", "other.summary",
             "--party", "shop")  # fmt: skip
    error = fused.refused("fuse", "other.summary", "--keep", "--out", "run")
    assert "differ in their samples or sample order" in error
    assert "'bank' and 'shop'" in error
    assert "sort and filter the tables by id" in error


def test_a_party_of_the_run_stays_only_if_it_is_asked_to(fused):
    error = fused.refused("fuse", "shop.summary", "--out", "run")
    assert "run: has summaries of ['bank', 'clinic'] from before, which are not among the files given" in error
    assert "--keep, or leave them out with --without bank --without clinic" in error
    without = ("--without", "bank", "--without", "clinic")
    assert list(fused.ok("fuse", "shop.summary", *without, "--out", "run", "--json").json["parties"]) == ["shop"]


def test_fuse_without_any_summary_says_what_to_name(office):
    assert "no summary was given, and none is there; name the parties' summary files" in office.refused(
        "fuse", "--out", "run"
    )


def flip_a_bit(data):
    middle = len(data) // 2
    return data[:middle] + bytes([data[middle] ^ 4]) + data[middle + 1 :]


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda data: data[:-100], "its header or its length is wrong; get it again from its sender"),
        (flip_a_bit, "get it again from its sender"),
        (lambda data: b"", "truncated, or another kind"),
        (lambda data: b"person,x\n1,2\n", "truncated, or another kind"),
    ],
    ids=["truncated", "bit-flipped", "empty", "other"],
)
def test_a_damaged_file_is_refused_and_the_run_stays(fused, damage, words):
    path = fused.path / "shop.summary"
    path.write_bytes(damage(path.read_bytes()))
    error = fused.refused("fuse", "shop.summary", "--keep", "--out", "run")
    assert "shop.summary" in error
    assert words in error


def test_a_missing_file_is_named(office):
    assert "there is no such file; check the path" in office.refused("fuse", "nobody.summary", "--out", "run")
    error = office.refused("summarize", "nobody.csv", "--gamma", GAMMA, "--out", "x.summary")
    assert "nobody.csv: there is no such file" in error


def test_an_unknown_option_is_named_with_the_way_to_help(office):
    error = office.refused(*SUMMARISE, "--gama", 3)
    assert "--gama" in error
    assert "--gamma" in error
    assert "see 'dkpca summarize --help'" in error


def test_a_misspelled_command_is_asked_about(office):
    error = office.refused("summarise", "bank.csv")
    assert "Did you mean 'summarize'? See 'dkpca --help'" in error


def test_a_missing_gamma_says_how_to_get_one(office):
    error = office.refused("summarize", "bank.csv", "--id", "person", "--out", "bank.summary")
    assert "--gamma" in error


def test_a_table_is_never_overwritten_by_a_message(office):
    assert "need a file each; choose another --out" in office.refused(*SUMMARISE[:-1], "bank.csv")
    assert "not a dkpca file; choose another name" in office.refused(*SUMMARISE[:-1], "shop.csv")


def test_a_directory_with_other_files_is_no_run(summarized):
    (summarized.path / "home").mkdir()
    (summarized.path / "home" / "thesis.txt").write_text("all of it")
    error = summarized.refused("fuse", "bank.summary", "--out", "home")
    assert "home: is a directory with other files" in error


@pytest.mark.slow
def test_an_unwritable_directory_is_refused_before_any_work(summarized):
    locked = summarized.path / "locked"
    locked.mkdir()
    locked.chmod(0o555)
    # root may write anywhere unless this right is taken away
    prefix = ("setpriv", "--bounding-set=-dac_override,-dac_read_search") if os.geteuid() == 0 else ()
    for command in (
        (*SUMMARISE[:-1], "locked/bank.summary"),
        ("fuse", "bank.summary", "--components", 2, "--out", "locked/run"),
    ):
        error = summarized.refused(*command, prefix=prefix)
        assert "locked" in error
        assert "(Permission denied); make room, or choose another place" in error
    error = summarized.refused(*SUMMARISE[:-1], "nowhere/bank.summary")
    assert "cannot be written (No such file or directory)" in error


def on_a_full_disk(office, *command):
    """Run a command where `small` is a file system with room for next to nothing."""
    script = (
        'mount -t tmpfs -o size=24k none small; cp -r kept/. small; "$@"; code=$?; cp -r small/. after; exit $code'
    )
    prefix = ("unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh")
    for name in ("small", "after"):
        (office.path / name).mkdir()
    return program(*command, cwd=office.path, prefix=prefix)


@pytest.mark.slow
def test_a_full_disk_is_said_and_leaves_the_old_files(summarized):
    kept = summarized.path / "kept"
    kept.mkdir()
    (kept / "bank.summary").write_bytes((summarized.path / "bank.summary").read_bytes())
    answer = on_a_full_disk(summarized, *SUMMARISE[:-1], "small/bank.summary", "--rank", 30)
    assert answer.code == 1
    assert "small/bank." in answer.err
    assert "(No space left on device); make room, or choose another place" in answer.err
    assert answer.err.count("\n") == 1
    assert snapshot(summarized.path / "after") == snapshot(kept)


@pytest.mark.slow
def test_a_full_disk_leaves_no_model_of_a_run(summarized):
    (summarized.path / "kept").mkdir()
    answer = on_a_full_disk(
        summarized, "fuse", *(f"{o}.summary" for o in OWNERS), "--components", 3, "--out", "small/run"
    )
    assert answer.code == 1
    assert "No space left on device" in answer.err
    assert "run/model.safetensors" not in snapshot(summarized.path / "after")


@pytest.mark.slow
@pytest.mark.parametrize("when", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_command_leaves_no_half_file_and_can_be_repeated(summarized, when):
    before = snapshot(summarized.path)
    at_the_worst_moment = (
        "import os, signal, sys\n"
        f"os.fsync = lambda descriptor: os.kill(os.getpid(), {int(when)})\n"
        "from dkpca.__main__ import main\n"
        "main()\n"
    )
    arguments = [*map(str, SUMMARISE), "--rank", "5"]
    ran = subprocess.run(
        [sys.executable, "-c", at_the_worst_moment, *arguments],
        cwd=summarized.path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 130
    assert ran.stderr == "dkpca: interrupted; no file was left half written, the command can be repeated\n"
    assert snapshot(summarized.path) == before
    assert summarized.ok(*arguments, "--json").json["rank"] == 5


def test_without_the_extra_the_program_says_how_to_install_it():
    code = "import sys\nsys.modules['typer'] = None\nfrom dkpca.__main__ import main\nmain()\n"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 1
    assert ran.stderr == "dkpca: the command line needs typer; install it with: pip install 'dkpca[cli]'\n"


def test_an_unexpected_exception_is_not_swallowed(office, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr("dkpca.store.runs.fuse", broken)
    with pytest.raises(ZeroDivisionError, match="a bug"):
        office.run("fuse", "--out", "run")


@pytest.mark.versions
@pytest.mark.longer
def test_help_reads_like_documentation(office):
    listed = office.ok("--help").out
    for command in ("check", "summarize", "fuse", "inspect", "fit", "report", "demo"):
        assert command in listed
    assert program("--version", cwd=office.path).out == f"dkpca {dkpca.__version__}\n"


def test_the_private_state_replaces_no_other_file(office):
    (office.path / "bank.state").write_text("my notes")
    error = office.refused("summarize", "bank.csv", "--id", "person", "--gamma", GAMMA, "--out", "bank.summary")
    assert "bank.state: exists and is not a dkpca file; choose another name" in error


@pytest.mark.parametrize("digits", ["0x" + "F" * 9999, "0o" + "7" * 9999, "0b" + "1" * 99_999, "9" * 9999])
def test_a_number_too_long_to_be_written_is_refused_in_any_file_of_settings(office, digits):
    files = {"party.toml": f'table = "bank.csv"\nmax_missing = {digits}\n', "settings.toml": f"gamma = {digits}\n"}
    for name, text in files.items():
        (office.path / name).write_text(text)
    given = ("summarize", "bank.csv", "--id", "person", "--out", "bank.summary")
    assert "party.toml: not a TOML file" in office.refused("check", "party.toml")
    (office.path / "limits.toml").write_text(Limits().to_toml().replace("known_rows = 30", f"known_rows = {digits}"))
    with pytest.raises(InputError, match="limits.toml: not a TOML file"):
        party_file.read_limits(office.path / "limits.toml")
    assert "settings.toml: not a TOML file" in office.refused(*given, "--settings", "settings.toml")


def test_a_damaged_mudata_file_is_a_sentence(office):
    (office.path / "t.h5mu").write_bytes(b"none")
    assert "t.h5mu: cannot be read" in office.refused("fit", "t.h5mu", "--out", "run")
    assert "no.h5mu: there is no such file" in office.refused("fit", "no.h5mu", "--out", "run")
