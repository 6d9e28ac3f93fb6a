"""Options of the commands. Those of a fit are made of the fields of `dkpca.settings`: nobody lists them again."""

import csv
import inspect
import re
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from dkpca import rank as ranks
from dkpca.errors import InputError
from dkpca.linalg import arrays
from dkpca.messages import check_party_name
from dkpca.rank import RankRule
from dkpca.settings import Compute, Fit, from_values, values_of
from dkpca.store import storage

MODEL = "The model"
SETTINGS = {each.name: each for record in (Fit, Compute) for each in fields(record)}
BY_PARTY = ("kernel", "gamma", "weights")  # settings that may differ from party to party
NUMBER = re.compile(r"[+-]?([0-9]+\.|\.[0-9]+)([eE][+-]?[0-9]+)?")  # starts or ends with its point: no TOML


def option(flag: str, text: str, panel: str | None = None, **more: Any) -> Any:
    """Make an option whose help says what happens without it."""
    return typer.Option(flag, help=text, rich_help_panel=panel, show_default=False, **more)


PartyName = Annotated[str | None, option("--party", "Name of the party (default: the name of the file).")]
Id = Annotated[str | None, option("--id", "Column with the sample ids (default: rows match by position).")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


@dataclass(frozen=True)
class GivenSettings:
    """Settings that were given on a command line, in a file or by --set; all others have their defaults."""

    given: Mapping[str, Any]

    def fit(self, parties: Sequence[str], **more: Any) -> Fit:
        """Settings of a fit of these parties."""
        values = values_of(Fit, self.given) | more
        for name in set(BY_PARTY) & set(values):
            values[name] = _setting(name, values[name], parties)
        rank = values.pop("rank", "auto")
        made = from_values(Fit, values, what="")
        return replace(made, rank=rank_of(rank, made.n_components))

    @property
    def compute(self) -> Compute:
        """Where to compute."""
        return from_values(Compute, values_of(Compute, self.given), what="")


def takes_settings(
    *, skip: Collection[str] = (), more: Mapping[str, str] = {}, said: Mapping[str, str] = {}
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command an option for each setting but those to skip, `more` by --set, and help `said` of its own."""
    chosen = tuple(name for name, each in SETTINGS.items() if each.metadata["option"] and name not in skip)
    others = {n: each.metadata["help"] for n, each in SETTINGS.items() if n not in (*chosen, *skip)} | dict(more)
    listed = ", ".join(f"{name} ({text.rstrip('.')})" for name, text in others.items())
    single = option("--set", f"Any other setting: {listed}.", MODEL, metavar="NAME=VALUE")
    options = {name: _annotated(name, said.get(name)) for name in chosen} | {
        "set_": Annotated[list[str] | None, single],
        "settings": Annotated[Path | None, option("--settings", "TOML settings file; options override it.", MODEL)],
    }

    def gather(set_: Sequence[str] | None, settings: Path | None, **own: Any) -> GivenSettings:
        # What a file, --set and options say; the later wins.
        found = {} if settings is None else storage.read_toml(settings, "give a TOML file of settings")
        for text in set_ or ():
            name, separator, said = text.partition("=")
            if not separator:
                raise InputError(f"--set {text!r}: write NAME=VALUE")
            found[name] = value(said)
        if strange := sorted(set(found) - {*SETTINGS, *more}):
            raise InputError(f"unknown settings: {', '.join(strange)}; there are {', '.join((*SETTINGS, *more))}")
        if useless := sorted(set(found) & set(skip)):
            raise InputError(f"{', '.join(useless)}: not used by this command; leave it out")
        options = {name: value(said) if isinstance(said, str) else said for name, said in own.items()}
        return GivenSettings(found | {name: said for name, said in options.items() if said not in (None, [])})

    return taking("asked", options, gather)


def _annotated(name: str, said: str | None = None) -> Any:
    """Option of a setting: text that is read as TOML, a flag, or text for each party."""
    meta = SETTINGS[name].metadata
    kind: Any = list[str] if name in (*BY_PARTY, "rank") else bool if "/" in meta["option"] else str
    choices, default = meta["choices"], SETTINGS[name].default
    metavar = "[PARTY=]VALUE" if name in BY_PARTY else "NUMBER|GOAL=NUMBER" if name == "rank" else "VALUE"
    listed = f" One of {', '.join(choices)}." if choices else ""
    quiet = said is not None or kind is bool or default is None or "(default" in meta["help"]
    return Annotated[
        kind | None,
        option(
            meta["option"],
            (said or meta["help"]) + listed + ("" if quiet else f" [default: {default}]"),
            MODEL,
            metavar=None if kind is bool else metavar,
            autocompletion=lambda incomplete: [name for name in choices if name.startswith(incomplete)],
        ),
    ]


def value(text: str) -> Any:
    """Read a value as TOML has it, and anything else as text."""
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return float(text) if NUMBER.fullmatch(text) else text


def by_party(
    flag: str, items: Iterable[str], parties: Sequence[str], read: Callable[[str], Any]
) -> tuple[Any, dict[str, Any]]:
    """Return what is said for all parties, None if nothing is, and what is said as PARTY=VALUE for single ones."""
    split = [item.partition("=") for item in items]
    everyone = [read(said) for said, separator, _ in split if not separator]
    single = {party: read(said) for party, separator, said in split if separator}
    if strangers := [party for party in single if party not in parties]:
        raise InputError(f"{flag}: {strangers[0]!r} is not one of the parties {list(parties)}")
    if len(everyone) > 1:
        raise InputError(f"{flag} gives {everyone} for all parties; give one value, and PARTY=VALUE for exceptions")
    return everyone[0] if everyone else None, single


def _setting(name: str, given: Any, parties: Sequence[str]) -> Any:
    """Return one value for all parties, or a dict by party."""
    if not isinstance(given, list):
        return given
    items = [part.strip() for text in given for part in text.split(",")]
    everyone, single = by_party(SETTINGS[name].metadata["option"], items, parties, value)
    if name == "kernel" and everyone is None:
        everyone = Fit().kernel
    return single if everyone is None else dict.fromkeys(parties, everyone) | single if single else everyone


def rank_of(given: Any, components: Any) -> Any:
    """Read `--rank 40 --rank error=0.1 --rank recovery=0.5,known_rows=50`; of several, the tightest decides."""
    if not isinstance(given, list) or not all(isinstance(text, str) for text in given):
        return from_values(Fit, {"rank": given}, what="").rank
    # Numbers ask for a rank (the smallest counts), the rest for goals and limits.
    numbers = [int(text) for text in given if text.isdecimal()]
    rules: list[RankRule] = [ranks.Fixed(min(numbers))] if numbers else []
    rules += [_rule(text) for text in given if text != "auto" and not text.isdecimal()]
    if sum(isinstance(rule, ranks.Fixed | ranks.Adaptive | ranks.Error) for rule in rules) > 1:
        raise InputError(f"--rank {given} sets the rank in several ways; give one number, error= or epsilon=")
    if rules and all(isinstance(rule, ranks.Recovery) for rule in rules):
        rules.insert(0, Fit(n_components=components).rank_rule)  # a limit alone would ask for all there is within it
    return tuple(rules) if len(rules) > 1 else rules[0] if rules else "auto"


RULES: Mapping[str, Callable[..., RankRule]] = {
    "error": lambda error: ranks.Error(float(error)),
    "epsilon": lambda epsilon: ranks.Adaptive(float(epsilon)),
    "bytes": lambda bytes: ranks.Budget(arrays.amount_of(bytes)),
    "recovery": lambda recovery, known_rows="30": ranks.Recovery(float(recovery), int(known_rows)),
}


def _rule(text: str) -> RankRule:
    entries = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        return RULES[next(iter(entries))](**entries)
    except ValueError as error:
        raise InputError(f"--rank {text!r}: {error}") from error
    except (KeyError, TypeError) as error:
        raise InputError(
            f"--rank {text!r}: give a number, auto, error=NUMBER, epsilon=NUMBER, bytes=AMOUNT or "
            "recovery=SHARE[,known_rows=NUMBER]"
        ) from error


def party_name(name: str | None, path: Path) -> str:
    """Name given, or the name of the file without its suffix, with '_' for what no name may contain."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", path.name.partition(".")[0])
    return check_party_name(plain if name is None else name)


def column_names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Names from a repeated option with commas between them; a name that has one stands in double quotes."""
    rows = csv.reader(given or (), skipinitialspace=True)
    return tuple(name.strip() for row in rows for name in row if name.strip())


def taking(
    name: str, options: Mapping[str, Any], gather: Callable[..., Any]
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command these options in place of one parameter, which gets what is gathered from them."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        def called(**given: Any) -> None:
            own = {option: given.pop(option) for option in options}
            command(**{name: gather(**own)}, **given)

        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            keyword = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            # An option that may be None is None without it; another one has to be given.
            expanded = [
                keyword.replace(
                    name=option,
                    annotation=kind,
                    default=None if type(None) in get_args(get_args(kind)[0]) else inspect.Parameter.empty,
                )
                for option, kind in options.items()
            ]
            parameters += expanded if parameter.name == name else [keyword]
        called.__name__, called.__doc__, called.__module__ = command.__name__, command.__doc__, command.__module__
        called.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return called

    return decorate
