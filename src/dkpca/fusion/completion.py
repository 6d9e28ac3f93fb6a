"""Samples that a party lacks: its rows there are mixtures of its own rows, regressed on the other parties.

Party j has the samples O_j, sends the factor A_j over them, and K_j = A_j A_j' + R_j + N_j is its matrix (R_j left
out, N_j rounding). A lacking row is phi_j(y) = sum over i in O_j of w_i(y) phi_j(x_i) with

    w(y) = 1/n + Z_o (Z_o' Z_o + lambda I)^-1 (z(y) - z_mean)

where z are the rows of the other parties, as completed so far, and Z_o those of O_j around their exact mean, so that
weights add up to one however that mean is rounded. Own rows of W_j are rows of the identity. So the completed matrix
W_j K_j W_j' is the Gram matrix of stated mixtures, and bounds carry over: W_j R_j W_j' is positive semidefinite with
norm at most |W_j|^2 |R_j|, rounding at most |W_j|^2 |N_j|. A mixture can be longer than every sample; it is shrunk
until |w'A_j|^2 + (|R_j| + |N_j|) |w|^2 is not.
W_j is never written out: a sweep costs O(T (sum of ranks)^2). See docs/decisions/161.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from dkpca.certificate.statements import Completed
from dkpca.errors import FusionError, InputError
from dkpca.linalg.arrays import Array, growth, sent_to, to_numpy, unit
from dkpca.linalg.precision import Rounded, as_received, whole
from dkpca.linalg.rows import slices
from dkpca.messages import Summary, row_number_digest

CHANCE = 4.0  # a correlation beyond so many deviations from 0 is no chance: 6 in 100,000
SWEEPS = 3  # each regresses on what the one before completed
LEARNED = 10_000  # own rows that a regression is learned from; more of them cost time and change little
JUDGED = 2_000  # of them, those by which the penalty is chosen; and rows that are hidden from a party for R^2
MOST_NOISE = 1e-3  # share of the weights of a regression that may be rounding of the others' means
HIDDEN = 0.1  # share of its rows that is hidden from each party for R^2, if that is less
ENOUGH, MOST_ROUNDS = 100, 5  # hidden rows at a party: where one round hides fewer, others follow
LEAST_SHARED = 10  # samples that a party must share with the others
# Penalties tried, as shares of the largest eigenvalue; the last gives the mean row.
PENALTIES = (*(10.0 ** np.arange(-4.0, 1.1, 0.5)).tolist(), math.inf)
STRIP = 4096  # rows looked at together

Rows = np.ndarray[tuple[int], np.dtype[np.intp]]
Matrix = np.ndarray[tuple[int, int], np.dtype[Any]]  # on the host, in the precision in which the center computes
Vector = np.ndarray[tuple[int], np.dtype[Any]]


@dataclass(frozen=True)
class Held:
    """What the center knows of one party: a factor over the samples that it has."""

    factor: Matrix  # (n_own, rank)
    rows: Rows  # (n_own,): positions of these samples among all
    left_out: float  # bound on the norm of what the factor leaves out
    rounding: float  # bound on the norm of what rounding did to it
    longest: float  # bound on the diagonal of the party's matrix

    @cached_property
    def size(self) -> float:
        """Root mean square of the length of a row, as a power of two: dividing by it rounds nothing."""
        largest = float(np.abs(self.factor).max())
        if not largest > 0.0:
            return 1.0
        length = largest * math.sqrt(float(np.sum((self.factor / largest) ** 2)) / len(self.factor))
        return 2.0 ** math.frexp(length)[1]

    def of_size_one(self) -> "Held":
        """The same in units of its size: parties count alike, and no square overflows."""
        squares = {name: getattr(self, name) / self.size / self.size for name in ("left_out", "rounding", "longest")}
        return replace(self, factor=self.factor / self.size, **squares)


@dataclass(frozen=True)
class Regression:
    """Rows a(y) = mean_row + (z - mean)' coefficients from those z of the others, over the size of their party."""

    mean: Vector  # (width,) of the other parties' rows
    mean_row: Vector  # (rank,) of all own rows
    coefficients: Matrix  # (width, rank)
    directions: Matrix  # (width, width): eigenvectors U of Z_o' Z_o, with w(y) = 1/n + Z_o U shrinkage U'(z - mean)
    shrinkage: Vector  # (width,): one over eigenvalue and penalty
    weights: Matrix  # (width, width): |w(y)|^2 <= 1/n_own + |weights'(z - mean)|^2; (width, 0) but in the last sweep
    n_own: int
    penalty: float  # share of the largest eigenvalue; inf: the mean row
    rounding: float  # a computed row is off by at most so much times |z - mean| ...
    rounding_of_mean: float  # ... and so much
    off: float  # |R| + |N| of the party
    longest: float  # bound on the diagonal of its matrix


