"""A fit whose rows stay on the workers of a cluster: which sums are asked for, and what follows from them.

Five passes over the rows: means; the farthest row and a sample; each party's matrix at its landmarks; the fused one
at its own; the eigenvectors. Factors are made anew from the rows in each pass, so that nothing of their size is kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dkpca.certificate import Certificate
from dkpca.certificate.estimate import ROWS, Limits, from_images, kept_shares, stated_rounding, without_last
from dkpca.certificate.proof import OverRows, certify
from dkpca.errors import InputError
from dkpca.exchange import on_dask, protocols, row_sums
from dkpca.exchange.on_dask import Chunks, shared, task
from dkpca.exchange.row_parties import Drawn, RowParty, by_chunk, deviations, lengths, measuring, party
from dkpca.exchange.row_sums import Center, CenterSums, ColumnSums, Looked, VectorSums
from dkpca.kernels import RBF, Kernel, Linear
from dkpca.kernels.combination import Combination, combination
from dkpca.kernels.grams import FusedGram
from dkpca.kernels.laws import PRODUCT, SUM
from dkpca.linalg import by_rows, landmark, perturbation
from dkpca.linalg.by_rows import Features, Pairs, Whole
from dkpca.linalg.eigenpairs import Eigenpairs, Extension, inverse_roots
from dkpca.linalg.rounding import growth, unit
from dkpca.linalg.rows import Part, current
from dkpca.messages import Statistics
from dkpca.party.state import PartyState
from dkpca.settings import Fit

Matrix = np.ndarray[Any, Any]
PRECISIONS = ("float32", "float64")
PASSES = 5


@dataclass(frozen=True)
class Fitted:
    """What a fit on rows that stay elsewhere gives."""

    states: dict[str, PartyState]
    center: Center
    eigenvalues: Matrix
    explained_variance_ratio: Matrix
    certificate: Certificate
    solver: str


@dataclass(frozen=True)
class _Measured:
    """Parties whose columns have been added up, as far as the width of a kernel needs them."""

    sums: Mapping[str, ColumnSums]
    scales: Mapping[str, Matrix | None]

    def kernels(self, asked: Fit) -> dict[str, Kernel]:
        """Kernel of each party; its width comes from the sums."""
        names = list(self.sums)
        n = next(iter(self.sums.values())).n
        common = protocols.Common(n, "0" * 64, {name: len(each.squares) for name, each in self.sums.items()})
        protocol = protocols.kernels_of(names, asked, protocols.Terms(""), common)
        answers: Any = None
        while True:
            try:
                protocol.send(answers)
            except StopIteration as end:
                chosen: dict[str, Kernel] = end.value
                return chosen
            answers = {name: self._statistics(name) for name in names}

    def _statistics(self, name: str) -> Statistics:
        sums, scale = self.sums[name], self.scales[name]
        squares = sums.squares if scale is None else sums.squares / scale**2
        return Statistics(name, sums.n, len(squares), mean_squared_distance=2.0 * float(squares.sum()) / (sums.n - 1))


def fit(
    chunks: Chunks, asked: Fit, *, standardize: bool, n_landmarks: int, n_components: int, random_state: int
) -> Fitted:
    """Fit on the rows of all parties."""
    _check(asked)
    n = sum(chunks.sizes)
    if n_components > n:
        raise InputError(f"n_components is {n_components}, but there are {n} samples; ask for {n} at most")
    sums = {name: by_chunk(chunks, name, row_sums.column_sums) for name in chunks.blocks}
    _done(1)
    scales = {name: deviations(each) if standardize else None for name, each in sums.items()}
    kernels = _Measured(sums, scales).kernels(asked)
    combined = _combined(kernels, asked.law)
    drawn = _drawn(n, max(landmark.SAMPLE, landmark.SAMPLE_SHARE * n_landmarks), random_state)
    parties = {
        name: party(
            chunks,
            measuring(name, kernel, sums[name], scales[name], asked.precision),
            asked.rank_rule,
            drawn,
            random_state,
        )
        for name, kernel in kernels.items()
    }
    _done(3)
    return _fused(chunks, parties, combined, asked.center, drawn, n_components, n_landmarks, random_state)


def scores(chunks: Chunks, fitted: Fitted) -> Any:
    """Return the scores of all samples, as a Dask array of the same chunks."""
    center, states = shared(fitted.center), {name: shared(state) for name, state in fitted.states.items()}
    parts = [task(row_sums.scores, center, _factors(chunks, states, number)) for number in range(len(chunks.sizes))]
    return on_dask.as_array(parts, chunks.sizes, len(fitted.eigenvalues))


def scores_here(tables: Mapping[str, Matrix], fitted: Fitted) -> Matrix:
    """Return the scores of samples that are here."""
    factors = [row_sums.factor_rows(name, state, tables[name]) for name, state in fitted.states.items()]
    return row_sums.scores(fitted.center, factors)


def _check(asked: Fit) -> None:
    """Refuse what cannot be had without gathering rows."""
    if asked.precision not in PRECISIONS:
        raise InputError(f"rows on a Dask cluster are in float32 or float64, not precision={asked.precision!r}")
    if asked.weights is not None:
        raise InputError("weights are not for rows on a Dask cluster; scale the columns, or give gamma by party")
    if any(part.measured() or part.limits for part in asked.rank_rule.parts()):
        raise InputError(
            f"{asked.rank_rule!r} is measured on a message, and rows on a Dask cluster make none; give rank as a "
            "number or 'auto'"
        )
    if asked.solver not in ("auto", "landmark"):
        raise InputError(
            f"solver={asked.solver!r} compares all samples with all; for rows on a Dask cluster use 'landmark' or "
            "'auto', or gather a part of the rows with X[:n].compute()"
        )


def _combined(kernels: Mapping[str, Kernel], law: str | None) -> Combination:
    found = combination(kernels, law)
    kinds = {type(kernel) for kernel in kernels.values()}
    if not ((kinds == {RBF} and found.law is PRODUCT) or (kinds == {Linear} and found.law is SUM)):
        named = sorted({kernel.name for kernel in kernels.values()})
        raise InputError(
            "rows stay on a Dask cluster for kernel='rbf' with the product law and kernel='linear' with the sum law "
            f"only, not for {named} with the {found.law.name} law; gather the tables with X.compute(), or use the "
            "dkpca command with --max-memory"
        )
    return found


def _done(passes: int) -> None:
    current()("rows", passes / PASSES)


def _drawn(n: int, most: int, random_state: int) -> Drawn:
    """Draw a sample, one row from each of equal shares of all, and a few others."""
    rng = np.random.default_rng([random_state, n])
    shares = ((np.arange(most) + rng.random(most)) * (n / most)).astype(np.int64)
    few = np.sort(rng.choice(n, min(n, ROWS), replace=False))
    return Drawn(np.unique(shares) if n > most else np.arange(n), few)


def _factors(chunks: Chunks, states: Mapping[str, Any], number: int) -> list[Any]:
    """Rows of all factors in one chunk, each made where the party's rows are."""
    return [task(row_sums.factor_rows, name, state, chunks.blocks[name][number]) for name, state in states.items()]


