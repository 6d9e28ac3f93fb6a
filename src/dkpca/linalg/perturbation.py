"""How far eigenvectors turn when their matrix changes, from some rows of the change.

A component v with eigenvalue a turns towards another eigenvector u with eigenvalue b by about u'Ev / (a - b). The
directions whose eigenvalues are close to those of the components matter most and are few: each keeps its own
eigenvalue. The far ones are many and matter less: one eigenvalue serves for all. The matrix after the change,
restricted to the components, the near directions and what E V has beyond both, is small; its eigenvectors are exact
where the first order is not: where components mix with their neighbors, or change places with them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Matrix = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Vector = np.ndarray[tuple[int], np.dtype[np.float64]]
FAR_SHARE = 0.7


@dataclass(frozen=True)
class Spectrum:
    """Components of a matrix and what lies next to them, at some of the samples."""

    values: Vector  # (D,)
    components: Matrix  # (s, D): rows of V
    near_values: Vector  # (q,)
    near: Matrix  # (s, q): rows of the eigenvectors behind the components

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

    def __add__(self, other: "Change") -> "Change":
        return Change(self.own + other.own, self.near + other.near, self.far + other.far)


def change(rows: Matrix, spectrum: Spectrum, weights: Vector, *, all_rows: bool = False) -> Change:
    """Coefficients of E V.

    Parameters
    ----------
    rows : array of shape (s, D)
        Rows of E V, but for a constant row.
    spectrum : Spectrum
        At the same samples.
    weights : array of shape (s,)
        How many rows each stands for: 1 / (s times the probability with which it was drawn).
    all_rows : bool
        Whether these are all rows of E V: then nothing has to be allowed for what was not drawn.
    """
    size = float(spectrum.values[0])
    D = len(spectrum.values)
    if not size > 0.0:
        return Change(np.zeros((D, D)), np.zeros((len(spectrum.near_values), D)), np.zeros((D, D)))
    # Least squares of the rows on [1, V, U]; what it leaves is the far part.
    rows = rows / size  # squares may vanish
    ones = np.ones((len(rows), 1)) / np.sqrt(weights.sum())
    roots = np.sqrt(weights)[:, None]
    Q, R = np.linalg.qr(np.hstack([ones, spectrum.components, spectrum.near]) * roots)
    across = Q.T @ (rows * roots)
    inverse = np.linalg.pinv(R, rcond=1e-8)
    found = inverse @ across
    own, near = found[1 : D + 1], found[D + 1 :]
    far = rows * roots - Q @ across
    if not all_rows:  # a regression leaves too little, and some of what it leaves was in its coefficients
        far = far / np.sqrt(1.0 - np.clip(np.sum(Q**2, axis=1), 0.0, 1.0 - 1.0 / (1 + len(rows))))[:, None]
        noise = np.outer(np.sum(inverse[D + 1 :] ** 2, axis=1), np.mean(far**2, axis=0))
        kept = np.clip(near**2 - noise, 0.0, None)
        near = np.sign(near) * np.sqrt(kept)
    return Change((own + own.T) / 2, near, far.T @ far)


@dataclass(frozen=True)
class Added:
    """A direction of which the matrix before the change has nothing, and its eigenvalue."""

    value: float
    along: Vector  # (D,): cosines with the components


def turned(change: Change, spectrum: Spectrum, added: Sequence[Added] = ()) -> Vector:
    """Squared sine between each component and the leading subspace after the change."""
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
    H[D : D + q, :D], H[D + q : 2 * D + q, :D] = change.near, coupling
    H[:D, D:] = H[D:, :D].T
    for i, each in enumerate(added):
        p = np.zeros(len(H))
        p[:D], p[2 * D + q + i] = each.along, max(0.0, 1.0 - float(np.sum(each.along**2))) ** 0.5
        H += (each.value / size) * np.outer(p, p)
    if not np.isfinite(H).all():
        return np.ones(D)
    _, Y = np.linalg.eigh(H)
    # Of the eigenvectors behind the leading D: 1 minus the rest would lose the digits.
    sines: Vector = np.minimum(np.sum(Y[:D, :-D] ** 2, axis=1), 1.0)
    return sines
