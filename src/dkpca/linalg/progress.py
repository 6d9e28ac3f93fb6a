"""How long work tells how far it is. The library is silent unless somebody listens; the command line draws a bar."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Progress = Callable[[str, float], None]  # what is being done, and the share of it that is done


def silent(what: str, share: float) -> None:
    """Say nothing."""


_listener: ContextVar[Progress] = ContextVar("listener", default=silent)


@contextmanager
def listening(listener: Progress) -> Iterator[None]:
    """Have the solvers that `dkpca.linalg.leading.leading` sets up inside tell this listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def current() -> Progress:
    """Return whoever listens here."""
    return _listener.get()
