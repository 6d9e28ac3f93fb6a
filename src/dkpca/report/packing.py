"""Arrays for the page: typed, compressed, as text."""

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dkpca.tables.reading import Matrix

STEPS = 65_535  # a score is told apart to this part of its component's range


@dataclass
class Bundle:
    """Arrays one behind the other; the page finds each by its place."""

    parts: list[bytes] = field(default_factory=list)
    size: int = 0

    def add(self, array: Any) -> dict[str, Any]:
        """Append an array; return where it is."""
        array = np.ascontiguousarray(array)
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        place = {"offset": self.size, "length": array.size, "type": array.dtype.name}
        self._append(data)
        return place

    def add_texts(self, texts: Sequence[str]) -> dict[str, Any]:
        """Append texts; return where they are."""
        # A lone surrogate cannot be encoded, and no table reader makes one.
        data = json.dumps(list(texts), ensure_ascii=False, separators=(",", ":")).encode()
        place = {"offset": self.size, "length": len(data), "type": "texts"}
        self._append(data)
        return place

    def encoded(self) -> str:
        """Everything, compressed, as text that needs no escaping."""
        return base64.b64encode(zlib.compress(b"".join(self.parts), level=9)).decode()

    def _append(self, data: bytes) -> None:
        data += bytes(-len(data) % 8)  # typed arrays start at multiples of their width
        self.parts.append(data)
        self.size += len(data)


def packed_scores(bundle: Bundle, scores: Matrix) -> dict[str, Any]:
    """Scores in two bytes each, component by component, with the range of each."""
    low, high = scores.min(axis=0), scores.max(axis=0)
    width = np.where(high > low, high - low, 1.0)
    steps = np.rint((scores - low) / width * STEPS).astype(np.uint16)
    return {"low": low.tolist(), "high": (low + width).tolist(), "steps": bundle.add(steps.T)}
