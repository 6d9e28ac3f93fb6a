"""What is asked of a field of a message beyond its type, by whoever decodes it."""

import math
import re
from itertools import pairwise
from typing import Annotated

from dkpca.errors import InputError

RING_BITS = (16, 20, 32, 64)  # on which masked sums are formed
PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
MOST_AUDITED = 5000  # rows of one audit


def check_name(name: str, what: str) -> str:
    """Names become file names and log lines, so they are kept plain."""
    if not isinstance(name, str) or not PLAIN_NAME.fullmatch(name):
        raise InputError(
            f"{what} {name!r} cannot be used; take up to 64 letters, digits, '_', '-', '.', not '-' or '.' first"
        )
    return name


def check_party_name(name: str) -> str:
    """Name of a party, kept plain."""
    return check_name(name, "party name")


def _party_name(field: str, name: str) -> None:
    check_party_name(name)


def _fingerprint(field: str, value: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InputError(f"{field} is not a sha256 digest")


def _at_least_one(field: str, value: int) -> None:
    if value < 1:
        raise InputError(f"{field} is {value}, less than 1")


def _finite(field: str, value: float) -> None:
    if not math.isfinite(value):
        raise InputError(f"{field} is {value}, not a finite number")


def _not_negative(field: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{field} is {value}, not a finite number >= 0")


def _positive(field: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InputError(f"{field} is {value}, not a finite number > 0")


def _run_name(field: str, name: str) -> None:
    check_name(name, "name of a sum")


def _public_key(field: str, value: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise InputError(f"{field} is not a key of 32 bytes")


def _signature(field: str, value: str) -> None:
    if not re.fullmatch(r"[0-9a-f]{128}", value):
        raise InputError(f"{field} is not a signature of 64 bytes")


def _certificate(field: str, value: str) -> None:
    if not re.fullmatch(r"-----BEGIN CERTIFICATE-----\n[A-Za-z0-9+/=\n]{1,4000}-----END CERTIFICATE-----\n?", value):
        raise InputError(f"{field} is not the text of a certificate")


def _word(field: str, value: str) -> None:
    if not re.fullmatch(r"(?:[0-9a-f]{2}){8,80}", value):
        raise InputError(f"{field} is not a signature of up to 80 bytes")


def _bits(field: str, value: int) -> None:
    if value not in RING_BITS:
        raise InputError(f"{field} is {value}, not one of {list(RING_BITS)}")


def _ascending(field: str, value: tuple[int, ...]) -> None:
    if not 1 <= len(value) <= MOST_AUDITED or value[0] < 0 or any(a >= b for a, b in pairwise(value)):
        raise InputError(f"{field} are not 1 to {MOST_AUDITED} positions, ascending and each once")


def _seed(field: str, value: int) -> None:
    if value < 0:
        raise InputError(f"{field} is {value}, less than 0")


PartyName = Annotated[str, _party_name]
Fingerprint = Annotated[str, _fingerprint]
Count = Annotated[int, _at_least_one]
Finite = Annotated[float, _finite]
NotNegative = Annotated[float, _not_negative]
Positive = Annotated[float, _positive]
RunName = Annotated[str, _run_name]
PublicKey = Annotated[str, _public_key]
Signature = Annotated[str, _signature]
Certificate = Annotated[str, _certificate]
Word = Annotated[str, _word]
Bits = Annotated[int, _bits]
Positions = Annotated[tuple[int, ...], _ascending]
Seed = Annotated[int, _seed]
