"""Messages, private states, models and fitted estimators as files: each says what it is, and carries its checksum.

A party's state and an estimator contain data: their files are for their owner's eyes only, and are never sent.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, TypeVar, overload

import numpy as np

from dkpca import wire
from dkpca.errors import DKPCAError, FusionError, InputError, StorageError, WireError
from dkpca.fusion import FusedModel
from dkpca.fusion.completion import completed
from dkpca.fusion.fused_model import FusionSettings
from dkpca.kernels import check_offered
from dkpca.linalg.arrays import Array
from dkpca.messages import Fingerprint, Message, Summary
from dkpca.party.state import ANOTHER_VERSION, PartyState, Shield, State, SumState
from dkpca.store import storage
from dkpca.wire import codec, container
from dkpca.wire.container import MODEL, PRIVATE, Arrays, Buffer, Header
from dkpca.wording import json_values

STATE_VERSION = 1
SUM_STATE = "masked sum"
MOST_PRIVATE_HEADER = 64 * 2**20  # the names of all columns are in it
STATE_WARNING = "PRIVATE: this file contains the party's data; never send it"
MODEL_FILE = "model.safetensors"  # of a run
MOST_MODEL_HEADER = 2**20
INSIDE = "message."  # arrays that are the bytes of a summary
LACKING, PLACES = "lacking", "places."  # what stands in place of rows that parties lack; where the others are
SAID = {"mode": Literal["mean", "complete"], "samples": Fingerprint}
ESTIMATOR_VERSION = 2  # of protected fits; that of others is 1
ESTIMATOR_WARNING = "PRIVATE: this file contains the data of every party; never send it"
ESTIMATOR = "saved estimator"
INNER_MODEL, INNER_STATE = "model", "state."  # arrays that are the bytes of a file
IDS = "sample_ids"  # an array that is the bytes of a JSON list
FORMER = ("missing",)  # parameters that estimators of 0.1 have and ours have not; `lacking` says it now
FORMER_BOUNDS = ("leading_errors_at_most", "component_losses_at_most", "solver_error_at_most")  # likewise
FORMER_OF_AUDIT = ("subspace_error_at_most", "subspace_error_trivial")


@dataclass(frozen=True)
class Received:
    """A message with the file it came in, and the bytes of that file."""

    path: Path
    pieces: Sequence[Buffer]
    message: Any


def receive(path: Path, kind: type[Message] = Message) -> Received:
    """Read a message, of the kind that is wanted, keeping its bytes."""
    data = storage.mapped(path)
    with naming(path):
        return Received(path, [data], _message(data, kind))


def _message(data: Buffer, kind: type[Message]) -> Any:
    """Return the message in these bytes, if it is of the kind that is wanted."""
    message = wire.decode(data)
    if not isinstance(message, kind):
        found, wanted = wire.kind_of(message), kind.__name__.lower()
        raise WireError(f"holds a message of kind {found}, not {wanted}; give the right file")
    return message


def stored_summaries(run: Path) -> dict[str, Received]:
    """Summaries that lie in a run directory, by party."""
    return by_party(receive(file, Summary) for file in sorted((run / "messages").glob("*.summary")))


def by_party(items: Iterable[Received]) -> dict[str, Received]:
    """Messages by party, if there is one from each."""
    named: dict[str, Received] = {}
    for item in items:
        name = item.message.party
        if name in named:
            raise FusionError(f"{named[name].path} and {item.path} are both from party {name!r}; keep one of them")
        named[name] = item
    return named


@contextlib.contextmanager
def naming(path: Path, *, opened: Path | None = None) -> Iterator[None]:
    """Put the name of the file in front of every error that lacks it; a file opened by another path has this name."""
    try:
        yield
    except DKPCAError as error:
        said = str(error).replace(str(opened or path), str(path))
        named = said if str(path) in said or isinstance(error, StorageError) else f"{path}: {said}"
        if named == str(error):
            raise
        raise type(error)(named) from error


def encode_state(state: State) -> bytes:
    """Return the state as the bytes of one file."""
    check_offered(state.kernel)
    fields, arrays = codec.encode(state, skip=("preparation",))
    header = {"warning": STATE_WARNING, "version": STATE_VERSION, "fields": fields, "preparation": state.preparation}
    if isinstance(state, SumState):
        header["kind"] = SUM_STATE
    return container.pack(header, arrays, entry=PRIVATE)


def decode_state(data: bytes) -> State:
    """Return the state that was encoded, or raise `WireError`."""
    header, arrays = container.unpack(data, entry=PRIVATE, max_header=MOST_PRIVATE_HEADER)
    header = container.verify(header, arrays)
    if "estimator" in header:
        raise WireError("a fitted estimator, not the state of one party; never send it, open it by DKPCA.load")
    if (found := header.get("version")) != STATE_VERSION:
        raise WireError(f"private state has format version {found!r}; this dkpca reads {STATE_VERSION}")
    preparation = header.get("preparation")
    if not isinstance(preparation, dict | None):
        raise WireError(f"{ANOTHER_VERSION}: preparation is a {type(preparation).__name__}")
    kind: type[Any] = SumState if header.get("kind") == SUM_STATE else PartyState
    state: State = codec.decode(kind, header.get("fields"), arrays, what=ANOTHER_VERSION, preparation=preparation)
    return state


def read_state(path: Path) -> State:
    """Read one party's state."""
    with naming(path):
        return decode_state(storage.read(path))


