"""How much each party counts: numbers, or the same leading eigenvalue for all."""

from collections.abc import Iterable, Mapping
from numbers import Real

from dkpca.errors import InputError
from dkpca.kernels.laws import SUM, Law, Product
from dkpca.linalg.arrays import Array, namespace
from dkpca.linalg.strips import cross
from dkpca.linalg.tall import Factor, whole

BALANCED = "balanced"
Weights = str | Mapping[str, float] | None


def check_weights(weights: Weights, parties: Iterable[str]) -> None:
    """Raise unless these are weights for just these parties."""
    if weights is None or weights == BALANCED:
        return
    if not isinstance(weights, Mapping) or set(weights) != set(parties):
        raise InputError(f"weights are {weights!r}; give 'balanced', or a number for each of {sorted(parties)}")
    for name, weight in weights.items():
        if isinstance(weight, bool) or not isinstance(weight, Real) or not 0.0 < float(weight) < float("inf"):
            raise InputError(f"the weight of party {name!r} is {weight!r}; give a positive number")


def party_weights(weights: Weights, factors: Mapping[str, Factor], law: Law) -> dict[str, float]:
    """What each party's matrix is multiplied by; under the product its own width does that, at the party."""
    check_weights(weights, factors)
    if weights is None:
        return dict.fromkeys(factors, 1.0)
    if isinstance(law, Product):
        raise InputError(
            "under the product law a party counts by the width of its kernel, which it chose before it sent its "
            "summary; let the parties summarize with other widths (--balance, --gamma), or combine by law='sum'"
        )
    if law is not SUM:
        raise InputError("weights need a sum or a product of the parties' kernels, not one that the center finishes")
    if isinstance(weights, Mapping):
        return {name: float(weights[name]) for name in factors}
    return {name: 1.0 / (_leading_value(whole(A)) or 1.0) for name, A in factors.items()}


def _leading_value(A: Array) -> float:
    """Largest eigenvalue of the centered matrix that a factor stands for."""
    xp = namespace(A)
    centered = A - xp.mean(A, axis=0, keepdims=True)
    return float(xp.max(xp.linalg.eigvalsh(cross(centered, centered))))
