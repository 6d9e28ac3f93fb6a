"""`dkpca study create`: the plan, from the settings of a fit and a few of the study itself."""

import datetime
import inspect
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Annotated, Any

import typer
from typer.main import get_command

from dkpca.cli.study import Own, Place, place
from dkpca.errors import InputError
from dkpca.exchange import founding
from dkpca.exchange.memory import Memory
from dkpca.exchange.protocols import Terms, check_lacking
from dkpca.linalg.memory import as_bytes
from dkpca.rank import Budget, Error, RankRule, Recovery
from dkpca.settings import Fit, to_toml

BY_SET = ("solver", "n_landmarks", "random_state")  # rarely changed: with --set
OF_PLAN = ("gamma_bounds", "batch_samples", "result_to")
OPTIONS = {each.name: each for each in fields(Fit) if each.metadata.get("option") and each.name not in BY_SET}
GOALS: Mapping[str, Callable[[str], RankRule]] = {
    "recovery": lambda value: Recovery(float(value)),
    "error": lambda value: Error(float(value)),
    "bytes": lambda value: Budget(as_bytes(value)),
}


def create(
    folder: Place,
    own: Own,
    name: Annotated[str, typer.Option("--name", help="Name of the center, which fuses.")],
    member: Annotated[list[str], typer.Option("--member", help="Name of a party; once for each of them.")],
    align: Annotated[
        str, typer.Option("--align", help="Match samples by keyed tokens of their ids, or by position.")
    ] = "tokens",
    ends: Annotated[str, typer.Option("--ends", help="Last day, as 2027-01-31 (default: in 90 days).")] = "",
    samples: Annotated[int, typer.Option("--samples", help="Fewest common samples with which it goes on.")] = 50,
    batches: Annotated[int, typer.Option("--batches", help="Batches of new samples that will be placed.")] = 0,
    other: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help=f"Any other setting: {', '.join(OF_PLAN)}, or of a fit."),
    ] = None,
    **settings: Any,
) -> None:
    """Found a study: write its plan, with every field of it, into the folder; DIR is the center's own.

    Example: `dkpca study create /shared/flights --as center --name center --member airline --member weather`
    """
    named = dict(_named(each) for each in other or ())
    chosen = {key: _value(key, texts) for key, texts in settings.items() if texts not in (None, [])}
    chosen |= {key: _value(key, [text]) for key, text in named.items() if key not in OF_PLAN}
    unknown = sorted(set(chosen) - {each.name for each in fields(Fit)})
    if unknown:
        raise InputError(
            f"--set {unknown[0]}: there is no such setting; there are {', '.join(OF_PLAN)} and those of a fit"
        )
    settings_of_fit = Fit(**{"lacking": "drop", **chosen})  # the commands' default, written into the plan
    check_lacking(settings_of_fit, Terms("", align=True))
    fit = tomllib.loads(to_toml(settings_of_fit))
    about: dict[str, Any] = {"align": align, "samples": samples, "batches": batches}
    about |= {"ends": _day(ends)} if ends else {}
    about |= {"gamma": tuple(map(float, named["gamma_bounds"].split(",")))} if "gamma_bounds" in named else {}
    about |= {"batch_samples": int(named.get("batch_samples", 10 if batches else 0))}
    about |= {"result_to": tuple(named["result_to"].split(","))} if "result_to" in named else {}
    with place(folder) as there:
        made = founding.found(there, Memory(own), name.lower(), [each.lower() for each in member], fit, **about)
    print(f"Founded. Read the plan in {folder}/{made.center}/{founding.PLAN}; then each party joins:")
    print(f"  dkpca study join {folder} --as DIR --table TABLE --id COLUMN")


def _named(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not separator:
        raise InputError(f"--set {text!r}: write NAME=VALUE")
    return key, value


def _day(text: str) -> datetime.date:
    try:
        return datetime.date.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"--ends {text!r} is no day; write it as 2027-01-31") from error


def _value(name: str, texts: Any) -> Any:
    """One value for all, or PARTY=VALUE once for each party; goals for the rank are NAME=VALUE too."""
    if isinstance(texts, bool | None):
        return texts
    texts = [texts] if isinstance(texts, str) else texts
    if name == "rank":
        rules = [_rank(text) for text in texts]
        return rules[0] if len(rules) == 1 else tuple(rules)
    pairs = [text.partition("=") for text in texts]
    if all(separator for _, separator, _ in pairs):
        return {party: _scalar(value) for party, _, value in pairs}
    if len(texts) > 1:
        raise InputError(f"{name} is given {len(texts)} times; write PARTY=VALUE once for each party")
    return _scalar(texts[0])


def _rank(text: str) -> str | int | RankRule:
    goal, separator, value = text.partition("=")
    if separator and goal in GOALS:
        return GOALS[goal](value)
    found = _scalar(text)
    if separator or not isinstance(found, int | str):
        raise InputError(f"rank {text!r}: write a number, auto, or one of {', '.join(GOALS)} as recovery=0.5")
    return found


def _scalar(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"none": None, "true": True, "false": False}.get(text, text)


def command() -> Any:
    """Return the command, with an option for each setting of a fit that has one."""
    fixed = [p for p in inspect.signature(create).parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    for name, each in OPTIONS.items():
        flag, text = each.metadata["option"], each.metadata["help"]
        kind: Any = (
            bool | None
            if "/" in flag
            else str | None
            if name in ("precision", "protect", "law")
            else list[str] | None
        )
        annotation = Annotated[kind, typer.Option(flag, help=text, rich_help_panel="The fit", show_default=False)]
        fixed.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation))
    create.__signature__ = inspect.Signature(fixed)  # type: ignore[attr-defined]
    create.__annotations__ = {p.name: p.annotation for p in fixed} | {"return": None}
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)
    app.command("create")(create)
    made = get_command(app)
    made.name = "create"
    return made
