"""What a caller may pass as a party's table, checked.

An array or DataFrame is checked where the caller is. A path to a file, or a function without arguments that returns
a table, is opened and checked by the worker that computes for the party, and only there: its rows never pass through
the caller's machine.
"""

import contextlib
import math
import tokenize
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse
from sklearn.utils.validation import check_array

from dkpca.errors import InputError, StorageError
from dkpca.linalg.arrays import Array, MemoryLimit, device, dtype_name, free_memory, namespace, tall
from dkpca.messages import check_party_name
from dkpca.tables.categories import coded, is_missing
from dkpca.tables.column_rules import check_features
from dkpca.wording import counted

Source = Path | Callable[[], Any]
COPIES = 3  # of a table that a fit has at one time
TEXT_ADVICE = (
    "make text 0/1 columns with sklearn.preprocessing.OneHotEncoder (the recipe for numbers and categories in one "
    "table is in the documentation, 'Tables'), or pass these columns as a party of their own with the kernel "
    "'overlap', to which every column is a category, numbers too"
)
MOST_WHOLE = 2**53  # every whole number up to it is a float64
CONVERTED = 2**16  # rows of a mapped array that are turned into double precision together


def as_table(name: str, table: Any, *, columns_are: str = "quantities") -> Array | Source:
    """Return a checked array, or the source of one that a worker is to open."""
    if isinstance(table, str | Path):
        return Path(table).absolute()
    if callable(table) and not hasattr(table, "shape"):
        return table
    return check_table(name, table, columns_are=columns_are)


def is_source(table: Array | Source) -> bool:
    """Whether a worker is to open the table."""
    return isinstance(table, Path) or (callable(table) and not hasattr(table, "shape"))


def named_columns(name: str, table: Any) -> tuple[str, ...] | None:
    """Names of the columns of a table in a file; None where it has none."""
    if not isinstance(table, str | Path) or Path(table).suffix == ".npy":
        return None
    try:
        return tuple(_reader(name, "reading").column_names(Path(table)))
    except (InputError, StorageError) as error:
        raise InputError(f"party {name!r}: {error}") from error


@dataclass(frozen=True)
class InColumns:
    """A table in a file with its columns in this order."""

    name: str
    path: Path
    columns: tuple[str, ...]

    def __call__(self, memory: MemoryLimit | None = None) -> Array:
        """Read it."""
        return _reader(self.name).read_numbers(self.name, self.path, self.columns, memory)


def in_columns(name: str, table: Any, columns: Sequence[str]) -> Source:
    """Return a table in a file with its columns in this order."""
    return InColumns(name, Path(table).absolute(), tuple(columns))


