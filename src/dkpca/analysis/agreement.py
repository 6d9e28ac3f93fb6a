"""Which party agrees with which: cosines between the parties' centered kernel matrices, from their factors.

<H A A' H, H B B' H> = |A' H B|_F^2, so that factors of rank r and s cost n r s. A party's true matrix is within e of
A A' in the Frobenius norm: what it left out is positive semidefinite with a known norm and trace, and rounding is
known by its nuclear norm. So the true matrix is turned from A A' by at most asin(e / |H A A' H|), and a cosine of two
of them changes by no more than both angles together allow.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.fusion.fused_model import FusedModel, basis_of
from dkpca.linalg.arrays import Array, to_numpy
from dkpca.linalg.precision import as_received, centered_factor, inner_product
from dkpca.linalg.rows import Matrix, off
from dkpca.messages import Summary

SAMPLED = 1000  # samples that a permutation test looks at: a random subset is as valid, and quick


def missing(model: FusedModel, protect: str) -> str | None:
    """Say why there is no agreement to speak of; None if there is."""
    if protect == "sums":
        return "under protect='sums' the center has the sum of all parties and nothing of any single one"
    return "there is one party" if len(model.summaries) < 2 else None


def agreement(model: FusedModel) -> tuple[Matrix, Matrix]:
    """Cosines between the parties' centered kernel matrices, and how far the true ones may be from them."""
    factors, sizes = _factors(model)
    names = tuple(factors)
    norms = [math.sqrt(inner_product(A, A)) for A in factors.values()]
    turned = [_turned(model.summaries[name], norm, sizes[name]) for name, norm in zip(names, norms, strict=True)]
    cosines, errors = np.eye(len(names)), np.zeros((len(names), len(names)))
    for i, j in combinations(range(len(names)), 2):
        both = norms[i] * norms[j]
        cosine = min(1.0, inner_product(factors[names[i]], factors[names[j]]) / both) if both > 0 else 0.0
        cosines[i, j] = cosines[j, i] = cosine
        errors[i, j] = errors[j, i] = _moved(cosine, turned[i] + turned[j])
    return cosines, errors


def unrelated(model: FusedModel, n_permutations: int, seed: int) -> dict[str, float]:
    """P-value, by party, of "this party has nothing to do with the others"; corrected over parties by Holm."""
    if model.is_blind:
        raise InputError("rows of a blind fit are not samples and cannot be permuted; fit with protect='none'")
    rng = np.random.default_rng([seed, model.n_samples])
    rows = np.sort(rng.permutation(model.n_samples)[:SAMPLED])
    own = {name: np.asarray(to_numpy(A), dtype=float)[rows] for name, A in _factors(model)[0].items()}
    strata = np.zeros(len(rows), dtype=int) if model.covariates is None else to_numpy(model.covariates.strata)[rows]
    found = [p_value(own, name, strata, n_permutations, rng) for name in own]
    return dict(zip(own, holm(found), strict=True))


def p_value(
    factors: Mapping[str, Matrix], party: str, strata: Any, n_permutations: int, rng: np.random.Generator
) -> float:
    """P-value of one party by itself; the statistic is the sum of its cosines with the others."""
    # With |A_j'A_j|_F = 1 the sum of cosines is |A'[B_1 B_2 ...]|_F^2. A permutation of the rows of A, within groups
    # that have the same covariate categories, keeps its own kernel and breaks what it shares with the others.
    factors = {name: A - A.mean(axis=0) for name, A in factors.items()}
    units = {name: A / math.sqrt(max(float(np.linalg.norm(A.T @ A)), 1e-300)) for name, A in factors.items()}
    A, others = units[party], np.hstack([B for other, B in units.items() if other != party])
    groups, order = [np.flatnonzero(strata == value) for value in np.unique(strata)], np.arange(len(A))
    seen, at_least = float(np.sum((A.T @ others) ** 2)), 1
    for _ in range(n_permutations):
        for group in groups:
            order[group] = rng.permutation(group)
        at_least += float(np.sum((A[order].T @ others) ** 2)) >= seen * (1 - 1e-12)
    return at_least / (n_permutations + 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values corrected for their number, by Holm's step-down rule."""
    # p_(i) (m - i + 1) in ascending order, each at least as large as those before it.
    order = np.argsort(p_values, kind="stable")
    stepped = np.asarray(p_values)[order] * np.arange(len(p_values), 0, -1)
    return [float(p) for p in np.minimum(np.maximum.accumulate(stepped), 1.0)[np.argsort(order)]]


def _factors(model: FusedModel) -> tuple[dict[str, Array], dict[str, float]]:
    """Factors over their sizes, centered and off the covariates (a blind fit has centered its own); and the sizes."""
    Q, found, sizes = basis_of(model.covariates, model.n_samples, model.eigenvalues), {}, {}
    for name, summary in model.summaries.items():
        A, sizes[name] = centered_factor(as_received(summary.factor, model.dtype), model.is_blind)
        found[name] = A if Q is None else off(Q, A)
    return found, sizes


def _turned(summary: Summary, norm: float, size: float) -> float:
    """Largest angle between what a party sent and its true matrix; `norm` is that of its factor over this size."""
    # |K - B B'|_F <= sqrt(norm trace) of what is left out, + rounding; sin(angle) <= |K - B B'|_F / |B B'|_F.
    trace = max(0.0, summary.trace_left_out) + summary.rounding_nuclear
    error = (math.sqrt(summary.left_out_norm) * math.sqrt(trace) + summary.rounding_nuclear) / size / size
    return math.asin(error / norm) if error < norm else math.pi / 2


def _moved(cosine: float, angle: float) -> float:
    """Most by which a cosine can change when its vectors turn by an angle; none between such matrices is below 0."""
    # cos(b - a) and cos(b + a) for the angle b between them: the largest and the smallest cosine there can be.
    between = math.acos(cosine)
    largest, smallest = math.cos(max(0.0, between - angle)), max(0.0, math.cos(min(math.pi, between + angle)))
    return max(largest - cosine, cosine - smallest)
