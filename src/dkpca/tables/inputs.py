"""What a caller may pass as tables: checked, by party, and with their rows in one order.

Rows of several tables are brought into one order by their labels: the index of a DataFrame, or ids beside it. Arrays
have no labels; their rows match by position, and only where nobody's rows have to move.
"""

import contextlib
import datetime
import hashlib
import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import array_api_compat
import numpy as np
import scipy.sparse

from dkpca.errors import InputError, needed_from, warn
from dkpca.linalg.arrays import Array, device, dtype_name, free_memory, namespace
from dkpca.messages import check_party_name
from dkpca.party.state import State
from dkpca.settings import Fit
from dkpca.wording import counted, some

MOST_CLASSES = 50  # different values that are taken for classes
COPIES = 3  # of a table that a fit has at one time
SMALL, MOST_TIMES = 2**29, 500  # bytes that any file may take in memory, and how often its own beyond that
MOST_WHOLE = 2**53  # every whole number up to it is a float64
Labels = list[Any]
BEYOND = 2.0**52  # codes of text lie from here to twice as far, where every whole number is a float64
NOTHING = 2.0**53  # code of a missing value
FEWEST = 5  # rows: in fewer, any column may be different in each
ID_NAME = re.compile(r"(?:(?i:(?:^|[\W_])id)|[a-z]I[dD])$|^obs_names$")
DATES = (datetime.date, datetime.time, datetime.timedelta)


class _InputTypeError(InputError, TypeError):
    """Data of a type that cannot be used: scikit-learn's contract asks for a `TypeError` here."""


@contextlib.contextmanager
def as_input_error() -> Iterator[None]:
    """Convert scikit-learn's errors about data or parameters to `InputError`."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error
    except TypeError as error:
        raise _InputTypeError(str(error)) from error


def check_table(name: str, table: Any, *, columns_are: str = "quantities") -> Array:
    """Return one party's columns as a 2-D float array; categories may be text, and may be missing."""
    from sklearn.utils.validation import check_array  # two seconds to load, and no table of a file needs it

    if columns_are != "samples":
        check_features(name, table, ids=False)
    try:
        with as_input_error():
            if array_api_compat.is_torch_array(table):
                return _check_tensor(table)
            if columns_are == "categories":
                table = coded(table)
            else:
                _check_quantities(table)
            return check_array(table, dtype=np.float64, ensure_min_samples=1)
    except InputError as error:
        if "NaN" not in (said := str(error)):
            raise type(error)(f"party {name!r}: {said}") from error
        found = some(column for column, own in columns_of(table) if any(map(is_missing, own.tolist())))
        advice = "fill in, as sklearn.impute.SimpleImputer() and the dkpca command do"
        raise InputError(f"party {name!r}: NaN in columns {found}; {advice}") from error


def columns_of(table: Any) -> list[tuple[Any, Any]]:
    """Columns as arrays, with their names; those of an array are named by their positions."""
    if hasattr(table, "get_columns"):  # polars
        return [(own.name, own.to_numpy()) for own in table.get_columns()]
    framed = hasattr(table, "iloc") and table.ndim == 2
    if framed and len(set(table.dtypes)) > 1:
        return [(str(name), own.to_numpy()) for name, own in table.items()]
    array = np.asarray(table)
    names = map(str, table.columns) if framed else range(array.shape[-1] if array.ndim else 0)
    return [(name, array[:, j]) for j, name in enumerate(names)] if array.ndim == 2 else []


def _check_quantities(table: Any) -> None:
    """Refuse text, categoricals, and whole numbers that double precision takes for the same as others."""
    columns = columns_of(table)
    kinds = map(str, table.dtypes) if columns and hasattr(table, "dtypes") else [""] * len(columns)
    texts = [
        name
        for (name, values), kind in zip(columns, kinds, strict=True)
        if kind == "category" or (values.dtype.kind in "OSU" and any(isinstance(v, str | bytes) for v in values))
    ]
    if texts:
        raise ValueError(
            f"{counted(len(texts), 'column')} of text or categories: {some(texts)}; make numbers or 0/1 columns of "
            "them, or give them to a party of their own with kernel='overlap'"
        )
    for name, values in columns:
        kind = values.dtype.kind
        check_exact(
            f"column {name!r}",
            [values.min(), values.max()] if kind in "iu" and len(values) else values.tolist() if kind == "O" else [],
        )


