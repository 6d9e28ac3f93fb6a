"""What a file discloses, said before it is sent; and at the party, what could be recovered from it."""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from dkpca import wire
from dkpca.cli import options as o
from dkpca.cli.output import show, table
from dkpca.messages import Summary
from dkpca.party.disclosure import describe
from dkpca.party.recovery import RECOVERED, Measurement
from dkpca.party.state import PartyState, State
from dkpca.store import files, storage
from dkpca.tables.preparation import preparation_of
from dkpca.wording import counted

PANEL = "At a party"
MOST_SHOWN = 40  # columns in a table on the terminal; --json has all of them
BAR = 20  # characters for R squared 1


def inspect(
    path: Annotated[Path, typer.Argument(help="Any message file, or a party's private state.", show_default=False)],
    as_json: o.AsJson = False,
) -> None:
    """Show what a file discloses, in words and numbers, before it is sent.

    At the party, with its private state next to the summary, it also shows how well an attacker who knows some rows
    could recover the others, by column and attack. None of this is sent.
    """
    if files.is_private(storage.read(path)):
        own = files.read_state(path)
        kept: State | None = own
        words = f"{path}: PRIVATE state of party {own.party!r}. It contains the party's data: never send it."
        facts: dict[str, Any] = {"kind": "private", "party": own.party, "send": False}
        lines: list[str | Table] = [words]
    else:
        message = files.receive(path, *wire.KINDS.values()).message
        facts, lines = _described(path, message)
        kept = _state_of(path, message)
    found = None if kept is None else kept.recovery
    if kept is not None and found is not None:
        names = _column_names(kept, found)
        facts["recovery"] = recovery_facts(found)
        lines += ["", f"At this party: {found.sentence()}", *_by_column(names, found)]
    show(as_json, facts, lines)


def _described(path: Path, message: Any) -> tuple[dict[str, Any], list[str | Table]]:
    told = describe(message)
    facts = {"kind": told.kind, "send": True, "facts": told.facts, "reveals": told.reveals}
    lines = [f"{path}: a {told.kind} message", ""]
    lines += [f"  {name:<30} {_shown(value)}" for name, value in told.facts.items()]
    lines += ["", "This file reveals"] + [f"  - {sentence}" for sentence in told.reveals]
    lines += ["", "It does not contain"] + [f"  - {sentence}" for sentence in told.does_not_contain]
    return facts | {"does_not_contain": told.does_not_contain}, list(lines)


def _state_of(path: Path, message: Any) -> State | None:
    """Private state beside a summary, if it is the one that belongs to it."""
    beside = path.with_suffix(".state")
    if not isinstance(message, Summary) or not beside.exists():
        return None
    kept = files.read_state(beside)
    belongs = isinstance(kept, PartyState) and kept.summary_id == wire.fingerprint(message)
    return kept if belongs else None


def _column_names(kept: State, found: Measurement) -> list[str]:
    if not found.by_attack:
        return []
    if kept.preparation is None:
        return [f"column {position}" for position in range(1, len(found.columns) + 1)]
    return list(preparation_of(kept).names)


def _by_column(names: list[str], found: Measurement) -> list[str | Table]:
    """Table of columns, those recovered best first, with bars for the strongest attack."""
    order = sorted(range(len(names)), key=lambda position: -found.columns[position])
    rows = [
        [names[p], f"{'█' * round(BAR * found.columns[p]):<{BAR}}", f"{found.columns[p]:.2f}", _strongest(found, p)]
        for p in order[:MOST_SHOWN]
    ]
    if not rows:
        return []
    more = [f"and {len(order) - MOST_SHOWN:,} columns that are recovered less"] if len(order) > MOST_SHOWN else []
    return [table("", ["column", "", "R²", "by"], rows), *more]


def _strongest(found: Measurement, position: int) -> str:
    """Attack that recovers a column best."""
    return max(found.by_attack, key=lambda name: found.by_attack[name][position])


def may_send(found: Measurement | None) -> tuple[bool | None, Text]:
    """Red or green: whether a message stays within the usual limit on recovery; None: nothing was measured."""
    if found is None or not found.by_attack:
        why = "it was not measured" if found is None else found.not_measured
        return None, Text(
            f"May I send this? UNKNOWN: what could be recovered from it is not known ({why}).", "bold yellow"
        )
    beyond = sum(value > RECOVERED for value in found.columns)
    known = f"an attacker who knows {counted(found.known_rows, 'row')}"
    if beyond:
        words = (
            f"May I send this? RED, no: {known} can recover {beyond:,} of {counted(len(found.columns), 'column')} "
            f"with an R² above {RECOVERED:g}; the highest is {found.worst:.2f}. --rank recovery={RECOVERED:g} "
            "sends less; a study with --protect hides more."
        )
        return False, Text(words, "bold red")
    words = (
        f"May I send this? GREEN, yes: {known} can recover no column with an R² above {RECOVERED:g}; the "
        f"highest is {found.worst:.2f}."
    )
    return True, Text(words, "bold green")


def recovery_facts(found: Measurement | None) -> dict[str, Any] | None:
    """Return what a script wants to know of an attack."""
    if found is None:
        return None
    return {"sentence": found.sentence(), "worst": found.worst, "columns": found.columns, **vars(found)}


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
