"""What a page can be drawn of: a run, a party's result folder, a message of scores, or an embedding."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca import messages
from dkpca.errors import InputError
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import Scores
from dkpca.store import files, runs, storage
from dkpca.store.runs import RESULT, Run
from dkpca.tables import reading
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import Matrix, Reading

EMBEDDINGS = ("embedding.parquet", "embedding.csv")
CERTIFICATE = "certificate.json"  # beside an embedding
TOLD = ("captured_share_at_least", "optimality_at_least", "meaning", "n_parties")
COMPONENT = re.compile(r"component_\d+")


@dataclass(frozen=True)
class Source:
    """Samples with their scores, and what is known about where they come from."""

    path: Path
    names: Sequence[str]
    scores: Matrix  # (n_samples, n_components)
    digest: str | None  # of the ordered sample ids, where known
    run: Run | None = None
    told: Mapping[str, Any] = field(default_factory=dict)  # what is proved of the scores, where that came along
    numbered: bool = False  # whether the names are row numbers, because nobody gave the ids of the fit
    outside: Any = None  # (n_samples,) of bool: new samples out of the range of the fit

    @property
    def title(self) -> str:
        """Name for a headline."""
        return self.path.resolve().name if self.path.is_dir() else self.path.resolve().parent.name


def page_beside(path: Path) -> Path:
    """Where the report of a directory or file goes, unless somebody says otherwise."""
    return path / "report.html" if path.is_dir() else path.with_suffix(".html")


def read_source(path: Path) -> Source:
    """Read whatever holds scores."""
    if path.is_file():
        return _embedding(path) if reading.is_table(path) else _message(path)
    if not (path / "settings.json").exists():
        if not any((path / name).exists() for name in EMBEDDINGS):
            raise InputError(
                f"{path}: is not a run directory, nor a result of a study; make one with 'dkpca fuse', or give the "
                "folder DIR/result of a study, a message of scores or an embedding"
            )
        return replace(_embedding(_embedding_in(path)), path=path)
    if runs.is_projection(path):
        raise InputError(
            f"{path}: holds new samples, placed among the components of a run; "
            f"draw them with the run: dkpca report RUN --new {path}"
        )
    return _run(path)


def read_new(path: Path, n_components: int) -> Source:
    """Read new samples: the folder new/ of a run, or an embedding."""
    if path.is_dir():
        source = _embedding(_embedding_in(path))
        if (path / RESULT).exists():
            source = replace(source, digest=files.read_message(path / RESULT, Scores).sample_digest)
    else:
        source = _embedding(path) if reading.is_table(path) else _message(path)
    if source.scores.shape[1] != n_components:
        raise InputError(
            f"{path}: its samples have {source.scores.shape[1]} components and those of the report {n_components}; "
            "give samples that were placed in this run"
        )
    return source


def with_own_ids(
    source: Source,
    ids: Sequence[str],
    *,
    table: Path,
    ways: Sequence[str] = (),
) -> tuple[Source, str]:
    """Name the samples as the party that reads the page does; say in words what was done.

    Ids are matched after they are made alike in the ways that the parties agreed on, and shown as they stand.
    """
    keys = matching_keys(ids, ways)
    fingerprints = (messages.digest(keys), messages.row_number_digest(len(ids)))
    if source.digest in fingerprints and len(ids) == len(source.names):
        named = replace(source, names=list(ids), numbered=False)
        return named, f"named by the ids of {table}, which are those of the fit"
    if not source.numbered and set(keys) & set(matching_keys(source.names, ways)):
        return source, ""
    hint = "give the table of the fit" if source.told else "give a table with these names, or fuse again with --ids"
    raise InputError(
        f"{table}: none of its {len(ids)} ids is a sample of {source.path}, whose first is {source.names[0]!r}; "
        f"{hint}"
    )


def _run(path: Path) -> Source:
    run = runs.load(path)
    numbered = run.settings.sample_names == "row numbers"
    scores, digest = _matrix(run.model.scores), run.settings.sample_digest
    return Source(path, run.sample_names, scores, digest, run=run, numbered=numbered)


def _message(path: Path) -> Source:
    result = files.read_message(path, Scores)
    names = [str(row) for row in range(result.scores.shape[0])]
    told = {name: getattr(result, name) for name in TOLD}
    return Source(path, names, _matrix(result.scores.decode()), result.sample_digest, told=told, numbered=True)


def _embedding(path: Path) -> Source:
    if "sample" not in reading.column_names(path, reading.OURS):
        raise InputError(
            f"{path}: is a table, but no embedding, which has a column 'sample'; give a run, or what you received of "
            "one, and your own table with --table"
        )
    table = reading.read(path, Reading("sample", dialect=reading.OURS))
    columns = [name for name in table.frame.columns if COMPONENT.fullmatch(name)]
    if not columns:
        raise InputError(f"{path}: has no column 'component_1'; give an embedding as 'dkpca fuse' writes it")
    scores = table.frame.select(pl.col(columns).cast(pl.Float64)).to_numpy()
    if not np.isfinite(scores).all():
        raise InputError(f"{path}: a score is missing or infinite; get the file anew")
    outside = table.frame["outside"].cast(pl.String).is_in(["true", "1", "yes"]).to_numpy() if (
        "outside" in table.frame.columns
    ) else None  # fmt: skip
    assert table.ids is not None
    beside = path.parent / CERTIFICATE
    told = storage.read_json(beside) if beside.exists() else {}
    known = {name: told[name] for name in TOLD if name in told} if isinstance(told, dict) else {}
    return Source(path, table.ids, _matrix(scores), None, told=known, outside=outside)


def _embedding_in(path: Path) -> Path:
    found = next((path / name for name in EMBEDDINGS if (path / name).exists()), None)
    if found is None:
        raise InputError(f"{path}: has no embedding.csv; give the folder new/ of a run")
    return found


def _matrix(scores: Any) -> Matrix:
    return np.ascontiguousarray(to_numpy(scores), dtype=np.float64)
