"""The command line: each command is loaded when it is named; parse, call, print. Nothing is computed here.

`dkpca --help` reads the first lines of all commands from the source, and loads none of them.
"""

import ast
import json
import os
import re
import signal
import sys
from importlib import import_module
from pkgutil import get_data
from threading import Timer
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

import dkpca
from dkpca.errors import DKPCAError, needed_from
from dkpca.wording import printable

# Command, the module that has it (as a function of that name, or as `group`), and its heading.
MODULES = {
    "check": ("at_party", "At a party"),
    "summarize": ("at_party", "At a party"),
    "inspect": ("at_party", "At a party"),
    "fuse": ("at_center", "At the center"),
    "study": ("studies", "Between organizations"),
    "report": ("reporting", "Look at a result"),
    "fit": ("on_one_machine", "On one machine"),
    "demo": ("demo", "On one machine"),
}
INTERRUPTED = 130
OF_TABLES = re.compile(
    r"--(columns|exclude|text|dates|max-missing|id-normalize|separator|decimal|thousands|null-values|sheet)\b"
)
OF_PYTHON = re.compile(r"\b(align|kernel|lacking|law|protect|solver)='(\w+)'")  # as the library says them
SET_IT = "(set it with 'dkpca check TABLE --write party.toml', then use party.toml instead of the table)"
INTERRUPT = "interrupted; no file was left half written, the command can be repeated"


class LazyGroup(TyperGroup):
    """Commands that are loaded when one of them is run."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.commands = {name: _listed(name) for name in MODULES}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that was named."""
        name, listed, rest = super().resolve_command(ctx, args)
        if listed is None or name is None:
            return name, listed, rest
        loaded = load(name)
        signal.signal(signal.SIGINT, stop)  # from here on an interrupt has something to clean up
        return name, loaded, rest


def stop(number: int, frame: Any) -> None:
    """Leave by an exception, so that unfinished files are removed; after an import, since one in Rust would panic."""
    while frame is not None and not frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    if frame is None:
        raise KeyboardInterrupt
    Timer(0.005, os.kill, (os.getpid(), number)).start()


def load(name: str) -> Any:
    """Import the module of a command, and return the command."""
    return made(name, *MODULES[name])


def made(name: str, module: str, panel: str | None = None) -> Any:
    """Make a command of the function or the group that a module has."""
    with needed_from("study" if module in ("studies", "creating") else "cli", "this command"):
        found = import_module(f"dkpca.cli.{module}")
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
    if hasattr(found, "group"):
        app.add_typer(found.group, name=name, rich_help_panel=panel, help=found.__doc__)
    else:
        app.command(name, rich_help_panel=panel)(getattr(found, name))
    return get_group(app).commands[name]


def _listed(name: str) -> TyperCommand:
    """A command as the list of commands shows it: its first line, under its heading."""
    module, panel = MODULES[name]
    tree = ast.parse(get_data("dkpca.cli", f"{module}.py") or b"")
    function = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    text = ast.get_docstring(next(function, tree)) or ""  # that of a group is its module's
    return TyperCommand(name, help=text.partition("\n\n")[0], rich_help_panel=panel, rich_markup_mode="markdown")


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
