"""Commands for an audit: the center draws samples, each party sends true rows for them, the center concludes."""

import secrets
from pathlib import Path
from typing import Annotated

import typer

from dkpca.cli import options as o
from dkpca.cli.output import progress, show
from dkpca.cli.table_options import HOW_WRITTEN, Changed, aligned, takes
from dkpca.errors import InputError
from dkpca.exchange import files
from dkpca.exchange.sending import Holding
from dkpca.fields import MOST_AUDITED
from dkpca.messages import AuditRequest
from dkpca.store import audits, message_files, runs
from dkpca.store.runs import Run
from dkpca.wording import in_bytes


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("audit", rich_help_panel="At the center")(audit)
    app.command("audit-rows", rich_help_panel="At a party")(audit_rows)


def audit(
    path: Annotated[Path, typer.Argument(help="Directory of the run.", show_default=False)],
    answers: Annotated[
        list[Path] | None,
        typer.Argument(help="One file from each party, of 'audit-rows'; none: draw the samples.", show_default=False),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, max=MOST_AUDITED, help="Rows of the kernel to draw.")] = 100,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Of the draws; else random, and published.")
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Find out by some true rows of the kernel matrix how good a run is.

    Without answers it draws samples and writes 'audit.request' into the run: send it to every party, which answers
    with 'dkpca audit-rows'. With all answers it says what they prove and what they let expect.

    Example: `dkpca audit run/ --rows 100`, then `dkpca audit run/ airline.audit weather.audit`
    """
    run = runs.load(path)
    if answers:
        with progress("auditing"):
            run = audits.conclude(run, answers)
        show(as_json, audit_facts(run), audit_words(run))
        return
    asked = audits.request(run, rows, secrets.randbits(32) if seed is None else seed)
    file = path / audits.REQUEST
    told = {"out": str(file), "seed": asked.seed, "draws": asked.draws, "samples": list(asked.samples)}
    words = [
        f"{len(asked.samples)} of {asked.n_samples:,} samples drawn by seed {asked.seed}: send {file} to every party",
        "each answers with: dkpca audit-rows TABLE --state NAME.state --request audit.request --out NAME.audit",
    ]
    show(as_json, told, words)


@takes(*HOW_WRITTEN)
def audit_rows(
    path: o.TableFile,
    how: Changed,
    state: Annotated[Path, typer.Option("--state", help="The party's private state, from 'summarize'.")],
    request: Annotated[Path, typer.Option("--request", help="What the center sent: 'audit.request' of its run.")],
    out: Annotated[Path, typer.Option("--out", help="The message to write; send this file.")],
    common: o.Common = None,
    key_file: o.KeyFile = None,
    policy: o.PolicyFile = None,
    ledger: o.Ledger = None,
    as_json: o.AsJson = False,
) -> None:
    """Answer an audit: true rows of the party's Gram matrix, for the samples that the center drew.

    The table is that of the fit. More rows than the table has columns reveal all of it up to a rotation.

    Example: `dkpca audit-rows airline.csv --state airline.state --request audit.request --out airline.audit`
    """
    kept, preparation = files.load_state(state)
    holding = aligned(Holding(kept.party, path, how(preparation.reading)), common, key_file)
    box = o.sender(out, policy, ledger, path)
    message = files.audit(holding, state, message_files.read(request, AuditRequest), box)
    size = out.stat().st_size
    told = {"party": message.party, "rows": len(message.samples), "bytes": size, "out": str(out)}
    show(as_json, told, [f"{message.party}: {len(message.samples)} rows, {in_bytes(size)} in {out}"])


def audit_facts(run: Run) -> dict[str, object]:
    """Return what a script wants to know of an audited run."""
    return {"out": str(run.path), "certificate": run.model.certificate.to_dict()}


def audit_words(run: Run) -> list[str]:
    """Return the findings for a reader."""
    found = run.model.certificate.audit
    if found is None:
        raise InputError(f"{run.path}: has not been audited")
    return [*found.statements(), f"wrote {run.path / 'certificate.json'}"]
