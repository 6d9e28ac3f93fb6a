"""The estimator: every party in one process, as scikit-learn users expect it."""

from dkpca.estimator.kernel_pca import DKPCA

__all__ = ["DKPCA"]
