"""limits.toml: what a party allows at most. A study beyond it is red, and is not signed.

`join` writes every limit with its cautious default; a file with an unknown or a missing one is refused.
"""

import json
import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dkpca.errors import InputError

PRECISIONS = ("compact", "float16", "float32", "float64")  # coarse to fine
PROTECTIONS = ("none", "sums", "blind")


@dataclass(frozen=True)
class Limits:
    """A party's own limits; the defaults are cautious."""

    recovery: float = 0.5  # largest R squared with which a column may be recovered from all that ever left
    known_rows: int = 30  # rows that the attacker is taken to know
    samples: int = 50  # fewest samples about which anything is sent
    precision: str = "float32"  # finest numbers sent
    rank: int = 100  # most eigenpairs sent
    audit_rows: int = 0  # most true rows of the Gram matrix sent
    batches: int = 0  # most batches of new samples
    protect: tuple[str, ...] = PROTECTIONS  # ways of taking part
    studies: int = 1  # most studies that this table takes part in
    public: tuple[str, ...] = ()  # parties whose columns the center may have

    def to_toml(self) -> str:
        """Write limits.toml, each limit with its meaning."""
        lines = []
        for field in fields(self):
            value = getattr(self, field.name)
            written = json.dumps(list(value) if isinstance(value, tuple) else value)
            lines.append(f"# {MEANING[field.name]}\n{field.name} = {written}\n")
        return "".join(lines)


def from_toml(text: str, source: object = "limits.toml") -> Limits:
    """Read limits; every key has to be one of them, and of its kind."""
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InputError(f"{source}: is no TOML file ({error})") from error
    unknown, missing = sorted(set(values) - set(VALID)), sorted(set(VALID) - set(values))
    if unknown or missing:
        what = f"unknown limits {unknown}" if unknown else f"the limits {missing} are missing"
        raise InputError(f"{source}: {what}; write each of {list(VALID)}, and no other")
    for key, value in values.items():
        if not VALID[key](value):
            raise InputError(f"{source}: {key} = {value!r} cannot be used; {MEANING[key]}")
    given: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
    return Limits(**given)


def _whole(least: int) -> Callable[[Any], bool]:
    return lambda value: type(value) is int and least <= value < 10**9


def _share(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= 1


VALID: Mapping[str, Callable[[Any], bool]] = {
    "recovery": _share,
    "known_rows": _whole(1),
    "samples": _whole(2),
    "precision": lambda value: isinstance(value, str) and value in PRECISIONS,
    "rank": _whole(1),
    "audit_rows": _whole(0),
    "batches": _whole(0),
    "protect": lambda value: isinstance(value, list) and bool(value) and all(each in PROTECTIONS for each in value),
    "studies": _whole(0),
    "public": lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value),
}
MEANING: Mapping[str, str] = {
    "recovery": "Largest R squared, from 0 to 1, with which a column may be recovered from all that ever left.",
    "known_rows": "Number of rows that an attacker is taken to know.",
    "samples": "Fewest samples about which anything is sent.",
    "precision": f"Finest numbers that are sent: one of {', '.join(PRECISIONS)}.",
    "rank": "Most eigenpairs that are sent.",
    "audit_rows": "Most true rows of the kernel matrix that are sent for an audit; 0: none.",
    "batches": "Most batches of new samples; 0: none.",
    "protect": f"Ways of taking part: some of {', '.join(PROTECTIONS)}.",
    "studies": "Most studies that this table takes part in.",
    "public": "Parties whose columns the center may have, as of a public register; a blind fit then hides nothing.",
}