def check_exact(column: str, values: Sequence[Any]) -> None:
    """Refuse whole numbers that double precision takes for the same as others."""
    if any(isinstance(value, int | np.integer) and abs(int(value)) > MOST_WHOLE for value in values):
        raise InputError(
            f"{column} has whole numbers beyond 2^53, which double precision cannot distinguish; subtract a whole "
            "number from them, leave them out, or use the kernel 'overlap' for codes"
        )


def check_room(source: Path, needed: int, times: float = MOST_TIMES) -> None:
    """Refuse a file that says it needs more memory than is free, or so many times its bytes."""
    free, would = free_memory(np.empty(0)), f"{source}: would take {needed / 1e9:,.1f} GB of memory"
    if needed > max(SMALL, times * source.stat().st_size):
        raise InputError(f"{would}, more than {times} times its bytes; if it is no forgery, save it uncompressed")
    if needed > free:
        raise InputError(f"{would}, and {free / 1e9:.1f} GB are free; check the file")


def check_is_table(whose: str, table: Any) -> None:
    """Refuse what is no table in memory."""
    unusable = hasattr(table, "collect") or callable(table) or isinstance(table, str | Path | None)
    if unusable or (hasattr(table, "columns") and not len(table.columns)):
        raise InputError(f"{whose}: {type(table).__name__} is no table in memory; pass an array or a DataFrame")


def without_zeros_left_out(name: str, table: Any, *, taken: bool) -> Any:
    """Return a sparse table with its zeros, if the kernel takes one and memory allows it; any other as it is."""
    check_is_table(f"party {name!r}", table)
    if not scipy.sparse.issparse(table):
        return table
    if not taken:
        raise InputError(f"party {name!r}: sparse tables work only with kernel='linear'; use table.toarray()")
    if COPIES * 8 * math.prod(table.shape) > free_memory(np.empty(0)):
        raise InputError(f"party {name!r}: its sparse table does not fit into memory with its zeros; drop columns")
    return table.toarray()


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


def column_groups(parties: Any, n_features: int, names: Any) -> dict[str, list[int]]:
    """Column positions of each party."""
    parties = 1 if parties is None else parties
    if isinstance(parties, int | np.integer):
        if not 1 <= parties <= n_features:
            raise InputError(f"parties is {parties}, but there are {n_features} columns; every party needs one")
        blocks = np.array_split(np.arange(n_features), int(parties))
        return {f"party{j}": block.tolist() for j, block in enumerate(blocks)}
    if not isinstance(parties, Mapping):
        parties = {f"party{j}": group for j, group in enumerate(parties)}
    named = list(range(n_features) if names is None else names)
    place = dict(zip(named, range(n_features), strict=True)) | {j: j for j in range(n_features)}
    groups = dict[str, list[int]]()
    for name, group in parties.items():
        listed = [] if isinstance(group, str) or not isinstance(group, Iterable) else list(group)
        unknown = [column for column in listed if not isinstance(column, Hashable) or column not in place]
        if unknown or not listed:
            what = f"holds {unknown[0]!r}, which is" if unknown else f"is {group!r}, which holds"
            raise InputError(f"parties[{name!r}] {what} no name or position of a column; give a list of these")
        groups[check_party_name(name)] = [place[column] for column in listed]
    counts = np.bincount([j for group in groups.values() for j in group], minlength=n_features)
    if (counts != 1).any():
        wrong = some(column for column, count in zip(named, counts, strict=True) if count != 1)
        raise InputError(f"parties must cover every column exactly once, but not {wrong}; pass only what they cover")
    return groups


def one_table(X: Any, *, least: int) -> Any:
    """Return a table of rows and columns that can be cut; what is in it is checked later, party by party."""
    from sklearn.utils.validation import check_array  # as in `check_table`

    check_is_table("X", X)
    if scipy.sparse.issparse(X):
        return X.tocsr()
    if array_api_compat.is_torch_array(X):
        return check_table("X", X)
    if hasattr(X, "columns"):
        return X
    return check_array(X, dtype=None, ensure_all_finite=False, ensure_min_samples=least)


def cut(X: Any, parties: Any) -> dict[str, Any]:
    """Cut one table into the columns of each party; neighbors as a slice, which copies nothing."""
    table, cuts = getattr(X, "iloc", X), dict[str, Any]()
    for name, columns in column_groups(parties, X.shape[1], getattr(X, "columns", None)).items():
        first, after = columns[0], columns[0] + len(columns)
        cuts[name] = table[:, slice(first, after) if columns == list(range(first, after)) else columns]
    return cuts


