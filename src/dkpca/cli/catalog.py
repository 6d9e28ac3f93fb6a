"""Every command by name: `dkpca --help` reads their first lines from the source, and loads none of them."""

import ast
import os
from importlib import import_module
from importlib.util import find_spec
from signal import SIGINT, signal
from threading import Timer
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from dkpca.errors import InputError

# Command, and the module that has it: a function of that name, or a group of commands, under the heading PANEL.
MODULES = {
    "check": "checking",
    "summarize": "at_party",
    "inspect": "inspecting",
    "fuse": "at_center",
    "study": "studies",
    "report": "reporting",
    "fit": "on_one_machine",
    "demo": "demo",
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
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
    module = _needing_extra(f"dkpca.cli.{MODULES[name]}")
    if hasattr(module, "group"):
        app.add_typer(module.group, name=name, rich_help_panel=module.PANEL, help=module.HELP)
    else:
        app.command(name, rich_help_panel=module.PANEL)(getattr(module, name))
    return get_group(app).commands[name]


def _listed(name: str) -> TyperCommand:
    """A command as the list of commands shows it: its first line, under the heading of its module."""
    spec = find_spec(f"dkpca.cli.{MODULES[name]}")
    assert spec is not None
    tree = ast.parse(spec.loader.get_source(spec.name))  # type: ignore[union-attr]  # a loader of source files
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    constants = {
        getattr(node.targets[0], "id", ""): node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
    }
    text = ast.get_docstring(functions[name]) or "" if name in functions else str(constants["HELP"])
    return TyperCommand(
        name,
        help=text.partition("\n\n")[0],
        rich_help_panel=str(constants["PANEL"]),
        rich_markup_mode="markdown",
    )


def _needing_extra(module: str) -> Any:
    """Import a module that may need an extra, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("cryptography", "fsspec"):
            raise
        raise InputError(f"this command needs {error.name}; install it with: pip install 'dkpca[study]'") from error
