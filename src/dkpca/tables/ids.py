"""Sample ids are text. What parties match by is the ids themselves, or the ids made alike in an agreed way.

The ways are `strip` (no spaces around), `unicode` (composed letters, NFC), `case` (case folded) and `zeros` (digits
without leading zeros and without the `.0` of a spreadsheet). They decide which ids are the same; the ids that a party
shows stay as they came. An agreed way is part of what is matched, so that parties that agreed on different ways match
nothing, instead of a part.

A column of ids becomes text by one rule a type. Text stays as it is, spaces and all. Whole numbers become their
digits, also where they are stored as fractions (`3.0` is `3`, which is how a workbook or a column with a gap stores
`3`). Numbers with a fraction, dates and times are no ids.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import combinations

import polars as pl

from dkpca.errors import InputError

EXACT = 2**53  # above it, different whole numbers can be one floating point number


def _plain_number(text: str) -> str:
    """Digits without leading zeros and '.0'; any other text as it is."""
    digits = text.removesuffix(".0")
    return digits.lstrip("0") or "0" if digits.isdecimal() and digits.isascii() else text


WAYS: Mapping[str, Callable[[str], str]] = {
    "strip": str.strip,
    "unicode": lambda text: unicodedata.normalize("NFC", text),
    "case": str.casefold,
    "zeros": _plain_number,
}
ODD = {  # ids that a way would change
    "zeros": "have leading zeros or end in '.0'",
    "strip": "have spaces around them",
    "unicode": "are in decomposed Unicode (not NFC)",
}


def found_in(column: pl.Series, ways: Sequence[str], source: str) -> tuple[list[str], list[str]]:
    """Ids of the rows that have one, and what is wrong with the others: every row needs one, and each stands once."""
    text = _text(column, source)
    gone = text.is_null() | (text.str.strip_chars() == "")
    rows, ids = ((~gone).arg_true() + 1).to_list(), text.filter(~gone).to_list()
    wrong = []
    if gone.any():
        row = (gone.arg_max() or 0) + 1
        wrong.append(f"{source}: no id in column {column.name!r}, row {row}; give every sample an id")
    keys = matching_keys(ids, ways)
    twice = next((key for key, count in Counter(keys).items() if count > 1), None)
    if twice is not None:
        same = [(row, name) for row, name, key in zip(rows, ids, keys, strict=True) if key == twice][:5]
        numbers, spellings = [row for row, _ in same], list(dict.fromkeys(name for _, name in same))
        if len(spellings) == 1:
            what = f"id {spellings[0]!r} in column {column.name!r} occurs in rows {numbers}"
        else:
            what = f"ids {spellings} in column {column.name!r}, rows {numbers}, become one id under --id-normalize "
            what += ",".join(ways)
        wrong.append(f"{source}: {what}; ids must be unique: keep one of these rows")
    return ids, wrong


def _text(column: pl.Series, source: str) -> pl.Series:
    kind = column.dtype
    if kind == pl.Null or isinstance(kind, pl.String | pl.Categorical | pl.Enum | pl.Boolean) or kind.is_integer():
        return column.cast(pl.String)
    if kind.is_float() or isinstance(kind, pl.Decimal):
        present = column.drop_nulls()
        whole = (
            (present.is_finite() & (present == present.round()) & (present.abs() < EXACT))
            if kind.is_float()
            else (present == present.cast(pl.Int128))
        )
        if whole.all():
            return column.cast(pl.Int128).cast(pl.String)
        example = present.filter(~whole)[0]
        raise InputError(
            f"{source}: id {example} in column {column.name!r} is not a whole number below 2^53; "
            "write ids as text, or name another column with --id"
        )
    raise InputError(f"{source}: column {column.name!r} holds {kind} values, not ids; name another column with --id")


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

    def alike(text: str) -> str:
        for step in steps:
            text = step(text)
        # Folding the case can take a composed letter apart again.
        return unicodedata.normalize("NFC", text) if "unicode" in ways else text

    return alike


def oddities(ids: Sequence[str], ways: Sequence[str]) -> list[str]:
    """What other tables may write differently, in words, where nothing was agreed about it."""
    found = {way: [text for text in ids if WAYS[way](text) != text] for way in ODD if way not in ways}
    return [
        f"{len(odd):,} ids {ODD[way]}, for example {odd[0]!r}; if other tables write them otherwise, all parties can "
        f"use 'dkpca check --id-normalize {way}'"
        for way, odd in found.items()
        if odd
    ]


def written_like(text: str) -> str:
    """Return how an id is written without saying it: 9 for a digit, A and a for letters; leading zeros stay."""
    rest = text.lstrip("0")
    shape = ("9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in rest)
    return "0" * (len(text) - len(rest)) + "".join(shape)


def would_match(ids: Mapping[str, Sequence[str]], ways: Sequence[str]) -> list[str]:
    """How many more ids would match if they were made alike, in words; empty if none would."""
    # Of ids without a partner, how many would find one under each further combination of ways? The fewest ways win.
    keys = {party: set(map(made_alike(ways), own)) for party, own in ids.items()}
    common = set.intersection(*keys.values())
    rest = [own - common for own in keys.values()]
    missing = [way for way in WAYS if way not in ways]
    sets = [check_ways([*ways, *more]) for n in range(1, len(missing) + 1) for more in combinations(missing, n)]
    best = max(sets, key=lambda more: _matches(rest, made_alike(more)), default=())  # the first of equals: the fewest
    gain = _matches(rest, made_alike(best)) if sets else 0
    how = f"--id-normalize {','.join(best)}, which 'dkpca check' writes into a party.toml"
    return [f"{gain:,} more ids would match with {how}"] if gain else []


def _matches(rest: Sequence[set[str]], alike: Callable[[str], str]) -> int:
    return len(set.intersection(*({alike(text) for text in own} for own in rest)))
