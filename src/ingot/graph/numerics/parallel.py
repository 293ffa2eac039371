"""Independent calls within one op on several threads, with single-threaded BLAS in each.

BLAS libraries spread one product over their own threads, which synchronise at its end. For products
of a few milliseconds that is expensive, above all on a loaded machine. Where an op computes many
independent products, it is better to distribute whole products over threads. Threads are started
for each call, which takes less than a tenth of a millisecond.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from ingot import _native
from ingot.graph.numerics.blas import prepare_products

__all__ = ["each_in_parallel", "one_blas_thread"]

Item = TypeVar("Item")
Result = TypeVar("Result")


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread until the last of all concurrent users of this leaves."""
    prepare_products()
    _native.hold_blas_threads()
    try:
        yield
    finally:
        _native.release_blas_threads()


class _Work:
    """Calls of a function that threads claim one by one."""

    def __init__(self, function: Callable[[Any], Any], items: Sequence[Any]) -> None:
        self.function = function
        self.items = items
        self.numbers = itertools.count()  # next() is atomic
        self.results: list[Any] = [None] * len(items)
        self.error: BaseException | None = None

    def run(self) -> None:
        """Compute results until none is left or one has failed."""
        for number in self.numbers:
            if number >= len(self.items) or self.error is not None:
                return
            try:
                self.results[number] = self.function(self.items[number])
            except BaseException as error:  # raised by the waiting thread
                self.error = error


def each_in_parallel(function: Callable[[Item], Result], items: Sequence[Item]) -> list[Result]:
    """`[function(item) for item in items]`, on as many threads as ingot's pool has.

    The function must not write where another call of it reads or writes.
    """
    threads = min(_native.get_num_threads(), len(items))
    if threads <= 1:
        return [function(item) for item in items]
    work = _Work(function, items)
    with one_blas_thread():
        # Each thread copies this one's context: NumPy's memory handler and floating-point error
        # state.
        helpers = [
            threading.Thread(target=contextvars.copy_context().run, args=(work.run,), daemon=True)
            for _ in range(threads - 1)
        ]
        for helper in helpers:
            helper.start()
        work.run()
        for helper in helpers:
            helper.join()
    if work.error is not None:
        raise work.error
    return work.results
