"""How well somebody who knows some of a party's rows could rebuild the others from all that a plan sends.

The party runs the attacks on itself, on exactly what is about to leave, and sees R squared by column on rows that the
attacker did not know. Nothing of it leaves. Each attack takes what was seen, the truth and draws of known rows, and
returns R squared by column, one line per draw; None where it has no meaning. Unknown rows count for its score alone.

Two are counts, not attacks: what the directions of a message contain of a column ("content"), and whether it has
enough bits to try all rows ("decoding"). A search for the right mixture of directions, with few known rows or none,
finds what is special about a column (skewness, whole numbers, a place in the spectrum); here it always does.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

from dkpca.errors import InputError
from dkpca.kernels import Kernel, Linear
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.precision import Rounded
from dkpca.linalg.rows import column_scales, standardized
from dkpca.messages import Summary
from dkpca.wording import counted

__all__ = ["Measurement", "measure"]

Matrix = np.ndarray[Any, Any]
PENALTIES = np.logspace(-12.0, 2.0, 29)  # of ridge, as shares of the largest eigenvalue
WIDTHS = (0.1, 0.3, 1.0, 3.0)  # of Gaussian kernel ridge, over the mean squared length of the features
SIMILAR = (0.1, 0.25, 0.5)  # pairs beyond this share of a sample's similarity to itself are steps of a path
MOST_AT_ONCE = 256  # columns whose regressions are formed together: 29 penalties of each
NEAREST = 4  # known rows that a guess is the mean of
CAUTION = 0.1  # kernel values below this share of what the message left out of a diagonal are noise
MOST_COORDINATES = 500  # leading ones, as far as a message tells distances
RARE = 0.1  # of the samples: known rows hardly tell about a column that fewer have
RARE_ROWS = 5  # attacked of such a column, whatever the others are; fewer of one value are named by chance
FAR_OUT = 10.0  # standard deviations from the mean; if several rows are so far out, they are one in a hundred at most
FENCE = 1.5  # Tukey's, of quartile ranges beyond the quartiles: values beyond are far out
FARTHEST = 50  # one sample in so many is far out
LEFT = 20  # rows that an attacker of few does not know
WHOLE = 0.99  # of a column
SEPARATED = 10  # samples for each direction, by which these are told apart
CROWDED = 0.9  # directions for each sample: among more, a column lies by chance
STEPS = 20  # of projection pursuit
EXACT = -float(np.log2(np.finfo(float).eps))  # bits of a number that is on no grid
ON_GRID = 1e-9  # of a column's range, by which numbers of a grid may be off it
FINEST_GRID = 1e-7  # step of one, as a share of that range: among finer ones all numbers are on a grid by chance
MIXED = 0.9  # a direction of a message that is a mixture of columns but for this share tells bits of a row
ENOUGH = 0.9  # of a row's bits: with these most rows are told
MANY_VALUES = 7.0  # bits of a column with any number of values, however few are told
ROUNDING = 1e-13  # directions shorter than this share of the longest are no part of what was sent
WILD = 1e100  # a guess of a number of size 1 beyond this is as wrong as any


@dataclass(frozen=True)
class Seen:
    """What somebody holds who holds the message."""

    factor: Matrix  # (n_samples, rank), the samples under attack
    kernel: Kernel
    left_out: float  # of a diagonal entry of the Gram matrix, on average
    n_features: int  # columns the message says the party has
    n_samples: int = 0  # of the message, if these are some of them
    squares: Matrix | None = None  # (n_samples, 1): squared lengths of the rows, where the message has these
    mixed: Matrix | None = None  # others' columns on a grid, which are in it too

    @property
    def forgotten(self) -> str:
        """What of a row the kernel forgets."""
        return self.kernel.forgets(self.left_out + float(np.median((self.factor**2).sum(axis=1))))

    @cached_property
    def coordinates(self) -> Matrix:
        """Samples as points whose distances are those over the party's columns, but for a common factor."""
        return points(_to_one(self.squared))

    @cached_property
    def squared(self) -> Matrix:
        """Squared distances between the samples, as far as the factor tells them."""
        K = self.factor @ self.factor.T
        return np.asarray(self.kernel.squared_distances(K, max(CAUTION * self.left_out, 1e-12)))


