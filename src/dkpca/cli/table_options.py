"""A party's table on the command line: the file, or its party.toml. Only `check` has options about how to read it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from dkpca.cli import options as o
from dkpca.errors import InputError
from dkpca.exchange.sending import Holding
from dkpca.store import party_file
from dkpca.tables.ids import WAYS, check_ways
from dkpca.tables.reading import DATE_COLUMNS, TEXT_COLUMNS, Reading
from dkpca.tables.text_files import Dialect

PANEL, WRITTEN = "The table", "How the file is written (found out, unless given)"
PLAIN = Reading()


def _option(flag: str, help: str, panel: str = PANEL, **more: Any) -> Any:
    return typer.Option(flag, help=help, rich_help_panel=panel, show_default=False, **more)


# Every option is None until it is given, so that what party.toml says can stand in for it.
OPTIONS: Mapping[str, Any] = {
    "columns": Annotated[list[str] | None, _option("--columns", "Columns to use, separated by commas; else all.")],
    "exclude": Annotated[list[str] | None, _option("--exclude", "Columns to leave out.")],
    "text": Annotated[
        list[str] | None,
        _option(
            "--text",
            f"Columns of text: {', '.join(TEXT_COLUMNS)}, or COLUMN=one-hot for one of them [default: error].",
            metavar="|".join(TEXT_COLUMNS),
        ),
    ],
    "dates": Annotated[
        str | None,
        _option(
            "--dates",
            f"Columns of dates: {', '.join(DATE_COLUMNS)}; as numbers: days since 1970-01-01 [default: error].",
            metavar="|".join(DATE_COLUMNS),
        ),
    ],
    "max_missing": Annotated[
        float | None,
        _option(
            "--max-missing",
            "Drop columns with a larger share of missing values; fill the others with their mean [default: 0.1].",
            min=0.0,
            max=1.0,
        ),
    ],
    "standardize": Annotated[
        bool | None,
        _option("--standardize/--no-standardize", "Give columns mean 0 and deviation 1 [default: standardize]."),
    ],
    "id_normalize": Annotated[
        str | None,
        _option(
            "--id-normalize", f"Make ids alike before they are matched, as all parties agreed: {', '.join(WAYS)}."
        ),
    ],
    "separator": Annotated[str | None, _option("--separator", "Between columns; 'tab' is one.", WRITTEN)],
    "decimal": Annotated[str | None, _option("--decimal", "Decimal mark: , or .", WRITTEN)],
    "thousands": Annotated[str | None, _option("--thousands", "Mark between thousands; '' for none.", WRITTEN)],
    "null_values": Annotated[
        list[str] | None,
        _option("--null-values", "Missing values, beside empty ones; else NA, n/a, -, #NV and such.", WRITTEN),
    ],
    "encoding": Annotated[
        str | None, _option("--encoding", "Encoding of the file (default: detected, UTF-8 or CP1252).", WRITTEN)
    ],
    "sheet": Annotated[str | None, _option("--sheet", "Of a workbook with several.", WRITTEN)],
}
TablePath = Annotated[
    Path,
    typer.Argument(
        help="The party's own table: CSV, Parquet (a file or a folder), Arrow, Excel or NumPy; or the party.toml "
        "that describes it, as 'dkpca check --write' makes one.",
        metavar="TABLE|party.toml",
        show_default=False,
    ),
]
AT_HAND: Mapping[str, Any] = {"path": TablePath, "party": o.PartyName, "id_column": o.Id}


@dataclass(frozen=True)
class TableAtHand:
    """A party's own table, as its options and its party.toml describe it."""

    party: str
    path: Path
    reading: Reading
    policy_file: Path | None

    def policy(self, given: Path | None) -> Path | None:
        """Policy given, or the one of party.toml."""
        return given or self.policy_file

    def holding(self) -> Holding:
        """Return the party's table."""
        return Holding(self.party, self.path, self.reading)


def reads_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its table, by name or by party.toml; it gets it as `table`."""
    return _with_table(command, AT_HAND)


def describes_table(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command its table, and options about how to read it; it gets it as `table`."""
    return _with_table(command, {**AT_HAND, **OPTIONS})


def _with_table(command: Callable[..., None], options: Mapping[str, Any]) -> Callable[..., None]:
    def called(**given: Any) -> None:
        known = {name: given.pop(name) for name in options}
        command(table=at_hand(**known), **given)

    return o.with_options(command, called, "table", options)


def at_hand(path: Path, party: str | None, id_column: str | None, **given: Any) -> TableAtHand:
    """Put together what the options and party.toml say."""
    file = party_file.read(path) if path.suffix == ".toml" else None
    table = path if file is None else file.table
    if table is None:
        raise InputError(f"{path}: names no table; write table = with the name of a file")
    if not table.name:
        raise InputError(f"{table}: is a directory, not a table; give a file")
    how = reading(file.reading if file else PLAIN, **given)
    name = party if party is not None else (file.party if file else None)
    return TableAtHand(
        party=o.party_name(name, table),
        path=table,
        reading=replace(how, id_column=id_column or how.id_column),
        policy_file=file.policy if file else None,
    )


def reading(before: Reading, **given: Any) -> Reading:
    """How to read a table: as before, but for the options that were given."""
    text, single = _text(given.get("text"))
    ways, dates = given.get("id_normalize"), given.get("dates")
    if dates is not None and dates not in DATE_COLUMNS:
        raise InputError(f"--dates {dates!r} is not one of {', '.join(DATE_COLUMNS)}")
    changes: dict[str, Any] = {
        "columns": o.column_names(given.get("columns")) or None,
        "exclude": o.column_names(given.get("exclude")) or None,
        "text": text,
        "text_of": single or None,
        "dates": dates,
        "max_missing": given.get("max_missing"),
        "standardize": given.get("standardize"),
        "id_normalize": None if ways is None else check_ways(o.column_names([ways])),
        "dialect": _dialect(before.dialect, given),
    }
    return replace(before, **{name: value for name, value in changes.items() if value is not None})


def _dialect(before: Dialect, given: Mapping[str, Any]) -> Dialect:
    missing, separator = given.get("null_values"), given.get("separator")
    changes: dict[str, Any] = {
        "separator": "\t" if separator in ("tab", "\\t") else separator,
        "decimal": given.get("decimal"),
        "thousands": given.get("thousands"),
        "encoding": given.get("encoding"),
        "missing": None if missing is None else o.column_names(missing),
        "sheet": given.get("sheet"),
    }
    return replace(before, **{name: value for name, value in changes.items() if value is not None})


def _text(given: Sequence[str] | None) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    """What to do with all columns of text, and with single ones."""
    everywhere, single = None, {}
    for item in given or ():
        column, separator, how = item.rpartition("=")
        if how not in TEXT_COLUMNS:
            raise InputError(f"--text {item!r} is not one of {', '.join(TEXT_COLUMNS)}, nor COLUMN= one of them")
        if separator:
            single[column] = how
        else:
            everywhere = how
    return everywhere, tuple(single.items())
