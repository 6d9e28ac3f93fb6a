"""Commands for a data holder: look at its table, make one small file of it, and see what that discloses."""

import re
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from dkpca import wire
from dkpca.cli import options as o
from dkpca.cli.options import GivenSettings
from dkpca.cli.output import at_work, show
from dkpca.cli.output import table as as_table
from dkpca.cli.table_options import describes_table, reads_table, with_standardize
from dkpca.errors import InputError
from dkpca.exchange import holdings
from dkpca.exchange.holdings import Holding
from dkpca.exchange.steps import own_question
from dkpca.linalg.arrays import MemoryLimit
from dkpca.messages import Summary
from dkpca.party.disclosure import describe, share_sent
from dkpca.party.recovery import RECOVERED, Measurement
from dkpca.party.state import PartyState, State
from dkpca.party.summaries import about_columns
from dkpca.store import files, party_file, storage
from dkpca.tables.checkup import NO_IDS, Findings, examine
from dkpca.tables.preparation import preparation_of
from dkpca.wording import as_toml, counted, in_bytes

SHOWN = 40  # columns of a table that are listed; all of them with --json
# The center's settings, or a study's.
NOT_HERE = ("weights", "n_landmarks", "protect", "audit", "lacking", "n_jobs", "timeout")
WHY = {
    r"Fixed\(.*?\)": "as you asked",
    r"Auto\(.*?\)": "chosen automatically",
    r"Recovery\(.*?\)": "to stay within the recovery limit",
    r"Adaptive\(epsilon=(.*?), .*?\)": r"for all eigenvalues above epsilon = \1",
    r"Budget\(bytes=(\d+), .*?\)": r"to stay within \1 bytes",
    r"Error\(at_most=(.*?)\)(?! is)": r"for an error of at most \1",
    r"Error\(at_most=(.*?)\)": r"an error of at most \1",
}  # words for the rule that decided
GAMMA = "Gamma of the kernel: a number on which all parties have agreed; required for kernels with a gamma but chi2."


