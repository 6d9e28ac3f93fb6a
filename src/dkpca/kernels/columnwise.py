"""Sums over columns of something between the entries of two rows, one column at a time."""

from collections.abc import Callable

from dkpca.linalg.arrays import Array, namespace
from dkpca.linalg.rounding import growth, unit

FEW = 8  # roundings of one term, its product with gamma and the exponential
Term = Callable[[Array, Array], Array]


def summed_over_columns(term: Term, X: Array, Y: Array) -> Array:
    """Matrix of sums over k of term(X[i, k], Y[j, k])."""
    xp = namespace(X, Y)
    total = xp.zeros((X.shape[0], Y.shape[0]), dtype=X.dtype, device=X.device)
    for k in range(X.shape[1]):
        total += term(X[:, k][:, None], Y[:, k][None, :])
    return total


def exponential_error(X: Array) -> float:
    """Bound on the error of exp(-gamma d) for a distance d that is a sum over columns of terms that are not negative.

    Each term has a relative error of a few roundings, so has their sum, and x exp(-x) is below 1.
    """
    return (growth(X.shape[1]) + FEW) * unit(X)


def ratio(above: Array, below: Array) -> Array:
    """Quotient, and zero where nothing is below."""
    xp = namespace(above, below)
    above, below = xp.broadcast_arrays(above, below)
    there = below > 0
    return xp.where(there, above, xp.zeros_like(above)) / xp.where(there, below, xp.ones_like(below))