@dataclass(frozen=True)
class Truth:
    """The table, centered columns of length 1; behind these categories as 0/1 columns, or columns cut off."""

    values: Matrix  # (n_samples, n_columns and those after them)
    lengths: Matrix  # (n_columns,) that they had, up to one factor for all
    column: Matrix  # of the table, for each number
    group: Matrix  # scored together: all categories of a column
    table: Matrix  # as it is, each column up to a factor
    of_categories: bool

    @property
    def n_columns(self) -> int:
        return len(self.lengths)

    @classmethod
    def of(cls, table: Matrix, columns_are: str = "quantities") -> "Truth":
        """Bring columns to one scale, which no score depends on; codes of categories are read as numbers too."""
        # Numbers: centered columns of length 1; a constant column is all zero. Behind them, centered: one 0/1 column
        # for each category; or each column with values far out, which are most of the variance, cut off at fences,
        # and one 0/1 column for each value that stands for itself.
        size = np.abs(table).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        numbers = table / size  # first, since squares may overflow
        scaled, numbers = numbers, numbers - numbers.mean(axis=0)
        lengths = np.linalg.norm(numbers, axis=0)
        constant = lengths < 1e-12
        numbers, lengths = np.where(constant, 0.0, numbers), np.where(constant, 1.0, lengths)
        (n, p), counted = table.shape, [np.unique(each, return_counts=True) for each in scaled.T]
        if columns_are == "categories":
            behind = np.hstack([scaled[:, j, None] == found for j, (found, _) in enumerate(counted)]).astype(float)
            column = np.repeat(np.arange(p), [len(found) for found, _ in counted])
            # Scored by itself, but for those that a few samples have, of which some are named by chance.
            often = np.concatenate([times >= RARE_ROWS for _, times in counted])
            group, unit = np.where(often, 2 * p + np.arange(len(column)), p + column), np.ones(len(column))
        else:
            # Where half of the samples have one value, so that quartiles are equal, they are those of the others.
            most = np.array([found[np.argmax(times)] for found, times in counted])
            low, high = np.quantile(scaled, [0.25, 0.75], axis=0)
            usual = (scaled == most) & (low == high) & ~constant
            low, high = np.nanquantile(np.where(usual, np.nan, scaled), [0.25, 0.75], axis=0)
            inner = np.clip(scaled, low - FENCE * (high - low), high + FENCE * (high - low))
            inner = np.where(usual, scaled, inner)
            far = np.flatnonzero((inner != scaled).any(axis=0))
            alone = [(j, value) for j, (found, times) in enumerate(counted) for value in _codes(found, times)]
            named = np.array([scaled[:, j] == value for j, value in alone], dtype=float).reshape(-1, n).T
            behind = np.hstack([inner[:, far], named])
            column = np.array([*far, *(j for j, _ in alone)], dtype=int)
            group, unit = p + np.arange(len(column)), np.linalg.norm(behind - behind.mean(axis=0), axis=0)
        values = np.hstack([numbers / lengths, (behind - behind.mean(axis=0)) / unit])
        column, group = (np.concatenate([np.arange(p), each]) for each in (column, group))
        group = np.unique(group, return_inverse=True)[1]
        return cls(values, lengths * (size / size.max()), column, group, scaled, columns_are == "categories")

    def score(self, guess: Matrix, known: Matrix) -> Matrix:
        """R squared by column on the rows not known, as numbers, categories or cut off: the most; 0 for constants."""
        others = np.setdiff1d(np.arange(len(guess)), known)
        # R^2 = 1 - |truth - guess|^2 / |truth - mean|^2, over the rows that the attacker did not know.
        truth = self.values[others, : guess.shape[1]]
        missed = ((truth - np.clip(guess[others], -WILD, WILD)) ** 2).sum(axis=0)
        return self.explained(missed, ((truth - truth.mean(axis=0)) ** 2).sum(axis=0))

    def explained(self, missed: Matrix, variance: Matrix) -> Matrix:
        """R squared by column, from squared errors and variances of its numbers and values: the most of them."""
        group, best = self.group[: len(missed)], np.zeros(self.n_columns)
        missed, variance = np.bincount(group, missed), np.bincount(group, variance)
        found = np.where(variance > 1e-24, 1.0 - missed / np.maximum(variance, 1e-24), 0.0)
        np.maximum.at(best, self.column[np.unique(group, return_index=True)[1]], found)
        return best


def _codes(values: Matrix, times: Matrix) -> Matrix:
    """Values that may stand for themselves: each of few that some samples have, or one that many have, as gaps do."""
    n = int(np.sum(times))
    if len(values) ** 2 <= n:
        return values[times >= RARE_ROWS] if len(values) > 2 else values[:0]
    return values[times >= max(RARE_ROWS, RARE * n)]


