"""Evaluation: computes lazy arrays when their values are needed, now or in the background.

The graph traversal is native (`_native/evaluate/evaluate.c`): it calls each op's `evaluate`
rule in dependency order, in a context in which NumPy neither warns about floating-point errors nor
allocates outside ingot's memory. `async_eval` hands the same traversal to one background thread.
The nodes that it will compute are marked as pending, so that a thread that needs one of them waits
instead of computing it again; the background thread itself never waits, so there is no deadlock.
"""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import os
import threading
from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot import _native
from ingot._native import array
from ingot.graph.deferred import Deferred
from ingot.graph.device import Stream, StreamLike, resolve_stream
from ingot.graph.tree import arrays_in
from ingot.runtime import failures

if TYPE_CHECKING:
    import queue
else:
    queue = Deferred("queue")

__all__ = ["async_eval", "eval", "synchronize"]

MAX_FAILED = 16  # errors of background evaluations that are kept for `synchronize`
FORK_PATIENCE = 10  # seconds that a fork waits for the job that is being computed


def eval(*args: Any) -> None:
    """Compute all arrays in `args`, which may be arrays and nested lists, tuples and dicts of them.

    Other leaves are ignored.
    """
    if not _native.evaluate_arrays(args):
        _native.evaluate(arrays_in(args))


def async_eval(*args: Any) -> None:
    """Begin to compute all arrays in `args` in the background and return at once.

    Reading a value then waits for it. An error of the computation is raised there, and by the next
    `synchronize` if nothing was read.

    Args:
        args: Arrays and nested lists, tuples and dicts of them. Other leaves are ignored.
    """
    arrays = arrays_in(args)
    if _native.in_tracing():
        raise ValueError(
            "[async_eval] is not allowed inside a function that is transformed or compiled, whose "
            "arrays have no values yet: call it on the results."
        )
    _worker.submit(arrays)


def synchronize(stream: StreamLike = None) -> None:
    """Wait until everything that was given to `async_eval` is computed.

    Raises the first error of these computations that no read of a value has raised.

    Args:
        stream: The stream or device to wait for. All streams share one queue, so all are awaited.
    """
    if not isinstance(stream, Stream):  # any may be awaited, also those of other threads
        resolve_stream(stream)
    _worker.synchronize()


class _Job:
    """One call of `async_eval`; calling it waits for the end of the computation."""

    def __init__(self, arrays: list[array]) -> None:
        self.arrays = arrays
        self.done = threading.Event()
        self.error: BaseException | None = None
        self.orphaned = False  # no thread will run it: the first reader does

    def run(self) -> None:
        """Compute the arrays; an error is stored and raised by reads of them."""
        try:
            _native.evaluate_pending(self.arrays)
        except BaseException as error:  # stored for the thread that waits
            if _worker.stopped and threading.current_thread() is _worker.thread:
                self.orphaned = True
                return
            self.error = error.with_traceback(None)  # whose frames hold arrays
            _worker.failed.append(self.error)
        self.arrays = []  # break the cycle: the nodes refer to this job
        self.done.set()

    def __call__(self) -> None:
        while not self.done.wait(0 if self.orphaned else None):
            self.orphaned = False
            self.run()
        if self.error is not None:
            _worker.forget_error(self.error)
            raise self.error.with_traceback(None)


class _Worker:
    """The background thread and its queue."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.running = threading.RLock()  # held during a job
        self.jobs: queue.SimpleQueue[_Job | None]  # from when there is a thread
        self.unfinished: set[_Job] = set()
        self.failed: deque[BaseException] = deque(maxlen=MAX_FAILED)  # not raised yet
        self.thread: threading.Thread | None = None
        self.stopped = False

    def submit(self, arrays: list[array]) -> None:
        """Queues the computation of the arrays."""
        if self.stopped:  # the interpreter is shutting down and starts no more threads
            _native.evaluate(arrays)
            return
        job = _Job(arrays)
        if not _native.mark_pending(arrays, job):
            return
        with self.lock:
            if self.thread is None:
                self.jobs = queue.SimpleQueue()
                self.thread = threading.Thread(target=self.work, name="ingot-eval", daemon=True)
                self.thread.start()
            self.unfinished.add(job)
        self.jobs.put(job)

    def work(self) -> None:
        """Run jobs in order, until it finds None."""
        while (job := self.jobs.get()) is not None:
            with self.running:
                job.run()
            self.unfinished.discard(job)
            del job  # its error may hold arrays, which must not live until the next job

    def synchronize(self) -> None:
        """Wait for all jobs queued so far; raises the first error that was not raised elsewhere."""
        for job in list(self.unfinished):
            job.done.wait()
        with self.lock:
            failed = list(self.failed)
            self.failed.clear()
        if failed:
            raise failed[0].with_traceback(None)

    def forget_error(self, error: BaseException) -> None:
        """Notes that an error is raised where a value is read."""
        with self.lock, contextlib.suppress(ValueError):
            self.failed.remove(error)

    def stop(self) -> None:
        """Stop the thread before the interpreter exits. Its current job is cut short; a thread that
        still needs the result computes it.
        """
        with self.lock:
            self.stopped = True
            thread = self.thread
        if thread is None:
            return
        with contextlib.suppress(queue.Empty):
            while (job := self.jobs.get_nowait()) is not None:
                job.orphaned = True
        _native.stop_background()
        self.jobs.put(None)
        thread.join()

    def pause(self) -> None:
        """Wait for the end of the current job before a fork: what it imports would stay locked in
        the new process.
        """
        self.running.acquire(timeout=FORK_PATIENCE)

    def resume(self) -> None:
        """Go on after a fork."""
        with contextlib.suppress(RuntimeError):  # of a thread that did not get the lock
            self.running.release()

    def forget(self) -> None:
        """Reset the state in a forked process, in which the thread does not exist."""
        for job in self.unfinished:
            job.done = threading.Event()
            job.orphaned = True
        self.__init__()  # type: ignore[misc]


_worker = _Worker()
atexit.register(_worker.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_worker.pause, after_in_parent=_worker.resume, after_in_child=_worker.forget
    )


def _make_context() -> contextvars.Context:
    context = contextvars.copy_context()
    context.run(np.seterr, all="ignore")
    context.run(_native.enter_numpy_memory)
    return context


_native.set_callbacks(make_context=_make_context)
failures.install()
_native.set_main_thread(threading.main_thread().ident or 0)
