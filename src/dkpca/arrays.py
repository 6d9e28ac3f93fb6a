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
    return np.asarray(x.detach().cpu() if array_api_compat.is_torch_array(x) else x)


def dtype_name(x: Array) -> str:
    """Name of the precision, the same in every library."""
    return str(x.dtype).rpartition(".")[2]


def itemsize(x: Array) -> int:
    """Bytes of one number."""
    return int(namespace(x).finfo(x.dtype).bits) // 8


def eps(x: Array) -> float:
    """Distance from 1 to the next number in the precision of `x`."""
    return float(namespace(x).finfo(x.dtype).eps)
