"""How well somebody who knows some of a party's rows could rebuild the others from its message.

The party runs the attacks on itself, on exactly the message about to leave, and sees R squared by column on rows that
the attacker did not know. Nothing of it leaves. `dkpca.recovery.attacks` has the attacks, one function each.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.kernels import Linear
from dkpca.linalg.arrays import to_numpy
from dkpca.linalg.precision import Rounded
from dkpca.messages import Summary
from dkpca.recovery.attacks import ATTACKS, Matrix, Seen, Truth
from dkpca.wording import counted, known_rows_recover

__all__ = ["Measurement", "measure"]

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
