"""Every statement of a certificate against the truth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca import DKPCA
from dkpca.certificate.proof import PartyError
from dkpca.kernels import Kernel
from dkpca.kernels.base import combination
from dkpca.kernels.laws import Sum
from dkpca.linalg.arrays import growth, to_numpy, unit
from experiments.adversary import truth

AUDITED = "audited kernel error, at 95%"
ORTHONORMAL = 1e-13  # to which the directions of all components together are
ROUNDINGS = 8.0  # of the truth itself: an eigenvalue in double is exact to a few of them


@dataclass(frozen=True)
class Check:
    """One number that a bound must not fall below."""

    statement: str
    true: float
    bound: float
    measured_to: float  # how exactly the truth is known

    @property
    def broken(self) -> bool:
        """Whether the bound is false, and not only the measurement rounded."""
        return not self.true <= self.bound + self.measured_to

    @property
    def strain(self) -> float:
        """How much of the bound is used up."""
        return self.true / self.bound if self.bound > 0 and math.isfinite(self.true) else 0.0


def checks(model: DKPCA, tables: dict[str, Any], kernel: Kernel, covariates: Any = None) -> Iterator[Check]:
    """Statements of a fitted model about its table; what is at least something is turned around.

    `kernel` is what the parties were asked for, where the center holds no message of theirs.
    """
    if model.standardize and kernel.columns_are == "quantities":
        tables = {name: truth.standardized(in_memory(table)) for name, table in tables.items()}
    if model.protect != "none" or not hasattr(model.model_, "summaries"):
        yield from _without_messages(model, tables, kernel, covariates)
        return
    proof, summaries, weights = model.certificate_, model.model_.summaries, model.model_.weights
    kernels = {name: summary.kernel for name, summary in summaries.items()}
    law = combination(kernels, model.law).law
    K = truth.true_matrix(tables, kernels, law, truth.mixtures(model.model_), weights)
    sent = [s.diagonal.decode() if s.diagonal is not None else None for s in summaries.values()]
    diagonals = [to_numpy(d)[:, 0].astype(np.longdouble) for d in sent if d is not None]
    L = truth.fused_matrix([s.factor.decode() for s in summaries.values()], law, diagonals, list(weights.values()))
    size = np.trace(K)
    if not size > 0:  # a matrix of zeros, but for the rounding of the truth
        size = np.longdouble(proof.total_variance_at_most or 1)
    K, L = K / size, L / size
    reference = model.eigenvalues_
    exact = ROUNDINGS * np.finfo(float).eps
    if len(K) > truth.EXACT_UP_TO:
        exact *= math.sqrt(len(K)) * len(summaries)
    summed = 4.0 * growth(len(K)) * unit(reference)
    errors = [PartyError.of(s, s.factor.decode(), weights[name]) for name, s in summaries.items()]
    lacking = model.model_.lacking is not None
    amplified = [
        float(w.max()) for w in law.error_weights([e.received for e in errors], [e.diagonal for e in errors])
    ]
    summed += _of(sum(a * e.nuclear for a, e in zip(amplified, errors, strict=True)), size)
    gap = float(np.trace(K) - np.trace(L))
    yield Check("trace gap", gap, _of(proof.trace_gap, size) + summed, exact)
    if not lacking and (isinstance(law, Sum) or all(kernel.unit_diagonal for kernel in kernels.values())):
        yield Check("trace gap exact", abs(_of(proof.trace_gap, size) - gap), summed, exact)
    if model.center:
        own = None if covariates is None else covariates.loc[list(model.sample_ids_)]
        K, L = truth.adjusted(K, own), truth.adjusted(L, own)
    difference = np.linalg.eigvalsh((K - L).astype(float))
    yield Check("kernel above", difference[-1], _of(proof.kernel_error_above, size), exact)
    yield Check("kernel below", -difference[0], _of(proof.kernel_error_below, size), exact)
    if proof.audit is not None:
        found = float(np.linalg.norm((K - L).astype(float)))
        yield Check(AUDITED, found, _of(proof.audit.kernel_error_at_most, size), exact)
    yield from _about_components(model, K.astype(float), size, exact)


def _without_messages(model: DKPCA, tables: dict[str, Any], kernel: Kernel, covariates: Any) -> Iterator[Check]:
    """What can be compared where only the components are known: masked sums, blind fits, rows on a cluster."""
    given = {name: in_memory(table) for name, table in tables.items()}
    kernels = dict.fromkeys(given, kernel.alone() if model.law is not None and kernel.law is not None else kernel)
    if model.law is None:
        kernels = dict.fromkeys(given, kernel)
    K = truth.true_matrix(given, kernels, combination(kernels, model.law).law)
    size = np.trace(K) or np.longdouble(1)
    K = truth.adjusted(K / size, covariates) if model.center else K / size
    yield from _about_components(model, K.astype(float), size, ROUNDINGS * np.finfo(float).eps)


def in_memory(table: Any) -> Any:
    """Rows of a table, wherever they lie."""
    return table.compute() if hasattr(table, "compute") else table


def _about_components(model: DKPCA, K: np.ndarray[Any, Any], size: Any, exact: float) -> Iterator[Check]:
    values, vectors = (a[..., ::-1] for a in np.linalg.eigh(K))
    V_hat = to_numpy(in_memory(model.eigenvectors_)).astype(float)
    proof, D = model.certificate_, V_hat.shape[1]  # no more than there are
    rounded = unit(to_numpy(in_memory(model.eigenvalues_)))
    total, best = float(np.trace(K)), float(values[:D].sum())
    captured = float(np.sum(V_hat * (K @ V_hat)))
    for i in range(D):
        yield Check("eigenvalue at most", values[i], _of(proof.eigenvalues_at_most[i], size), exact)
        yield Check("eigenvalue at least", _of(proof.eigenvalues_at_least[i], size), values[i], exact)
    yield Check("total variance", total, _of(proof.total_variance_at_most, size), exact)
    yield Check("captured", _of(proof.captured_at_least, size), captured, exact)
    yield Check("best", best, _of(proof.captured_best_at_most, size), exact)
    if total > 1e3 * exact:
        yield Check("captured share", proof.captured_share_at_least, captured / total, exact / total)
        yield Check("optimality", proof.optimality_at_least, captured / best, exact / best)
    gap = float(values[D - 1] - values[D]) if len(K) > D else math.inf
    if len(K) > D:
        yield Check("gap", _of(proof.gap_at_least, size), gap, exact)
    V = vectors[:, :D]
    rest = V - V_hat @ (V_hat.T @ V)
    sine, turned = float(np.linalg.norm(rest)), math.sqrt(D) * exact * (1.0 + 1.0 / max(gap, exact))
    turned += ROUNDINGS * D * rounded + ORTHONORMAL  # the components themselves are rounded
    yield Check("subspace", sine, math.sqrt(proof.subspace_error_at_most), turned)
    yield Check("theorem 1", sine, proof.theorem_1, turned)
    outside = np.linalg.norm(V_hat - V @ (V.T @ V_hat), axis=0)
    for i, bound in enumerate(proof.component_errors_at_most):
        yield Check("component", float(outside[i]), math.sqrt(bound), turned)
    for d, bound in enumerate(proof.gaps_at_least[:-1], 1):
        yield Check("gap", _of(bound, size), values[d - 1] - values[d], exact)


def _of(number: float, size: Any) -> float:
    """Share of the trace."""
    return float(np.longdouble(number) / size)
