"""A run is a directory: the messages as received, and what the center made of them.

    messages/           as received, byte for byte
    model.safetensors   the components, and what is needed to place new samples
    result.scores       the same for the parties: each draws it with its own ids and labels ('dkpca report')
    embedding.csv, .parquet, certificate.json, settings.json, ledger.jsonl, report.html

The messages alone are enough: a center that died, or that gets one more summary, fuses again from them.
"""

import hashlib
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dkpca import fusion, messages, wire
from dkpca.concerns import outside_at_center
from dkpca.errors import FusionError, InputError, StorageError
from dkpca.fusion import FusedModel
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.leading import NAMES, Solver
from dkpca.messages import Partials, Rows, Summary
from dkpca.store import ledger, model_file, storage
from dkpca.store.message_files import Received, by_party, naming_files, receive, stored_summaries
from dkpca.store.run_directory import (
    SETTINGS,
    check,
    consistent,
    is_projection,
    parties_in,
    prepared,
    read_settings,
    stored_names,
)
from dkpca.store.run_settings import ROW_NUMBERS, PartySettings, RunSettings
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import embedding_files
from dkpca.wire import codec

__all__ = ["Run", "check", "fuse", "is_projection", "load", "outside", "parties_in", "project", "read_settings"]
LEDGER = "ledger.jsonl"
RESULT = "result.scores"  # a message for the parties
LOST_NAMES = "the samples are numbered: their names so far could not be read; name them with --ids"


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
        )
        ways = tuple(id_normalize) or (before.id_normalize if before and sample_names is None else ())
        names, named_by, lost = _names(path, model, sample_names, ways)
        settings = _settings(path, model, accepted, named_by, ways)
        gone = [path / "messages" / f"{party}.summary" for party in without]
        _write(path, model, accepted, names, settings, states or {}, gone)
        _record_received(path, received)
        ledger.append(path / LEDGER, "fused", parties=sorted(model.summaries))
    return Run(path, model, settings, names, (*notes, *lost))


def load(path: Path) -> Run:
    """Read a fused run."""
    with consistent(path):
        settings = read_settings(path)
        if settings is None:
            raise InputError(f"{path}: is no run directory; make one with 'dkpca fuse' or 'dkpca fit'")
        model = model_file.load_beside(path)
        items = stored_summaries(path)
        expected = _settings(path, model, items, settings.sample_names, settings.id_normalize)
        if _comparable(expected) != _comparable(settings):
            raise InputError(f"{path / SETTINGS}: does not fit the messages; repeat 'dkpca fuse --out {path}'")
        summary = next(iter(model.summaries.values()))
        if settings.sample_names == ROW_NUMBERS:
            return Run(path, model, settings, _numbered(summary.n_samples))
        names = stored_names(path, summary.sample_digest, settings.id_normalize)
        if names is None:
            raise InputError(
                f"{path / 'embedding.parquet'}: does not have the samples' names; repeat 'dkpca fuse --out {path}' "
                "with --ids"
            )
    return Run(path, model, settings, names)


def outside(path: Path) -> list[str]:
    """New samples in a directory of `project` that lie outside the range of the fit."""
    described: dict[str, Any] = storage.read_json(path / SETTINGS)
    return list(described["outside"])


def _comparable(settings: RunSettings) -> RunSettings:
    """Settings without what the messages do not say."""
    parties = {name: replace(known, file="") for name, known in settings.parties.items()}
    return replace(settings, parties=parties, versions={})


def project(
    run: Run,
    files: Iterable[Path],
    out: Path,
    *,
    sample_names: Sequence[str] | None = None,
    id_normalize: Sequence[str] = (),
) -> Any:
    """Place new samples; write their scores, and the messages they came in, to a directory.

    Its settings name the samples that lie outside the range of the fit.
    """
    check(out)
    received = [receive(file, Rows, Partials) for file in files]
    with naming_files({item.message.party: item.path for item in received}):
        scores = to_numpy(fusion.place(run.model, [item.message for item in received]))
    digest = received[0].message.sample_digest
    names = _checked_names(sample_names, digest, len(scores), id_normalize) or _numbered(len(scores))
    outside = outside_at_center(run.model, [item.message for item in received]).tolist()
    settings = {
        "run": run.path.name,
        "n_samples": len(scores),
        "sample_digest": digest,
        "outside": [name for name, is_outside in zip(names, outside, strict=True) if is_outside],
        "versions": versions(),
    }
    with prepared(out):
        produced = embedding_files(names, scores, outside=outside) | {SETTINGS: storage.as_json(settings)}
        produced[RESULT] = wire.encode(fusion.result(run.model, scores, digest))
        stored = {out / "messages" / f"{item.message.party}.rows": item for item in received}
        new = {target: item for target, item in stored.items() if item.path != target}
        written = {target: item.data for target, item in new.items()} | {
            out / name: data for name, data in produced.items()
        }
        storage.write_all(written)
        _record_received(out, new.values())
    return scores


