"""From what a person asks for to what goes into a page."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dkpca.errors import InputError
from dkpca.report.clusters import cluster_columns
from dkpca.report.comparison import compare
from dkpca.report.content import Content
from dkpca.report.label_columns import LabelTable, read_labels
from dkpca.report.own_columns import OwnColumns, own_columns
from dkpca.report.sources import Source, read_new, read_source, with_own_ids
from dkpca.tables import reading
from dkpca.tables.reading import Reading

PLAIN = Reading()
TURNED = "the samples are turned by a secret of the parties: a point is no sample; a party draws its own report"


@dataclass(frozen=True)
class Wanted:
    """What to draw, and with whose ids, labels and columns.

    Parameters
    ----------
    path : Path
        A run, a party's result folder, a message of scores, or an embedding.
    labels : Path, optional
        Table with labels; `label_columns` of it go into the page, all if none is named.
    table : Path, optional
        A party's own table: its columns are correlated with the components.
    how, how_labels : Reading
        How tables are read: the column with the sample ids, how ids are made alike, how files are written. That of
        labels may be another.
    new, new_tables : sequence of Path
        New samples, and a party's own tables of them.
    other : Path, optional
        Another run to compare with.
    clusters : str
        See `clusters.cluster_columns`.
    title : str, optional
        Headline; else the name of the directory.
    """

    path: Path
    labels: Path | None = None
    label_columns: Sequence[str] = ()
    table: Path | None = None
    how: Reading = PLAIN
    how_labels: Reading = PLAIN
    new: Sequence[Path] = ()
    new_tables: Sequence[Path] = ()
    other: Path | None = None
    clusters: str = "auto"
    title: str | None = None


def assemble(wanted: Wanted) -> Content:
    """Read everything, name the samples as the reader does, and compute what the page shows."""
    _check(wanted)
    source = read_source(wanted.path)
    other = None if wanted.other is None else read_source(wanted.other)
    notes: list[str] = [TURNED] if source.run is not None and source.run.model.is_blind else []
    own_table, how = (wanted.table, wanted.how) if wanted.table else (wanted.labels, wanted.how_labels)
    if own_table is not None:
        source, said = _named(source, own_table, how)
        notes += [said] if said else []
        other = None if other is None else _named(other, own_table, how)[0]
    new = _new_samples(wanted, source.scores.shape[1])
    labels, own = _labels(wanted, source, notes), _own_columns(wanted, source, notes)
    return Content(
        source,
        wanted.title or source.title,
        labels=labels,
        clusters=cluster_columns(source.scores, wanted.clusters),
        new=new,
        own=own,
        comparison=None if other is None else compare(source, other),
        notes=list(dict.fromkeys(notes)),  # the table of labels may be the party's own
    )


def _named(source: Source, table: Path, how: Reading) -> tuple[Source, str]:
    ways = how.id_normalize
    ids = reading.read_ids(table, how.id_column or "", how.dialect, ways)
    return with_own_ids(source, ids, table=table, ways=ways)


def _new_samples(wanted: Wanted, n_components: int) -> list[Source]:
    found = [read_new(path, n_components) for path in wanted.new]
    if not wanted.new_tables:
        return found
    return [_named(part, table, wanted.how)[0] for part, table in zip(found, wanted.new_tables, strict=True)]


def _labels(wanted: Wanted, source: Source, notes: list[str]) -> LabelTable | None:
    if wanted.labels is None:
        return None
    found = read_labels(wanted.labels, wanted.how_labels, wanted.label_columns)
    notes += [f"columns of {wanted.labels.name}: {words}" for words in found.notes]
    notes += found.check_match(source.names, source.path)
    return found


def _own_columns(wanted: Wanted, source: Source, notes: list[str]) -> OwnColumns | None:
    if wanted.table is None:
        return None
    found = own_columns(wanted.table, wanted.how, source.names, source.scores)
    notes += [f"columns of {wanted.table.name}: {note}" for note in found.notes]
    return found


def _check(wanted: Wanted) -> None:
    """Refuse what does not go together, before anything is read."""
    tables = [table for table in (wanted.table, *wanted.new_tables) if table is not None]
    if tables and wanted.how.id_column is None:
        raise InputError(f"{tables[0]}: name its column with the sample ids with --id")
    if wanted.labels is not None and wanted.how_labels.id_column is None:
        raise InputError(f"{wanted.labels}: name its column with the sample ids with --id, or with --label-id")
    if wanted.label_columns and wanted.labels is None:
        raise InputError(f"--label {wanted.label_columns[0]!r}: of which table? Give it with --labels")
    if wanted.new_tables and len(wanted.new_tables) != len(wanted.new):
        raise InputError(
            f"{len(wanted.new_tables)} --new-table for {len(wanted.new)} --new; give one for each, in the same order"
        )
