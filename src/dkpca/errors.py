"""What a caller may catch. Every message says what happened, the number, and what to try.

Examples
--------
>>> import dkpca
>>> try:
...     dkpca.DKPCA(n_components=0).fit([[1.0, 2.0], [3.0, 4.0]])
... except dkpca.errors.DKPCAError as error:
...     print(type(error).__name__)
InputError
"""

__all__ = [
    "ConvergenceError",
    "DKPCAError",
    "FusionError",
    "InputError",
    "NoAnswerError",
    "NotFittedError",
    "OutOfMemoryError",
    "PolicyError",
    "StorageError",
    "TooLateError",
    "WireError",
]


class DKPCAError(Exception):
    """Everything this library raises on purpose."""


class InputError(DKPCAError, ValueError):
    """Data or a setting that cannot be used as given."""


class NotFittedError(DKPCAError, ValueError, AttributeError):
    """An estimator that has not been fitted yet; scikit-learn's `NotFittedError` catches it too."""


class WireError(DKPCAError):
    """Bytes that are not a whole, unaltered message of a version this library reads."""


class OutOfMemoryError(DKPCAError, MemoryError):
    """Work that does not fit into the memory of its device."""


class ConvergenceError(DKPCAError):
    """An iteration that did not reach its tolerance."""


class NoAnswerError(DKPCAError):
    """A party that gave no answer: its process ended, it could not be reached, or it refused."""


class TooLateError(NoAnswerError, TimeoutError):
    """A party that did not answer in time."""


class FusionError(DKPCAError):
    """Messages that do not belong together: missing, duplicate, misaligned or of another kernel."""


class PolicyError(DKPCAError):
    """A request that the party's own policy does not allow."""


class StorageError(DKPCAError):
    """A file that could not be read, or written whole; what was there before is still there."""


class DataWarning(UserWarning):
    """Data that can be used, but perhaps not as it is meant."""
