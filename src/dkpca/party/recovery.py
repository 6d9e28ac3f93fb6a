"""How well somebody who knows some of a party's rows could rebuild the others from all that a plan sends.

The party runs the attacks on itself, on exactly what is about to leave, and sees R squared by column on rows that the
attacker did not know. Nothing of it leaves. Each attack takes what was seen, the truth and draws of known rows, and
returns R squared by column, one line per draw; None where it has no meaning. Unknown rows count for its score alone.
Only the search for independent components starts at the truth, which errs to the safe side: by much for flat columns
(0.88 where a search from anywhere finds nothing). For decoding and few values, whether they would succeed is counted.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np
import scipy.linalg
from scipy.sparse.csgraph import shortest_path
from scipy.spatial.distance import cdist

from dkpca.errors import InputError
from dkpca.kernels import Kernel, Linear
from dkpca.linalg.arrays import quiet, to_numpy
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
MOST_COMPONENTS = 500  # looked for by ICA, among ...
MOST_SAMPLES = 10_000  # ... so many samples
MOST_NUMBERS = 2**23  # of these
NEARLY_SENT = 0.25  # share of such a column's length off all that was sent: with more it is not there
RARE = 0.1  # of the samples: known rows hardly tell about a column that fewer have
RARE_ROWS = 5  # attacked of such a column, whatever the others are; fewer of one value are named by chance
FAR_OUT = 10.0  # standard deviations from the mean; if several rows are so far out, they are one in a hundred at most
FENCE = 1.5  # Tukey's, of quartile ranges beyond the quartiles: values beyond are far out
FARTHEST = 50  # one sample in so many is far out
FEWEST_ROWS = 3  # that two studies share: fewer have no directions to compare
LEFT = 20  # rows that an attacker of few does not know
CROWDED = 0.9  # directions for each sample: among more, a column lies by chance
STEPS = 20  # of ICA from the truth: what many samples do not hold there is lost in few
ON_GRID = 1e-9  # of a column's range, by which numbers of a grid may be off it
FINEST_GRID = 1e-7  # step of one, as a share of that range: among finer ones all numbers are on a grid by chance
MIXED = 0.9  # a direction of a message that is a mixture of columns but for this share tells bits of a row
ENOUGH = 0.9  # of a row's bits: with these most rows are told
MANY_VALUES = 7.0  # bits of a column with any number of values, however few are told
WEIGHED_ROWS = 100  # by which a distance's scales of columns are found, and at most so many that are moved
ROUNDING = 1e-13  # directions shorter than this share of the longest are no part of what was sent
WILD = 1e100  # a guess of a number of size 1 beyond this is as wrong as any


@dataclass(frozen=True)
class Seen:
    """What somebody holds who holds the message."""

    factor: Matrix  # (n_samples, rank), the samples under attack
    kernel: Kernel
    left_out: float  # of a diagonal entry of the Gram matrix, on average
    n_features: int  # columns the message says the party has
    others: Matrix | None = None  # further samples of the factor: with more, independent components are found better
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

    @cached_property
    def of_all(self) -> Matrix:
        """Leading coordinates of these samples, and after them of the others, by their distances from these."""
        n, leading = len(self.factor), self.coordinates[:, : min(self.n_features, MOST_COMPONENTS)]
        found, size = [leading], float(np.max(np.abs(self.squared), initial=0.0)) or 1.0  # that coordinates are in
        for part in [] if self.others is None else np.array_split(self.others, 1 + len(self.others) // MOST_ROWS):
            both = replace(self, factor=np.vstack([self.factor, part]), others=None).squared
            found.append(placed(leading, self.squared / size, both[n:, :n] / size))
        return np.vstack(found)


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
        # who has anything but the value that half of the samples have, and who has one that few have.
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
            group, unit = p + column, np.ones(len(column))
        else:
            # Where half of the samples have one value, so that quartiles are equal, they are those of the others.
            most = np.array([found[np.argmax(times)] for found, times in counted])
            low, high = np.quantile(scaled, [0.25, 0.75], axis=0)
            usual = (scaled == most) & (low == high) & ~constant
            low, high = np.nanquantile(np.where(usual, np.nan, scaled), [0.25, 0.75], axis=0)
            inner = np.clip(scaled, low - FENCE * (high - low), high + FENCE * (high - low))
            inner, has = np.where(usual, scaled, inner), (scaled != most).astype(float)
            far = np.flatnonzero((inner != scaled).any(axis=0))
            mostly = np.flatnonzero([len(found) > 2 and 2 * times.max() >= n for found, times in counted])
            rare = dict[int, Any]()  # the rarest value of each column of few that does not stand out by chance
            for j, (found, times) in enumerate(counted):
                least = times[times >= RARE_ROWS].min(initial=n)
                if 2 < len(found) <= np.sqrt(n) and least < RARE * n:
                    rare[j] = found[times == least][0]
            named = np.array([scaled[:, j] == each for j, each in rare.items()], dtype=float).reshape(-1, n).T
            behind = np.hstack([inner[:, far], has[:, mostly], named])
            column = np.array([*far, *mostly, *rare], dtype=int)
            group, unit = p + np.arange(len(column)), np.linalg.norm(behind - behind.mean(axis=0), axis=0)
        values = np.hstack([numbers / lengths, (behind - behind.mean(axis=0)) / unit])
        column, group = (np.concatenate([np.arange(p), each]) for each in (column, group))
        return cls(values, lengths * (size / size.max()), column, group, scaled, columns_are == "categories")

    def score(self, guess: Matrix, known: Matrix) -> Matrix:
        """R squared by column on the rows not known, as numbers, categories or cut off: the most; 0 for constants."""
        others, group = np.setdiff1d(np.arange(len(guess)), known), self.group[: guess.shape[1]]
        # R^2 = 1 - |truth - guess|^2 / |truth - mean|^2, over the rows that the attacker did not know.
        truth = self.values[others, : guess.shape[1]]
        missed = np.bincount(group, ((truth - np.clip(guess[others], -WILD, WILD)) ** 2).sum(axis=0))
        variance = np.bincount(group, ((truth - truth.mean(axis=0)) ** 2).sum(axis=0))
        found = np.where(variance > 1e-24, 1.0 - missed / np.maximum(variance, 1e-24), 0.0)
        best = np.zeros(self.n_columns)
        np.maximum.at(best, self.column[np.unique(group, return_index=True)[1]], found)
        return best


def on_grid(table: Matrix) -> Matrix:
    """Which columns are on a grid, as numbers of few digits are."""
    return np.isfinite([_n_values(column) for column in table.T])


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
    return regressed(points(lengths**2), *about)


def by_rotation(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Points are the columns up to a rotation and a shift: Procrustes finds both from fewer rows than ridge."""
    values, points = truth.values[:, : truth.n_columns], seen.coordinates[:, : truth.n_columns]

    def guesses(known: Matrix) -> list[Matrix]:
        with quiet():  # a column that is tiny beside the others is guessed wildly
            turned = rotated(points, known, (values * truth.lengths)[known]) / truth.lengths
        return [turned, unmixed(seen.factor, known, values[known])]

    return best_of(guesses, truth, draws)


