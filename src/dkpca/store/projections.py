"""New samples placed by a run: a directory with their scores, and the messages they came in."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from dkpca import fusion, wire
from dkpca.concerns import outside_at_center
from dkpca.errors import FusionError
from dkpca.fusion import FusedModel, scoring
from dkpca.fusion.scoring import Placed
from dkpca.linalg.arrays import to_numpy
from dkpca.messages import MaskedSum, Partials, PartScores, Rows
from dkpca.store import storage
from dkpca.store.message_files import naming_files, receive
from dkpca.store.run_directory import SETTINGS, check, checked_names, numbered, prepared
from dkpca.store.run_settings import versions
from dkpca.store.runs import RESULT, Run, record_received
from dkpca.store.storage import Content
from dkpca.tables.embeddings import embedding_files


def project(run: Run, files: Iterable[Path], out: Path, **settings: Any) -> Any:
    """Place new samples as `place` does; return their scores."""
    return to_numpy(place(run, files, out, **settings).scores)


def place(
    run: Run,
    files: Iterable[Path],
    out: Path,
    *,
    sample_names: Sequence[str] | None = None,
    id_normalize: Sequence[str] = (),
    missing: Sequence[str] = (),
    marginalize: bool = False,
) -> Placed:
    """Place new samples; write their scores, and the messages they came in, to a directory.

    Its settings name the samples that lie outside the range of the fit, and the parties that were missing, as far as
    `dkpca.fusion.scoring.place` allows that.
    """
    check(out)
    received = [receive(file, Rows, Partials, PartScores, MaskedSum) for file in files]
    answers = [item.message for item in received]
    hidden = any(isinstance(message, MaskedSum) for message in answers)
    with naming_files({item.message.party: item.path for item in received}):
        if hidden:
            placed = _added_shares(run.model, answers, missing)
        else:
            placed = scoring.place(run.model, answers, missing, marginalize=marginalize)
    scores = to_numpy(placed.scores)
    digest = answers[0].agreed.sample_digest if hidden else answers[0].sample_digest
    names = checked_names(sample_names, digest, len(scores), id_normalize)
    if names is None:  # not the numbers that samples of the fit may have
        names = [f"new-{row}" for row in numbered(len(scores))]
    outside = None if hidden or isinstance(answers[0], PartScores) else outside_at_center(run.model, answers).tolist()
    settings = {
        "run": run.path.name,
        "n_samples": len(scores),
        "sample_digest": digest,
        "outside": [name for name, is_outside in zip(names, outside, strict=True) if is_outside] if outside else [],
        "missing": list(placed.missing),
        "share_missing": list(placed.share_missing),
        "versions": versions(),
    }
    with prepared(out):
        produced: dict[str, Content] = {**embedding_files(names, scores, outside=outside)}
        produced[SETTINGS] = storage.as_json(settings)
        produced[RESULT] = wire.encode(fusion.result(run.model, scores, digest))
        stored = {out / "messages" / f"{item.message.party}.{_ending(item.message)}": item for item in received}
        new = {target: item for target, item in stored.items() if item.path != target}
        written: dict[Path, Content] = {out / name: data for name, data in produced.items()}
        written |= {target: item.data for target, item in new.items()}
        storage.write_all(written)
        record_received(out, new.values())
    return placed


def outside(path: Path) -> list[str]:
    """New samples in a directory of `project` that lie outside the range of the fit."""
    described: dict[str, Any] = storage.read_json(path / SETTINGS)
    return list(described["outside"])


def _added_shares(model: FusedModel, received: Sequence[Any], missing: Sequence[str]) -> Placed:
    """Scores of new samples from everybody's share under masks: all parties of the fit or nothing."""
    from dkpca.protection import joint  # needs an extra that nothing else here needs

    if missing or not all(isinstance(message, MaskedSum) for message in received):
        raise FusionError("masks cancel only if every party of the fit sends its masked share, and nothing else")
    pieces: dict[int, list[MaskedSum]] = {}
    for message in received:
        pieces.setdefault(message.part, []).append(message)
    scores = joint.scores_of(lambda: [pieces[part] for part in sorted(pieces)])
    if set(received[0].parties) != set(model.summaries) or scores.shape[1] != model.n_components:
        raise FusionError(
            f"these shares are of {list(received[0].parties)} and {scores.shape[1]} components; the fit has "
            f"{sorted(model.summaries)} and {model.n_components}"
        )
    return Placed(scores + to_numpy(model.extension.offset)[None, :], (), (0.0,) * model.n_components)


def _ending(message: Rows | Partials | PartScores | MaskedSum) -> str:
    if isinstance(message, MaskedSum):
        return "sums" if message.part == 1 else f"sums-{message.part}"
    return "scores" if isinstance(message, PartScores) else "rows"
