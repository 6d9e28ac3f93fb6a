"""How far the components probably are from the true ones, from what the center holds anyway. No proof.

Four things limit an answer, and each is estimated in its own way (docs/certificate.md): truncation, a rank that is
used up, rounding, and landmarks. `experiments.adversary.estimates` calibrates and checks them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dkpca.certificate.proof import Matrix, PartyError, Vector
from dkpca.kernels.grams import FusedGram
from dkpca.kernels.laws import Law
from dkpca.linalg.arrays import Array, like, namespace, quiet, sent_to, solver_error, to_numpy, transposed
from dkpca.linalg.eigenpairs import Eigenpairs, Nearby
from dkpca.linalg.precision import Factor, Tall, column_squares, reference_of, rows_of, scaled
from dkpca.linalg.rows import away_from, cross, kept, on_workers, pick, place_of, together

SAFETY = 1.25  # half of all estimates would be too small without it, most of them by little
ROUNDED_SAFETY = 2.5  # what rounding makes of a few near directions varies by more
LOST_SAFETY = 3.0  # where the rank is used up, and less is known
TAKEN = 0.25  # of a factor's columns, the last, that stand for those left out
MISSED = 0.1  # of the mean squared length of what landmarks at a party missed of a component
ARITHMETIC = 0.03  # of the squared bound on rounding where only arithmetic rounds: single errors mostly cancel
RELATIVE = 0.7  # of half a unit in the last place: rounding of a number of unknown mantissa, as a uniform error
MOST_SHARE = 1e300  # of an error that enters
LARGEST = 1e100  # of what rounding does, in units of the largest eigenvalue: nothing is known beyond 1
LEAST_SIZE = 1e-300  # of the largest eigenvalue, so that nothing is divided by zero
MOST_PASSED = 20_000  # samples all of which are looked at, where the solver passed over the matrix too
ROWS = 250  # looked at otherwise ...
ROUNDED = 100  # ... and of these, rounded once more
ALONG = 0.5  # of what components have outside of a factor: along the next direction
MAGNIFIED = 1024.0  # rounding to float32 is made so much larger to be seen in float32
PAIRS = 100  # rows whose pairs show how much of a party's error enters the fused matrix

Positions = np.ndarray[tuple[int], np.dtype[np.int64]]
FAR_SHARE = 0.7


# A component v with eigenvalue a turns towards another eigenvector u with eigenvalue b by about u'Ev / (a - b). Near
# directions matter most and are few: each keeps its own eigenvalue; one eigenvalue serves for all far ones. The
# matrix after the change, restricted to the components, the near directions and what E V has beyond both, is small;
# its eigenvectors are exact where the first order is not: where components mix with neighbors, or change places.


@dataclass(frozen=True)
class Spectrum:
    """Components of a matrix and what lies next to them, at some of the samples."""

    values: Vector  # (D,)
    components: Matrix  # (s, D): rows of V
    near_values: Vector  # (q,)
    near: Matrix  # (s, q): rows of the eigenvectors behind the components
    taken: Matrix  # (s, p): rows of what was taken out of the matrix, beside the mean

    @property
    def far_value(self) -> float:
        """Eigenvalue that stands for all far directions: they begin at the last of the near ones, and fall."""
        return FAR_SHARE * float(self.near_values[-1]) if len(self.near_values) else 0.0


@dataclass(frozen=True)
class Change:
    """E V in the basis of components, near directions, and the rest; all over the largest eigenvalue."""

    own: Matrix  # (D, D): V'EV
    near: Matrix  # (q, D): U'EV
    far: Matrix  # (D, D): Gram matrix of what E V has beyond both
    among: Matrix  # (q, q): U'EU, zero where it is not known

    def __add__(self, other: "Change") -> "Change":
        return Change(self.own + other.own, self.near + other.near, self.far + other.far, self.among + other.among)


def change(rows: Matrix, spectrum: Spectrum, weights: Vector, *, all_rows: bool = False) -> Change:
    """Coefficients of E V, or of E [V, U], from rows of it, each of which stands for as many as its weight says."""
    size = float(spectrum.values[0])
    D, q = len(spectrum.values), len(spectrum.near_values)
    if not size > 0.0:
        return Change(np.zeros((D, D)), np.zeros((q, D)), np.zeros((D, D)), np.zeros((q, q)))
    # Least squares of the rows on [1, Q, V, U]; what it leaves is the far part.
    rows = rows / size  # squares may vanish
    ones, first = np.ones((len(rows), 1)) / np.sqrt(weights.sum()), 1 + spectrum.taken.shape[1]
    roots = np.sqrt(weights)[:, None]
    Q, R = np.linalg.qr(np.hstack([ones, spectrum.taken, spectrum.components, spectrum.near]) * roots)
    across = Q.T @ (rows * roots)
    inverse = np.linalg.pinv(R, rcond=1e-8)
    found = inverse @ across
    own, near = found[first : first + D, :D], found[first + D :]
    far = rows * roots - Q @ across
    if not all_rows:  # a regression leaves too little, and some of what it leaves was in its coefficients
        far = far / np.sqrt(1.0 - np.clip(np.sum(Q**2, axis=1), 0.0, 1.0 - 1.0 / (1 + len(rows))))[:, None]
        noise = np.outer(np.sum(inverse[first + D :] ** 2, axis=1), np.mean(far**2, axis=0))
        near = np.sign(near) * np.sqrt(np.clip(near**2 - noise, 0.0, None))
    near, among, far = near[:, :D], near[:, D:] if near.shape[1] > D else np.zeros((q, q)), far[:, :D]
    return Change((own + own.T) / 2, near, far.T @ far, (among + among.T) / 2)


def turned(change: Change, spectrum: Spectrum, added: Sequence[float] = (), along: Matrix | None = None) -> Vector:
    """Squared sine between each component and the leading subspace after the change."""
    # `added` are eigenvalues of directions of which the matrix before the change has nothing, `along` their cosines
    # with the components, (D, added).
    size, D, q = float(spectrum.values[0]), len(spectrum.values), len(spectrum.near_values)
    if not size > 0.0:
        return np.ones(D)
    # R'R = far: the coupling with an orthonormal basis of the far part, from unit columns so that none vanishes.
    scale = np.sqrt(np.clip(np.diagonal(change.far), 0.0, None))
    safe = np.where(scale > 0, scale, 1.0)
    values, Y = np.linalg.eigh(change.far / safe[None, :] / safe[:, None])
    coupling = (Y * np.sqrt(np.clip(values, 0.0, None))[None, :]).T * scale[None, :]
    # The matrix after the change, in the basis [V, U, far, added]: diag(Lambda) + E + sum of value p p'.
    others = np.append(spectrum.near_values, np.full(D, spectrum.far_value)) / size
    H = np.diag(np.concatenate([spectrum.values / size, others, np.zeros(len(added))]))
    H[:D, :D] += change.own
    H[D : D + q, D : D + q] += change.among
    H[D : D + q, :D], H[D + q : 2 * D + q, :D] = change.near, coupling
    H[:D, D:] = H[D:, :D].T
    if len(added) and along is not None:
        value = np.array(added) / size
        outside, new = np.sqrt(np.clip(1.0 - np.sum(along**2, axis=0), 0.0, None)), slice(2 * D + q, None)
        H[:D, :D] += (along * value) @ along.T
        H[:D, new] = along * (value * outside)
        H[new, :D] = H[:D, new].T
        H[new, new] = np.diag(value * outside**2)
    if not np.isfinite(H).all():
        return np.ones(D)
    _, Y = np.linalg.eigh(H)
    # Of the eigenvectors behind the leading D: 1 minus the rest would lose the digits.
    return np.asarray(np.minimum(np.sum(Y[:D, :-D] ** 2, axis=1), 1.0))


# The estimate itself.


def component_errors(
    errors: Sequence[PartyError], fused: FusedGram, pairs: Eigenpairs, seed: int, device: str | None, Q: Array | None
) -> tuple[float, ...]:
    """Estimate the squared sine between each component, off columns Q, and the true leading subspace."""
    # All rows are looked at where that is cheap beside the solver, and a sample of them otherwise.
    law, V, n = fused.law, pairs.vectors, pairs.vectors.shape[0]
    exact = pairs.extension.anchors is None  # the solver passed over the whole matrix
    all_rows = n <= ROWS or (exact and ((law.linear and not on_workers(V)) or n <= MOST_PASSED))
    few = np.sort(np.random.default_rng([seed, n]).choice(n, min(n, ROWS), replace=False))
    at_few = at(fused.parts, few)
    lengths = [to_numpy(column_squares(e.factor)).astype(float) for e in errors]
    # What the law needs of each sample beside the factors is not cut.
    cut = [*map(column_scales, errors, lengths), *(np.ones(A.shape[1]) for A in fused.parts[len(errors) :])]
    positions = np.arange(n) if all_rows else few
    spectrum = spectrum_at(pairs.values, V, pairs.nearby, positions, Q)
    known = np.hstack([spectrum.components * spectrum.values, spectrum.near * spectrum.near_values])
    image, lost, rounding = _images(fused, cut, pairs, few, known if exact else None, all_rows, seed, device)
    shares, level = entering(law, at_few, len(errors)), 0.0
    if not law.linear:  # no cut of the factors shows it; a multiple of I would turn nothing
        beyond, level = on_the_diagonal(law, errors, lengths, shares, positions)
        lost += (beyond - beyond.mean())[:, None] * np.hstack([spectrum.components, spectrum.near])

    # What limits the answer beside that: directions that a party sent nothing of, and what hits all of them alike.
    at_rows, size = rows_at(V, few), max(float(pairs.values[0]), LEAST_SIZE)
    tails = [
        max(0.0, share) * tail_values(error, float(own.sum()), len(spectrum.values))
        for error, own, share in zip(errors, lengths, shares, strict=True)
    ]
    added, along = left_out(tails, level, spectrum, at_few, at_rows, n)
    rounding = rounding + everywhere(errors, lengths, [each / size for each in shares], n)
    # E V = L V - L_cut V for what was left out, and L V - V Lambda for what landmarks at the center missed.
    weights = np.full(len(lost), n / len(lost))
    used_up = bool(along.any())  # then these directions tell more than the cut
    moved = change(0.0 * lost if used_up else lost, spectrum, weights, all_rows=all_rows)
    if not exact:
        D = len(spectrum.values)
        moved = moved + change(image[:, :D] - known[:, :D], spectrum, weights, all_rows=all_rows)
    total = (LOST_SAFETY if used_up else SAFETY) * turned(moved, spectrum, added, along)
    total = total + ROUNDED_SAFETY * isotropic(rounding, spectrum, n)
    return tuple(np.minimum(total, 1.0).tolist())


def _images(
    fused: FusedGram,
    cut: Sequence[Vector],
    pairs: Eigenpairs,
    few: Positions,
    known: Matrix | None,
    all_rows: bool,
    seed: int,
    device: str | None,
) -> tuple[Matrix, Matrix, Vector]:
    """Rows of L [V, U], or of L V; what a cut takes off L [V, U]; and the squared length of what rounding adds."""
    V, factors, (n, D) = pairs.vectors, fused.parts, pairs.vectors.shape
    # What lies behind the components is looked at too: it gains by what was left out, as they do, and gaps close.
    both = [V] if pairs.nearby is None else [V, pairs.nearby.vectors]
    width = sum(part.shape[1] for part in both)
    VU = kept(together(both, lambda start, *own: namespace(*own).concat(list(own), axis=1), width), place_of(V))
    # Rows of L V, of L V with the rows rounded once more, and of what the cut leaves of L V.
    some, rounding = few[:: max(1, len(few) // ROUNDED)], np.zeros(D)
    if not all_rows or any(isinstance(A, Tall) for A in factors):  # else nothing was rounded for the wire
        far = all(not isinstance(A, Tall) or A.sent.precision == "float32" for A in factors)
        magnified, looked_at = MAGNIFIED if far else 1.0, some if all_rows else few
        again = [rounded_again(own, A, seed, magnified) for own, A in zip(at(factors, some), factors, strict=True)]
        rows = [namespace(*own).concat(own, axis=0) for own in zip(at(factors, looked_at), again, strict=True)]
        seen, rounded = np.split(rows_times(fused, rows, VU, device), [len(looked_at)])
        with quiet():
            scale = 1.0 / (magnified * max(float(pairs.values[0]), LEAST_SIZE))
            moved = (seen[np.isin(looked_at, some)] - rounded)[:, :D] * scale
            rounding = np.sum(moved**2, axis=0) * (n / len(some))
    shown = FusedGram(fused.law, [scaled(A, like(s, reference_of(A))) for A, s in zip(factors, cut, strict=True)])
    if not all_rows:
        return seen, seen - rows_times(shown, at(shown.parts, few), VU, device), rounding
    image = to_numpy(fused @ VU).astype(float) if known is None else known
    return image, image - to_numpy(shown @ VU).astype(float), rounding


def at(factors: Sequence[Factor], positions: Positions) -> list[Array]:
    """Some rows of the factors."""
    return [rows_of(A, sent_to(positions, reference_of(A))) for A in factors]


def rows_times(fused: FusedGram, rows: Sequence[Array], V: Array, device: str | None) -> Matrix:
    """Entries of the fused matrix between these rows of the factors and all, times V."""
    law, place = fused.law, away_from(device, V)
    there = fused if place is None else fused.sent_to(place)
    # Columns of the fused matrix, side by side: their transpose times V in one pass.
    right = [transposed(A) for A in law.merge([sent_to(A, there.reference) for A in rows])]
    table = there.table.then(lambda start, merged: law.crossed(merged, right), right[0].shape[1])
    return to_numpy(cross(table, V, place)).astype(float)


def spectrum_at(
    values: Array, vectors: Array, nearby: Nearby | None, positions: Positions, Q: Array | None = None
) -> Spectrum:
    """Components and what lies next to them, at some of the samples; and what was taken out of them."""
    near = Nearby(values[:0], vectors[:, :0]) if nearby is None else nearby
    own, following = to_numpy(values).astype(float), to_numpy(near.values).astype(float)
    found = [rows_at(each, positions) for each in (vectors, near.vectors, vectors[:, :0] if Q is None else Q)]
    return Spectrum(own, found[0], following, *found[1:])


def rows_at(x: Array, positions: Positions) -> Array:
    """Some rows, for computing here."""
    return to_numpy(pick(x, sent_to(positions, x))).astype(float)


def column_scales(error: PartyError, lengths: Vector) -> Vector:
    """What columns of these squared lengths are multiplied by to take away a part such as the one left out."""
    # Column i of the last quarter keeps 1 - mu_i / lambda_i, for the eigenvalues mu that were probably left out.
    taken = max(1, math.ceil(TAKEN * len(lengths)))
    behind = lengths[len(lengths) - taken :]
    tail = tail_values(error, float(lengths.sum()), taken)
    kept = np.ones(len(lengths))
    kept[len(lengths) - taken :] -= np.minimum(np.divide(tail, behind, out=np.zeros(taken), where=behind > 0), 1.0)
    return np.asarray(np.sqrt(kept[: max(1, int(np.max(np.nonzero(kept)[0], initial=-1)) + 1)]))  # no zeros behind


def tail_values(error: PartyError, sent: float, count: int) -> Vector:
    """Largest eigenvalues that were left out: a geometric series with the first of them and the trace known."""
    # mu_i = mu_1 (1 - mu_1 / t)^(i - 1): the series adds up to the trace t that is missing.
    trace = max(0.0, error.trace - sent)
    first = max(0.0, min(error.left_out - error.overlap, trace))
    if not first > error.rounding * 1e-6:
        return np.zeros(count)
    return np.asarray(first * np.power(1.0 - first / trace, np.arange(count, dtype=float)))


def on_the_diagonal(
    law: Law, errors: Sequence[PartyError], lengths: Sequence[Vector], shares: Sequence[float], positions: Positions
) -> tuple[Vector, float]:
    """Diagonal of what a product misses, less the shares of the parties' errors; and the mean of all it misses."""
    # Beside the diagonal of products of different matrices their other entries are small. The trace says how far a
    # bound is above a diagonal that was not sent.
    received, diagonals = list[Vector](), list[Vector]()
    for error, own in zip(errors, lengths, strict=True):
        sent, bound = rows_at(error.received, positions), rows_at(error.diagonal, positions)
        most = float(namespace(error.diagonal).sum(error.diagonal)) - float(own.sum())
        part = min(1.0, max(0.0, error.trace - float(own.sum())) / most) if most > 0.0 else 0.0
        received.append(sent)
        diagonals.append(sent + part * (bound - sent))
    with quiet():
        missing = law.diagonal(diagonals) - law.diagonal(received)
        pairs = zip(shares, diagonals, received, strict=True)
        beyond: Vector = missing - sum(share * (true - sent) for share, true, sent in pairs)
    return beyond, float(missing.mean())


