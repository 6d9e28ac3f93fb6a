"""Tables on the command line: files, or party.toml files. Only `check` has options about how to read them."""

from collections.abc import Mapping, Sequence
from dataclasses import Field, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dkpca.cli import options as o
from dkpca.cli.options import GivenSettings
from dkpca.errors import InputError
from dkpca.exchange.holdings import Holding
from dkpca.store import party_file
from dkpca.tables.reading import TEXT_COLUMNS, Reading, explained
from dkpca.tables.scverse import MUDATA, modalities

PANEL, WRITTEN = "The table", "File format (detected unless given)"
TablePath = Annotated[
    Path,
    typer.Argument(
        help="The party's own table: CSV, Parquet, Arrow, Excel, NumPy, FILE.h5ad or FILE.h5mu/MODALITY; or the "
        "party.toml that describes it, written by 'dkpca check --write'.",
        metavar="TABLE|party.toml",
        show_default=False,
    ),
]
Ids = Annotated[
    list[str] | None,
    o.option("--id", "Column with the sample ids; NAME=COLUMN for a single table (default: rows match by position)."),
]


def _of_field(each: Field[Any], panel: str) -> Any:
    """Option of a field of a reading; None until it is given, so that what party.toml says can stand in for it."""
    listed = isinstance(each.default, tuple) or each.name in ("text", "missing")
    kind: Any = list[str] if listed else type(each.default) if isinstance(each.default, bool | float) else str
    about = each.metadata
    choices = {"metavar": "|".join(about["choices"])} if about["choices"] else {}
    return Annotated[kind | None, o.option(about["option"], about["help"], panel, **choices)]


AT_HAND: Mapping[str, Any] = {"path": TablePath, "party": o.PartyName, "id_column": o.Id}
OPTIONS: Mapping[str, Any] = {
    key: _of_field(each, PANEL if key in party_file.READING else WRITTEN)
    for key, each in party_file.FIELDS.items()
    if each.metadata["option"] and key != "id"
}


def at_hand(path: Path, party: str | None, id_column: str | None, **given: Any) -> Holding:
    """Put together what the options and party.toml say."""
    file = party_file.read(path)
    if not file.table.name:
        raise InputError(f"{file.table}: is a directory, not a table; give a file")
    how = reading(file.reading, given)
    name = file.party if party is None else party
    return Holding(o.party_name(name, file.table), file.table, replace(how, id_column=id_column or how.id_column))


def reading(before: Reading, given: Mapping[str, Any]) -> Reading:
    """How to read a table: as before, but for the options that were given."""
    changes = {key: value for key, value in given.items() if value is not None and value != []}
    texts = [item.rpartition("=") for item in changes.pop("text", [])]
    changes = {key: list(o.column_names(v)) if isinstance(v, list) else v for key, v in changes.items()}
    if changes.get("separator") in ("tab", "\\t"):
        changes["separator"] = "\t"
    for column, separator, how in texts:
        if how not in TEXT_COLUMNS:
            item = f"{column}{separator}{how}"
            raise InputError(f"--text {item!r} is not one of {', '.join(TEXT_COLUMNS)}, nor COLUMN= one of them")
        changes |= {"text_of": changes.get("text_of", {}) | {column: how}} if separator else {"text": how}
    return party_file.reading_of(party_file.described(before) | changes, "options")


# Gives a command its table, by name or by party.toml, as `table`; the second also with options about how to read it.
reads_table = o.taking("table", AT_HAND, at_hand)
describes_table = o.taking("table", {**AT_HAND, **OPTIONS}, at_hand)


def named(source: str) -> tuple[str | None, Path]:
    """Name and file of NAME=FILE; a file may have '=' in its name too."""
    name, separator, path = source.partition("=")
    return (name, Path(path)) if separator and not Path(source).exists() else (None, Path(source))


def holdings_of(sources: Sequence[str], ids: Sequence[str] | None, asked: GivenSettings) -> list[Holding]:
    """Parties by name; the modalities of a MuData file that is given without a name are all of them."""
    given = list[tuple[str | None, Path]]()
    for name, path in map(named, sources):
        whole = name is None and path.suffix.lower() == MUDATA
        with explained(path):
            given += [(None, path / own) for own in modalities(path)] if whole else [(name, path)]
    holdings = [at_hand(path, name, None) for name, path in given]
    names = [holding.party for holding in holdings]
    if len(set(names)) < len(names):
        raise InputError(f"parties {names} are not all different; name them as NAME=FILE")
    everywhere, single = o.by_party("--id", ids or (), names, str)
    for name, column in (dict.fromkeys(names, everywhere) | single if everywhere else single).items():
        k = names.index(name)
        holdings[k] = replace(holdings[k], reading=replace(holdings[k].reading, id_column=column))
    return [with_standardize(holding, asked) for holding in holdings]


def with_standardize(holding: Holding, asked: GivenSettings) -> Holding:
    """Return the table, standardized as the command says, where it says so."""
    said = {"standardize": asked.given.get("standardize")}
    return replace(holding, reading=reading(holding.reading, said))
