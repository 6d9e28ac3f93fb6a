"""The command that tries settings."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.table import Table

from dkpca.cli import options as o
from dkpca.cli.on_one_machine import Tables
from dkpca.cli.options import GivenSettings
from dkpca.cli.output import at_work, show
from dkpca.cli.output import table as as_table
from dkpca.cli.table_options import Ids, holdings_of
from dkpca.errors import InputError
from dkpca.exchange.holdings import Holding
from dkpca.exchange.processes import matched_samples
from dkpca.tables.reading import Reading

if TYPE_CHECKING:
    from dkpca.report.tuning import Choice, Tuning

PANEL = "On one machine"
LABELS, TRIED = "Labels", "What to try"
# Tried, or not needed.
NOT_HERE = ("gamma", "rank", "protect", "audit", "lacking", "n_jobs", "timeout", "device", "max_memory")


@o.takes_settings("n_components", "kernel", "law", "weights", skip=NOT_HERE)
def tune(
    sources: Tables,
    asked: GivenSettings,
    ids: Ids = None,
    labels: Annotated[Path | None, o.option("--labels", "Table with the label to predict.", LABELS)] = None,
    label: Annotated[str | None, o.option("--label", "Label column (default: the only one).", LABELS)] = None,
    label_id: Annotated[
        str | None, o.option("--label-id", "Id column of --labels (default: as in the first table).", LABELS)
    ] = None,
    folds: Annotated[
        int, typer.Option("--folds", min=2, help="Number of folds of the cross-validation.", rich_help_panel=LABELS)
    ] = 5,
    gammas: Annotated[
        str | None,
        o.option(
            "--gammas", "Values of gamma to try, separated by commas (default: from 1/64 to 4 times 'scale').", TRIED
        ),
    ] = None,
    samples: Annotated[
        int, typer.Option("--samples", min=20, help="Maximum number of samples to use.", rich_help_panel=TRIED)
    ] = 500,
    repeats: Annotated[
        int,
        typer.Option("--repeats", min=1, help="Number of splits into halves, for stability.", rich_help_panel=TRIED),
    ] = 3,
    as_json: o.AsJson = False,
) -> None:
    """Help choose gamma, the number of components and weights; needs all tables on one machine.

    For each candidate, it shows the share of the variance captured, the stability (agreement between two halves of
    the samples) and, with --labels, how well held-out labels are predicted. Nothing is sent to anyone.

    Example: `dkpca tune airline.csv weather.csv --id flight --labels labels.csv --label zone`
    """
    from dkpca.estimator import DKPCA
    from dkpca.report.tuning import tune as explore

    holdings = holdings_of(sources, ids, asked)
    given, names, notes = matched_samples(holdings, None)
    settings = asked.fit(list(given.tables), standardize=False)
    y, about_labels = (None, []) if labels is None else _labels(labels, label, label_id, holdings[0], names)
    columns = {name: table(settings.family_of(name).columns_are) for name, table in given.tables.items()}
    said = [f"{name}: {note}" for name, table in given.tables.items() for note in table.preparation["notes"]]
    model = DKPCA(**{each.name: getattr(settings, each.name) for each in fields(settings)})
    at_work("trying settings")
    found = explore(
        model, columns, y, gammas=_numbers("--gammas", gammas), max_samples=samples, repeats=repeats, folds=folds
    )
    notes = [*notes, *said, *about_labels, *found.notes]
    show(as_json, found.to_dict() | {"notes": notes}, [*(f"note: {note}" for note in notes), *_words(found)])


def _labels(
    path: Path, label: str | None, label_id: str | None, first: Holding, samples: Sequence[str] | None
) -> tuple[Any, list[str]]:
    """Label of each sample that takes part, None where there is none."""
    from dkpca.report.columns import check_id_column, read_labels

    if samples is None:
        raise InputError("labels are matched by sample id; name the id column with --id")
    how = Reading(label_id or first.reading.id_column, id_normalize=first.reading.id_normalize)
    check_id_column(path, how)
    table = read_labels(path, how, [label] if label else [])
    if len(table.frame.columns) != 1:
        raise InputError(f"{path}: which of its columns {table.frame.columns} is the label? Name it with --label")
    notes = [f"labels: {note}" for note in (*table.notes, *table.check_match(samples, first.path))]
    return np.array(table.values(samples)[table.frame.columns[0]], dtype=object), notes


def _numbers(flag: str, given: str | None) -> list[float] | None:
    if given is None:
        return None
    try:
        return [float(item) for item in o.column_names([given])]
    except ValueError as error:
        raise InputError(f"{flag} is {given!r}; give numbers separated by commas") from error


def _words(found: "Tuning") -> list[str | Table]:
    from dkpca.report.tuning import TABLES, chosen

    head = ["", "captured", "stability", *(["score"] if found.scored_by else []), ""]
    lines: list[str | Table] = [found.scored_by] if found.scored_by else []
    if found.n_samples < found.n_samples_given:
        lines.append(f"tried on {found.n_samples:,} of {found.n_samples_given:,} samples; --samples takes more")
    for name, title in TABLES.items():
        choices = getattr(found, name)
        best = chosen(choices, found.suggested)
        rows = [[choice.name, *_judged(choice), "<- suggested" if choice is best else ""] for choice in choices]
        lines += [as_table(title, head, rows)] if rows else []
        lines += sorted({f"{title} {choice.name}: {words}" for choice in choices for words in choice.warnings})
    flags = {"components" if key == "n_components" else key: value for key, value in found.suggested.items()}
    given = " ".join(f"--{name} {value}" for name, value in flags.items() if value is not None)
    return [*lines, f"suggested: {given}; a suggestion, not a proof"]


def _judged(choice: "Choice") -> list[str]:
    score = [] if choice.score is None else [f"{choice.score:.3f} ± {choice.score_error:.3f}"]
    return [f"{choice.captured:.1%}", f"{choice.stability:.2f}", *score]
