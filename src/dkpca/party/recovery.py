"""How well somebody who knows some of a party's rows could rebuild the others from its message.

The party runs the attacks on itself, on exactly the message about to leave, and sees R squared by column on rows that
the attacker did not know. Nothing of it leaves. Each attack is a function of what was seen, the truth and the draws
of known rows. It uses no other row of the truth, but for its score: R squared by column on the rows not known,
one line per draw; None where the attack has no meaning for the kernel.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import scipy.linalg

from dkpca.errors import InputError
from dkpca.kernels import Kernel, Linear
from dkpca.linalg.arrays import quiet, to_numpy
from dkpca.linalg.precision import Rounded
from dkpca.messages import Summary
from dkpca.wording import counted, known_rows_recover

__all__ = ["Measurement", "measure"]

Matrix = np.ndarray[Any, Any]
PENALTIES = np.logspace(-12.0, 2.0, 29)  # of ridge, as shares of the largest eigenvalue
CAUTION = 0.1  # kernel values below this share of what the message left out of a diagonal are noise
MOST_COMPONENTS = 40  # looked for by ICA
WILD = 1e100  # a guess of a number of size 1 beyond this is as wrong as any


@dataclass(frozen=True)
class Seen:
    """What somebody holds who holds the message."""

    factor: Matrix  # (n_samples, rank), the samples under attack
    kernel: Kernel
    left_out: float  # of a diagonal entry of the Gram matrix, on average
    n_features: int  # columns the message says the party has

    @cached_property
    def coordinates(self) -> Matrix:
        """Samples as points whose distances are those over the party's columns, but for a common factor."""
        K = self.factor @ self.factor.T
        return points(_to_one(self.kernel.squared_distances(K, max(CAUTION * self.left_out, 1e-12))))


@dataclass(frozen=True)
class Truth:
    """The table, each column centered and of length 1; a category is as many columns as it has values."""

    values: Matrix  # (n_samples, n_numbers)
    lengths: Matrix  # (n_numbers,) that they had, up to one factor for all
    column: Matrix  # (n_numbers,) of the table; all of a category's belong together
    n_columns: int

    @classmethod
    def of(cls, table: Matrix, kernel: Kernel) -> "Truth":
        """Bring columns to one scale, which no score depends on."""
        categories = kernel.columns_are == "categories"
        numbers, column = _indicators(table) if categories else (table, np.arange(table.shape[1]))
        size = np.abs(numbers).max(axis=0)
        size = np.where(size > 0, size, 1.0)
        numbers = numbers / size  # first, since squares may overflow
        numbers = numbers - numbers.mean(axis=0)
        lengths = np.linalg.norm(numbers, axis=0)
        constant = lengths < 1e-12
        numbers, lengths = np.where(constant, 0.0, numbers), np.where(constant, 1.0, lengths)
        if categories:
            return cls(numbers, np.ones_like(lengths), column, table.shape[1])
        return cls(numbers / lengths, lengths * (size / size.max()), column, table.shape[1])

    @property
    def categories(self) -> bool:
        """Whether columns of the table are several numbers."""
        return len(self.column) != self.n_columns

    def score(self, guess: Matrix, known: Matrix) -> Matrix:
        """R squared by column on the rows that were not known; a column that is constant there has none to give."""
        others = np.ones(len(guess), dtype=bool)
        others[known] = False
        truth, missed = self.values[others], (self.values - np.clip(guess, -WILD, WILD))[others]
        variance = self._by_column(((truth - truth.mean(axis=0)) ** 2).sum(axis=0))
        return np.where(
            variance > 1e-24, 1.0 - self._by_column((missed**2).sum(axis=0)) / np.maximum(variance, 1e-24), 0.0
        )

    def _by_column(self, sums: Matrix) -> Matrix:
        return np.bincount(self.column, weights=sums, minlength=self.n_columns)


Attack = Callable[[Seen, Truth, Sequence[Matrix]], Matrix | None]


