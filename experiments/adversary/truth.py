"""The true kernel matrix in long double, whose range and digits are beyond those of every number that is checked.

NumPy has no eigensolver for it, and none is needed: matrices are divided by the trace first, the difference between
the true and the fused matrix is formed in long double, and an eigenvalue of it in double is then exact to 1e-15 of
the difference itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dkpca.kernels import RBF, Kernel, Linear
from dkpca.linalg.arrays import to_numpy

Long = np.ndarray[Any, Any]
EXACT_UP_TO = 400  # samples; products of larger factors take minutes without BLAS


def true_matrix(tables: Mapping[str, Any], kernel: Kernel) -> Long:
    """Kernel matrix of the joined table, each entry exact to about 1e-18 of itself."""
    columns = [column for table in tables.values() for column in to_numpy(table).astype(np.longdouble).T]
    T = len(columns[0])
    total = np.zeros((T, T), dtype=np.longdouble)
    for x in columns:
        if isinstance(kernel, RBF):
            total += (x[:, None] - x[None, :]) ** 2
        else:
            assert isinstance(kernel, Linear)
            y = x - x.mean() if kernel.centered else x
            total += y[:, None] * y[None, :]
    return np.exp(-np.longdouble(kernel.gamma) * total) if isinstance(kernel, RBF) else total


def fused_matrix(factors: Sequence[Any], kernel: Kernel) -> Long:
    """Matrix that the factors, as they were sent, make."""
    total: Long | None = None
    for factor in factors:
        A = to_numpy(factor).astype(np.float64)
        A = A.astype(np.longdouble) if len(A) <= EXACT_UP_TO else A
        part = (A @ A.T).astype(np.longdouble)
        total = part if total is None else (total * part if isinstance(kernel, RBF) else total + part)
    assert total is not None
    return total


def centered(K: Long) -> Long:
    """Rows and columns that sum to zero."""
    means = K.mean(axis=0)
    return K - means[None, :] - means[:, None] + means.mean()
