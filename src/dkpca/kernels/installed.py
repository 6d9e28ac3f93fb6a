"""Kernels that other packages bring: they travel by name, and say which package they are of."""

import re
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from dkpca.errors import InputError

ENTRY_POINTS = "dkpca.kernels"  # where an installed package names kernels of its own
PLAIN_PACKAGE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")


@cache
def points() -> dict[str, EntryPoint]:
    """Kernels that installed packages offer, by name; nothing of them is imported."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def loaded(name: str, base: type[Any]) -> type[Any]:
    """Class of a kernel that a package offers under this name."""
    cls = points()[name].load()
    if not (isinstance(cls, type) and issubclass(cls, base) and cls.name == name):  # type: ignore[attr-defined]
        raise InputError(f"the package that offers kernel {name!r} does not bring a Kernel of that name; repair it")
    return cls


def package_of(name: str) -> str | None:
    """Package that offers a kernel, as it is called where packages are installed from."""
    point = points().get(name)
    return None if point is None or point.dist is None else point.dist.name


def absent(name: object, package: object) -> str:
    """Sentence about a kernel that is not here; what a message says about its package is only repeated."""
    if not isinstance(package, str) or not PLAIN_PACKAGE.fullmatch(package):
        return "or install its package"
    return f"or install the package that its sender says it is of, if you trust it: {package}"
