"""NumPy files: what their reader raises over a damaged one is not always a ValueError."""

import contextlib
import tokenize
from collections.abc import Iterator


@contextlib.contextmanager
def reading() -> Iterator[None]:
    """Turn what NumPy raises over a damaged file into a `ValueError`."""
    try:
        yield
    except (tokenize.TokenError, SyntaxError, EOFError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ValueError(f"it is damaged: {error}") from error
    except MemoryError as error:
        raise ValueError("it states a size that does not fit into memory") from error
