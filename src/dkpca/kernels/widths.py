"""What kernels with a width share."""

import math
from numbers import Real
from typing import Any

from dkpca.errors import InputError


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
