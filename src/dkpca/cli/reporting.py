"""The command that draws a result, at the center or at a party."""

from pathlib import Path
from typing import Annotated

import typer

from dkpca.analysis.outcomes import words
from dkpca.cli import options as o
from dkpca.cli.output import at_work, show
from dkpca.cli.table_options import at_hand
from dkpca.store import storage
from dkpca.tables.reading import Reading
from dkpca.wording import in_bytes

NAMES, PAGE = "Your own ids and columns", "The page"


def report(
    path: Annotated[Path, typer.Argument(help="A run, the folder DIR/result of a study, scores or an embedding.")],
    labels: Annotated[Path | None, o.option("--labels", "Table of labels to color the samples by.", NAMES)] = None,
    label: Annotated[
        list[str] | None, o.option("--label", "Columns of --labels; the first colors (default: all).", NAMES)
    ] = None,
    id_column: Annotated[str | None, o.option("--id", "Id column of --table and of --labels.", NAMES)] = None,
    label_id: Annotated[str | None, o.option("--label-id", "Id column of --labels, if another.", NAMES)] = None,
    table: Annotated[
        Path | None, o.option("--table", "A party's table or party.toml, to relate components to columns.", NAMES)
    ] = None,
    new: Annotated[list[Path] | None, o.option("--new", "Folder of new samples, such as RUN/new.", PAGE)] = None,
    title: Annotated[str | None, o.option("--title", "Title (default: the name of the directory).", PAGE)] = None,
    out: Annotated[Path | None, o.option("--out", "Page to write (default: report.html beside it).", PAGE)] = None,
    as_json: o.AsJson = False,
) -> None:
    """Write an HTML page that works offline: a map of the samples, the certificate, the parties and the settings.

    A party adds its own ids, labels and columns to the result that it received; the center never sees them.

    Example: `dkpca report airline/result --table airline.csv --labels airline.csv --id flight --label carrier`
    """
    from dkpca.report.content import assemble
    from dkpca.report.page import POINTS, render

    own = None if table is None else at_hand(table, None, id_column)
    known = Reading(id_column) if own is None else own.reading
    target = out or (path / "report.html" if path.is_dir() else path.with_suffix(".html"))
    storage.check_writable(target, "a page", b"<!doctype html>")
    at_work("drawing")
    about = Reading(label_id or known.id_column, columns=o.column_names(label), id_normalize=known.id_normalize)
    own_table = None if own is None else own.path
    content = assemble(path, table=own_table, how=known, labels=labels, how_labels=about, new=new or (), title=title)
    page = render(content, points=POINTS).encode()
    storage.write(target, page, private=True)
    columns = [] if content.labels is None else content.labels.frame.columns
    top = [] if content.own is None else [content.own.top(values, 5) for values in content.own.correlations.T]
    outcomes = {found.samples: words(found) for found in content.outcomes}
    lines = [f"note: {note}" for note in content.notes]
    if columns:
        lines.append(f"note: the page contains these columns, for every sample: {', '.join(columns)}")
    for d, found in enumerate(top[:3]):
        told = ", ".join(f"{name} ({value:+.2f})" for name, value in found[:4])
        lines.append(f"component {d + 1} is associated with {told}")
    lines += [f"{samples}: {each}" for samples, said in outcomes.items() for each in said]
    result = {"out": str(target), "bytes": len(page), "label_columns": columns, "notes": list(content.notes)}
    said = f"wrote {target} ({in_bytes(len(page))}); open it in a browser"
    show(as_json, result | {"outcomes": outcomes, "top_columns": top}, [*lines, said])