def opened(
    name: str, table: Array | Source, *, columns_are: str = "quantities", memory: MemoryLimit | None = None
) -> Array:
    """Return the party's columns, opening them where they are only named."""
    if isinstance(table, Path) and table.suffix != ".npy":
        table = InColumns(name, table, ())
    if isinstance(table, InColumns):
        return check_table(name, table(memory), columns_are=columns_are)
    if isinstance(table, Path):
        if table.exists() and not table.is_file():
            raise InputError(f"party {name!r}: {table} is a directory, a pipe or a device; give a file")
        try:
            with numpy_errors():
                loaded = np.load(table, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            raise InputError(f"party {name!r}: {table} cannot be read as a table of numbers: {error}") from error
        return check_table(name, loaded, columns_are=columns_are, memory=memory)
    return check_table(name, table(), columns_are=columns_are) if is_source(table) else table


@contextlib.contextmanager
def numpy_errors() -> Iterator[None]:
    """Turn what NumPy raises over a damaged file into a `ValueError`."""
    try:
        yield
    except (tokenize.TokenError, SyntaxError, EOFError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"it is damaged: {error}") from error
    except MemoryError as error:
        raise ValueError("it states a size that does not fit into memory") from error


def check_table(
    name: str, table: Any, *, columns_are: str = "quantities", memory: MemoryLimit | None = None
) -> Array:
    """Return one party's columns as a 2-D float array, or raise an error that names the party.

    Categories may be text, and may be missing.
    """
    if columns_are != "samples":
        check_features(name, table, ids=False)
    try:
        if array_api_compat.is_torch_array(table):
            return _check_tensor(table)
        if columns_are == "categories":
            table = coded(table)
        else:
            check_told_apart(table)
            table = _in_double_precision(table, memory)
        return check_array(table, dtype=np.float64, ensure_min_samples=1)
    except (ValueError, TypeError) as error:
        raise InputError(f"party {name!r}: {explained(table, error)}") from error


def explained(table: Any, error: Exception) -> str:
    """What a check of scikit-learn found, and what helps: where values are missing, or a column holds text."""
    if "NaN" in str(error):
        return _about_missing(table)
    return _about_text(table, error) if "could not convert string" in str(error) else str(error)


def _about_missing(table: Any) -> str:
    """Which columns contain NaN, in how many rows, and the two ways out."""
    cells = np.asarray(table) if np.asarray(table).dtype.kind == "f" else np.asarray(table, dtype=object)
    named = [repr(str(name)) for name in table.columns] if hasattr(table, "columns") else range(cells.shape[-1])
    missing = [int(np.sum([is_missing(cell) for cell in column] if column.dtype == object else np.isnan(column)))
               for column in np.atleast_2d(cells).T]  # fmt: skip
    found = sorted(
        ((count, name) for count, name in zip(missing, named, strict=True) if count), key=lambda each: -each[0]
    )
    listed = ", ".join(f"{name} ({count:,} of {len(cells):,} rows)" for count, name in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    contain = "column contains" if len(found) == 1 else "columns contain"
    return (
        f"{len(found)} {contain} NaN: {listed}{more}; fill in missing values with "
        "sklearn.impute.SimpleImputer().set_output(transform='pandas'), which keeps names and index, or use the "
        "dkpca command, which fills in column means and says how many"
    )


def check_told_apart(table: Any) -> None:
    """Refuse whole numbers so large that double precision takes different ones for the same."""
    if hasattr(table, "iloc") and getattr(table, "ndim", 0) == 2:
        columns = ((str(label), table[label]) for label in table.columns)
        parts = [(label, np.asarray(column)) for label, column in columns if np.ndim(column) == 1]
    elif hasattr(table, "get_columns"):  # polars
        parts = [(column.name, column.to_numpy()) for column in table.get_columns() if column.dtype.is_integer()]
    else:
        array = table if isinstance(table, np.ndarray) else np.asarray(table)
        parts = [(str(j + 1), array[:, j]) for j in range(array.shape[1] if array.ndim == 2 else 0)]
    for label, values in parts:
        if values.dtype.kind in "iuO" and _beyond_doubles(values):
            raise ValueError(
                f"column {label} has whole numbers beyond 2^53, which double precision does not tell apart; subtract "
                "a whole number from them first, such as the smallest, or use kernel='overlap' if they are codes"
            )


def _beyond_doubles(values: np.ndarray[Any, Any]) -> bool:
    if values.dtype.kind in "iu":
        return bool(len(values)) and bool(values.max() > MOST_WHOLE or values.min() < -MOST_WHOLE)
    return any(isinstance(value, int | np.integer) and abs(int(value)) > MOST_WHOLE for value in values.tolist())


def _in_double_precision(table: Any, memory: MemoryLimit | None) -> Any:
    """Return a mapped array of other numbers a few rows at a time; any other table as it is."""
    mapped = isinstance(table, np.memmap) and table.ndim == 2 and table.dtype.kind in "fiu"
    if not mapped or table.dtype == np.float64:
        return table
    X = tall(table.shape, memory=memory)
    for start in range(0, len(table), CONVERTED):
        X[start : start + CONVERTED] = table[start : start + CONVERTED]
    return X


def _reader(name: str, module: str = "preparation") -> Any:
    """Return what reads tables in files, as for the commands; it needs an extra, and arrays do not."""
    try:
        return import_module(f"dkpca.tables.{module}")
    except ModuleNotFoundError as error:
        raise InputError(
            f"party {name!r}: tables in files need {error.name}; install it with pip install 'dkpca[cli]'"
        ) from error


def without_zeros_left_out(name: str, table: Any, *, taken: bool) -> Any:
    """Return a sparse table with its zeros, if the kernel takes one and memory allows it; any other as it is."""
    if not scipy.sparse.issparse(table):
        return table
    if not taken:
        raise InputError(
            f"party {name!r}: a sparse table is for kernel='linear' only: to other kernels zeros are values like "
            "any other; use table.toarray()"
        )
    needed, free = 8 * math.prod(table.shape), free_memory(np.empty(0))
    if COPIES * needed > free:
        raise InputError(
            f"party {name!r}: its sparse table of {table.shape[0]:,} x {table.shape[1]:,} would take {COPIES} x "
            f"{needed / 1e9:.1f} GB with its zeros, and {free / 1e9:.1f} GB are free; reduce its columns first, for "
            "example by sklearn.decomposition.TruncatedSVD"
        )
    return table.toarray()


def _about_text(table: Any, error: Exception) -> str:
    """Which columns hold text, and the two ways out."""
    if not hasattr(table, "columns"):
        return f"{error}; {TEXT_ADVICE}"
    cells = [np.asarray(table[name], dtype=object) for name in dict.fromkeys(table.columns)]
    texts = [
        str(name)
        for name, column in zip(dict.fromkeys(table.columns), cells, strict=True)
        if any(isinstance(value, str) for value in column.ravel())
    ]
    shown = ", ".join(map(repr, texts[:5])) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")
    return f"{counted(len(texts), 'column')} of text: {shown}; {TEXT_ADVICE}"


def check_together(tables: Mapping[str, Array], *, same_rows: bool = True) -> None:
    """Raise unless the tables have the same library, precision and device, and the same number of rows."""
    counts = {name: table.shape[0] for name, table in tables.items()}
    if same_rows and len(set(counts.values())) > 1:
        raise InputError(f"parties have different numbers of rows {counts}; row i must be the same sample everywhere")
    kinds = {_kind(table) for table in tables.values()}
    if len(kinds) > 1:
        raise InputError(f"parties mix array libraries, precisions or devices {sorted(kinds)}; use one for all")


def check_like_fit(tables: Mapping[str, Array], origins: Mapping[str, Array]) -> None:
    """Raise unless new samples have the columns, library, precision and device of the fit."""
    expected = {name: origins[name].shape[0] for name in tables}
    widths = {name: table.shape[1] for name, table in tables.items()}
    if widths != expected:
        raise InputError(f"the fit had parties and column counts {expected}; these samples have {widths}")
    for name, table in tables.items():
        fitted, new = _kind(origins[name]), _kind(table)
        if fitted != new:
            raise InputError(f"party {name!r}: the fit was on {fitted}, these samples are on {new}; convert them")


def _kind(table: Array) -> str:
    library = namespace(table).__name__.rpartition(".")[2]
    return f"{library} {dtype_name(table)} on {device(table)}"


def _check_tensor(table: Array) -> Array:
    """Make the same checks for torch, on its own device."""
    xp = namespace(table)
    if table.ndim != 2 or 0 in table.shape:
        raise ValueError(f"expected a 2-D array that is not empty, got shape {tuple(table.shape)}")
    if not xp.isdtype(table.dtype, "real floating"):
        raise ValueError(f"expected real floating point numbers, got {table.dtype}; convert them first")
    if not bool(xp.all(xp.isfinite(table))):
        raise ValueError("Input contains NaN or infinity")
    return table


def is_list_of_tables(X: Any) -> bool:
    """A list of 2-D tables, and not one table given as nested lists."""
    return (
        isinstance(X, list | tuple)
        and bool(X)
        and all(getattr(table, "ndim", 0) == 2 or is_source(table) or isinstance(table, str) for table in X)
    )


def column_groups(parties: Any, n_features: int, names: Any) -> dict[str, list[int]]:
    """Column positions of each party."""
    if parties is None:
        parties = 1
    if isinstance(parties, int | np.integer):
        if not 1 <= parties <= n_features:
            raise InputError(
                f"parties is {parties}, but there are {n_features} columns; every party needs at least one"
            )
        blocks = np.array_split(np.arange(n_features), int(parties))
        return {f"party{j}": block.tolist() for j, block in enumerate(blocks)}
    texts = [
        group for group in (parties.values() if isinstance(parties, Mapping) else parties) if isinstance(group, str)
    ]
    if texts:
        raise InputError(
            f"parties names {texts[0]!r} where a party's columns belong; write a list, such as [{texts[0]!r}], with "
            "the names or positions of its columns"
        )
    if not isinstance(parties, Mapping):
        parties = {f"party{j}": group for j, group in enumerate(parties)}
    groups = {
        check_party_name(name): [_position(c, n_features, names) for c in group] for name, group in parties.items()
    }
    _check_partition(groups, n_features)
    return groups


def _check_partition(groups: Mapping[str, Sequence[int]], n_features: int) -> None:
    counts = np.bincount([c for group in groups.values() for c in group], minlength=n_features)
    empty = [name for name, group in groups.items() if not group]
    if empty:
        raise InputError(f"parties {empty} have no column; every party needs at least one")
    if (counts != 1).any():
        wrong = np.flatnonzero(counts != 1).tolist()
        raise InputError(f"parties must cover every column exactly once; check columns {wrong[:10]}")


def _position(column: Any, n_features: int, names: Iterable[str] | None) -> int:
    if isinstance(column, int | np.integer) and 0 <= column < n_features:
        return int(column)
    known = [] if names is None else list(names)
    if column in known:
        return known.index(column)
    raise InputError(
        f"column {column!r} in parties is neither a position below {n_features} nor the name of a column"
    )


def take_columns(table: Array, columns: list[int]) -> Array:
    contiguous = columns == list(range(columns[0], columns[0] + len(columns)))
    return table[:, columns[0] : columns[0] + len(columns)] if contiguous else table[:, columns]
