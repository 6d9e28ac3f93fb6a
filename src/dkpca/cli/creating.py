"""`dkpca study create`: the plan, from the settings of a fit and a few of the study itself."""

import tomllib
from dataclasses import fields
from typing import Annotated, Any

import typer

from dkpca.cli import options as o
from dkpca.cli.options import GivenSettings
from dkpca.cli.studies import Own, Place, reached
from dkpca.exchange import founding
from dkpca.exchange.memory import Memory
from dkpca.exchange.protocols import Terms, check_terms
from dkpca.settings import Compute, to_toml

NOT_HERE = tuple(each.name for each in fields(Compute))  # each member's own business
OF_PLAN = {
    "gamma_bounds": "Smallest and largest gamma allowed, such as 0.001,0.1",
    "batch_samples": "Minimum number of samples in a batch (default: that of the study)",
    "result_to": "Members that get the result, separated by commas",
    "covariates": "Columns of a party whose effect is removed from the components, such as clinic:batch,age",
}


@o.takes_settings(skip=NOT_HERE, more=OF_PLAN)
def create(
    folder: Place,
    own: Own,
    name: Annotated[str, typer.Option("--name", help="Name of the center, which fuses the messages.")],
    member: Annotated[list[str], typer.Option("--member", help="Name of a party; repeat for each party.")],
    asked: GivenSettings,
    align: Annotated[
        str, typer.Option("--align", help="How samples are matched: tokens (keyed hashes of ids), psi or position.")
    ] = "tokens",
    ends: Annotated[str | None, o.option("--ends", "Last day, such as 2027-01-31 (default: in 90 days).")] = None,
    samples: Annotated[int, typer.Option("--samples", help="Minimum number of common samples.")] = 50,
    batches: Annotated[int, typer.Option("--batches", help="Number of batches of new samples to place later.")] = 0,
) -> None:
    """Create a study: write its complete plan into FOLDER; DIR is the center's own folder.

    Example: `dkpca study create /shared/flights --as center --name center --member airline --member weather`
    """
    parties, given = [each.lower() for each in member], asked.given
    # Samples that a party lacks are dropped unless the plan says otherwise, as in the other commands.
    settings = asked.fit(parties, lacking=given.get("lacking", "drop"))
    about: dict[str, Any] = {"align": align, "samples": samples, "batches": batches}
    about |= {"ends": o.value(ends)} if ends else {}
    about |= {"gamma": o.value(f"[{given['gamma_bounds']}]")} if "gamma_bounds" in given else {}
    about |= {"batch_samples": given.get("batch_samples", samples if batches else 0)}
    about |= {"result_to": o.column_names([given["result_to"]])} if "result_to" in given else {}
    if "covariates" in given:
        owner, _, columns = str(given["covariates"]).partition(":")
        about |= {"covariates": {owner.lower(): o.column_names([columns])}}
    taken_out = about.get("covariates", {})
    check_terms(parties, settings, Terms("", align=align, taken_out=taken_out, study=True))
    with reached(folder) as there:
        fit = tomllib.loads(to_toml(settings))
        here = founding.found(there, Memory(own), name.lower(), parties, fit, **about)
    print(f"Study created. Read the plan in {folder}/{here.plan.center}/{here.file}; then each party joins:")
    print(f"  dkpca study join {folder} --as DIR --table TABLE --id COLUMN")