@dataclass(frozen=True)
class Filled:
    """One party's factor with a row for every sample, and the error bounds that go with it."""

    factor: Matrix  # (n_samples, rank): W A
    lacking: Rows  # samples that the party has no row for
    diagonal: Vector  # (len(lacking),): bound on the diagonal of W K W' there
    norm_squared: float  # bound on |W|^2
    product_error: float  # bound on the nuclear norm of what rounding in W A did to (W A)(W A)'


@dataclass(frozen=True)
class Completion:
    """Every party's rows for every sample, and how rows of further samples are completed in the same way."""

    filled: Mapping[str, Filled]
    sweeps: tuple[Mapping[str, Regression], ...]
    sizes: Mapping[str, float]  # of each party's rows, by which they are divided in a sweep
    held_out: Mapping[str, float]  # R^2 of rows that were hidden for it: an estimate

    def place(self, rows: Mapping[str, Matrix], lacking: Mapping[str, Rows]) -> dict[str, Matrix]:
        """Complete further samples by the same weights; rows of samples that a party lacks may hold anything."""
        current = {name: rows[name] / size for name, size in self.sizes.items()}
        for name, regression in self.sweeps[0].items():
            current[name][lacking[name]] = regression.mean_row
        for regressions in self.sweeps:
            _mix(regressions, current, lacking)
        return {name: current[name] * size for name, size in self.sizes.items()}


@dataclass(frozen=True)
class Lacking:
    """What was sent about the samples that each party has, and how the others were completed."""

    mode: str  # "mean" or "complete"
    sent: Mapping[str, Summary]
    places: Mapping[str, Rows]  # of the samples that each party has, among all
    completion: Completion
    samples: str  # digest of all samples in order

    @property
    def rows(self) -> dict[str, Rows]:
        """Samples that each party lacks, of those that lack any."""
        return {name: filled.lacking for name, filled in self.completion.filled.items() if len(filled.lacking)}

    def described(self) -> Completed:
        """Say it for the certificate."""
        rows, found = self.rows, self.completion
        return Completed(
            mode=self.mode,
            n_lacking={name: len(positions) for name, positions in rows.items()},
            held_out={name: found.held_out[name] for name in rows if name in found.held_out},
            norm_squared={name: found.filled[name].norm_squared for name in rows},
        )


def completed(
    summaries: Mapping[str, Summary],
    places: Mapping[str, Sequence[int] | Rows],
    *,
    mode: str,
    dtype: str,
    seed: int,
    samples: str = "",
) -> tuple[dict[str, Summary], dict[str, Array], Lacking]:
    """Summaries with a row for every sample, bounds on the diagonals of the matrices they are about, and how."""
    positions = {name: np.asarray(places[name], dtype=np.intp) for name in summaries}
    for name, own in positions.items():
        if len(own) != summaries[name].n_samples or own.min() < 0 or len(np.unique(own)) != len(own):
            raise FusionError(f"party {name!r}: its places are not one for each of its samples; align them again")
    at_some = np.unique(np.concatenate(list(positions.values())))
    n_samples = int(at_some[-1]) + 1
    if len(at_some) < n_samples:
        raise FusionError(f"{n_samples - len(at_some):,} of {n_samples:,} samples are at no party; leave them out")
    held = {name: held_by(summary, positions[name], dtype) for name, summary in summaries.items()}
    found = complete(held, n_samples, seed=seed, mode=mode)
    samples = samples or row_number_digest(n_samples)
    made, diagonals = {}, {}
    for name, summary in summaries.items():
        # The summary of W K W', with the bounds that hold for it, and one on its diagonal.
        filled, home = found.filled[name], summary.factor.data
        squares = (filled.factor**2).sum(axis=1)
        made[name] = replace(
            summary,
            sample_digest=samples,
            factor=Rounded(sent_to(filled.factor, home)),
            left_out_norm=filled.norm_squared * summary.left_out_norm,
            trace_left_out=summary.trace_left_out + float(np.sum(filled.diagonal - squares[filled.lacking])),
            rounding_norm=filled.norm_squared * summary.rounding_norm + filled.product_error,
            rounding_nuclear=filled.norm_squared * summary.rounding_nuclear + filled.product_error,
            left_out_overlap=None if len(filled.lacking) else summary.left_out_overlap,
        )
        bound = squares + (summary.left_out_norm + summary.rounding_norm)
        bound = np.ones_like(bound) if summary.kernel.unit_diagonal else bound
        bound[filled.lacking] = filled.diagonal
        diagonals[name] = sent_to(bound, home)
    return made, diagonals, Lacking(mode, summaries, positions, found, samples)


