"""How much each party shapes each component."""

import numpy as np

from dkpca.fusion import FusedModel
from dkpca.linalg.arrays import to_numpy
from dkpca.tables.reading import Matrix


def influence(model: FusedModel) -> Matrix:
    """Share of each party in each component, (n_parties, n_components); every column adds up to 1.

    The variance of the party's own (centered) kernel along the component, v' K_j v, beside that of the others.
    For the linear kernel these variances add up to the eigenvalue, so the share is exact; for RBF it is the first
    order of the product of kernels.
    """
    V = to_numpy(model.eigenvectors).astype(float)
    variances = []
    for summary in model.summaries.values():
        A = to_numpy(summary.factor.decode())
        if model.centered:
            A = A - A.mean(axis=0)
        variances.append(((A.T @ V) ** 2).sum(axis=0))
    total = np.sum(variances, axis=0)
    return np.asarray(variances / np.where(total > 0, total, 1.0))
