"""What a party computes on its columns, and how the center puts the parties' matrices together."""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.chi2 import AdditiveChiSquared, ChiSquared
from dkpca.kernels.cosine import CosineKernel
from dkpca.kernels.laplacian import Laplacian
from dkpca.kernels.linear import Linear
from dkpca.kernels.overlap import Overlap
from dkpca.kernels.polynomial import Polynomial
from dkpca.kernels.precomputed import Precomputed
from dkpca.kernels.rbf import RBF

__all__ = [
    "RBF",
    "AdditiveChiSquared",
    "ChiSquared",
    "CosineKernel",
    "Kernel",
    "Laplacian",
    "Linear",
    "Overlap",
    "Polynomial",
    "Precomputed",
]

FAMILIES = (RBF, Linear, Laplacian, Polynomial, CosineKernel, ChiSquared, AdditiveChiSquared, Overlap, Precomputed)
KERNELS: Mapping[str, type[Kernel]] = {cls.name: cls for cls in FAMILIES}
NOT_POSITIVE = {
    "sigmoid": "the sigmoid kernel is not positive semidefinite, so that it has no kernel principal components",
}
ENTRY_POINTS = "dkpca.kernels"  # where an installed package names kernels of its own


def family(name: object) -> type[Kernel]:
    """Return the class of kernels of this name: ours, or one that an installed package offers."""
    if isinstance(name, str):
        if name in KERNELS:
            return KERNELS[name]
        for point in entry_points(group=ENTRY_POINTS, name=name):
            return _offered(point.load(), name)
        if name in NOT_POSITIVE:
            raise InputError(f"{NOT_POSITIVE[name]}; use one of {sorted(KERNELS)}")
    raise InputError(f"kernel {name!r} is unknown here; use one of {sorted(KERNELS)}, or install its package")


def _offered(cls: Any, name: str) -> type[Kernel]:
    if not (isinstance(cls, type) and issubclass(cls, Kernel) and cls.name == name):
        raise InputError(f"the package that offers kernel {name!r} does not bring a Kernel of that name; repair it")
    return cls
