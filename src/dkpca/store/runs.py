"""A run is a directory: the messages as received, and what the center made of them.

    messages/           as received, byte for byte
    model.safetensors   the components, and what is needed to place new samples
    result.scores       the same for the parties: each draws it with its own ids and labels ('dkpca report')
    embedding.csv, .parquet, certificate.json, settings.json, report.html

The messages alone are enough: a center that died, or that gets one more summary, fuses again from them.
"""

import platform
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np

from dkpca import messages, wire
from dkpca.errors import FusionError, InputError, StorageError, WireError
from dkpca.fusion import FusedModel, fused_model
from dkpca.fusion.scoring import Placed, outside_at_center
from dkpca.linalg.arrays import let_go, to_numpy
from dkpca.messages import Count, Rows, Summary
from dkpca.store import storage
from dkpca.store.files import MODEL_FILE, Received, by_party, model_beside, model_pieces, stored_summaries
from dkpca.store.storage import Content
from dkpca.tables.formats import embedding_files
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import Reading, read_ids
from dkpca.wire import codec
from dkpca.wire.container import Buffer

ROW_NUMBERS: Literal["row numbers"] = "row numbers"
SETTINGS = "settings.json"
# Settings that a fusion goes on with, or that people read: what they have to be.
TYPES = {
    "n_components": Count,
    "center": bool,
    "sample_names": Literal["ids", "row numbers"],
    "id_normalize": tuple[str, ...],
    "law": str | None,
    "weights": str | dict[str, float] | None,
    "covariates": tuple[str, ...],
    "versions": dict[str, str],
}
RESULT = "result.scores"  # a message for the parties


@cache
def versions() -> dict[str, str]:
    """Versions that made a result."""
    packages = ("dkpca", "numpy", "scipy", "polars")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def settings_of(
    model: FusedModel, items: Mapping[str, Received], named_by: str, id_normalize: Sequence[str]
) -> dict[str, Any]:
    """What a run was made with, as `settings.json` says it: from its model and messages."""
    summary = next(iter(model.summaries.values()))
    parties = {
        name: {
            "n_features": item.message.n_features,
            "rank": item.message.rank,
            "precision": item.message.factor.precision,
            "bytes_sent": sum(map(len, item.pieces)),
            "summary_id": wire.fingerprint(item.message),
            "kernel": item.message.kernel.to_dict(),
        }
        for name, item in items.items()
    }
    return {
        "n_components": model.n_components,
        "center": model.settings.center,
        "solver": model.solver,
        "kernel": model.kernel.to_dict(),
        "n_samples": summary.n_samples,
        "sample_digest": summary.sample_digest,
        "sample_names": named_by,
        "id_normalize": list(id_normalize),
        "law": model.settings.law,
        "weights": codec.plain(model.settings.weights),
        "meaning": model.meaning,
        "covariates": [] if model.covariates is None else list(model.covariates.names),
        "parties": parties,
        "versions": versions(),
    }


@dataclass(frozen=True)
class Run:
    """A fused run, as found in its directory."""

    path: Path
    model: FusedModel
    settings: Mapping[str, Any]  # as in settings.json
    sample_names: Sequence[str]


def fuse(
    path: Path,
    received: Sequence[Received],
    *,
    roster: Sequence[str] = (),
    without: Sequence[str] = (),
    keep: bool = False,
    sample_names: Sequence[str] | None = None,
    id_normalize: Sequence[str] = (),
    states: Mapping[str, bytes] | None = None,
    model: FusedModel | None = None,
    **asked: Any,
) -> Run:
    """Fuse new summaries with those already in the run; nothing is written unless all of it succeeds.

    `keep` says whether its parties that are not among the files stay (without files all do), `without` names those
    that go, `roster` those that must be there. `sample_names` are checked against the summaries. One owner of all
    parties has `states`, kept in `private/`, and a `model` of the summaries. `asked` is for
    `dkpca.fusion.fuse`; components, centering, law and weights are else as in the run so far.
    """
    check(path)
    new = not path.exists()
    with ExitStack() as held:
        if not new:
            held.enter_context(storage.writing(path))
        before = read_settings(path)
        accepted = _merged(path, received, without, keep or not received)
        model = model or _fused(path, before, accepted, roster=list(roster) or None, **asked)
        ways = tuple(id_normalize or (before.get("id_normalize", ()) if sample_names is None else ()))
        names, named_by = names_of(path, before, next(iter(model.summaries.values())), sample_names, ways)
        run = Run(path, model, settings_of(model, accepted, named_by, ways), names)
        if new:  # it gets its directory when there is something to write
            held.enter_context(storage.writing(path))
        _write(run, accepted, states or {}, without)
    return run


