"""The program starts at once, speaks JSON when asked to, is quiet when stopped, and fits a terminal."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from dkpca import cli, errors
from dkpca.cli import LazyGroup, _say, options
from dkpca.cli.output import table as as_table
from testkit import reference
from testkit.program import PROGRAM

SUMMARIZE = ("summarize", "bank.csv", "--id", "person", "--gamma", 0.05, "--out", "bank.summary")


def test_help_loads_neither_polars_nor_numpy_nor_any_command():
    code = (
        "import sys\n"
        "sys.argv = ['dkpca', '--help']\n"
        "from dkpca.cli import run\n"
        "run()\n"
        "heavy = {'polars', 'numpy', 'scipy', 'sklearn', 'plotly', 'dkpca.cli.at_party'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stderr == "[]\n"
    assert "summarize" in ran.stdout


@pytest.mark.versions
@pytest.mark.longer
@pytest.mark.parametrize("last", ["--help", "--json"])
def test_a_party_waits_neither_for_scikit_learn_nor_for_pandas(office, last):
    code = (
        "import sys\n"
        f"sys.argv = ['dkpca', *{list(map(str, SUMMARIZE))}, '{last}']\n"
        "from dkpca.cli import run\n"
        "run()\n"
        "print(sorted({'sklearn', 'pandas', 'scipy.stats'} & set(sys.modules)))\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=office.path, capture_output=True, text=True, check=True)
    assert ran.stdout.endswith("[]\n")


def test_every_command_is_listed_with_its_first_line_under_its_heading():
    for name, listed in LazyGroup(name="dkpca").commands.items():
        command = cli.load(name)
        assert listed.help.split() == (command.help or "").partition("\n\n")[0].split(), name
        assert vars(listed)["rich_help_panel"] == command.rich_help_panel, name


def test_a_command_has_20_options_at_most():
    counts = {name: len(cli.load(name).params) - 1 for name in cli.MODULES}
    assert {name: count for name, count in counts.items() if count > 20} == {}


def test_the_page_of_commands_is_made_from_the_commands():
    written = (Path(__file__).parents[2] / "docs" / "commands.md").read_text()
    assert written == reference.page(), "run: python -m testkit.reference > docs/commands.md"


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (("summarize", "nobody.csv", "--gamma", 1, "--out", "x.summary"), "storage"),
        (("summarize", "bank.csv", "--id", "persn", "--gamma", 1, "--out", "x.summary"), "input"),
        (("summarize", "bank.csv", "--gama", 1), "usage"),
        (("fuse", "bank.summary", "--roster", "bank,shop", "--out", "run"), "mismatch"),
        (("fuse", "bank.csv", "--out", "run"), "damaged"),
        (("report", "nowhere"), "input"),
        ((), "usage"),
    ],
)
def test_with_json_an_error_is_an_object_with_a_code(summarized, command, code):
    answer = summarized.run(*command, "--json") if command else summarized.run("--json")
    assert answer.code != 0
    assert answer.out == ""
    assert list(json.loads(answer.err)) == ["error"]
    assert json.loads(answer.err)["error"]["code"] == code
    assert json.loads(answer.err)["error"]["message"]


def test_every_error_has_a_code_of_its_own():
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.DKPCAError)]
    assert len({kind.code for kind in kinds}) == len(kinds)


@pytest.mark.longer
def test_an_interrupt_while_the_program_loads_is_one_sentence(office):
    in_the_middle_of_an_import = (
        "import builtins, os, signal, sys\n"
        "real = builtins.__import__\n"
        "def importing(name, *rest, **more):\n"
        "    if name.partition('.')[0] == 'polars':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return real(name, *rest, **more)\n"
        "builtins.__import__ = importing\n"
        "from dkpca.__main__ import main\n"
        "main()\n"
    )
    command = [sys.executable, "-c", in_the_middle_of_an_import, *map(str, SUMMARIZE)]
    ran = subprocess.run(command, cwd=office.path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == "dkpca: interrupted; no file was left half written, the command can be repeated\n"


@pytest.mark.longer
@pytest.mark.parametrize("when", [signal.SIGTERM, signal.SIGINT])
def test_stopped_while_rust_runs_python_in_an_import_it_says_one_sentence(office, when):
    in_the_middle_of_an_import = (
        "import builtins, os, signal, sys\n"
        "real = builtins.__import__\n"
        "def importing(name, *rest, **more):\n"
        "    if name == 'sys' and 'pcodec' in sys.modules and sys._getframe(1).f_code.co_filename == '<string>':\n"
        f"        os.kill(os.getpid(), {int(when)})\n"
        "    return real(name, *rest, **more)\n"
        "from dkpca.__main__ import main\n"
        "builtins.__import__ = importing\n"
        "main()\n"
    )
    command = [sys.executable, "-c", in_the_middle_of_an_import, *map(str, SUMMARIZE)]
    ran = subprocess.run(command, cwd=office.path, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (130, "")
    assert ran.stderr == "dkpca: interrupted; no file was left half written, the command can be repeated\n"


def test_an_error_writes_nothing_that_a_terminal_obeys(office):
    answer = office.run("inspect", "no\x1b[2Jsuch.csv")
    assert answer.code == 1
    assert "no?[2Jsuch.csv" in answer.err
    assert "\x1b" not in answer.err


def test_an_error_stays_short_whatever_strangers_call_things(capsys):
    _say("input", f"there are kernels for {'x' * 100_000}; name each", as_json=False)
    said = capsys.readouterr().err
    assert said.startswith("dkpca: there are kernels for")
    assert said.endswith("; name each\n")
    assert len(said) < 4100


def test_a_sentence_is_never_longer_than_a_person_reads(office):
    long = "z" * 100_000
    (office.path / "t.csv").write_text(f"id,x\n{long},1\n{long},2\n")
    error = office.refused("summarize", "t.csv", "--id", "id", "--gamma", "1", "--out", "t.summary")
    assert len(error) < 5000
    assert error.endswith("ids must be unique: keep one row of each\n")
    assert len(office.run("check", "t.csv").out) < 10_000


def test_names_are_shown_as_they_are(office):
    (office.path / "t.csv").write_text("id,:bomb:\n" + "".join(f"s{i},{'ab'[i % 2]}\n" for i in range(30)))
    assert ":bomb:: expanded text column ':bomb:' into 2 columns of 0 and 1" in office.ok("check", "t.csv").out


def test_names_of_files_that_are_no_text_are_a_sentence(fused):
    odd = os.fsdecode(b"odd\xff")
    (fused.path / "bank.csv").rename(fused.path / f"{odd}.csv")
    fused.ok("report", "run", "--title", odd)
    error = fused.refused("report", "run", "--labels", f"{odd}.csv", "--id", "person")
    assert "odd?.csv: its name is not UTF-8; rename it" in error


def test_the_advice_of_fit_names_options_that_fit_has(office):
    for name in ("a", "b"):
        np.save(office.path / f"{name}.npy", np.random.default_rng(ord(name)).normal(size=(30, 3)))
    asked = ("fit", "a.npy", "b.npy", "--components", 2, "--gamma", 500, "--jobs", 1, "--out", "run")
    said = office.ok(*asked).out.replace("\n", " ")
    assert "samples are numbered by row; name them with --id " in said
    assert "use standardized columns, or a smaller gamma" in said


def test_bare_the_program_lists_its_commands_and_says_that_none_was_named(office):
    answer = office.run()
    assert answer.code == 2
    assert "summarize" in answer.out
    assert answer.err == "dkpca: no command given; see 'dkpca --help'\n"


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("dkpca su", {"summarize"}),
        ("dkpca summarize --kernel la", {"laplacian"}),
        ("dkpca fit --stand", {"--standardize"}),
    ],
)
@pytest.mark.slow
def test_the_shell_completes_commands_options_and_choices(words, completed):
    ran = subprocess.run(
        [PROGRAM],
        env={
            **os.environ,
            "_DKPCA_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(ran.stdout.split()) == completed


def test_a_table_fits_80_columns_and_keeps_all_its_letters(capsys):
    rows = [["a-party-with-a-name-of-the-greatest-length-that-a-name-can-have-64", "1,000,000", "12,345", "999.9 MB",
             "999.9 GB", "streamed", "123.4 GB", "1234.5 min"]]  # fmt: skip
    headings = ["", "columns", "rank", "sends", "raw", "solver", "memory", "time"]
    Console(width=80).print(as_table("title", headings, rows))
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    for cell in rows[0][1:]:
        assert cell in printed


@pytest.mark.parametrize(("written", "read"), [(".01", 0.01), ("1.", 1.0), ("-.5e-3", -0.0005), ("scale", "scale")])
def test_a_number_may_begin_or_end_with_its_point(written, read):
    assert options.value(written) == read
