"""The command that looks ahead."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from dkpca import fusion
from dkpca.cli import options as o
from dkpca.cli.given_tables import HOW_TABLES, Ids, holdings_of, is_source, prepared
from dkpca.cli.on_one_machine import PANEL
from dkpca.cli.output import show, table
from dkpca.cli.table_options import Changed, takes
from dkpca.errors import InputError
from dkpca.exchange import forecast as planning
from dkpca.exchange.forecast import Cost
from dkpca.exchange.processes import shared_samples
from dkpca.exchange.rehearsal import Parties, rehearse
from dkpca.exchange.sending import Holding
from dkpca.kernels import Kernel
from dkpca.kernels.combination import combination
from dkpca.messages import Statistics
from dkpca.party import statistics as party_statistics
from dkpca.store import message_files
from dkpca.wire import codec
from dkpca.wording import in_bytes, in_seconds


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("plan", rich_help_panel=PANEL)(plan)


@takes(*HOW_TABLES)
def plan(
    how: Changed,
    sources: Annotated[
        list[str],
        typer.Argument(
            help="Tables (NAME=FILE or FILE), or messages of 'dkpca statistics'.",
            metavar="[NAME=]FILE...",
            show_default=False,
        ),
    ],
    ids: Ids = None,
    gamma: o.GammaRule = "features",
    kernel: o.Kernels = None,
    law: o.Law = None,
    weights: o.Weights = "",
    degree: o.Degree = None,
    coef0: o.Coef0 = None,
    components: o.Components = 10,
    center: o.Center = True,
    rank: o.Rank = "auto",
    epsilon: o.Epsilon = None,
    error: o.ErrorGoal = None,
    budget: o.ByteBudget = None,
    recovery: o.RecoveryGoal = None,
    known_rows: o.KnownRows = 30,
    precision: o.WirePrecision = "float32",
    solver: o.Solver = "auto",
    as_json: o.AsJson = False,
) -> None:
    """Predict bytes, memory and time before anything runs: gamma and ranks are those that 'dkpca fit' chooses.

    Tables of up to 3,000 samples are looked at as a whole; of larger ones, ranks are judged by 400 rows.

    Examples: `dkpca plan airline.csv weather.csv --id flight` where the tables are at hand;
    `dkpca plan airline.statistics weather.statistics --rank 40` at a center.
    """
    told, holdings, notes = _sources(sources, how, ids)
    kernels = o.kernels(kernel, [*told, *(holding.party for holding in holdings)])
    wanted = o.wanted(
        kernel=kernels,
        law=law,
        weights=o.weights(weights),
        degree=degree,
        coef0=coef0,
        gamma=gamma,
        components=components,
        center=center,
        rank=o.rank_rule(
            rank, components, epsilon=epsilon, error=error, budget=budget, recovery=recovery, known_rows=known_rows
        ),
        precision=precision,
        solver=solver,
    )
    parties, prepared = _parties(told, holdings, kernels)
    notes += prepared
    known = list(parties.statistics.values())
    n_samples = _one_number_of_samples(known)
    planned = rehearse(parties, wanted)
    made = {name: each.kernel for name, each in planned.items()}
    costs = planning.party_costs(known, planned, precision)
    at_center = planning.center_cost(costs, n_samples, components)
    gammas = {rule: fusion.resolve_gamma(value, known) for rule, value in (("features", None), ("auto", "auto"))}
    chosen = {name: codec.plain(kernel) for name, kernel in made.items()}
    meaning = combination(made, law).meaning
    result = {
        "n_samples": n_samples,
        "gamma": gammas,
        "kernels": chosen,
        "meaning": meaning,
        "parties": [_cost_facts(c) | {"rank_is_certain": planned[c.name].exact} for c in costs],
        "center": _cost_facts(at_center),
        "notes": notes,
    }
    guessed = [name for name, each in planned.items() if not each.exact]
    show(as_json, result, [*(f"note: {note}" for note in notes), *_plan_words(n_samples, costs, at_center, gammas),
                           *_kernel_words(chosen, guessed), f"the components are of {meaning}"])  # fmt: skip


def _sources(
    sources: list[str], how: Changed, ids: list[str] | None
) -> tuple[dict[str, Statistics], list[Holding], list[str]]:
    """Statistics that were given, and tables; their samples are those of a fit."""
    at_hand = [source for source in sources if is_source(source)]
    told = [message_files.read(Path(source), Statistics) for source in sources if source not in at_hand]
    holdings, notes = shared_samples(holdings_of(at_hand, how, ids)) if at_hand else ([], [])
    return {message.party: message for message in told}, holdings, notes


def _parties(
    told: Mapping[str, Statistics], holdings: Sequence[Holding], kernels: str | Mapping[str, str | Kernel]
) -> tuple[Parties, list[str]]:
    """Every source by its statistics, the tables with their columns as the party's kernel takes them."""
    columns, notes = prepared(holdings, kernels)
    counted = {name: party_statistics(X, party=name) for name, X in columns.items()}
    return Parties({**told, **counted}, columns), notes


def _kernel_words(kernels: dict[str, Any], guessed: list[str]) -> list[str]:
    """Say which kernels the fit would use, and which ranks are only judged."""
    by_kernel: dict[str, list[str]] = {}
    for name, kernel in kernels.items():
        settings = ", ".join(f"{key} {value:.6g}" if isinstance(value, float) else f"{key} {value}"
                             for key, value in kernel.items() if key != "name")  # fmt: skip
        by_kernel.setdefault(f"{kernel['name']} ({settings})" if settings else str(kernel["name"]), []).append(name)
    words = [
        f"kernel: {kernel}" + (f" at {', '.join(names)}" if len(by_kernel) > 1 else "")
        for kernel, names in by_kernel.items()
    ]
    if guessed:
        words.append(f"note: the ranks of {', '.join(guessed)} are not certain before the fit")
    return words


def _one_number_of_samples(known: list[Statistics]) -> int:
    counts = {s.party: s.n_samples for s in known}
    if len(set(counts.values())) > 1:
        raise InputError(f"the parties have different numbers of samples {counts}; align them first")
    return known[0].n_samples


def _cost_facts(cost: Cost) -> dict[str, object]:
    return vars(cost) | {"larger_than_data": cost.larger_than_data}


def _plan_words(n_samples: int, costs: list[Cost], center: Cost, gammas: dict[str, float]) -> list[str | Table]:
    rows = [
        [
            c.name,
            f"{c.n_features:,}",
            str(c.rank),
            in_bytes(c.bytes_sent),
            in_bytes(c.bytes_raw),
            c.solver,
            in_bytes(c.memory),
            in_seconds(c.seconds),
        ]
        for c in [*costs, center]
    ]
    rows[-1][3] = rows[-1][4] = ""
    headings = ["", "columns", "rank", "sends", "raw", "solver", "memory", "time"]
    lines: list[str | Table] = [table(f"{n_samples:,} samples; times to within a factor of a few", headings, rows)]
    lines += [
        f"gamma: {gammas['features']:.6g} (1 / columns), {gammas['auto']:.6g} (auto, 1 / mean squared distance)"
    ]
    lines += [
        f"warning: {c.name} would send more bytes than its columns have; a rank under {c.n_features} is smaller"
        for c in costs
        if c.larger_than_data
    ]
    return lines
