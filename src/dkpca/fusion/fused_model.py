"""What the fusion center computes: the components, and their certificate. It sees messages, never columns."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkpca.certificate import Certificate
from dkpca.certificate.estimate import component_errors
from dkpca.certificate.proof import PartyError, certify, parts_of
from dkpca.errors import InputError
from dkpca.fusion import completion
from dkpca.fusion.completion import Lacking
from dkpca.fusion.covariates import Covariates
from dkpca.fusion.plausibility import accept, check_certificate, check_same, check_turned
from dkpca.kernels import Kernel
from dkpca.kernels.base import Weights, combination, party_weights
from dkpca.kernels.grams import FusedGram
from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import Array, MemoryLimit, dtype_name, like, namespace, to_numpy
from dkpca.linalg.eigenpairs import Extension, Nearby
from dkpca.linalg.gram import Centered
from dkpca.linalg.leading import Solver, leading
from dkpca.linalg.precision import Factor, as_received, round_to, whole
from dkpca.linalg.rows import threads_of_our_own
from dkpca.messages import Scores, Summary

LANDMARKS = 500  # of the center, unless it is told otherwise
FIRST = 32  # components looked at first, twice as many each time they are too few
ZERO = 1e-12  # of the largest eigenvalue, as in KernelPCA


@dataclass(frozen=True)
class FusionSettings:
    """Parameters of `fuse`, stored with the model."""

    center: bool = True
    solver: str | Solver = "auto"
    n_landmarks: int = LANDMARKS
    random_state: int = 0
    dtype: str = "float64"
    law: str | None = None  # None: as the parties' kernels imply
    weights: Weights = None


@dataclass(frozen=True)
class FusedModel:
    """Kernel principal components of the joined table, and what is needed to place new samples.

    Attributes
    ----------
    summaries : mapping of str to Summary
        The messages that were fused, by party; with all rows, if parties lack some.
    weights : mapping of str to float
        Factor by which each party's matrix was multiplied.
    meaning, solver : str
        Which kernel was fused; which solver was used, what it did, and why it was chosen.
    eigenvectors, eigenvalues, explained_variance_ratio : array
        Orthonormal columns, (n_samples, n_components); descending; shares of the trace as centered and projected.
    certificate, settings : Certificate, FusionSettings
        Proven bounds and estimates; parameters of the fusion.
    extension, nearby : Extension, Nearby
        Scores of a new sample from its fused kernel row; eigenpairs after the components, used for estimates.
    lacking, covariates : Lacking, Covariates, optional
        Messages of parties with missing samples, as they were sent; covariates that were projected out.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> summary, _ = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=2)
    >>> dkpca.fuse([summary], n_components=2).scores.shape
    (50, 2)
    """

    summaries: Mapping[str, Summary]
    weights: Mapping[str, float]
    meaning: str
    solver: str
    eigenvectors: Array
    eigenvalues: Array
    explained_variance_ratio: Array
    certificate: Certificate
    extension: Extension
    settings: FusionSettings
    nearby: Nearby | None = None
    lacking: Lacking | None = None
    covariates: Covariates | None = None

    @property
    def received(self) -> Mapping[str, Summary]:
        """The messages as the parties sent them."""
        return self.summaries if self.lacking is None else self.lacking.sent

    @property
    def kernels(self) -> dict[str, Kernel]:
        """Kernel of each party."""
        return {name: summary.kernel for name, summary in self.summaries.items()}

    @property
    def kernel(self) -> Kernel:
        """Kernel of all parties; if they differ, that of the first party."""
        return next(iter(self.summaries.values())).kernel

    @property
    def n_samples(self) -> int:
        """Number of training samples."""
        return next(iter(self.summaries.values())).n_samples

    @property
    def law(self) -> Law:
        """How the parties' matrices combine."""
        return combination(self.kernels, self.settings.law).law

    @property
    def n_components(self) -> int:
        """Number of components."""
        return int(self.eigenvalues.shape[0])

    @property
    def is_blind(self) -> bool:
        """Whether the parties rotated the factors so that only they can identify samples."""
        return any(summary.turned for summary in self.summaries.values())

    @property
    def dtype(self) -> str:
        """Precision in which the center computes."""
        return dtype_name(self.eigenvalues)

    @property
    def scores(self) -> Array:
        """Scores of the training samples, (n_samples, n_components)."""
        return self.eigenvectors * namespace(self.eigenvalues).sqrt(self.eigenvalues)[None, :]


