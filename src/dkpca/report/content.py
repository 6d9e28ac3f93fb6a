"""Everything one page shows, in the form its scripts read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.linalg.arrays import to_numpy
from dkpca.report.comparison import MOST_LISTED, Comparison
from dkpca.report.influence import influence
from dkpca.report.label_columns import NONE, LabelColumn, LabelTable, category_column
from dkpca.report.own_columns import OwnColumns
from dkpca.report.packing import Bundle, packed_scores
from dkpca.report.sources import Source
from dkpca.store.runs import Run

FITTED, NEW, OUTSIDE = 0, 1, 2
TOP_COLUMNS = 8
SCORE_BYTES = 3_000_000  # of one page; with very many samples the last components are left out of it


@dataclass(frozen=True)
class Content:
    """What goes into a page."""

    source: Source
    title: str
    labels: LabelTable | None = None
    clusters: Sequence[LabelColumn] = ()
    new: Sequence[Source] = ()
    own: OwnColumns | None = None
    comparison: Comparison | None = None
    notes: Sequence[str] = ()


@dataclass(frozen=True)
class Drawn:
    """Samples of the page: those of the fit first, then the new ones."""

    rows: Any  # (n_fitted_drawn,) of int, into the source
    names: Sequence[str]
    scores: Any  # (n_drawn, n_components)
    kinds: Any  # (n_drawn,) of FITTED, NEW, OUTSIDE


def drawn_samples(content: Content, most: int) -> Drawn:
    """Take all samples, or as many as a page may have, at random."""
    source = content.source
    rows = np.arange(len(source.names))
    if len(rows) > most:
        rows = np.sort(np.random.default_rng(0).choice(rows, most, replace=False))
    names = [source.names[row] for row in rows.tolist()]
    scores, kinds = [source.scores[rows]], [np.full(len(rows), FITTED, dtype=np.uint8)]
    for part in content.new:
        names += part.names
        scores.append(part.scores)
        outside = np.zeros(len(part.names), dtype=bool) if part.outside is None else part.outside
        kinds.append(np.where(outside, OUTSIDE, NEW).astype(np.uint8))
    return Drawn(rows, names, np.vstack(scores), np.concatenate(kinds))


def packed(content: Content, drawn: Drawn) -> tuple[dict[str, Any], str]:
    """Header and arrays of the page."""
    bundle = Bundle()
    n_samples, n_components = drawn.scores.shape
    shown = max(3, min(n_components, SCORE_BYTES // (2 * n_samples)))
    header: dict[str, Any] = {
        "count": n_samples,
        "fitted": len(drawn.rows),
        "names": bundle.add_texts(drawn.names),
        "scores": packed_scores(bundle, drawn.scores[:, :shown]),
        "kinds": bundle.add(drawn.kinds),
        "columns": [_packed_column(bundle, column) for column in _columns(content, drawn)],
        "title": content.title,
    }
    if content.source.run is not None:
        header |= _of_run(content.source.run)
    if content.own is not None:
        header["own"] = _own(content.own)
    if content.comparison is not None:
        header["comparison"] = _compared(bundle, content, content.comparison, drawn)
    return header, bundle.encoded()


def _columns(content: Content, drawn: Drawn) -> list[LabelColumn]:
    """Everything that samples can be colored by, apart from their scores."""
    columns = [] if content.labels is None else content.labels.columns(drawn.names)
    n_new = len(drawn.names) - len(drawn.rows)
    columns += [_with_new(column.take(drawn.rows), n_new) for column in content.clusters]
    if content.new:
        columns.append(_origin(content, drawn))
    if content.comparison is not None:
        moved = np.full(len(content.source.names), np.nan)
        moved[content.comparison.rows] = content.comparison.moved
        values = np.concatenate([moved[drawn.rows], np.full(n_new, np.nan)])
        columns.append(LabelColumn("distance moved", "comparison", numbers=values))
    return columns


def _with_new(column: LabelColumn, n_new: int) -> LabelColumn:
    """New samples were not clustered."""
    if not n_new:
        return column
    values = [column.categories[code] for code in column.codes.tolist()] + [NONE] * n_new
    return category_column(column.name, values, group=column.group, note=column.note, order=column.categories)


def _origin(content: Content, drawn: Drawn) -> LabelColumn:
    """Which samples were fitted, and which batch the others came in."""
    batches = [source.title for source in content.new]
    values = ["of the fit"] * len(drawn.rows)
    for batch, source in zip(batches, content.new, strict=True):
        values += [f"new: {batch}"] * len(source.names)
    return category_column("fit or new", values, group="samples")


def _packed_column(bundle: Bundle, column: LabelColumn) -> dict[str, Any]:
    described: dict[str, Any] = {"name": column.name, "group": column.group, "note": column.note}
    if column.numbers is not None:
        return described | {"numbers": bundle.add(np.asarray(column.numbers, dtype=np.float32))}
    none = column.categories.index(NONE) if NONE in column.categories else -1
    codes = column.codes.astype(np.min_scalar_type(max(1, len(column.categories) - 1)))
    return described | {"codes": bundle.add(codes), "categories": bundle.add_texts(column.categories), "none": none}


def _of_run(run: Run) -> dict[str, Any]:
    """Numbers of the charts that only who has the run can draw."""
    certificate = run.model.certificate
    total = certificate.total_variance_at_most or 1.0
    found = to_numpy(run.model.eigenvalues).astype(float)
    return {
        "scree": {
            "found": (found / total).tolist(),
            "low": [value / total for value in certificate.eigenvalues_at_least],
            "high": [value / total for value in certificate.eigenvalues_at_most],
        },
        "influence": {"parties": list(run.model.summaries), "shares": influence(run.model).tolist()},
    }


def _own(own: OwnColumns) -> dict[str, Any]:
    n_components = own.correlations.shape[1]
    top = [own.top(d, TOP_COLUMNS) for d in range(n_components)]
    return {"top": top, "chance": own.chance, "n_samples": own.n_samples}


def _compared(bundle: Bundle, content: Content, comparison: Comparison, drawn: Drawn) -> dict[str, Any]:
    """Angles, and the samples that moved most, with their places in the other run."""
    place = {row: position for position, row in enumerate(drawn.rows.tolist())}
    order = [k for k in np.argsort(-comparison.moved).tolist() if int(comparison.rows[k]) in place][:MOST_LISTED]
    samples = [place[int(comparison.rows[k])] for k in order]
    return {
        "angles": list(comparison.angles),
        "samples": samples,
        "moved": comparison.moved[order].tolist(),
        "there": bundle.add(comparison.there[order].T.astype(np.float32)),
    }
