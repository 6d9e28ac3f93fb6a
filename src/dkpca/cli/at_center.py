"""Commands for the center: messages in, components out."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from dkpca.cli import options as o
from dkpca.cli.output import progress, show, table
from dkpca.cli.table_options import HOW_IDS, PLAIN, Changed, takes
from dkpca.concerns import about_kernel
from dkpca.disclosure import raw_bytes
from dkpca.errors import InputError
from dkpca.linalg import memory
from dkpca.linalg.rows import computing_on
from dkpca.store import runs
from dkpca.store.runs import Run
from dkpca.tables import reading
from dkpca.wording import in_bytes

PANEL = "At the center"
REMEDY = "standardize the columns (--standardize), or take a smaller gamma, such as --gamma scale"

Ids = Annotated[
    Path | None,
    typer.Option("--ids", help="Names for the samples: a table with the ids, whose column --id names."),
]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("fuse", rich_help_panel=PANEL)(fuse)


@takes(*HOW_IDS)
def fuse(
    how: Changed,
    out: Annotated[Path, typer.Option("--out", help="Directory of the run; made, or added to.")],
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="Summaries: all, or with --keep only new and replaced ones.", show_default=False),
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Use the run's summaries of the other parties too.")] = False,
    components: Annotated[
        int | None, typer.Option("--components", min=1, help="Components; else as in the run before, or 10.")
    ] = None,
    center: Annotated[
        bool | None,
        typer.Option(
            "--center/--no-center", help="Center the fused kernel; else as before, or yes.", show_default=False
        ),
    ] = None,
    solver: o.Solver = "auto",
    device: o.Device = None,
    max_memory: o.MaxMemory = None,
    law: o.Law = None,
    weights: o.Weights = "",
    roster: Annotated[
        str, typer.Option("--roster", help="Parties that must be there, separated by commas; else whoever sent.")
    ] = "",
    without: Annotated[list[str] | None, typer.Option("--without", help="Leave this party out from now on.")] = None,
    ids: Ids = None,
    id_column: o.Id = None,
    as_json: o.AsJson = False,
) -> None:
    """Turn the parties' summaries into kernel principal components, in a run directory.

    Run it again with --keep and one more or one replaced summary, and the others are taken from the directory;
    without any file, and a center that was interrupted goes on from what had arrived.

    Example: `dkpca fuse airline.summary weather.summary --components 10 --out run/`
    """
    with progress("fusing"), memory.limited(max_memory, out.parent), computing_on(device):
        run = runs.fuse(
            out,
            paths or [],
            n_components=components,
            center=center,
            solver=solver,
            law=law,
            weights=o.weights(weights),
            roster=[name.strip() for name in roster.split(",") if name.strip()],
            without=without or (),
            keep=keep,
            sample_names=read_names(ids, id_column, how),
            id_normalize=how(PLAIN).id_normalize,
        )
    used = [f"{name}: {known['file']}" for name, known in run.settings["parties"].items()]
    words = [*used, *run_words(run)]
    show(as_json, run_facts(run), words)


def read_names(ids: Path | None, id_column: str | None, how: Changed) -> list[str] | None:
    """Sample names from a table."""
    if ids is None:
        return None
    if id_column is None:
        raise InputError(f"--ids {ids}: name its column with the sample ids with --id")
    wanted = how(PLAIN)
    return reading.read_ids(ids, id_column, wanted.dialect, wanted.id_normalize)


def run_facts(run: Run) -> dict[str, object]:
    """Return what a script wants to know of a run."""
    ratio = [float(value) for value in run.model.explained_variance_ratio]
    return {
        "out": str(run.path),
        **run.settings,
        "explained_variance_ratio": ratio,
        "warnings": about_kernel(run.model, remedy=REMEDY),
        "certificate": run.model.certificate.to_dict(),
        "notes": list(run.notes),
    }


def run_words(run: Run, *, advice: str = "; name them with --ids") -> list[str | Table]:
    """Return the run for a reader."""
    rows = [
        [
            name,
            f"{s.n_features:,}",
            str(s.rank),
            in_bytes(run.settings["parties"][name]["bytes_sent"]),
            in_bytes(raw_bytes(s)),
        ]
        for name, s in run.model.summaries.items()
    ]
    ratio = float(sum(run.model.explained_variance_ratio))
    title = f"{run.settings['n_samples']:,} samples, {run.model.n_components} components, {ratio:.1%} of the variance"
    lines: list[str | Table] = [table(title, ["party", "columns", "rank", "sent", "raw columns"], rows)]
    lines += run.model.certificate.short()
    lines += [f"warning: {sentence}" for sentence in about_kernel(run.model, remedy=REMEDY)]
    lines += [f"note: {note}" for note in run.notes]
    if run.model.is_blind:
        return [*lines, f"wrote {run.path}; its rows are turned samples, which only the parties can turn back"]
    if run.settings["sample_names"] == "row numbers":
        lines.append(f"note: samples are numbered by row{advice}")
    return [*lines, f"wrote {run.path}; look at it with: dkpca report {run.path}"]
