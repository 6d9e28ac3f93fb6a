"""An audit: some true rows of the kernel matrix, drawn after the summaries have arrived, say how good the answer is.

With E the true matrix minus the fused one, rows are drawn in proportion to the diagonal of E, as far as the center
knows it. A row's squared length over its probability has the mean |E|_F^2 and a largest possible value, which is what
a confidence bound needs (`dkpca.linalg.betting`). docs/certificate.md has the proofs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dkpca.certificate import Audit
from dkpca.certificate.estimate import spectrum_at
from dkpca.certificate.left_out import PartyError
from dkpca.errors import FusionError, InputError
from dkpca.fields import MOST_AUDITED
from dkpca.fusion import FusedModel
from dkpca.fusion.roster import audited_rows
from dkpca.kernels.grams import FusedGram
from dkpca.linalg.arrays import Array, device, namespace, to_numpy
from dkpca.linalg.betting import Vector, mean_at_most
from dkpca.linalg.nearfar import Matrix, turned
from dkpca.linalg.rounding import growth, unit
from dkpca.linalg.tall import rows_of, whole
from dkpca.messages import AuditRequest, AuditRows

CONFIDENCE = 0.95
WORTH = 3.0  # logarithm of 1 / 0.05: how many draws' worth of its range a bound is off at least


@dataclass(frozen=True)
class Draws:
    """Which samples are looked at, and how likely each was to be drawn."""

    samples: "np.ndarray[tuple[int], np.dtype[np.int64]]"  # (draws,)
    probabilities: Vector  # (n_samples,)
    missing: Vector  # (n_samples,) bound on the diagonal of what is missing


def request(model: FusedModel, n_rows: int, seed: int) -> AuditRequest:
    """Return the question for the parties; the seed must not be known before all summaries have arrived."""
    if not 1 <= n_rows <= MOST_AUDITED:
        raise InputError(f"an audit of {n_rows} rows; ask for 1 to {MOST_AUDITED}")
    summary = next(iter(model.summaries.values()))
    drawn = _drawn(model, _errors(model), n_rows, seed)
    samples = tuple(sorted(set(drawn.samples.tolist())))
    return AuditRequest(summary.n_samples, summary.sample_digest, seed, n_rows, samples)


def audited(model: FusedModel, asked: AuditRequest, answers: Iterable[AuditRows]) -> FusedModel:
    """Return the model with what the answers say about it in its certificate."""
    return replace(model, certificate=replace(model.certificate, audit=conclude(model, asked, answers)))


def conclude(model: FusedModel, asked: AuditRequest, answers: Iterable[AuditRows]) -> Audit:
    """Say how far the model is from the true matrix; a party that contradicts itself is named by a `FusionError`."""
    received = audited_rows(model.summaries, answers, asked.samples)
    errors = _errors(model)
    drawn = _drawn(model, errors, asked.draws, asked.seed)
    if tuple(sorted(set(drawn.samples.tolist()))) != asked.samples:
        raise FusionError("the audit was drawn for another model; ask the parties anew")
    parts = [received[name].rows.decode(model.dtype) * model.weights[name] for name in model.summaries]
    xp = namespace(*parts)
    chosen = xp.asarray(list(asked.samples), device=device(parts[0]))
    for name, error, part in zip(model.summaries, errors, parts, strict=True):
        _check_party(name, error, part, chosen)
    diagonals = [e.diagonal for e in errors]
    K = model.law.combine(parts, [xp.take(d, chosen) for d in diagonals], diagonals)
    counted = np.bincount(np.searchsorted(np.asarray(asked.samples), drawn.samples), minlength=len(asked.samples))
    return _said(model, errors, drawn, asked, K, counted)


def _said(
    model: FusedModel,
    errors: Sequence[PartyError],
    drawn: Draws,
    asked: AuditRequest,
    K: Array,
    counted: "np.ndarray[tuple[int], np.dtype[np.int64]]",
) -> Audit:
    xp = namespace(K)
    samples = np.asarray(asked.samples)
    fused = _fused(model, errors).block(xp.asarray(samples, device=device(K)), slice(None))
    V = model.eigenvectors
    V = V - xp.mean(V, axis=0, keepdims=True) if model.centered else V
    E = K - fused
    lengths = np.sqrt(to_numpy(xp.sum(E * E, axis=1)).astype(float))
    probability = drawn.probabilities[samples]
    where = np.searchsorted(samples, drawn.samples)
    proof = model.certificate
    kernel = _length_at_most(lengths, proof.kernel_error_above, drawn, where, proof.kernel_error_below)
    weights = counted / (asked.draws * probability)
    spectrum = spectrum_at(model.eigenvalues, model.eigenvectors, model.nearby, samples)
    rows = to_numpy(K @ model.eigenvectors).astype(float) - spectrum.components * spectrum.values[None, :]
    estimated = turned(rows, spectrum, weights, taken_away=False)
    return Audit(
        n_rows=asked.draws,
        seed=asked.seed,
        confidence=CONFIDENCE,
        kernel_error_at_most=kernel,
        subspace_error_at_most=_subspace(model, drawn, where, to_numpy(E @ V).astype(float)),
        component_error_estimates=tuple(np.minimum(estimated, 1.0).tolist()),
        subspace_error_trivial=proof.subspace_error_trivial,
    )


def _length_at_most(lengths: Vector, norm: float, drawn: Draws, where: Array, below: float) -> float:
    """Bound the Frobenius norm of a matrix from the lengths of the rows drawn.

    A row of a positive semidefinite matrix of norm b is at most sqrt(b times its diagonal entry) long; rounding in
    the matrix, in the rows and in the diagonal is allowed for by adding it.
    """
    most = np.sqrt(norm * drawn.missing) + 3.0 * below
    largest = float(np.max(most / np.sqrt(drawn.probabilities)))
    shares = (lengths + below)[where] / np.sqrt(drawn.probabilities[drawn.samples])
    if not largest > 0.0:
        return 0.0
    return largest * math.sqrt(mean_at_most(np.minimum((shares / largest) ** 2, 1.0), 1.0 - CONFIDENCE))


def _subspace(model: FusedModel, drawn: Draws, where: Array, EV: Matrix) -> float:
    """Bound the subspace error: sum over components of |E v|^2 over the squared distance to the rest.

    As for the kernel error, with rows of E V, each component divided by its distance. A component that cannot get a
    bound from so many draws counts as 1, which is decided before any row is looked at.
    """
    proof = model.certificate
    values = to_numpy(model.eigenvalues).astype(float)
    following = float(values[-1]) - proof.gap_at_least - proof.kernel_error_above - proof.kernel_error_below
    distance = values - following - proof.kernel_error_above
    reach = np.asarray(proof.component_losses_at_most)
    total = float(drawn.missing.sum())
    with np.errstate(divide="ignore", over="ignore"):
        hopeful = (distance > 0) & (WORTH / len(where) * total * reach < distance**2)
    if not hopeful.any():
        return math.inf
    inverse = 1.0 / distance[hopeful]
    most = math.sqrt(float(np.sum(reach[hopeful] * inverse**2)))
    rounding = proof.kernel_error_below * math.sqrt(float(np.sum(inverse**2)))
    lengths = np.sqrt(np.sum((EV[:, hopeful] * inverse[None, :]) ** 2, axis=1))
    bound = _length_at_most(lengths, most**2, drawn, where, rounding)
    solver = proof.solver_error_at_most * math.sqrt(float(np.sum(inverse**2)))
    found = (bound + solver) ** 2 + float(np.count_nonzero(~hopeful))
    return min(found, proof.subspace_error_at_most) if found < proof.subspace_error_trivial else math.inf


def _check_party(name: str, error: PartyError, rows: Array, chosen: Array) -> None:
    """Compare true rows with the factor: the difference is at most what the party said it left out."""
    xp = namespace(rows)
    difference = rows - rows_of(error.factor, chosen) @ whole(error.factor).T
    rounding = error.rounding + growth(rows.shape[1]) * unit(rows) * error.trace
    most = float(xp.max(xp.linalg.eigvalsh(_symmetric(difference @ difference.T)))) ** 0.5
    least = -float(xp.min(xp.linalg.eigvalsh(_symmetric(xp.take(difference, chosen, axis=1)))))
    for found, allowed, what in (
        (most, error.left_out + rounding, "differ from its factor by"),
        (least, rounding, "lie under its factor by"),
    ):
        if found > allowed:
            raise FusionError(
                f"party {name!r}: the rows it sent for the audit {what} {found:.3g}, more than the {allowed:.3g} "
                "that it stated; its summary or its rows were not made from the table by dkpca, or were altered"
            )


def _symmetric(A: Array) -> Array:
    return (A + A.T) / 2


def _errors(model: FusedModel) -> list[PartyError]:
    return [
        PartyError.of(s, s.factor.decode(model.dtype) * model.weights[name] ** 0.5, model.weights[name])
        for name, s in model.summaries.items()
    ]


def _fused(model: FusedModel, errors: Sequence[PartyError]) -> FusedGram:
    diagonals = [e.sent_diagonal for e in errors if e.sent_diagonal is not None] or None
    return FusedGram(model.law, [e.factor for e in errors], diagonals)


def _drawn(model: FusedModel, errors: Sequence[PartyError], n_rows: int, seed: int) -> Draws:
    """Draw samples in proportion to what may be missing in their diagonal entries."""
    gap = model.law.diagonal([e.diagonal for e in errors]) - _fused(model, errors).diagonal()
    missing = np.clip(to_numpy(gap).astype(float), 0.0, None) + model.certificate.kernel_error_below
    missing = missing + 1e-12 * max(float(missing.max()), 1e-300)
    probabilities = missing / missing.sum()
    samples = np.random.default_rng(seed).choice(len(missing), n_rows, p=probabilities)
    return Draws(samples, probabilities, missing)
