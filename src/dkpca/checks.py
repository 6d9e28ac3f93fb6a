"""What scikit-learn checks for us; what is raised is ours, and still what a scikit-learn user expects."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sklearn.exceptions
from sklearn.utils.validation import check_is_fitted

from dkpca.errors import InputError, NotFittedError


class _InputTypeError(InputError, TypeError):
    """Data of a type that cannot be used: scikit-learn's contract asks for a `TypeError` here."""


class _NotFittedError(NotFittedError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """Caught under either name."""


@contextmanager
def as_input_error() -> Iterator[None]:
    """Let what scikit-learn raises about data or parameters be one of our errors."""
    try:
        yield
    except InputError:
        raise
    except ValueError as error:
        raise InputError(str(error)) from error
    except TypeError as error:
        raise _InputTypeError(str(error)) from error


def check_fitted(estimator: Any) -> None:
    """Raise `NotFittedError` before `fit`."""
    try:
        check_is_fitted(estimator)
    except sklearn.exceptions.NotFittedError as error:
        raise _NotFittedError(str(error)) from error
