"""Long compilations show their progress on terminals and in notebooks, and nowhere else."""

from __future__ import annotations

import os
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import ingot.core as mx
from ingot.runtime import progress

pty = pytest.importorskip("pty")

# Kernels that take a while each; the program prints a part of a line before, and the rest after.
PROGRAM = """
import sys, time
from ingot.runtime import progress
progress.DELAY = 0.1
progress.INTERVAL_OF_LINES = 0.1
import ingot.core as mx
from ingot.compiler.machine import kernels
original = kernels.compile_object
def slowly(text):
    time.sleep(0.25)
    return original(text)
kernels.compile_object = slowly
@mx.compile
def step(x):
    for _ in range(3):
        x = mx.sort(mx.exp(x) * len(x.shape), axis=0)
    return x + 1
print("before, ", end="")
mx.eval(step(mx.array([[1.0, 2.0], [3.0, 4.0]])))
print("after")
"""


def environment(**changes: str) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("INGOT_PROGRESS", "INGOT_LOG")}
    # One thread: several would compile all of the few kernels at the same time.
    return {**kept, "INGOT_NUM_THREADS": "1", "INGOT_CACHE": "off", "TERM": "xterm", **changes}


def run_in_terminal(program: str, **changes: str) -> str:
    """What a terminal receives from a program."""
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=child,
        stdout=child,
        stderr=child,
        env=environment(**changes),
    )
    os.close(child)
    received = b""
    while True:
        ready = select.select([parent], [], [], 60)[0]
        try:
            data = os.read(parent, 65536) if ready else b""
        except OSError:  # the other side is closed
            data = b""
        if not data:
            break
        received += data
    os.close(parent)
    assert process.wait() == 0, received.decode()
    return received.decode()


def screen(received: str) -> list[str]:
    """The lines that are on a terminal in the end: enough of one for what is written here."""
    rows, row, column, saved = [""], 0, 0, (0, 0)
    for part in re.findall(r"\x1b7|\x1b8|\x1b\[[?\d]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", received):
        if part == "\x1b7":
            saved = (row, column)
        elif part == "\x1b8":
            row, column = saved
        elif part == "\x1b[K":
            rows[row] = rows[row][:column]
        elif part in ("\x1b[?7l", "\x1b[?7h"):
            pass
        elif part == "\r":
            column = 0
        elif part == "\n":
            row += 1
            rows += [""] * (row + 1 - len(rows))
        else:
            assert not part.startswith("\x1b"), part
            line = rows[row].ljust(column)
            rows[row] = line[:column] + part + line[column + len(part) :]
            column += len(part)
    return [line.rstrip() for line in rows]


def test_a_terminal_shows_a_bar_that_is_erased_at_the_end() -> None:
    received = run_in_terminal(PROGRAM)
    shown = re.findall(r"compiling step: (\d) of (\d) kernels", received)
    assert len({total for _, total in shown}) == 1  # known in advance
    numbers = [int(done) for done, _ in shown]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 1
    assert "[####" in received
    assert screen(received) == ["before, after", ""]


@pytest.mark.parametrize("changes", [{"INGOT_PROGRESS": "off"}, {"TERM": "dumb"}])
def test_nothing_is_shown_where_it_is_off(changes: dict[str, str]) -> None:
    assert run_in_terminal(PROGRAM, **changes) == "before, after\r\n"


def test_pipes_get_nothing_unless_requested() -> None:
    for mode, pattern in (("auto", ""), ("on", r"(compiling step.*\n)+")):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment(INGOT_PROGRESS=mode),
            check=True,
            text=True,
            capture_output=True,
        )
        assert done.stdout == "before, after\n"
        assert re.fullmatch(pattern, done.stderr), done.stderr


def test_quick_compilations_say_nothing() -> None:
    program = PROGRAM.replace("progress.DELAY = 0.1\n", "progress.DELAY = 60\n")
    assert run_in_terminal(program) == "before, after\r\n"


def test_tracing_and_evaluation_without_compile_are_shown() -> None:
    program = PROGRAM.replace("def step(x):", "def step(x):\n    time.sleep(0.4)")
    assert "compiling step: tracing" in run_in_terminal(program)
    program = PROGRAM.split("@mx.compile")[0] + (
        "x = mx.array([[1.0] * 300] * 300)\n"
        "for _ in range(3):\n"
        "    mx.eval(mx.sum(mx.exp(x * 2), axis=0))\n"
        "print('after')\n"
    )
    received = run_in_terminal(program)
    assert "compiling graph: 0 of 1 kernels" in received
    assert screen(received) == ["after", ""]