def load(path: Path) -> Run:
    """Read a fused run."""
    stated = read_settings(path)
    if not stated:
        raise InputError(f"{path}: is not a run directory; make one with 'dkpca fuse' or 'dkpca fit'")
    items, ways = stored_summaries(path), stated.get("id_normalize", ())
    model = model_beside(path, items)
    summary = next(iter(model.summaries.values()))
    names, named_by = names_of(path, {"sample_names": "ids"} | stated, summary, None, ways)
    # The model and the messages say it all again; the file adds what made them.
    settings = settings_of(model, items, named_by, ways) | {"versions": stated.get("versions", {})}
    return Run(path, model, settings, names)


def _merged(path: Path, received: Sequence[Received], without: Sequence[str], keep: bool) -> dict[str, Received]:
    """Stored and new summaries by party, the new ones winning; nobody stays unasked."""
    new = by_party(received)
    merged = stored_summaries(path) | new
    if not merged:
        raise FusionError(f"{path}: no summary was given, and none is there; name the parties' summary files")
    if unknown := sorted(set(without) - set(merged)):
        raise FusionError(f"no summary from {unknown} to leave out; there are {sorted(merged)}")
    staying = sorted(set(merged) - set(new) - set(without))
    if staying and not keep:
        raise FusionError(
            f"{path}: has summaries of {staying} from before, which are not among the files given; use them too with "
            f"--keep, or leave them out with {' '.join(f'--without {name}' for name in staying)}"
        )
    return {name: item for name, item in sorted(merged.items()) if name not in without}


def _fused(path: Path, before: Mapping[str, Any], accepted: Mapping[str, Received], **asked: Any) -> FusedModel:
    """Fuse as asked, and as before; weights by number stay only as long as the parties are the same."""
    known = {"n_components": 10} | {k: before[k] for k in ("n_components", "center", "law", "weights") if k in before}
    settings = known | {name: value for name, value in asked.items() if value is not None}
    weights, wanted = settings.get("weights"), settings.pop("n_components")
    if isinstance(weights, Mapping) and set(weights) != set(accepted):
        raise InputError(f"the weights are for {sorted(weights)}, the parties are {sorted(accepted)}; give --weights")
    if before.get("covariates"):
        settings["covariates"] = model_beside(path, stored_summaries(path)).covariates
    fuse = partial(fused_model.fuse, [item.message for item in accepted.values()], **settings)
    return fused_model.fused(wanted, lambda count: fuse(n_components=count))


def _write(run: Run, accepted: Mapping[str, Received], states: Mapping[str, bytes], without: Sequence[str]) -> None:
    path, model, scores = run.path, run.model, np.asarray(to_numpy(run.model.scores))
    stored = {storage.make_directory(path / "messages") / f"{name}.summary": item for name, item in accepted.items()}
    kept = {storage.make_directory(path / "private") / f"{party}.state": data for party, data in states.items()}
    produced: dict[str, Content] = {
        "certificate.json": storage.as_json(model.certificate.to_dict()),
        SETTINGS: storage.as_json(run.settings),
        RESULT: _writing(wire.pieces(fused_model.result(model, scores, run.settings["sample_digest"]))),
        **embedding_files(run.sample_names, scores),
        MODEL_FILE: _writing(model_pieces(model)),  # the seal: it has the digests of the messages
    }
    new: dict[Path, Content] = {to: _writing(item.pieces) for to, item in stored.items() if item.path != to}
    storage.write_all(new | kept | {path / name: data for name, data in produced.items()}, private=kept)
    for name in without:
        storage.remove(path / "messages" / f"{name}.summary")
        (path / "private" / f"{name}.state").unlink(missing_ok=True)


def _writing(pieces: Sequence[Buffer]) -> Callable[[BinaryIO], None]:
    """Write what is in pieces; those of a mapped message leave memory as soon as they are written."""

    def write(file: BinaryIO) -> None:
        for piece in pieces:
            file.write(piece)
            let_go(np.frombuffer(piece, np.uint8))

    return write


def check(path: Path) -> None:
    """Find out before any work whether a run can be written there."""
    storage.check_folder(path if path.exists() else path.parent)
    found = {file.name for file in path.iterdir()} if path.is_dir() else set()  # at one moment: others may write
    if found - {storage.LOCK} and "messages" not in found:  # the result of a study has settings too
        raise InputError(f"{path}: is a directory with other files in it, not a run; choose another --out")