def on_grid(table: Matrix) -> Matrix:
    """Which columns are on a grid, as numbers of few digits are."""
    return np.isfinite([_n_values(column) for column in table.T])


def by_content(seen: Seen, truth: Truth) -> Matrix:
    """R squared of columns on the directions that were sent, adjusted for their number: what is in these of them."""
    # A value that few have is in directions of a few samples each by chance: who has it is found by `by_shape`.
    has = np.mean(truth.values > 0, axis=0)
    often = (np.arange(len(has)) < truth.n_columns) | ((has >= RARE) & (has <= 1.0 - RARE))
    V, n, told = truth.values * often, len(truth.values), np.zeros(truth.n_columns)
    lengths = (V**2).sum(axis=0)
    for part in (seen.factor, seen.coordinates[:, : min(seen.n_features, MOST_COORDINATES)]):
        D, windows = in_equal_lengths(part), [part]
        if are_crowded(
            D.shape[1], n
        ):  # a column lies by chance in so many, and is looked for in some after each other
            last = part.shape[1] - n // 4
            windows = [part[:, start : start + n // 4] for start in {*range(0, last, max(1, n // 8)), last}]
            width = max(D.shape[1], seen.n_features if D.shape[1] >= n - 1 else 0)
            rest = ((V - D @ (D.T @ V)) ** 2).sum(axis=0)
            if part is seen.factor and SEPARATED * width <= seen.n_samples:  # more rows tell all directions apart
                told = np.maximum(told, truth.explained(rest, lengths) > WHOLE)
        elif D.shape[1] * (D.shape[1] + 3) <= n // 2:  # squares and products of few directions count, too
            i, j = np.triu_indices(D.shape[1])
            windows.append(np.hstack([D, np.sqrt(n) * D[:, i] * D[:, j]]))
        for window in windows:
            D = in_equal_lengths(window)
            rest = ((V - D @ (D.T @ V)) ** 2).sum(axis=0) * (n - 1) / (n - 1 - D.shape[1])
            told = np.maximum(told, truth.explained(rest, lengths))
    return np.clip(told, 0.0, 1.0)


def are_crowded(n_directions: int, n_rows: int) -> bool:
    """Whether so many directions contain a good deal of any column by chance."""
    return n_directions > n_rows // 4


def _n_values(column: Matrix) -> float:
    """Number of values that a column may have: those it has, if they are few, or all on the grid that it lies on."""
    found = np.unique(column)
    if len(found) ** 2 <= len(column):
        return len(found)
    # Euclid's algorithm for all gaps at once; infinite, where they have no common measure.
    gaps, reach = np.diff(found), found[-1] - found[0]
    step = gaps.min()
    while step > FINEST_GRID * reach:
        rest = np.minimum(gaps % step, step - gaps % step)
        if rest.max() <= ON_GRID * reach:
            return float(1.0 + reach / step)
        step = rest[rest > ON_GRID * reach].min()
    return np.inf


def by_paths(similar: float, seen: Seen, *about: Any) -> Matrix | None:
    """Regression on points by the lengths of shortest paths, where a kernel forgets large distances (Isomap)."""
    if not seen.kernel.unit_diagonal:
        return None
    # Steps join samples whose kernel value is a fair share of their own; far pairs, whose values are noise, get the
    # length of the shortest way over such steps, or half as much again as the farthest if there is none.
    K = seen.factor @ seen.factor.T
    own, apart = np.sqrt(np.maximum(np.diagonal(K), 1e-300)), np.sqrt(np.maximum(_to_one(seen.squared), 0.0))
    steps = np.where(similar * np.outer(own, own) <= K, apart, np.inf)
    lengths = shortest_path(steps, method="FW", directed=False)
    reached = np.isfinite(lengths)
    lengths[~reached] = 1.5 * lengths[reached].max()
    found = points(lengths**2)
    leading = Seen(found[:, : min(seen.n_features, MOST_COORDINATES)], Linear(), 0.0, 0)
    return np.asarray(np.maximum(regressed(found, *about), by_content(leading, about[0])))


def by_shape(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix | None:
    """Naming who has what few samples have, and how many they are: as many of those farthest out."""
    T, scores = len(truth.values), np.zeros((len(draws), truth.n_columns))
    # A single sample's category does not count: of many such in a column, some would be named by chance.
    few = T - np.array([_times(each).max() for each in truth.values.T])
    rare = np.flatnonzero((few > (truth.column < np.arange(len(few)))) & (few < RARE * T))
    if not len(rare):
        return None
    # Projection pursuit from the samples farthest out, of which a spike is one: w <- E z (w'z)^3 - 3 w, of length 1,
    # leads to the nearest direction of largest kurtosis.
    Z = in_equal_lengths(seen.factor) * np.sqrt(T)
    lengths = [np.linalg.norm(each, axis=1) for each in (Z, _to_one(seen.factor - seen.factor.mean(axis=0)))]
    W = Z[np.unique([np.argsort(-each, kind="stable")[: max(3, T // FARTHEST)] for each in lengths])].T
    for _ in range(STEPS):
        W = W / np.maximum(np.linalg.norm(W, axis=0), 1e-300)
        W = Z.T @ (Z @ W) ** 3 / T - 3.0 * W
    order = np.argsort(-np.abs(Z @ W), axis=0, kind="stable")
    for j in rare:  # the square of the correlation of a column, or a category, with who is named
        named = truth.values[order[: few[j]], j].sum(axis=0)
        variance, place = (truth.values[:, j] ** 2).sum() * (few[j] - few[j] ** 2 / T), truth.column[j]
        scores[:, place] = np.maximum(scores[:, place], np.max(named**2) / variance)
    return scores


def by_lengths(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Regression on the lengths of rows: in the message, and beyond it where it has exact ones."""
    parts = [_to_one(part - part.mean(axis=0)) for part in (seen.factor, seen.coordinates)]
    lengths = [np.linalg.norm(part, axis=1, keepdims=True) for part in parts]
    tried = [np.hstack([each, each**2, np.log(np.maximum(each, 1e-300))]) for each in lengths]
    if seen.squares is not None:
        # A column with few large numbers is about the root of what is beyond the factor, less what others have there.
        beyond = _to_one(seen.squares - (seen.factor**2).sum(axis=1, keepdims=True))
        roots = [np.sqrt(np.maximum(beyond - np.quantile(beyond, share), 0.0)) for share in (0.0, 0.25, 0.5)]
        tried += [*roots, np.hstack([beyond, *roots])]
    return np.asarray(np.max([regressed(each, truth, draws) for each in tried], axis=0))


def by_decoding(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Trying all possible rows: if a message tells more bits than a row has, only one of them fits."""
    n, n_known, T, table = truth.n_columns, len(draws[0]), len(truth.table), truth.table
    varying, decoded = np.ptp(table, axis=0) > 0, False
    columns = truth.values[:, n:] if truth.of_categories else truth.values[:, :n]
    Q = scipy.linalg.orth(columns)  # a text column's last 0/1 column follows from others
    if not (d := Q.shape[1]) or not np.ptp(seen.factor, axis=0).any():
        return np.zeros((len(draws), n))
    table = table if truth.of_categories else table[:, _independent(columns, d)]
    # A direction of the message tells as many bits of a row as its rest leaves that is no mixture of columns; with
    # squared lengths, which are mixtures of columns and their squares, beside it.
    spaces = [(Q, seen.factor)]
    if seen.squares is not None:
        squared = columns**2 - (columns**2).mean(axis=0)
        whole = np.hstack([columns, squared / np.maximum(np.linalg.norm(squared, axis=0), 1e-300)])
        spaces.append((scipy.linalg.orth(whole), np.hstack([_to_one(seen.factor), _to_one(seen.squares)])))
    for Q, factor in spaces:
        F, m = in_equal_lengths(factor), Q.shape[1]
        if m < n_known:
            # Mixtures of leading directions leave less, as far as known rows determine these: sines between spaces.
            leading = in_equal_lengths(factor[:, : n_known - 1 - m])
            sines = [np.linalg.norm(F - Q @ (Q.T @ F), axis=0), scipy.linalg.svdvals(leading - Q @ (Q.T @ leading))]
            # Rests are smaller here by chance than among more rows, and larger where known rows tell the mixtures.
            told = [_told(each, np.sqrt(max(1, T - 1 - m) / T * (n_known - m) / n_known)) for each in sines]
            of_a_row = _bits_of_a_row(table, max(MANY_VALUES, *(each.max(initial=0.0) for each in told)))
            decoded = decoded or 0.0 < ENOUGH * of_a_row <= max(each.sum() for each in told)
        # Columns are also found without known rows that determine the mixtures, as short vectors of a lattice (a
        # hidden subset sum): unknown are the other rows, the others' columns, and for each direction d + 1 numbers.
        for others in (columns[:, :0], *([] if seen.mixed is None else [seen.mixed - seen.mixed.mean(axis=0)])):
            P = scipy.linalg.orth(np.hstack([Q, others / np.maximum(np.linalg.norm(others, axis=0), 1e-300)]))
            if P.shape[1] < CROWDED * (T - 1):
                free = T - 1 - P.shape[1]
                bits = _told(np.linalg.norm(F - P @ (P.T @ F), axis=0), np.sqrt(free / T))
                theirs = _bits_of_a_row(others[:, _independent(others, P.shape[1] - m)], EXACT)
                unknown = (T - n_known) * _bits_of_a_row(table, EXACT) + T * theirs
                decoded = decoded or 0.0 < ENOUGH * unknown <= free * bits.sum()
    return np.tile(varying * decoded, (len(draws), 1)).astype(float)


def _told(rests: Matrix, scale: float) -> Matrix:
    """Bits of a row that directions tell, which leave so much beside what they could; noise leaves about `scale`."""
    return np.asarray(-np.log2(np.maximum(rests[rests < MIXED * scale] / scale, np.finfo(float).eps)))


def _independent(columns: Matrix, rank: int) -> Matrix:
    """Numbers of so many columns of which the others follow."""
    return np.sort(scipy.linalg.qr(columns, mode="r", pivoting=True)[1][:rank]) if rank else np.arange(0)


def _bits_of_a_row(table: Matrix, most: float) -> float:
    """Bits of a row's columns, less what these tell of each other; 0/1 columns that exclude each other are one."""
    two = [each == each.max() for each in table.T if len(_times(each)) == 2]
    two = [has if 2 * np.sum(has) <= len(has) else ~has for has in two]  # the rarer value
    groups, others = np.zeros((len(two), len(table))), [each for each in table.T if len(_times(each)) > 2]
    for has in two:
        group = next(each for each in groups if not each[has].any())
        group[has] = group.max() + 1.0
    apart = [*others, *(each == 1.0 for each in groups if each.any())]  # of each group its first column
    found = sum(_bits(each, most) for each in chain(groups, others))
    alike = -0.5 * np.linalg.slogdet(np.corrcoef(apart))[1] / np.log(2.0) if len(apart) > 1 else 0.0
    return float(max(found - alike, min(found, 1.0)))


def _bits(column: Matrix, most: float) -> float:
    """Entropy of a column; a value that a single sample has could have been any that the column may have."""
    times, any_value = _times(column), min(np.log2(_n_values(column)), most)
    return float(min(any_value, (times / len(column)) @ (np.log2(len(column) / times) + any_value * (times == 1))))


def _times(column: Matrix) -> Matrix:
    """How often each value of a column is there."""
    return np.unique(column, return_counts=True)[1]


ATTACKS: dict[str, Callable[[Seen, Truth, Sequence[Matrix]], Matrix | None]] = {
    "factor rows": lambda seen, *about: regressed(seen.factor, *about),
    "distances": lambda seen, *about: regressed(seen.coordinates, *about),
    **{f"paths over similarity {similar:g}": partial(by_paths, similar) for similar in SIMILAR},
    "content": lambda seen, truth, draws: np.tile(by_content(seen, truth), (len(draws), 1)),
    "shape": by_shape,
    "lengths": by_lengths,
    "decoding": by_decoding,
    # Rows but for their signs, which is all that an even power forgets: not measured, and so counted as told.
    "signs": lambda seen, truth, draws: np.ones((len(draws), truth.n_columns)) if seen.forgotten == "signs" else None,
}


def points(squared: Matrix) -> Matrix:
    """Classical multidimensional scaling: points with these squared distances, the longest axis first."""
    # Torgerson: B = -1/2 H D H has the inner products of the centered points, and its eigenvectors times the roots of
    # their eigenvalues are the points, up to a rotation.
    inner = -0.5 * squared
    inner = inner - inner.mean(axis=0)
    inner = inner - inner.mean(axis=1, keepdims=True)
    values, vectors = scipy.linalg.eigh(0.5 * (inner + inner.T))
    kept = values > 1e-12 * max(float(values[-1]), 1e-300)
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept]))[:, ::-1])


def regressions(features: Matrix, known: Matrix, values: Matrix, n_leading: int | None = None) -> Iterator[Matrix]:
    """Estimates for all rows, one after another; some by leading features only, by default as many as columns."""
    # 1) linear ridge on all features, 2) on leading ones, 3) Gaussian ridge of four widths, 4) the mean of the
    # nearest known rows, weighted by one over their distance.
    centered = _to_one(features - features[known].mean(axis=0))
    yield ridge([centered @ centered[known].T], known, values)
    leading = centered[:, : n_leading or values.shape[1]]
    if leading.shape[1] < centered.shape[1]:
        yield ridge([leading @ leading[known].T], known, values)
    squared = cdist(centered, centered[known], "sqeuclidean")
    size = float(np.mean(squared[known])) or 1.0  # where all known rows are the same
    yield ridge([np.exp(-width * squared / size) for width in WIDTHS], known, values)
    near = np.where(squared <= np.sort(squared, axis=1)[:, [min(NEAREST, len(known)) - 1]], squared, np.inf)
    weights = 1.0 / np.sqrt(near + 1e-12 * size)
    yield weights @ values / weights.sum(axis=1, keepdims=True)


def in_equal_lengths(features: Matrix) -> Matrix:
    """Return the directions of the features, each of length 1: what is small in a message is known as exactly."""
    features = _to_one(features)
    centered = features - features.mean(axis=0)
    # Columns of size 1, made orthogonal one after another (QR with pivots: rounding comes last). An SVD would mix
    # columns of equal lengths, and what is in few of them would be in all.
    size = np.abs(centered).max(axis=0)
    kept = size > ROUNDING * np.abs(features).max(axis=0)
    if not kept.any():
        return np.zeros((len(features), 1))
    Q, R, _ = scipy.linalg.qr(centered[:, kept] / size[kept], mode="economic", pivoting=True)
    lengths = np.abs(np.diagonal(R))
    return np.asarray(Q[:, : len(lengths)][:, lengths > ROUNDING * lengths[0]])


def ridge(similar: Sequence[Matrix], known: Matrix, values: Matrix) -> Matrix:
    """Ridge by kernels (all rows x known); a column takes kernel and penalty best when known rows are left out."""
    mean = values.mean(axis=0)
    best, guess = np.full(len(mean), np.inf), np.broadcast_to(mean, (len(similar[0]), len(mean))).copy()
    for K in similar:
        # (K + penalty) alpha = y - mean for all penalties at once: K = U diag(spectrum) U'; the error of a row left
        # out is alpha_i / ((K + penalty)^-1)_ii.
        spectrum, U = np.linalg.eigh(K[known])
        if spectrum[-1] <= 0:
            continue
        inverse = 1.0 / (np.maximum(spectrum, 0.0)[:, None] + spectrum[-1] * PENALTIES)  # (known, penalties)
        of_itself = (U**2 @ inverse)[:, :, None]
        for part in np.array_split(np.arange(len(mean)), 1 + len(mean) // MOST_AT_ONCE):
            turned = inverse[:, :, None] * (U.T @ (values - mean)[:, part])[:, None, :]
            alpha = (U @ turned.reshape(len(U), -1)).reshape(turned.shape)
            left_out = ((alpha / of_itself) ** 2).sum(axis=0)
            chosen = np.argmin(left_out, axis=0)
            (better,) = np.nonzero(left_out.min(axis=0) < best[part])
            best[part[better]] = left_out[chosen[better], better]
            guess[:, part[better]] = K @ alpha[:, chosen[better], better] + mean[part[better]]
    return guess


KNOWN_ROWS = 30
MOST_ROWS = 600  # attacked at most: what holds for these holds for the others, and paths cost their cube
DRAWS = 5
FEW_ROWS, FEW_DRAWS = 200, 2  # of a rough measurement
RECOVERED = 0.5  # a column counts as recovered from this R squared on


@dataclass(frozen=True)
class Measurement:
    """What the attacks made of all that was seen.

    Attributes
    ----------
    known_rows, rows : int
        Rows that the attacker was given, and rows attacked, those included.
    by_attack : dict of str to tuple of float
        For each attack R squared by column of the table, the mean over several draws of known rows; none is below 0.
    not_measured : str
        Why there is nothing to measure; empty if there is.

    Examples
    --------
    >>> import dkpca
    >>> dkpca.recovery.Measurement(30, 200, {"distances": (1.0, 0.25)}).sentence()
    'an attacker who knows 30 rows can recover 1 of 2 columns (R² 0.25 to 1.00)'
    """

    known_rows: int
    rows: int
    by_attack: dict[str, tuple[float, ...]] = field(default_factory=dict)
    not_measured: str = ""

    @property
    def columns(self) -> tuple[float, ...]:
        """R squared of the strongest attack, by column."""
        return tuple(map(float, np.max(list(self.by_attack.values()), axis=0))) if self.by_attack else ()

    @property
    def worst(self) -> float:
        """R squared of the column that is recovered best; 0 where nothing was measured."""
        return max(self.columns, default=0.0)

    def sentence(self) -> str:
        """One line for the person who decides whether to send the message."""
        if self.not_measured:
            return f"recovery is not measured: {self.not_measured}"
        found = self.columns
        recovered = sum(value >= RECOVERED for value in found)
        spread = " to ".join(dict.fromkeys(f"{value:.2f}" for value in (min(found), max(found))))
        return (
            f"an attacker who knows {counted(self.known_rows, 'row')} can recover {recovered:,} of "
            f"{counted(len(found), 'column')} (R² {spread})"
        )


def measure(
    summary: Summary, X: Any, *, known_rows: int = KNOWN_ROWS, random_state: int = 0, roughly: bool = False
) -> Measurement:
    """Attack a summary with some rows of the table as known, and say how well the others come out.

    Parameters
    ----------
    summary : Summary
        The message, as it would leave.
    X : array of shape (n_samples, n_features)
        The party's columns that it was made from; what scales and shifts a column changes nothing.
    known_rows, random_state : int, default=30 and 0
        Rows that the attacker knows (at most half of them, or all but 20), and the seed by which these and those
        attacked are drawn.
    roughly : bool
        Whether to attack few rows in few draws: quick, and no more than a hint.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> summary, _ = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.RBF(0.1), rank=30)
    >>> found = dkpca.recovery.measure(summary, X, known_rows=20)
    >>> found.known_rows, found.worst > 0.9
    (20, True)
    """
    table = to_numpy(X)
    if table.shape != (expected := (summary.n_samples, summary.n_features)):
        raise InputError(f"the summary is about a table of shape {expected}, this one has the shape {table.shape}")
    if summary.kernel.columns_are == "categories" and table.dtype.kind not in "biuf":  # only which are equal counts
        table = np.column_stack([np.unique(column.astype(str), return_inverse=True)[1] for column in table.T])
    table = np.asarray(table, dtype=np.float64)
    if summary.kernel.columns_are == "samples" and not summary.turned:
        return Measurement(known_rows, 0, not_measured="the table is a matrix of similarities, without columns")
    order = np.random.default_rng(random_state).permutation(len(table))
    most, n_draws = (max(FEW_ROWS, 2 * known_rows), FEW_DRAWS) if roughly else (MOST_ROWS, DRAWS)
    rows = np.sort(rare_first(order, table)[: min(most, MOST_ROWS)])
    about = summary.kernel.columns_are, known_rows, random_state, n_draws
    return against([seen_in(summary, rows)], table[rows], *about)


def against(
    seen: Sequence[Seen],
    table: Matrix,
    columns_are: str = "quantities",
    known_rows: int = KNOWN_ROWS,
    random_state: int = 0,
    n_draws: int = DRAWS,
) -> Measurement:
    """Attack all that somebody has seen of some rows, one by one and side by side."""
    truth, draws = Truth.of(table, columns_are), draws_of(len(table), known_rows, random_state)[:n_draws]
    # The strongest result of each attack counts. Two factors of the same rows may tell together what neither tells.
    found = [run(each, truth, draws) for each in seen]
    for each in (one for one in seen if one.forgotten == "lengths"):
        scaled = standardized(table, *column_scales(table))
        found += [run(each, Truth.of(_directions(part)), draws) for part in (table, scaled)]
    if len(seen) > 1:
        parts = [_to_one(part) for each in seen for part in (each.factor, each.coordinates)]
        of = {name: max(getattr(each, name) for each in seen) for name in ("n_features", "n_samples")}
        found.append(run(Seen(np.hstack(parts), Linear(), 0.0, **of), truth, draws))
    strongest: dict[str, tuple[float, ...]] = {}
    for name, scores in chain.from_iterable(each.items() for each in found):
        strongest[name] = tuple(map(max, strongest.get(name, scores), scores))
    return Measurement(len(draws[0]), len(table), strongest)


def told_by(columns: Sequence[int], table: Matrix, columns_are: str, known_rows: int) -> tuple[float, ...]:
    """R squared by column of what some columns tell of it, each by itself, to whoever has them and some rows."""
    truth, draws = Truth.of(table, columns_are), draws_of(len(table), known_rows, 0)[:FEW_DRAWS]
    found = [_mean(regressed(truth.table[:, [j]], truth, draws)) for j in columns]
    return tuple(map(max, *found)) if len(found) > 1 else found[0]


def _directions(table: Matrix) -> Matrix:
    """Rows brought to length 1; those of zeros stay."""
    size = np.abs(table).max(axis=1, keepdims=True)
    rows = table / np.where(size > 0, size, 1.0)  # first, since squares may overflow
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))


def rare_first(order: Matrix, table: Matrix) -> Matrix:
    """Return the order of rows with some first that have what few have: else there might be none among the first."""
    found = list[tuple[float, int]]()  # how far out a row is, in standard deviations of a column or of having a value
    for column in table[order].T:
        values, which, counts = np.unique(column, return_inverse=True, return_counts=True)
        if len(values) ** 2 <= len(column) or counts.max() > (1.0 - RARE) * len(column):
            usual = which == np.argmax(counts)
            has = counts[which] if len(values) ** 2 <= len(column) else np.where(usual, len(column), np.sum(~usual))
            out = np.where(has < RARE * len(column), np.sqrt(len(column) / has - 1.0), 0.0)
        else:
            scaled = column / (float(np.abs(values).max()) or 1.0)  # since squares may overflow
            far = np.abs(scaled - scaled.mean()) / scaled.std()
            out = np.where(far > FAR_OUT, far, 0.0)
        rows = np.argsort(-out, kind="stable")[:RARE_ROWS]
        found += zip(out[rows][out[rows] > 0].tolist(), rows[out[rows] > 0].tolist(), strict=True)
    front = list(dict.fromkeys(row for _, row in sorted(found, key=lambda each: -each[0])))[: MOST_ROWS // 4]
    return order[[*front, *np.setdiff1d(np.arange(len(order)), front)]]


def run(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> dict[str, tuple[float, ...]]:
    """R squared by attack and column, for the attacks that have a meaning here."""
    found = ((name, attack(seen, truth, draws)) for name, attack in ATTACKS.items())
    return {name: _mean(scores) for name, scores in found if scores is not None}


def _mean(scores: Matrix) -> tuple[float, ...]:
    return tuple(np.mean(np.clip(scores, 0.0, 1.0), axis=0).round(6).tolist())


def draws_of(n_samples: int, known_rows: int, random_state: int) -> list[Matrix]:
    """Some choices of rows that an attacker knows."""
    random, most = np.random.default_rng(random_state), max(n_samples // 2, n_samples - LEFT)
    known = max(1, min(known_rows, most))
    return [random.permutation(n_samples)[:known] for _ in range(DRAWS)]


def regressed(features: Matrix, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Scores of the regression that does best."""
    n_leading = len(truth.column if truth.of_categories else truth.lengths)
    return best_of(lambda known: regressions(features, known, truth.values[known], n_leading), truth, draws)


def best_of(guesses: Callable[[Matrix], Iterable[Matrix]], truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Scores of the guess from known rows that does best over all draws, by column."""
    tried = [[truth.score(guess, known) for guess in guesses(known)] for known in draws]
    scores = np.array(list(zip(*tried, strict=True)))  # (regressions, draws, columns)
    best = np.argmax(np.clip(scores, 0.0, 1.0).mean(axis=1), axis=0)
    return np.asarray(np.take_along_axis(scores, best[None, None, :], axis=0)[0])


def _to_one(values: Matrix) -> Matrix:
    """Brought to size 1, so that squares neither vanish nor overflow; no attack depends on the scale."""
    size = float(np.max(np.abs(values), initial=0.0))
    return values / size if size > 0 else values


def seen_in(summary: Summary, rows: Matrix) -> Seen:
    """What a summary shows of some rows."""
    sent = summary.factor
    factor = Rounded(to_numpy(sent.data)[rows], None if sent.scale is None else to_numpy(sent.scale)).decode()
    left_out = max(0.0, summary.trace_left_out) / summary.n_samples
    kernel = Linear() if summary.turned else summary.kernel  # of turned samples nobody knows more than inner products
    squares = None if summary.diagonal is None or summary.turned else to_numpy(summary.diagonal.decode())[rows]
    return Seen(factor, kernel, left_out, summary.n_features, summary.n_samples, squares)
