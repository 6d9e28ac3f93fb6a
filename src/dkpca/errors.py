"""What a caller may catch. Every message says what happened, the number, and what to try.

Each class has a `code`, which commands print with `--json` and which stays the same whatever the message says.

Examples
--------
>>> import dkpca
>>> try:
...     dkpca.DKPCA(n_components=0).fit([[1.0, 2.0], [3.0, 4.0]])
... except dkpca.errors.DKPCAError as error:
...     print(type(error).__name__)
InputError
"""

import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import ClassVar

__all__ = [
    "ConvergenceError",
    "DKPCAError",
    "DataWarning",
    "FusionError",
    "InputError",
    "MissingPartyWarning",
    "NoAnswerError",
    "NotFittedError",
    "OutOfMemoryError",
    "PolicyError",
    "ProtectionError",
    "StorageError",
    "TooFewSamplesError",
    "TooLateError",
    "WireError",
]


class DKPCAError(Exception):
    """Everything this library raises on purpose."""

    code: ClassVar[str] = "error"

    def __init_subclass__(cls, *, code: str = "", **others: object) -> None:
        super().__init_subclass__(**others)
        cls.code = code or cls.code


class InputError(DKPCAError, ValueError, code="input"):
    """Data or a setting that cannot be used as given."""


class NotFittedError(DKPCAError, ValueError, AttributeError, code="not-fitted"):
    """An estimator that has not been fitted yet; scikit-learn's `NotFittedError` catches it too."""


class WireError(DKPCAError, code="damaged"):
    """Bytes that are not a whole, unaltered message of a version this library reads."""


class OutOfMemoryError(DKPCAError, MemoryError, code="memory"):
    """Work that does not fit into the memory of its device."""


class ConvergenceError(DKPCAError, code="convergence"):
    """An iteration that did not reach its tolerance."""


class NoAnswerError(DKPCAError, code="no-answer"):
    """A party that gave no answer: its process ended, it could not be reached, or it refused."""


class TooLateError(NoAnswerError, TimeoutError, code="too-late"):
    """A party that did not answer in time."""


class FusionError(DKPCAError, code="mismatch"):
    """Messages that do not belong together: missing, duplicate, misaligned or of another kernel."""


class TooFewSamplesError(FusionError, code="too-few-samples"):
    """Tables that have too few samples in common."""


class PolicyError(DKPCAError, code="policy"):
    """A request that the party's own limits do not allow."""


class ProtectionError(DKPCAError, code="protection"):
    """A step that would not be safe: an altered or foreign file or key, another roster, a step answered before."""


class StorageError(DKPCAError, code="storage"):
    """A file that could not be read, or written whole; what was there before is still there."""


class DataWarning(UserWarning):
    """Data that can be used, but perhaps not as it is meant."""


class MissingPartyWarning(DataWarning):
    """New samples that were placed without a party of the fit."""


@contextmanager
def needed_from(extra: str, what: str) -> Iterator[None]:
    """Say with which extra to install a package that is imported here, where it is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"{what} needs {error.name}; install it with: pip install 'dkpca[{extra}]'") from error


def warn(sentences: Iterable[str], category: type[Warning] = DataWarning) -> None:
    """Say each as a warning of whoever called the library, through scikit-learn or not."""
    frame, levels = sys._getframe(), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in ("dkpca", "sklearn"):
        frame, levels = frame.f_back, levels + 1
    for sentence in sentences:
        warnings.warn(sentence, category, stacklevel=levels)
