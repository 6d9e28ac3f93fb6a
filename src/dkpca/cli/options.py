"""Options that several commands share, and what they mean."""

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from dkpca import mail, storage
from dkpca import policy as policies
from dkpca.eigen import NAMES
from dkpca.errors import InputError
from dkpca.exchange.files import LEDGER, Holding, Outbox
from dkpca.exchange.rounds import Fit
from dkpca.kernels import RBF, Kernel, Linear
from dkpca.messages import CommonTokens, check_party_name
from dkpca.party import ANYTHING
from dkpca.rank import Adaptive, Auto, Budget, Fixed, RankRule
from dkpca.tables import Reading

KEY_VARIABLE = "DKPCA_ALIGN_KEY"


class KernelName(StrEnum):
    """Kernels by name."""

    rbf = "rbf"
    linear = "linear"


class Precision(StrEnum):
    """Precisions of the wire."""

    float64 = "float64"
    float32 = "float32"
    float16 = "float16"


class TextColumns(StrEnum):
    """What to do with columns of text."""

    error = "error"
    one_hot = "one-hot"
    ignore = "ignore"


TABLE, MODEL, FILES = "The table", "The model", "Files"

TableFile = Annotated[
    Path,
    typer.Argument(help="The party's own table: .csv, .tsv, .parquet, .arrow, .npy or .npz.", metavar="TABLE"),
]
PartyName = Annotated[str | None, typer.Option("--party", help="Name of the party; else the name of the file.")]
Id = Annotated[str | None, typer.Option("--id", help="Column with the sample ids; else rows match by position.")]
RequiredId = Annotated[str, typer.Option("--id", help="Column with the sample ids.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", help="Columns to use, separated by commas; else all.", rich_help_panel=TABLE),
]
Exclude = Annotated[list[str] | None, typer.Option("--exclude", help="Columns to leave out.", rich_help_panel=TABLE)]
Text = Annotated[TextColumns, typer.Option("--text", help="What to do with columns of text.", rich_help_panel=TABLE)]
MaxMissing = Annotated[
    float,
    typer.Option(
        "--max-missing",
        min=0.0,
        max=1.0,
        help="Drop columns with a larger share of missing values; fill the others with their mean.",
        rich_help_panel=TABLE,
    ),
]
Standardize = Annotated[
    bool,
    typer.Option(
        "--standardize/--no-standardize", help="Give columns mean 0 and deviation 1.", rich_help_panel=TABLE
    ),
]
Common = Annotated[
    Path | None,
    typer.Option("--align", help="The center's answer to 'align': keep these samples, in this order."),
]
KeyFile = Annotated[
    Path | None,
    typer.Option("--key-file", help=f"File with the parties' key; else the variable {KEY_VARIABLE} is the key."),
]
KernelOption = Annotated[KernelName, typer.Option("--kernel", help="The same at all parties.", rich_help_panel=MODEL)]
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
    typer.Option("--budget", help="Instead of a rank: as many as fit into so many bytes.", rich_help_panel=MODEL),
]
GammaRule = Annotated[
    str,
    typer.Option(
        "--gamma",
        help="RBF width: a number, 'features' (1 / number of columns) or 'auto' (1 / mean squared distance).",
        rich_help_panel=MODEL,
    ),
]
Center = Annotated[bool, typer.Option("--center/--no-center", help="Center the fused kernel.", rich_help_panel=MODEL)]
Components = Annotated[int, typer.Option("--components", min=1, help="Components wanted.", rich_help_panel=MODEL)]
WirePrecision = Annotated[Precision, typer.Option("--precision", help="How numbers are sent.", rich_help_panel=MODEL)]
Solver = Annotated[
    str, typer.Option("--solver", help="Eigensolver: auto, dense, streamed or landmark.", rich_help_panel=MODEL)
]
PolicyFile = Annotated[
    Path | None, typer.Option("--policy", help="The party's policy (TOML); what it forbids is refused.")
]
Ledger = Annotated[
    Path | None, typer.Option("--ledger", help="Ledger to add to; else dkpca-ledger.jsonl beside --policy, or --out.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object, for scripts.")]


