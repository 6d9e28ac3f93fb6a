"""The file a party keeps so that it can place new samples. It contains data: never send it."""

from pathlib import Path

from dkpca.errors import WireError
from dkpca.party.state import PartyState
from dkpca.store import storage
from dkpca.store.message_files import naming
from dkpca.wire import codec, container
from dkpca.wire.container import PRIVATE

VERSION = 1
MAX_HEADER = 64 * 2**20  # the names of all columns are in it
ANOTHER_VERSION = "private state that this version of dkpca cannot use; make it again"
WARNING = "PRIVATE: this file contains the party's data; never send it"


def encode(state: PartyState) -> bytes:
    """Return the state as the bytes of one file."""
    fields, arrays = codec.encode(state, skip=("preparation",))
    header = {"warning": WARNING, "version": VERSION, "fields": fields, "preparation": state.preparation}
    return container.pack(header, arrays, entry=PRIVATE)


def decode(data: bytes) -> PartyState:
    """Return the state that was encoded, or raise `WireError`."""
    header, arrays = container.unpack(data, entry=PRIVATE, max_header=MAX_HEADER)
    header = container.verify(header, arrays)
    if "estimator" in header:
        raise WireError(
            "a fitted estimator, not the state of one party; it contains data: never send it, open it by DKPCA.load"
        )
    if header.get("version") != VERSION:
        raise WireError(f"private state has format version {header.get('version')!r}; this dkpca reads {VERSION}")
    preparation = header.get("preparation")
    if not isinstance(preparation, dict | None):
        raise WireError(f"{ANOTHER_VERSION}: preparation is a {type(preparation).__name__}")
    return codec.decode(PartyState, header.get("fields"), arrays, what=ANOTHER_VERSION, preparation=preparation)


def load_all(directory: Path) -> dict[str, PartyState]:
    """Read the states in a directory, by party; none if there is no directory."""
    states = [load(path) for path in sorted(directory.glob("*.state"))]
    return {state.party: state for state in states}


def load(path: Path) -> PartyState:
    """Read one party's state."""
    with naming(path):
        return decode(storage.read(path))


def is_private(data: bytes) -> bool:
    """Whether these are the bytes of a private file, damaged or not."""
    return f'"{PRIVATE}"'.encode() in data[: 2**12]
