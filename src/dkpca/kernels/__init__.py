"""What a party computes on its columns, and how the center puts the parties' matrices together."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.linear import Linear
from dkpca.kernels.rbf import RBF

__all__ = ["RBF", "Kernel", "Linear"]

KERNELS: Mapping[str, type[Kernel]] = {cls.name: cls for cls in (Linear, RBF)}
ENTRY_POINTS = "dkpca.kernels"  # where an installed package names kernels of its own


def family(name: object) -> type[Kernel]:
    """Return the class of kernels of this name: ours, or one that an installed package offers."""
    if isinstance(name, str):
        if name in KERNELS:
            return KERNELS[name]
        for point in entry_points(group=ENTRY_POINTS, name=name):
            return _offered(point.load(), name)
    raise InputError(f"kernel {name!r} is unknown here; use one of {sorted(KERNELS)}, or install its package")


def _offered(cls: Any, name: str) -> type[Kernel]:
    if not (isinstance(cls, type) and issubclass(cls, Kernel) and cls.name == name):
        raise InputError(f"the package that offers kernel {name!r} does not bring a Kernel of that name; repair it")
    return cls
