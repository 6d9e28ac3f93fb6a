"""The command that looks ahead."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dkpca import fusion
from dkpca.cli import options as o
from dkpca.cli.on_one_machine import PANEL
from dkpca.cli.output import show, table
from dkpca.cli.sources import HOW_TABLES, Ids, holdings_of, is_source
from dkpca.cli.table_options import Changed, takes
from dkpca.errors import InputError
from dkpca.exchange import forecast as planning
from dkpca.exchange.forecast import Cost
from dkpca.kernels import RBF
from dkpca.messages import Statistics
from dkpca.party import statistics as party_statistics
from dkpca.store import message_files
from dkpca.tables.preparation import prepare
from dkpca.tables.reading import Matrix
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
    components: o.Components = 10,
    rank: Annotated[
        str, typer.Option("--rank", help="A number, or 'auto': judged by a few hundred rows of the tables.")
    ] = "auto",
    gamma: Annotated[
        str, typer.Option("--gamma", help="For judging the rank: a number, 'features' or 'auto'.")
    ] = "auto",
    precision: o.WirePrecision = "float32",
    as_json: o.AsJson = False,
) -> None:
    """Predict bytes, memory and time before anything runs, and derive gamma.

    Examples: `dkpca plan airline.csv weather.csv --id flight` where the tables are at hand;
    `dkpca plan airline.statistics weather.statistics --rank 40` at a center.
    """
    known, ranks = _look(
        sources,
        rank,
        gamma,
        components,
        how,
        ids,
    )
    n_samples = _one_number_of_samples(known)
    costs = planning.party_costs(known, ranks, precision)
    center = planning.center_cost(costs, n_samples, components)
    gammas = {rule: fusion.resolve_gamma(value, known) for rule, value in (("features", None), ("auto", "auto"))}
    result = {
        "n_samples": n_samples,
        "gamma": gammas,
        "parties": [_cost_facts(c) for c in costs],
        "center": _cost_facts(center),
    }
    show(as_json, result, _plan_words(n_samples, costs, center, gammas))


def _look(
    sources: list[str], rank: str, gamma: str, components: int, how: Changed, ids: list[str] | None
) -> tuple[list[Statistics], dict[str, int]]:
    """Statistics of every source, and the rank it would have."""
    at_hand = [source for source in sources if is_source(source)]
    known = [message_files.read(Path(source), Statistics) for source in sources if source not in at_hand]
    loaded: dict[str, Matrix] = {}
    for holding in holdings_of(at_hand, how, ids) if at_hand else []:
        rows, _ = holding.load()
        X = prepare(rows, holding.reading).apply(rows)
        loaded[holding.party] = X
        known.append(party_statistics(X, party=holding.party))
    fixed = None if rank == "auto" else o.rank_rule(rank, None, None, components)
    if fixed is not None:
        return known, {s.party: fixed.first_guess(s.n_samples) for s in known}
    strangers = [s.party for s in known if s.party not in loaded]
    if strangers:
        raise InputError(f"the rank of {strangers} cannot be judged from statistics; give --rank")
    kernel = RBF(fusion.resolve_gamma(o.gamma_of(gamma), known))
    return known, {n: planning.probed_rank(X, kernel=kernel, n_components=components) for n, X in loaded.items()}


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
