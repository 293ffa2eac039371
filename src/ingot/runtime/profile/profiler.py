"""Profiles: what ran during a `with` block, for how long, and for which line.

While a profile runs, native code reports every program with the times of its instructions and every
op that is evaluated by itself (`_native/evaluate/profile.c`), and the compiler reports its own
time. Reports are queued and aggregated later, in order. Nested work is reported before the work
that contains it, which is how self time is computed.
"""

from __future__ import annotations

import importlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any

from ingot import _native
from ingot._native import Dtype, Node
from ingot.graph.deferred import Deferred
from ingot.graph.outputs import Output
from ingot.graph.reporting.source import Source
from ingot.graph.roles import View
from ingot.graph.shape import size_of
from ingot.runtime.evaluate import synchronize

if TYPE_CHECKING:
    from ingot.runtime.files import access
    from ingot.runtime.profile import output
    from ingot.runtime.profile.output import Row, Span
else:
    access = Deferred("ingot.runtime.files.access")
    output = Deferred("ingot.runtime.profile.output")

__all__ = ["Profile", "is_profiling", "profile", "profiled", "program_times", "set_graph_origins"]

MAX_WAITING = 1 << 16  # queued reports before they are aggregated
MAX_SPANS = 1 << 18  # kept for the trace file; totals count all
MAX_OPEN = 1 << 12  # finished spans of a thread that a later one may turn out to enclose

_lock = threading.Lock()
_running: tuple[Profile | _TimesOf, ...] = ()


_numbers = count()


class _Thread(threading.local):
    """Per-thread state: an id that is never reused by a later thread."""

    origins: list[Any] | None = None  # source lines of the graph being evaluated as a whole

    def __init__(self) -> None:
        self.number = next(_numbers)


_thread = _Thread()