@dataclass(frozen=True)
class PartyTables:
    """Tables of all parties, their rows in one order."""

    tables: dict[str, Any]  # arrays, or tables of files
    ids: Labels | None  # labels of the samples, in order; None: there are none, rows match by position
    first: Labels | None  # labels of the first table that has some, in its own order
    notes: list[str] = field(default_factory=list)  # sentences about rows put into another order, or dropped
    places: dict[str, list[int]] | None = None  # of each party's rows among the samples; None: all have all
    columns: dict[str, tuple[str, ...] | None] = field(default_factory=dict)  # their names, by party


def matched(
    tables: Mapping[str, Any],
    sample_ids: Any = None,  # labels by party, or one sequence for every table; they win over an index
    *,
    lacking: str | None = None,  # "drop" keeps the common samples, "mean" and "complete" all of them, None refuses
    matrices: Collection[str] = (),  # tables whose columns are the samples too, in the order of the rows
) -> PartyTables:
    """Put the rows of all tables into the order of the first that has labels."""
    labels = _labels(tables, sample_ids)
    if not labels:
        return PartyTables(dict(tables), None, None)
    first, *others = labels
    nameless = [name for name in tables if name not in labels]
    moved = [name for name in others if labels[name] != labels[first]]
    strangers = [name for name in moved if set(labels[name]) != set(labels[first])]
    if strangers and lacking is None:
        own = labels[strangers[0]]
        raise InputError(
            f"parties {first!r} and {strangers[0]!r} have different samples: {len(labels[first])} and {len(own)}, "
            f"{len({*labels[first]} & {*own})} in common by their labels; use lacking='drop' or 'complete', give "
            "both the same kind of label, or pass arrays"
        )
    if moved and nameless:
        order = f"the rows of {moved} are not in the order of those of {first!r}"
        what = "parties have different samples" if strangers else order
        raise InputError(f"{what}, and {nameless} have no labels to match by; give them with sample_ids")
    if strangers and lacking != "drop":
        union: Labels = list(dict.fromkeys(chain.from_iterable(labels.values())))
        position = dict(zip(union, range(len(union)), strict=True))
        places = {name: list(map(position.__getitem__, own)) for name, own in labels.items()}
        return PartyTables(dict(tables), union, labels[first], places=places)
    kept = labels[first]
    notes = [f"party {n!r}: its rows were put into the order of party {first!r}, by their labels" for n in moved]
    if strangers:
        held = ", ".join(f"{name} has {len(own):,}" for name, own in labels.items())
        common = set(kept).intersection(*labels.values())
        if not common:
            raise InputError(
                f"no sample is common to all parties ({held}); check that all use the same kind of label"
            )
        kept = [label for label in kept if label in common]
        notes = [f"using the {counted(len(kept), 'sample')} that all tables have ({held})"]
    return PartyTables(_reordered(tables, labels, kept, matrices), kept, labels[first], notes)


def _reordered(
    tables: Mapping[str, Any], labels: Mapping[str, Labels], wanted: Labels, matrices: Collection[str]
) -> dict[str, Any]:
    """Tables with the rows that are wanted, in that order."""
    placed = dict(tables)
    for name in [name for name, own in labels.items() if own != wanted]:
        row = {label: number for number, label in enumerate(labels[name])}
        rows, table = [row[label] for label in wanted], tables[name]
        part = getattr(table, "iloc", table)[rows] if hasattr(table, "shape") else table.take(rows)  # of a file
        placed[name] = getattr(part, "iloc", part)[:, rows] if name in matrices else part
    return placed


def check_outcome(y: Any, ids: Labels | None, first: Labels | None) -> None:
    """Refuse values for each sample that are in another order than the samples `ids`: they would go with others."""
    if y is None or ids is None:
        return
    own = _own_labels(y)
    given = (first or []) if set(own).isdisjoint(ids) else own
    if given != ids:
        raise InputError(
            f"the {len(given):,} values of y do not match the {len(ids):,} samples of the fit one to one, in order; "
            "fit without y, and take y.loc[model.sample_ids_] afterwards"
        )


def _own_labels(values: Any) -> Labels:
    """Labels of the rows of values for samples: their index; empty without one."""
    return list(values.index) if hasattr(values, "iloc") else []


