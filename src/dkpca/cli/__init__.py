"""The command line: parse, call, print. Nothing is computed here."""

import json
import os
import re
import signal
import sys
from typing import Annotated, Any

import typer

import dkpca
from dkpca.cli.catalog import LazyGroup, stop
from dkpca.errors import DKPCAError
from dkpca.wording import printable

INTERRUPTED = 130
OF_TABLES = re.compile(
    r"--(columns|exclude|text|dates|max-missing|id-normalize|separator|decimal|thousands|null-values|sheet)\b"
)
OF_PYTHON = re.compile(r"\b(align|kernel|lacking|law|protect|solver)='(\w+)'")  # as the library says them
SET_IT = "(set it with 'dkpca check TABLE --write party.toml', then use party.toml instead of the table)"
INTERRUPT = "interrupted; no file was left half written, the command can be repeated"

app = typer.Typer(
    name="dkpca",
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dkpca {dkpca.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """One-shot distributed kernel PCA for parties that hold different columns of the same samples.

    Each party turns its table into one file with **summarize**; the center turns those files into kernel
    principal components with **fuse**. Messages are ordinary files: **inspect** shows what a file reveals before you
    send it. If all tables are on one machine, **fit** does everything.
    """


def run(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code. What went wrong is one sentence on stderr, or with --json one object."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--json" in given
    signal.signal(signal.SIGTERM, stop)
    signal.siginterrupt(signal.SIGINT, True)  # polars, when imported, makes a process that waits sleep through Ctrl-C
    try:
        code: Any = app(arguments, prog_name="dkpca", standalone_mode=False)
    except typer.TyperException as error:  # a wrong option or argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "dkpca"
        what = error.format_message().rstrip(".") or "no command given"
        _say("usage", f"{what}{' See' if what.endswith('?') else '; see'} '{command} --help'", as_json)
        return error.exit_code
    except DKPCAError as error:
        said = OF_PYTHON.sub(r"--\1 \2", str(error))
        about_table = OF_TABLES.search(said) and given[0] != "check" and "dkpca check" not in said
        _say(error.code, f"{said} {SET_IT}" if about_table else said, as_json)
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if code == INTERRUPTED:  # typer turns an interrupt into this code itself
        _say("interrupted", INTERRUPT, as_json)
    return code if isinstance(code, int) else 0


def _say(code: str, sentence: str, as_json: bool) -> None:
    plain = printable(sentence)
    print(json.dumps({"error": {"code": code, "message": plain}}) if as_json else f"dkpca: {plain}", file=sys.stderr)
