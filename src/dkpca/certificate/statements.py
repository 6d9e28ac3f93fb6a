"""The distance between an answer and kernel PCA of the joined table: bounds and estimates, in numbers and words."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dkpca.linalg.eigenpairs import Probe
from dkpca.wording import counted, good_digits, in_percent

PREDICTED = 0.5  # held-out R^2; below it, completed rows are unreliable
GREEN_SHARE, GREEN_ERROR = 0.99, 0.01  # estimated: the answer can be used
RED_SHARE, RED_ERROR = 0.9, 0.5  # estimated: the answer cannot be used
SPECTRUM = ("eigenvalues_at_least", "eigenvalues_at_most", "gaps_at_least")
# Properties that `to_dict` adds to the fields.
DERIVED = (
    *("kernel_norm_bound", "gap_at_least", "captured_share_at_least", "optimality_at_least"),
    *("subspace_error_estimate", "optimality_estimate", "color"),
)
SEARCHED = (
    "Upper bounds on eigenvalues, the share of the best variance, the subspace bound and Theorem 1 rest on a random "
    "search at the center that found no missed eigenvector"
)
FOUND = "; one with {:.2g} times the next eigenvalue would have been found with a probability of {:.4%}"
BETTER = "For a better answer, use a higher rank, fewer components, more landmarks, or higher precision."
FARTHER = 2.0  # factor on the loss for directions beyond the first one after the components


def proved(optimality: float, captured: float, also: str = "") -> str:
    """Return what is proved of the components' shares of the best possible variance and of all variance."""
    if not captured > 0:
        return "The proof gives no useful bound."
    of_all = f"{in_percent(captured)} of all variance{also and ', '}{also}"
    return f"Proved: at least {in_percent(optimality)} of the best possible variance and {of_all}."


@dataclass(frozen=True)
class Audit:
    """A bound and an estimate from some true rows of the kernel matrix."""

    n_rows: int  # drawn
    seed: int  # of the draws; published after the summaries had arrived
    confidence: float  # probability with which the bound holds, over the draws
    kernel_error_at_most: float  # bound on the Frobenius norm of K - L, at this confidence
    component_error_estimates: tuple[float, ...]  # squared sine of each angle to the true leading subspace, estimated

    @property
    def subspace_error_estimate(self) -> float:
        """Estimate of D - |V' V_hat|_F^2; 2.5 times this covers the truth in most draws. No proof."""
        return sum(self.component_error_estimates)


@dataclass(frozen=True)
class Completed:
    """Rows that parties lack, and the rows used in their place."""

    mode: str  # "mean": the party's mean row; "complete": a mixture of its own rows, regressed on the other parties
    n_lacking: Mapping[str, int]  # samples that each party lacks; parties that lack none are left out
    held_out: Mapping[str, float]  # estimated R^2 by party, on rows hidden for this purpose; empty for mean rows
    norm_squared: Mapping[str, float]  # bound on |W|^2, the factor by which a party's stated errors grow

    def statements(self, n_samples: int) -> list[str]:
        """Return which table the proof covers, and separately how good the completed rows are."""
        lacking = ", ".join(f"{count:,} are missing from {name}" for name, count in self.n_lacking.items())
        what = "the party's mean row" if self.mode == "mean" else "mixtures of the party's own rows"
        proved = (
            f"Of {n_samples:,} samples, {lacking}. The proofs hold for the table with {what} in place of the missing "
            "ones, not for the true rows, which are unknown."
        )
        if not self.held_out:
            return [proved]
        shares = ", ".join(f"{name} {share:.2f}" for name, share in self.held_out.items())
        poor = [name for name, share in self.held_out.items() if share < PREDICTED]
        care = f" Do not interpret those of {', '.join(poor)}: R² is below {PREDICTED:g}." if poor else ""
        return [proved, f"Accuracy of the completed rows, estimated on held-out rows (R²): {shares}.{care}"]


