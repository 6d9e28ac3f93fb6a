"""The one place that knows more than one array library."""

from typing import Any

import array_api_compat
import numpy as np

Array = Any  # a NumPy array or a torch tensor: whatever follows the array API standard


def namespace(*arrays: Array) -> Any:
    """Return the array API namespace shared by the arrays."""
    return array_api_compat.array_namespace(*arrays)


def device(x: Array) -> Any:
    """Return where the array lives."""
    return array_api_compat.device(x)


def to_numpy(x: Array) -> np.ndarray[Any, Any]:
    """Bring an array to the host."""
    if isinstance(x, np.ndarray):
        return x
    return np.asarray(array_api_compat.to_device(x, "cpu"))


def like(x: np.ndarray[Any, Any], reference: Array, dtype: Any = None) -> Array:
    """Send a host array to where `reference` lives, in its precision unless told otherwise."""
    xp = namespace(reference)
    return xp.asarray(x, dtype=dtype or reference.dtype, device=device(reference))


def itemsize(x: Array) -> int:
    """Bytes of one number."""
    return int(namespace(x).finfo(x.dtype).bits) // 8


def eps(x: Array) -> float:
    """Distance from 1 to the next number in the precision of `x`."""
    return float(namespace(x).finfo(x.dtype).eps)