@threads_of_our_own()
def fuse(
    summaries: Iterable[Summary],
    *,
    n_components: int,
    roster: Sequence[str] | None = None,
    places: Mapping[str, Sequence[int]] | None = None,  # of a party's samples among all; None: all have all
    lacking: str = "complete",  # or "mean": how missing rows of a party are filled in
    samples: str = "",  # digest of all samples in their order, if some are missing at a party
    device: str | None = None,
    covariates: Covariates | None = None,  # of all samples: projected out of the fused matrix
    memory: MemoryLimit | None = None,  # for arrays with one row per sample
    **settings: Any,  # fields of FusionSettings
) -> FusedModel:
    """Turn the parties' summaries into kernel principal components, eq. (2) and (4); see `dkpca.fuse`."""
    how = FusionSettings(**settings)
    law = how.law
    # Accept: one possible message from each party of the roster, about the same samples.
    accepted, lacked = accept(summaries, roster, aligned=places is None, device=device), None
    bounds: dict[str, Array] = {}
    if places is not None:
        accepted, bounds, lacked = completion.completed(
            accepted, places, mode=lacking, dtype=how.dtype, seed=how.random_state, samples=samples
        )
    if law is None and how.weights is None:
        advice = "use one kernel and one gamma everywhere, or say with law= how different ones combine"
        check_same(accepted, "kernel", lambda summary: summary.kernel, advice)
    check_turned(accepted, how.center, law)
    n_samples = next(iter(accepted.values())).n_samples
    if not 1 <= n_components <= n_samples:
        raise InputError(
            f"n_components is {n_components}; there are {n_samples} samples, so ask for 1 to {n_samples}"
        )

    # Combine: the fused matrix is the product, entry by entry, or the sum of the parties' A A'; eq. (4) and (2).
    combined = combination({name: summary.kernel for name, summary in accepted.items()}, law)
    factors = {name: _factor(summary, how.dtype) for name, summary in accepted.items()}
    weighted = party_weights(how.weights, factors, combined.law, centered=next(iter(accepted.values())).turned)
    errors = [PartyError.of(s, factors[name], weighted[name], bounds.get(name)) for name, s in accepted.items()]
    # Nothing is stored: the solver asks for entries, and kernels/laws.py multiplies or adds them then.
    fused_gram = FusedGram(combined.law, parts_of(errors, combined.law), memory=memory)

    # Center with H = I - 11'/n, project out covariates, if any, and find the leading eigenpairs of H K H.
    Q = basis_of(covariates, fused_gram.n, fused_gram.home)
    turned = 0.0 if covariates is None else covariates.rounding
    gram = Centered(fused_gram, Q, mean=how.center, turned=turned) if how.center or Q is not None else fused_gram
    seed, landmarks = how.random_state, how.n_landmarks
    pairs = leading(gram, n_components, solver=how.solver, n_landmarks=landmarks, random_state=seed, device=device)

    # Certify: how far these are from the eigenpairs of the true matrix, from what the parties left out and rounded.
    certificate = replace(
        certify(errors, fused_gram, pairs, gram.inside),
        component_error_estimates=component_errors(errors, fused_gram, pairs, seed=seed, device=device, Q=Q),
        meaning=combined.meaning,
        completed=None if lacked is None else lacked.described(),
    )
    check_certificate(certificate, accepted)
    share = pairs.taken_trace / ((pairs.taken_trace + pairs.trace) or 1.0)  # that covariates removed
    return FusedModel(
        summaries=accepted,
        weights=weighted,
        meaning=combined.meaning,
        solver=pairs.solver,
        eigenvectors=pairs.vectors,
        eigenvalues=pairs.values,
        explained_variance_ratio=pairs.values / (pairs.trace if pairs.trace > 0 else 1.0),
        certificate=certificate,
        extension=pairs.extension,
        settings=how,
        nearby=pairs.nearby,
        lacking=lacked,
        covariates=None if covariates is None else replace(covariates, share=share),
    )


def fused(wanted: int | float | None, fuse: Callable[[int], FusedModel]) -> FusedModel:
    """Fuse with the requested number of components or share of variance; `fuse(n)` returns the model with n."""
    # A given number needs one fusion; for a share of variance, the number is doubled until the share is reached.
    if wanted is not None and wanted >= 1:
        return fuse(int(wanted))
    model, tried = fuse(1), 1
    most = model.n_samples  # components there can be: as many as samples, or landmarks
    most = min(most, model.settings.n_landmarks) if model.solver.startswith("landmark") else most
    while True:
        # Components above rounding, as KernelPCA drops them; of these the first whose variances add up to the share.
        values, shares = to_numpy(model.eigenvalues), np.cumsum(to_numpy(model.explained_variance_ratio))
        count = max(1, int((values > ZERO * values[0]).sum()))
        if wanted is not None and (shares >= wanted).any():
            count = min(count, int((shares >= wanted).argmax()) + 1)
        if count < tried or tried == most:
            return model if count == tried else fuse(count)
        tried = min(max(FIRST, 2 * tried), most)
        model = fuse(tried)


def basis_of(covariates: Covariates | None, n_samples: int, reference: Array) -> Array | None:
    """Orthonormal columns to project out of the fused matrix, in addition to its mean, where another array is."""
    if covariates is None:
        return None
    if covariates.basis.shape[0] != n_samples:
        raise InputError(f"there are covariates for {covariates.basis.shape[0]} samples, not for {n_samples}")
    return like(to_numpy(covariates.basis), reference)


def _factor(summary: Summary, dtype: str) -> Factor:
    """Factor as received; the columns of a turned one are a mixture, and are made orthogonal again."""
    A = as_received(summary.factor, dtype)
    if not summary.turned:
        return A
    # A R with A'A = R diag(lambda) R': columns are orthogonal again, the longest first, and A A' does not change.
    A = whole(A)
    return A @ namespace(A).flip(namespace(A).linalg.eigh(A.T @ A)[1], axis=1)


def result(model: FusedModel, scores: Array, sample_digest: str) -> Scores:
    """Return the result for the parties: scores of the samples, and the share of variance that they capture."""
    return Scores(
        n_parties=len(model.summaries),
        kernel=model.kernel if len(set(model.kernels.values())) == 1 else None,
        sample_digest=sample_digest,
        scores=round_to(to_numpy(scores), "float64"),
        captured_share_at_least=min(1.0, max(0.0, model.certificate.captured_share_at_least)),
        optimality_at_least=min(1.0, max(0.0, model.certificate.optimality_at_least)),
        meaning=model.meaning,
    )
