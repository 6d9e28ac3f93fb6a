"""Commands for a data holder: its table stays, one small file goes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dkpca import wire
from dkpca.cli import options as o
from dkpca.cli.inspecting import may_send, recovery_facts
from dkpca.cli.output import progress, show
from dkpca.cli.table_options import TableAtHand, reads_table
from dkpca.concerns import about_columns
from dkpca.disclosure import raw_bytes, share_sent
from dkpca.errors import InputError
from dkpca.exchange import files
from dkpca.kernels.laws import LAWS
from dkpca.linalg import memory
from dkpca.linalg.rows import computing_on
from dkpca.messages import Summary
from dkpca.party.state import PartyState
from dkpca.rank import Recovery
from dkpca.wording import in_bytes

PANEL = "At a party"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("summarize", rich_help_panel=PANEL)(summarize)


@reads_table
def summarize(
    table: TableAtHand,
    out: Annotated[Path, typer.Option("--out", help="The message to write; send this file.")],
    gamma: Annotated[
        float | None,
        typer.Option("--gamma", help="Width of the kernel, the same at all parties.", rich_help_panel=o.MODEL),
    ] = None,
    kernel: o.KernelOption = "rbf",
    degree: o.Degree = None,
    coef0: o.Coef0 = None,
    own: Annotated[
        bool,
        typer.Option(
            "--own",
            help="poly, cosine: of this party's columns alone, where the others use another kernel.",
            rich_help_panel=o.MODEL,
        ),
    ] = False,
    balance: Annotated[
        float | None,
        typer.Option(
            "--balance",
            help="Instead of --gamma: the width at which the exponent is this on average, as 1 / number of parties.",
            min=1e-6,
            rich_help_panel=o.MODEL,
        ),
    ] = None,
    law: Annotated[
        str | None,
        o.one_of("--law", LAWS, "How the center says it combines; for a policy with laws.", o.MODEL, no_default=True),
    ] = None,
    center: Annotated[
        bool,
        typer.Option(
            "--center/--no-center", help="Linear kernel: measure from the column mean.", rich_help_panel=o.MODEL
        ),
    ] = True,
    rank: o.Rank = "auto",
    epsilon: o.Epsilon = None,
    error: o.ErrorGoal = None,
    budget: o.ByteBudget = None,
    recovery: o.RecoveryGoal = None,
    known_rows: o.KnownRows = 30,
    components: o.Components = 10,
    precision: o.WirePrecision = "float32",
    solver: o.Solver = "auto",
    device: o.Device = None,
    max_memory: o.MaxMemory = None,
    state: Annotated[
        Path | None, typer.Option("--state", help="Private file for new samples; else --out with .state. Keep it.")
    ] = None,
    keep_state: Annotated[bool, typer.Option("--keep-state/--no-state", help="Whether to keep one.")] = True,
    keep_training: Annotated[
        bool, typer.Option("--keep-training", help="Keep all rows in the state, for dkpca.extend(exact=True).")
    ] = False,
    policy: o.PolicyFile = None,
    ledger: o.Ledger = None,
    as_json: o.AsJson = False,
) -> None:
    """Turn a table into the one message of the protocol.

    Writes two files: the message, which goes to the center, and the party's private state, which never leaves
    and is needed only to place new samples later.

    Example: `dkpca summarize airline.csv --id flight --gamma 0.006 --rank 40 --out airline.summary`
    """
    box = o.sender(out, table.policy(policy), ledger, table.path)
    state_path = (state or out.with_suffix(".state")) if keep_state else None
    if state_path is not None and state_path.resolve() in (table.path.resolve(), out.resolve()):
        raise InputError(f"{state_path}: the private state needs a file of its own; choose another --state")
    if balance is not None and gamma is not None:
        raise InputError("--gamma and --balance are two ways to give the kernel its width; use one of them")
    width = 1.0 if balance is not None else gamma
    chosen = o.kernel(kernel, width, center=center, degree=degree, coef0=coef0)
    if balance is not None and not chosen.has_width:
        raise InputError(f"--balance: the {kernel} kernel has no width; leave it out")
    other_law = law is not None and chosen.law is not None and chosen.law.name != law
    chosen = chosen.alone() if own or other_law else chosen
    rule = o.rank_rule(
        rank, components, epsilon=epsilon, error=error, budget=budget, recovery=recovery, known_rows=known_rows
    )
    holding = table.holding()
    about = f"{holding.party}: eigenpairs of its Gram matrix"
    with progress(about), memory.limited(max_memory, out.parent), computing_on(device):
        summary, preparation, kept = files.summarize(
            holding,
            box,
            kernel=chosen,
            rank=rule,
            precision=precision,
            solver=solver,
            state=state_path,
            keep_training=keep_training,
            balance=balance or 0.0,
            law=law,
        )
    notes = [*preparation.notes, *_left_by_limit(summary, kept), *about_columns(kept)]
    within, verdict = may_send(kept.recovery, box.policy)
    result = summary_facts(summary) | {
        "decided": kept.decided,
        "recovery": recovery_facts(kept.recovery),
        "may_send": within,
        "out": str(out),
        "state": None if state_path is None else str(state_path),
        "standardize": table.reading.standardize,
        "notes": notes,
    }
    units = "standardized" if table.reading.standardize else "in their own units"
    show(as_json, result, [*map(_note, notes), *_summary_words(summary, units, kept, out, state_path), verdict])


def summary_facts(summary: Summary) -> dict[str, Any]:
    """Return what a script wants to know of a summary."""
    return {
        "party": summary.party,
        "kernel": summary.kernel.to_dict(),
        "n_samples": summary.n_samples,
        "n_features": summary.n_features,
        "rank": summary.rank,
        "bytes": wire.size(summary),
        "bytes_raw": raw_bytes(summary),
        "share_sent": share_sent(summary),
    }


def _summary_words(summary: Summary, units: str, kept: PartyState, out: Path, state: Path | None) -> list[str]:
    size, raw = wire.size(summary), raw_bytes(summary)
    words = [
        f"{summary.party}: {summary.n_samples:,} samples, {summary.n_features:,} columns {units} -> rank "
        f"{summary.rank}, {in_bytes(size)} (the raw columns: {in_bytes(raw)}); {share_sent(summary):.1%} of its "
        "Gram matrix",
        f"  how much was decided by {kept.decided}",
        *([] if kept.recovery is None else [f"  {kept.recovery.sentence()}"]),
        f"  send  {out}   (what it discloses: dkpca inspect {out})",
    ]
    if state is not None:
        words.append(f"  keep  {state}   (private: it contains data)")
    if size > raw:
        words.append(_note("the message is larger than the columns; a rank under the number of columns is smaller"))
    return words


def _left_by_limit(summary: Summary, kept: PartyState) -> list[str]:
    """Say what a limit on recovery has left of the party's matrix, if that limit decided."""
    if not kept.decided.startswith(f"{Recovery.__name__}("):
        return []
    alike = summary.rank == 1 and summary.kernel.unit_diagonal
    little = ", nearly the same for all samples, so that this party will hardly count" if alike else ""
    return [
        f"the limit on recovery leaves rank {summary.rank}, {share_sent(summary):.1%} of the Gram matrix{little}; "
        "masked sums and a blind center (protect=) reveal less of a party, and leave nothing out"
    ]


def _note(sentence: str) -> str:
    return f"note: {sentence}"