def held_by(summary: Summary, rows: Rows, dtype: str) -> Held:
    """What a summary says about the samples at these places."""
    if summary.diagonal is not None:
        needs = f"the {summary.kernel.name} kernel of the joined table needs every sample at every party"
        raise InputError(f"{needs}, and some are lacking; use another kernel, or lacking='drop'")
    A, off = to_numpy(whole(as_received(summary.factor, dtype))), summary.left_out_norm + summary.rounding_norm
    longest = 1.0 if summary.kernel.unit_diagonal else float((A**2).sum(axis=1).max()) + off
    return Held(A, rows, summary.left_out_norm, summary.rounding_norm, longest)


def complete(parties: Mapping[str, Held], n_samples: int, *, seed: int = 0, mode: str = "complete") -> Completion:
    """Complete the rows that parties lack; a party whose hidden rows have an R^2 of 0 or less gets its mean row."""
    counts = np.bincount(np.concatenate([held.rows for held in parties.values()]))
    for name, held in parties.items():
        shared = int((counts[held.rows] > 1).sum())
        if shared < min(LEAST_SHARED, n_samples):
            few = f"{shared} of its {len(held.rows):,} samples with other parties"
            raise InputError(f"party {name!r} shares {few}; check that all parties use the same kind of id")
    if mode == "mean":
        return _swept(parties, n_samples, set(parties), sweeps=1)
    estimated = held_out(parties, n_samples, seed=seed)
    unpredicted = {name for name, share in estimated.items() if not share > 0.0}
    return replace(_swept(parties, n_samples, unpredicted), held_out=estimated)


def held_out(parties: Mapping[str, Held], n_samples: int, *, seed: int = 0) -> dict[str, float]:
    """R^2 in feature space, by party, of rows that were hidden before anything was learned."""
    # Leave-one-out inside the sweeps would not do: others' completed rows were made from the row that is left out.
    # R^2 = 1 - |A - A_hat|^2 / |A - mean|^2 over the hidden rows; the part outside of the factor counts in both.
    rng = np.random.default_rng(seed)
    parties, n_samples = _some_of(parties, n_samples, rng)
    parties = {name: held.of_size_one() for name, held in parties.items()}
    mixed = {name: rng.permutation(len(parties[name].rows)) for name in sorted(parties)}
    n_hidden = {name: min(JUDGED, math.ceil(HIDDEN * len(order))) for name, order in mixed.items()}
    rounds = min(MOST_ROUNDS, math.ceil(ENOUGH / min(n_hidden.values())))
    missed, total = dict.fromkeys(parties, 0.0), dict.fromkeys(parties, 0.0)
    for k in range(rounds):
        hidden = {name: order[k * n_hidden[name] :][: n_hidden[name]] for name, order in mixed.items()}
        # Hide a part of every party's rows at once, complete them from the rest, and compare with the true ones.
        shown = {
            n: replace(held, factor=np.delete(held.factor, hidden[n], axis=0), rows=np.delete(held.rows, hidden[n]))
            for n, held in parties.items()
        }
        completed = _swept(shown, n_samples, set()).filled
        for name, held in parties.items():
            true, found = held.factor[hidden[name]].astype(float), completed[name].factor[held.rows[hidden[name]]]
            mean = shown[name].factor.mean(axis=0).astype(float)
            unseen = np.clip(held.longest - (true**2).sum(axis=1), 0.0, held.left_out).sum()
            missed[name] += float(((true - found.astype(float)) ** 2).sum() + unseen)
            total[name] += float(((true - mean) ** 2).sum() + unseen)
    return {name: 1.0 - missed[name] / total[name] if total[name] > 0.0 else 0.0 for name in parties}


def _some_of(parties: Mapping[str, Held], n_samples: int, rng: np.random.Generator) -> tuple[Mapping[str, Held], int]:
    """Twice as many of the samples as a regression learns from, numbered anew: a party may lack half of them."""
    if n_samples <= 2 * LEARNED:
        return parties, n_samples
    number = np.full(n_samples, -1)
    number[rng.choice(n_samples, 2 * LEARNED, replace=False)] = np.arange(2 * LEARNED)
    some = {}
    for name, held in parties.items():
        drawn = np.flatnonzero(number[held.rows] >= 0)
        some[name] = replace(held, factor=held.factor[drawn], rows=number[held.rows[drawn]])
    return some, 2 * LEARNED


