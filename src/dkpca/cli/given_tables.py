"""Several tables on one command line: NAME=FILE, FILE, or the party.toml that describes one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dkpca.cli import options as o
from dkpca.cli.options import GivenSettings
from dkpca.cli.table_options import PLAIN
from dkpca.errors import InputError
from dkpca.exchange.sending import Holding
from dkpca.settings import Fit
from dkpca.store import party_file
from dkpca.tables.preparation import prepare, reading_for, with_samples_as_columns
from dkpca.tables.reading import Matrix

Ids = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column with the sample ids; NAME=COLUMN where a table has another. Else by position."),
]


def named(source: str) -> tuple[str | None, Path]:
    """Name and file of NAME=FILE; a file may have '=' in its name too."""
    name, separator, path = source.partition("=")
    return (name, Path(path)) if separator and not Path(source).exists() else (None, Path(source))


def holdings_of(sources: Sequence[str], ids: Sequence[str] | None) -> list[Holding]:
    """Parties by name."""
    holdings = [_holding(*named(source)) for source in sources]
    names = [holding.party for holding in holdings]
    if len(set(names)) < len(names):
        raise InputError(f"parties {names} have a name twice; name them as NAME=FILE")
    id_column = {h.party: h.reading.id_column for h in holdings} | _id_columns(ids or (), names)
    return [replace(h, reading=replace(h.reading, id_column=id_column[h.party])) for h in holdings]


def with_standardize(holdings: Sequence[Holding], asked: GivenSettings) -> list[Holding]:
    """Tables that are standardized as the command says, where it says so."""
    if "standardize" not in asked.given:
        return list(holdings)
    whether = asked.fit([holding.party for holding in holdings]).standardize
    return [replace(h, reading=replace(h.reading, standardize=whether)) for h in holdings]


def prepared(holdings: Sequence[Holding], settings: Fit) -> tuple[dict[str, Matrix], list[str]]:
    """Columns of each table as the party's kernel takes them, and what was done to them, in words."""
    columns: dict[str, Matrix] = {}
    notes: list[str] = []
    for holding in holdings:
        rows, _ = holding.load()
        columns_are = settings.family_of(holding.party).columns_are
        rows = with_samples_as_columns(rows) if columns_are == "samples" else rows
        preparation = prepare(rows, reading_for(holding.reading, columns_are))
        columns[holding.party] = preparation.apply(rows)
        notes += [f"{holding.party}: {note}" for note in preparation.notes]
    return columns, notes


def _holding(name: str | None, path: Path) -> Holding:
    if path.suffix != ".toml":
        return Holding(o.party_name(name, path), path, PLAIN)
    file = party_file.read(path)
    if file.table is None:
        raise InputError(f"{path}: names no table; write table = with the name of a file")
    return Holding(o.party_name(name or file.party, file.table), file.table, file.reading)


def _id_columns(given: Sequence[str], parties: Sequence[str]) -> dict[str, str]:
    """Id column by party, from COLUMN for all of them and NAME=COLUMN for one."""
    everywhere: list[str] = []
    single: dict[str, str] = {}
    for item in given:
        name, separator, column = item.partition("=")
        if separator and name in parties:
            single[name] = column
        elif separator and "=" in item and column in parties:
            raise InputError(f"--id {item!r}: write the party first, as {column}={name}")
        else:
            everywhere.append(item)
    if len(everywhere) > 1:
        raise InputError(
            f"--id names {everywhere} for all tables; name one, and others as NAME=COLUMN ({list(parties)})"
        )
    return dict.fromkeys(parties, everywhere[0]) | single if everywhere else single