@describes_table
def check(
    table: Holding,
    write: Annotated[
        Path | None,
        typer.Option("--write", help="party.toml to write or update; all commands accept it in place of the table."),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Check a table before it is used.

    Shows the format of the file, its ids, and for each column its type, missing values, range and possible problems.
    Exits 1 if the table cannot be used as suggested. --write saves the suggestion as a party.toml.

    Example: `dkpca check airline.csv --id flight --write party.toml`
    """
    found = examine(table.path, table.reading)
    if write is not None:
        storage.write(write, _party_toml(write, table, found).encode())
    result = asdict(found) | {"usable": not found.problems, "suggested": party_file.described(found.suggested)}
    show(as_json, result | {"written": None if write is None else str(write)}, _words(found, write))
    if found.problems:
        raise typer.Exit(1)


def _party_toml(path: Path, table: Holding, found: Findings) -> str:
    """Lines of a party.toml: what was there before about the party stays, the table is described anew."""
    before = storage.read_toml(path, "see 'Tables' in the documentation") if path.exists() else {}
    given = table.party if table.party != o.party_name(None, table.path) else before.get("party", table.party)
    file, folder = table.path.resolve(), path.resolve().parent
    named = {"party": given, "table": str(file.relative_to(folder) if file.is_relative_to(folder) else file)}
    described = named | party_file.described(found.suggested)
    return "# Written by 'dkpca check'; change it as you like.\n" + as_toml(described)


def _words(found: Findings, write: Path | None) -> list[str | Table]:
    ids = "no id column: rows match by position" if found.id_column is None else f"ids in {found.id_column!r}"
    lines: list[str | Table] = [f"{found.source}: {found.n_rows:,} rows, {len(found.columns):,} columns, {ids}"]
    lines += [f"note: {note}" for note in found.notes]
    lines += [f"NOT ok: {problem}" for problem in found.problems]
    first = sorted(found.columns, key=lambda column: not column.remarks)[:SHOWN]
    ranges = ["" if each.low is None else f"{each.low:.5g} ... {each.high:.5g}" for each in first]
    rows = [[each.name, each.kind, own, each.use] for each, own in zip(first, ranges, strict=True)]
    lines.append(as_table("", ["column", "type", "range", "use"], rows))
    if len(found.columns) > len(first):
        lines.append(f"and {len(found.columns) - len(first):,} more columns; all of them with --json")
    lines += [f"{column.name}: {'; '.join(column.remarks)}" for column in first if column.remarks]
    by_position = any(note.startswith(NO_IDS) for note in found.notes)
    usable = "the table can be used as suggested" + ", but only if rows match by position" * by_position
    lines.append("the table cannot be used as it is" if found.problems else usable)
    if write is not None:
        fit = f"use it in place of the table: dkpca fit {write} OTHER ..., dkpca study join ... --table {write}"
        then = "correct the points above there or in the table before you use it" if found.problems else fit
        lines.append(f"wrote {write}; {then}")
    return lines


@reads_table
@o.takes_settings(skip=NOT_HERE, said={"gamma": GAMMA})
def summarize(
    table: Holding,
    asked: GivenSettings,
    out: Annotated[Path, typer.Option("--out", help="The message to write; send this file.")],
    as_json: o.AsJson = False,
) -> None:
    """Compute the one message that a party sends to the center.

    Writes two files: the message, which goes to the center, and the party's private state, which stays with the
    party and is needed only to place new samples later. To control how the table is read, write a party.toml with
    'dkpca check TABLE --write party.toml'.

    A party does not see the other tables, so give --gamma as a number on which all parties have agreed.

    Example: `dkpca summarize airline.csv --id flight --gamma 0.006 --rank 40 --out airline.summary`
    """
    state = out.with_suffix(".state")
    if len({file.resolve() for file in (table.path, out, state)}) < 3:
        raise InputError(f"{out}: the table, the message and {state} need a file each; choose another --out")
    for file in (out, state):
        storage.check_writable(file, *storage.DKPCA_FILE)
    fit, compute = asked.fit([table.party]), asked.compute
    memory = MemoryLimit.of(compute.max_memory, out.parent)
    holding = replace(with_standardize(table, asked), memory=memory)
    question = own_question(fit if "gamma" in asked.given else replace(fit, gamma=None), holding.party)
    at_work(f"{holding.party}: eigenpairs of its kernel matrix")
    summary, kept = holdings.summarize(holding, question, out, state, compute.device)
    prepared = preparation_of(kept)
    notes = [*prepared.notes, *about_columns(replace(kept, columns=prepared.names))]
    within, verdict = may_send(kept.recovery)
    result = {name: getattr(summary, name) for name in ("party", "n_samples", "n_features", "rank", "bytes_raw")}
    result |= {
        "kernel": summary.kernel.to_dict(),
        "bytes": wire.size(summary),
        "share_sent": share_sent(summary),
        "decided": kept.decided,
        "recovery": recovery_facts(kept.recovery),
        "may_send": within,
        "out": str(out),
        "state": str(state),
        "standardize": holding.reading.standardize,
        "notes": notes,
    }
    units = "standardized" if holding.reading.standardize else "in their own units"
    size, raw, why = wire.size(summary), summary.bytes_raw, kept.decided
    for rule, words_for_it in WHY.items():
        why = re.sub(rule, words_for_it, why)
    words = [
        f"{summary.party}: {summary.n_samples:,} samples, {summary.n_features:,} columns {units} -> rank "
        f"{summary.rank}, {in_bytes(size)} (the raw columns: {in_bytes(raw)}); {share_sent(summary):.1%} of its "
        "kernel matrix",
        f"  rank {summary.rank}, {why}",
        *([] if kept.recovery is None else [f"  {kept.recovery.sentence()}"]),
        f"  send  {out}   (what it discloses: dkpca inspect {out})",
        f"  keep  {state}   (private: it contains data)",
        *(["note: the message is larger than the raw columns"] if size > raw else []),
    ]
    show(as_json, result, [*(f"note: {note}" for note in notes), *words, verdict])


def inspect(
    path: Annotated[Path, typer.Argument(help="Any message file, or a party's private state.", show_default=False)],
    as_json: o.AsJson = False,
) -> None:
    """Show what a file discloses, in words and numbers, before it is sent.

    At the party, with its private state next to the summary, it also shows how well an attacker who knows some rows
    could recover the others, by column and attack. None of this is sent.
    """
    if f'"{wire.container.PRIVATE}"'.encode() in bytes(storage.read(path)[: 2**12]):  # damaged or not
        kept: State | None = files.read_state(path)
        assert kept is not None
        facts: dict[str, Any] = {"kind": "private", "party": kept.party, "send": False}
        lines: list[str | Table] = [
            f"{path}: PRIVATE state of party {kept.party!r}. It contains the party's data: never send it."
        ]
    else:
        message = files.receive(path).message
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
    best = sorted(range(len(found.columns)), key=lambda position: -found.columns[position])[:SHOWN]
    by = [max(found.by_attack, key=lambda name: found.by_attack[name][position]) for position in best]
    rows = [[names[p], f"{found.columns[p]:.2f}", attack] for p, attack in zip(best, by, strict=True)]
    more = len(found.columns) - len(best)
    listed = as_table("", ["column", "R²", "by"], rows)
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
