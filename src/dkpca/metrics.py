"""How far apart two subspaces are; `scipy.linalg.subspace_angles` has the single angles."""

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
        0 for the same subspace, at most n_components; where the widths differ, the order matters.

    Examples
    --------
    >>> import numpy as np
    >>> from dkpca import subspace_error
    >>> V = np.eye(4)[:, :2]
    >>> subspace_error(V, V), subspace_error(V, np.eye(4)[:, 1:3])
    (0.0, 1.0)
    """
    if V.ndim != 2 or V_hat.ndim != 2 or V.shape[0] != V_hat.shape[0]:
        raise InputError(f"bases of shapes {tuple(V.shape)} and {tuple(V_hat.shape)}; rows are samples")
    # What V_hat leaves of V: a tiny error is not lost in the subtraction from D.
    rest = V - V_hat @ (V_hat.T @ V)
    return float(namespace(rest).sum(rest * rest))
