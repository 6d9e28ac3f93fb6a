"""Landmarks, and how rows of F = C inv(L)' are made from the columns C of a matrix at them: its features."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dkpca.linalg.arrays import Array, like, namespace, set_rows, tall_empty, to_numpy
from dkpca.linalg.corner import Corner
from dkpca.linalg.gram import Gram, Opened
from dkpca.linalg.moments import groups
from dkpca.linalg.parallel import split_work
from dkpca.linalg.strips import cross, strips

ENOUGH = 1e-12  # error of the eigenvalues, as a share of the trace, that is not worth a substitution for each row ...
BESIDE_MISSED = 1e-4  # ... and as a share of the trace that the landmarks miss
BLOCK = 40  # rows of a triangle to invert at a time, where all of it would be too rough ...
WORTH = 1e-2  # ... with this share of what is left out anyway as rounding: for a third of the time


@dataclass(frozen=True)
class Chosen:
    """Landmarks, and how to get the features of all rows."""

    pivots: Array  # (m,) positions
    corner: Corner
    features: Opened  # rows of F, or of C
    factor: Array | None  # F, if it is at hand
    substituted: bool  # whether they are those of F
    start: Array  # (m,) near the mean of the features
    among: int  # rows they were chosen among

    def head(self, m: int, gram: Gram) -> "Chosen":
        """Return the first of them, where the features are those of F."""
        pivots, corner = self.pivots[:m], self.corner.head(m)
        factor = None if self.factor is None else self.factor[:, :m]
        features = (
            features_from(gram.against(pivots), substitution(corner, pivots)) if factor is None else slices_of(factor)
        )
        return replace(self, pivots=pivots, corner=corner, features=features, factor=factor, start=self.start[:m])


def features_to_add_up(F: Array, corner: Corner, n: int, missed: float) -> tuple[bool, Array]:
    """Whether rows have to be substituted before they are added up, and what is near the mean of what is added up.

    F are the features of a sample of n rows, and `missed` the trace that they miss there.
    """
    xp, as_large = namespace(F), n / F.shape[0]
    mean = xp.mean(F, axis=0)
    some = F[::8, :] @ like(corner.L, F).T  # columns of the matrix at a few rows, to know how long they are
    length = (8.0 * as_large * float(xp.sum(some * some))) ** 0.5
    allowed = max(ENOUGH * corner.trace, BESIDE_MISSED * as_large * missed)
    if corner.error_by_columns(n, length) > allowed:
        return True, mean
    return False, like(corner.L, F) @ mean


def quicker(corner: Corner, F: Array, n: int, k: int, missed: float) -> Corner:
    """The corner by inverses, where they round next to nothing; F are features of a sample of n rows."""
    if not isinstance(F, np.ndarray):
        return corner
    as_large = n / F.shape[0]
    square = as_large * cross(F, F).astype(float)
    left_out = float(np.linalg.eigvalsh(square)[-k - 1]) if k < len(square) else 0.0
    allowed = WORTH * max(left_out, as_large * missed)
    for size in (corner.m, BLOCK):
        quick = corner.by_inverses(size)
        if quick is not None and quick.beside(square) <= allowed:
            return quick
    return corner


def slices_of(F: Array) -> Opened:
    """Features that are at hand, in new arrays."""

    def opened(group: slice) -> Callable[[slice], Array]:
        part = F[group, :]
        return lambda rows: namespace(F).asarray(part[rows, :], copy=True)

    return opened


def features_from(columns: Opened, solved: Callable[[Array, int], Array]) -> Opened:
    """Rows of F from those of C."""

    def opened(group: slice) -> Callable[[slice], Array]:
        rows_of = columns(group)
        return lambda rows: solved(rows_of(rows), group.start + rows.start)

    return opened


def substitution(corner: Corner, pivots: Array) -> Callable[[Array, int], Array]:
    """Return what makes rows of F from rows of C, given the place of the first.

    Those of the landmarks are triangular to the last digit.
    """
    own = to_numpy(pivots)

    def solved(C: Array, start: int) -> Array:
        F = corner.solve(C)
        places = own - start
        here = np.flatnonzero((places >= 0) & (places < F.shape[0]))
        return set_rows(F, places[here], corner.L[here]) if len(here) else F

    return solved


def all_features(gram: Gram, pivots: Array, corner: Corner, reference: Array) -> Array:
    """Rows of F for all samples."""
    made = features_from(gram.against(pivots), substitution(corner, pivots))
    F = tall_empty((gram.n, corner.m), reference)

    def share(parts: Sequence[slice]) -> None:
        for group in parts:
            rows_of = made(group)
            for rows in strips(group.stop - group.start, F.shape[1], F):
                F[group.start + rows.start : group.start + rows.stop, :] = rows_of(rows)

    split_work(share, groups(gram.n), F)
    return F