def rows_of_samples(values: Any, ids: Labels | None, first: Labels | None, what: str = "covariates") -> Any:
    """Return values with a row for each of the samples `ids`, in their order: by their index, or as they are."""
    if ids is None or values is None:
        return values
    own = _own_labels(values)
    counted_rows = list(range(len(own)))
    # An index that only counts rows is none; labels are repeated where partitions count their own rows.
    repeated = own == counted_rows and len(set(ids)) < len(ids) == len(own)
    if repeated or (set(own).isdisjoint(ids) and counted_rows in (own, ids)):
        if first == ids:
            return values
        raise InputError(f"{what} have no labels, and rows were dropped, added or reordered; give them an index")
    known = set(own)
    lacking = [label for label in ids if label not in known]
    if lacking:
        what = f"{what} have no row for {len(lacking):,} of {len(ids):,} samples, such as {lacking[0]!r}"
        raise InputError(f"{what}; give one row for each sample under its label")
    if len(known) < len(own):
        raise InputError(f"{what} have repeated labels; give one row for each sample")
    return values.loc[ids]


def outcome_columns(y: Any) -> tuple[np.ndarray, list[str]]:
    """Values for each sample as columns of numbers, and their names: one per class, or the numbers themselves."""
    values = np.asarray(y)
    values = values[:, 0] if values.ndim == 2 else values
    classes = np.unique(values.astype(str))
    if values.dtype.kind in "fiu" and len(classes) > MOST_CLASSES:
        return values.astype(float)[:, None], ["y"]
    shown = classes[:MOST_CLASSES]
    return (values.astype(str)[:, None] == shown[None, :]).astype(float), [f"y = {name}" for name in shown]


def _labels(tables: Mapping[str, Any], sample_ids: Any) -> dict[str, Labels]:
    """Labels by party, of those that have some."""
    if sample_ids is not None and not isinstance(sample_ids, Mapping):
        sample_ids = dict.fromkeys(tables, sample_ids)
    given = dict(sample_ids or {})
    strangers = sorted(set(given) - set(tables))
    if strangers:
        raise InputError(f"sample_ids names {strangers}; the tables are of {sorted(tables)}")
    found: dict[str, Labels] = {}
    for name, table in tables.items():
        if name in given:
            own = given[name]
            found[name] = own.tolist() if isinstance(own, np.ndarray) else list(own)
            if hasattr(table, "shape") and len(found[name]) != table.shape[0]:
                raise InputError(f"party {name!r}: {len(found[name])} sample ids for {table.shape[0]} rows")
        elif hasattr(table, "iloc"):
            found[name] = _own_labels(table)
    for name, own in found.items():
        missing = [row for row, label in enumerate(own, start=1) if label is None or label != label]
        if missing:
            raise InputError(f"party {name!r}: row {missing[0]} has no label; give every sample an id")
        if len(set(own)) < len(own) and any(other != own for other in found.values()):
            twice = Counter(own).most_common(1)[0][0]
            raise InputError(f"party {name!r}: label {twice!r} occurs in several rows; keep only one of these rows")
    return found


def names_of_columns(table: Any) -> tuple[str, ...] | None:
    """Names of a table's columns; None where there are none."""
    columns = getattr(table, "columns", None)
    return None if columns is None else tuple(map(str, columns))


def matrix_like_its_rows(name: str, table: Any) -> Any:
    """Return a kernel matrix with its columns in the order of its rows, by the labels of both if it has them."""
    if not hasattr(table, "iloc") or list(table.columns) == list(table.index):
        return table
    if not table.index.is_unique or set(table.columns) != set(table.index):
        raise InputError(
            f"party {name!r}: the columns and rows of its kernel matrix have different labels; give both the same, "
            "or pass an array (table.to_numpy())"
        )
    return table.loc[:, table.index]


def like_fit(name: str, table: Any, columns: tuple[str, ...] | None) -> Any:
    """Return new rows with the columns of the fit, by their names where both have names."""
    given = names_of_columns(table)
    if columns is None or given is None or given == columns:
        return table
    if sorted(given) != sorted(columns):
        differ = sorted(set(given) ^ set(columns)) or given
        raise InputError(
            f"party {name!r}: its columns differ from those of the fit, in {some(differ)}; name them as in the fit, "
            "or pass arrays"
        )
    own = dict(zip(given, table.columns, strict=True))
    return table[[own[column] for column in columns]]