def not_at_random(places: Mapping[str, Sequence[int] | Rows], columns: Array, names: Sequence[str]) -> list[str]:
    """Say which parties lack samples by what is in a column, such as a component: filled-in rows are then biased."""
    # Correlation of "lacks this sample" with each column; beyond chance, it is no accident who lacks what.
    values, said = to_numpy(columns).astype(float), []
    for party, own in places.items():
        absent = np.isin(np.arange(len(values)), own, invert=True).astype(float)
        with np.errstate(all="ignore"):  # a constant column has no correlation, nor a party that lacks none
            correlation = np.nan_to_num(np.corrcoef(absent, values, rowvar=False)[0, 1:])
        most = int(np.argmax(abs(correlation)))
        if abs(correlation[most]) * math.sqrt(len(values)) > CHANCE:
            said.append(
                f"party {party!r} does not lack samples at random: the gaps go with {names[most]} (correlation "
                f"{correlation[most]:.2f}), and the rows in their place are based on the samples that it has"
            )
    return said


def _swept(parties: Mapping[str, Held], n_samples: int, unpredicted: set[str], *, sweeps: int = SWEEPS) -> Completion:
    """Start from mean rows; each sweep regresses every party on what the one before made of the others."""
    lacking = {name: np.setdiff1d(np.arange(n_samples), held.rows) for name, held in parties.items()}
    sizes = {name: held.size for name, held in parties.items()}
    # A sweep learns w(y) of every party, and puts the mixtures w'A in the place of the rows that are lacking.
    parties, current = {name: held.of_size_one() for name, held in parties.items()}, {}
    for name, held in parties.items():
        current[name] = np.empty((n_samples, held.factor.shape[1]), dtype=held.factor.dtype)
        current[name][held.rows] = held.factor
        current[name][lacking[name]] = held.factor.mean(axis=0)
    made, mixed = list[dict[str, Regression]](), dict[str, Filled]()
    for sweep in range(1, sweeps + 1):
        last = sweep == sweeps
        made.append({n: _regression(held, current, n, unpredicted, final=last) for n, held in parties.items()})
        mixed = _mix(made[-1], current, lacking)
    for (name, own), size in zip(mixed.items(), sizes.values(), strict=True):
        own.factor[...] *= size  # in its place: it is large
        squares = own.diagonal * size * size, own.product_error * size * size
        mixed[name] = replace(own, diagonal=squares[0], product_error=squares[1])
    return Completion(mixed, tuple(made), sizes, {})


def _others(current: Mapping[str, Matrix], name: str, rows: Rows) -> Matrix:
    """Rows of all parties but one, side by side, in the order of their names."""
    return np.concatenate([current[other][rows] for other in sorted(current) if other != name], axis=1)


def _regression(
    held: Held, current: Mapping[str, Matrix], name: str, unpredicted: set[str], *, final: bool
) -> Regression:
    """Ridge regression of a party's own rows on those of the others, with the penalty by leave-one-out."""
    n_own = len(held.rows)
    learned = held.rows[np.unique(np.linspace(0, n_own - 1, min(n_own, LEARNED)).astype(np.intp))]
    # Moments around the means over the rows learned from: Z'Z = U diag(g) U', and U'Z'A.
    Z, A = _others(current, name, learned), current[name][learned]
    mean, n = Z.mean(axis=0), len(learned)
    Z, A = Z - mean, A - A.mean(axis=0)
    g, U = np.linalg.eigh((Z.T @ Z).astype(float))
    g = np.clip(g, 0.0, None)
    rotated = U.T @ (Z.T @ A)
    penalty = math.inf if name in unpredicted else _penalty(g, U, rotated, Z, A)
    shrinkage = 1.0 / (g + penalty * (float(g[-1]) or 1.0))
    # Rows of the others that are nearly the same differ by the rounding of their means: then the mean row is all
    # that can be said, since weights would be made of that rounding.
    u, length = unit(mean), math.sqrt(float(g.sum()))
    spread = length + math.sqrt(n) * float(np.linalg.norm(mean))
    if growth(n) * u * spread * length * float(shrinkage.max(initial=0.0)) > MOST_NOISE:
        penalty, shrinkage = math.inf, np.zeros_like(g)
    coefficients = U @ (rotated * shrinkage[:, None])
    # Rounding: |shrinkage| |Z|_F |A|_F for sums, eigenvectors and products with them; `slack` covers Z'Z itself.
    roundings = growth(n) + 4.0 * growth(len(g))
    slack = roundings * u * float(g.sum())
    error = 2.0 * roundings * u * spread * float(np.linalg.norm(A)) * float(shrinkage.max(initial=0.0))
    return Regression(
        mean=mean,
        mean_row=current[name][held.rows].mean(axis=0),
        coefficients=coefficients.astype(mean.dtype),
        directions=U.astype(mean.dtype),
        shrinkage=shrinkage.astype(mean.dtype),
        weights=(U * (np.sqrt(g + slack) * shrinkage))[:, : None if final else 0].astype(mean.dtype),
        n_own=n_own,
        penalty=penalty,
        rounding=error + growth(len(g)) * u * float(np.linalg.norm(coefficients)),
        rounding_of_mean=growth(n_own) * u * math.sqrt(held.longest),
        off=held.left_out + held.rounding,
        longest=held.longest,
    )


