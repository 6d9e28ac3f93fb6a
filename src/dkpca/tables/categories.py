"""Categories become numbers that say only which are equal. Nothing is learned: each table can be read by itself."""

import hashlib
import math
from typing import Any

import numpy as np

BEYOND = 2.0**52  # codes of text lie from here to twice as far, where every whole number is a float64
NOTHING = 2.0**53  # code of a missing value


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
