"""Every command by name: `dkpca --help` reads their first lines from the source, and loads none of them."""

import ast
import os
from importlib import import_module
from pkgutil import get_data
from signal import SIGINT, signal
from threading import Timer
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from dkpca.errors import InputError

# Command, the module that has it (as a function of that name, or as `group`), and its heading.
MODULES = {
    "check": ("checking", "At a party"),
    "summarize": ("at_party", "At a party"),
    "inspect": ("inspecting", "At a party"),
    "fuse": ("at_center", "At the center"),
    "study": ("studies", "Between organizations"),
    "report": ("reporting", "Look at a result"),
    "fit": ("on_one_machine", "On one machine"),
    "demo": ("demo", "On one machine"),
}


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
        signal(SIGINT, stop)  # from here on an interrupt has something to clean up
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
    try:
        found = import_module(f"dkpca.cli.{module}")
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("cryptography", "fsspec"):
            raise
        raise InputError(f"this command needs {error.name}; install it with: pip install 'dkpca[study]'") from error
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
