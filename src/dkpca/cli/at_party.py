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
from dkpca.cli.output import at_work, show
from dkpca.cli.table_options import reads_table, with_standardize
from dkpca.errors import InputError
from dkpca.exchange import holdings
from dkpca.exchange.holdings import Holding
from dkpca.exchange.protocols import summary_question
from dkpca.exchange.steps import kernel_of
from dkpca.linalg.arrays import MemoryLimit
from dkpca.party.disclosure import share_sent
from dkpca.party.summaries import about_columns
from dkpca.store import storage
from dkpca.tables.preparation import preparation_of
from dkpca.wording import in_bytes

# The center's settings, or a study's.
NOT_HERE = ("weights", "n_landmarks", "protect", "audit", "lacking", "n_jobs", "timeout")
WHY = {
    r"Fixed\(.*?\)": "as you asked",
    r"Auto\(.*?\)": "chosen automatically",
    r"Recovery\(.*?\)": "to stay within the recovery limit",
    r"Adaptive\(epsilon=(.*?), .*?\)": r"for all eigenvalues above epsilon = \1",
    r"Budget\(bytes=(\d+), .*?\)": r"to stay within \1 bytes",
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
    as_json: o.AsJson = False,
) -> None:
    """Compute the one message that a party sends to the center.

    Writes two files: the message, which goes to the center, and the party's private state, which stays with the
    party and is needed only to place new samples later. To control how the table is read, write a party.toml with
    'dkpca check TABLE --write party.toml'.

    A party does not see the other tables, so give --gamma as a number on which all parties have agreed.

    Example: `dkpca summarize airline.csv --id flight --gamma 0.006 --rank 40 --out airline.summary`
    """
    state = out.with_suffix(".state")
    if len({file.resolve() for file in (table.path, out, state)}) < 3:
        raise InputError(f"{out}: the table, the message and {state} need a file each; choose another --out")
    for file in (out, state):
        storage.check_writable(file, *storage.DKPCA_FILE)
    fit, compute = asked.fit([table.party]), asked.compute
    chosen = kernel_of(fit if "gamma" in asked.given else replace(fit, gamma=None))
    memory = MemoryLimit.of(compute.max_memory, out.parent)
    holding = replace(with_standardize(table, asked), memory=memory)
    at_work(f"{holding.party}: eigenpairs of its kernel matrix")
    asked_for = summary_question(fit, {holding.party: chosen}, holding.party, 0)
    summary, kept = holdings.summarize(holding, asked_for, out, state=state, device=compute.device)
    prepared = preparation_of(kept)
    notes = [*prepared.notes, *about_columns(replace(kept, columns=prepared.names))]
    within, verdict = may_send(kept.recovery)
    result = {name: getattr(summary, name) for name in ("party", "n_samples", "n_features", "rank", "bytes_raw")}
    result |= {
        "kernel": summary.kernel.to_dict(),
        "bytes": wire.size(summary),
        "share_sent": share_sent(summary),
        "decided": kept.decided,
        "recovery": recovery_facts(kept.recovery),
        "may_send": within,
        "out": str(out),
        "state": str(state),
        "standardize": holding.reading.standardize,
        "notes": notes,
    }
    units = "standardized" if holding.reading.standardize else "in their own units"
    size, raw, why = wire.size(summary), summary.bytes_raw, kept.decided
    for rule, words_for_it in WHY.items():
        why = re.sub(rule, words_for_it, why)
    words = [
        f"{summary.party}: {summary.n_samples:,} samples, {summary.n_features:,} columns {units} -> rank "
        f"{summary.rank}, {in_bytes(size)} (the raw columns: {in_bytes(raw)}); {share_sent(summary):.1%} of its "
        "kernel matrix",
        f"  rank {summary.rank}, {why}",
        *([] if kept.recovery is None else [f"  {kept.recovery.sentence()}"]),
        f"  send  {out}   (what it discloses: dkpca inspect {out})",
        f"  keep  {state}   (private: it contains data)",
        *(["note: the message is larger than the raw columns"] if size > raw else []),
    ]
    show(as_json, result, [*(f"note: {note}" for note in notes), *words, verdict])
