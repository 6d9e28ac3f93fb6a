"""Tables in and out: CSV, Parquet, Arrow, NumPy and DataFrames, with their sample ids."""

import contextlib
import difflib
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from dkpca.errors import InputError, StorageError

MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"]
SUFFIXES = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".ipc", ".feather", ".npy", ".npz")
TEXT_COLUMNS = ("error", "one-hot", "ignore")  # what can be done with them
TEXT = (pl.String, pl.Categorical, pl.Enum)

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]


@dataclass(frozen=True)
class Reading:
    """How a party wants its table read.

    Parameters
    ----------
    id_column : str, optional
        Column with the sample ids. None: rows match by position.
    columns, exclude : tuple of str
        Columns to use (none named: all but the id), and columns to leave out.
    text : {"error", "one-hot", "ignore"}
        What to do with columns of text.
    max_missing : float
        Columns with a larger share of missing values are dropped; in the others the mean is filled in.
    standardize : bool
        Give every column mean 0 and standard deviation 1.
    """

    id_column: str | None = None
    columns: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    text: str = "error"
    max_missing: float = 0.1
    standardize: bool = True


@dataclass(frozen=True)
class Table:
    """Feature columns with their sample ids, as read."""

    source: str
    ids: list[str] | None
    frame: pl.DataFrame

    def __len__(self) -> int:
        return self.frame.height

    def take(self, rows: Sequence[int]) -> "Table":
        """Rows by number, in that order."""
        ids = None if self.ids is None else [self.ids[row] for row in rows]
        return Table(self.source, ids, self.frame[list(rows)])


def read(path: Path, reading: Reading) -> Table:
    """Read a CSV, Parquet, Arrow or NumPy file; only the columns wanted are loaded."""
    with _explained(path):
        return _select(scan(path), reading, str(path))


def is_table(path: Path) -> bool:
    """Whether the name of the file is that of a table."""
    return path.suffix.lower() in SUFFIXES


def column_names(path: Path) -> list[str]:
    """Names of the columns of a table, nothing of it loaded."""
    with _explained(path):
        return scan(path).collect_schema().names()


def read_ids(path: Path, id_column: str) -> list[str]:
    """Sample ids of a table, in its order."""
    with _explained(path):
        frame = scan(path)
        _check_columns([id_column], frame.collect_schema().names(), str(path))
        return _ids(frame.select(id_column).collect()[id_column], str(path))


def read_labels(path: Path, id_column: str, column: str) -> dict[str, str]:
    """One column as text, by sample id."""
    with _explained(path):
        frame = scan(path)
        _check_columns([id_column, column], frame.collect_schema().names(), str(path))
        labels = frame.select(pl.col(column).cast(pl.String).fill_null("missing")).collect()[column]
    return dict(zip(read_ids(path, id_column), labels.to_list(), strict=True))


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn what goes wrong while reading into a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise StorageError(f"{path}: there is no such file; check the path") from error
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror or error}); check the file") from error
    except (pl.exceptions.PolarsError, ValueError, zipfile.BadZipFile) as error:
        if isinstance(error, InputError):
            raise
        reason = str(error).strip().partition("\n")[0]
        raise InputError(f"{path}: cannot be read as a {path.suffix} table ({reason}); check the file") from error


def from_frame(frame: Any, reading: Reading, *, name: str = "table") -> Table:
    """Take a polars, pandas or Arrow table, or anything else polars accepts."""
    if hasattr(frame, "to_pandas") or isinstance(frame, pl.DataFrame | dict):
        table = pl.DataFrame(frame)
    elif hasattr(frame, "columns") and hasattr(frame, "iloc"):
        table = pl.DataFrame({str(key): frame[key].to_numpy() for key in frame.columns}, nan_to_null=True)
    else:
        table = _from_array(np.asarray(frame))
    return _select(table.lazy(), reading, name)


