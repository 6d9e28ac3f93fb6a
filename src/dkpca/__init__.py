"""One-shot distributed kernel PCA for parties that hold different columns about the same samples."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_HOME = {
    "DKPCA": "estimator",
    "principal_angles": "metrics",
    "sin_theta_distance": "metrics",
    "subspace_error": "metrics",
    "Adaptive": "rank",
    "Auto": "rank",
    "Budget": "rank",
    "Fixed": "rank",
}


def __getattr__(name: str) -> Any:
    # On first use: the estimator brings scikit-learn, two seconds that a party's command need not wait for.
    if name not in _HOME:
        raise AttributeError(f"module 'dkpca' has no attribute {name!r}")
    return getattr(import_module(f"dkpca.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
