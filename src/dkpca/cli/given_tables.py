"""Several tables on one command line: NAME=FILE, FILE, or the party.toml that describes one."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dkpca.cli import options as o
from dkpca.cli.table_options import HOW_WRITTEN, PLAIN, Changed
from dkpca.errors import InputError
from dkpca.exchange.sending import Holding
from dkpca.kernels import Kernel, family
from dkpca.store import party_file
from dkpca.tables import reading
from dkpca.tables.preparation import prepare, reading_for, with_samples_as_columns
from dkpca.tables.reading import Matrix, Reading

HOW_TABLES = ("exclude", "text", "dates", "max_missing", "standardize", "id_normalize", *HOW_WRITTEN)

Ids = Annotated[
    list[str] | None,
    typer.Option("--id", help="Column with the sample ids; NAME=COLUMN where a table has another. Else by position."),
]


def named(source: str) -> tuple[str | None, Path]:
    """Name and file of NAME=FILE; a file may have '=' in its name too."""
    name, separator, path = source.partition("=")
    return (name, Path(path)) if separator and not Path(source).exists() else (None, Path(source))


def is_source(source: str) -> bool:
    """Whether this names a table, and not a message."""
    path = named(source)[1]
    return reading.is_table(path) or path.suffix == ".toml"


def holdings_of(sources: Sequence[str], how: Changed, ids: Sequence[str] | None) -> list[Holding]:
    """Parties by name; a column to leave out need not be in every table, but in one of them."""
    holdings = [_holding(*named(source), how) for source in sources]
    names = [holding.party for holding in holdings]
    if len(set(names)) < len(names):
        raise InputError(f"parties {names} have a name twice; name them as NAME=FILE")
    id_column = {h.party: h.reading.id_column for h in holdings} | _id_columns(ids or (), names)
    present = {
        h.party: set(reading.column_names(h.path, h.reading.dialect, id_column=id_column[h.party])) for h in holdings
    }
    known = set().union(*present.values())
    for option, wanted in (("--exclude", _excluded(holdings)), ("--text", _single(holdings))):
        strange = sorted(wanted - known)
        if strange:
            raise InputError(f"columns {strange} of {option} are in none of the tables; check their names")
    return [replace(h, reading=_own(h.reading, present[h.party], id_column[h.party])) for h in holdings]


def prepared(
    holdings: Sequence[Holding], kernels: str | Mapping[str, str | Kernel]
) -> tuple[dict[str, Matrix], list[str]]:
    """Columns of each table as the party's kernel takes them, and what was done to them, in words."""
    columns: dict[str, Matrix] = {}
    notes: list[str] = []
    for holding in holdings:
        rows, _ = holding.load()
        name = kernels if isinstance(kernels, str) else kernels[holding.party]
        columns_are = family(name).columns_are
        rows = with_samples_as_columns(rows) if columns_are == "samples" else rows
        preparation = prepare(rows, reading_for(holding.reading, columns_are))
        columns[holding.party] = preparation.apply(rows)
        notes += [f"{holding.party}: {note}" for note in preparation.notes]
    return columns, notes


def _holding(name: str | None, path: Path, how: Changed) -> Holding:
    if path.suffix != ".toml":
        return Holding(o.party_name(name, path), path, how(PLAIN))
    file = party_file.read(path)
    if file.table is None:
        raise InputError(f"{path}: names no table; write table = with the name of a file")
    return Holding(o.party_name(name or file.party, file.table), file.table, how(file.reading))


def _excluded(holdings: Sequence[Holding]) -> set[str]:
    return {name for holding in holdings for name in holding.reading.exclude}


def _single(holdings: Sequence[Holding]) -> set[str]:
    return {name for holding in holdings for name, _ in holding.reading.text_of}


def _own(how: Reading, present: set[str], id_column: str | None) -> Reading:
    """Leave away what is about columns of other tables."""
    exclude = tuple(name for name in how.exclude if name in present)
    text_of = tuple((name, what) for name, what in how.text_of if name in present)
    return replace(how, exclude=exclude, text_of=text_of, id_column=id_column)


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
