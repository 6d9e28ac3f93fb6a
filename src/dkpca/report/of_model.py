"""The page of a fitted model: the run that the commands would have written is written for a moment, and drawn."""

import tempfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import polars as pl

from dkpca import messages, wire
from dkpca.errors import InputError
from dkpca.fusion import FusedModel
from dkpca.report.content import Wanted, assemble
from dkpca.report.page import render
from dkpca.store import runs, storage
from dkpca.tables.reading import Reading

ID = "sample"
POINTS = 100_000  # samples to draw, at most


def write(
    path: Path,
    model: FusedModel,
    sample_ids: Any,
    labels: Any,
    *,
    survival: tuple[str, str] | None = None,
    title: str | None = None,
    in_fit: Collection[str] = (),
) -> None:
    """Write the page of a model; `labels` has a value for each of the samples, or an index that names them."""
    names = [str(label) for label in sample_ids]
    digests = {summary.sample_digest for summary in model.summaries.values()}
    known = names if messages.digest(names) in digests else None  # else the parties numbered their rows
    with tempfile.TemporaryDirectory() as folder:
        sent = {Path(folder, f"{name}.summary"): wire.encode(s) for name, s in model.received.items()}
        storage.write_all(sent)
        run = runs.fuse(Path(folder, "run"), sent, model=model, sample_names=known)
        table = None if labels is None else Path(folder, "labels.parquet")
        if table is not None:
            _frame(labels, names, list(run.sample_names)).write_parquet(table)
        wanted = Wanted(
            run.path,
            labels=table,
            label_columns=() if table is None else tuple(map(str, labels)),
            how_labels=Reading(ID),
            title=title or "Kernel principal components",
            survival=survival,
            in_fit=in_fit,
        )
        storage.write(path, render(assemble(wanted), points=POINTS).encode())


def _frame(labels: Any, names: list[str], shown: list[str]) -> pl.DataFrame:
    """Labels by the names that the run has for its samples."""
    if hasattr(labels, "iloc") and not set(map(str, labels.index)).isdisjoint(names):
        own = {str(label): row for row, label in enumerate(labels.index)}
        lacking = [name for name in names if name not in own]
        if lacking:
            raise InputError(f"labels have no row for {len(lacking):,} samples, such as {lacking[0]!r}")
        labels = labels.iloc[[own[name] for name in names]]
    columns = {str(name): list(labels[name]) for name in labels}
    wrong = [name for name, values in columns.items() if len(values) != len(names)]
    if wrong:
        raise InputError(f"label {wrong[0]!r} has {len(columns[wrong[0]])} values for {len(names)} samples")
    return pl.DataFrame({ID: shown} | columns, strict=False)
