"""The command that looks at a table before it is used."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dkpca.cli import options as o
from dkpca.cli.output import show
from dkpca.cli.output import table as as_table
from dkpca.cli.table_options import describes_table
from dkpca.exchange.holdings import Holding
from dkpca.store import party_file, storage
from dkpca.tables.checkup import NO_IDS, Findings, examine
from dkpca.wording import as_toml

SHOWN = 40  # columns of a table that are listed; all of them with --json


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
        fit = f"use it in place of the table: dkpca fit {write} OTHER ..."
        then = "correct the points above there or in the table before you use it" if found.problems else fit
        lines.append(f"wrote {write}; {then}")
    return lines