def _fused(
    chunks: Chunks,
    parties: Mapping[str, RowParty],
    combined: Combination,
    centered: bool,
    drawn: Drawn,
    n_components: int,
    n_landmarks: int,
    random_state: int,
) -> Fitted:
    """Fuse, certify and estimate."""
    law, n, members = combined.law, sum(chunks.sizes), list(parties.values())
    order = np.argsort([member.left_out for member in members], kind="stable").tolist()
    features, center = _features(chunks, members, combined, max(n_landmarks, n_components), random_state)
    states = {name: shared(member.state) for name, member in parties.items()}
    known = [shared(each) for each in (center, features, order, law is PRODUCT, centered)]
    sums: CenterSums = chunks.reduced(
        lambda number: task(row_sums.center_sums, *known, _factors(chunks, states, number))
    )
    _done(4)
    found = _pairs(chunks, members, combined, features, sums, n_components, centered=centered)
    errors = [member.error(sent, n) for member, sent in zip(members, sums.sent, strict=True)]
    sizes, few = [lengths(sent) for sent in sums.sent], [m.factor(m.few) for m in members]
    found, images, at = _eigenvectors(chunks, states, center, found, few, kept_shares(errors, sizes))
    ordered = [errors[j] for j in order]
    total = sums.true_diagonal if law is PRODUCT else float(sum(e.trace for e in errors))
    over_rows = OverRows(n, tuple(sums.amplified.tolist()), total)
    words = _words(features, members, chunks, combined)
    certificate = certify(
        ordered,
        law=law,
        pairs=_as_pairs(found, words),
        fused_trace=sums.trace,
        meaning=combined.meaning,
        centered=centered,
        over_rows=over_rows,
    )
    limits = Limits.of(errors, law, sizes, few, None, at, at, n)
    limits = replace(limits, everywhere=stated_rounding(errors, law, few, at) + limits.everywhere)
    estimated = from_images(images[0], images[1], at, n, limits, n == len(drawn.few))
    return Fitted(
        {name: member.state for name, member in parties.items()},
        replace(center, weights=found.weights, offset=found.offset),
        found.values,
        found.values / (found.trace if found.trace > 0 else 1.0),
        replace(certificate, component_error_estimates=estimated),
        words,
    )


