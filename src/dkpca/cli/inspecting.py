"""What a file discloses, said before it is sent; and at the party, what could be recovered from it."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

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

MOST_SHOWN = 40  # columns in a table on the terminal; --json has all of them


def inspect(
    path: Annotated[Path, typer.Argument(help="Any message file, or a party's private state.", show_default=False)],
    as_json: o.AsJson = False,
) -> None:
    """Show what a file discloses, in words and numbers, before it is sent.

    At the party, with its private state next to the summary, it also shows how well an attacker who knows some rows
    could recover the others, by column and attack. None of this is sent.
    """
    if files.is_private(storage.read(path)):
        kept: State | None = files.read_state(path)
        assert kept is not None
        facts: dict[str, Any] = {"kind": "private", "party": kept.party, "send": False}
        lines: list[str | Table] = [
            f"{path}: PRIVATE state of party {kept.party!r}. It contains the party's data: never send it."
        ]
    else:
        message = files.receive(path, *wire.KINDS.values()).message
        facts = {"send": True} | asdict(describe(message))
        lines, beside = _described(path, facts), path.with_suffix(".state")
        kept = files.read_state(beside) if isinstance(message, Summary) and beside.exists() else None
        if not isinstance(kept, PartyState) or kept.summary_id != wire.fingerprint(message):
            kept = None  # the state of another summary
    if kept is not None and kept.recovery is not None:
        facts["recovery"] = recovery_facts(kept.recovery)
        lines += ["", f"At this party: {kept.recovery.sentence()}", *_by_column(kept, kept.recovery)]
    show(as_json, facts, lines)


def _described(path: Path, told: Mapping[str, Any]) -> list[str | Table]:
    lines = [f"{path}: a {told['kind']} message", "", *(f"  {n:<30} {_shown(v)}" for n, v in told["facts"].items())]
    for title, key in (("This file reveals", "reveals"), ("It does not contain", "does_not_contain")):
        lines += ["", title, *(f"  - {sentence}" for sentence in told[key])]
    return list(lines)


def _by_column(kept: State, found: Measurement) -> list[str | Table]:
    """Table of columns, those recovered best first, with the strongest attack."""
    if not found.by_attack:
        return []
    numbered = [f"column {position}" for position in range(1, len(found.columns) + 1)]
    names = numbered if kept.preparation is None else preparation_of(kept).names
    best = sorted(range(len(found.columns)), key=lambda position: -found.columns[position])[:MOST_SHOWN]
    by = [max(found.by_attack, key=lambda name: found.by_attack[name][position]) for position in best]
    rows = [[names[p], f"{found.columns[p]:.2f}", attack] for p, attack in zip(best, by, strict=True)]
    more = len(found.columns) - len(best)
    listed = table("", ["column", "R²", "by"], rows)
    return [listed, f"and {more:,} columns that are recovered less"] if more else [listed]


def may_send(found: Measurement | None) -> tuple[bool | None, str]:
    """Whether a message stays within the usual limit on recovery, and in words; None: nothing was measured."""
    if found is None or not found.by_attack:
        why = "it was not measured" if found is None else found.not_measured
        return None, f"May I send this? UNKNOWN: what could be recovered from it is not known ({why})."
    beyond = sum(value > RECOVERED for value in found.columns)
    known = f"an attacker who knows {counted(found.known_rows, 'row')}"
    if beyond:
        return False, (
            f"May I send this? RED, no: {known} can recover {beyond:,} of {counted(len(found.columns), 'column')} "
            f"with an R² above {RECOVERED:g}; the highest is {found.worst:.2f}. --rank recovery={RECOVERED:g} "
            "sends less; a study with --protect hides more."
        )
    return True, (
        f"May I send this? GREEN, yes: {known} can recover no column with an R² above {RECOVERED:g}; the "
        f"highest is {found.worst:.2f}."
    )


def recovery_facts(found: Measurement | None) -> dict[str, Any] | None:
    """Return what a script wants to know of an attack."""
    if found is None:
        return None
    return {"sentence": found.sentence(), "worst": found.worst, "columns": found.columns, **vars(found)}


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