class Tables(Mapping[str, Any]):
    """Tables of several parties that are cut by rows together, so that scikit-learn can split them.

    Parameters
    ----------
    tables : mapping of party to table, or list of tables
        Arrays or DataFrames. Rows of DataFrames are put into the order of the first table, by their labels.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import DKPCA, Tables
    >>> from sklearn.model_selection import GridSearchCV
    >>> X = np.random.default_rng(0).normal(size=(60, 8))
    >>> tables = Tables({"bank": X[:, :4], "shop": X[:, 4:]})
    >>> tables.shape, tables["bank"].shape, tables[:10].shape
    ((60, 8), (60, 4), (10, 8))
    >>> GridSearchCV(DKPCA(2, kernel="linear"), {"n_components": [1, 2]}, cv=2).fit(tables).best_params_
    {'n_components': 2}
    """

    def __init__(self, tables: Any) -> None:
        given = by_party(tables)
        if not given or not all(hasattr(table, "shape") for table in given.values()):
            raise InputError("Tables takes one table for each party: a dict or a list of arrays or DataFrames")
        found = matched(given)
        self._tables, self.sample_ids = found.tables, found.ids
        _check_same_length(self._tables)
        warn(found.notes)

    @property
    def shape(self) -> tuple[int, int]:
        """Samples, and columns over all parties."""
        widths = [table.shape[1] for table in self._tables.values()]
        return next(iter(self._tables.values())).shape[0], sum(widths)

    def __getitem__(self, key: Any) -> Any:
        """Return the table of a party by its name; else these rows of all tables."""
        if isinstance(key, str):
            return self._tables[key]
        rows = key[0] if isinstance(key, tuple) else key  # scikit-learn says [rows, ...]
        rows = rows if isinstance(rows, slice) else np.atleast_1d(np.asarray(rows))
        return Tables({name: getattr(own, "iloc", own)[rows] for name, own in self._tables.items()})

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


def _check_same_length(tables: Mapping[str, Any]) -> None:
    counts = {name: table.shape[0] for name, table in tables.items()}
    if len(set(counts.values())) > 1:
        raise InputError(f"parties have different numbers of rows {counts}; row i must be the same sample everywhere")


def by_party(X: Any) -> dict[str, Any] | None:
    """Return the tables of a mapping or a list of 2-D tables by party; None if X is one table."""
    if isinstance(X, list | tuple) and X and all(getattr(table, "ndim", 0) == 2 for table in X):
        X = {f"party{j}": table for j, table in enumerate(X)}
    if not isinstance(X, Mapping) or scipy.sparse.issparse(X):  # a sparse DOK array is a dict too
        return None
    return {check_party_name(name): table for name, table in X.items()}


def for_fit(given: Mapping[str, Any], fit: Fit, sample_ids: Any) -> PartyTables:
    """Check the tables of a fit."""
    kernels = {name: fit.family_of(name) for name in given}
    matrices = [name for name, kernel in kernels.items() if kernel.columns_are == "samples"]
    dense = _dense(given, kernels, matrices)
    for name in [name for name in given if name not in matrices]:
        check_features(name, dense[name])
    found = matched(dense, sample_ids, lacking=fit.lacking, matrices=matrices)
    columns = {name: names_of_columns(table) for name, table in found.tables.items()}
    return replace(found, tables=_checked(found, kernels), columns=columns)


def _dense(given: Mapping[str, Any], kernels: Mapping[str, Any], matrices: Collection[str]) -> dict[str, Any]:
    """Tables with the zeros of sparse ones, and kernel matrices with columns in the order of rows."""
    if not given:
        raise InputError("no party was given; pass at least one table")
    dense = {name: without_zeros_left_out(name, own, taken=kernels[name].takes_sparse) for name, own in given.items()}
    return dense | {name: matrix_like_its_rows(name, dense[name]) for name in matrices}


def _checked(found: PartyTables, kernels: Mapping[str, Any]) -> dict[str, Array]:
    """Tables as arrays of one kind and, where all parties have all samples, of one length."""
    tables = {n: check_table(n, own, columns_are=kernels[n].columns_are) for n, own in found.tables.items()}
    if found.places is None:
        _check_same_length(tables)
    kinds = {_kind(table) for table in tables.values()}
    if len(kinds) > 1:
        raise InputError(f"parties mix array libraries, precisions or devices {sorted(kinds)}; use one for all")
    return tables


