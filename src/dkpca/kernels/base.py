"""What every kernel says about itself. A new kernel is one class.

A kernel owns everything that depends on which kernel it is: evaluation on a party's own columns, the law by which
equal kernels of all parties make one of the joined table, which settings it takes, and the words for all of it.
Nobody else asks which kernel it is.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from numbers import Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels.laws import LAWS, Law
from dkpca.linalg.arrays import Array, growth, is_dask_array, namespace, quiet, unit
from dkpca.linalg.on_dask import by_column
from dkpca.linalg.precision import Factor, centered_factor, inner_product, rows_of
from dkpca.linalg.rows import Index, at_hand, right_vectors

JUDGED_ROWS = 1000  # of which a dominant column is told
UNLIKE = 0.01  # of what a training sample shows of itself: a new one that shows less is unlike all of them
BEYOND = 10.0  # times the longest training sample, for kernels without a unit diagonal
DOMINANT = 0.9  # share of one column in the mean distance from which the others hardly count
BALANCED, STATIS = "balanced", "statis"
LEAST = 1e-9  # weight of a party that agrees with none
BY_GAMMA = (
    "under the product law a party's weight is its gamma, which it chooses before it sends its summary; give the "
    "parties other gammas (--gamma), or use law='sum'"
)
Weights = str | Mapping[str, float] | None


class Kernel(ABC):
    """A positive semidefinite kernel on a party's own columns.

    To write one of your own, for fits in one program, derive a frozen dataclass whose fields are its parameters, and
    give it a `name`. Between parties bring its matrix as a `Precomputed` kernel.

    Examples
    --------
    >>> import dkpca
    >>> isinstance(dkpca.kernels.RBF(0.5), dkpca.kernels.Kernel)
    True
    """

    name: ClassVar[str]
    has_width: ClassVar[bool] = False  # whether gamma is a parameter
    default_gamma: ClassVar[float | None] = None  # None: 1 / number of columns over all parties
    unit_diagonal: ClassVar[bool] = False  # whether each sample has kernel value 1 with itself
    by_inner_products: ClassVar[bool] = True  # whether inner products of samples, added up over parties, give it
    takes_sparse: ClassVar[bool] = False  # whether a sparse table makes sense, of which most entries are zero
    columns_are: ClassVar[str] = "quantities"  # or "categories", of which only equality counts, or "samples"
    by_whole_columns: ClassVar[bool] = False  # whether `scale_by_column` needs all rows of a column in one place
    of_counts: ClassVar[bool] = False  # whether no number may be below 0, and differences count by their level
    reveals: ClassVar[str] = "about the columns, whatever this kernel's values between samples determine"

    @classmethod
    def from_settings(cls, *, gamma: float | None, centered: bool) -> Self:
        """Make the kernel from what the parties of a fit agree on."""
        if not cls.has_width:
            return cls()
        return cls(cls.default_gamma if gamma is None else gamma)  # type: ignore[call-arg]

    @property
    @abstractmethod
    def law(self) -> Law | None:
        """Law that makes equal kernels of all parties the same kernel of the joined table; None: there is none."""

    @abstractmethod
    def __call__(self, X: Array, Y: Array) -> Array:
        """Matrix between the rows of X and the rows of Y: what the party's factor stands for."""

    @abstractmethod
    def diagonal(self, X: Array) -> Array:
        """Entry of each row with itself."""

    def origin(self, X: Array) -> Array:
        """Point from which a party measures its columns."""
        return namespace(X).zeros_like(X[0, :])

    def slopes(self, times: Callable[[Array], Array], X: Array, V: Array) -> Array | None:
        """Derivative of v'Kv by the logarithm of each column's scale, for `times` by K; None if not known."""
        return None

    def check(self, X: Array) -> None:
        """Raise `InputError` if the kernel is not defined for these rows."""
        lowest = float(namespace(X).min(X)) if self.of_counts else 0.0
        if lowest < 0:
            raise InputError(
                f"the {self.name} kernel is for counts and histograms, but the smallest value is {lowest:g}; give "
                "columns without negative values, not standardized (--no-standardize)"
            )

    def block(self, X: Factor, rows: Index, columns: Index) -> Array:
        """Entries of the matrix of X with itself."""
        return self(rows_of(X, rows), rows_of(X, columns))

    def blocks(self, X: Array, parts: Sequence[slice]) -> Array:
        """Entries of that matrix for slices of as many rows each with themselves, in a stack."""
        return namespace(X).stack([self.block(X, rows, rows) for rows in parts])

    def anchors(self, X: Factor, positions: Array | None) -> Array:
        """Return what new samples are compared with, so that `self(X_new, anchors)` are their kernel rows."""
        return X if positions is None else rows_of(X, positions)

    def relative_error(self, X: Array, origin: Array | None) -> float:
        """Bound on the error of a computed kernel value of two rows of X, as a share of sqrt(k(x, x) k(y, y)).

        `origin` was subtracted from the rows, if it is given, which rounded each number once.
        """
        # This is the bound for kernels made of one inner product; a kernel that amplifies its rounding says so.
        return 2.0 * growth(X.shape[1]) * unit(X)

    def error_of_rows(self, X: Array, share: float) -> float:
        """Bound on the error of a value, as `relative_error`, where each number of X is off by a share of itself."""
        # For kernels made of one inner product: twice for the numbers, and as much for the mean of a column.
        return 8.0 * share

    def rows(self, X: Factor, positions: Array) -> Array:
        """Some of the samples, as a table of their own."""
        return rows_of(X, positions)

    def explicit_features(self, X: Array) -> Array | None:
        """F with self(X, Y) = F(X) F(Y)', where a finite one is at hand."""
        return None

    def partial(self, X: Array, Y: Array) -> Array:
        """What adds up over parties before the kernel value of the joined table is formed."""
        self._check_sums()
        return self(X, Y)

    def finish(self, total: Array) -> Array:
        """Kernel values of the joined table from the added-up partial quantities."""
        self._check_sums()
        return total

    def _check_sums(self) -> None:
        if not self.adds_up:
            words = "is not a function of a sum over parties; use projection='extend' and protect='none'"
            raise InputError(f"the {self.name} kernel {words}")

    def undone(self, K: Array, floor: float) -> Array:
        """Kernel values before their last step, an exponential or a power; those below `floor` are noise."""
        return K

    def squared_distances(self, K: Array, floor: float) -> Array:
        """Squared distances read off kernel values, over the columns if it can; those below `floor` are noise."""
        K = self.undone(K, floor)
        own = namespace(K).linalg.diagonal(K)
        return own[:, None] + own[None, :] - 2.0 * K

    @property
    def adds_up(self) -> bool:
        """Whether equal kernels of all parties add up to the kernel of the joined table, entry by entry."""
        return self.law is not None and self.law.scores_add

    @property
    def sends_diagonal(self) -> bool:
        """Whether the center needs the diagonal of the party's matrix as one more column of numbers."""
        return self.law is not None and self.law.needs_diagonals

    def alone(self) -> "Kernel":
        """Return the kernel that does not count on the center to finish it: for parties with different kernels."""
        return replace(self, own=True) if self.sends_diagonal else self  # type: ignore[type-var]

    def forgets(self, value: float) -> str:
        """What of a row values hardly depend on, where a sample's own is this one: "lengths" or "signs"; or empty."""
        return ""

    def scale_by_column(self, X: Array) -> Array:
        """Part of each column in `scale_statistic`; a kernel of your own with a width should say it."""
        return namespace(X).zeros_like(X[0, :])

    def scale_statistic(self, X: Array) -> float:
        """Mean of what gamma multiplies, over pairs of different samples; gamma="scale" is 1 / (sum over parties)."""
        apart = self.by_whole_columns and is_dask_array(X)
        parts = np.concatenate(by_column(self.scale_by_column, X)) if apart else self.scale_by_column(X)
        return float(namespace(parts).sum(parts))

    def dominant_column(self, X: Array) -> tuple[int, float] | None:
        """Column that makes up nearly all of the mean distance, and its share; None: there is none."""
        # That which gamma multiplies, or the variance. Some of the rows are looked at; constant columns do not count.
        rows = at_hand(X[:: max(1, X.shape[0] // JUDGED_ROWS), :])
        if self.columns_are != "quantities" or self.of_counts or rows.shape[0] < 2:
            return None  # counts have one unit, and cannot be standardized
        xp = namespace(rows)
        with quiet():
            parts = self.scale_by_column(rows) if self.has_width else xp.var(rows, axis=0)
            share = float(xp.max(parts) / xp.sum(parts))
        varying = int(xp.sum(xp.astype(parts > 0, xp.int64)))
        return (int(xp.argmax(parts)), share) if varying > 1 and share > DOMINANT else None

    def balanced(self, X: Array, share: float) -> Self:
        """Return the kernel whose exponent is the share on average over these rows; itself, if it has none."""
        distance = self.scale_statistic(X) if self.has_width and self.unit_diagonal else 0.0
        return self.rescaled(share / (distance * self.gamma)) if distance > 0 else self  # type: ignore[attr-defined]

    def rescaled(self, factor: float) -> Self:
        """Return the kernel with its gamma multiplied."""
        if not self.has_width:
            raise InputError(f"the {self.name} kernel has no width to change; use law='sum' for weights")
        return replace(self, gamma=self.gamma * factor)  # type: ignore[attr-defined, type-var]

    def revealed(self, rank: int, n_features: int) -> str:
        """What a factor of this rank reveals about the party's columns, in words."""
        return self.reveals

    def outside(self, training: Any, new: Any) -> Any:
        """Which new samples lie outside the range of the fit, by the squared lengths of factor rows."""
        # A bounded kernel forgets a sample that is far from all others; any other kernel lets it grow.
        return new < UNLIKE * np.median(training) if self.unit_diagonal else new > BEYOND * np.max(training)

    def to_dict(self) -> dict[str, Any]:
        """Name and parameters: what parties must agree on."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]


def _is_positive(number: Any) -> bool:
    return isinstance(number, Real) and not isinstance(number, bool) and 0.0 < float(number) < math.inf


def checked_width(kernel: Any) -> None:
    """Hold gamma to a positive number, the same one whatever kind of number it was."""
    if not _is_positive(kernel.gamma):
        raise InputError(f"gamma is {kernel.gamma!r}; the {kernel.name} kernel needs a positive, finite number")
    object.__setattr__(kernel, "gamma", float(kernel.gamma))


def adjusted(kernels: Mapping[str, Kernel], **given: Any) -> dict[str, Kernel]:
    """Kernels by party with the parameters that are given, where they have them; one that none has is refused."""
    wanted = {name: value for name, value in given.items() if value is not None}
    used = {party: {k: v for k, v in wanted.items() if hasattr(kernel, k)} for party, kernel in kernels.items()}
    strange = sorted(set(wanted) - set().union(*used.values()))
    if strange:
        names = ", ".join(sorted({kernel.name for kernel in kernels.values()}))
        whose = f"the {names} kernel" if names else "DKPCA for kernel objects, which bring their own"
        raise InputError(f"{' and '.join(strange)}: not a parameter of {whose}; leave it out")
    return {party: replace(kernel, **used[party]) for party, kernel in kernels.items()}  # type: ignore[type-var]


class Combination(NamedTuple):
    """A law, and in words what it makes of the parties' kernels."""

    law: Law
    meaning: str


def combination(kernels: Mapping[str, Kernel], law: str | None = None) -> Combination:
    """Find the law for the kernels of all parties: as asked for, or as the kernels imply."""
    if law is not None and law not in LAWS:
        raise InputError(f"law is {law!r}; give {' or '.join(map(repr, LAWS))}, or None for what the kernel implies")
    # Equal kernels make one of the joined table by their own law; anything else is a product or a sum of what the
    # parties have, which has to be asked for unless all kernels imply the same one.
    first, *others = kernels.values()
    joint = first.law
    if all(other == first for other in others):
        if joint is not None and law in (None, joint.name):
            return Combination(joint, f"the {first.name} kernel of the joined table")
        if not others and law is None:
            return Combination(LAWS["sum"], f"the {first.name} kernel of one party")
    implied = {kernel.law for kernel in kernels.values()}
    chosen = LAWS[law] if law is not None else implied.pop()
    if chosen is None or (law is None and implied):
        described = ", ".join(f"{party}: {kernel.name}" for party, kernel in kernels.items())
        raise InputError(f"these kernels imply no common law ({described}); give law='product' or law='sum'")
    for party, kernel in kernels.items():
        if kernel.sends_diagonal:
            raise InputError(
                f"party {party!r} sent what the {kernel.name} kernel of the joined table needs, but not all parties "
                "did; use the kernel of its own columns (own=True), or one kernel for all"
            )
    if chosen is joint and len({kernel.name for kernel in kernels.values()}) == 1:
        return Combination(chosen, f"the {first.name} kernel of the joined table, with a width per party")
    return Combination(chosen, f"the {chosen.name} of the parties' kernels")


def check_weights(weights: Weights, parties: Iterable[str]) -> None:
    """Raise unless these are weights for just these parties."""
    if weights is None or weights in (BALANCED, STATIS):
        return
    by_party = isinstance(weights, Mapping) and set(weights) == set(parties)
    if not by_party or not all(map(_is_positive, weights.values())):  # type: ignore[union-attr]
        raise InputError(f"weights are {weights!r}; give 'balanced', 'statis', or a number > 0 for {sorted(parties)}")


def weighed(kernels: Mapping[str, Kernel], weights: Weights, law: Law) -> dict[str, Kernel]:
    """Kernels by party with their weights, where the law has the parties weigh by their widths."""
    if weights == STATIS and not law.scores_add:
        raise InputError(BY_GAMMA)
    if not isinstance(weights, Mapping) or not law.multiplies:
        return dict(kernels)
    return {name: kernel.rescaled(weights[name]) for name, kernel in kernels.items()}


def center_weights(weights: Weights, law: str | None) -> Weights:
    """Weights that are left for the center: none where the parties have weighed already."""
    return None if law is not None and LAWS[law].multiplies else weights


def party_weights(weights: Weights, factors: Mapping[str, Factor], law: Law, *, centered: bool) -> dict[str, float]:
    """What each party's matrix is multiplied by; `centered`: the factors came so, as those of a blind fit do."""
    check_weights(weights, factors)
    if weights is None:
        return dict.fromkeys(factors, 1.0)
    if law.multiplies:
        raise InputError(BY_GAMMA)
    if not law.scores_add:
        raise InputError("weights need a sum or a product of the parties' kernels, not one that the center finishes")
    # Numbers as given; statis: by agreement; balanced: each centered matrix over its largest eigenvalue, so that no
    # party's leading component is longer than another's.
    if isinstance(weights, Mapping):
        return {name: float(weights[name]) for name in factors}
    if weights == STATIS:
        return _by_agreement(factors, centered)
    found = {name: centered_factor(A, centered) for name, A in factors.items()}
    return {name: 1.0 / (float(right_vectors(A, 1)[0][0]) * size * size or 1.0) for name, (A, size) in found.items()}


def _by_agreement(factors: Mapping[str, Factor], centered: bool) -> dict[str, float]:
    """STATIS: the leading eigenvector of the cosines between centered matrices, each divided by its own length."""
    own, sizes = zip(*(centered_factor(A, centered) for A in factors.values()), strict=True)
    S = np.array([[inner_product(A, B) for B in own] for A in own])
    lengths = np.sqrt(np.where(np.diagonal(S) > 0, np.diagonal(S), 1.0))
    leading = np.abs(np.linalg.eigh(S / lengths[:, None] / lengths[None, :])[1][:, -1])
    weights = np.maximum(leading / leading.sum(), LEAST) / lengths / np.square(sizes)
    return dict(zip(factors, weights.tolist(), strict=True))