def encode_model(model: FusedModel) -> bytes:
    """Return the model as the bytes of one file, with the messages it was made from."""
    for kernel in model.kernels.values():
        check_offered(kernel)
    sent = {INSIDE + name: wire.encode(summary) for name, summary in model.received.items()}
    return b"".join(model_pieces(model, _as_arrays(sent)))


def model_pieces(model: FusedModel, inside: Mapping[str, Array] | None = None) -> list[Buffer]:
    """Return the model as the pieces of one file; without messages inside it, these lie beside it.

    Completed rows are not kept: they are made again from the messages and the places.
    """
    fields, arrays = codec.encode(model, skip=("summaries", "lacking"))
    if model.lacking is not None:
        fields[LACKING] = {"mode": model.lacking.mode, "samples": model.lacking.samples}
        arrays |= {PLACES + name: np.asarray(own, dtype=np.int64) for name, own in model.lacking.places.items()}
    arrays |= inside or {}
    header = {"summary_ids": _ids(model.received), "fields": fields}
    return container.pieces(header | {"checksum": container.checksum(header, arrays)}, arrays, entry=MODEL)


def decode_model(data: Buffer, beside: Mapping[str, Summary] | None = None) -> FusedModel:
    """Return a model that was saved with its messages inside, or that has them beside it; or raise `WireError`."""
    header, arrays = container.unpack(data, entry=MODEL, max_header=MOST_MODEL_HEADER)
    header = container.verify(header, arrays)
    inside, arrays = _parted(arrays, INSIDE)
    if beside is None and not inside:
        raise WireError("is the model of a run, without its messages; give these to dkpca.fuse")
    summaries = beside or {name: _message(array.tobytes(), Summary) for name, array in sorted(inside.items())}
    if header.get("summary_ids") != _ids(summaries):
        raise WireError("does not belong to its messages")
    fields, lacked = _as_today(dict(header.get("fields") or {}), arrays), None
    if LACKING in fields:
        said, settings = codec.values(SAID, fields.pop(LACKING), what="not a model"), fields.get("settings")
        places, arrays = _parted(arrays, PLACES)
        fit = codec.decode(FusionSettings, settings, what="not a model")
        if (
            set(said) != set(SAID)
            or set(places) != set(summaries)
            or any(own.dtype != np.int64 or own.ndim != 1 or not own.size for own in places.values())
            or max(int(own.max()) for own in places.values()) >= sum(s.n_samples for s in summaries.values())
        ):
            raise WireError("does not say which samples its parties lack")
        try:
            summaries, _, lacked = completed(summaries, places, dtype=fit.dtype, seed=fit.random_state, **said)
        except (FusionError, InputError) as error:
            raise WireError(f"has places of samples that its messages do not have: {error}") from error
    model = codec.decode(FusedModel, fields, arrays, what="not a model", summaries=summaries, lacking=lacked)
    if not summaries or not _fits(model, next(iter(summaries.values())).n_samples):
        raise WireError("has arrays of other shapes than the messages that belong to it")
    return model


def model_beside(directory: Path, items: Mapping[str, Received]) -> FusedModel:
    """Read the model of a run, with its messages, which lie beside it."""
    file = directory / MODEL_FILE
    if not file.exists():
        raise InputError(f"{directory}: has no model; a command was interrupted there, or is at work: repeat it")
    with naming(file):
        try:
            return decode_model(storage.mapped(file), {name: item.message for name, item in items.items()})
        except WireError as error:
            raise WireError(f"{error}; repeat 'dkpca fuse --out {directory}'") from error


