"""A run is a directory: the messages as received, and what the center made of them.

    messages/           as received, byte for byte
    model.safetensors   the components, and what is needed to place new samples
    result.scores       the same for the parties: each draws it with its own ids and labels ('dkpca report')
    embedding.csv, .parquet, certificate.json, settings.json, ledger.jsonl, report.html

The messages alone are enough: a center that died, or that gets one more summary, fuses again from them.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from dkpca import fusion, wire
from dkpca.errors import FusionError, InputError, StorageError
from dkpca.fusion import FusedModel
from dkpca.kernels.combination import Weights
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.leading import NAMES, Solver
from dkpca.messages import Summary
from dkpca.store import ledger, model_file, storage
from dkpca.store.message_files import Received, by_party, naming_files, receive, stored_summaries
from dkpca.store.run_directory import (
    SETTINGS,
    check,
    check_version,
    consistent,
    is_projection,
    names_of,
    numbered,
    parties_in,
    prepared,
    read_settings,
    stored_names,
)
from dkpca.store.run_settings import ROW_NUMBERS, RunSettings, settings_of
from dkpca.store.storage import Content
from dkpca.tables.embeddings import embedding_files
from dkpca.wire import codec
from dkpca.wire.layout import Buffer

__all__ = [
    "Run",
    "check",
    "fuse",
    "is_projection",
    "load",
    "parties_in",
    "read_settings",
    "record_received",
]
LEDGER = "ledger.jsonl"
RESULT = "result.scores"  # a message for the parties


@dataclass(frozen=True)
class Run:
    """A fused run, as found in its directory."""

    path: Path
    model: FusedModel
    settings: RunSettings
    sample_names: Sequence[str]
    notes: tuple[str, ...] = ()  # what could not be taken over from the run before, in words


def fuse(
    path: Path,
    summary_files: Iterable[Path],
    *,
    n_components: int | None = None,
    center: bool | None = None,
    solver: str | Solver = "auto",
    roster: Sequence[str] = (),
    without: Sequence[str] = (),
    keep: bool = False,
    sample_names: Sequence[str] | None = None,
    id_normalize: Sequence[str] = (),
    states: Mapping[str, bytes] | None = None,
    law: str | None = None,
    weights: Weights = None,
) -> Run:
    """Fuse new summaries with those already in the run; nothing is written unless all of it succeeds.

    Parameters
    ----------
    path : Path
        The run's directory; made if it is not there.
    summary_files : iterable of Path
        New or replaced summaries.
    n_components, center
        None: as in the run so far, or 10 and True.
    solver : str
        See `dkpca.linalg.leading.leading`.
    roster : sequence of str
        Parties that must be there; empty: whoever sent.
    without : sequence of str
        Parties to leave out from now on.
    keep : bool
        Whether parties of the run that are not among the files stay in it; without files, all of them do.
    sample_names : sequence of str, optional
        In row order, checked against the summaries. None: as in the run so far, or row numbers.
    id_normalize : sequence of str
        How the parties agreed to make ids alike; the names are shown as given.
    states : mapping, optional
        Private states by party, where one owner has all of them; kept in `private/`.
    law, weights
        See `dkpca.fusion.fuse`. None: as in the run so far, or as the kernels imply.
    """
    if not isinstance(solver, str):
        raise InputError(f"a run remembers its solver by name, not as {solver!r}; give one of {list(NAMES)}")
    check(path)
    received = [receive(file, Summary) for file in summary_files]
    with prepared(path):
        before, notes = _settings_before(path, needed=n_components is None or center is None)
        accepted = _merged(path, received, without, keep or not received)
        model = _fused(
            accepted,
            n_components=(before.n_components if before else 10) if n_components is None else n_components,
            center=(before.center if before else True) if center is None else center,
            solver=solver,
            roster=roster,
            law=before.law if law is None and before else law,
            weights=_weights_before(before, accepted) if weights is None else weights,
        )
        ways = tuple(id_normalize) or (before.id_normalize if before and sample_names is None else ())
        names, named_by, lost = names_of(path, next(iter(model.summaries.values())), sample_names, ways)
        settings = settings_of(path, model, accepted, named_by, ways)
        gone = [path / "messages" / f"{party}.summary" for party in without]
        _write(path, model, accepted, names, settings, states or {}, gone)
        record_received(path, received)
        ledger.append(path / LEDGER, "fused", parties=sorted(model.summaries))
    return Run(path, model, settings, names, (*notes, *lost))


def load(path: Path) -> Run:
    """Read a fused run."""
    check_version(path)
    with consistent(path):
        settings = read_settings(path)
        if settings is None:
            raise InputError(f"{path}: is no run directory; make one with 'dkpca fuse' or 'dkpca fit'")
        model = model_file.load_beside(path)
        items = stored_summaries(path)
        expected = settings_of(path, model, items, settings.sample_names, settings.id_normalize)
        if _comparable(expected) != _comparable(settings):
            raise InputError(f"{path / SETTINGS}: does not fit the messages; repeat 'dkpca fuse --out {path}'")
        summary = next(iter(model.summaries.values()))
        if settings.sample_names == ROW_NUMBERS:
            return Run(path, model, settings, numbered(summary.n_samples))
        names = stored_names(path, summary.sample_digest, settings.id_normalize)
        if names is None:
            raise InputError(
                f"{path / 'embedding.parquet'}: does not have the samples' names; repeat 'dkpca fuse --out {path}' "
                "with --ids"
            )
    return Run(path, model, settings, names)


def _comparable(settings: RunSettings) -> RunSettings:
    """Settings without what the messages do not say."""
    parties = {name: replace(known, file="") for name, known in settings.parties.items()}
    return replace(settings, parties=parties, versions={})


def _settings_before(path: Path, *, needed: bool) -> tuple[RunSettings | None, tuple[str, ...]]:
    """Settings that a fusion goes on with; the messages alone are enough, so damaged ones are only said."""
    try:
        return read_settings(path), ()
    except (InputError, StorageError) as error:
        taken = "; 10 components, centered, are taken where nothing else was asked for" if needed else ""
        return None, (f"the settings so far could not be used{taken} ({error})",)


def _merged(path: Path, received: Sequence[Received], without: Sequence[str], keep: bool) -> dict[str, Received]:
    """Stored and new summaries by party, the new ones winning; nobody stays unasked."""
    new = by_party(received)
    merged = stored_summaries(path) | new
    if not merged:
        raise FusionError(f"{path}: no summary was given, and none is there; name the parties' summary files")
    unknown = sorted(set(without) - set(merged))
    if unknown:
        raise FusionError(f"no summary from {unknown} to leave out; there are {sorted(merged)}")
    staying = sorted(set(merged) - set(new) - set(without))
    if staying and not keep:
        raise FusionError(
            f"{path}: has summaries of {staying} from before, which are not among the files given; use them too with "
            f"--keep, or leave them out with {' '.join(f'--without {name}' for name in staying)}"
        )
    return {name: item for name, item in sorted(merged.items()) if name not in without}


def _fused(accepted: Mapping[str, Received], *, roster: Sequence[str], **settings: Any) -> FusedModel:
    with naming_files({name: item.path for name, item in accepted.items()}):
        summaries = [item.message for item in accepted.values()]
        return fusion.fuse(summaries, roster=list(roster) or None, **settings)


def _weights_before(before: RunSettings | None, accepted: Mapping[str, Received]) -> Weights:
    """Weights of the run so far; numbers only as long as the parties are the same."""
    weights = before.weights if before else None
    if isinstance(weights, Mapping) and set(weights) != set(accepted):
        raise InputError(
            f"the run so far has weights for {sorted(weights)}, and now the parties are {sorted(accepted)}; "
            "give --weights"
        )
    return weights


def _write(
    path: Path,
    model: FusedModel,
    accepted: Mapping[str, Received],
    names: Sequence[str],
    settings: RunSettings,
    states: Mapping[str, bytes],
    gone: Sequence[Path],
) -> None:
    scores = np.asarray(to_numpy(model.scores))
    result = wire.pieces(fusion.result(model, scores, settings.sample_digest))
    produced: dict[str, Content] = {
        model_file.FILE: _writing(model_file.pieces(model)),
        "certificate.json": storage.as_json(model.certificate.to_dict()),
        SETTINGS: storage.as_json(codec.described(settings)),
        RESULT: _writing(result),
        **embedding_files(names, scores),
    }
    for item in accepted.values():
        storage.let_go(item.data)
    stored = {path / "messages" / f"{name}.summary": item for name, item in accepted.items()}
    new: dict[Path, Content] = {target: item.data for target, item in stored.items() if item.path != target}
    kept = {storage.make_directory(path / "private") / f"{party}.state": data for party, data in states.items()}
    files = new | kept | {path / name: data for name, data in produced.items()}
    storage.write_all(files, private=kept, remove=gone)


def _writing(pieces: Sequence[Buffer]) -> Callable[[BinaryIO], None]:
    """Write what is in pieces."""
    return lambda file: file.writelines(pieces)


def record_received(path: Path, items: Iterable[Received]) -> None:
    """Write into the ledger which files came."""
    for item in items:
        record = {"party": item.message.party, "file": item.path.name, "bytes": len(item.data)}
        ledger.append(path / LEDGER, "received", **record, sha256=hashlib.sha256(item.data).hexdigest())
        storage.let_go(item.data)