def for_new_samples(
    given: Mapping[str, Any], states: Mapping[str, State], sample_ids: Any, lacking: str | None, *, of_fit: bool
) -> PartyTables:
    """Check tables of new samples, or once more those of the fit, against those of the fit."""
    kernels = {name: states[name].kernel for name in given}
    matrices = [name for name in given if of_fit and kernels[name].columns_are == "samples"]
    found = matched(_dense(given, kernels, matrices), sample_ids, lacking=lacking, matrices=matrices)
    numbers = {name: as_numbers(states[name], own) for name, own in found.tables.items()}
    tables = _checked(replace(found, tables=numbers), kernels)
    for name, table in tables.items():  # columns, library, precision and device are those of the fit
        origin = states[name].origin
        fitted, new = (len(origin), _kind(origin)), (table.shape[1], _kind(table))
        if fitted != new:
            raise InputError(
                f"party {name!r}: the fit had {fitted[0]} columns of {fitted[1]}, and these samples have {new[0]} of "
                f"{new[1]}; convert them"
            )
    return replace(found, tables=tables, columns={name: states[name].columns for name in tables})


def as_numbers(state: State, table: Any) -> Any:
    """New rows in the form that the state expects: as they are, or prepared as the commands did at the fit."""
    if state.preparation is None:
        return like_fit(state.party, table, state.columns)
    with needed_from("cli", f"party {state.party!r}: its table, which the dkpca command prepared,"):
        return import_module("dkpca.tables.preparation").new_rows(state, table)


def as_precise_as(X: Any, scores: Array) -> Array:
    """Scores in float32, if all tables were; what was computed in between was not."""
    tables = (by_party(X) or {"X": X}).values()
    kinds = {str(kind).lower() for own in tables for kind in getattr(own, "dtypes", [getattr(own, "dtype", None)])}
    return scores.astype(np.float32) if isinstance(scores, np.ndarray) and kinds == {"float32"} else scores


# Columns that are no quantities: categories become numbers that say only which are equal; dates and ids are no
# features unless somebody says so. Nothing is learned, and the rules are the same in library and commands.


def coded(table: Any) -> Any:
    """Return a table of categories as numbers: those that are numbers already, others by a fingerprint of their text.

    A category that is written as a number is that number: 1, 1.0, "1" and "1.0" are one, "01" is another. Whole
    numbers from 2^52 on are coded as text is. Missing values are one category.
    """
    columns = columns_of(table)
    return np.column_stack([_codes(column) for _, column in columns]) if columns else table


def _codes(column: Any) -> Any:
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
        large = np.isfinite(numbers) & (np.abs(numbers) >= BEYOND)
        numbers[np.isnan(numbers)] = NOTHING
        numbers[large] = [_code(str(int(value))) for value in column[large].tolist()]
        return numbers
    texts = [None if is_missing(v) else str(float(v) if isinstance(v, bool) else v) for v in column.tolist()]
    known = {text: NOTHING if text is None else _code(text) for text in set(texts)}
    return np.array([known[text] for text in texts])


def is_missing(value: Any) -> bool:
    """Whether a cell holds None, NaN or NA."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _code(text: str) -> float:
    number = _number(text)
    if number is not None and abs(number) < BEYOND:
        return number
    text = text if number is None else str(int(number))
    return BEYOND + int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) % 2**52


def _number(text: str) -> float | None:
    """The number that is written just like this."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and text in (repr(number), str(int(number))) else None


def are_ids(column: Any) -> bool:
    """Whether a column has a different text or whole number in every row."""
    values = np.asarray(column).tolist()
    numbers = [value for value in values if not isinstance(value, str)]
    whole = all(isinstance(v, int | float) and not isinstance(v, bool) and v == v // 1 for v in numbers)
    return whole and len(values) == len(set(values)) >= FEWEST


def check_features(party: str, table: Any, *, ids: bool = True) -> None:
    """Refuse a table of the library that has dates, or ids, among its features."""
    if not isinstance(table, np.ndarray) and not hasattr(table, "dtypes"):
        return
    columns = [] if hasattr(table, "dask") else columns_of(table)
    dates = [
        name
        for name, own in columns
        if own.dtype.kind in "mM" or (own.dtype.kind == "O" and any(isinstance(value, DATES) for value in own[:1000]))
    ]
    if dates:
        raise InputError(
            f"party {party!r}: {counted(len(dates), 'column')} of dates: {some(dates)}; leave them out, or turn them "
            "into numbers, such as (dates - dates.min()).dt.days"
        )
    for name, own in columns if ids else ():
        if isinstance(name, str) and ID_NAME.search(name) and are_ids(own):
            raise InputError(
                f"party {party!r}: column {name!r} looks like an id column; match rows by it with "
                f"table.set_index({name!r}), or leave it out; if it is a quantity, rename it"
            )
