"""The file of a fused model: alone with the summaries inside, or in a run directory beside them."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from dkpca import wire
from dkpca.errors import FusionError, InputError, WireError
from dkpca.fusion import FusedModel
from dkpca.fusion.completion import completed
from dkpca.messages import Summary
from dkpca.store import message_files, storage
from dkpca.store.message_files import naming
from dkpca.wire import codec, container
from dkpca.wire.container import MODEL, Header
from dkpca.wire.layout import Arrays, Buffer

FILE = "model.safetensors"  # of a run
MAX_HEADER = 2**20
INSIDE = "message."  # arrays that are the bytes of a summary
LACKING, PLACES = "lacking", "places."  # what stands in place of rows that parties lack; where the others are
LACKED = ("mean", "complete")


def encode(model: FusedModel) -> bytes:
    """Return the model as the bytes of one file, with the messages it was made from."""
    fields, arrays = _encoded(model)
    sent = {name: wire.encode(summary) for name, summary in model.received.items()}
    arrays |= {INSIDE + name: np.frombuffer(data, dtype=np.uint8) for name, data in sent.items()}
    return b"".join(_pieces(model, fields, arrays))


def pieces(model: FusedModel) -> list[Buffer]:
    """Return the model as the pieces of one file that lies beside the messages it was made from."""
    return _pieces(model, *_encoded(model))


def _encoded(model: FusedModel) -> tuple[Header, Arrays]:
    """Fields and arrays of the model; completed rows are made again from the messages and the places."""
    fields, arrays = codec.encode(model, skip=("summaries", "lacking"))
    if model.lacking is not None:
        fields[LACKING] = model.lacking.mode
        arrays |= {PLACES + name: np.asarray(own, dtype=np.int64) for name, own in model.lacking.places.items()}
    return fields, arrays


def _pieces(model: FusedModel, fields: Header, arrays: Arrays) -> list[Buffer]:
    header = {"summary_ids": _ids(model.received), "fields": fields}
    return container.pieces(header | {"checksum": container.checksum(header, arrays)}, arrays, entry=MODEL)


def decode(data: bytes) -> FusedModel:
    """Return a model that was saved alone, or raise `WireError`."""
    header, arrays = _verified(data)
    inside = {name.removeprefix(INSIDE): array for name, array in arrays.items() if name.startswith(INSIDE)}
    if not inside:
        raise WireError("is the model of a run, and needs the messages beside it; open the run: DKPCA.from_run")
    summaries = {name: _summary(array.tobytes()) for name, array in sorted(inside.items())}
    if header.get("summary_ids") != _ids(summaries):
        raise WireError("does not belong to the messages inside it; get the file again from whoever made it")
    rest = {name: array for name, array in arrays.items() if not name.startswith(INSIDE)}
    return _model(header, rest, summaries)


def load_beside(directory: Path) -> FusedModel:
    """Read the model of a run, with the messages beside it."""
    file = directory / FILE
    if not file.exists():
        raise InputError(f"{directory}: is no run directory; make one with 'dkpca fuse' or 'dkpca fit'")
    summaries = {name: item.message for name, item in message_files.stored_summaries(directory).items()}
    with naming(file):
        try:
            header, arrays = _verified(storage.mapped(file))
            if header.get("summary_ids") != _ids(summaries):
                raise WireError("does not belong to the messages beside it")
            return _model(header, arrays, summaries)
        except WireError as error:
            raise WireError(f"{error}; repeat 'dkpca fuse --out {directory}'") from error


def _verified(data: Buffer) -> tuple[Header, Arrays]:
    header, arrays = container.unpack(data, entry=MODEL, max_header=MAX_HEADER)
    return container.verify(header, arrays), arrays


def _model(header: Header, arrays: Arrays, summaries: Mapping[str, Summary]) -> FusedModel:
    fields, lacked = dict(header.get("fields") or {}), None
    if LACKING in fields:
        mode, settings = fields.pop(LACKING), dict(fields.get("settings") or {})
        places = {name.removeprefix(PLACES): own for name, own in arrays.items() if name.startswith(PLACES)}
        arrays = Arrays({name: array for name, array in arrays.items() if not name.startswith(PLACES)})
        if (
            mode not in LACKED
            or set(places) != set(summaries)
            or any(own.dtype != np.int64 for own in places.values())
        ):
            raise WireError("does not say which samples its parties lack")
        seed, dtype = settings.get("random_state", 0), settings.get("dtype", "float64")
        try:
            summaries, _, lacked = completed(summaries, places, mode=mode, dtype=str(dtype), seed=int(seed))
        except (FusionError, InputError) as error:
            raise WireError(f"has places of samples that its messages do not have: {error}") from error
    model = codec.decode(FusedModel, fields, arrays, what="not a model", summaries=summaries, lacking=lacked)
    if not summaries or not _fits(model, next(iter(summaries.values())).n_samples):
        raise WireError("has arrays of other shapes than the messages that belong to it")
    return model


def _fits(model: FusedModel, n_samples: int) -> bool:
    """Whether the arrays of a model have the shapes that belong together."""
    k, anchors, nearby = len(model.eigenvalues), model.extension.anchors, model.nearby
    n_anchors = n_samples if anchors is None else len(anchors)
    in_range = anchors is None or (anchors.dtype == np.int64 and 0 <= anchors.min() <= anchors.max() < n_samples)
    return bool(
        model.eigenvalues.shape == model.explained_variance_ratio.shape == model.extension.offset.shape == (k,)
        and model.eigenvectors.shape == (n_samples, k)
        and model.extension.weights.shape == (n_anchors, k)
        and in_range
        and (nearby is None or nearby.vectors.shape == (n_samples, len(nearby.values)))
    )


def _summary(data: bytes) -> Summary:
    message = wire.decode(data)
    if not isinstance(message, Summary):
        raise WireError(f"has a message of kind {wire.kind_of(message)} inside, not a summary")
    return message


def _ids(summaries: Mapping[str, Summary]) -> dict[str, str]:
    return {name: wire.fingerprint(summary) for name, summary in summaries.items()}
