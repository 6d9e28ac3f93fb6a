"""Commands for the center: messages in, components out."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dkpca.cli import options as o
from dkpca.cli.options import GivenSettings
from dkpca.cli.output import at_work, show, table
from dkpca.cli.table_options import at_hand
from dkpca.errors import InputError
from dkpca.fusion.scoring import about_kernel
from dkpca.linalg.arrays import MemoryLimit
from dkpca.messages import Summary
from dkpca.store import runs
from dkpca.store.files import receive
from dkpca.store.runs import Run
from dkpca.wording import counted, in_bytes

# Settings that are a party's, or that files by mail have no step for.
NOT_HERE = (
    "kernel", "gamma", "degree", "coef0", "rank", "precision", "protect", "projection", "audit", "standardize",
    "lacking", "n_jobs", "timeout",
)  # fmt: skip


@o.takes_settings(skip=NOT_HERE)
def fuse(
    asked: GivenSettings,
    out: Annotated[Path, typer.Option("--out", help="Run directory to create or update.")],
    paths: Annotated[
        list[Path] | None, typer.Argument(help="All summaries; with --keep, only new ones.", show_default=False)
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the summaries that the run already has.")] = False,
    roster: Annotated[str | None, o.option("--roster", "Required parties, with commas (default: all given).")] = None,
    without: Annotated[list[str] | None, o.option("--without", "Leave this party out from now on.")] = None,
    ids: Annotated[Path | None, o.option("--ids", "Table of the sample ids, with --id; or a party.toml.")] = None,
    id_column: Annotated[str | None, o.option("--id", "Id column of the --ids table.")] = None,
    as_json: o.AsJson = False,
) -> None:
    """Turn the parties' summaries into kernel principal components, in a run directory.

    To add or replace a party, run fuse again with --keep and that party's summary. Without files, fuse
    uses the summaries in the directory. Components, law, weights and centering default to those of the previous run.

    Example: `dkpca fuse airline.summary weather.summary --components 10 --out run/`
    """
    received = [receive(path, Summary) for path in paths or []]
    names = [item.message.party for item in received] + runs.parties_in(out)
    fit, compute, given = asked.fit(names), asked.compute, asked.given
    named_by = None if ids is None else at_hand(ids, None, id_column)
    if named_by is not None and named_by.reading.id_column is None:
        raise InputError(f"--ids {ids}: name its id column with --id")
    at_work("fusing")
    run = runs.fuse(
        out,
        received,
        **{name: getattr(fit, name) for name in ("n_components", "center", "law", "weights") if name in given},
        solver=fit.solver,
        n_landmarks=fit.n_landmarks,
        random_state=fit.seed,
        roster=o.column_names([roster] if roster else None),
        without=without or (),
        keep=keep,
        sample_names=None if named_by is None else named_by.ids(),
        id_normalize=() if named_by is None else named_by.reading.id_normalize,
        device=compute.device,
        memory=MemoryLimit.of(compute.max_memory, out.parent),
    )
    show(as_json, run_facts(run), run_words(run))


def run_facts(run: Run) -> dict[str, object]:
    """Return what a script wants to know of a run."""
    return {
        "out": str(run.path),
        **run.settings,
        "explained_variance_ratio": [float(value) for value in run.model.explained_variance_ratio],
        "warnings": about_kernel(run.model),
        "certificate": run.model.certificate.to_dict(),
    }


def run_words(run: Run) -> list[str | Table]:
    """Return the run for a reader."""
    model, sent = run.model, run.settings["parties"]
    rows = [
        [name, f"{s.n_features:,}", str(s.rank), in_bytes(sent[name]["bytes_sent"]), in_bytes(s.bytes_raw)]
        for name, s in model.received.items()
    ]
    ratio = float(sum(model.explained_variance_ratio))
    title = f"{model.n_samples:,} samples, {counted(model.n_components, 'component')}, {ratio:.1%} of the variance"
    lines: list[str | Table] = [table(title, ["party", "columns", "rank", "sent", "raw columns"], rows)]
    lines += model.certificate.short()
    lines += [f"warning: {sentence}" for sentence in about_kernel(model)]
    if model.is_blind:
        return [*lines, f"wrote {run.path}; its rows are rotated samples, which only the parties can rotate back"]
    if run.settings["sample_names"] == runs.ROW_NUMBERS:
        lines.append("note: samples are numbered by row; name them with --id (fit) or --ids (fuse)")
    return [*lines, f"wrote {run.path}; look at it with: dkpca report {run.path}"]
