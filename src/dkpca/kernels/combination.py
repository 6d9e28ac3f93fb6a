"""Which law combines these kernels, what the result is a kernel of, and how much each party counts."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real

from dkpca.errors import InputError
from dkpca.kernels.base import Kernel
from dkpca.kernels.laws import LAWS, Law
from dkpca.linalg.arrays import namespace
from dkpca.linalg.lazy_factor import Factor, reference_of
from dkpca.linalg.rows import moments

BALANCED = "balanced"
Weights = str | Mapping[str, float] | None


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
    # Equal kernels make one of the joined table by their own law; anything else is a product or a sum of what the
    # parties have, which has to be asked for unless all kernels imply the same one.
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


def check_weights(weights: Weights, parties: Iterable[str]) -> None:
    """Raise unless these are weights for just these parties."""
    if weights is None or weights == BALANCED:
        return
    if not isinstance(weights, Mapping) or set(weights) != set(parties):
        raise InputError(f"weights are {weights!r}; give 'balanced', or a number for each of {sorted(parties)}")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0.0 < float(weight) < float("inf"):
            raise InputError(f"the weight of party {name!r} is {weight!r}; give a positive number")


def weighed(kernels: Mapping[str, Kernel], weights: Weights, law: Law) -> dict[str, Kernel]:
    """Kernels by party with their weights, where the law has the parties weigh by their widths."""
    if not isinstance(weights, Mapping) or law.weighed_by != "party":
        return dict(kernels)
    return {name: kernel.rescaled(weights[name]) for name, kernel in kernels.items()}


def center_weights(weights: Weights, law: str | None) -> Weights:
    """Weights that are left for the center: none where the parties have weighed already."""
    return None if law is not None and LAWS[law].weighed_by == "party" else weights


def party_weights(weights: Weights, factors: Mapping[str, Factor], law: Law) -> dict[str, float]:
    """What each party's matrix is multiplied by; under the product its own width does that, at the party."""
    check_weights(weights, factors)
    if weights is None:
        return dict.fromkeys(factors, 1.0)
    if law.weighed_by == "party":
        raise InputError(
            "under the product law a party counts by the width of its kernel, which it chose before it sent its "
            "summary; let the parties summarize with other widths (--balance, --gamma), or combine by law='sum'"
        )
    if law.weighed_by != "center":
        raise InputError("weights need a sum or a product of the parties' kernels, not one that the center finishes")
    if isinstance(weights, Mapping):
        return {name: float(weights[name]) for name in factors}
    return {name: 1.0 / (_leading_value(A) or 1.0) for name, A in factors.items()}


def _leading_value(A: Factor) -> float:
    """Largest eigenvalue of the centered matrix that a factor stands for."""
    start = namespace(reference_of(A)).zeros_like(reference_of(A)[0, :])
    mean = moments(A, start, centered=True).total / A.shape[0]
    found = moments(A, mean, centered=True)
    square = found.square - found.total[:, None] * found.total / A.shape[0]
    xp = namespace(square)
    return float(xp.max(xp.linalg.eigvalsh(square)))
