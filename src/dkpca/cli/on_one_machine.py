"""The command for one owner of all tables."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dkpca.cli import options as o
from dkpca.cli.at_center import run_facts, run_words
from dkpca.cli.options import GivenSettings
from dkpca.cli.output import at_work, show
from dkpca.cli.table_options import Ids, at_hand, holdings_of, named
from dkpca.errors import InputError
from dkpca.exchange import one_machine

NOT_HERE = ("protect", "projection", "timeout")  # for these, see DKPCA and 'dkpca study'

Tables = Annotated[
    list[str], typer.Argument(help="Tables, as NAME=FILE or FILE, or party.toml files.", metavar="[NAME=]FILE...")
]


@o.takes_settings(skip=NOT_HERE)
def fit(
    sources: Tables,
    asked: GivenSettings,
    out: Annotated[Path, typer.Option("--out", help="Run directory to create or replace.")],
    ids: Ids = None,
    new: Annotated[
        list[str] | None, o.option("--new", "Table of new samples, to place in RUN/new.", metavar="NAME=FILE")
    ] = None,
    covariates: Annotated[
        Path | None, o.option("--covariates", "Table, or party.toml, of covariates to remove: batch, site, age.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Run the whole fit on one machine: the parties in parallel, then the fusion.

    With --id, only samples that are in all tables are used, in the order of the first table; --lacking can keep the
    others. To control how a table is read, write a party.toml with 'dkpca check TABLE --write party.toml'.

    Examples: `dkpca fit airline=airline.csv weather=weather.parquet --id flight --out run/`;
    `dkpca fit clinic=clinic.csv lab=lab.csv --kernel rbf --kernel clinic=overlap --law sum --out run/`
    """
    holdings = holdings_of(sources, ids, asked)
    taken_out = None if covariates is None else at_hand(covariates, "covariates", None)
    lacking = asked.given.get("lacking", "drop")  # the commands' default, which the notes say
    request = asked.fit([holding.party for holding in holdings], lacking=lacking)
    new_tables = {name: path for name, path in map(named, new or ()) if name is not None}
    if len(new_tables) < len(new or ()):
        raise InputError("--new: write NAME=FILE, with the name of a party of the fit, once for each party")
    at_work("fit")
    run, notes = one_machine.fit(out, holdings, request, asked.compute, covariates=taken_out)
    lines: list[str | Table] = [*(f"note: {note}" for note in notes), *run_words(run)]
    facts = run_facts(run) | {"notes": notes}
    if new_tables:
        placed, said = one_machine.place(run, new_tables, lacking, taken_out)
        facts["new"] = {"out": str(run.path / one_machine.NEW), "n_samples": len(placed.scores), "notes": said}
        lines += [*(f"note: {note}" for note in said), f"{len(placed.scores):,} new samples, in {run.path / 'new'}"]
    show(as_json, facts, lines)
