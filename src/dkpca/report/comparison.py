"""Two runs side by side: angles between their subspaces, and samples that moved."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from dkpca.errors import InputError
from dkpca.linalg.arrays import to_numpy
from dkpca.metrics import principal_angles
from dkpca.report.sources import Source
from dkpca.tables.reading import Matrix

MOST_LISTED = 200  # samples whose move is drawn


@dataclass(frozen=True)
class Comparison:
    """How another run sees the samples of this one."""

    other: str
    n_common: int
    angles: tuple[float, ...]  # in degrees, ascending
    rows: Any  # (n_common,) of int: samples of this run
    moved: Any  # (n_common,) of float: distance, where 1 is the typical distance from the mean
    there: Matrix  # (n_common, n_components): the other's positions, turned onto this run's
    n_components: tuple[int, int]


def compare(here: Source, other: Source) -> Comparison:
    """Turn the other run's scores onto this run's (Procrustes), and measure what is left.

    Components may change sign, order, or mix where eigenvalues are near each other: none of this moves a sample.
    """
    rows, others = _common(here, other)
    A, B = (scores - scores.mean(axis=0) for scores in (here.scores[rows], other.scores[others]))
    angles = np.degrees(to_numpy(principal_angles(_basis(A), _basis(B))))
    width = max(A.shape[1], B.shape[1])
    A, B = (np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in (A, B))
    U, _, Vt = np.linalg.svd(B.T @ A)
    turned = B @ (U @ Vt)
    radius = float(np.sqrt((A * A).sum(axis=1).mean())) or 1.0
    moved = np.sqrt(((A - turned) ** 2).sum(axis=1)) / radius
    D = here.scores.shape[1]
    there = turned[:, :D] + here.scores[rows].mean(axis=0)
    sizes = (D, other.scores.shape[1])
    return Comparison(other.title, len(rows), tuple(angles.tolist()), rows, moved, there, sizes)


def _common(here: Source, other: Source) -> tuple[Any, Any]:
    """Row numbers of the samples that both have: by name, or by position where the fingerprints agree."""
    if here.digest is not None and here.digest == other.digest:
        rows = np.arange(len(here.names))
        return rows, rows
    for source in (here, other):
        if source.run is not None and source.run.settings["sample_names"] == "row numbers":
            raise InputError(
                f"{source.path}: its samples are numbered by row, and the two runs are about different samples; "
                "name them with 'dkpca fuse --ids' to compare"
            )
    position = {name: row for row, name in enumerate(other.names)}
    pairs = [(row, position[name]) for row, name in enumerate(here.names) if name in position]
    needed = max(here.scores.shape[1], other.scores.shape[1]) + 1
    if len(pairs) < needed:
        raise InputError(
            f"{other.path}: has {len(pairs)} samples in common with {here.path}; a comparison needs at least {needed}"
        )
    rows, others = np.array(pairs).T
    return rows, others


def _basis(X: Matrix) -> Matrix:
    """Orthonormal basis of the columns."""
    U, sizes, _ = np.linalg.svd(X, full_matrices=False)
    return np.asarray(U[:, sizes > 1e-10 * max(float(sizes[0]), 1e-300)])
