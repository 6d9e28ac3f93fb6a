"""The true kernel matrix in long double, whose range and digits are beyond those of every number that is checked.

NumPy has no eigensolver for it, and none is needed: matrices are divided by the trace first, the difference between
the true and the fused matrix is formed in long double, and an eigenvalue of it in double is then exact to 1e-15 of
the difference itself. Kernels and laws are written down again here, from their definitions.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dkpca.kernels import (
    RBF,
    AdditiveChiSquared,
    ChiSquared,
    CosineKernel,
    Kernel,
    Laplacian,
    Linear,
    Overlap,
    Polynomial,
)
from dkpca.kernels.laws import Cosine, Law, Power, Product
from dkpca.linalg.arrays import to_numpy

Long = np.ndarray[Any, Any]
EXACT_UP_TO = 400  # samples; products of larger factors take minutes without BLAS


def true_matrix(tables: Mapping[str, Any], kernels: Mapping[str, Kernel], law: Law) -> Long:
    """Kernel matrix of all parties together, each entry exact to about 1e-18 of itself."""
    parts = [party_matrix(tables[name], kernel) for name, kernel in kernels.items()]
    return combined(parts, law, [np.diagonal(part) for part in parts])


def party_matrix(table: Any, kernel: Kernel) -> Long:
    """Kernel matrix of one party's columns."""
    columns = to_numpy(table).astype(np.longdouble).T
    T = columns.shape[1]
    total = np.zeros((T, T), dtype=np.longdouble)
    for x in columns:
        total += _term(kernel, x)
    if isinstance(kernel, RBF | Laplacian | ChiSquared | Overlap):
        return np.exp(-np.longdouble(kernel.gamma) * total)
    if isinstance(kernel, Polynomial) and kernel.own:
        return _power(total, kernel)
    if isinstance(kernel, CosineKernel) and kernel.own:
        return _over_lengths(total, np.diagonal(total))
    return total


def fused_matrix(factors: Sequence[Any], law: Law, diagonals: Sequence[Any]) -> Long:
    """Matrix that the factors, as they were sent, make."""
    parts = []
    for factor in factors:
        A = to_numpy(factor).astype(np.float64)
        A = A.astype(np.longdouble) if len(A) <= EXACT_UP_TO else A
        parts.append((A @ A.T).astype(np.longdouble))
    return combined(parts, law, diagonals)


def combined(parts: Sequence[Long], law: Law, diagonals: Sequence[Long]) -> Long:
    """Matrix that the law makes of the parties' matrices; the lengths of samples follow from the diagonals."""
    if isinstance(law, Product):
        product = parts[0]
        for part in parts[1:]:
            product = product * part
        return product
    total: Long = np.sum(parts, axis=0)
    if isinstance(law, Power):
        return _power(total, law)
    return _over_lengths(total, np.sum(diagonals, axis=0)) if isinstance(law, Cosine) else total


def centered(K: Long) -> Long:
    """Rows and columns that sum to zero."""
    means = K.mean(axis=0)
    centered: Long = K - means[None, :] - means[:, None] + means.mean()
    return centered


def _term(kernel: Kernel, x: Long) -> Long:
    """What one column adds."""
    left, right = x[:, None], x[None, :]
    if isinstance(kernel, RBF):
        return (left - right) ** 2
    if isinstance(kernel, Laplacian):
        return np.abs(left - right)
    if isinstance(kernel, Overlap):
        return (left != right).astype(np.longdouble)
    if isinstance(kernel, ChiSquared | AdditiveChiSquared):
        there = left + right > 0
        below = np.where(there, left + right, np.longdouble(1))
        above = (left - right) ** 2 if isinstance(kernel, ChiSquared) else 4 * left * right
        return np.where(there, above / below, np.longdouble(0))
    if isinstance(kernel, Linear) and kernel.centered:
        left, right = left - x.mean(), right - x.mean()
    return left * right


def _power(total: Long, kernel: Polynomial | Power) -> Long:
    return (np.longdouble(kernel.gamma) * total + np.longdouble(kernel.coef0)) ** kernel.degree


def _over_lengths(total: Long, squares: Long) -> Long:
    lengths = np.sqrt(np.where(squares > 0, squares, np.longdouble(np.inf)))  # a sample that is zero is like none
    return total / lengths[:, None] / lengths[None, :]
