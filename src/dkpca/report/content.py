"""Everything one page shows: from what a person asks for, and whatever holds scores, to what its scripts read."""

import base64
import json
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca import messages
from dkpca.analysis.outcomes import Outcomes, outcomes
from dkpca.errors import InputError, WireError
from dkpca.fusion.scoring import party_shares, some_samples
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import Count, Line, Scores, Share
from dkpca.report.columns import NONE, LabelColumn, LabelTable, OwnColumns, category_column, own_columns, read_labels
from dkpca.store import files, runs, storage
from dkpca.store.runs import RESULT, Run
from dkpca.tables import reading
from dkpca.tables.formats import SUFFIXES
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import Matrix, Reading
from dkpca.wire import codec

EMBEDDINGS = ("embedding.parquet", "embedding.csv")
CERTIFICATE = "certificate.json"  # beside an embedding
PROVED = ("captured_share_at_least", "optimality_at_least")
TOLD = dict.fromkeys((*PROVED, "optimality_estimate"), Share) | {"meaning": Line, "n_parties": Count}
COMPONENT = re.compile(r"component_\d+")
TURNED = "samples are rotated by a secret of the parties: a point is not a sample; each party can draw its own"
FITTED, NEW, OUTSIDE, COMPLETED, NEW_COMPLETED = range(5)
TOP_COLUMNS = 8
MOST_BARS = 30  # components drawn with an error bar
STEPS = 65_535  # a score is told apart to this part of its component's range


@dataclass(frozen=True)
class Source:
    """Samples with their scores, and what is known about where they come from."""

    path: Path
    names: Sequence[str]
    scores: Matrix  # (n_samples, n_components)
    digest: str | None  # of the ordered sample ids, where known
    run: Run | None = None
    told: Mapping[str, Any] = field(default_factory=dict)  # what is proved of the scores, where that came along
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the study that made the scores
    numbered: bool = False  # whether the names are row numbers, because nobody gave the ids of the fit
    outside: Any = False  # (n_samples,) of bool: new samples out of the range of the fit
    completed: Any = False  # (n_samples,) of bool: samples that a party lacks

    @property
    def title(self) -> str:
        """Name for a headline."""
        return self.path.resolve().name if self.path.is_dir() else self.path.resolve().parent.name


def read_source(path: Path) -> Source:
    """Read whatever holds scores."""
    if not (path / runs.SETTINGS).exists():
        return _scores_in(path)
    settings = storage.read_json(path / runs.SETTINGS)
    if isinstance(settings, dict) and "run" in settings:
        raise InputError(f"{path}: holds new samples; draw them with their run: dkpca report RUN --new {path}")
    if isinstance(settings, dict) and "plan" in settings:
        return replace(_scores_in(path), settings=settings)
    return source_of(runs.load(path))


def source_of(run: Run) -> Source:
    """Samples of a run; those that a party lacks are marked."""
    completed = np.zeros(run.model.n_samples, dtype=bool)
    if run.model.lacking is not None:
        for rows in run.model.lacking.rows.values():
            completed[rows] = True
    told, digest = run.model.certificate.to_dict(), run.settings["sample_digest"]
    more: dict[str, Any] = {"numbered": run.settings["sample_names"] == runs.ROW_NUMBERS, "completed": completed}
    return Source(run.path, run.sample_names, _matrix(run.model.scores), digest, run, told, **more)


def read_new(path: Path, fitted: Source) -> Source:
    """Read new samples: the folder new/ of a run, or an embedding."""
    source, n_components = _scores_in(path), fitted.scores.shape[1]
    beside = path / runs.SETTINGS
    stated = storage.read_json(beside) if beside.exists() else {}
    placed_by = stated.get("summaries") if isinstance(stated, dict) else None
    parties = {} if fitted.run is None else fitted.run.settings["parties"]
    if parties and placed_by not in (None, {name: each["summary_id"] for name, each in parties.items()}):
        raise InputError(f"{path}: its samples were placed in another fit than {fitted.path}; place them again")
    if source.scores.shape[1] != n_components:
        found = f"its samples have {source.scores.shape[1]} components and those of the report {n_components}"
        raise InputError(f"{path}: {found}; give samples that were placed in this run")
    return source


def _scores_in(path: Path) -> Source:
    """Scores in a file, or in the embedding of a folder."""
    if path.is_file():
        return _embedding(path) if path.suffix.lower() in SUFFIXES else _message(path)
    found = next((path / name for name in EMBEDDINGS if (path / name).exists()), None)
    if found is None:
        raise InputError(f"{path}: is not a run directory, nor a result of a study; make one with 'dkpca fuse'")
    digest = files.receive(path / RESULT, Scores).message.sample_digest if (path / RESULT).exists() else None
    return replace(_embedding(found), path=path, digest=digest)