def _penalty(g: Vector, U: Matrix, rotated: Matrix, Z: Matrix, A: Matrix) -> float:
    """Penalty with the least leave-one-out error: row i misses by its residual over 1 - h_ii."""
    # Leave-one-out without leaving out, with leverage h_ii = 1/n + y_i'(g + penalty)^-1 y_i.
    step, errors = math.ceil(len(Z) / JUDGED), []
    Y, target = Z[::step].astype(float) @ U, A[::step].astype(float)
    for share in PENALTIES:
        shrunk = 1.0 / (g + share * (float(g[-1]) or 1.0))
        leverage = 1.0 / len(Z) + (Y * Y) @ shrunk
        missed = (target - Y @ (shrunk[:, None] * rotated)) / np.clip(1.0 - leverage, 1e-9, None)[:, None]
        errors.append(float((missed * missed).sum()))
    return float(PENALTIES[int(np.argmin(errors))])


def _mix(
    regressions: Mapping[str, Regression], current: Mapping[str, Matrix], lacking: Mapping[str, Rows]
) -> dict[str, Filled]:
    """Make the lacking rows of every party from what is there of the others, and put them in their places."""
    made = {name: _mixtures(regression, current, name, lacking[name]) for name, regression in regressions.items()}
    filled = {}
    for name, (rows, diagonal, norm_squared, error) in made.items():
        current[name][lacking[name]] = rows
        product_error = 2.0 * error * float(np.linalg.norm(current[name])) + error**2
        filled[name] = Filled(current[name], lacking[name], diagonal, norm_squared, product_error)
    return filled


def _mixtures(
    regression: Regression, current: Mapping[str, Matrix], name: str, lacking: Rows
) -> tuple[Matrix, Vector, float, float]:
    """Rows w'A, shrunk; bounds, in the last sweep, on their w'Kw, on |W|^2, and on the norm of their rounding."""
    u, longest = unit(regression.mean), regression.longest
    rows = np.empty((len(lacking), regression.coefficients.shape[1]), dtype=regression.mean.dtype)
    diagonals = np.empty(len(lacking), dtype=regression.mean.dtype)
    square, error = np.zeros((regression.weights.shape[1] + 1,) * 2), 0.0
    for strip in slices(len(lacking), STRIP):
        # a(y) = mean + (z - mean)'M, a mixture w'A of own rows with |w|^2 = 1/n + |weights'(z - mean)|^2.
        Z = _others(current, name, lacking[strip]) - regression.mean
        made, across = regression.mean_row + Z @ regression.coefficients, Z @ regression.weights
        length = 1.0 / regression.n_own + (across * across).sum(axis=1)
        moved = regression.rounding * np.linalg.norm(Z, axis=1) + regression.rounding_of_mean
        diagonal = (np.linalg.norm(made, axis=1) + moved) ** 2 + regression.off * length
        # Shrink by s = min(1, sqrt(longest / diagonal)).
        room = longest * (1.0 - 64.0 * u)
        shrink = np.sqrt(np.where(diagonal > room, room / np.where(diagonal > 0.0, diagonal, 1.0), 1.0))
        rows[strip], diagonals[strip] = made * shrink[:, None], diagonal * shrink**2
        F = np.column_stack([np.full_like(shrink, regression.n_own**-0.5), across]) * shrink[:, None]
        square += F.T @ F
        error += float(((moved * shrink + 2.0 * u * math.sqrt(longest)) ** 2).sum())
    # |W|^2 = 1 + |W_lacking|^2 <= 1 + |F'F|, since the rest of W is the identity. With R and N the parts left out and
    # rounded, |W R W'| <= |W|^2 |R|: stated errors grow by |W|^2.
    largest = float(np.linalg.eigvalsh(square)[-1]) if len(lacking) else 0.0
    allowance = (growth(len(lacking)) + growth(len(square))) * u * float(np.trace(square))
    return rows, diagonals, 1.0 + max(0.0, largest) + allowance, math.sqrt(error)
