"""What a party computes on its columns, and how the center puts the parties' matrices together."""

from collections.abc import Mapping
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.distances import RBF, ChiSquared, Laplacian, Overlap
from dkpca.kernels.inner_products import CosineKernel, Linear, Polynomial
from dkpca.kernels.precomputed import Precomputed

__all__ = [
    "RBF",
    "ChiSquared",
    "CosineKernel",
    "Kernel",
    "Laplacian",
    "Linear",
    "Overlap",
    "Polynomial",
    "Precomputed",
]

FAMILIES = (RBF, Linear, Laplacian, Polynomial, CosineKernel, ChiSquared, Overlap, Precomputed)
KERNELS: Mapping[str, type[Kernel]] = {cls.name: cls for cls in FAMILIES}
ENTRY_POINTS = "dkpca.kernels"  # where an installed package names kernels of its own


@cache
def _installed() -> dict[str, Any]:
    """Entry points of kernels that installed packages offer, by name; nothing of them is imported."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS) if point.name not in KERNELS}


def family(name: object) -> type[Kernel]:
    """Return the class of kernels of this name: ours, or one that an installed package offers."""
    if not isinstance(name, str) or name not in kernel_names():
        raise InputError(f"kernel {name!r} is unknown here; use one of {sorted(KERNELS)}, or install its package")
    cls = KERNELS[name] if name in KERNELS else _installed()[name].load()
    if not (isinstance(cls, type) and issubclass(cls, Kernel) and cls.name == name):
        raise InputError(f"the package that offers kernel {name!r} does not bring a Kernel of that name; repair it")
    return cls


def kernel_names() -> list[str]:
    """Names of all kernels that are here: ours, and those of installed packages."""
    return [*KERNELS, *sorted(_installed())]


def check_offered(kernel: Kernel) -> None:
    """Refuse a kernel whose name in a file would not lead back to its class."""
    if kernel.name not in kernel_names() or family(kernel.name) is not type(kernel):
        raise InputError(
            f"no installed package offers the kernel {kernel.name!r}, so that a file with it could not be read; name "
            f"its class in the entry point group {ENTRY_POINTS!r} of a package, or use pickle"
        )
