"""The command that draws a result, at the center or at a party."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from dkpca.analysis.outcomes import words
from dkpca.cli import options as o
from dkpca.cli.output import at_work, show
from dkpca.cli.table_options import at_hand
from dkpca.errors import InputError
from dkpca.store import storage
from dkpca.tables.reading import Reading
from dkpca.wording import in_bytes

PANEL = "Look at a result"
NAMES, MORE, PAGE = "Your own ids and columns", "New samples and survival", "The page"


def report(
    path: Annotated[
        Path,
        typer.Argument(
            help="A run directory, the folder DIR/result of a study, a .scores file, or an embedding.",
            show_default=False,
        ),
    ],
    labels: Annotated[
        Path | None, o.option("--labels", "Table with labels of the samples, to color by.", NAMES)
    ] = None,
    label: Annotated[
        list[str] | None,
        o.option(
            "--label",
            "Columns of --labels to put on the page; the first one sets the initial color (default: all).",
            NAMES,
        ),
    ] = None,
    id_column: Annotated[
        str | None, o.option("--id", "Column with the sample ids in --table, and in --labels.", NAMES)
    ] = None,
    label_id: Annotated[
        str | None, o.option("--label-id", "Column with the sample ids in --labels, if it has another name.", NAMES)
    ] = None,
    table: Annotated[
        Path | None,
        o.option("--table", "A party's own table or party.toml, to relate each component to its columns.", NAMES),
    ] = None,
    new: Annotated[
        list[Path] | None,
        o.option("--new", "Folder of new samples to draw as well, such as new/ in a run directory.", MORE),
    ] = None,
    new_table: Annotated[
        list[Path] | None,
        o.option("--new-table", "Your table of those new samples, with their ids; one for each --new.", MORE),
    ] = None,
    survival: Annotated[
        str | None,
        typer.Option(
            "--survival",
            help="Show survival by cluster: columns of --labels with times and events (0 or 1), as TIME,EVENT.",
            rich_help_panel=MORE,
        ),
    ] = None,
    points: Annotated[
        int, typer.Option("--points", min=10, help="Maximum number of samples to draw.", rich_help_panel=PAGE)
    ] = 100_000,
    title: Annotated[
        str | None, o.option("--title", "Page title (default: the name of the directory).", PAGE)
    ] = None,
    out: Annotated[
        Path | None, o.option("--out", "Page to write (default: report.html in the directory, or FILE.html).", PAGE)
    ] = None,
    as_json: o.AsJson = False,
) -> None:
    """Write an HTML page that works offline: a map of the samples, the certificate, the parties and the settings.

    A party adds its own ids, labels and columns to the result that it received; the center never sees them.

    Example: `dkpca report airline/result --table airline.csv --labels airline.csv --id flight --label carrier`
    """
    from dkpca.report.content import Wanted, assemble, page_beside
    from dkpca.report.page import render

    own = None if table is None else at_hand(table, None, id_column)
    known, table = (Reading(id_column), None) if own is None else (own.reading, own.path)
    target = out or page_beside(path)
    storage.check_writable(target, "a page", b"<!doctype html>")
    wanted = Wanted(
        path,
        labels=labels,
        label_columns=o.column_names(label),
        table=table,
        how=known,
        how_labels=Reading(label_id or known.id_column, id_normalize=known.id_normalize),
        new=new or (),
        new_tables=new_table or (),
        title=title,
        survival=_pair(survival),
    )
    at_work("drawing")
    content = assemble(wanted)
    page = render(content, points=points).encode()
    storage.write(target, page, private=True)
    columns = [] if content.labels is None else content.labels.frame.columns
    top = [] if content.own is None else [content.own.top(values, 5) for values in content.own.correlations.T]
    result = {"out": str(target), "bytes": len(page), "label_columns": columns, "notes": list(content.notes)}
    outcomes = {found.samples: words(found) for found in content.outcomes}
    said = f"wrote {target} ({in_bytes(len(page))}); open it in a browser"
    show(
        as_json,
        result | {"outcomes": outcomes, "top_columns": top},
        [*_words(content.notes, columns, top), *(f"{of}: {each}" for of in outcomes for each in outcomes[of]), said],
    )


def _pair(given: str | None) -> tuple[str, str] | None:
    if given is None:
        return None
    time, separator, event = given.partition(",")
    if not separator or not time.strip() or not event.strip():
        raise InputError(f"--survival {given!r}: write TIME,EVENT, the names of two columns of --labels")
    return time.strip(), event.strip()


def _words(notes: Sequence[str], columns: Sequence[str], top: Sequence[Sequence[tuple[str, float]]]) -> list[str]:
    """Say what the page was made of, and what it carries."""
    lines = [f"note: {note}" for note in notes]
    if columns:
        lines.append(f"note: the page contains these columns, for every sample: {', '.join(columns)}")
    for d, found in enumerate(top[:3]):
        words = ", ".join(f"{name} ({value:+.2f})" for name, value in found[:4])
        lines.append(f"component {d + 1} is associated with {words}")
    return lines
