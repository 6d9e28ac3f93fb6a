"""The true kernel matrix in long double, whose range and digits are beyond those of every number that is checked.

NumPy has no eigensolver for it, and none is needed: matrices are divided by the trace first, the difference between
the true and the fused matrix is formed in long double, and an eigenvalue of it in double is then exact to 1e-15 of
the difference itself. Kernels and laws are written down again here, from their definitions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dkpca.fusion import FusedModel
from dkpca.kernels import (
    RBF,
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
DEPENDENT = 1e-8  # share of a covariate that those before it leave, to be one of its own
SHRUNK = 1e-13  # a mixture that is shorter by less was not shrunk: its row was rounded
VISIBLE = 1e-4  # of the longest row: a shorter mixture tells nothing about its shrinking in single precision
EXACT_UP_TO = 400  # samples; products of larger factors take minutes without BLAS


def true_matrix(
    tables: Mapping[str, Any],
    kernels: Mapping[str, Kernel],
    law: Law,
    mixed: Mapping[str, Long] | None = None,
    weights: Mapping[str, float] | None = None,
) -> Long:
    """Kernel matrix of all parties together, each entry exact to about 1e-18 of itself.

    Where parties lack samples, that of the table which has these mixtures. `weights` multiply the parties' matrices.
    """
    parts = [party_matrix(tables[name], kernel) for name, kernel in kernels.items()]
    if mixed:
        parts = [mixed[name] @ part @ mixed[name].T for name, part in zip(kernels, parts, strict=True)]
    if weights:
        parts = [np.longdouble(weights[name]) * part for name, part in zip(kernels, parts, strict=True)]
    return combined(parts, law, [np.diagonal(part) for part in parts])


def standardized(table: Any) -> Long:
    """Columns with mean 0 and deviation 1, from the numbers as given; one that hardly varies keeps its unit."""
    X = to_numpy(table)
    noise = 10 * np.finfo(X.dtype if X.dtype.kind == "f" else float).eps
    columns = X.astype(np.longdouble)
    start = columns[:1]
    away = columns - start  # or means of numbers far from zero would be rounded
    deviation = away.std(axis=0)
    varies = deviation > noise * np.abs(start[0] + away.mean(axis=0))
    scaled: Long = (away - away.mean(axis=0)) / np.where(varies, deviation, np.longdouble(1))
    return scaled


def mixtures(model: FusedModel) -> dict[str, Long]:
    """W of each party that the completion states, written out: every sample as a mixture of the party's own ones."""
    if model.lacking is None:
        return {}
    found = model.lacking.completion
    lacking = {name: filled.lacking for name, filled in found.filled.items()}
    before = replace(found, sweeps=found.sweeps[:-1])
    rows = (
        before.place({name: filled.factor for name, filled in found.filled.items()}, lacking) if before.sweeps else {}
    )
    written = {}
    for name, summary in model.lacking.sent.items():
        own, step = model.lacking.places[name], found.sweeps[-1][name]
        W = np.zeros((model.n_samples, len(own)), dtype=np.longdouble)
        W[own, np.arange(len(own))] = 1
        w = np.full((len(lacking[name]), len(own)), 1 / np.longdouble(len(own)))
        if rows and to_numpy(step.shrinkage).any():
            others = [to_numpy(rows[other]) / found.sizes[other] for other in sorted(rows) if other != name]
            Z = np.concatenate(others, axis=1).astype(np.longdouble) - to_numpy(step.mean).astype(np.longdouble)
            U = to_numpy(step.directions).astype(np.longdouble)
            B = Z[own] @ U
            w = w + (Z[lacking[name]] @ U) * to_numpy(step.shrinkage).astype(np.longdouble) @ (B - B.mean(axis=0)).T
        # By how much the mixture was shrunk shows in its row.
        A = to_numpy(summary.factor.decode()).astype(np.longdouble) / found.sizes[name]
        long, short = w @ A, to_numpy(found.filled[name].factor)[lacking[name]] / found.sizes[name]
        squares = (long * long).sum(axis=1)
        shrunk = np.where(squares > 0, (long * short).sum(axis=1) / np.where(squares > 0, squares, 1), 1)
        # A row as short as its rounding does not show it, and lies far inside the ball that shrinking leads to.
        hidden = np.sqrt(squares) < VISIBLE * np.sqrt((A * A).sum(axis=1).max(initial=0))
        W[lacking[name]] = w * np.where(hidden | (np.abs(shrunk - 1) < SHRUNK), 1, shrunk)[:, None]
        written[name] = W
    return written


def party_matrix(table: Any, kernel: Kernel) -> Long:
    """Kernel matrix of one party's columns."""
    columns = (table if isinstance(table, np.ndarray) else to_numpy(table)).astype(np.longdouble).T
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


def fused_matrix(
    factors: Sequence[Any], law: Law, diagonals: Sequence[Any], weights: Sequence[float] | None = None
) -> Long:
    """Matrix that the factors, as they were sent, make."""
    parts = []
    for factor in factors:
        A = to_numpy(factor).astype(np.float64)
        A = A.astype(np.longdouble) if len(A) <= EXACT_UP_TO else A
        parts.append((A @ A.T).astype(np.longdouble))
    if weights is not None:
        parts = [np.longdouble(weight) * part for weight, part in zip(weights, parts, strict=True)]
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


def adjusted(K: Long, covariates: Any) -> Long:
    """Centered, and off the span of the covariates: numbers as they are, text as indicators."""
    K = centered(K)
    basis: list[Long] = []
    for _, values in [] if covariates is None else covariates.items():
        own = [values] if values.dtype.kind == "f" else [values == value for value in sorted(set(values))]
        for column in own:
            x = np.asarray(column, dtype=np.longdouble)
            x = x - x.mean()
            length = np.sqrt(x @ x)
            for q in (*basis, *basis):
                x = x - q * (q @ x)
            if np.sqrt(x @ x) > DEPENDENT * length:
                basis.append(x / np.sqrt(x @ x))
    for q in basis:
        K = K - q[:, None] * (q @ K)
        K = K - (K @ q)[:, None] * q
    return K


def _term(kernel: Kernel, x: Long) -> Long:
    """What one column adds."""
    left, right = x[:, None], x[None, :]
    if isinstance(kernel, RBF):
        return (left - right) ** 2
    if isinstance(kernel, Laplacian):
        return np.abs(left - right)
    if isinstance(kernel, Overlap):
        return (left != right).astype(np.longdouble)
    if isinstance(kernel, ChiSquared):
        total = left + right
        return np.where(total > 0, (left - right) ** 2 / np.where(total > 0, total, 1), np.longdouble(0))
    if isinstance(kernel, Linear) and kernel.centered:
        left, right = left - x.mean(), right - x.mean()
    return left * right


def _power(total: Long, kernel: Polynomial | Power) -> Long:
    return (np.longdouble(kernel.gamma) * total + np.longdouble(kernel.coef0)) ** kernel.degree


def _over_lengths(total: Long, squares: Long) -> Long:
    lengths = np.sqrt(np.where(squares > 0, squares, np.longdouble(np.inf)))  # a sample that is zero is like none
    return total / lengths[:, None] / lengths[None, :]
