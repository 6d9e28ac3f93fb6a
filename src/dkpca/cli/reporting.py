"""The command that draws a result, at the center or at a party."""

from pathlib import Path
from typing import Annotated, Any

import typer

from dkpca.cli import options as o
from dkpca.cli.output import progress, show
from dkpca.errors import InputError
from dkpca.messages import CommonTokens
from dkpca.store import message_files, storage
from dkpca.tables import reading
from dkpca.wording import in_bytes

PANEL = "Look at a result"
NAMES, MORE, PAGE = "Your own ids and columns", "More to see", "The page"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("report", rich_help_panel=PANEL)(report)


def report(
    path: Annotated[
        Path,
        typer.Argument(
            help="A run directory; or what a party received: its folder runs/RUN, a message of scores, an embedding.",
            show_default=False,
        ),
    ],
    labels: Annotated[
        Path | None,
        typer.Option("--labels", help="Table with labels of the samples, to color by.", rich_help_panel=NAMES),
    ] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(
            "--label",
            help="Columns of --labels that go into the page, the first to begin with; else all, if they are few.",
            rich_help_panel=NAMES,
        ),
    ] = None,
    id_column: Annotated[
        str | None,
        typer.Option("--id", help="Column with the sample ids in --labels and --table.", rich_help_panel=NAMES),
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(
            "--table", help="A party's own table: what each component means in its columns.", rich_help_panel=NAMES
        ),
    ] = None,
    correlations: Annotated[
        Path | None,
        typer.Option(
            "--correlations",
            help="File for all correlations of --table with the components (.csv or .json).",
            rich_help_panel=NAMES,
        ),
    ] = None,
    align: Annotated[
        Path | None,
        typer.Option(
            "--align", help="The center's answer to 'align', for a message of scores.", rich_help_panel=NAMES
        ),
    ] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file", help="The parties' key, where samples are named by tokens.", rich_help_panel=NAMES
        ),
    ] = None,
    new: Annotated[
        list[Path] | None,
        typer.Option("--new", help="New samples to draw too: a directory of 'project'.", rich_help_panel=MORE),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", help="Another run about the same samples.", rich_help_panel=MORE),
    ] = None,
    clusters: Annotated[
        str,
        typer.Option(
            "--clusters",
            help="Groups on the scores: 'auto' (k-means and HDBSCAN), 'hdbscan', 'none', or a number for k-means.",
            rich_help_panel=MORE,
        ),
    ] = "auto",
    points: Annotated[
        int, typer.Option("--points", min=10, help="Most samples to draw.", rich_help_panel=PAGE)
    ] = 100_000,
    title: Annotated[
        str | None, typer.Option("--title", help="Headline; else the name of the directory.", rich_help_panel=PAGE)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Page to write; else report.html in the directory.", rich_help_panel=PAGE),
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Draw a result as one page that works offline: samples to explore, certificate, parties, settings.

    A party draws what it received with its own ids, labels and columns; the center never has them.

    Example: `dkpca report airline/runs/first --table airline.csv --labels airline.csv --id flight --label carrier`
    """
    from dkpca.report.clusters import cluster_columns
    from dkpca.report.comparison import compare as compared
    from dkpca.report.content import Content
    from dkpca.report.label_columns import read_labels
    from dkpca.report.own_columns import own_columns
    from dkpca.report.page import render
    from dkpca.report.sources import read_new, read_source

    source, notes = read_source(path), []
    other = None if compare is None else read_source(compare)
    chosen = o.column_names(label)
    if label and labels is None:
        raise InputError(f"--label {chosen[0]!r}: is a column of which table? Give it with --labels")
    if correlations is not None and table is None:
        raise InputError(f"--correlations {correlations}: of which columns? Give your table with --table")
    own_table = table or labels
    if own_table is not None:
        source, said = _named(source, own_table, id_column, key_file, align)
        notes += [said] if said else []
        other = None if other is None else _named(other, own_table, id_column, key_file, align)[0]
    target = out or source.page
    for file in (target, correlations):
        if file is not None:
            _check_target(file, labels, table)
    new_sources = [read_new(place, source.scores.shape[1]) for place in new or ()]
    with progress("drawing"):
        known = None if labels is None else read_labels(labels, _id(labels, id_column), chosen)
        own = None
        if table is not None:
            own = own_columns(table, _id(table, id_column), source.names, source.scores)
            notes += [f"columns of {table.name}: {note}" for note in own.notes]
        notes += [] if known is None else [f"columns of {known.path.name}: {words}" for words in known.left_out]
        page = render(
            Content(
                source,
                title or source.title,
                labels=known,
                clusters=cluster_columns(source.scores, clusters),
                new=new_sources,
                own=own,
                comparison=None if other is None else compared(source, other),
                notes=notes,
            ),
            points=points,
        ).encode()
    written = {target: page}
    if own is not None and correlations is not None:
        written[correlations] = own.as_file(correlations)
    storage.write_all(written)
    _tell(target, page, known, own, notes, correlations, as_json)


def _named(source: Any, table: Path, id_column: str | None, key_file: Path | None, align: Path | None) -> Any:
    from dkpca.report.sources import with_own_ids

    ids = reading.read_ids(table, _id(table, id_column))
    key = o.key(key_file) if key_file is not None or align is not None else None
    common = None if align is None else message_files.read(align, CommonTokens)
    return with_own_ids(source, ids, table=table, key=key, common=common)


def _id(table: Path, id_column: str | None) -> str:
    if id_column is None:
        raise InputError(f"{table}: name its column with the sample ids with --id")
    return id_column


def _check_target(file: Path, *tables: Path | None) -> None:
    """Find out before any work whether the file can be written, and is not one that was given."""
    if any(table is not None and table.resolve() == file.resolve() for table in tables):
        raise InputError(f"{file}: is a table that was given; choose another --out")
    storage.check_writable(file)


def _tell(
    target: Path, page: bytes, labels: Any, own: Any, notes: list[str], correlations: Path | None, as_json: bool
) -> None:
    columns = [] if labels is None else labels.frame.columns
    result: dict[str, Any] = {"out": str(target), "bytes": len(page), "label_columns": columns, "notes": notes}
    lines = [f"note: {note}" for note in notes]
    if columns:
        lines.append(f"columns that the page holds, for every sample: {', '.join(columns)}")
    if own is not None:
        result["top_columns"] = [own.top(d, 5) for d in range(own.correlations.shape[1])]
        for d, top in enumerate(result["top_columns"][:3]):
            words = ", ".join(f"{name} ({value:+.2f})" for name, value in top[:4])
            lines.append(f"component {d + 1} goes with {words}")
    if correlations is not None:
        lines.append(f"wrote {correlations}")
    show(as_json, result, [*lines, f"wrote {target} ({in_bytes(len(page))}); open it in a browser"])
