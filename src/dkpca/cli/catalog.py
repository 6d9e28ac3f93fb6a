"""Every command by name, so that `dkpca --help` loads none of them; a test holds the list to their own words."""

from dataclasses import dataclass
from importlib import import_module
from signal import SIGINT, default_int_handler, signal
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from dkpca.errors import InputError

PARTY, CENTER, ONE = "At a party", "At the center", "On one machine"
RESULT = "Look at a result"
TOGETHER = "Between organizations"


@dataclass(frozen=True)
class Entry:
    """One command: the module whose `add_to` registers it, and how it is listed."""

    name: str
    module: str
    panel: str
    help: str
    hidden: bool = False


CATALOG = (
    Entry("check", "checking", PARTY, "Say everything about a table before it is used."),
    Entry("summarize", "at_party", PARTY, "Turn a table into the one message of the protocol."),
    Entry("summarise", "at_party", PARTY, "Turn a table into the one message of the protocol.", hidden=True),
    Entry("inspect", "inspecting", PARTY, "Say what a file discloses, in words and numbers, before it is sent."),
    Entry(
        "fuse",
        "at_center",
        CENTER,
        "Turn the parties' summaries into kernel principal components, in a run directory.",
    ),
    Entry("study", "study", TOGETHER, "Compute together: a plan that all sign once, in a folder that all can reach."),
    Entry(
        "report",
        "reporting",
        RESULT,
        "Draw a result as one page that works offline: samples to explore, certificate, parties, settings.",
    ),
    Entry(
        "fit",
        "on_one_machine",
        ONE,
        "Do it all on one machine: every party in a process of its own, then the fusion.",
    ),
    Entry(
        "demo",
        "on_one_machine",
        ONE,
        "Play the whole protocol: airline, weather service, aircraft registry and airport know the same flights.",
    ),
    Entry(
        "tune",
        "choosing",
        ONE,
        "Try gamma, the linear kernel, components, rank and weights, to choose them: for one owner of all tables.",
    ),
)


class LazyGroup(TyperGroup):
    """Commands that are loaded when one of them is run; a list of them needs only the catalog."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.commands = {
            entry.name: TyperCommand(
                entry.name,
                help=entry.help,
                rich_help_panel=entry.panel,
                rich_markup_mode="markdown",
                hidden=entry.hidden,
            )
            for entry in CATALOG
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Load the command that was named."""
        name, listed, rest = super().resolve_command(ctx, args)
        if listed is None or name is None:
            return name, listed, rest
        loaded = load(name)
        signal(SIGINT, default_int_handler)  # from here on an interrupt has something to clean up
        return name, loaded, rest


def needing_extra(module: str) -> Any:
    """Import a module that may need an extra, or say how to install it."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in ("cryptography", "fsspec"):
            raise
        extra = "study" if module.endswith(".study") else "protect"
        raise InputError(f"this command needs {missing}; install it with: pip install 'dkpca[{extra}]'") from error


def load(name: str) -> Any:
    """Import the module of a command, and return the command."""
    entry = next(entry for entry in CATALOG if entry.name == name)
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
    needing_extra(f"dkpca.cli.{entry.module}").add_to(app)
    return get_group(app).commands[name]
