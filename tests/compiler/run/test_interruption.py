"""Evaluations that are interrupted while memory is being given away: nothing is changed twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph.op import Op, registry
from ingot.ops.index.indexing import Put
from ingot.ops.shape.slicing import SliceUpdate


def _interrupted(evaluate: Any) -> None:
    """Runs a function, in which Ctrl-C arrives as soon as it lets other threads run."""
    go = threading.Lock()
    go.acquire()

    def interrupt() -> None:
        with go:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    # processes in the background are started without this handler
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(10)  # other threads run only when this one lets them

    def run() -> None:
        go.release()
        evaluate()
        thread.join()  # here it arrives at the latest

    try:
        with pytest.raises(KeyboardInterrupt):
            run()
    finally:
        sys.setswitchinterval(interval)
        thread.join()
        signal.signal(signal.SIGINT, handler)


def test_an_interrupted_program_that_was_given_its_input_can_run_again() -> None:
    def function(x: mx.array) -> tuple[mx.array, mx.array]:
        y = x
        for _ in range(4):
            y = mx.sin(y) + 1
        return y, y.reshape((2, -1)).T  # a view: Python makes it

    compiled = mx.compile(function)
    values = np.linspace(0, 5, 600_000, dtype=np.float32)
    expected = np.array(compiled(mx.array(values))[0])
    for _ in range(3):
        x = mx.array(values)
        y, shown = compiled(x)
        del x
        _interrupted(lambda y=y: mx.eval(y))
        np.testing.assert_array_equal(np.array(y), expected)
        np.testing.assert_array_equal(np.array(shown), expected.reshape(2, -1).T)


def test_a_change_that_is_interrupted_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Op, *inputs: Any) -> Any:
        raise KeyboardInterrupt

    x = mx.array(np.zeros((100, 100), np.float32))
    with monkeypatch.context() as patch:
        patch.setattr(Put, "change", interrupt)
        x = x.at[mx.array([1, 1])].add(1.0)
        with pytest.raises(KeyboardInterrupt):
            mx.eval(x)
    expected = np.zeros((100, 100))
    expected[1] = 2
    np.testing.assert_array_equal(np.array(x), expected)


@pytest.mark.parametrize("axes", [(0,), (1,)], ids=str)
def test_a_change_is_one_call_of_a_function_in_c(axes: tuple[int, ...]) -> None:
    assert {name for name, op in registry().items() if op.change is not None} == {
        "Put", "CheckedPut", "PutAlongAxis", "SliceUpdate", "DynamicSliceUpdate"
    }  # fmt: skip
    rng = np.random.default_rng(0)
    x = rng.standard_normal((30, 30)).astype(np.float32)
    updates = rng.standard_normal((30, 30)).astype(np.float32)
    index = rng.integers(0, 30, 30)
    scatters = [(Put(axes, mode), (updates, index)) for mode in ("add", "multiply", "assign")]
    slices = [(SliceUpdate((0, 2), (30, 8), (1, 2)), (updates[:, :3],))]
    for op, others in (*scatters, *slices):
        expected = op.evaluate(x, *others)
        changed = x.copy()
        function, *arguments = op.change(changed, *others)
        np.testing.assert_array_equal(changed, x)
        assert not hasattr(function, "__code__")
        function(*arguments)
        np.testing.assert_array_equal(changed, expected)


def test_scatters_without_compile_stay_in_place() -> None:
    mx.set_eager_fusion(False)
    try:
        x = mx.zeros((200, 200))
        mx.eval(x)
        places = []
        for _ in range(4):
            x = x.at[mx.array([1, 2, 1])].add(1.0)
            mx.eval(x)
            places.append(np.asarray(x).ctypes.data)
    finally:
        mx.set_eager_fusion(True)
    assert len(set(places)) == 1
    np.testing.assert_array_equal(np.array(x)[:4, 0], [0, 8, 4, 0])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have() -> None:
    program = """
        import os, threading, warnings
        import numpy as np
        import ingot.core as mx

        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        began, go_on = threading.Event(), threading.Event()

        def change(self, x, update):
            began.set()
            go_on.wait()
            return (lambda: None,)

        from ingot.ops.shape.slicing import SliceUpdate
        SliceUpdate.change = change
        mx.set_eager_fusion(False)
        x = mx.array(np.zeros((100, 100), np.float32))
        x[3] = 1.0
        thread = threading.Thread(target=mx.eval, args=(x,))
        thread.start()
        began.wait()
        child = os.fork()
        if child == 0:
            try:
                mx.eval(x)
            except RuntimeError as error:
                print(error, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        go_on.set()
        thread.join()
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stdout == (
        "another thread was computing this value when this process was forked, and does not run "
        "here; evaluate it before forking.\n"
    )