def read_settings(path: Path) -> dict[str, Any]:
    """Settings of a run; empty if there are none yet, or if they are those of a study's result."""
    if (path / "request.json").exists():
        raise InputError(
            f"{path}: is a run of the network of an earlier version; fuse its messages into a new run with "
            f"'dkpca fuse {path / 'messages'}/*.summary --out NEW'"
        )
    file = path / SETTINGS
    if not file.exists():
        return {}
    try:
        stated = storage.read_json(file)
        if not isinstance(stated, dict) or not {"n_components", "center"} <= set(stated):
            raise InputError(f"{file}: not the settings of a run")
        if "plan" in stated:
            return {}
        codec.values(TYPES, {key: stated[key] for key in TYPES if key in stated}, what=str(file))
        return stated
    except (InputError, WireError) as error:
        raise InputError(f"{error}; delete it, and repeat 'dkpca fuse --out {path}'") from error


def parties_in(path: Path) -> list[str]:
    """Parties whose summaries are in a run."""
    return sorted(file.stem for file in (path / "messages").glob("*.summary"))


def names_of(
    path: Path, before: Mapping[str, Any], summary: Summary, given: Sequence[str] | None, id_normalize: Sequence[str]
) -> tuple[Sequence[str], Literal["ids", "row numbers"]]:
    """Sample names: those given, or those so far, or numbers where there have been none."""
    if given is not None and messages.digest(matching_keys(given, id_normalize)) != summary.sample_digest:
        raise FusionError(
            f"the {len(given)} ids given are not those of the {summary.n_samples} samples in the messages, in their "
            "order; give the ids that the parties used, with their --id-normalize"
        )
    if given is not None:
        return given, "ids"
    named_by = before.get("sample_names")
    for file in () if named_by == ROW_NUMBERS else ("embedding.parquet", "embedding.csv"):
        with suppress(InputError, StorageError):
            names = read_ids(path / file, Reading("sample"))
            if messages.digest(matching_keys(names, id_normalize)) == summary.sample_digest:
                return names, "ids"
    if named_by == "ids" and summary.sample_digest != messages.row_number_digest(summary.n_samples):
        raise FusionError(
            f"{path}: the names of the samples cannot be read from embedding.parquet; repeat 'dkpca fuse --out "
            f"{path}' with --ids"
        )
    return [*map(str, range(summary.n_samples))], ROW_NUMBERS


def write_new(
    run: Run,
    out: Path,
    placed: Placed,
    sent: Sequence[Rows],
    names: Sequence[str] | None,
    digest: str,
    places: Mapping[str, Sequence[int]] | None,
) -> list[str]:
    """Write the scores of new samples, and the messages they came in, to a directory; return those outside the fit.

    settings.json has these too, the missing parties, and the samples that others lack: all but those at `places`.
    """
    # Without ids, not the numbers that samples of the fit may have.
    scores = to_numpy(placed.scores)
    names = names or [f"new-{row}" for row in range(len(scores))]
    flags = outside_at_center(run.model, placed.rows).tolist()
    outside = [name for name, is_outside in zip(names, flags, strict=True) if is_outside]
    has = {name: frozenset(own) for name, own in (places or {}).items() if len(own) < len(names)}
    has |= dict.fromkeys(set(run.model.summaries) - {rows.party for rows in sent} - set(placed.missing), frozenset())
    lacking = {name: [each for row, each in enumerate(names) if row not in own] for name, own in has.items()}
    completed = [any(row not in own for own in has.values()) for row in range(len(names))]
    settings = {
        "run": run.path.name,
        "n_samples": len(scores),
        "sample_digest": digest,
        "outside": outside,
        "summaries": {name: each["summary_id"] for name, each in run.settings["parties"].items()},
        "missing": list(placed.missing),
        "lacking": lacking,
        "versions": versions(),
    }
    embeddings = embedding_files(names, scores, outside=flags, completed=completed)
    produced: dict[str, Content] = {f"messages/{rows.party}.rows": wire.encode(rows) for rows in sent}
    produced[RESULT] = wire.encode(fused_model.result(run.model, scores, digest))
    produced[SETTINGS] = storage.as_json(settings)
    with storage.writing(out):
        # Embeddings go first and come last: where they are, the rest belongs to them.
        for former in (*map(out.joinpath, embeddings), *storage.make_directory(out / "messages").glob("*.rows")):
            storage.remove(former)
        for name, data in (*produced.items(), *embeddings.items()):
            storage.write(out / name, data)
    return outside
