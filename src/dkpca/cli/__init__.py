"""The command line: parse, call, print. Nothing is computed here."""

import os
import signal
import sys
from typing import Annotated, Any, NoReturn

import typer

import dkpca
from dkpca.cli import align, at_center, at_party, consortium, on_one_machine, over_network, planning, reporting
from dkpca.errors import DKPCAError

INTERRUPTED = 130

app = typer.Typer(
    name="dkpca",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (at_party, align, at_center, reporting, on_one_machine, planning, consortium, over_network):
    module.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"dkpca {dkpca.__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """One-shot distributed kernel PCA for owners of different columns about the same samples.

    Each party turns its table into one small file with **summarize**; the center turns those files into kernel
    principal components with **fuse**. Files are the messages: look at one with **inspect**, then mail it.
    """


def run(arguments: list[str] | None = None) -> int:
    """Run one command; return its exit code. What went wrong is one sentence on stderr."""
    signal.signal(signal.SIGTERM, _stop)
    signal.siginterrupt(signal.SIGINT, True)  # polars, when imported, makes a process that waits sleep through Ctrl-C
    try:
        code: Any = app(arguments, prog_name="dkpca", standalone_mode=False)
    except typer.TyperException as error:  # a wrong option or argument
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "dkpca"
        _say(f"{error.format_message().rstrip('.')}; see '{command} --help'")
        return error.exit_code
    except DKPCAError as error:
        _say(str(error))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:  # the reader, such as `head`, has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    if code == INTERRUPTED:  # typer turns an interrupt into this code itself
        _say("interrupted; no file was left half written, the command can be repeated")
    return code if isinstance(code, int) else 0


def _say(sentence: str) -> None:
    print("dkpca: " + " ".join(sentence.split()), file=sys.stderr)


def _stop(*_: object) -> NoReturn:
    """Leave by an exception, so that unfinished files are removed."""
    raise KeyboardInterrupt