def by_independence(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Independent components of the points; the known rows only tell which of them a column is, and its unit."""
    values = truth.values[:, : truth.n_columns]
    found = independent_components(seen.of_all, values)[: len(values)]

    def guesses(known: Matrix) -> list[Matrix]:
        # Each column is matched with the component that explains most of its known values by a straight line.
        F, V = found[known] - found[known].mean(axis=0), values[known] - values[known].mean(axis=0)
        slopes = (F.T @ V) / np.maximum((F**2).sum(axis=0), 1e-300)[:, None]
        which = np.argmax(slopes**2 * (F**2).sum(axis=0)[:, None], axis=0)
        guess = (found - found[known].mean(axis=0))[:, which] * slopes[which, np.arange(truth.n_columns)]
        return [guess + values[known].mean(axis=0)]

    return best_of(guesses, truth, draws)


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


def by_lengths(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix | None:
    """Regression on what the message says about the lengths of rows, beyond those of the factor."""
    if seen.squares is None:
        return None
    # A column with few large numbers is about the root of what is beyond the factor, less what the others have there.
    beyond = _to_one(seen.squares - (seen.factor**2).sum(axis=1, keepdims=True))
    roots = [np.sqrt(np.maximum(beyond - np.quantile(beyond, share), 0.0)) for share in (0.0, 0.25, 0.5)]
    tried = [regressed(each, truth, draws) for each in (*roots, np.hstack([beyond, *roots]))]
    return np.asarray(np.max(tried, axis=0))


def by_values(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Searching what was sent for columns on a grid, which are there once, if at all; then for what is beside."""
    scores, n = np.zeros((len(draws), truth.n_columns)), len(truth.values)
    varying = np.flatnonzero(np.linalg.norm(truth.values, axis=0) > 0)
    V = truth.values[:, varying] / np.linalg.norm(truth.values[:, varying], axis=0)
    bits = n * np.array([_bits(each, -np.log2(np.finfo(float).eps)) for each in V.T])
    for part in (seen.factor, seen.coordinates[:, : min(seen.n_features, MOST_COMPONENTS)]):
        # A column that is in the m directions sent, but for a share, is told so many bits by the other n - m; all of
        # its samples together have n times its entropy. It is found by turns, as the nearest vector that was sent and
        # the nearest on the grid (difference map), or as a short vector of a lattice (LLL).
        D = in_equal_lengths(part)
        rest = np.maximum(np.linalg.norm(V - D @ (D.T @ V), axis=0), np.finfo(float).eps)
        found = (rest < NEARLY_SENT) & ((n - 1 - D.shape[1]) * -np.log2(rest) > bits)
        scores[:, truth.column[varying[found]]] = 1.0
        # What a column adds to inner products points one way among the features; without it, others are seen better.
        F = _to_one(part - part.mean(axis=0))
        ways = scipy.linalg.orth(np.linalg.lstsq(F, V[:, found], rcond=None)[0])
        if 0 < ways.shape[1] < F.shape[1]:
            scores = np.maximum(scores, regressed(F - F @ ways @ ways.T, truth, draws))
    return scores


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
                most = max(MANY_VALUES, bits.max(initial=0.0))
                theirs = _bits_of_a_row(others[:, _independent(others, P.shape[1] - m)], most)
                unknown = (T - n_known) * _bits_of_a_row(table, most) + T * theirs
                decoded = decoded or 0.0 < ENOUGH * unknown <= free * bits.sum()
    return np.tile(varying * decoded, (len(draws), 1)).astype(float)


def by_axes(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix | None:
    """Distances that change when rows are rotated fix every column by itself: counted, with the other rows known."""
    kernel, Z, n_known, r = seen.kernel, truth.table, len(draws[0]), seen.factor.shape[1]
    n, p = Z.shape
    if kernel.columns_are == "categories" and truth.of_categories:
        # Rows differ in so many columns: bits of such a count, as exact as it was sent, against those of a row.
        D, pairs = kernel.squared_distances(np.asarray(kernel(Z, Z)), 1e-300), np.triu_indices(n, 1)
        spread, off = np.var(D[pairs]), np.var(seen.squared[pairs] - D[pairs])
        bits = 0.5 * np.log2(max(1.0, spread * min(2.0 * np.pi * np.e, 1.0 / max(off, 1e-300))))
        decoded = ENOUGH * _bits_of_a_row(Z, MANY_VALUES) <= bits * min(r, (n + n_known) // 2)
        return np.tile((np.ptp(Z, axis=0) > 0) * decoded, (len(draws), 1)).astype(float)
    if kernel.derivative(Z[0], Z) is None or 2 * p > n + n_known:  # fewer distances than numbers
        return None
    # The scale of each column, by least squares on the distances of some rows.
    some, pairs = Z[:WEIGHED_ROWS], np.triu_indices(min(n, WEIGHED_ROWS), 1)
    apart = [np.asarray(kernel.partial(x[:, None], x[:, None]))[pairs] for x in some.T]
    *weights, shift = np.linalg.lstsq(np.column_stack([*apart, np.ones(len(apart[0]))]), seen.squared[pairs])[0]
    Z = Z * np.maximum(weights, 0.0)
    # One step of Newton from the truth: what the errors of a row's distances move it by, d(x + h, y) = d + h d'.
    moved = np.zeros((0, p))
    for row in range(0, n, -(-n // WEIGHED_ROWS)):
        others = np.delete(np.arange(n), row)
        off = seen.squared[row, others] - shift - np.asarray(kernel.partial(Z[row : row + 1], Z[others]))[0]
        changes: Any = kernel.derivative(Z[row], Z[others])
        moved = np.vstack([moved, np.linalg.lstsq(changes, off)[0]])
    told = np.clip(1.0 - np.mean(moved**2, axis=0) / np.maximum(np.var(Z, axis=0), 1e-300), 0.0, 1.0)
    told = np.where(np.ptp(Z, axis=0) > 0, told, 0.0)  # nothing tells of a column without any weight
    # So many numbers of a row do not tell more columns than they are.
    return np.tile(told * min(1.0, r / max(told.sum(), 1e-300)), (len(draws), 1))


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
    "rotation": by_rotation,
    "independence": by_independence,
    "shape": by_shape,
    "lengths": by_lengths,
    "few values": by_values,
    "decoding": by_decoding,
    "axes": by_axes,
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


def placed(points: Matrix, squared: Matrix, to_others: Matrix) -> Matrix:
    """Further samples beside points, by their squared distances from these (landmark multidimensional scaling)."""
    # b = -1/2 (d - the points' mean d) has inner products with the centered points C, up to a constant: its
    # coordinates are b C / |C_k|^2, in the unit of C.
    lengths = (points**2).sum(axis=0)
    with quiet():
        found = -0.5 * (to_others - squared.mean(axis=0)) @ (points / np.maximum(lengths, 1e-300))
    return np.asarray(np.nan_to_num(found))


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


def regressions_on_directions(directions: Matrix, known: Matrix, values: Matrix, n_best: int) -> Iterator[Matrix]:
    """Estimates by ridge on directions of length 1: all, and those that tell most of the columns."""
    # A column may be in few directions, wherever these are: those whose known rows correlate most with known values.
    centered, V = directions - directions[known].mean(axis=0), values - values.mean(axis=0)
    yield ridge([centered @ centered[known].T], known, values)
    F = centered[known] / np.maximum(np.linalg.norm(centered[known], axis=0), 1e-300)
    explained = ((F.T @ (V / np.maximum(np.linalg.norm(V, axis=0), 1e-300))) ** 2).sum(axis=1)
    few = centered[:, np.argsort(-explained, kind="stable")[:n_best]]
    yield ridge([few @ few[known].T], known, values)


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


def rotated(features: Matrix, known: Matrix, values: Matrix) -> Matrix:
    """Estimates for all rows by the rotation and scale that bring the known ones closest to their values."""
    middle, mean = features[known].mean(axis=0), values.mean(axis=0)
    # Orthogonal Procrustes with a scale: min |s F R - V| over rotations R and s > 0, by F'V = U S W': R = U W',
    # s = sum S / |F|^2.
    F, V = features[known] - middle, values - mean
    U, singular, Wt = np.linalg.svd(F.T @ V, full_matrices=False)
    length = float((F**2).sum())
    scale = float(singular.sum()) / length if length > 0 else 0.0
    return np.asarray(scale * (features - middle) @ (U @ Wt) + mean)


def unmixed(features: Matrix, known: Matrix, values: Matrix) -> Matrix:
    """Estimates for all rows, each column on a line where the known rows say that its own mixture points."""
    # F = 1 c' + X B by least squares: column j is fitted on the single feature F b_j.
    F, V = _to_one(features - features[known].mean(axis=0)), values - values.mean(axis=0)
    found = F @ np.linalg.lstsq(V, F[known], rcond=None)[0].T
    slopes = (found[known] * V).sum(axis=0) / np.maximum((found[known] ** 2).sum(axis=0), 1e-300)
    return np.asarray(found * slopes + values.mean(axis=0))


def independent_components(points: Matrix, start: Matrix | None = None) -> Matrix:
    """Centered components of length 1: first near the columns of `start`, which are of the first of the points."""
    # Whitened points, without directions that are only rounding.
    centered = _to_one(points - points.mean(axis=0))
    squares, V = np.linalg.eigh(centered.T @ centered)
    kept = squares > 1e-13 * max(float(squares.max(initial=0.0)), 1e-300)
    white = centered @ (V[:, kept] * np.sqrt(len(points) / squares[kept]))
    if white.shape[1] == 0:
        return np.zeros((len(points), 1))
    guess, random = np.zeros((white.shape[1], 0)), np.random.default_rng(0).normal(size=(white.shape[1],) * 2)
    if start is not None:
        guess = np.linalg.lstsq(white[: len(start)], start, rcond=None)[0]
    size = float(np.max(np.abs(guess), initial=0.0)) or 1.0
    W = scipy.linalg.qr(np.hstack([guess / size, 1e-6 * random]), mode="economic", pivoting=True)[0].T
    # FastICA: W <- E g(Wx) x' - E g'(Wx) W with g = tanh, made orthogonal by its polar factor. scikit-learn's divides
    # by the eigenvalues of WW', and so by zero where two directions fall together, which this start makes likely.
    for _ in range(STEPS if start is not None else 10 * STEPS):
        Y = np.tanh(white @ W.T)
        U, _, Vt = np.linalg.svd(Y.T @ white / len(white) - (1.0 - np.mean(Y**2, axis=0))[:, None] * W)
        W, before = U @ Vt, W
        if np.max(np.abs(np.abs(np.sum(W * before, axis=1)) - 1.0)) < 1e-4:
            break
    found = white @ W.T
    return np.asarray(found / np.maximum(np.linalg.norm(found, axis=0), 1e-300))


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
    *,
    united: bool = False,
) -> Measurement:
    """Attack all that somebody has seen of some rows, one by one and side by side; united: by all attacks."""
    truth, draws = Truth.of(table, columns_are), draws_of(len(table), known_rows, random_state)[:n_draws]
    # The strongest result of each attack counts. Two factors of the same rows may tell together what neither tells.
    found = [run(each, truth, draws) for each in seen]
    for each in (one for one in seen if one.forgotten == "lengths"):
        scaled = standardized(table, *column_scales(table))
        found += [run(each, Truth.of(_directions(part)), draws) for part in (table, scaled)]
    if len(seen) > 1:
        parts = [_to_one(part) for each in seen for part in (each.factor, each.coordinates)]
        both = Seen(np.hstack(parts), Linear(), 0.0, max(each.n_features for each in seen))
        decoded = by_decoding(both, truth, draws)
        found.append({"side by side": _mean(regressed(both.factor, truth, draws)), "decoding": _mean(decoded)})
        if united:
            found.append(run(both, truth, draws))
    strongest: dict[str, tuple[float, ...]] = {}
    for name, scores in chain.from_iterable(each.items() for each in found):
        strongest[name] = tuple(map(max, strongest.get(name, scores), scores))
    return Measurement(len(draws[0]), len(table), strongest)


def _directions(table: Matrix) -> Matrix:
    """Rows brought to length 1; those of zeros stay."""
    size = np.abs(table).max(axis=1, keepdims=True)
    rows = table / np.where(size > 0, size, 1.0)  # first, since squares may overflow
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300))


def told_twice(now: Sequence[Seen], before: Sequence[Seen], table: Matrix, n_samples: int) -> Matrix:
    """R squared by column of what is both in what is seen now and in what was seen before, where weights were others.

    Two matrices X W X' with different weights W have the columns as their generalized eigenvectors: nobody needs to
    know a row. Counted, not run, since the samples that all parties have, and so the weights, are not known yet.
    """
    p = table.shape[1]

    def shares_in(seen: Sequence[Seen]) -> Matrix:
        told = np.zeros(p)
        for each in seen:
            rows = np.any(each.factor != 0, axis=1)  # the others were not in that study, or not attacked there
            n = int(np.sum(rows))
            if n < FEWEST_ROWS:
                continue
            V, all_columns = Truth.of(table[rows]).values[:, :p], max(each.n_features, p)
            leading = each.coordinates[rows, : min(each.n_features, MOST_COMPONENTS)]
            for part, width in ((each.factor[rows], each.factor.shape[1]), (leading, all_columns)):
                if width >= n_samples - 1:  # as many ways to vary as samples: no column is an eigenvector
                    continue
                D = in_equal_lengths(part)
                # R squared of a column on these directions, adjusted for their number.
                if D.shape[1] < CROWDED * (n - 1):
                    rest = np.linalg.norm(V - D @ (D.T @ V), axis=0) ** 2 * (n - 1) / (n - 1 - D.shape[1])
                    told = np.maximum(told, np.any(V != 0, axis=0) - rest)
                elif all_columns < n_samples - 1:  # too few rows are attacked to see what is in it
                    told[:] = 1.0
        return np.clip(told, 0.0, 1.0)

    return np.minimum(shares_in(now), shares_in(before))


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
    directions = in_equal_lengths(features)

    def guesses(known: Matrix) -> Iterable[Matrix]:
        about = known, truth.values[known], len(truth.column if truth.of_categories else truth.lengths)
        return chain(regressions(features, *about), regressions_on_directions(directions, *about))

    return best_of(guesses, truth, draws)


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
    """What a summary shows of some rows, and beside them of others."""
    sent, rest = summary.factor, np.setdiff1d(np.arange(summary.n_samples), rows)
    most = min(MOST_SAMPLES, MOST_NUMBERS // max(1, sent.shape[1]))
    rest = np.random.default_rng(0).permutation(rest)[: max(0, most - len(rows))]
    scale = None if sent.scale is None else to_numpy(sent.scale)
    factor, others = (Rounded(to_numpy(sent.data)[some], scale).decode() for some in (rows, rest))
    left_out = max(0.0, summary.trace_left_out) / summary.n_samples
    kernel = Linear() if summary.turned else summary.kernel  # of turned samples nobody knows more than inner products
    squares = None if summary.diagonal is None or summary.turned else to_numpy(summary.diagonal.decode())[rows]
    return Seen(factor, kernel, left_out, summary.n_features, others if len(rest) else None, squares)