def reading(
    id_column: str | None,
    columns: Sequence[str] | None,
    exclude: Sequence[str] | None,
    text: TextColumns,
    max_missing: float,
    standardize: bool,
) -> Reading:
    """How to read the table."""
    return Reading(id_column, column_names(columns), column_names(exclude), text.value, max_missing, standardize)


def holding(party: str | None, path: Path, how: Reading, common: Path | None, key_file: Path | None) -> Holding:
    """Return the party's table, aligned if the center's answer is given."""
    name = party_name(party, path)
    if common is None:
        return Holding(name, path, how)
    return Holding(name, path, how, key=key(key_file)).aligned(mail.read(common, CommonTokens))


def outbox(out: Path, policy: Path | None, ledger: Path | None, table: Path) -> Outbox:
    """Where the message goes, checked before any work."""
    if out.resolve() == table.resolve():
        raise InputError(f"{out}: is the table itself; choose another --out")
    if policy is None:
        box = Outbox(out, ANYTHING, ledger)
    else:
        box = Outbox(out, policies.read(policy), ledger or policy.parent / LEDGER)
    box.check()
    return box


def party_name(name: str | None, path: Path) -> str:
    """Name given, or the name of the file without its suffix."""
    return check_party_name(name if name is not None else path.name.partition(".")[0])


def kernel(name: KernelName, gamma: float | None, *, center: bool = True) -> Kernel:
    """Kernel by its name; the width has to be agreed on for RBF."""
    if name is KernelName.linear:
        return Linear(centered=center)
    if gamma is None:
        raise InputError(
            "the RBF kernel needs --gamma, the same number at all parties; "
            "without one, let each party run 'dkpca statistics' and the center 'dkpca plan'"
        )
    return RBF(gamma)


def rank_rule(rank: str, epsilon: float | None, budget: int | None, components: int) -> RankRule:
    """Rule for the rank; at most one of the three ways."""
    if (rank != "auto") + (epsilon is not None) + (budget is not None) > 1:
        raise InputError("--rank, --epsilon and --budget are three ways to say one thing; use one of them")
    if epsilon is not None:
        return Adaptive(epsilon)
    if budget is not None:
        return Budget(budget)
    if rank == "auto":
        return Auto(components)
    if not rank.isdecimal():
        raise InputError(f"--rank is {rank!r}; give a whole number, or 'auto'")
    return Fixed(int(rank))


def wanted(
    *,
    kernel: KernelName,
    gamma: str,
    components: int,
    center: bool,
    rank: RankRule,
    precision: Precision,
    solver: str,
    keep_training: bool = False,
    align: bool = False,
) -> Fit:
    """Settings of a fit of all parties."""
    if solver not in NAMES:
        raise InputError(f"--solver is {solver!r}; use one of {', '.join(NAMES)}")
    return Fit(
        kernel=kernel.value,
        gamma=gamma_of(gamma),
        n_components=components,
        center=center,
        rank=rank,
        precision=precision.value,
        solver=solver,
        keep_training=keep_training,
        align=align,
    )


def gamma_of(given: str) -> float | str | None:
    """Return the width, or the rule for it, as the library takes it."""
    if given in ("features", "auto"):
        return None if given == "features" else "auto"
    try:
        return float(given)
    except ValueError as error:
        raise InputError(f"--gamma is {given!r}; give a number, 'features' or 'auto'") from error


def key(key_file: Path | None) -> bytes:
    """Return the parties' key, from a file or the environment: never from the command line, which others can see."""
    if key_file is not None:
        return storage.read(key_file).strip()
    if KEY_VARIABLE not in os.environ:
        raise InputError(f"alignment needs the parties' key; give --key-file, or set the variable {KEY_VARIABLE}")
    return os.environ[KEY_VARIABLE].strip().encode()


def column_names(given: Sequence[str] | None) -> tuple[str, ...]:
    """Names from a repeated option with commas in it."""
    return tuple(name.strip() for part in given or () for name in part.split(",") if name.strip())
