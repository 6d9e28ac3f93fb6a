"""Sample ids are text. What parties match by is the ids themselves, or the ids made alike in an agreed way.

The ways decide which ids are the same; the ids that a party shows stay as they came. An agreed way is part of what is
matched, so that parties that agreed on different ways match nothing, instead of a part.
"""

import functools
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import polars as pl

from dkpca.errors import InputError
from dkpca.wording import some

SHOWN = 4  # ids, or patterns of ids, in a sentence
EXACT = 2**53  # above it, different whole numbers can be one floating point number


def _plain_number(text: str) -> str:
    """Digits without leading zeros and '.0'; any other text as it is."""
    digits = text.removesuffix(".0")
    return digits.lstrip("0") or "0" if digits.isdecimal() and digits.isascii() else text


WAYS: Mapping[str, Callable[[str], str]] = {
    "strip": str.strip,  # no spaces around
    "unicode": lambda text: unicodedata.normalize("NFC", text),  # composed letters
    "case": str.casefold,
    "zeros": _plain_number,
}


def found_in(column: pl.Series, ways: Sequence[str], source: str) -> list[str]:
    """Ids of all rows: every row needs one, and each stands once."""
    ids, problems = looked_through(column, ways, source)
    if problems:
        raise InputError(problems[0])
    return ids


def looked_through(column: pl.Series, ways: Sequence[str], source: str) -> tuple[list[str], list[str]]:
    """Ids of all rows, and all that is wrong with them."""
    try:
        ids = _text(column, source).fill_null("").to_list()
    except InputError as error:
        return [], [str(error)]
    keys, problems, rows_of = matching_keys(ids, ways), list[str](), dict[str, list[int]]()
    count, where = Counter(keys), f"column {column.name!r}"
    if gone := [row for row, name in enumerate(ids, start=1) if not name.strip()]:
        rows = f"row{'s' * (len(gone) > 1)} {some(gone)}"
        problems.append(f"{source}: no id in {where}, {rows}; give every sample an id")
    for row, (name, key) in enumerate(zip(ids, keys, strict=True), start=1):
        if count[key] > 1 and name.strip():
            rows_of.setdefault(key, []).append(row)
    if rows_of:
        each = [f"{some(sorted({ids[row - 1] for row in rows}))} (rows {some(rows)})" for rows in rows_of.values()]
        under = " under --id-normalize " * bool(ways) + ",".join(ways)
        twice = f"ids in {where} occur more than once{under}: {some(each, SHOWN, str)}"
        problems.append(f"{source}: {twice}; ids must be unique: keep one row of each")
    return ids, problems


def in_words(column: str, keys: Sequence[str]) -> str:
    """How ids are matched: their most frequent patterns, which parties compare."""
    ways = keys[0].rpartition("\0")[0] if keys else ""
    shapes = Counter(written_like(key.rpartition("\0")[2]) for key in keys).most_common()
    such = some((f"{shape!r} ({count:,})" for shape, count in shapes), SHOWN, str) + f" after {ways}" * bool(ways)
    return f"sample ids: column {column!r}, matched as {such}; compare this and id_normalize with the other parties"


def _text(column: pl.Series, source: str) -> pl.Series:
    """Text as it is, spaces and all; whole numbers as their digits, also where they are stored as fractions."""
    kind = column.dtype
    if kind == pl.Null or isinstance(kind, pl.String | pl.Categorical | pl.Enum | pl.Boolean) or kind.is_integer():
        return column.cast(pl.String)
    present, what = column.drop_nulls(), f"{source}: column {column.name!r}"
    if not kind.is_numeric():
        raise InputError(f"{what} holds {kind} values, not ids; name another column with --id")
    whole = present == present.cast(pl.Int128, strict=False)
    if kind.is_float():
        whole &= present.is_finite() & (present.abs() < EXACT)
    if not whole.fill_null(value=False).all():
        raise InputError(f"{what} holds numbers that are not whole and below 2^53; write ids as text")
    return column.cast(pl.Int128).cast(pl.String)


def check_ways(ways: Iterable[str]) -> tuple[str, ...]:
    """Ways in their order, each once."""
    asked = set(ways)
    unknown = sorted(asked - set(WAYS))
    if unknown:
        raise InputError(f"unknown id normalization {unknown}; choose from {', '.join(WAYS)}")
    return tuple(way for way in WAYS if way in asked)


def matching_keys(ids: Sequence[str], ways: Sequence[str]) -> list[str]:
    """Return what the ids are matched by, in their order."""
    if not ways:
        return list(ids)
    agreed = "+".join(ways)
    return [f"{agreed}\0{text}" for text in map(made_alike(ways), ids)]


def made_alike(ways: Iterable[str]) -> Callable[[str], str]:
    """Return the function that makes one id alike."""
    steps = [WAYS[way] for way in check_ways(ways)]
    steps += [WAYS["unicode"]] * ("unicode" in ways)  # folding the case can take a composed letter apart again
    return lambda text: functools.reduce(lambda made, step: step(made), steps, text)


def written_like(text: str) -> str:
    """Return how an id is written without saying it: 9 for a digit, A and a for letters; leading zeros stay."""
    rest = text.lstrip("0")
    shape = ("9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in rest)
    return "0" * (len(text) - len(rest)) + "".join(shape)
