"""What scikit-learn checks for us; what is raised is ours, and still what a scikit-learn user expects."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import sklearn.exceptions
from sklearn.utils._param_validation import InvalidParameterError, validate_parameter_constraints
from sklearn.utils.validation import check_is_fitted

from dkpca.errors import InputError, NotFittedError

Constraints = Mapping[str, list[Any]]


class _InputTypeError(InputError, TypeError):
    """Data of a type that cannot be used: scikit-learn's contract asks for a `TypeError` here."""


class _NotFittedError(NotFittedError, sklearn.exceptions.NotFittedError):  # type: ignore[misc]
    """Caught under either name."""


def check_parameters(parameters: Mapping[str, Any], constraints: Constraints, caller: str) -> None:
    """Raise `InputError` for the first value that meets none of its constraints, in scikit-learn's words."""
    for name, value in parameters.items():  # scikit-learn takes True for the number 1
        if isinstance(value, bool | np.bool_) and "boolean" not in constraints.get(name, ["boolean"]):
            raise InputError(f"The {name!r} parameter of {caller} must not be a bool. Got {value!r} instead.")
    with as_input_error():
        validate_parameter_constraints(constraints, parameters, caller_name=caller)


@contextmanager
def as_input_error() -> Iterator[None]:
    """Let what scikit-learn raises about data or parameters be one of our errors."""
    try:
        yield
    except InputError:
        raise
    except (InvalidParameterError, ValueError) as error:
        raise InputError(str(error)) from error
    except TypeError as error:
        raise _InputTypeError(str(error)) from error


def check_fitted(estimator: Any) -> None:
    """Raise `NotFittedError` before `fit`."""
    try:
        check_is_fitted(estimator)
    except sklearn.exceptions.NotFittedError as error:
        raise _NotFittedError(str(error)) from error
