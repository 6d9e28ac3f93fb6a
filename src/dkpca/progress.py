"""How long work tells how far it is. The library is silent; the command line draws a bar."""

from collections.abc import Callable

Progress = Callable[[str, float], None]  # what is being done, and the share of it that is done


def silent(what: str, share: float) -> None:
    """Say nothing."""
