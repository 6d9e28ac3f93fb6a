"""Values as TOML; the standard library reads it and does not write it."""

import json
from collections.abc import Mapping
from typing import Any


def written(values: Mapping[str, Any]) -> str:
    """One line for each entry."""
    return "".join(f"{key} = {value_of(value)}\n" for key, value in values.items())


def value_of(value: Any) -> str:
    """Write one value; TOML has no null, so None is the word "none"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return '"none"'
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(value_of, value)) + "]"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{value_of(str(key))} = {value_of(item)}" for key, item in value.items()) + " }"
    return repr(value)
