"""Parameters of kernels that are given by their names."""

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel


def adjusted(kernels: Mapping[str, Kernel], **given: Any) -> dict[str, Kernel]:
    """Kernels by party with the parameters that are given, where they have them; one that none has is refused."""
    wanted = {name: value for name, value in given.items() if value is not None}
    own = {party: {f.name for f in fields(kernel)} for party, kernel in kernels.items()}  # type: ignore[arg-type]
    strange = sorted(set(wanted) - set().union(*own.values()))
    if strange:
        names = ", ".join(sorted({kernel.name for kernel in kernels.values()}))
        raise InputError(f"{' and '.join(strange)}: no parameter of the {names} kernel; leave it out")
    return {
        party: replace(kernel, **{k: v for k, v in wanted.items() if k in own[party]})  # type: ignore[type-var]
        for party, kernel in kernels.items()
    }
