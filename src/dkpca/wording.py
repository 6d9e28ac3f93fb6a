"""Numbers and words for readers, values as TOML, and the values in TOML and JSON from strangers."""

import datetime
import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

DEEPEST = 16  # tables inside tables of a TOML file
DEEPEST_JSON = 32  # ours have five levels
_KEY = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"?|'[^'\n]*+'?)"""
_DOT = r"[ \t]*+\.[ \t]*+"
_LONG = r"""\"{3}(?:(?!\"{3})(?:\\.|[^\\]))*+(?:\"{3,5}+|\Z)|'{3}(?:(?!'{3}).)*+(?:'{3,5}+|\Z)"""
# A comment, a string of several lines, or a key; its 17th part is the group.
TOKENS = re.compile(rf"#[^\n]*+|{_LONG}|{_KEY}(?:{_DOT}{_KEY}){{0,{DEEPEST - 1}}}+({_DOT}{_KEY})?+", re.DOTALL)
LONGEST = 4000  # letters that a person is shown at a time
LONG_NUMBER = re.compile(r"0[xob][0-9a-fA-F_]{1000}")  # Python refuses to write one; it refuses to read decimal ones
TOO_DEEP = f"tables inside tables, more than {DEEPEST} deep"


class OutsizeError(ValueError):
    """A TOML file has what no file of ours has: so many tables in each other, or digits of a number."""


def toml_values(text: str) -> dict[str, Any]:
    """Return the values of a TOML file, or raise `ValueError`."""
    # tomllib takes minutes for a key of 30,000 parts, so such keys are looked for first, in linear time.
    if any(token[1] for token in TOKENS.finditer(text)):
        raise OutsizeError(TOO_DEEP)
    if LONG_NUMBER.search(text):
        raise OutsizeError("a number of thousands of digits")
    try:
        values = tomllib.loads(text)
    except RecursionError as error:
        raise OutsizeError(TOO_DEEP) from error
    if _deeper(values, DEEPEST):
        raise OutsizeError(TOO_DEEP)
    return values


def json_values(text: str | bytes) -> Any:
    """Return the value in JSON: no deeper than ours, every key once, every number finite; or raise `ValueError`."""
    try:
        text = text.decode() if isinstance(text, bytes) else text  # json would take UTF-16 and a byte order mark too
        value = json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_each_key_once)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if _deeper(value, DEEPEST_JSON - 1):  # what a function that calls itself on every level could not walk through
        raise ValueError(f"it is nested more than {DEEPEST_JSON} levels deep")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):  # NaN and Infinity, too
        raise ValueError(f"{digits[:20]} is no number, or more than one can hold")
    return value


def _each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError("a key is there twice")
    return entries


def _deeper(value: Any, most: int) -> bool:
    """Whether tables and lists lie in each other more than so many deep."""
    level = [value]
    for _ in range(most + 1):
        tables = [each for each in level if isinstance(each, dict | list)]
        level = [item for each in tables for item in (each.values() if isinstance(each, dict) else each)]
    return any(isinstance(each, dict | list) for each in level)


def printable(text: str) -> str:
    """One line of what somebody else wrote, without what a terminal or a log would take for a command."""
    return visible(" ".join(text.split()))


def visible(text: str) -> str:
    """A line as it is, with '?' for every letter that cannot be printed; a very long one without its middle."""
    text = text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def some(names: Iterable[Any], most: int = 8, written: Callable[[Any], str] = repr) -> str:
    """Names for a sentence, not more than a reader wants."""
    named = [written(name) for name in names]
    return ", ".join(named[:most]) + (f" and {len(named) - most} more" if len(named) > most else "")


def in_bytes(count: float) -> str:
    """Bytes for a reader: 123 B, 12.3 kB, 4.5 MB."""
    if count < 1000:
        return f"{count:.0f} B"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:,.1f} {unit}"
    return f"{count / 1000:,.1f} GB"


def good_digits(squared: float) -> int:
    """Digits to which a subspace is correct if the sum of the squared sines is this."""
    return 0 if squared >= 0.01 else min(15, math.floor(-0.5 * math.log10(max(squared, 1e-30)) + 1e-9))


def in_percent(share: float) -> str:
    """A share that is close to one, with as many digits as tell it from one; never rounded up: 99.998%."""
    lost = 1.0 - share
    if lost <= 1e-9:
        return "100%"
    digits = max(1, math.floor(-math.log10(lost) + 1e-6) - 1)
    return f"{math.floor((share * 100.0) * 10**digits + 1e-6) / 10**digits:.{digits}f}%"


def p_value(p: float) -> str:
    """A p-value; a bound below 0.001, the least that 999 permutations can show."""
    return "< 0.001" if p < 0.001 else f"{p:.2g}"


def counted(count: int, noun: str) -> str:
    """So many of something: 1 row, 2 rows."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def as_toml(values: Mapping[str, Any]) -> str:
    """Lines of TOML, one for each entry; the standard library reads it and does not write it."""
    return "".join(f"{key} = {toml_value(value)}\n" for key, value in values.items())


def toml_value(value: Any) -> str:
    """Write one value; TOML has no null, so None is the word "none"."""
    if value is None:
        return '"none"'
    if isinstance(value, str | bool):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{toml_value(str(key))} = {toml_value(item)}" for key, item in value.items()) + "}"
    return str(value) if isinstance(value, datetime.date) else repr(value)  # inf and nan are TOML too
