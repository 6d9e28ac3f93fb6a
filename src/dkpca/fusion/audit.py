"""An audit: some true rows of the kernel matrix, drawn after the summaries have arrived, say how good the answer is.

Rows of E, the true matrix minus the fused one, are drawn in proportion to its diagonal, as far as that is known;
docs/certificate.md has the proofs.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from dkpca.certificate import Audit
from dkpca.certificate.estimate import Positions, change, spectrum_at, turned
from dkpca.certificate.proof import PartyError, Vector, parts_of
from dkpca.errors import FusionError, InputError
from dkpca.fusion.fused_model import FusedModel, basis_of
from dkpca.fusion.plausibility import audited_rows
from dkpca.kernels.grams import FusedGram
from dkpca.linalg.arrays import Array, device, growth, namespace, to_numpy, transposed, unit
from dkpca.linalg.precision import as_received, rows_of
from dkpca.linalg.rows import in_order, strips
from dkpca.messages import MOST_AUDITED, AuditRequest, AuditRows

CONFIDENCE = 0.95
ABSURD = 1e6  # times the largest of the diagonal: beyond all rounding, and squares do not overflow yet
LARGEST_STAKE = 0.9  # below 1, so that no draw can ruin


# Waudby-Smith and Ramdas (2024), *Estimating means of bounded random variables by betting*. Whoever bets, before each
# draw, that it will be below m, with a stake that follows from the draws before, cannot expect to win if the mean is
# m or more: the wealth reaches 1 / alpha times what it was, ever, with a probability of at most alpha.


def mean_at_most(draws: Vector, alpha: float) -> float:
    """Bound on the mean of independent draws from [0, 1], false with a probability of at most alpha."""
    # Stake on each draw, from those before it: sqrt(2 log(1 / alpha) / (n variance)), about what is best for a mean
    # known to sqrt(variance / n).
    n = len(draws)
    count = np.arange(1, n + 1)
    means = (0.5 + np.cumsum(draws)) / (1 + count)
    spread = (0.25 + np.cumsum((draws - means) ** 2)) / (1 + count)
    before = np.concatenate([[0.25], spread[:-1]])
    stakes = np.minimum(np.sqrt(2.0 * math.log(1.0 / alpha) / (n * before)), LARGEST_STAKE)

    def refuted(mean: float) -> bool:
        """Whether betting on less than this mean has won so much that it is not this large."""
        return float(np.max(np.cumsum(np.log1p(stakes * (mean - draws))))) >= math.log(1.0 / alpha)

    # Wealth grows with the mean that is bet against: bisection finds the least mean that is refuted; 1 if none is.
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if refuted(middle) else (middle, high)
    return high


# The audit.


def request(model: FusedModel, n_rows: int, seed: int) -> AuditRequest:
    """Return the question for the parties; the seed must not be known before all summaries have arrived."""
    if not 1 <= n_rows <= MOST_AUDITED:
        raise InputError(f"an audit of {n_rows} rows; ask for 1 to {MOST_AUDITED}")
    summary = next(iter(model.summaries.values()))
    drawn, _, _ = _drawn(model, _errors(model), n_rows, seed)
    return AuditRequest(summary.n_samples, summary.sample_digest, seed, n_rows, _each_once(drawn))


def uniform_request(n_samples: int, sample_digest: str, n_rows: int, seed: int) -> AuditRequest:
    """Draw all samples with the same chance, so that a party can draw them again and see that nobody chose."""
    samples = _each_once(np.random.default_rng(seed).integers(n_samples, size=n_rows))
    return AuditRequest(n_samples, sample_digest, seed, n_rows, samples, uniform=True)


def _each_once(drawn: Positions) -> tuple[int, ...]:
    return tuple(sorted(set(drawn.tolist())))


def audited(model: FusedModel, asked: AuditRequest, answers: Iterable[AuditRows]) -> FusedModel:
    """Return the model with what the answers say in its certificate; a party that contradicts itself is named."""
    received = audited_rows(model.summaries, answers, asked.samples)
    errors, samples = _errors(model), np.asarray(asked.samples)
    drawn, probabilities, missing = _drawn(model, errors, asked.draws, asked.seed, uniform=asked.uniform)
    if _each_once(drawn) != asked.samples:
        raise FusionError("the audit was drawn for another model; ask the parties again")
    xp = namespace(model.eigenvectors)
    chosen = xp.asarray(list(asked.samples), device=device(model.eigenvectors))
    squares, images, *differences = _sums(model, errors, [received[n] for n in model.summaries], chosen)
    for name, error, squared in zip(model.summaries, errors, differences, strict=True):
        own = received[name].rows.columns(chosen).decode() * model.weights[name]
        factor = rows_of(error.factor, chosen)
        _check_party(name, error, squared, own - factor @ factor.T)

    # A row of a positive semidefinite matrix of norm b is at most sqrt(b times its diagonal entry) long, but for
    # rounding. |E|_F^2 is the mean of |row|^2 / probability, each at most `largest`^2: a mean of draws from [0, 1].
    lengths = np.sqrt(to_numpy(squares).astype(float)) * _largest(model.law.diagonal([e.diagonal for e in errors]))
    where, below = np.searchsorted(samples, drawn), model.certificate.kernel_error_below
    most = math.sqrt(model.certificate.kernel_error_above) * np.sqrt(missing) + 3.0 * below
    largest = float(np.max(most / np.sqrt(probabilities)))
    shares = (lengths + below)[where] / np.sqrt(probabilities[drawn])
    shares = np.divide(shares, largest, out=np.zeros_like(shares), where=largest > 0.0)
    mean = mean_at_most(np.minimum(shares**2, 1.0), 1.0 - CONFIDENCE)

    # Rows of K V - V Lambda, and of the same for what lies behind the components, say how far these are turned.
    weights = np.bincount(where, minlength=len(samples)) / (asked.draws * probabilities[samples])
    Q = basis_of(model.covariates, model.n_samples, model.eigenvalues)
    spectrum = spectrum_at(model.eigenvalues, model.eigenvectors, model.nearby, samples, Q)
    known = np.hstack([spectrum.components * spectrum.values, spectrum.near * spectrum.near_values])
    estimated = turned(change(to_numpy(images).astype(float) - known, spectrum, weights), spectrum)
    audit = Audit(asked.draws, asked.seed, CONFIDENCE, largest * math.sqrt(mean), tuple(estimated.tolist()))
    return replace(model, certificate=replace(model.certificate, audit=audit))


def _sums(model: FusedModel, errors: Sequence[PartyError], sent: Sequence[AuditRows], chosen: Array) -> list[Array]:
    """Sums over all columns of the s rows drawn, a few columns at a time; E is the true matrix K minus the fused one.

    Squared lengths of rows of E over the largest entry of K, (s,); K V and K U for what lies behind the components,
    (s, d + q); and for each party D D', (s, s), for its true rows minus those of its factor, over its largest entry.
    """
    V, weights = model.eigenvectors, [model.weights[name] for name in model.summaries]
    xp, fused = namespace(V), FusedGram(model.law, parts_of(errors, model.law))
    # In one order of memory, whatever the solver or a file left them in: the same digits after `load`.
    VU = transposed(V if model.nearby is None else xp.concat([V, model.nearby.vectors], axis=1))
    own, joint = [rows_of(e.factor, chosen) for e in errors], fused.rows(chosen)
    diagonals = [e.diagonal for e in errors]
    units, size = [_largest(e.diagonal) for e in errors], _largest(model.law.diagonal(diagonals))
    at_rows = [xp.take(d, chosen) for d in diagonals]

    def of(part: slice) -> list[Array]:
        # D_j = K_j - A_j A_j' at each party, and E = K - L for what the law makes of them, for some columns.
        rows = []
        for answer, weight, largest in zip(sent, weights, units, strict=True):
            K = answer.rows.columns(part).decode()
            if (found := float(xp.max(xp.abs(K))) * weight) > ABSURD * largest:  # |K_ij| <= max_i K_ii
                raise FusionError(
                    f"party {answer.party!r}: the rows it sent for the audit hold numbers as large as {found:.3g}; "
                    f"its diagonal is at most {largest:.3g}: they were not made by dkpca, or were altered"
                )
            rows.append(xp.astype(K, V.dtype) * weight)
        off = [K - A @ rows_of(e.factor, part).T for K, A, e in zip(rows, own, errors, strict=True)]
        K = model.law.combine(rows, at_rows, [d[part] for d in diagonals])
        E = K - model.law.recombine(A @ B.T for A, B in zip(joint, fused.rows(part), strict=True))
        off, scaled = [D / unit for D, unit in zip(off, units, strict=True)], E / size  # squares may overflow
        return [xp.sum(scaled * scaled, axis=1), K @ VU[:, part].T, *(D @ D.T for D in off)]

    parts = in_order(of, strips(fused.n, chosen.shape[0], V), V)
    return reduce(lambda total, part: [a + b for a, b in zip(total, part, strict=True)], parts)


def _check_party(name: str, error: PartyError, squared: Array, corner: Array) -> None:
    """Refuse true rows that differ from the factor by more than the party said it left out."""
    # With `squared` D D' for the difference D of all rows drawn, over its largest entry, and `corner` its columns at
    # the same samples: |D| <= |K - A A'| <= left_out + rounding, and a principal block of K - A A' is >= -rounding.
    xp, size = namespace(squared), _largest(error.diagonal)
    corner = corner / size
    rounding = error.rounding + growth(error.factor.shape[0]) * unit(squared) * error.trace
    most = max(0.0, float(xp.max(xp.linalg.eigvalsh((squared + squared.T) / 2)))) ** 0.5 * size
    least = -float(xp.min(xp.linalg.eigvalsh((corner + corner.T) / 2))) * size
    for found, allowed, what in (
        (most, error.left_out + rounding, "differ from its factor by"),
        (least, rounding, "lie under its factor by"),
    ):
        if found > allowed:
            raise FusionError(
                f"party {name!r}: the rows it sent for the audit {what} {found:.3g}, more than the {allowed:.3g} "
                "that it stated; its summary or its rows were not made from the table by dkpca, or were altered"
            )


def _largest(x: Array) -> float:
    """Largest entry, or 1 if all are zero: what is divided by it has ordinary squares."""
    return float(namespace(x).max(x)) or 1.0


def _errors(model: FusedModel) -> list[PartyError]:
    sent = model.summaries.items()
    return [PartyError.of(s, as_received(s.factor, model.dtype), model.weights[name]) for name, s in sent]


def _drawn(
    model: FusedModel, errors: Sequence[PartyError], n_rows: int, seed: int, *, uniform: bool = False
) -> tuple[Positions, Vector, Vector]:
    """Samples drawn, how likely each of all was to be drawn, and a bound on the diagonal of what is missing."""
    # diag(K) - diag(L): what may be missing of each sample, and in proportion to it how likely it is drawn.
    fused = FusedGram(model.law, parts_of(errors, model.law))
    gap = model.law.diagonal([e.diagonal for e in errors]) - fused.diagonal()
    missing = np.clip(to_numpy(gap).astype(float), 0.0, None) + model.certificate.kernel_error_below
    missing = missing + 1e-12 * max(float(missing.max()), 1e-300)
    rng, n = np.random.default_rng(seed), len(missing)
    if uniform:
        return rng.integers(n, size=n_rows), np.full(n, 1.0 / n), missing
    probabilities = missing / missing.sum()
    return rng.choice(n, n_rows, p=probabilities), probabilities, missing