def entering(law: Law, rows: Sequence[Array], n_parties: int) -> list[float]:
    """Mean entry of what multiplies each party's error in the fused matrix: an error of rank one keeps this share."""
    # The law's derivative by one party's entries, averaged over pairs of samples.
    xp, step = namespace(*rows), -(-rows[0].shape[0] // PAIRS)
    some = [A[::step, :] for A in rows]
    parts = [A @ A.T for A in some[:n_parties]]
    with quiet():  # a width of 1e+275: what is stated of it is refused later
        if law.linear:
            (one,) = law.merge([xp.ones_like(some[0][:, :1]), *some[n_parties:]])
            weights = [one @ one.T] * n_parties
        else:
            weights = law.error_weights(parts, parts)
        means = [float(xp.mean(weight)) for weight in weights]
    return [min(mean, MOST_SHARE) if mean > 0.0 else 0.0 for mean in means]


def left_out(
    tails: Sequence[Vector], level: float, spectrum: Spectrum, rows: Sequence[Array], components: Matrix, n: int
) -> tuple[list[float], Matrix]:
    """Directions that a party sent nothing of: eigenvalues, and cosines with the components."""
    # Tails are eigenvalues that each party left out, times the share with which its error enters the fused matrix.
    # Where it has larger eigenvalues behind the components, the cut says how these directions turn them; else they
    # lie along what the components have outside of the party's factor. A component whose eigenvalue is below the
    # level, the mean eigenvalue of all that is missing, is lost.
    D, found, cosines = len(spectrum.values), list[float](), list[Matrix]()
    largest = max(float(tail[0]) for tail in tails)
    if len(spectrum.near_values) and float(spectrum.near_values[-1]) > largest:
        # Apart from the components: only as many as there are components can take their places.
        return np.sort([level] * D + list(np.concatenate(tails)))[::-1][:D].tolist(), np.zeros((D, D))
    for j, tail in enumerate(tails):
        if tail[0] > 0.0:
            # Least squares of the components on the factor's columns, and the Gram matrix of what that leaves; few
            # rows leave too little, so degrees of freedom count.
            Q, _ = np.linalg.qr(to_numpy(rows[j]).astype(float))
            beside = components - Q @ (Q.T @ components)
            count = n if len(beside) == n else max(1, len(beside) - Q.shape[1])
            values, Y = np.linalg.eigh(beside.T @ beside * (n / count))
            cosines.append((Y * np.sqrt(ALONG * np.clip(values, 0.0, 1.0))[None, :])[:, ::-1])
            found += tail.tolist()
    return found, np.hstack([np.zeros((D, 0)), *cosines])


def rounded_again(rows: Array, factor: Factor, seed: int, magnified: float) -> Array:
    """Rows of a factor with an error such as rounding for the wire made."""
    if not isinstance(factor, Tall):
        return rows
    relative, fixed = factor.sent.entry_error()
    scales = 1.0 if factor.scales is None else to_numpy(factor.scales)
    fixed = to_numpy(fixed)[: rows.shape[1]] * scales
    noise = magnified * np.random.default_rng([seed, rows.shape[1]]).uniform(-1.0, 1.0, rows.shape)
    values = to_numpy(rows).astype(float)
    return like(values + noise * (RELATIVE * relative * np.abs(values) + fixed[None, :]), rows)


def everywhere(errors: Sequence[PartyError], lengths: Sequence[Vector], shares: Sequence[float], n: int) -> float:
    """Squared length of N v for what hits every direction alike, beside rounding for the wire."""
    # What the party's arithmetic did, as far as a solver may; and what its landmarks missed: a matrix of norm b and
    # trace t takes a vector of length one to a length of sqrt(b t / n), on average.
    total = 0.0
    for error, own, share in zip(errors, lengths, shares, strict=True):
        trace = max(0.0, error.trace - float(own.sum()))
        total += MISSED * (share * min(error.overlap, trace)) * (share * trace) / n
        most = solver_error(n, error.trace, error.received) if isinstance(error.factor, Tall) else math.inf
        total += ARITHMETIC * min(share * min(error.rounding, most), LARGEST) ** 2
    return total


def isotropic(sizes: Vector, spectrum: Spectrum, n_samples: int) -> Vector:
    """Squared sine by which rounding turns each component: N v has as much of every direction."""
    # u'Nv is made of what rounding did to the rows along u and along v, so that near directions count twice:
    # sin^2 = |N v|^2 (2 / n sum over near u of 1 / (a - b_u)^2 + 1 / (a - b_far)^2), first order in N.
    size = max(float(spectrum.values[0]), LEAST_SIZE)
    values, near, far = spectrum.values / size, spectrum.near_values / size, spectrum.far_value / size
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        each = 2.0 / n_samples * np.sum(1.0 / (values[None, :] - near[:, None]) ** 2, axis=0)
        sines = sizes * (each + 1.0 / (values - far) ** 2)
    return np.where(np.isfinite(sines), np.minimum(sines, 1.0), np.where(sizes == 0, 0.0, 1.0))
