"""Commands for a data holder: its table stays, one small file goes."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dkpca import wire
from dkpca.cli import options as o
from dkpca.cli.inspecting import may_send, recovery_facts
from dkpca.cli.options import GivenSettings
from dkpca.cli.output import progress, show
from dkpca.cli.table_options import reads_table, with_standardize
from dkpca.errors import InputError
from dkpca.exchange import holdings
from dkpca.exchange.holdings import Holding
from dkpca.exchange.protocols import summary_question
from dkpca.exchange.steps import kernel_of
from dkpca.linalg.arrays import MemoryLimit
from dkpca.messages import Summary
from dkpca.party.disclosure import share_sent
from dkpca.party.state import PartyState
from dkpca.party.summaries import about_columns
from dkpca.rank import Recovery
from dkpca.store import storage
from dkpca.tables.preparation import preparation_of
from dkpca.wording import in_bytes

PANEL = "At a party"
# The center's settings, or a study's.
NOT_HERE = ("weights", "n_landmarks", "protect", "audit", "lacking", "n_jobs", "timeout")
WHY = {
    r"Fixed\(.*?\)": "as you asked",
    r"Auto\(.*?\)": "chosen automatically",
    r"Recovery\(.*?\)": "to stay within the recovery limit",
    r"Adaptive\(epsilon=(.*?), relative=True\)": r"for all eigenvalues above \1 times the largest",
    r"Adaptive\(epsilon=(.*?), relative=False\)": r"for all eigenvalues above \1",
    r"Budget\(bytes=(\d+), precision='compact'\)": r"to stay within \1 bytes",
    r"Budget\(bytes=(\d+), .*?\)": r"to keep the factor within \1 bytes",
    r"Error\(at_most=(.*?)\)(?! is)": r"for an error of at most \1",
    r"Error\(at_most=(.*?)\)": r"an error of at most \1",
}  # words for the rule that decided
GAMMA = "Gamma of the kernel: a number on which all parties have agreed; required for kernels with a gamma but chi2."


@reads_table
@o.takes_settings(skip=NOT_HERE, said={"gamma": GAMMA})
def summarize(
    table: Holding,
    asked: GivenSettings,
    out: Annotated[Path, typer.Option("--out", help="The message to write; send this file.")],
    state: Annotated[
        Path | None,
        typer.Option(
            "--state", help="Private state for new samples (default: next to --out, as .state). Never send it."
        ),
    ] = None,
    keep_state: Annotated[
        bool, typer.Option("--keep-state/--no-state", help="Whether to keep the private state.")
    ] = True,
    as_json: o.AsJson = False,
) -> None:
    """Compute the one message that a party sends to the center.

    Writes two files: the message, which goes to the center, and the party's private state, which stays with the
    party and is needed only to place new samples later. To control how the table is read, write a party.toml with
    'dkpca check TABLE --write party.toml'.

    A party does not see the other tables, so give --gamma as a number on which all parties have agreed.

    Example: `dkpca summarize airline.csv --id flight --gamma 0.006 --rank 40 --out airline.summary`
    """
    if out.resolve() == table.path.resolve():
        raise InputError(f"{out}: is the table itself; choose another --out")
    storage.check_writable(out, *storage.DKPCA_FILE)
    state_path = (state or out.with_suffix(".state")) if keep_state else None
    if state_path is not None and state_path.resolve() in (table.path.resolve(), out.resolve()):
        raise InputError(f"{state_path}: the private state needs a separate file; choose another --state")
    if state_path is not None:
        storage.check_writable(state_path, *storage.DKPCA_FILE)
    fit, compute = asked.fit([table.party]), asked.compute
    chosen = kernel_of(fit if "gamma" in asked.given else replace(fit, gamma=None))
    memory = MemoryLimit.of(compute.max_memory, out.parent)
    holding = replace(with_standardize(table, asked), memory=memory)
    about = f"{holding.party}: eigenpairs of its kernel matrix"
    with progress(about):
        asked_for = summary_question(fit, {holding.party: chosen}, holding.party, 0)
        summary, kept = holdings.summarize(holding, asked_for, out, state=state_path, device=compute.device)
    prepared = preparation_of(kept)
    notes = [*prepared.notes, *_left_by_limit(summary, kept), *about_columns(replace(kept, columns=prepared.names))]
    within, verdict = may_send(kept.recovery)
    result = {
        "party": summary.party,
        "kernel": summary.kernel.to_dict(),
        "n_samples": summary.n_samples,
        "n_features": summary.n_features,
        "rank": summary.rank,
        "bytes": wire.size(summary),
        "bytes_raw": summary.bytes_raw,
        "share_sent": share_sent(summary),
        "decided": kept.decided,
        "recovery": recovery_facts(kept.recovery),
        "may_send": within,
        "out": str(out),
        "state": None if state_path is None else str(state_path),
        "standardize": holding.reading.standardize,
        "notes": notes,
    }
    units = "standardized" if holding.reading.standardize else "in their own units"
    said = [f"note: {note}" for note in notes]
    show(as_json, result, [*said, *_summary_words(summary, units, kept, out, state_path), verdict])


def _summary_words(summary: Summary, units: str, kept: PartyState, out: Path, state: Path | None) -> list[str]:
    size, raw = wire.size(summary), summary.bytes_raw
    why = kept.decided
    for rule, words_for_it in WHY.items():
        why = re.sub(rule, words_for_it, why)
    words = [
        f"{summary.party}: {summary.n_samples:,} samples, {summary.n_features:,} columns {units} -> rank "
        f"{summary.rank}, {in_bytes(size)} (the raw columns: {in_bytes(raw)}); {share_sent(summary):.1%} of its "
        "kernel matrix",
        f"  rank {summary.rank}, {why}",
        *([] if kept.recovery is None else [f"  {kept.recovery.sentence()}"]),
        f"  send  {out}   (what it discloses: dkpca inspect {out})",
    ]
    if state is not None:
        words.append(f"  keep  {state}   (private: it contains data)")
    if size > raw:
        smaller = f"; a rank below {summary.n_features} would make it smaller" * (summary.rank >= summary.n_features)
        words.append(f"note: the message is larger than the raw columns{smaller}")
    return words


def _left_by_limit(summary: Summary, kept: PartyState) -> list[str]:
    """Say what a limit on recovery has left of the party's matrix, if that limit decided."""
    if not kept.decided.startswith(f"{Recovery.__name__}("):
        return []
    alike = summary.rank == 1 and summary.kernel.unit_diagonal
    little = " It is nearly the same for all samples; this party will hardly influence the result." if alike else ""
    return [
        f"to stay within the recovery limit, only rank {summary.rank} is sent ({share_sent(summary):.1%} of the "
        f"kernel matrix).{little} A study with --protect sums or blind sends everything and reveals less"
    ]
