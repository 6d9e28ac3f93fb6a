"""Message files: reading them, and naming them when something is wrong."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dkpca import wire
from dkpca.errors import DKPCAError, FusionError, StorageError, WireError
from dkpca.messages import Message, Summary
from dkpca.store import storage

KindT = TypeVar("KindT", bound=Message)


@dataclass(frozen=True)
class Received:
    """A message with the file it came in."""

    path: Path
    data: bytes | memoryview
    message: Any


def receive(path: Path, *kinds: type[Any]) -> Received:
    """Read a message, keeping its bytes."""
    data = storage.mapped(path)
    return Received(path, data, decode(path, data, *kinds))


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


def read(path: Path, *kinds: type[KindT]) -> KindT:
    """Read a message, of one of the kinds wanted."""
    return decode(path, storage.mapped(path), *kinds)


def decode(path: Path, data: bytes | memoryview, *kinds: type[KindT]) -> KindT:
    """Return the message in the bytes of a file, of one of the kinds wanted."""
    with naming(path):
        message = wire.decode(data)
        if not isinstance(message, kinds):
            wanted = " or ".join(cls.__name__.lower() for cls in kinds)
            raise WireError(f"holds a message of kind {wire.kind_of(message)}, not {wanted}; give the right file")
    return message


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Put the name of the file in front of every error that lacks it."""
    try:
        yield
    except DKPCAError as error:
        if str(path) in str(error) or isinstance(error, StorageError):
            raise
        raise type(error)(f"{path}: {error}") from error


@contextlib.contextmanager
def naming_files(paths: Mapping[str, Path]) -> Iterator[None]:
    """Add to an error about parties which files they came in."""
    try:
        yield
    except FusionError as error:
        named = [party for party in paths if repr(party) in str(error)]
        files = ", ".join(_with_party(party, paths[party]) for party in named or paths)
        raise FusionError(f"{error} (files: {files})") from error


def _with_party(party: str, path: Path) -> str:
    """Name of a file, and whose it is where its name says another."""
    return str(path) if path.name.partition(".")[0] == party else f"{path} is from {party!r}"