def with_own_ids(source: Source, table: Path, how: Reading) -> Source:
    """Name the samples as the party that reads the page does; its ids are matched as the parties agreed."""
    ids = reading.read_ids(table, how)
    keys = matching_keys(ids, how.id_normalize)
    fingerprints = (messages.digest(keys), messages.row_number_digest(len(ids)))
    if source.digest in fingerprints and len(ids) == len(source.names):
        return replace(source, names=list(ids), numbered=False)
    if source.numbered or set(keys).isdisjoint(matching_keys(source.names, how.id_normalize)):
        raise InputError(
            f"{table}: none of its {len(ids)} ids is a sample of {source.path}, whose first is {source.names[0]!r}; "
            "give the table of the fit, or fuse again with --ids"
        )
    return source


def _message(path: Path) -> Source:
    result = files.receive(path, Scores).message
    names = [str(row) for row in range(result.scores.shape[0])]
    told = {name: getattr(result, name) for name in TOLD if hasattr(result, name)}
    return Source(path, names, _matrix(result.scores.decode()), result.sample_digest, told=told, numbered=True)


def _embedding(path: Path) -> Source:
    names = reading.column_names(path, reading.OURS)
    columns = [name for name in names if COMPONENT.fullmatch(name)]
    if "sample" not in names or not columns:
        raise InputError(f"{path}: is a table, but not an embedding; give a result, and your own table with --table")
    table = reading.read(path, Reading("sample", dialect=reading.OURS))
    scores = table.frame.select(pl.col(columns).cast(pl.Float64)).to_numpy()
    if not np.isfinite(scores).all():
        raise InputError(f"{path}: a score is missing or infinite; get the file again")
    marks: dict[str, Any] = {
        name: (table.frame[name].cast(pl.String) == "true").to_numpy()
        for name in ("outside", "completed")
        if name in names
    }
    beside = path.parent / CERTIFICATE
    told = storage.read_json(beside) if beside.exists() else {}
    ours = {name: told[name] for name in TOLD if name in told} if isinstance(told, dict) else told
    try:
        told = codec.values(TOLD, ours, what=str(beside))
    except WireError as error:
        raise InputError(f"{error}; get the file again") from error
    return Source(path, table.ids or (), _matrix(scores), None, told=told, **marks)


def _matrix(scores: Any) -> Matrix:
    return np.ascontiguousarray(to_numpy(scores), dtype=np.float64)


@dataclass(frozen=True)
class Content:
    """What goes into a page."""

    source: Source
    title: str
    labels: LabelTable | None = None
    new: Sequence[Source] = ()
    own: OwnColumns | None = None
    notes: Sequence[str] = ()
    outcomes: Sequence[Outcomes] = ()  # of the samples of the fit, and of new ones


def assemble(
    path: Path,
    *,
    table: Path | None,
    how: Reading,
    labels: Path | None,
    how_labels: Reading,
    new: Sequence[Path],
    title: str | None,
) -> Content:
    """Read everything, name the samples as the reader does, and compute what the page shows."""
    for file, reads in ((table, how), (labels, how_labels)):
        if file is not None and reads.id_column is None:
            raise InputError(f"{file}: name its id column with --id, or that of --labels with --label-id")
    if how_labels.columns and labels is None:
        raise InputError(f"--label {how_labels.columns[0]!r}: name the table that has this column with --labels")
    source = read_source(path)
    run, notes = source.run, list[str]()
    if run is not None and not how.id_normalize:  # ids are made alike as for the fit
        ways = tuple(run.settings["id_normalize"])
        how, how_labels = replace(how, id_normalize=ways), replace(how_labels, id_normalize=ways)
    if run is not None and run.model.is_blind:
        notes.append(TURNED)
    if own_table := table or labels:
        source = with_own_ids(source, own_table, how if table else how_labels)
    placed = [read_new(each, source) for each in new]
    own, known = None, None
    if labels is not None:
        known = read_labels(labels, how_labels)
        notes += [f"columns of {labels.name}: {note}" for note in known.notes]
        notes += known.check_match(source.names, source.path)
    if table is not None:
        own = own_columns(table, how, source.names, source.scores)
        notes += [f"columns of {table.name}: {note}" for note in own.notes]
    in_fit = {
        name for name, use in how.text_of if use != "ignore" and name not in how.exclude
    }  # perhaps too many categories to correlate
    found = outcomes_of(source, placed, known, in_fit | {*(own.names if own else ())})
    notes = list(dict.fromkeys(notes))  # the table of labels may be the party's own
    return Content(source, title or source.title, known, placed, own, notes, found)


