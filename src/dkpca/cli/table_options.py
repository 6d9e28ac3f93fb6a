"""Options about tables, which most commands of a party have: gathered here, they reach a command as one value."""

import inspect
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
HOW_WRITTEN = ("separator", "decimal", "thousands", "null_values", "encoding", "sheet")
HOW_IDS = ("id_normalize", "separator", "encoding", "sheet")

Changed = Callable[[Reading], Reading]


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
        o.one_of(
            "--dates", DATE_COLUMNS, "Columns of dates; as numbers: days since 1970-01-01 [default: error].", PANEL
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
    "encoding": Annotated[str | None, _option("--encoding", "Of the letters, as utf-8 or cp1252.", WRITTEN)],
    "sheet": Annotated[str | None, _option("--sheet", "Of a workbook with several.", WRITTEN)],
}
TablePath = Annotated[
    Path | None,
    typer.Argument(
        help="The party's own table: CSV, Parquet (a file or a folder), Arrow, Excel or NumPy. "
        "May be named by --config.",
        metavar="TABLE",
        show_default=False,
    ),
]
Config = Annotated[
    Path | None,
    _option("--config", "The party's party.toml, as 'dkpca check' writes it; options win over what it says."),
]
AT_HAND: Mapping[str, Any] = {"path": TablePath, "config": Config, "party": o.PartyName, "id_column": o.Id}


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
    """Give a command the options about its table; it gets what they say as `table`."""

    def called(**given: Any) -> None:
        known = {name: given.pop(name) for name in (*AT_HAND, *OPTIONS)}
        command(table=at_hand(**known), **given)

    return _with_options(command, called, "table", {**AT_HAND, **OPTIONS})


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command some options about tables; it gets what they change in a `Reading` as `how`."""
    options = {name: OPTIONS[name] for name in names}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def called(**given: Any) -> None:
            known = {name: given.pop(name) for name in options}
            command(how=lambda before: reading(before, **known), **given)

        return _with_options(command, called, "how", options)

    return decorate


def at_hand(
    path: Path | None, config: Path | None, party: str | None, id_column: str | None, **given: Any
) -> TableAtHand:
    """Put together what the options and party.toml say."""
    file = None if config is None else party_file.read(config)
    table = path or (file.table if file else None)
    if table is None:
        raise InputError("no table was named; give TABLE, or --config with a party.toml that names one")
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
    ways = given.get("id_normalize")
    changes: dict[str, Any] = {
        "columns": o.column_names(given.get("columns")) or None,
        "exclude": o.column_names(given.get("exclude")) or None,
        "text": text,
        "text_of": single or None,
        "dates": given.get("dates"),
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


def _with_options(
    command: Callable[..., None], called: Callable[..., None], replaced: str, options: Mapping[str, Any]
) -> Callable[..., None]:
    """Return the function under the command's name, whose signature has the options in place of one parameter."""
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        expanded = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in options.items()
        ]
        parameters += expanded if parameter.name == replaced else [keyword]
    called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
    called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called
