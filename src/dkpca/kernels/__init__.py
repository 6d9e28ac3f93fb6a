"""What a party computes on its columns, and how the center puts the parties' matrices together."""

from collections.abc import Mapping

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


def family(name: object) -> type[Kernel]:
    """Return the class of kernels of this name."""
    if not isinstance(name, str) or name not in KERNELS:
        raise InputError(f"kernel {name!r} is unknown here; use one of {sorted(KERNELS)}")
    return KERNELS[name]


def check_offered(kernel: Kernel) -> None:
    """Refuse a kernel whose name in a file would not lead back to its class."""
    if KERNELS.get(kernel.name) is not type(kernel):
        raise InputError(f"the kernel {kernel.name!r} is not one of dkpca, and no file can hold it; use pickle")
