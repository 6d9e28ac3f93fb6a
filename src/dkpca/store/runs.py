"""A run is a directory: the messages as received, and what the center made of them.

    messages/           as received, byte for byte
    model.safetensors   the components, and what is needed to place new samples
    embedding.csv, .parquet, certificate.json, settings.json, ledger.jsonl, report.html

The messages alone are enough: a center that died, or that gets one more summary, fuses again from them.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca import fusion, messages, wire
from dkpca.concerns import outside_at_center
from dkpca.errors import FusionError, InputError
from dkpca.fusion import FusedModel
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.leading import NAMES, Solver
from dkpca.messages import Partials, Rows, Summary
from dkpca.store import model_file, storage
from dkpca.store.message_files import Received, naming_files, receive, stored_summaries
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import embedding_files


@dataclass(frozen=True)
class Run:
    """A fused run, as found in its directory."""

    path: Path
    model: FusedModel
    settings: Mapping[str, Any]
    sample_names: Sequence[str]


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
    """
    if not isinstance(solver, str):
        raise InputError(f"a run remembers its solver by name, not as {solver!r}; give one of {list(NAMES)}")
    before = check(path)
    received = [receive(file, Summary) for file in summary_files]
    accepted = _merged(path, received, without, keep or not received)
    model = _fused(
        accepted,
        n_components=before.get("n_components", 10) if n_components is None else n_components,
        center=before.get("center", True) if center is None else center,
        solver=solver,
        roster=roster,
    )
    names, named_by = _names(path, before, model, sample_names, id_normalize)
    settings = _settings(path, model, accepted, named_by)
    _write(path, model, accepted, names, settings)
    _record_received(path, received)
    storage.append_record(path / "ledger.jsonl", {"event": "fused", "parties": sorted(model.summaries)})
    for party in without:
        (path / "messages" / f"{party}.summary").unlink(missing_ok=True)
    return Run(path, model, settings, names)


def load(path: Path) -> Run:
    """Read a fused run."""
    settings = read_settings(path)
    if not settings:
        raise InputError(f"{path}: is no run directory; make one with 'dkpca fuse' or 'dkpca fit'")
    if "run" in settings and "n_components" not in settings:
        raise InputError(
            f"{path}: holds new samples that 'dkpca project' placed, and is no run; give the directory of the run "
            f"{settings['run']!r}"
        )
    return Run(path, model_file.load_beside(path), settings, _stored_names(path))


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
    checked = _checked_names(sample_names, digest, len(scores), id_normalize)
    names = checked or [str(row) for row in range(len(scores))]
    outside = outside_at_center(run.model, [item.message for item in received]).tolist()
    apart = [name for name, is_outside in zip(names, outside, strict=True) if is_outside]
    settings = {
        "run": run.path.name,
        "n_samples": len(scores),
        "sample_digest": digest,
        "outside": apart,
        "versions": versions(),
    }
    storage.make_directory(out)
    storage.make_directory(out / "messages")
    produced = embedding_files(names, scores, outside=outside) | {"settings.json": storage.as_json(settings)}
    stored = {out / "messages" / f"{item.message.party}.rows": item for item in received}
    new = {target: item for target, item in stored.items() if item.path != target}
    written = {target: item.data for target, item in new.items()} | {
        out / name: data for name, data in produced.items()
    }
    storage.write_all(written)
    _record_received(out, new.values())
    return scores


def check(path: Path) -> dict[str, Any]:
    """Find out before any work whether a run can be written there; return its settings so far."""
    storage.check_writable(path / "settings.json" if path.is_dir() else path)
    return read_settings(path)


def read_settings(path: Path) -> dict[str, Any]:
    """Settings of a run, empty if there is none yet; an error if the directory is something else."""
    if path.is_dir() and not (path / "settings.json").exists() and not (path / "messages").exists():
        if any(path.iterdir()):
            raise InputError(f"{path}: is a directory with other files in it, not a run; choose another --out")
        return {}
    if not (path / "settings.json").exists():
        return {}
    try:
        settings = json.loads(storage.read(path / "settings.json"))
    except ValueError as error:
        raise InputError(f"{path / 'settings.json'}: cannot be read ({error}); remove it and fuse again") from error
    return dict(settings)


def versions() -> dict[str, str]:
    """Versions that made a result."""
    return {"python": platform.python_version()} | {
        name: version(name) for name in ("dkpca", "numpy", "scipy", "safetensors", "polars")
    }


def _merged(path: Path, received: Sequence[Received], without: Sequence[str], keep: bool) -> dict[str, Received]:
    """Stored and new summaries by party, the new ones winning; nobody stays unasked."""
    new: dict[str, Received] = {}
    for item in received:
        name = item.message.party
        if name in new:
            raise FusionError(f"{new[name].path} and {item.path} are both from party {name!r}; keep one of them")
        new[name] = item
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
    path: Path,
    before: Mapping[str, Any],
    model: FusedModel,
    given: Sequence[str] | None,
    id_normalize: Sequence[str],
) -> tuple[Sequence[str], str]:
    """Sample names, and where they are from."""
    summary = next(iter(model.summaries.values()))
    checked = _checked_names(given, summary.sample_digest, summary.n_samples, id_normalize)
    if checked is not None:
        return checked, "ids"
    if before.get("sample_digest") == summary.sample_digest and (path / "embedding.parquet").exists():
        return _stored_names(path), before["sample_names"]
    return [str(row) for row in range(summary.n_samples)], "row numbers"


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


def _stored_names(path: Path) -> list[str]:
    return pl.read_parquet(path / "embedding.parquet", columns=["sample"])["sample"].to_list()


def _settings(path: Path, model: FusedModel, accepted: Mapping[str, Received], named_by: str) -> dict[str, Any]:
    summary = next(iter(model.summaries.values()))
    return {
        "n_components": model.n_components,
        "center": model.centered,
        "solver": model.solver,
        "kernel": model.kernel.to_dict(),
        "n_samples": summary.n_samples,
        "sample_digest": summary.sample_digest,
        "sample_names": named_by,
        "parties": {name: _party_settings(path, item) for name, item in accepted.items()},
        "versions": versions(),
    }


def _party_settings(path: Path, item: Received) -> dict[str, Any]:
    summary: Summary = item.message
    kept = item.path.parent == path / "messages"
    return {
        "file": "kept from the run" if kept else item.path.name,
        "n_features": summary.n_features,
        "rank": summary.rank,
        "precision": summary.factor.precision,
        "bytes_sent": len(item.data),
        "summary_id": wire.fingerprint(summary),
    }


def _write(
    path: Path, model: FusedModel, accepted: Mapping[str, Received], names: Sequence[str], settings: Mapping[str, Any]
) -> None:
    produced = {
        model_file.FILE: model_file.encode(model, alone=False),
        "certificate.json": storage.as_json(model.certificate.to_dict()),
        "settings.json": storage.as_json(settings),
        **embedding_files(names, np.asarray(to_numpy(model.scores))),
    }
    storage.make_directory(path)
    storage.make_directory(path / "messages")
    stored = {path / "messages" / f"{name}.summary": item for name, item in accepted.items()}
    new = {target: item.data for target, item in stored.items() if item.path != target}
    storage.write_all(new | {path / name: data for name, data in produced.items()})


def _record_received(path: Path, items: Iterable[Received]) -> None:
    for item in items:
        record = {"event": "received", "party": item.message.party, "file": item.path.name, "bytes": len(item.data)}
        storage.append_record(path / "ledger.jsonl", record | {"sha256": hashlib.sha256(item.data).hexdigest()})
