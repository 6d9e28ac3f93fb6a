"""Work that may hang."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

ResultT = TypeVar("ResultT")


def within(seconds: float, work: Callable[[], ResultT]) -> ResultT:
    """Run in a thread, so that a hang ends the test instead of the session."""
    pool = ThreadPoolExecutor(1)
    try:
        return pool.submit(work).result(timeout=seconds)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
