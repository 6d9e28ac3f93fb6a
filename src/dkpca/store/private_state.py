"""The file a party keeps so that it can place new samples. It contains data: never send it."""

from dkpca.errors import WireError
from dkpca.party import PartyState
from dkpca.tables.preparation import Preparation
from dkpca.wire import codec, container
from dkpca.wire.container import PRIVATE

VERSION = 1
MAX_HEADER = 64 * 2**20  # the names of all columns are in it
ANOTHER_VERSION = "private state that this version of dkpca cannot use; make it again"
WARNING = "PRIVATE: this file contains the party's data; never send it"


def encode(state: PartyState, preparation: Preparation) -> bytes:
    """Return the state, with what was learned about the columns, as the bytes of one file."""
    fields, arrays = codec.encode(state)
    prepared = codec.described(preparation)
    header = {"warning": WARNING, "version": VERSION, "fields": fields, "preparation": prepared}
    return container.pack(header, arrays, entry=PRIVATE)


def decode(data: bytes) -> tuple[PartyState, Preparation]:
    """Return what `encode` was given, or raise `WireError`."""
    header, arrays = container.unpack(data, entry=PRIVATE, max_header=MAX_HEADER)
    header = container.verify(header, arrays)
    if header.get("version") != VERSION:
        raise WireError(f"private state has format version {header.get('version')!r}; this dkpca reads {VERSION}")
    state = codec.decode(PartyState, header.get("fields"), arrays, what=ANOTHER_VERSION)
    return state, codec.decode(Preparation, header.get("preparation"), what=ANOTHER_VERSION)


def is_private(data: bytes) -> bool:
    """Whether these are the bytes of a private state, damaged or not."""
    return f'"{PRIVATE}"'.encode() in data[: 2**12]