@dataclass(frozen=True)
class Certificate:
    """Bounds on the difference between this answer and kernel PCA of the joined table.

    They hold if every party computed and reported as this library does; they do not detect a party that lies.
    K is the true kernel matrix, L the fused one.

    Attributes
    ----------
    n_samples, n_components, n_parties : int
        Size of the fit.
    kernel_error_above, kernel_error_below : float
        Eigenvalues of K - L are at most `above` and at least minus `below`.
    trace_gap : float
        Trace of K - L, uncentered; a bound above it for kernels whose diagonal the center does not know.
    total_variance_at_most, captured_at_least, captured_best_at_most : float
        Variance of K: all of it, what the components found capture, and what any D components can.
    eigenvalues_at_least, eigenvalues_at_most, gaps_at_least : tuple of float
        Of K: eigenvalues, and lambda_d - lambda_{d+1} for d = 1 to D; a gap of zero or less: nothing is known.
    theorem_1, subspace_error_at_most : float
        Bounds on |sin Theta|_F by Theorem 1 of the paper, and on D - |V' V_hat|_F^2; inf if the gap is too small.
    component_errors_at_most, component_error_estimates : tuple of float
        Squared sine of each component's angle to the true leading subspace: proved, and estimated without proof.
    eigenvalues, next_eigenvalue : tuple of float, float
        Eigenvalues of L: those of the components, and the next.
    audit, probe : Audit, Probe, optional
        Results of an audit; the random search on which the upper bounds rest, if the solver has no proof of its own.
    meaning, completed : str, Completed
        Which kernel K is; the rows that parties lack, if any: K then has the rows used in their place.

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
    gaps_at_least: tuple[float, ...]
    theorem_1: float
    subspace_error_at_most: float
    component_errors_at_most: tuple[float, ...]
    captured_at_least: float
    captured_best_at_most: float
    eigenvalues: tuple[float, ...]
    next_eigenvalue: float
    component_error_estimates: tuple[float, ...] = ()
    audit: Audit | None = None
    probe: Probe | None = None
    meaning: str = ""
    completed: Completed | None = None

    @property
    def kernel_norm_bound(self) -> float:
        """Bound on the spectral norm of K - L."""
        return max(self.kernel_error_above, self.kernel_error_below)

    def bounds(self) -> dict[str, float]:
        """Return all single numbers but those that are infinite if nothing is known, and sums over the spectrum."""
        sums = {name: sum(getattr(self, name)) for name in SPECTRUM}
        return sums | {
            name: value
            for name, value in vars(self).items()
            if isinstance(value, float) and name not in ("theorem_1", "subspace_error_at_most")
        }

    @property
    def subspace_error_trivial(self) -> int:
        """Largest possible subspace error."""
        return min(self.n_components, self.n_samples - self.n_components)

    @property
    def component_estimates(self) -> tuple[float, ...]:
        """Estimated squared sine per component, by the audit if there was one; never above the proven bound."""
        found = self.component_error_estimates if self.audit is None else self.audit.component_error_estimates
        return tuple(map(min, found or (1.0,) * self.n_components, self.component_errors_at_most))

    @property
    def subspace_error_estimate(self) -> float:
        """Estimate of D - |V' V_hat|_F^2, by the audit if there was one; seldom less than half of it. No proof."""
        return min(sum(self.component_estimates), self.subspace_error_at_most, float(self.subspace_error_trivial))

    @property
    def gap_at_least(self) -> float:
        """Lower bound on the true lambda_D - lambda_{D+1}; zero or less: nothing is known."""
        return self.gaps_at_least[-1]

    @property
    def captured_share_at_least(self) -> float:
        """Variance captured, as a share of all variance of the true kernel."""
        return self.captured_at_least / self.total_variance_at_most if self.total_variance_at_most > 0 else 1.0

    @property
    def optimality_at_least(self) -> float:
        """Variance captured, as a share of what the best components would capture."""
        return self.captured_at_least / self.captured_best_at_most if self.captured_best_at_most > 0 else 1.0

    @property
    def optimality_estimate(self) -> float:
        """Estimate of the variance captured, as a share of what the best components would capture. No proof.

        A component rotated by a squared sine s towards the next eigenvector loses s (lambda_i - lambda_{D+1}),
        and more if it is rotated towards later ones: twice that is seldom too little.
        """
        total = sum(self.eigenvalues)
        if not total > 0:
            return 1.0
        pairs = zip(self.component_estimates, self.eigenvalues, strict=True)
        lost = sum(s * max(0.0, v - self.next_eigenvalue) for s, v in pairs)
        return min(1.0, max(self.optimality_at_least, 1.0 - FARTHER * lost / total))

    @property
    def color(self) -> str:
        """Whether the answer can be used, by the estimates: "green", "amber" or "red"."""
        share, error = self.optimality_estimate, self.subspace_error_estimate
        if share < RED_SHARE or error >= RED_ERROR:
            return "red"
        return "green" if share >= GREEN_SHARE and error <= GREEN_ERROR else "amber"

    def to_dict(self) -> dict[str, Any]:
        """Return numbers and sentences, ready for JSON; an infinite bound is null."""
        numbers = {name: _open_ended(value) for name, value in asdict(self).items()}
        derived = {name: getattr(self, name) for name in DERIVED}
        return numbers | derived | {"verdict": self.verdict(), "statements": self.statements()}

    def verdict(self) -> str:
        """Return one sentence for everybody: whether the components can be used."""
        if not any(self.eigenvalues):
            return f"{self.color.capitalize()}: all eigenvalues are zero; there is no variance to capture."
        how = "estimated by an audit" if self.audit is not None else "estimated"
        if self.completed is not None:
            worst = min(self.completed.held_out.values(), default=None)
            how += ", for the table with replaced rows"
            how += "" if worst is None else f", whose held-out R² is {worst:.2f} or more"
        digits = good_digits(self.subspace_error_estimate)
        exact = f"correct to {counted(digits, 'digit')}" if digits else "not certain to one digit"
        return (
            f"{self.color.capitalize()}: {in_percent(self.optimality_estimate)} of the best possible variance, and a "
            f"subspace error of {self.subspace_error_estimate:.1g}, so the subspace of the components is {exact} "
            f"({how})."
        )

    def _proved(self) -> str:
        digits = good_digits(self.subspace_error_at_most)
        together = f"the subspace of the components to {counted(digits, 'digit')}"
        together = together if digits else "not one correct digit of the subspace"
        if digits and not self.captured_share_at_least > 0:
            return f"Proved: {together}."
        also = f"{'and' if digits else 'but'} {together}"
        return proved(self.optimality_at_least, self.captured_share_at_least, also)

    def short(self) -> list[str]:
        """Return a summary: the estimates, the proven bounds, and what can be done where they are weak."""
        advice = [BETTER] if self.color != "green" and any(self.eigenvalues) else []
        return [self.verdict(), self._proved(), *self._about_rows(), *advice]

    def statements(self) -> list[str]:
        """Return the certificate in plain words, with all its details."""
        D, T, probe = self.n_components, self.n_samples, self.probe
        found = "" if probe is None or math.isinf(probe.factor) else FOUND.format(probe.factor, probe.confidence)
        pairs = zip(self.eigenvalues_at_least, self.eigenvalues_at_most, strict=True)
        width = max(((high - low) / high for low, high in pairs if high > 0), default=0.0)
        return [
            self.verdict(),
            self._proved(),
            *([f"The true kernel is {self.meaning}."] if self.meaning else []),
            f"The fused kernel matrix differs from the true one by at most {self.kernel_norm_bound:.3g} in spectral "
            f"norm; its trace falls short by at most {max(0.0, self.trace_gap):.3g}.",
            f"Each of the {D} true eigenvalues lies at most {width:.1%} below its upper bound.",
            _bounded(
                "The subspace certificate", "subspace error", self.subspace_error_at_most, self.subspace_error_trivial
            ),
            _bounded("Theorem 1 of the paper", "|sin Theta|_F", self.theorem_1, math.sqrt(min(D, T - D))),
            *([] if probe is None else [f"{SEARCHED}{found}."]),
            *self._about_rows(),
        ]

    def _about_rows(self) -> list[str]:
        """What true rows proved, and what stands in place of those that are lacking."""
        completed = [] if self.completed is None else self.completed.statements(self.n_samples)
        if self.audit is None:
            return completed
        audit = f"An audit of {self.audit.n_rows} true rows (seed {self.audit.seed}) proves"
        bound = f"a kernel error of at most {self.audit.kernel_error_at_most:.3g} in the Frobenius norm"
        return [f"{audit}, at {self.audit.confidence:.0%} confidence, {bound}.", *completed]

    def __str__(self) -> str:
        return "\n".join(self.short())


def _bounded(who: str, what: str, bound: float, trivial: float) -> str:
    """Say what the bound is, or that there is none."""
    if bound < trivial:
        return f"{who} bounds the {what} by {bound:.3g} (the largest possible is {trivial:.3g})."
    return f"{who} gives no bound on the {what}: the gap after the last component is too small."


def _open_ended(value: Any) -> Any:
    """Return a number for JSON; None for an infinite bound."""
    if isinstance(value, tuple):
        return tuple(map(_open_ended, value))
    if isinstance(value, dict):
        return {name: _open_ended(each) for name, each in value.items()}
    return None if value == math.inf else value