def _features(
    chunks: Chunks, members: Sequence[RowParty], combined: Combination, n_landmarks: int, random_state: int
) -> tuple[Features, Center]:
    """Landmarks of the fused matrix; a sum needs none, since the factors side by side are all there is."""
    if combined.law is SUM:
        ranks = [member.rank for member in members]
        width = sum(ranks)
        beside = tuple(np.split(np.eye(width), np.cumsum(ranks)[:-1], axis=1))
        return Features(np.arange(width), np.eye(width), False, np.zeros(width)), Center(combined.law, beside)
    sampled = [member.factor(member.sample) for member in members]
    gram = FusedGram(combined.law, sampled)
    as_large = sum(chunks.sizes) / gram.n
    guess = Whole(chunks.sizes, as_large * gram.trace(), as_large * gram.evaluation_error())
    features = by_rows.choose(gram, guess, n_landmarks, random_state)
    return features, Center(combined.law, tuple(A[features.pivots] for A in sampled))


def _pairs(
    chunks: Chunks,
    members: Sequence[RowParty],
    combined: Combination,
    features: Features,
    sums: CenterSums,
    n_components: int,
    *,
    centered: bool,
) -> Pairs:
    """Leading pairs of the fused matrix."""
    ranks = [member.rank for member in members]
    widths = ranks if combined.law is PRODUCT else [sum(ranks)]
    roundings = combined.law.powers * sum(growth(width) + 2 for width in widths)
    whole = Whole(chunks.sizes, sums.trace, roundings * unit(sums.amplified) * sums.trace)
    if combined.law is SUM:
        return by_rows.exact_pairs(whole, sums.features, features.start, n_components, centered=centered)
    return by_rows.pairs(features, whole, sums.features, n_components, centered=centered)


def _eigenvectors(
    chunks: Chunks,
    states: Mapping[str, Any],
    center: Center,
    found: Pairs,
    few: Sequence[Matrix],
    cut: Sequence[Matrix],
) -> tuple[Pairs, list[Matrix], perturbation.Spectrum]:
    """Last pass: make eigenvectors orthonormal, fix their signs, and see what a cut of the factors does to them."""
    inverse = inverse_roots(1, found.values)
    vectors = replace(center, weights=found.weights * inverse[None, :], offset=found.offset * inverse)
    multiplied = [tuple(np.ones(A.shape[1]) for A in few), tuple(map(without_last, cut))]
    rows = [tuple(A[:, : len(m)] * m[None, :] for A, m in zip(few, each, strict=True)) for each in multiplied]
    known = [shared(each) for each in (vectors, Looked(tuple(rows), tuple(multiplied)))]
    sums: VectorSums = chunks.reduced(
        lambda number: task(row_sums.vector_sums, *known, _factors(chunks, states, number))
    )
    _done(5)
    signs = np.where(sums.extreme < 0, -1.0, 1.0)
    turned = found.turned(sums.square, signs)
    here = Part(center.columns(few), slice(0, len(few[0])))[:]
    V = (here @ turned.weights + turned.offset[None, :]) * inverse_roots(1, turned.values)[None, :]
    near = here @ turned.near_weights + turned.near_offset[None, :]
    at = perturbation.Spectrum(turned.values, V, turned.near_values, near)
    return turned, [image * signs[None, :] for image in sums.images], at


def _as_pairs(found: Pairs, words: str) -> Eigenpairs:
    """Return what the certificate needs of the pairs; their rows are elsewhere."""
    return Eigenpairs(
        values=found.values,
        vectors=np.zeros((0, len(found.values))),
        next_value=found.next_value,
        trace=found.trace,
        extension=Extension(found.weights, found.offset),
        solver=words,
        missed_trace=found.missed,
        missed_norm=found.missed,
        missed_leading=found.missed,
        residual_norm=found.residual_norm,
        residual_nuclear=found.residual_nuclear,
    )


def _words(features: Features, members: Sequence[RowParty], chunks: Chunks, combined: Combination) -> str:
    if combined.law is SUM:
        return f"dense: from products of {len(features.pivots)} columns of all factors, {chunks.words}"
    n, among = sum(chunks.sizes), len(members[0].sample)
    return f"landmark: {len(features.pivots)} of {n} samples, chosen among {among}, {chunks.words}"
