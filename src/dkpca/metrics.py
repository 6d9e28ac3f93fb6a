"""How far apart two subspaces are."""

import math

from dkpca.errors import InputError
from dkpca.linalg.arrays import Array, namespace


def subspace_error(V: Array, V_hat: Array) -> float:
    """Sum of squared sines of the principal angles: the paper's D - ||V' V_hat||_F^2.

    Parameters
    ----------
    V, V_hat : arrays of shape (n_samples, n_components)
        Orthonormal columns.

    Returns
    -------
    float
        0 for the same subspace, at most n_components. Computed from what V_hat leaves of V, so that a tiny
        error is not lost in the subtraction from D; where the widths differ, the order matters.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import subspace_error
    >>> V = np.eye(4)[:, :2]
    >>> subspace_error(V, V), subspace_error(V, np.eye(4)[:, 1:3])
    (0.0, 1.0)
    """
    rest = _outside(V, V_hat)
    return float(namespace(rest).sum(rest * rest))


def principal_angles(V: Array, V_hat: Array) -> Array:
    """Angles between two subspaces in radians, accurate for small and for large ones.

    Parameters
    ----------
    V, V_hat : arrays of shape (n_samples, n_components)
        Orthonormal columns.

    Returns
    -------
    array
        Ascending; as many as the smaller of the two has dimensions.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import principal_angles
    >>> np.degrees(principal_angles(np.eye(4)[:, :2], np.eye(4)[:, 1:3])).round()
    array([ 0., 90.])
    """
    if V.shape[-1] > V_hat.shape[-1]:
        V, V_hat = V_hat, V
    # Bjoerck and Golub: sines of the angles are the singular values of V - V_hat V_hat'V, accurate where they are
    # small; cosines, those of V'V_hat, where they are not.
    rest = _outside(V, V_hat)
    xp = namespace(rest)
    sines = xp.flip(xp.clip(xp.linalg.svdvals(rest), 0.0, 1.0))
    cosines = xp.clip(xp.linalg.svdvals(V.T @ V_hat), 0.0, 1.0)[: sines.shape[0]]
    return xp.where(sines < math.sqrt(0.5), xp.asin(sines), xp.acos(cosines))


def sin_theta_distance(V: Array, V_hat: Array) -> float:
    """Frobenius norm of the sines of the principal angles: what Theorem 1 of the paper bounds.

    Parameters
    ----------
    V, V_hat : arrays of shape (n_samples, n_components)
        Orthonormal columns.

    Returns
    -------
    float
        The square root of `subspace_error`.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import sin_theta_distance
    >>> sin_theta_distance(np.eye(4)[:, :2], np.eye(4)[:, 2:])
    1.4142135623730951
    """
    return math.sqrt(subspace_error(V, V_hat))


def _outside(V: Array, V_hat: Array) -> Array:
    """Return the part of V outside the span of V_hat."""
    if V.ndim != 2 or V_hat.ndim != 2 or V.shape[0] != V_hat.shape[0]:
        raise InputError(
            f"bases of shapes {tuple(V.shape)} and {tuple(V_hat.shape)} cannot be compared; rows are samples"
        )
    return V - V_hat @ (V_hat.T @ V)