class Profile:
    """Time and bytes by kernel, BLAS call, host step and op, with the user's lines.

    It sees everything that runs in the process while its block runs, in all threads; profiles
    inside others, and of several threads, each see all of it. Leaving the block waits for what
    `async_eval` began. Arrays that are still lazy then are not computed and not counted.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[Any, ...]] = deque()
        self._folding = threading.Lock()
        self._rows: dict[tuple[str, str, tuple[Any, ...]], Row] = {}
        self._spans: list[Span] = []
        self._left_out = 0
        # By thread: (begin, duration, what ran).
        self._ended: dict[int, list[tuple[int, int, Row | None]]] = {}
        self._threads: dict[int, str] = {}
        self._thread = -1
        self._begin = self._end = 0

    def __enter__(self) -> Profile:
        if self._begin:
            raise RuntimeError("[profile] a profile measures one block: make another for this one.")
        self._thread = _thread.number
        self._begin = time.perf_counter_ns()
        _change_running(lambda running: (*running, self))
        return self

    def __exit__(self, *error: Any) -> None:
        synchronize()
        _change_running(lambda running: tuple(each for each in running if each is not self))
        self._end = time.perf_counter_ns()

    # Results

    @property
    def rows(self) -> list[Row]:
        """What ran, the longest first, with self times."""
        self._fold()
        return sorted(self._rows.values(), key=lambda row: -row.seconds)

    @property
    def seconds(self) -> float:
        """The time from the beginning of the block to its end, or until now."""
        return ((self._end or time.perf_counter_ns()) - self._begin) / 1e9 if self._begin else 0.0

    @property
    def compile_seconds(self) -> float:
        """The time spent on tracing, optimising and code generation."""
        return sum(row.seconds for row in self.rows if row.kind == "compile")

    def __str__(self) -> str:
        return output.table_text(self.rows, self.seconds, self._elsewhere())

    def __repr__(self) -> str:
        if self._end:
            return str(self)
        state = "running" if self._begin else "not begun"
        return f"<profile, {state}, of {self.seconds:.3f} s>"

    def _repr_html_(self) -> str:
        return output.table_html(self.rows, self.seconds, self._elsewhere())

    def to_dict(self) -> dict[str, Any]:
        """The table as plain values."""
        return {
            "seconds": self.seconds,
            "compile_seconds": self.compile_seconds,
            "rows": [row.to_dict() for row in self.rows],
        }

    @property
    def spans(self) -> list[Span]:
        """Single runs, in the order in which they ended; those after the first 262,144 are left out
        and only counted in `spans_left_out`.
        """
        self._fold()
        return self._spans

    @property
    def spans_left_out(self) -> int:
        """The number of runs that `spans` does not have."""
        self._fold()
        return self._left_out

    @property
    def began(self) -> int:
        """When the block began, on the clock of the spans, in nanoseconds."""
        return self._begin

    @property
    def elsewhere(self) -> float:
        """Seconds of the block's thread in which nothing ran that was reported."""
        return self._elsewhere()

    def thread_name(self, thread: int) -> str:
        """The name of the thread that a span names by its number."""
        return self._threads[thread]

    def to_html(self, file: Any) -> None:
        """Write a page with a time line, the time by line of the program, and the table.

        Args:
            file: A path, or an object with a method `write` that takes text.
        """
        # The layer above draws pages; few programs need them.
        page: Any = importlib.import_module("ingot.explain.profile_page")
        access.write_text("Profile.to_html", file, page.profile_html(self))

    def save_trace(self, file: Any) -> None:
        """Write a trace that chrome://tracing and https://ui.perfetto.dev show.

        Args:
            file: A path, or an object with a method `write` that takes text.
        """
        self._fold()
        output.write_trace(file, self._spans, self._threads, self._begin, self._left_out)

    # Reports

    def _take(self, report: tuple[Any, ...]) -> None:
        self._waiting.append(report)
        if len(self._waiting) >= MAX_WAITING:
            self._fold()

    def _fold(self) -> None:
        """Aggregate the queued reports."""
        with self._folding:
            while self._waiting:
                kind, *details = self._waiting.popleft()
                if kind == "program":
                    self._add_program(*details)
                elif kind == "iterations":
                    self._add_iterations(*details)
                else:
                    self._add(kind, *details)

    def _add_program(
        self, about: Any, raw: bytes, origins: list[Any] | None, thread: int, name: str
    ) -> None:
        times = memoryview(raw).cast("q")
        ran_inside = deque(reversed(self._taken(thread, times[0])))
        spent = 0
        for number, work in enumerate(about.work):
            begin, end = times[2 * number + 2], times[2 * number + 3]
            inside = 0  # host steps run other programs and loops
            while ran_inside and ran_inside[0][0] < end:
                inside += ran_inside.popleft()[1]
            row = self._row(work.kind, work.name, _resolved(work.origins, origins))
            self._count(row, begin, end, inside, work.nbytes, work.flops, thread, name)
            spent += end - begin
        spent += sum(duration for _, duration, _ in ran_inside)
        row = self._row("call", about.name, ())
        self._count(row, times[0], times[1], spent, 0, 0, thread, name)
        self._ended[thread].append((times[0], times[1] - times[0], row))

    def _add_iterations(
        self, about: Any, raw: bytes, iterations: int, thread: int, name: str
    ) -> None:
        """A native loop: its kernels count once for each iteration in which they run, and the trace
        has one span.
        """
        begin, end, *spent = memoryview(raw).cast("q")
        for work, nanoseconds in zip(about.work, spent, strict=True):
            row = self._row(work.kind, work.name, _resolved(work.origins, None))
            calls = 1 if work.is_invariant else iterations
            row.calls += calls
            row.nanoseconds += nanoseconds
            row.bytes += calls * work.nbytes
            row.flops += calls * work.flops
        self._add("loop", about.name, (), 0, 0, begin, end, thread, name)
        row = self._row("loop", about.name, ())
        row.calls += iterations - 1
        row.nanoseconds -= min(row.nanoseconds, sum(spent))

    def _row(self, kind: str, title: str, sources: tuple[Source, ...]) -> Row:
        key = (kind, title, sources)
        found = self._rows.get(key)
        if found is None:
            found = self._rows[key] = output.Row(kind, title, sources)
        return found

    def _add(
        self,
        kind: str,
        title: str,
        sources: tuple[Source, ...],
        nbytes: int,
        flops: int,
        begin: int,
        end: int,
        thread: int,
        thread_name: str,
    ) -> None:
        row = self._row("call" if kind == "node" else kind, title, sources)
        ran_inside = self._taken(thread, begin)
        inside = sum(duration for _, duration, _ in ran_inside)
        self._count(row, begin, end, inside, nbytes, flops, thread, thread_name)
        if kind == "node" and any(inner is row for *_, inner in ran_inside):
            row.calls -= 1  # a node and the program that it runs are one call
        self._ended[thread].append((begin, end - begin, row))

    def _taken(self, thread: int, begin: int) -> list[tuple[int, int, Row | None]]:
        """Takes the spans that have begun since `begin`, the last first."""
        ended = self._ended.setdefault(thread, [])
        found = []
        while ended and ended[-1][0] >= begin:
            found.append(ended.pop())
        if len(ended) > 2 * MAX_OPEN:
            # merge the oldest into one entry, so that the sum stays the time in ingot
            old = ended[:MAX_OPEN]
            ended[:MAX_OPEN] = [(old[0][0], sum(duration for _, duration, _ in old), None)]
        return found

    def _count(
        self,
        row: Row,
        begin: int,
        end: int,
        inside: int,
        nbytes: int,
        flops: int,
        thread: int,
        thread_name: str,
    ) -> None:
        """Adds a span to its row; `inside` is the time of other rows in it."""
        row.calls += 1
        row.nanoseconds += max(0, end - begin - inside)
        row.bytes += nbytes
        row.flops += flops
        self._threads.setdefault(thread, thread_name)
        if len(self._spans) < MAX_SPANS:
            self._spans.append(output.Span(row, begin, end, thread, nbytes, flops))
        else:
            self._left_out += 1

    def _elsewhere(self) -> float:
        """Seconds of the block's own thread in which none of the above ran."""
        self._fold()
        spent = sum(duration for _, duration, _ in self._ended.get(self._thread, ()))
        return max(0.0, self.seconds - spent / 1e9)


