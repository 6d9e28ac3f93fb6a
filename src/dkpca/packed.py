"""Arrays of bytes that travel: ids as keyed hashes, and numbers on a ring."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from dkpca.errors import InputError

TOKEN_BYTES = 16  # of the 32 of HMAC-SHA256: a chance of 1e-27 that any two of a million ids collide
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Tokens:
    """Sample ids as keyed hashes: ascending, so that the order of the rows is not told."""

    data: np.ndarray[tuple[int, int], np.dtype[np.uint8]]  # (n_samples, TOKEN_BYTES)

    @classmethod
    def of(cls, tokens: Iterable[bytes]) -> "Tokens":
        """Sort and pack."""
        return cls(np.frombuffer(b"".join(sorted(tokens)), dtype=np.uint8).reshape(-1, TOKEN_BYTES))

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what travels, by the end of its name."""
        return {"": self.data}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "Tokens":
        """Rebuild what `to_arrays` gave: ascending, so that no order is revealed, and each of them once."""
        data = arrays[""]
        if set(arrays) != {""}:
            raise InputError("does not have the arrays of its kind")
        if data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != TOKEN_BYTES or data.shape[0] == 0:
            raise InputError(f"{name} is not a list of {TOKEN_BYTES}-byte tokens (shape {data.shape})")
        tokens = cls(data)
        if any(earlier >= later for earlier, later in pairwise(tokens.listed())):
            raise InputError(f"{name} is not sorted, or has a token twice")
        return tokens

    def listed(self) -> list[bytes]:
        """Return them one by one, ascending."""
        return [row.tobytes() for row in self.data]

    @property
    def shape(self) -> tuple[int, int]:
        """Tokens, and bytes of one."""
        return self.data.shape

    @property
    def precision(self) -> str:
        """Type of one entry."""
        return "uint8"


@dataclass(frozen=True)
class Packed:
    """Numbers of some bits each, without gaps; how many bits, and how many numbers, is said elsewhere."""

    data: Bytes  # (n_bytes,)

    def to_arrays(self) -> dict[str, np.ndarray[Any, Any]]:
        """Return what travels, by the end of its name."""
        return {"": self.data}

    @classmethod
    def from_arrays(cls, name: str, arrays: Mapping[str, np.ndarray[Any, Any]]) -> "Packed":
        """Rebuild what `to_arrays` gave."""
        data = arrays[""]
        if set(arrays) != {""} or data.dtype != np.uint8 or data.ndim != 1 or data.shape[0] == 0:
            raise InputError(f"{name} is not a row of bytes")
        return cls(data)

    @property
    def shape(self) -> tuple[int]:
        """Bytes."""
        return (len(self.data),)

    @property
    def precision(self) -> str:
        """Type of one entry."""
        return "uint8"
