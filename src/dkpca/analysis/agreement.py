"""Which party agrees with which: cosines between the parties' centered kernel matrices, from their factors.

<H A A' H, H B B' H> = |A' H B|_F^2, so that factors of rank r and s cost n r s. A party's true matrix is within e of
A A' in the Frobenius norm: what it left out is positive semidefinite with a known norm and trace, and rounding is
known by its nuclear norm. So the true matrix is turned from A A' by at most asin(e / |H A A' H|), and a cosine of two
of them changes by no more than both angles together allow.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.fusion.fused_model import FusedModel, basis_of
from dkpca.linalg.arrays import Array, namespace, to_numpy
from dkpca.linalg.precision import as_received, ordinary_size, whole
from dkpca.linalg.rows import cross, off
from dkpca.messages import Summary

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
SAMPLED = 1000  # samples that a permutation test looks at: a random subset is as valid, and quick
PERMUTATIONS = 999


@dataclass(frozen=True)
class KernelAgreement:
    """Cosines between the parties' centered kernel matrices, and how far the true ones may be from them."""

    parties: tuple[str, ...]
    cosines: Matrix  # (n_parties, n_parties)
    errors: Matrix  # (n_parties, n_parties): bounds


def missing(model: FusedModel, protect: str) -> str | None:
    """Say why there is no agreement to speak of; None if there is."""
    if protect == "sums":
        return "under protect='sums' the center has the sum of all parties and nothing of any single one"
    return "there is one party" if len(model.summaries) < 2 else None


def agreement(model: FusedModel) -> KernelAgreement:
    """Cosines between all pairs of parties, with a bound for each."""
    # <K_i, K_j>_F = |A_i'A_j|_F^2 for K_i = A_i A_i', so that no n x n matrix is needed.
    factors, sizes = _factors(model)
    names = tuple(factors)
    products = {
        (i, j): float(namespace(C := cross(factors[i], factors[j])).sum(C * C))
        for position, i in enumerate(names)
        for j in names[position:]
    }
    norms = {name: math.sqrt(products[name, name]) for name in names}
    turned = {name: _turned(model.summaries[name], norms[name], sizes[name]) for name in names}
    cosines, errors = np.eye(len(names)), np.zeros((len(names), len(names)))
    for (i, j), product in products.items():
        a, b = names.index(i), names.index(j)
        if a == b:
            continue
        cosine = min(1.0, product / (norms[i] * norms[j])) if norms[i] * norms[j] > 0 else 0.0
        cosines[a, b] = cosines[b, a] = cosine
        errors[a, b] = errors[b, a] = _moved(cosine, turned[i] + turned[j])
    return KernelAgreement(names, cosines, errors)


def unrelated(model: FusedModel, *, n_permutations: int = PERMUTATIONS, seed: int = 0) -> dict[str, float]:
    """P-value, by party, of "this party has nothing to do with the others"; corrected over parties by Holm.

    The party's samples are permuted, within groups of samples that have the same covariate categories.
    """
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
    # <K_i, K_j>_F = |A_i'A_j|_F^2, so with |A_j'A_j|_F = 1 the sum of cosines is |A'[B_1 B_2 ...]|_F^2; a permutation
    # of the rows of A keeps its own kernel and breaks what it shares with the others.
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
    corrected = np.empty(len(p_values))
    corrected[order] = np.minimum(np.maximum.accumulate(stepped), 1.0)
    return corrected.tolist()


def _factors(model: FusedModel) -> tuple[dict[str, Array], dict[str, float]]:
    """Factors over their sizes, centered and off the covariates (a blind fit has centered its own); and the sizes."""
    Q, found = basis_of(model.covariates, model.n_samples, model.eigenvalues), {}
    sent = {name: whole(as_received(summary.factor, model.dtype)) for name, summary in model.summaries.items()}
    sizes = {name: ordinary_size(A) for name, A in sent.items()}
    for name, A in sent.items():
        A = A / sizes[name]
        A = A if model.is_blind else A - namespace(A).mean(A, axis=0, keepdims=True)
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
    return max(
        math.cos(max(0.0, between - angle)) - cosine, cosine - max(0.0, math.cos(min(math.pi, between + angle)))
    )