def _as_today(fields: Header, arrays: Arrays) -> Header:
    """Fields of a model whose certificate has bounds of former versions, or, of 0.1, no eigenvalues."""
    stated = fields.get("certificate")
    if not isinstance(stated, dict):
        return fields
    stated = {name: value for name, value in stated.items() if name not in FORMER_BOUNDS}
    if isinstance(audit := stated.get("audit"), dict):
        stated["audit"] = {name: value for name, value in audit.items() if name not in FORMER_OF_AUDIT}
    if "eigenvalues" not in stated and "eigenvalues" in arrays:
        # The one behind the components is not in the file; zero makes the estimate of the share only smaller.
        stated["eigenvalues"] = [float(value) for value in arrays["eigenvalues"].reshape(-1)]
        stated["next_eigenvalue"] = 0.0
    return fields | {"certificate": stated}


def _fits(model: FusedModel, n_samples: int) -> bool:
    """Whether the arrays of a model have the shapes that belong together."""
    k, known, nearby, extension = len(model.eigenvalues), model.covariates, model.nearby, model.extension
    anchors, slopes = extension.anchors, extension.slopes
    if (slopes is None) != (known is None):
        return False
    n_anchors = n_samples if anchors is None else len(anchors)
    expected: list[tuple[Array, tuple[int, ...]]] = [(model.eigenvectors, (n_samples, k))]
    expected += [(each, (k,)) for each in (model.eigenvalues, model.explained_variance_ratio, extension.offset)]
    expected += [(extension.weights, (n_anchors, k))]
    if known is not None and slopes is not None:
        q = known.basis.shape[-1]
        expected += [(known.basis, (n_samples, q)), (known.to_basis, (len(known.mean), q)), (slopes, (q, k))]
        expected += [(known.strata, (n_samples,))]
    if nearby is not None:
        expected += [(nearby.vectors, (n_samples, len(nearby.values)))]
    in_range = anchors is None or (anchors.dtype == np.int64 and 0 <= anchors.min() <= anchors.max() < n_samples)
    return bool(in_range) and all(array.shape == shape for array, shape in expected)


def _parted(arrays: Arrays, prefix: str) -> tuple[Arrays, Arrays]:
    """Arrays whose names begin so, without that; and the others."""
    found = Arrays({name.removeprefix(prefix): own for name, own in arrays.items() if name.startswith(prefix)})
    return found, Arrays({name: own for name, own in arrays.items() if not name.startswith(prefix)})


def _as_arrays(files: Mapping[str, bytes]) -> Arrays:
    return {name: np.frombuffer(data, dtype=np.uint8) for name, data in files.items()}


def _ids(summaries: Mapping[str, Summary]) -> dict[str, str]:
    return {name: wire.fingerprint(summary) for name, summary in summaries.items()}


@dataclass(frozen=True, kw_only=True)
class Fitted:
    """What a fitted estimator needs to go on where it was saved; the first four are the file's facts."""

    party_names: tuple[str, ...]  # in the order of the input
    feature_names: tuple[str, ...]  # of the one table that was cut into parties, if it had names
    sources: Mapping[str, str] = field(default_factory=dict)  # in files of before 0.3: of tables to open again
    shield: Shield = field(default_factory=Shield)  # how the fit was protected
    parameters: Mapping[str, Any]  # of the constructor
    model: FusedModel
    states: Mapping[str, State]
    ids: tuple[Any, ...] | None = None  # labels of the rows of the fit


APART = ("parameters", "model", "states", "ids")  # of these, no facts


def write_estimator(path: Path, fitted: Fitted) -> None:
    """Replace the file, for its owner's eyes only."""
    files = {INNER_MODEL: encode_model(fitted.model)}
    files |= {INNER_STATE + name: encode_state(state) for name, state in fitted.states.items()}
    if fitted.ids is not None:
        files[IDS] = json.dumps([_label(label) for label in fitted.ids]).encode()
    header = {
        "warning": ESTIMATOR_WARNING,
        "estimator": 1 if fitted.shield.protect == "none" else ESTIMATOR_VERSION,
        "dkpca": version("dkpca"),
        "parameters": {name: codec.plain(value) for name, value in fitted.parameters.items()},
        "facts": codec.described(fitted, skip=APART),
    }
    storage.write(path, container.pack(header, _as_arrays(files), entry=PRIVATE), private=True)


