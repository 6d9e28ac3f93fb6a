"""Which law combines these kernels, and what the result is a kernel of."""

from collections.abc import Mapping
from dataclasses import dataclass

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import LAWS, Law


@dataclass(frozen=True)
class Combination:
    """A law, and in words what it makes of the parties' kernels."""

    law: Law
    meaning: str


def check_law(law: object) -> None:
    """Raise unless this is the name of a law, or None."""
    if law is not None and (not isinstance(law, str) or law not in LAWS):
        raise InputError(f"law is {law!r}; use {' or '.join(map(repr, LAWS))}, or None for what the kernel implies")


def joint_law(kernel: Kernel) -> Law:
    """Law by which this kernel at every party makes the same kernel of the joined table."""
    if kernel.law is None:
        raise InputError(f"the {kernel.name} kernel of several parties is no kernel of the joined table; say a law")
    return kernel.law


def combination(kernels: Mapping[str, Kernel], law: str | None = None) -> Combination:
    """Find the law for the kernels of all parties: as asked for, or as the kernels imply."""
    check_law(law)
    first, *others = kernels.values()
    joint = first.law
    if not others or all(other == first for other in others):
        if joint is not None and law in (None, joint.name):
            return Combination(joint, f"the {first.name} kernel of the joined table")
        if not others and law is None:
            return Combination(LAWS["sum"], f"the {first.name} kernel of one party")
    chosen = LAWS[law] if law is not None else _implied(kernels)
    for party, kernel in kernels.items():
        if kernel.sends_diagonal:
            raise InputError(
                f"party {party!r} sent what the {kernel.name} kernel of the joined table needs, but not all parties "
                "did; let it use the kernel of its own columns (own=True), or all of them the same kernel"
            )
    if chosen is joint and len({kernel.name for kernel in kernels.values()}) == 1:
        return Combination(chosen, f"the {first.name} kernel of the joined table, with a width per party")
    return Combination(chosen, f"the {chosen.name} of the parties' kernels")


def _implied(kernels: Mapping[str, Kernel]) -> Law:
    laws = {kernel.law for kernel in kernels.values()}
    implied = laws.pop()
    if laws or implied is None:
        described = ", ".join(f"{party}: {kernel.name}" for party, kernel in kernels.items())
        raise InputError(f"these kernels imply no common law ({described}); say law='product' or law='sum'")
    return implied