def scan(path: Path) -> pl.LazyFrame:
    """Open a table without loading it."""
    if not path.exists():
        raise FileNotFoundError(path)
    if not path.is_file():
        raise InputError(f"{path}: is a directory or a pipe, not a table; give a file")
    kind = path.suffix.lower()
    if kind in (".csv", ".tsv", ".txt"):
        separator = "," if kind == ".csv" else "\t"
        # The whole column decides its type: one word in row 50,000 makes it text, and is then reported.
        return pl.scan_csv(path, separator=separator, null_values=MISSING, infer_schema_length=None)
    if kind in (".parquet", ".pq"):
        return pl.scan_parquet(path)
    if kind in (".arrow", ".ipc", ".feather"):
        return pl.scan_ipc(path)
    if kind == ".npy":
        return _from_array(np.load(path, mmap_mode="r", allow_pickle=False)).lazy()
    if kind == ".npz":
        with np.load(path, allow_pickle=False) as arrays:
            return pl.concat([_from_array(arrays[key], key) for key in arrays], how="horizontal").lazy()
    raise InputError(f"{path}: not a table by its suffix {kind!r}; use one of {', '.join(SUFFIXES)}")


def renamed(path: Path, names: Mapping[str, str]) -> tuple[bytes, int]:
    """An embedding as CSV with other sample names, and how many samples have none."""
    with _explained(path):
        frame = scan(path).collect()
        _check_columns(["sample"], frame.columns, str(path))
    new = [names.get(str(sample)) for sample in frame["sample"]]
    csv = BytesIO()
    frame.with_columns(pl.Series("sample", new, dtype=pl.String)).write_csv(csv)
    return csv.getvalue(), new.count(None)


def embedding_files(sample_ids: Sequence[str], scores: Matrix) -> dict[str, bytes]:
    """Scores as CSV and Parquet, the first column the sample id."""
    frame = pl.DataFrame({"sample": list(sample_ids)}).hstack(
        [pl.Series(f"component_{d + 1}", scores[:, d]) for d in range(scores.shape[1])]
    )
    csv, parquet = BytesIO(), BytesIO()
    frame.write_csv(csv)
    frame.write_parquet(parquet)
    return {"embedding.csv": csv.getvalue(), "embedding.parquet": parquet.getvalue()}


def _select(frame: pl.LazyFrame, reading: Reading, source: str) -> Table:
    """Load the columns wanted, and check the ids."""
    schema = frame.collect_schema()
    named = [reading.id_column] if reading.id_column else []
    _check_columns([*named, *reading.columns, *reading.exclude], schema.names(), source)
    wanted = [
        name
        for name, kind in schema.items()
        if name != reading.id_column
        and name not in reading.exclude
        and (not reading.columns or name in reading.columns)
        and not (reading.text == "ignore" and not reading.columns and isinstance(kind, TEXT))
    ]
    if not wanted:
        raise InputError(f"{source}: no feature column is left; check --columns, --exclude and --text")
    loaded = frame.select(*named, *wanted).collect(engine="streaming")
    ids = _ids(loaded[reading.id_column], source) if reading.id_column else None
    return Table(source, ids, loaded.select(wanted))


def _check_columns(wanted: Sequence[str], known: list[str], source: str) -> None:
    for name in wanted:
        if name not in known:
            raise InputError(f"{source}: has no column {name!r}; {_did_you_mean(name, known)}")


def _ids(column: pl.Series, source: str) -> list[str]:
    """Sample ids as text, each there and each once."""
    if column.dtype.is_float() and column.drop_nulls().is_finite().all() and (column == column.round()).all():
        column = column.cast(pl.Int64)
    column = column.cast(pl.String)
    if column.null_count():
        row = column.is_null().arg_max() or 0
        raise InputError(f"{source}: no id in column {column.name!r}, row {row + 1}; give every sample an id")
    if column.n_unique() < len(column):
        twice = str(column.filter(column.is_duplicated())[0])
        rows = [row + 1 for row in (column == twice).arg_true().to_list()]
        raise InputError(
            f"{source}: id {twice!r} in column {column.name!r} stands in rows {rows[:5]}; ids must be unique, "
            "keep one of these rows"
        )
    return column.to_list()


def _from_array(array: np.ndarray[Any, Any], name: str = "x") -> pl.DataFrame:
    """Columns x0, x1, ... of a matrix; a vector is one column of its own name."""
    if array.ndim == 1:
        return pl.DataFrame({name: array})
    if array.ndim != 2:
        raise InputError(f"array {name!r} has {array.ndim} dimensions; a table has rows and columns")
    return pl.DataFrame({f"{name}{j}": array[:, j] for j in range(array.shape[1])})


def _did_you_mean(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"it has {some(known)}"


def some(names: Sequence[str]) -> str:
    """Names for a sentence, not more than a reader wants."""
    shown = ", ".join(repr(name) for name in names[:8])
    return shown + (f" and {len(names) - 8} more" if len(names) > 8 else "")