def versions() -> dict[str, str]:
    """Versions that made a result."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in ("dkpca", "numpy", "scipy", "safetensors", "polars")
    }


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


def _names(
    path: Path, model: FusedModel, given: Sequence[str] | None, id_normalize: Sequence[str]
) -> tuple[Sequence[str], Literal["ids", "row numbers"], tuple[str, ...]]:
    """Sample names, where they are from, and what became of those so far."""
    summary = next(iter(model.summaries.values()))
    checked = _checked_names(given, summary.sample_digest, summary.n_samples, id_normalize)
    if checked is None:
        checked = stored_names(path, summary.sample_digest, id_normalize)
    if checked is not None:
        return checked, "ids", ()
    by_position = summary.sample_digest == messages.row_number_digest(summary.n_samples)
    lost = () if by_position or not (path / SETTINGS).exists() else (LOST_NAMES,)
    return _numbered(summary.n_samples), ROW_NUMBERS, lost


def _checked_names(
    given: Sequence[str] | None, digest: str, n_samples: int, id_normalize: Sequence[str]
) -> Sequence[str] | None:
    """Names, if their fingerprint is the one in the messages."""
    if given is None:
        return None
    if messages.digest(matching_keys(given, id_normalize)) != digest:
        raise FusionError(
            f"the {len(given)} ids given are not those of the {n_samples} samples in the messages, in their order; "
            "give the ids that the parties used (with their --id-normalize, if they agreed on one), or none"
        )
    return given


def _numbered(n_samples: int) -> list[str]:
    return [str(row) for row in range(n_samples)]


def _settings(
    path: Path,
    model: FusedModel,
    accepted: Mapping[str, Received],
    named_by: Literal["ids", "row numbers"],
    id_normalize: tuple[str, ...],
) -> RunSettings:
    summary = next(iter(model.summaries.values()))
    return RunSettings(
        n_components=model.n_components,
        center=model.centered,
        solver=model.solver,
        kernel=model.kernel,
        n_samples=summary.n_samples,
        sample_digest=summary.sample_digest,
        sample_names=named_by,
        parties={name: _party_settings(path, item) for name, item in accepted.items()},
        versions=versions(),
        id_normalize=id_normalize,
    )


def _party_settings(path: Path, item: Received) -> PartySettings:
    summary: Summary = item.message
    kept = item.path.parent == path / "messages"
    return PartySettings(
        file="kept from the run" if kept else item.path.name,
        n_features=summary.n_features,
        rank=summary.rank,
        precision=summary.factor.precision,
        bytes_sent=len(item.data),
        summary_id=wire.fingerprint(summary),
    )


def _write(
    path: Path,
    model: FusedModel,
    accepted: Mapping[str, Received],
    names: Sequence[str],
    settings: RunSettings,
    states: Mapping[str, bytes],
    gone: Sequence[Path],
) -> None:
    produced = {
        model_file.FILE: model_file.encode(model, alone=False),
        "certificate.json": storage.as_json(model.certificate.to_dict()),
        SETTINGS: storage.as_json(codec.described(settings)),
        RESULT: wire.encode(fusion.result(model, model.scores, settings.sample_digest)),
        **embedding_files(names, np.asarray(to_numpy(model.scores))),
    }
    stored = {path / "messages" / f"{name}.summary": item for name, item in accepted.items()}
    new = {target: item.data for target, item in stored.items() if item.path != target}
    kept = {storage.make_directory(path / "private") / f"{party}.state": data for party, data in states.items()}
    files = new | kept | {path / name: data for name, data in produced.items()}
    storage.write_all(files, private=kept, remove=gone)


def _record_received(path: Path, items: Iterable[Received]) -> None:
    for item in items:
        record = {"party": item.message.party, "file": item.path.name, "bytes": len(item.data)}
        ledger.append(path / LEDGER, "received", **record, sha256=hashlib.sha256(item.data).hexdigest())
