"""Commands that read a ledger: what was asked, refused and sent, and whether anybody altered it."""

from pathlib import Path
from typing import Annotated

import typer

from dkpca.cli import options as o
from dkpca.cli.output import show
from dkpca.store import ledger
from dkpca.wording import printable

group = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")

LedgerPath = Annotated[
    Path, typer.Argument(help="A ledger, or the folder of a party or a run that has one.", show_default=False)
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.add_typer(group, name="ledger", rich_help_panel="At a party", help="Read and verify what left.")


@group.command("verify")
def verify(
    path: LedgerPath,
    head: Annotated[str, typer.Option("--head", help="Digest of a line seen before; it must still be there.")] = "",
    as_json: o.AsJson = False,
) -> None:
    """Follow the chain of digests through all lines; exits 1 at the first line that was altered, removed or put in.

    Note the head, and keep it elsewhere: with --head a ledger that was cut or written anew is found out, too.
    """
    file = _file(path)
    state = ledger.verify(file, head)
    facts = {"file": str(file), "lines": state.lines, "head": state.head, "chained": state.chained}
    show(as_json, facts, [f"{file}: {state.lines} lines, unaltered; head {state.head}"])


@group.command("show")
def show_lines(
    path: LedgerPath,
    last: Annotated[int, typer.Option("--last", min=1, help="How many lines, counted from the end.")] = 20,
    as_json: o.AsJson = False,
) -> None:
    """Print the last lines in words."""
    file = _file(path)
    ledger.verify(file)
    records = ledger.records(file)[-last:]
    lines = []
    for record in records:
        facts = {name: value for name, value in record.items() if name not in ("time", "event", "previous")}
        words = ", ".join(f"{name} {value}" for name, value in facts.items())
        lines.append(printable(f"{record.get('time', '')}  {record.get('event', ''):<12}  {words}"))
    show(as_json, {"file": str(file), "records": records}, lines)


def _file(path: Path) -> Path:
    if path.is_dir():
        names = (ledger.NAME, "ledger.jsonl")
        return next((path / name for name in names if (path / name).exists()), path / ledger.NAME)
    return path
