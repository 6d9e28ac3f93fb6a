"""A fitted estimator as one private file: its parameters, the center's model and every party's state."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from dkpca import strict_json
from dkpca.errors import InputError, WireError
from dkpca.fusion import FusedModel
from dkpca.party.state import PartyState
from dkpca.protection.shield import Shield
from dkpca.store import model_file, private_state, storage
from dkpca.store.message_files import naming
from dkpca.wire import codec, container
from dkpca.wire.container import PRIVATE

VERSION = 1
WARNING = "PRIVATE: this file contains the data of every party; never send it"
WHAT = "saved estimator"
MODEL, STATE = "model", "state."  # arrays that are the bytes of a file
IDS = "sample_ids"  # an array that is the bytes of a JSON list
FACTS = {"party_names": tuple[str, ...], "feature_names": tuple[str, ...], "sources": Mapping[str, str]}


@dataclass(frozen=True)
class Fitted:
    """Everything a fitted estimator needs to go on where it was saved.

    Parameters
    ----------
    parameters : mapping of str to object
        Of the constructor.
    party_names : tuple of str
        In the order of the input.
    feature_names : tuple of str
        Of the one table that was cut into parties; empty where there was none, or it had no names.
    sources : mapping of str to Path
        Tables that a worker opens again, by party.
    model : FusedModel
        What the center holds.
    states : mapping of str to PartyState
        What each party keeps, as far as it is known here.
    shield : Shield
        How the fit was protected.
    ids : tuple, optional
        Labels of the rows of the fit; None: they had none.
    """

    parameters: Mapping[str, Any]
    party_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    sources: Mapping[str, Any]
    model: FusedModel
    states: Mapping[str, PartyState]
    shield: Shield = field(default_factory=Shield)
    ids: tuple[Any, ...] | None = None


def write(path: Path, fitted: Fitted) -> None:
    """Replace the file, for its owner's eyes only; nothing is changed unless all of it can be written."""
    functions = sorted(name for name, source in fitted.sources.items() if not isinstance(source, Path))
    if functions:
        raise InputError(f"the tables of {functions} came from functions, which cannot be saved; fit from files")
    files = {MODEL: model_file.encode(fitted.model)}
    files |= {STATE + name: private_state.encode(state) for name, state in fitted.states.items()}
    if fitted.ids is not None:
        files[IDS] = json.dumps([_label(label) for label in fitted.ids]).encode()
    facts = {
        "party_names": list(fitted.party_names),
        "feature_names": list(fitted.feature_names),
        "sources": {name: str(source) for name, source in fitted.sources.items()},
        **({} if fitted.shield == Shield() else {"shield": codec.described(fitted.shield)}),
    }
    parameters = {name: codec.plain(_listed(value)) for name, value in fitted.parameters.items()}
    header = {
        "warning": WARNING,
        "estimator": VERSION,
        "dkpca": version("dkpca"),
        "parameters": parameters,
        "facts": facts,
    }
    arrays = {name: np.frombuffer(data, dtype=np.uint8) for name, data in files.items()}
    storage.write(path, container.pack(header, arrays, entry=PRIVATE), private=True)


def read(path: Path, hints: Mapping[str, Any]) -> Fitted:
    """Read what `write` was given; the hints are the types of the constructor's parameters."""
    with naming(path):
        header, arrays = container.unpack(storage.read(path), entry=PRIVATE, max_header=private_state.MAX_HEADER)
        if "estimator" not in header:
            raise WireError("the state of one party, not a fitted estimator; dkpca.load opens it")
        header = container.verify(header, arrays)
        saved_by = header.get("dkpca", "0.1")
        if header["estimator"] != VERSION:
            raise WireError(
                f"{WHAT} has format version {header['estimator']!r}, of dkpca {saved_by}; dkpca "
                f"{version('dkpca')} reads {VERSION}"
            )
        return _fitted(header, arrays, hints, f"{WHAT} of dkpca {saved_by}")


def _fitted(header: Mapping[str, Any], arrays: Mapping[str, Any], hints: Mapping[str, Any], what: str) -> Fitted:
    facts = codec.values(FACTS | {"shield": Shield}, header.get("facts"), what=what)
    shield = facts.pop("shield", Shield())
    expected = {STATE + name: name for name in facts.get("party_names", ())}
    if set(facts) != set(FACTS) or not {MODEL} <= set(arrays) <= {MODEL, IDS, *expected}:
        raise WireError(f"{what}: does not have the parts of its kind; save it again")
    kept = {name: arrays[key].tobytes() for key, name in expected.items() if key in arrays}
    return Fitted(
        parameters=codec.values(hints, header.get("parameters"), what=what),
        party_names=facts["party_names"],
        feature_names=facts["feature_names"],
        sources={name: Path(source) for name, source in facts["sources"].items()},
        model=model_file.decode(arrays[MODEL].tobytes()),
        states={name: private_state.decode(data) for name, data in kept.items()},
        shield=shield,
        ids=_labels(arrays.get(IDS)),
    )


def _label(label: Any) -> Any:
    """A label as JSON has it: numbers and text as they are, anything else as text."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if isinstance(label, str | int | float) else str(label)


def _labels(data: Any) -> tuple[Any, ...] | None:
    if data is None:
        return None
    labels = strict_json.loads(data.tobytes())
    if not isinstance(labels, list) or not all(isinstance(label, str | int | float) for label in labels):
        raise WireError(f"{WHAT}: does not have the ids of its samples as a list; save it again")
    return tuple(labels)


def _is_group(value: Any) -> bool:
    return hasattr(value, "__iter__") and not isinstance(value, str)


def _listed(value: Any) -> Any:
    """Groups of columns as plain lists, whatever kind of sequence they were."""
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence):
        return value
    groups = value.items() if isinstance(value, Mapping) else enumerate(value)
    listed = {key: list(each) if _is_group(each) else each for key, each in groups}
    return listed if isinstance(value, Mapping) else list(listed.values())
