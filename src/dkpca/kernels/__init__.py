"""What a party computes on its columns, and how the center puts the parties' matrices together."""

from collections.abc import Mapping

from dkpca.errors import InputError
from dkpca.kernels.base import ENTRY_POINTS, Kernel, absent, installed, loaded
from dkpca.kernels.distances import RBF, ChiSquared, Laplacian, Overlap
from dkpca.kernels.inner_products import AdditiveChiSquared, CosineKernel, Linear, Polynomial
from dkpca.kernels.precomputed import Precomputed

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


def family(name: object, package: object = None) -> type[Kernel]:
    """Return the class of kernels of this name: ours, or one that an installed package offers.

    `package` is where whoever asks has it from, for the words if it is not here.
    """
    if isinstance(name, str):
        if name in KERNELS:
            return KERNELS[name]
        if name in installed():
            return loaded(name)
        if name in NOT_POSITIVE:
            raise InputError(f"{NOT_POSITIVE[name]}; use one of {sorted(KERNELS)}")
    raise InputError(f"kernel {name!r} is unknown here; use one of {sorted(KERNELS)}, {absent(package)}")


def kernel_names() -> list[str]:
    """Names of all kernels that are here: ours, and those of installed packages."""
    return [*KERNELS, *sorted(set(installed()) - set(KERNELS))]


def check_offered(kernel: Kernel) -> None:
    """Refuse a kernel whose name in a file would not lead back to its class."""
    if kernel.name not in kernel_names() or family(kernel.name) is not type(kernel):
        raise InputError(
            f"no installed package offers the kernel {kernel.name!r}, so that a file with it could not be read; name "
            f"its class in the entry point group {ENTRY_POINTS!r} of a package, or use pickle"
        )