def read_estimator(path: Path, hints: Mapping[str, Any]) -> Fitted:
    """Read what `write_estimator` was given; the hints are the types of the constructor's parameters."""
    with naming(path):
        data = storage.read(path)
        if (entry := container.entry_of(data)) != PRIVATE:
            raise WireError(f"{container.MEANING[entry]}, not a fitted estimator; dkpca.load opens it")
        header, arrays = container.unpack(data, entry=PRIVATE, max_header=MOST_PRIVATE_HEADER)
        if "estimator" not in header:
            raise WireError("the state of one party, not a fitted estimator; dkpca.load opens it")
        header = container.verify(header, arrays)
        what, kind = f"{ESTIMATOR} of dkpca {header.get('dkpca', '0.1')}", header["estimator"]
        given = header.get("parameters")
        if kind not in (1, ESTIMATOR_VERSION):
            raise WireError(f"{what}: has format version {kind!r}; this dkpca reads 1 and {ESTIMATOR_VERSION}")
        if isinstance(given, dict):
            given = {name: value for name, value in given.items() if name not in FORMER}
        states, others = _parted(arrays, INNER_STATE)
        if INNER_MODEL not in others or not set(others) <= {INNER_MODEL, IDS}:
            raise WireError(f"{what}: does not have the parts of its kind; save it again")
        fitted = codec.decode(
            Fitted,
            header.get("facts"),
            what=what,
            parameters=codec.values(hints, given, what=what),
            model=decode_model(others[INNER_MODEL].tobytes()),
            states={name: decode_state(data.tobytes()) for name, data in states.items()},
            ids=_labels(others[IDS].tobytes()) if IDS in others else None,
        )
        if set(states) != set(fitted.party_names):
            raise WireError(f"{what}: does not have the parts of its kind; save it again")
        if fitted.shield.protect != "none" and kind == 1:
            raise WireError(f"{what}: a protected fit from before version 2 of the protocol; fit again")
        if fitted.sources:
            raise WireError(f"{what}: a fit of tables given as paths, which are no longer opened; fit again")
        return fitted


def _label(label: Any) -> Any:
    """A label as JSON has it: numbers and text as they are, anything else as text."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if isinstance(label, str | int | float) else str(label)


def _labels(data: bytes) -> tuple[Any, ...]:
    labels = json_values(data)
    if not isinstance(labels, list) or not all(isinstance(label, str | int | float) for label in labels):
        raise WireError(f"{ESTIMATOR}: does not have the ids of its samples as a list; save it again")
    return tuple(labels)


Saved = Message | State | FusedModel
SavedT = TypeVar("SavedT", bound=Saved)

# What a file may hold, by the entry in its header: classes, how they become bytes, and how bytes become them.
KINDS: Mapping[str, tuple[Any, Callable[[Any], bytes], Callable[[bytes], Saved]]] = {
    container.MESSAGE: (Message, wire.encode, wire.decode),
    container.PRIVATE: (State, encode_state, decode_state),
    container.MODEL: (FusedModel, encode_model, decode_model),
}


def save(path: str | Path, item: Saved) -> None:
    """Write a message, a party's state or a model to a file, whole or not at all.

    Parameters
    ----------
    path : str or Path
        The file; one that is there is replaced.
    item : message of dkpca.messages, PartyState or FusedModel
        A state contains data: only the owner of its file may read it. A model is kept with its summaries.

    Examples
    --------
    >>> import tempfile
    >>> import dkpca
    >>> summary, _ = dkpca.summarize([[1.0], [0.0]], party="bank", kernel="linear", rank=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dkpca.save(f"{folder}/bank.summary", summary)
    ...     dkpca.load(f"{folder}/bank.summary", dkpca.Summary).party
    'bank'
    """
    for entry, (kind, encode, _) in KINDS.items():
        if isinstance(item, kind):
            storage.write(Path(path), encode(item), private=entry == PRIVATE)
            return
    raise InputError(f"a {type(item).__name__} cannot be saved here; give a message, a PartyState or a FusedModel")


@overload
def load(path: str | Path) -> Saved: ...
@overload
def load(path: str | Path, kind: type[SavedT]) -> SavedT: ...
def load(path: str | Path, kind: type[Any] | None = None) -> Any:
    """Read what `save` or a command wrote: a message, a private state, or a model, with NumPy arrays.

    Parameters
    ----------
    path : str or Path
        The file; it says what it is, and nothing in it is executed. A bad one raises `dkpca.errors.WireError`.
    kind : type, optional
        Class that is wanted, such as `dkpca.Summary`; a file that holds something else is refused. None: any.

    Examples
    --------
    >>> import tempfile
    >>> import dkpca
    >>> summary, _ = dkpca.summarize([[1.0], [0.0]], party="bank", kernel="linear", rank=1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     dkpca.save(f"{folder}/model", dkpca.fuse([summary], n_components=1))
    ...     dkpca.load(f"{folder}/model").n_components
    1
    """
    data = storage.read(Path(path))
    with naming(Path(path)):
        item = KINDS[container.entry_of(data)][2](data)
        if kind is not None and not isinstance(item, kind):
            raise WireError(f"holds a {type(item).__name__}, not a {kind.__name__}; give the right file")
        return item