def by_factor_rows(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Ridge regression of the known values on their factor rows."""
    return _by_ridge(_to_one(seen.factor), truth, draws)


def by_distances(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    """Distances from the kernel values, points from the distances, ridge regression on the points."""
    return _by_ridge(seen.coordinates, truth, draws)


def by_rotation(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix | None:
    """Points are the columns up to a rotation and a shift: Procrustes finds both from fewer rows than ridge."""
    if truth.categories:
        return None  # their codes lie nowhere
    points, table = seen.coordinates[:, : truth.n_columns], truth.values * truth.lengths
    with quiet():  # a column that is tiny beside the others is guessed wildly
        guesses = [rotated(points, known, table[known]) / truth.lengths for known in draws]
    return np.array([truth.score(guess, known) for guess, known in zip(guesses, draws, strict=True)])


def by_independence(seen: Seen, truth: Truth, draws: Sequence[Matrix]) -> Matrix | None:
    """Without any known row: independent components of the points, each column beside the one most like it."""
    if truth.categories:
        return None
    found = independent_components(seen.coordinates[:, : min(seen.n_features, MOST_COMPONENTS)])
    alike = (found.T @ truth.values) ** 2
    return np.asarray(np.max(alike, axis=0)[None, :])


ATTACKS: dict[str, Attack] = {
    "factor rows": by_factor_rows,
    "distances": by_distances,
    "rotation": by_rotation,
    "independence": by_independence,
}


def points(squared: Matrix) -> Matrix:
    """Classical multidimensional scaling: points with these squared distances, the longest axis first."""
    inner = -0.5 * squared
    inner = inner - inner.mean(axis=0)
    inner = inner - inner.mean(axis=1, keepdims=True)
    values, vectors = scipy.linalg.eigh(0.5 * (inner + inner.T))
    kept = values > 1e-12 * max(float(values[-1]), 1e-300)
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept]))[:, ::-1])


def ridge(features: Matrix, known: Matrix, values: Matrix) -> Matrix:
    """Estimates for all rows; each column takes the penalty that is best when known rows are left out one by one."""
    middle, mean = features[known].mean(axis=0), values.mean(axis=0)
    F = features[known] - middle
    spectrum, U = np.linalg.eigh(F @ F.T)
    spectrum = np.maximum(spectrum, 0.0)
    if spectrum[-1] == 0.0:
        return np.broadcast_to(mean, (len(features), len(mean)))
    rotated, across = U.T @ (values - mean), (features - middle) @ F.T @ U
    best, chosen = np.full(len(mean), np.inf), np.zeros((len(known), len(mean)))
    for penalty in spectrum[-1] * PENALTIES:
        inverse = 1.0 / (spectrum + penalty)
        weights = inverse[:, None] * rotated
        left_out = (((U @ weights) / (U**2 @ inverse)[:, None]) ** 2).sum(axis=0)
        better = left_out < best
        best[better], chosen[:, better] = left_out[better], weights[:, better]
    return np.asarray(across @ chosen + mean)


def rotated(features: Matrix, known: Matrix, values: Matrix) -> Matrix:
    """Estimates for all rows by the rotation and scale that bring the known ones closest to their values."""
    middle, mean = features[known].mean(axis=0), values.mean(axis=0)
    F, V = features[known] - middle, values - mean
    U, singular, Wt = np.linalg.svd(F.T @ V, full_matrices=False)
    length = float((F**2).sum())
    scale = float(singular.sum()) / length if length > 0 else 0.0
    return np.asarray(scale * (features - middle) @ (U @ Wt) + mean)


def by_chosen_queries(squared: Matrix, queries: Matrix) -> Matrix:
    """Rows of the table from their squared distances to samples that the attacker chose, one more than columns.

    Parameters
    ----------
    squared : array of shape (n_queries, n_samples)
        From partial distances, or read off the factor rows of the queries.
    queries : array of shape (n_queries, n_features)
        In general position, such as the unit vectors and zero.
    """
    # |x - q|^2 = |x|^2 - 2 q'x + |q|^2 is linear in x and |x|^2 together.
    system = np.hstack([np.ones((len(queries), 1)), -2.0 * queries])
    solution = np.linalg.lstsq(system, squared - (queries**2).sum(axis=1, keepdims=True), rcond=None)[0]
    return np.asarray(solution[1:].T)


def _by_ridge(features: Matrix, truth: Truth, draws: Sequence[Matrix]) -> Matrix:
    return np.array([truth.score(ridge(features, known, truth.values[known]), known) for known in draws])


def _to_one(values: Matrix) -> Matrix:
    """Brought to size 1, so that squares neither vanish nor overflow; no attack depends on the scale."""
    size = float(np.max(np.abs(values), initial=0.0))
    return values / size if size > 0 else values


def _indicators(table: Matrix) -> tuple[Matrix, Matrix]:
    """Each category as columns of zeros and ones, and whose they are."""
    made = [(table[:, j, None] == np.unique(table[:, j])[None, :]).astype(float) for j in range(table.shape[1])]
    return np.hstack(made), np.repeat(np.arange(len(made)), [part.shape[1] for part in made])


PASSES, TOLERANCE = 200, 1e-6  # of ICA


def independent_components(points: Matrix, *, random_state: int = 0) -> Matrix:
    """Return centered components of length 1, as many as the points have dimensions, in no order and of any sign."""
    X = points - points.mean(axis=0)
    U, lengths, _ = np.linalg.svd(X, full_matrices=False)
    U = U[:, lengths > 1e-9 * max(float(lengths.max(initial=0.0)), 1e-300)]  # length 1, uncorrelated
    n, k = U.shape
    if k == 0:
        return np.zeros((n, 1))
    white = U * np.sqrt(n)
    W = _orthogonal(np.random.default_rng(random_state).normal(size=(k, k)))
    for _ in range(PASSES):
        found = np.tanh(white @ W)
        turned = _orthogonal(white.T @ found / n - W * (1.0 - (found**2).mean(axis=0)))
        moved = float(np.max(np.abs(np.abs((turned * W).sum(axis=0)) - 1.0)))
        W = turned
        if moved < TOLERANCE:
            break
    return np.asarray(U @ W)


def _orthogonal(W: Matrix) -> Matrix:
    """Nearest orthogonal matrix."""
    left, _, right = np.linalg.svd(W, full_matrices=False)
    return np.asarray(left @ right)


KNOWN_ROWS = 30
MOST_ROWS = 1000  # attacked at most: what holds for these holds for the others, and no matrix is larger
DRAWS = 5
RECOVERED = 0.5  # a column counts as recovered from this R squared on
NO_COLUMNS = "the table is a matrix of similarities and has no columns to recover"


@dataclass(frozen=True)
class Measurement:
    """What the attacks made of one message.

    Attributes
    ----------
    known_rows : int
        Rows that the attacker was given.
    rows : int
        Rows attacked, those included.
    by_attack : dict of str to tuple of float
        For each attack R squared by column of the table, the mean over several draws of known rows; none is below 0.
    not_measured : str
        Why there is nothing to measure; empty if there is.

    Examples
    --------
    >>> import numpy as np
    >>> import dkpca
    >>> X = np.random.default_rng(0).normal(size=(200, 4))
    >>> summary, _ = dkpca.summarize(X, party="bank", kernel=dkpca.kernels.Linear(), rank=4)
    >>> print(dkpca.recovery.measure(summary, X).sentence())
    30 known rows recover 4 of 4 columns, R² 1.00 to 1.00
    """

    known_rows: int
    rows: int
    by_attack: dict[str, tuple[float, ...]] = field(default_factory=dict)
    not_measured: str = ""

    @property
    def columns(self) -> tuple[float, ...]:
        """R squared of the strongest attack, by column."""
        return (
            tuple(float(value) for value in np.max(list(self.by_attack.values()), axis=0)) if self.by_attack else ()
        )

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
        return (
            f"{known_rows_recover(self.known_rows)} {recovered:,} of {counted(len(found), 'column')}, "
            f"R² {min(found):.2f} to {max(found):.2f}"
        )


def measure(summary: Summary, X: Any, *, known_rows: int = KNOWN_ROWS, random_state: int = 0) -> Measurement:
    """Attack a summary with some rows of the table as known, and say how well the others come out.

    Parameters
    ----------
    summary : Summary
        The message, as it would leave.
    X : array of shape (n_samples, n_features)
        The party's columns that it was made from; what scales and shifts a column changes nothing.
    known_rows : int, default=30
        Rows of the table that the attacker knows; with fewer than twice as many samples, half of them.
    random_state : int, default=0
        Seed for the rows attacked and for the draws of known ones.

    Returns
    -------
    Measurement

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
    table = np.asarray(to_numpy(X), dtype=np.float64)
    if len(table) != summary.n_samples:
        raise InputError(f"the summary is about {summary.n_samples} samples, the table has {len(table)} rows")
    if summary.kernel.columns_are == "samples" and not summary.turned:
        return Measurement(known_rows, 0, not_measured=NO_COLUMNS)
    rows = some_rows(len(table), random_state)
    return against(_seen(summary, rows), table[rows], known_rows=known_rows, random_state=random_state)


def against(seen: Seen, table: Matrix, *, known_rows: int = KNOWN_ROWS, random_state: int = 0) -> Measurement:
    """Attack what somebody has seen of the rows of a table, with some of them as known."""
    random = np.random.default_rng(random_state)
    known = max(1, min(known_rows, len(table) // 2))
    draws = [random.permutation(len(table))[:known] for _ in range(DRAWS)]
    return Measurement(known, len(table), run(seen, Truth.of(table, seen.kernel), draws))


def some_rows(n_samples: int, random_state: int = 0) -> Matrix:
    """Rows that are attacked: all, or a sample of them."""
    return np.sort(np.random.default_rng(random_state).permutation(n_samples)[:MOST_ROWS])


def run(seen: Seen, truth: Truth, draws: Iterable[Matrix]) -> dict[str, tuple[float, ...]]:
    """R squared by attack and column, for the attacks that have a meaning here."""
    drawn, found = list(draws), {}
    for name, attack in ATTACKS.items():
        scores = attack(seen, truth, drawn)
        if scores is not None:
            found[name] = tuple(np.mean(np.clip(scores, 0.0, 1.0), axis=0).round(6).tolist())
    return found


def _seen(summary: Summary, rows: Matrix) -> Seen:
    sent = summary.factor
    factor = Rounded(to_numpy(sent.data)[rows], None if sent.scale is None else to_numpy(sent.scale)).decode()
    left_out = max(0.0, summary.trace_left_out) / summary.n_samples
    kernel = Linear() if summary.turned else summary.kernel  # of turned samples nobody knows more than inner products
    return Seen(factor, kernel, left_out, min(summary.n_features, factor.shape[0]))
