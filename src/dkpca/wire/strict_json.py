"""JSON from strangers: plain objects, no deeper than ours, every key once, every number finite."""

import json
import math
from typing import Any

from dkpca.wording import deeper

DEEPEST = 32  # ours have five levels


def loads(text: str | bytes) -> Any:
    """Return the value in the text; a `ValueError` says why there is none."""
    try:
        text = text.decode() if isinstance(text, bytes) else text  # json would take UTF-16 and a byte order mark too
        value = json.loads(text, parse_constant=_finite, parse_float=_finite, object_pairs_hook=_each_key_once)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if deeper(value, DEEPEST - 1):  # what a function that calls itself on every level could not walk through
        raise ValueError(f"it is nested more than {DEEPEST} levels deep")
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
