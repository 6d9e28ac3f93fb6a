"""Options that several commands share, and what they mean."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from dkpca.errors import InputError
from dkpca.exchange.sending import Sender
from dkpca.kernels import Kernel, family, kernel_names
from dkpca.kernels.base import adjusted
from dkpca.kernels.combination import BALANCED
from dkpca.kernels.laws import LAWS
from dkpca.linalg.leading import NAMES
from dkpca.linalg.precision import PRECISIONS
from dkpca.messages import check_party_name
from dkpca.party import ANYTHING
from dkpca.rank import Adaptive, All, Auto, Budget, Error, Fixed, RankRule, Recovery
from dkpca.settings import Fit
from dkpca.store import ledger as ledgers
from dkpca.store import party_file


def one_of(flag: str, known: Collection[str], help: str, panel: str, *, no_default: bool = False) -> Any:
    """Option with a few possible values, shown as such."""

    def check(value: str) -> str:
        if value not in known:
            raise typer.BadParameter(f"{value!r} is not one of {', '.join(known)}.")
        return value

    return typer.Option(
        flag,
        parser=check,
        metavar="|".join(known),
        help=help,
        rich_help_panel=panel,
        show_default=not no_default,
        autocompletion=lambda incomplete: [name for name in known if name.startswith(incomplete)],
    )


MODEL = "The model"

PartyName = Annotated[str | None, typer.Option("--party", help="Name of the party; else the name of the file.")]
Id = Annotated[str | None, typer.Option("--id", help="Column with the sample ids; else rows match by position.")]
KernelOption = Annotated[
    str, one_of("--kernel", kernel_names(), "Kernel of this party's columns; the same at all, or say --law.", MODEL)
]
Kernels = Annotated[
    list[str] | None,
    typer.Option(
        "--kernel",
        help=f"One for all parties, or NAME=KERNEL for one of them: {', '.join(kernel_names())} [default: rbf].",
        metavar="[NAME=]KERNEL",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Law = Annotated[
    str | None,
    one_of(
        "--law", LAWS, "How the parties' kernel matrices combine; else as the kernel implies.", MODEL, no_default=True
    ),
]
Weights = Annotated[
    str,
    typer.Option(
        "--weights",
        help="How much each party counts: 'balanced', or numbers as bank=1,shop=2; else all alike.",
        show_default=False,
        rich_help_panel=MODEL,
    ),
]
Degree = Annotated[
    int | None,
    typer.Option("--degree", help="Of the poly kernel; else 3.", show_default=False, rich_help_panel=MODEL),
]
Coef0 = Annotated[
    float | None,
    typer.Option("--coef0", help="Of the poly kernel; else 1.", show_default=False, rich_help_panel=MODEL),
]
Rank = Annotated[str, typer.Option("--rank", help="Eigenpairs to send: a number, or 'auto'.", rich_help_panel=MODEL)]
Epsilon = Annotated[
    float | None,
    typer.Option(
        "--epsilon",
        help="Instead of a rank: send eigenvalues above this share of the largest.",
        rich_help_panel=MODEL,
    ),
]
ByteBudget = Annotated[
    int | None,
    typer.Option("--budget", help="A limit: no more than so many bytes, whatever is needed.", rich_help_panel=MODEL),
]
ErrorGoal = Annotated[
    float | None,
    typer.Option(
        "--error",
        help="Instead of a rank: what a party may leave out or round away, in spectral norm of its matrix.",
        rich_help_panel=MODEL,
    ),
]
RecoveryGoal = Annotated[
    float | None,
    typer.Option(
        "--recovery",
        help="A limit: no column recovered beyond this R² by somebody who knows --known-rows.",
        min=0.0,
        max=1.0,
        rich_help_panel=MODEL,
    ),
]
KnownRows = Annotated[
    int, typer.Option("--known-rows", min=1, help="Rows that --recovery takes as known.", rich_help_panel=MODEL)
]
GammaRule = Annotated[
    str,
    typer.Option(
        "--gamma",
        help="Kernel width: a number, 'scale' (1 / mean distance) or 'features' (1 / number of columns).",
        rich_help_panel=MODEL,
    ),
]
Center = Annotated[bool, typer.Option("--center/--no-center", help="Center the fused kernel.", rich_help_panel=MODEL)]
Components = Annotated[int, typer.Option("--components", min=1, help="Components wanted.", rich_help_panel=MODEL)]
WirePrecision = Annotated[str, one_of("--precision", PRECISIONS, "How numbers are sent.", MODEL)]
MaxMemory = Annotated[
    str | None,
    typer.Option("--max-memory", help="Memory to keep to, as 8GB; else what is free.", rich_help_panel=MODEL),
]
Device = Annotated[
    str | None,
    typer.Option("--device", help="Compute landmarks there, as cuda; else on the CPU.", rich_help_panel=MODEL),
]
Solver = Annotated[str, one_of("--solver", NAMES, "Eigensolver.", MODEL)]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="The party's policy (TOML); what it forbids is refused.")
]
Ledger = Annotated[
    Path | None, typer.Option("--ledger", help="Ledger to add to; else dkpca-ledger.jsonl beside --policy, or --out.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


def sender(out: Path, policy: Path | None, ledger: Path | None, table: Path) -> Sender:
    """Where the message goes, checked before any work."""
    if out.resolve() == table.resolve():
        raise InputError(f"{out}: is the table itself; choose another --out")
    if policy is None:
        box = Sender(out, ANYTHING, ledger)
    else:
        box = Sender(out, party_file.read_policy(policy), ledger or policy.parent / ledgers.NAME)
    box.check()
    return box


def party_name(name: str | None, path: Path) -> str:
    """Name given, or the name of the file without its suffix."""
    return check_party_name(name if name is not None else path.name.partition(".")[0])


def kernel(name: str, gamma: float | None, *, center: bool = True, **parameters: float | None) -> Kernel:
    """Kernel by its name; a width has to be agreed on."""
    cls = family(name)
    if cls.has_width and cls.default_gamma is None and gamma is None:
        raise InputError(
            f"the {name} kernel needs --gamma, the same number at all parties; agree on one, or give --balance"
        )
    return adjusted({name: cls.from_settings(gamma=gamma, centered=center)}, **parameters)[name]


def kernels(given: Sequence[str] | None, parties: Sequence[str]) -> str | dict[str, str | Kernel]:
    """Kernel for all parties, or one for each of them."""
    for_all, single = by_party(given or (), "--kernel", parties)
    for name in (*for_all, *single.values()):
        family(name)
    first = for_all[0] if for_all else "rbf"
    return {party: single.get(party, first) for party in parties} if single else first


def by_party(given: Sequence[str], flag: str, parties: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """What a repeated option says for all parties (once at most), and as NAME=VALUE for single ones."""
    for_all, single = [], {}
    for item in given:
        name, separator, value = item.partition("=")
        if not separator:
            for_all.append(item)
        elif name not in parties:
            raise InputError(f"{flag} {item!r}: {name!r} is none of the parties {list(parties)}")
        else:
            single[name] = value
    if len(for_all) > 1:
        raise InputError(f"{flag} says {for_all} for all parties; name one, and others as NAME=... ({list(parties)})")
    return for_all, single


def weights(given: str) -> str | dict[str, float] | None:
    """Weights as the library takes them."""
    if not given or given == BALANCED:
        return given or None
    numbers: dict[str, float] = {}
    for item in column_names([given]):
        name, _, number = item.partition("=")
        try:
            numbers[name] = float(number)
        except ValueError as error:
            raise InputError(f"--weights {item!r}: write {BALANCED}, or NAME=NUMBER,NAME=NUMBER") from error
    return numbers


def rank_rule(
    rank: str,
    components: int,
    *,
    epsilon: float | None = None,
    error: float | None = None,
    budget: int | None = None,
    recovery: float | None = None,
    known_rows: int = 30,
) -> RankRule:
    """Rule for the rank: what is needed in one of three ways, and limits beside it."""
    if (rank != "auto") + (epsilon is not None) + (error is not None) > 1:
        raise InputError("--rank, --epsilon and --error are three ways to say what is needed; use one of them")
    if rank != "auto" and not rank.isdecimal():
        raise InputError(f"--rank is {rank!r}; give a whole number, or 'auto'")
    rules: list[RankRule] = [
        *([Fixed(int(rank))] if rank != "auto" else []),
        *([Adaptive(epsilon)] if epsilon is not None else []),
        *([Error(error)] if error is not None else []),
        *([Budget(budget)] if budget is not None else []),
        *([Recovery(recovery, known_rows)] if recovery is not None else []),
    ]
    if recovery is not None and len(rules) == 1:
        rules.insert(0, Auto(components))  # a limit alone would ask for all there is within it
    return All(tuple(rules)) if len(rules) > 1 else rules[0] if rules else Auto(components)


def wanted(
    *,
    kernel: str | Mapping[str, str | Kernel],
    gamma: str,
    components: int,
    center: bool,
    rank: RankRule,
    precision: str,
    solver: str,
    law: str | None = None,
    weights: str | dict[str, float] | None = None,
    degree: int | None = None,
    coef0: float | None = None,
) -> Fit:
    """Settings of a fit of all parties."""
    return Fit(
        kernel=kernel if isinstance(kernel, str) else dict(kernel),
        law=law,
        weights=weights,
        degree=degree,
        coef0=coef0,
        gamma=gamma_of(gamma),
        n_components=components,
        center=center,
        rank=rank,
        precision=precision,
        solver=solver,
    )


def gamma_of(given: str) -> float | str | None:
    """Return the width, or the rule for it, as the library takes it."""
    if given in ("features", "scale", "auto"):
        return None if given == "features" else given
    try:
        return float(given)
    except ValueError as error:
        raise InputError(f"--gamma is {given!r}; give a number, 'scale' or 'features'") from error


def column_names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Names from a repeated option with commas in it."""
    return tuple(name.strip() for part in given or () for name in part.split(",") if name.strip())
