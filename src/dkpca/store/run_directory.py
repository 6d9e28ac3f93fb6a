"""The directory of a run: who may write there, and what can be read from it, whole or not."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from dkpca import messages
from dkpca.errors import FusionError, InputError, StorageError, WireError
from dkpca.messages import Summary
from dkpca.store import journal, locks, storage
from dkpca.store.locks import LOCK
from dkpca.store.run_settings import ROW_NUMBERS, RunSettings
from dkpca.tables.ids import matching_keys
from dkpca.tables.reading import read_ids
from dkpca.wire import codec

SETTINGS = "settings.json"
OLD_REQUEST = "request.json"  # only a run of the former network has it
LOST_NAMES = "the samples are numbered: their names so far could not be read; name them with --ids"


def check(path: Path) -> None:
    """Find out before any work whether a run can be written there."""
    storage.check_folder(path if path.exists() else path.parent)
    found = {file.name for file in path.iterdir()} if path.is_dir() else set()  # at one moment: others may write
    check_version(path)
    if found - {LOCK} and not found & {SETTINGS, "messages"}:
        raise InputError(f"{path}: is a directory with other files in it, not a run; choose another --out")


def check_version(path: Path) -> None:
    """Refuse a run of the former network; its messages still fuse."""
    if (path / OLD_REQUEST).exists():
        raise InputError(
            f"{path}: is a run of the network of an earlier version; fuse its messages into a new run with "
            f"'dkpca fuse {path / 'messages'}/*.summary --out NEW'"
        )


def read_settings(path: Path) -> RunSettings | None:
    """Settings of a run; None if there is none yet."""
    file = path / SETTINGS
    if not file.exists():
        return None
    try:
        return codec.decode(RunSettings, storage.read_json(file), what=f"{file}: not the settings of a run")
    except (InputError, WireError) as error:
        raise InputError(f"{error}; repeat 'dkpca fuse --out {path}'") from error


def is_projection(path: Path) -> bool:
    """Whether a directory holds the scores of new samples of a run, and not a run."""
    file = path / SETTINGS
    described = storage.read_json(file) if file.exists() else None
    return isinstance(described, dict) and "run" in described


def parties_in(path: Path) -> list[str]:
    """Parties whose summaries are in a run."""
    return sorted(file.stem for file in (path / "messages").glob("*.summary"))


@contextmanager
def prepared(path: Path) -> Iterator[None]:
    """Hold a run's directory for writing, made if it is not there; after an error it is as it was."""
    new = not path.exists()
    storage.make_directory(path)
    try:
        with locks.writing(path):
            storage.recover(path)
            storage.make_directory(path / "messages")
            try:
                yield
            except BaseException:
                if new:
                    _unmade(path)
                raise
    except FileNotFoundError as error:
        raise StorageError(f"{path}: was removed meanwhile; repeat the command") from error


def _unmade(path: Path) -> None:
    """Remove a directory that was made for nothing; one that somebody else has put files into stays."""
    with suppress(OSError):
        (path / "messages").rmdir()
        (path / LOCK).unlink()
        path.rmdir()


@contextmanager
def consistent(path: Path) -> Iterator[None]:
    """Hold a run's directory for reading, once whatever was interrupted there is finished."""
    if any(path.glob(f".*{journal.COMMIT}")):
        with locks.writing(path):
            storage.recover(path)
    with locks.reading(path):
        yield


def stored_names(path: Path, digest: str, id_normalize: Sequence[str]) -> list[str] | None:
    """Sample names in a run, if they are there, whole, and those of the messages."""
    for name in ("embedding.parquet", "embedding.csv"):
        with suppress(InputError, StorageError):
            names = read_ids(path / name, "sample")
            if messages.digest(matching_keys(names, id_normalize)) == digest:
                return names
    return None


def names_of(
    path: Path, summary: Summary, given: Sequence[str] | None, id_normalize: Sequence[str]
) -> tuple[Sequence[str], Literal["ids", "row numbers"], tuple[str, ...]]:
    """Sample names, where they are from, and what became of those so far."""
    checked = checked_names(given, summary.sample_digest, summary.n_samples, id_normalize)
    if checked is None:
        checked = stored_names(path, summary.sample_digest, id_normalize)
    if checked is not None:
        return checked, "ids", ()
    by_position = summary.sample_digest == messages.row_number_digest(summary.n_samples)
    lost = () if by_position or not (path / SETTINGS).exists() else (LOST_NAMES,)
    return numbered(summary.n_samples), ROW_NUMBERS, lost


def checked_names(
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


def numbered(n_samples: int) -> list[str]:
    return [str(row) for row in range(n_samples)]