def test_an_error_or_an_interrupt_leaves_no_line() -> None:
    program = PROGRAM.replace("    return original(text)", "    raise KeyboardInterrupt").replace(
        "time.sleep(0.25)", "time.sleep(0.5)"
    )
    program = program.replace("mx.eval(step(", "try:\n    mx.eval(step(").replace(
        'print("after")', 'except KeyboardInterrupt:\n    print("stopped")'
    )
    received = run_in_terminal(program)
    assert "compiling step" in received
    assert screen(received) == ["before, stopped", ""]


def test_log_lines_and_the_bar_make_room_for_each_other() -> None:
    received = run_in_terminal(PROGRAM, INGOT_LOG="compile:debug")
    lines = [line for line in screen(received) if line]
    assert lines[0].startswith("before, ingot: compiled step in ")
    assert any(
        re.match(r"ingot: kernel ingot_\w+: compiled in [\d.]+ ms, \d+ bytes$", x) for x in lines
    )
    assert lines[-1] == "after"
    assert all("compiling step" not in line for line in lines)


# In this process


class Recorder:
    """A display that remembers."""

    interval = 0.01

    def __init__(self) -> None:
        self.shown: list[tuple[str, int]] = []
        self.cleared = 0
        self.seen = threading.Event()

    def show(self, task: Any, others: int) -> None:
        self.shown.append((task.text, others))
        self.seen.set()

    def clear(self) -> None:
        self.cleared += 1


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    made = Recorder()
    monkeypatch.setattr(progress, "_display", lambda mode: made)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "IDLE", 0.05)
    monkeypatch.setattr(progress, "_watcher", progress._Watcher())
    yield made
    for thread in threading.enumerate():
        if thread.name == "ingot: progress":
            thread.join()  # it ends by itself


def test_threads_that_compile_at_once_share_the_line(recorder: Recorder) -> None:
    with progress.compiling("first"):
        progress.working("kernels", 1, 3)
        recorder.seen.wait()

        def second() -> None:
            with progress.compiling("second"):
                while recorder.shown[-1][1] == 0:
                    time.sleep(0.001)

        threads = [threading.Thread(target=second) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {text for text, _ in recorder.shown} <= {
        "compiling first",
        "compiling first: 1 of 3 kernels",
    }
    assert recorder.cleared == 1


def test_inner_compiled_functions_are_part_of_the_outer(recorder: Recorder) -> None:
    with progress.compiling("outer"):
        with progress.compiling("inner"):
            progress.working("tracing")
            while not recorder.shown or recorder.shown[-1][0] != "compiling outer: tracing":
                time.sleep(0.001)
        assert recorder.cleared == 0
    assert recorder.cleared == 1


def test_a_failing_display_does_not_affect_the_compilation(recorder: Recorder) -> None:
    def fail(task: Any, others: int) -> None:
        recorder.seen.set()
        raise ArithmeticError("a front end")

    recorder.show = fail  # type: ignore[method-assign]
    with progress.compiling("something"):
        recorder.seen.wait()
    with progress.compiling("something else"):
        pass


def test_notebooks_update_an_output(monkeypatch: pytest.MonkeyPatch) -> None:
    updates: list[tuple[str, Any]] = []

    class Handle:
        def update(self, bundle: Any, raw: bool) -> None:
            updates.append(("update", bundle))

    def display(bundle: Any, raw: bool, display_id: bool) -> Handle:
        updates.append(("display", bundle))
        return Handle()

    module: Any = ModuleType("IPython")
    module.get_ipython = lambda: SimpleNamespace(kernel=object())
    module.display = ModuleType("IPython.display")
    module.display.display = display
    monkeypatch.setitem(sys.modules, "IPython", module)
    monkeypatch.setitem(sys.modules, "IPython.display", module.display)
    monkeypatch.setattr(progress, "DELAY", 0.0)
    monkeypatch.setattr(progress, "IDLE", 0.05)
    monkeypatch.setattr(progress, "_watcher", progress._Watcher())
    with progress.compiling("step"):
        progress.working("kernels", 3, 6)
        while len(updates) < 2:
            time.sleep(0.001)
    assert updates[0][0] == "display"
    assert {"text/plain": "compiling step: 3 of 6 kernels [############............]"} in (
        bundle for _, bundle in updates
    )
    assert updates[-1] == ("update", {"text/plain": ""})
    module.get_ipython = lambda: SimpleNamespace()  # IPython on a terminal
    assert progress._notebook_display() is None


def test_the_setting() -> None:
    before = mx.set_compile_progress("off")
    try:
        assert mx.set_compile_progress("on") == "off"
        with pytest.raises(TypeError, match="mode must be a string, got int: 3"):
            mx.set_compile_progress(3)  # type: ignore[arg-type]
    finally:
        assert mx.set_compile_progress(before) == "on"
