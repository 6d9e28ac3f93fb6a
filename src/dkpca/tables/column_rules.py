"""Columns that are no quantities: categories, which become numbers that say only which are equal, dates and ids.

Nothing is learned: each table can be read by itself. Dates and ids are no features unless somebody says so; the rule
is one for library and commands.
"""

import datetime
import hashlib
import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np

from dkpca.errors import InputError

BEYOND = 2.0**52  # codes of text lie from here to twice as far, where every whole number is a float64
NOTHING = 2.0**53  # code of a missing value
FEWEST = 5  # rows: in fewer, any column may be different in each
ID_WORDS = {"id", "nr", "no", "number", "nummer", "key", "identifier"}
ID_ENDS = ("nr", "nummer", "kennung")  # of a German word: Patientennr
WHOLE_NAMES = {"patient", "subject", "proband", "obs_names"}
LABEL_STARTS = ("diagnos", "outcome", "label", "target", "class", "klasse", "response", "ergebnis", "befund", "died")
WORD = re.compile(r"[A-ZÄÖÜ]?[a-zäöüß]+|[A-ZÄÖÜ]+(?![a-zäöüß])")  # also within PatNr, patientID
DATES = (datetime.date, datetime.time, datetime.timedelta)


def coded(table: Any) -> Any:
    """Return a table of categories as numbers: those that are numbers already, others by a fingerprint of their text.

    A category that is written as a number is that number: 1, 1.0, "1" and "1.0" are one, "01" is another. Whole
    numbers from 2^52 on, which a float64 cannot all tell apart, are coded as text is. Missing values are one
    category. What is no table of two dimensions comes back as it is.
    """
    if hasattr(table, "iloc") and table.ndim == 2:
        columns = [np.asarray(table.iloc[:, j]) for j in range(table.shape[1])]
    else:
        array = np.asarray(table)
        columns = list(array.T) if array.ndim == 2 else []
    return np.column_stack([_codes(column) for column in columns]) if columns else table


def coded_columns(table: Any, positions: list[int]) -> Any:
    """Return one table of which some columns are categories, with those as numbers and the others as they are."""
    if not positions:
        return table
    if hasattr(table, "columns") and len(set(table.columns)) == table.shape[1]:
        names = [table.columns[position] for position in positions]
        codes = dict(zip(names, coded(table[names]).T, strict=True))
        return type(table)({name: codes.get(name, table[name]) for name in table.columns})
    cells = np.array(table, dtype=object)
    cells[:, positions] = coded(cells[:, positions])
    return cells


def _codes(column: Any) -> Any:
    if column.dtype.kind in "biuf":
        numbers = column.astype(np.float64)
        large = np.isfinite(numbers) & (np.abs(numbers) >= BEYOND)
        numbers[np.isnan(numbers)] = NOTHING
        numbers[large] = [_code(str(int(value))) for value in column[large].tolist()]
        return numbers
    known: dict[str, float] = {}
    texts = (None if is_missing(v) else str(float(v) if isinstance(v, bool) else v) for v in column.tolist())
    return np.array(
        [NOTHING if t is None else known[t] if t in known else known.setdefault(t, _code(t)) for t in texts]
    )


def is_missing(value: Any) -> bool:
    """Whether a cell holds None, NaN or NA."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _code(text: str) -> float:
    number = _number(text)
    if number is not None and abs(number) < BEYOND:
        return number
    text = text if number is None else str(int(number))
    fingerprint = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return BEYOND + int.from_bytes(fingerprint) % 2**52


def _number(text: str) -> float | None:
    """The number that is written just like this."""
    try:
        number = float(text)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    return number if text in (repr(number), str(int(number))) else None


def called_as_ids(names: Iterable[str]) -> list[str]:
    """Columns whose names say that they hold ids."""
    return [name for name in names if _called_as_ids(name)]


def called_as_labels(name: str) -> bool:
    """Whether a name says that the column holds what a study asks about."""
    return any(word.lower().startswith(LABEL_STARTS) for word in WORD.findall(name))


def are_ids(column: Any) -> bool:
    """Whether a column that is called as ids are holds texts or whole numbers of which no two are the same."""
    values = np.asarray(column)
    if len(values) < FEWEST or values.dtype.kind not in "OSUiuf":
        return False
    if values.dtype.kind == "f" and not (values == np.round(values)).all():
        return False
    listed = values.tolist()
    return all(_could_be_id(value) for value in listed) and len(set(listed)) == len(listed)


def are_dates(kind: Any, values: Any = ()) -> bool:
    """Whether a column of this type holds dates, times or durations; of objects, some are looked at."""
    words = str(kind).lower()
    if words.startswith(("date", "time", "duration", "period")):
        return True
    return words == "object" and any(isinstance(value, DATES) for value in np.asarray(values).ravel()[:1000])


def check_features(party: str, table: Any, *, ids: bool = True) -> None:
    """Refuse a table of the library that has dates, or ids, among its features."""
    if isinstance(table, np.ndarray) and are_dates(table.dtype, table):
        raise InputError(
            f"party {party!r}: the table holds dates; turn them into numbers, such as days since a start"
        )
    if not hasattr(table, "columns") or not hasattr(table, "dtypes") or hasattr(table, "dask"):
        return
    if getattr(table.columns, "nlevels", 1) > 1:
        raise InputError(
            f"party {party!r}: its columns have names of {table.columns.nlevels} levels; make each name of the first "
            "level a party with {name: table[name] for name in table.columns.unique(0)}, or join the levels into one"
        )
    described = list(zip(map(str, table.columns), list(table.dtypes), strict=True))
    dates = [name for j, (name, kind) in enumerate(described) if are_dates(kind, _column(table, j, kind))]
    if dates:
        raise InputError(
            f"party {party!r}: {_columns(dates)} dates, not numbers; leave them out with "
            f"table.drop(columns={dates[:5]}), or make them numbers, as (dates - dates.min()).dt.days does"
        )
    found = [
        name for j, (name, _) in enumerate(described) if ids and _called_as_ids(name) and are_ids(_column(table, j))
    ]
    if found:
        raise InputError(
            f"party {party!r}: column {found[0]!r} looks like the ids of the samples; match rows by it with "
            f"table.set_index({found[0]!r}), or leave it out with table.drop(columns={found[:5]}); if it is a "
            "quantity, rename it"
        )


def _column(table: Any, position: int, kind: Any = object) -> Any:
    """One column by its position: a name may stand over several. Only of objects, others are known by their type."""
    if str(kind).lower() not in ("object", "<class 'object'>"):
        return ()
    return table.iloc[:, position] if hasattr(table, "iloc") else table[table.columns[position]]


def _columns(names: list[str]) -> str:
    shown = ", ".join(map(repr, names[:5])) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return f"column {shown} holds" if len(names) == 1 else f"columns {shown} hold"


def _could_be_id(value: Any) -> bool:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def _called_as_ids(name: str) -> bool:
    words = {word.lower() for word in WORD.findall(name)}
    ends = any(word.endswith(ID_ENDS) for word in words)
    return ends or bool(ID_WORDS & words) or name.strip().lower() in WHOLE_NAMES
