"""Work on tiles with all cores: each thread has BLAS to itself instead of sharing every small product."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from dkpca.linalg.arrays import Array, on_gpu

ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")


def split_work(work: Callable[[Sequence[ItemT]], ResultT], items: Sequence[ItemT], reference: Array) -> list[ResultT]:
    """Deal the items to the threads that BLAS may use here, and return what each made of its share, in order.

    Who gets which item is fixed, so that sums over the results do not depend on timing. Only NumPy arrays are worked
    on by threads of ours; other libraries keep their own.
    """
    threads = _threads_for(len(items), reference)
    shares = [items[i::threads] for i in range(threads)]
    if threads <= 1:
        return [work(items)]
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        return [task.result() for task in [pool.submit(copy_context().run, work, share) for share in shares]]


def in_order(work: Callable[[ItemT], ResultT], items: Sequence[ItemT], reference: Array) -> Iterator[ResultT]:
    """Yield what is made of each item, in order; threads take the next item as they come, a few ahead of the caller.

    For results that are large: at most two per thread wait. A GPU is fed by one thread, while the caller fetches what
    was made.
    """
    threads = _threads_for(len(items), reference)
    if threads <= 1 and not on_gpu(reference):
        yield from map(work, items)
        return
    with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[ResultT]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(copy_context().run, work, item))  # with the limit on memory
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for task in waiting:
                task.cancel()


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def limit_blas_threads(most: int) -> None:
    """Keep BLAS to so many threads in this process from now on."""
    _controller().limit(limits=most)


def _threads_for(n_items: int, reference: Array) -> int:
    if n_items <= 1 or not isinstance(reference, np.ndarray):  # most are small: BLAS need not be asked
        return 1
    return min(_blas_threads(), n_items)


def _blas_threads() -> int:
    with _lock:
        if _entered:
            return 1  # somebody else's threads are at work already
        return _given[0] if _given else _most_threads()


def _most_threads() -> int:
    return max((int(library.num_threads) for library in _controller().lib_controllers), default=1)


_lock = Lock()
_entered: list[Any] = []  # one entry for each user of the limit; the first to come sets it, the last to go lifts it
_given: list[int] = []  # threads that BLAS leaves to ours for longer; one entry for each who asked for that
_limit: list[Any] = []


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: for our own threads, and for products too small to be worth sharing."""
    with _limited(_entered, 1):
        yield


@contextmanager
def threads_of_our_own() -> Iterator[None]:
    """Leave all threads to `split_work` and `in_order` for a while.

    Between two of them, BLAS would use its own for small products, and these then wait for more in a busy loop: half
    of the time of two cores.
    """
    with _lock:
        threads = _given[0] if _given else 1 if _entered else _most_threads()
    with _limited(_given, threads):
        yield


@contextmanager
def _limited(users: list[Any], entry: Any) -> Iterator[None]:
    """BLAS has one thread as long as anybody uses the limit."""
    with _lock:
        if not (_entered or _given):
            _limit.append(_controller().limit(limits=1))
            _limit[0].__enter__()
        users.append(entry)
    try:
        yield
    finally:
        with _lock:
            users.pop()
            if not (_entered or _given):
                _limit.pop().__exit__(None, None, None)
