"""How far floating point can be from the exact result: the counts behind every allowance of the certificate."""

import math

import numpy as np

from dkpca.linalg.arrays import Array, eps

SUBTRACTIONS = 8  # roundings beside the sums: differences, square roots, products with a scalar
SOLVER_SHARE = 4.0  # backward error of an eigensolver or SVD, in sums as long as the matrix


def unit(x: Array) -> float:
    """Largest relative error of one rounding in the precision of `x`."""
    return 0.5 * eps(x)


def growth(terms: int) -> float:
    """How many roundings a sum of so many products can add up to, relative to the sum of absolute values.

    Every one of them at worst. Sums of more than a hundred terms are made in blocks (of tiles here, of registers and
    cache lines in BLAS), and then 10 sqrt(terms) is as many as can meet; without any blocking it would be exceeded
    with a probability below 1e-20 (Higham and Mary 2019, *A new approach to probabilistic rounding error analysis*).
    """
    return min(float(terms), 10.0 * math.sqrt(terms)) + SUBTRACTIONS


def solver_error(n: int, largest_value: float, reference: Array) -> float:
    """Bound on what a backward stable solver does to an n x n matrix with this largest eigenvalue."""
    return SOLVER_SHARE * growth(n) * unit(reference) * largest_value


def power_of_four(x: float) -> float:
    """Power of four next to a positive number: multiplying by it, or by its root, rounds nothing."""
    return float(4.0 ** min(math.frexp(x)[1] // 2, 511))


def quiet() -> np.errstate:
    """Let overflow and underflow pass where they are meant: exp(-inf) is the right answer."""
    return np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore")
