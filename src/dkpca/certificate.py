"""What the center can prove about its answer without seeing data.

Write K for the true global Gram matrix and L for the fused one that the center holds. Each party says how far
the factor it sent is from its own matrix: below by at most `left_out_norm`, to either side by its rounding.
From this follow two numbers with

    -below * I  <=  K - L  <=  above * I        (in the order of symmetric matrices)

and, with the trace of K known, everything else here. Centering both matrices changes none of it.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import Array, dtype_name, namespace, to_numpy
from dkpca.linalg.eigenpairs import Eigenpairs, Probe
from dkpca.linalg.rounding import growth, unit
from dkpca.messages import Summary
from dkpca.metrics import theorem_1_bound


@dataclass(frozen=True)
class Certificate:
    """Bounds on the difference between this answer and kernel PCA of the joined table.

    They hold if every party computed and reported as this library does; a party that lies is not found out.
    K is the true Gram matrix, L the fused one.

    Attributes
    ----------
    n_samples, n_components, n_parties : int
        What it is about.
    kernel_error_above : float
        The largest eigenvalue of K - L is at most this.
    kernel_error_below : float
        The smallest eigenvalue of K - L is at least minus this.
    trace_gap : float
        Trace of K - L, uncentered: exact, but for rounding, where the law is a sum or every kernel is 1 between a
        sample and itself; else a bound above it.
    total_variance_at_most : float
        Trace of the (centered) true matrix.
    eigenvalues_at_least, eigenvalues_at_most : tuple of float
        Around each true eigenvalue.
    gap_at_least : float
        Of the true lambda_D - lambda_{D+1}; zero or less: nothing known.
    theorem_1 : float
        Bound on |sin Theta|_F by Theorem 1 of the paper; inf where the gap does not allow it.
    subspace_error_at_most : float
        Bound on D - |V' V_hat|_F^2.
    captured_at_least : float
        Variance of the true kernel that the components found capture.
    captured_best_at_most : float
        Variance that any D components can capture.
    probe : Probe, optional
        On which the upper bounds rest, where the center's solver has no proof of its own.
    meaning : str
        Which kernel K is: one of the joined table, or the product or sum of the parties' kernels.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import DKPCA
    >>> X = np.random.default_rng(0).normal(size=(50, 8))
    >>> certificate = DKPCA(2, kernel="linear", parties=2, rank=4, precision="float64").fit(X).certificate_
    >>> round(certificate.optimality_at_least, 6), certificate.subspace_error_at_most < 1e-6
    (1.0, True)
    """

    n_samples: int
    n_components: int
    n_parties: int
    kernel_error_above: float
    kernel_error_below: float
    trace_gap: float
    total_variance_at_most: float
    eigenvalues_at_least: tuple[float, ...]
    eigenvalues_at_most: tuple[float, ...]
    gap_at_least: float
    theorem_1: float
    subspace_error_at_most: float
    captured_at_least: float
    captured_best_at_most: float
    probe: Probe | None = None
    meaning: str = ""

    @property
    def kernel_norm_bound(self) -> float:
        """Bound on the spectral norm of K - L."""
        return max(self.kernel_error_above, self.kernel_error_below)

    def bounds(self) -> dict[str, float]:
        """Every number in it but those that are infinite where nothing is known."""
        plain = {name: value for name, value in asdict(self).items() if isinstance(value, float)}
        open_ended = ("theorem_1", "subspace_error_at_most")
        spectrum = {
            "eigenvalues_at_least": self.eigenvalues_at_least,
            "eigenvalues_at_most": self.eigenvalues_at_most,
        }
        return {name: value for name, value in plain.items() if name not in open_ended} | {
            name: sum(values) for name, values in spectrum.items()
        }

    @property
    def subspace_error_trivial(self) -> int:
        """Largest subspace error there can be at all."""
        return min(self.n_components, self.n_samples - self.n_components)

    @property
    def captured_share_at_least(self) -> float:
        """Variance captured, as a share of all variance of the true kernel."""
        return self.captured_at_least / self.total_variance_at_most if self.total_variance_at_most > 0 else 1.0

    @property
    def optimality_at_least(self) -> float:
        """Variance captured, as a share of what the best components would capture."""
        return self.captured_at_least / self.captured_best_at_most if self.captured_best_at_most > 0 else 1.0

    def to_dict(self) -> dict[str, Any]:
        """Numbers and sentences, ready for JSON; a bound that says nothing is null."""
        numbers = {name: value if value != math.inf else None for name, value in asdict(self).items()}
        derived = {
            "kernel_norm_bound": self.kernel_norm_bound,
            "captured_share_at_least": self.captured_share_at_least,
            "optimality_at_least": self.optimality_at_least,
        }
        return numbers | derived | {"statements": self.statements()}

    def statements(self) -> list[str]:
        """Return the certificate in plain words."""
        D, T = self.n_components, self.n_samples
        return [
            *([f"The true kernel is {self.meaning}."] if self.meaning else []),
            f"The fused kernel matrix differs from the true one by at most {self.kernel_norm_bound:.3g} in spectral "
            f"norm; its trace falls short by {max(0.0, self.trace_gap):.3g} at most.",
            self._eigenvalue_words(),
            f"The {D} components capture at least {self.captured_share_at_least:.1%} of the variance of the true "
            f"kernel, and at least {self.optimality_at_least:.1%} of what the best {D} components could.",
            self._subspace_words(),
            _bounded("Theorem 1 of the paper", "|sin Theta|_F", self.theorem_1, math.sqrt(min(D, T - D))),
            *self._probe_words(),
        ]

    def __str__(self) -> str:
        return "\n".join(self.statements())

    def _eigenvalue_words(self) -> str:
        low, high = self.eigenvalues_at_least, self.eigenvalues_at_most
        if all(h == 0 for h in high):
            return "All eigenvalues asked for are zero."
        width = max(((h - v) / h for v, h in zip(low, high, strict=True) if h > 0), default=0.0)
        text = f"Each of the {len(low)} true eigenvalues lies at most {width:.1%} under its upper bound"
        return text + ("; for the smallest this says nothing." if width >= 1 else ".")

    def _probe_words(self) -> list[str]:
        """Say which of the statements rest on a random search, if any do."""
        if self.probe is None:
            return []
        seen = (
            f"; one of {self.probe.factor:.2g} times the next eigenvalue would have been found with a probability "
            f"of {self.probe.confidence:.4%}"
        )
        return [
            "Upper bounds on eigenvalues, the share of the best, the subspace certificate and Theorem 1 rest on a "
            "random search at the center that found no missed eigenvector"
            + ("." if math.isinf(self.probe.factor) else f"{seen}.")
        ]

    def _subspace_words(self) -> str:
        return _bounded(
            "The subspace certificate",
            "subspace error",
            self.subspace_error_at_most,
            self.subspace_error_trivial,
        )


@dataclass(frozen=True)
class PartyError:
    """How far what one party sent is from its true Gram matrix, both multiplied by its weight."""

    left_out: float  # largest eigenvalue that is missing
    rounding: float  # spectral norm
    nuclear: float  # the same in the nuclear norm
    trace: float  # of the true matrix
    received: Array  # (n_samples,) diagonal of what was sent
    diagonal: Array  # (n_samples,) of the true matrix, or a bound above it

    @classmethod
    def of(cls, summary: Summary, factor: Array, weight: float) -> "PartyError":
        """Read it off a message and its weighted factor."""
        xp = namespace(factor)
        received = xp.sum(factor**2, axis=1)
        left_out, rounding = weight * summary.left_out_norm, weight * summary.rounding_norm
        trace = weight * summary.trace_left_out + float(np.sum(to_numpy(received)))
        if summary.diagonal is not None:
            diagonal = weight * summary.diagonal.decode(dtype_name(factor))[:, 0]
        elif summary.kernel.unit_diagonal:
            diagonal = weight * xp.ones_like(received)
        else:
            diagonal = received + (left_out + rounding)
        return cls(left_out, rounding, weight * summary.rounding_nuclear, trace, received, diagonal)


def certify(
    summaries: Sequence[Summary],
    factors: Sequence[Array],
    *,
    law: Law,
    pairs: Eigenpairs,
    fused_trace: float,
    weights: Sequence[float] | None = None,
    meaning: str = "",
) -> Certificate:
    """Derive the certificate.

    Parameters
    ----------
    summaries, factors
        The messages, and the factors as decoded from them and weighted.
    law : Law
        How the matrices combine.
    pairs : Eigenpairs
        The components: leading eigenpairs of the (centered) fused matrix.
    fused_trace : float
        Trace of the fused matrix before centering.
    weights : sequence of float, optional
        What each party's matrix was multiplied by.
    meaning : str
        What the true matrix is a kernel of.
    """
    found = to_numpy(pairs.values).astype(float)
    T, D = summaries[0].n_samples, len(found)
    errors = sorted(map(PartyError.of, summaries, factors, weights or [1.0] * len(factors)), key=lambda e: e.left_out)
    received, true = [e.received for e in errors], [e.diagonal for e in errors]
    weighted = list(zip(law.amplification(received, true), errors, strict=True))

    below = sum(weight * e.rounding for weight, e in weighted) + pairs.residual_norm
    nuclear = sum(weight * e.nuclear for weight, e in weighted) + pairs.residual_nuclear
    tails = [weight * (e.left_out + e.rounding) for weight, e in weighted]
    total = law.total_trace([e.trace for e in errors], true)
    trace_gap = total - fused_trace
    summed = growth(T) * unit(factors[0]) * (abs(fused_trace) + abs(total))  # rounding of these traces
    # K minus the matrix that the pairs are exact for is a positive semidefinite P, of which the solver at the center
    # may have missed a part, plus rounding N. P is no larger than its trace.
    positive_trace = max(0.0, trace_gap) + summed + nuclear + pairs.missed_trace
    own_error = pairs.missed_trace + pairs.residual_norm
    above = min(sum(tails) + own_error, positive_trace + below)
    width = above + below
    fused_gap = float(found[-1]) - pairs.next_value
    captured = max(0.0, float(found.sum()) - D * below)
    # Equal eigenvalues may have changed places with the next one.
    at_most = np.maximum(found, pairs.next_value)
    return Certificate(
        n_samples=T,
        n_components=D,
        n_parties=len(summaries),
        kernel_error_above=above,
        kernel_error_below=below,
        trace_gap=trace_gap,
        total_variance_at_most=pairs.trace * (1.0 + growth(T) * unit(factors[0])) + positive_trace + nuclear,
        eigenvalues_at_least=tuple(np.maximum(found - below, 0.0).tolist()),
        eigenvalues_at_most=tuple((at_most + above).tolist()),
        gap_at_least=fused_gap - width,
        theorem_1=theorem_1_bound(
            tails,
            gap=fused_gap - width,
            dimension=law.theorem_1_dimension(T, D),
            own_error=own_error,
        ),
        subspace_error_at_most=_subspace_error_bound(fused_gap, width, positive_trace + nuclear, T, D),
        captured_at_least=captured,
        captured_best_at_most=float(at_most.sum()) + min(D * above, positive_trace + D * below),
        probe=pairs.probe,
        meaning=meaning,
    )


def _subspace_error_bound(gap: float, width: float, trace: float, n_samples: int, n_components: int) -> float:
    """Bound D - |V' V_hat|_F^2 by Davis and Kahan's sin 2 theta and sin theta theorems.

    Subtracting the middle of the interval that holds K - L moves no eigenvector and halves its norm, so
    sin(2 theta) <= width / gap for the largest angle. The off-diagonal block of a positive matrix of norm b and
    trace t has Frobenius norm at most sqrt(b t) / 2, which bounds all angles together.
    """
    angles = min(n_components, n_samples - n_components)
    if angles == 0:
        return 0.0
    if not width < gap:
        return math.inf
    by_largest = angles * math.sin(0.5 * math.asin(width / gap)) ** 2
    by_trace = (
        0.25 * (width / (gap - width)) * (trace / (gap - width))
    )  # in this order: squares may over- or underflow
    return min(by_largest, by_trace)


def _bounded(who: str, what: str, bound: float, trivial: float) -> str:
    """Sentence about a bound, or about its silence."""
    if bound < trivial:
        return f"{who} bounds the {what} by {bound:.3g} (the largest possible is {trivial:.3g})."
    return (
        f"{who} says nothing here: the gap behind the last component is too small for what was left out; "
        "a higher rank at the parties, or another number of components, can change that."
    )