def _here() -> tuple[int, str]:
    return _thread.number, threading.current_thread().name


def _resolved(origins: tuple[Any, ...], lines: list[Any] | None) -> tuple[Source, ...]:
    """The source lines, resolving indices to the nodes of this run."""
    if lines is not None:
        origins = tuple(lines[x] if isinstance(x, int) else x for x in origins)
    return tuple(dict.fromkeys(x for x in origins if isinstance(x, Source)))


def _change_running(change: Any) -> None:
    """Replace the set of running profiles; native code reports if there are any."""
    global _running
    with _lock:
        _running = change(_running)
        if _running:
            _native.set_callbacks(ran_node=_ran_node, ran_program=_ran_program, ran_loop=_ran_loop)
        else:
            _native.set_callbacks(ran_node=None, ran_program=None, ran_loop=None)


def _ran_program(about: Any, times: bytes) -> None:
    origins, _thread.origins = _thread.origins, None
    report = ("program", about, times, origins, *_here())
    for each in _running:
        each._take(report)


def _ran_loop(about: Any, times: bytes, iterations: int) -> None:
    report = ("iterations", about, times, iterations, *_here())
    for each in _running:
        each._take(report)


def _ran_node(node: Node, begin: int, end: int) -> None:
    op = node.op
    if op is None or type(op) is Output:
        return  # another thread was faster and the node has dropped its op; or no work
    kind, nbytes = "node", 0  # of a program
    sources: tuple[Source, ...] = ()
    if not op.only_calls:
        kind = "op"
        sources = () if node.origin is None else (node.origin,)
        nbytes = 0 if isinstance(op, View) else _nbytes(node) + sum(map(_nbytes, node.inputs))
    report = (kind, op.title, sources, nbytes, 0, begin, end, *_here())
    for each in _running:
        each._take(report)


def _nbytes(node: Node) -> int:
    if isinstance(node.dtype, Dtype):
        return size_of(node.shape) * node.dtype.size
    return sum(size_of(s) * d.size for s, d in zip(node.shape, node.dtype, strict=True))


def is_profiling() -> bool:
    """Whether a profile is running."""
    return bool(_running)


def set_graph_origins(nodes: list[Node]) -> None:
    """Tell the running profiles which nodes the next program of this thread computes."""
    _thread.origins = [node.origin for node in nodes]


class _TimesOf:
    """Collects the times of one program."""

    def __init__(self, about: Any) -> None:
        self._about = about
        self.found: list[bytes] = []

    def _take(self, report: tuple[Any, ...]) -> None:
        if report[0] == "program" and report[1] is self._about:
            self.found.append(report[2])


def program_times(about: Any, run: Callable[[], None]) -> list[bytes]:
    """The times of each run of a program, as reported by native code during `run`."""
    collector = _TimesOf(about)
    _change_running(lambda running: (*running, collector))
    try:
        run()
    finally:
        _change_running(lambda running: tuple(each for each in running if each is not collector))
    return collector.found


@contextmanager
def profiled(kind: str, title: str) -> Iterator[None]:
    """Report the time of a block to the running profiles."""
    begin = time.perf_counter_ns()
    try:
        yield
    finally:
        if _running:
            report = (kind, title, (), 0, 0, begin, time.perf_counter_ns(), *_here())
            for each in _running:
                each._take(report)


def profile() -> Profile:
    """Measure what a block of code runs: time and bytes by kernel, with your source lines.

    Example:
        >>> with ingot.profile() as profile:
        ...     mx.eval(step(x, y))
        >>> print(profile)
        >>> profile.save_trace("trace.json")

    Returns:
        A context manager. Printed, it is a table; `rows`, `seconds` and `to_dict()` are for
        programs, and `save_trace` writes a file for Perfetto.
    """
    return Profile()
