"""What kernels with a width share."""

import math
from numbers import Real
from typing import Any

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, exp_in_place, namespace
from dkpca.linalg.rounding import quiet


def checked_width(kernel: Any) -> None:
    """Hold gamma to a positive number, the same one whatever kind of number it was."""
    width = kernel.gamma
    if isinstance(width, bool) or not isinstance(width, Real) or not 0.0 < float(width) < math.inf:
        raise InputError(f"gamma is {kernel.gamma!r}; the {kernel.name} kernel needs a positive, finite number")
    object.__setattr__(kernel, "gamma", float(kernel.gamma))


def required_width(name: str, gamma: float | None) -> float:
    """Width that has to be given."""
    if gamma is None:
        raise InputError(f"the {name} kernel needs a width; give gamma")
    return gamma


def exponential_of(distances: Array, gamma: float) -> Array:
    """exp(-gamma * distances) in place, also where gamma is beyond the range of the precision."""
    most = float(namespace(distances).finfo(distances.dtype).max) ** 0.5
    with quiet():
        while gamma > most:
            distances *= most
            gamma /= most
        distances *= -gamma
        return exp_in_place(distances)


def exponents_of(K: Array, floor: float) -> Array:
    """Return -log of kernel values, as somebody reads them off: none below the floor, and 0 on the diagonal."""
    xp = namespace(K)
    return -xp.log(xp.clip(K, floor, 1.0)) * (1.0 - xp.eye(K.shape[0], dtype=K.dtype))
