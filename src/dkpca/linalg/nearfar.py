"""How far eigenvectors turn when their matrix changes, to first order, from some rows of the change.

A component v with eigenvalue a turns towards another eigenvector u with eigenvalue b by u'Ev / (a - b). Directions
whose eigenvalues are close to those of the components matter most and are few: each has its own denominator. The far
ones are many and matter less: one denominator serves for all.
"""

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


def turned(
    rows: Matrix, spectrum: Spectrum, weights: Vector, *, all_rows: bool = False, taken_away: bool = True
) -> Vector:
    """Squared sine by which each component turns out of the span of all of them, at most 1.

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
    taken_away : bool
        Whether E is taken away from the matrix: a component whose eigenvalue falls to that of one behind it may
        change places with it.
    """
    size = float(spectrum.values[0])
    if not size > 0.0:
        return np.ones(len(spectrum.values))
    rows, values, near_values = rows / size, spectrum.values / size, spectrum.near_values / size  # squares may vanish
    ones = np.ones((len(rows), 1)) / np.sqrt(weights.sum())
    roots = np.sqrt(weights)[:, None]
    Q, R = np.linalg.qr(np.hstack([ones, spectrum.components, spectrum.near]) * roots)
    across = Q.T @ (rows * roots)
    inverse = np.linalg.pinv(R, rcond=1e-8)
    found = inverse @ across
    D = len(values)
    own, near = np.diagonal(found[1 : D + 1]), found[D + 1 :] ** 2
    far = (rows * roots - Q @ across) ** 2
    if not all_rows:  # a regression leaves too little, and some of what it leaves was in its coefficients
        far = far / (1.0 - np.clip(np.sum(Q**2, axis=1), 0.0, 1.0 - 1.0 / (1 + len(rows))))[:, None]
        noise = np.outer(np.sum(inverse[D + 1 :] ** 2, axis=1), np.mean(far, axis=0))
        near = np.clip(near - noise, 0.0, None)
    far = np.sum(far, axis=0)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        sines = np.sum(near / (values[None, :] - near_values[:, None]) ** 2, axis=0)
        sines = sines + far / (values - spectrum.far_value / size) ** 2
    swapped = own >= values - (near_values[0] if len(near_values) else 0.0)
    return np.where((taken_away & swapped) | ~np.isfinite(sines), 1.0, np.minimum(sines, 1.0))