def outcomes_of(
    source: Source, new: Sequence[Source], labels: LabelTable | None, in_fit: Collection[str]
) -> list[Outcomes]:
    """Compare scores and labels: of the samples of the fit, and of new ones that have labels."""
    if labels is None or (source.run is not None and source.run.model.is_blind):
        return []
    parts = [(source, "samples of the fit"), *((part, f"new samples, {part.title}") for part in new)]
    return [
        outcomes(part.scores, labels.values(part.names).to_dict(as_series=False), in_fit=in_fit, samples=samples)
        for part, samples in parts
        if set(labels.rows(part.names)) != {None}
    ]


def packed_array(array: Any) -> dict[str, str]:
    """Return an array as the page's script reads it."""
    array = np.ascontiguousarray(array)
    return {"type": array.dtype.name, "data": _as_letters(array.astype(array.dtype.newbyteorder("<")).tobytes())}


def packed_texts(texts: Sequence[str]) -> dict[str, str]:
    """Return texts as the page's script reads them."""
    data = json.dumps(list(texts), ensure_ascii=False, separators=(",", ":")).encode(errors="replace")
    return {"type": "texts", "data": _as_letters(data)}


def _as_letters(data: bytes) -> str:
    """Bytes, compressed, as text that needs no escaping."""
    return base64.b64encode(zlib.compress(data, level=9)).decode()


def packed(content: Content, most: int) -> dict[str, Any]:
    """Everything that the page's script draws: all samples, or as many as a page may have, at random."""
    source = content.source
    rows = some_samples(len(source.names), most)
    names = [source.names[row] for row in rows.tolist()]
    completed = np.broadcast_to(source.completed, len(source.names))[rows]
    scores, kinds = [source.scores[rows]], [np.where(completed, COMPLETED, FITTED)]
    origin = ["of the fit"] * len(rows)  # which samples were fitted, and which batch the others came in
    for part in content.new:
        names += part.names
        scores.append(part.scores)
        kind = np.where(part.outside, OUTSIDE, np.where(part.completed, NEW_COMPLETED, NEW))
        kinds.append(np.broadcast_to(kind, len(part.names)))
        origin += [f"new: {part.title}"] * len(part.names)
    columns = [] if content.labels is None else content.labels.columns(names)
    columns += [category_column("fit or new", origin, group="samples")] if content.new else []
    # Scores in two bytes each, component by component, with the range of each.
    drawn = np.vstack(scores)
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    steps = np.rint((drawn - low) / width * STEPS).astype(np.uint16)
    header: dict[str, Any] = {
        "count": len(names),
        "fitted": len(rows),
        "names": packed_texts(names),
        "scores": {"low": low.tolist(), "high": (low + width).tolist(), "steps": packed_array(steps.T)},
        "kinds": packed_array(np.concatenate(kinds).astype(np.uint8)),
        "columns": [_packed_column(column) for column in columns],
        "title": content.title,
    }
    if source.run is not None:
        header |= _of_run(source.run)
    if content.own is not None:
        own = content.own
        header["own"] = {
            name: {"top": [own.top(column, TOP_COLUMNS) for column in values.T], "chance": chance}
            for name, values, chance in (
                ("correlation", own.correlations, own.chance),
                ("distance correlation", own.associations, own.shuffled),
            )
        }
    return header


def _packed_column(column: LabelColumn) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "group": column.group}
    if column.numbers is not None:
        return described | {"numbers": packed_array(np.asarray(column.numbers, dtype=np.float32))}
    none = column.categories.index(NONE) if NONE in column.categories else -1
    codes = column.codes.astype(np.min_scalar_type(max(1, len(column.categories) - 1)))
    categories = packed_texts(column.categories)
    return described | {"codes": packed_array(codes), "categories": categories, "none": none}


def _of_run(run: Run) -> dict[str, Any]:
    """Numbers of the charts that only who has the run can draw."""
    certificate = run.model.certificate
    total = certificate.total_variance_at_most or 1.0
    found, shares = to_numpy(run.model.eigenvalues).astype(float), party_shares(run.model)
    estimated, proved = certificate.component_estimates, certificate.component_errors_at_most
    return {
        "errors": {  # sines
            "estimated": np.sqrt(estimated[:MOST_BARS]).tolist(),
            "proved": np.sqrt(proved[:MOST_BARS]).tolist(),
        },
        "scree": {
            "found": (found / total).tolist(),
            "low": [value / total for value in certificate.eigenvalues_at_least],
            "high": [value / total for value in certificate.eigenvalues_at_most],
        },
        "influence": {"parties": list(shares), "shares": [own.tolist() for own in shares.values()]},
    }
