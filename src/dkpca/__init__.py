"""One-shot distributed kernel PCA for parties that hold different columns about the same samples."""

from dkpca.estimator import DKPCA
from dkpca.metrics import principal_angles, sin_theta_distance, subspace_error
from dkpca.rank import Adaptive, Auto, Budget, Fixed

__all__ = [
    "DKPCA",
    "Adaptive",
    "Auto",
    "Budget",
    "Fixed",
    "principal_angles",
    "sin_theta_distance",
    "subspace_error",
]
__version__ = "0.1.0"
