"""Evaluation, now and in the background: values, errors, threads, exit and fork."""

from __future__ import annotations

import gc
import subprocess
import sys
import textwrap
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.graph.op import apply, no_rule
from ingot.graph.roles import Host


@dataclass(frozen=True, eq=False)
class Calls(Host):
    """Gives its input after calling a function: shows when, where and how often it is evaluated."""

    function: Callable[[], Any]

    def infer(self, x: mx.array) -> Any:
        return x.shape, x.dtype

    def evaluate(self, x: np.ndarray) -> np.ndarray:
        self.function()
        return x

    vjp = jvp = vmap = emit = no_rule("it is for tests")


def calling(function: Callable[[], Any], x: Any = 1.0) -> mx.array:
    return apply(Calls(function), mx.array(x))


def fail() -> None:
    raise RuntimeError("this op always fails")


class Gate:
    """An op that waits until it is opened, and counts how often it runs."""

    def __init__(self) -> None:
        self.opened = threading.Event()
        self.runs: list[str] = []

    def __call__(self) -> None:
        self.runs.append(threading.current_thread().name)
        assert self.opened.wait(20)


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    results: list[Any] = [None] * count

    def run(number: int) -> None:
        try:
            results[number] = work(number)
        except Exception as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()
    return results


def run_program(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "import ingot.core as mx\n" + textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


# ---- eval ----


def test_eval_takes_trees() -> None:
    arrays = [mx.array(float(i)) + 1 for i in range(5)]
    mx.eval(arrays[0], [arrays[1], (arrays[2], {"a": arrays[3], "b": [None, "x", 1]})], arrays[4])
    assert all(array._node.evaluated for array in arrays)


@pytest.mark.parametrize("evaluate", [mx.eval, mx.async_eval])
def test_other_leaves_are_ignored(evaluate: Callable[..., None]) -> None:
    evaluate()
    evaluate(None)
    evaluate(1, "a", [None], {1: object()}, {2}, iter([mx.array(1)]))
    with pytest.raises(TypeError):
        evaluate(a=mx.array(1))


@pytest.mark.parametrize("evaluate", [mx.eval, mx.async_eval])
def test_trees_that_contain_themselves_are_refused(evaluate: Callable[..., None]) -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(ValueError, match="the tree contains itself"):
        evaluate(tree)


def test_each_node_runs_once() -> None:
    runs: list[int] = []
    array = calling(lambda: runs.append(1))
    mx.eval(array + 1, array * 2, array)
    mx.eval(array)
    assert runs == [1]


def test_an_error_leaves_the_graph_as_it_was() -> None:
    good = mx.array(1.0) + 1
    bad = calling(fail) + good
    for _ in range(2):
        with pytest.raises(RuntimeError, match="always fails"):
            mx.eval(bad)
    assert good.item() == 2


def test_evaluation_within_evaluation() -> None:
    inner = mx.array([1.0]) + 1
    seen: list[Any] = []
    outer = calling(lambda: seen.append(inner.item()))
    mx.eval(outer)
    assert seen == [2]


def test_numpy_does_not_warn() -> None:
    with np.errstate(all="raise"):
        assert mx.exp(mx.array(1000.0)).item() == float("inf")
        assert mx.array([1.0]).item() == 1


def test_one_graph_in_many_threads() -> None:
    array = mx.array(np.arange(1000.0))
    for _ in range(300):
        array = mx.sin(array) + 1
    expected = np.arange(1000.0)
    for _ in range(300):
        expected = np.sin(expected) + 1
    results = in_threads(6, lambda _: np.array(array))
    for result in results:
        np.testing.assert_allclose(result, expected, rtol=1e-4)


def test_many_graphs_with_common_parts_in_many_threads() -> None:
    common = mx.array(np.ones(100)) * 2
    for _ in range(100):
        common = common + 1
    results = in_threads(6, lambda number: [(common + number + i).sum().item() for i in range(20)])
    for number, result in enumerate(results):
        assert result == [100 * (102 + number + i) for i in range(20)]


# ---- async_eval ----


def test_async_eval_returns_at_once() -> None:
    gate = Gate()
    array = calling(gate)
    mx.async_eval(array)
    assert not array._node.evaluated
    gate.opened.set()
    assert array.item() == 1
    assert gate.runs == ["ingot-eval"]


def test_async_eval_of_trees_and_of_their_users() -> None:
    x = mx.array(np.arange(5.0))
    y = x + 1
    mx.async_eval({"y": [y]}, None)
    z = y * 2
    mx.async_eval(z)
    assert z.tolist() == [2, 4, 6, 8, 10]
    assert y.tolist() == [1, 2, 3, 4, 5]


def test_what_is_pending_is_not_computed_again() -> None:
    gate = Gate()
    inner = calling(gate)
    outer = inner + 1
    mx.async_eval(outer)
    mx.async_eval(inner, outer)
    user = inner * 10
    opener = threading.Timer(0.05, gate.opened.set)
    opener.start()
    assert user.item() == 10
    assert outer.item() == 2
    assert len(gate.runs) == 1
    opener.join()


def test_evaluated_arrays_are_not_queued() -> None:
    array = mx.array(1.0)
    mx.async_eval(array)
    assert array._node.pending is None
    lazy = array + 1
    mx.eval(lazy)
    mx.async_eval(lazy)
    assert lazy._node.pending is None


def test_errors_are_raised_where_the_value_is_used() -> None:
    bad = calling(fail)
    mx.async_eval(bad)
    user = bad + 1
    for use in (bad.item, user.item, lambda: mx.eval(bad), lambda: repr(user)):
        with pytest.raises(RuntimeError, match="always fails"):
            use()
    later = bad * 2
    mx.async_eval(later)
    with pytest.raises(RuntimeError, match="always fails"):
        later.item()
    assert (mx.array(1.0) + 1).item() == 2


def test_synchronize_waits_and_raises_what_nobody_has_seen() -> None:
    bad = calling(fail)
    good = calling(lambda: time.sleep(0.05))
    mx.async_eval(bad)
    mx.async_eval(good)
    with pytest.raises(RuntimeError):
        mx.synchronize()
    assert good._node.evaluated
    assert not bad._node.evaluated
    mx.synchronize()
    seen = calling(fail)
    mx.async_eval(seen)
    with pytest.raises(RuntimeError):
        mx.eval(seen)
    mx.synchronize()


def test_async_evaluation_from_within_evaluation() -> None:
    inner = mx.array([1.0]) + 1
    also = calling(lambda: mx.async_eval(inner))
    mx.async_eval(also)
    assert also.item() == 1
    assert inner.item() == 2
    waits_for_a_later_job = calling(lambda: later.item())
    later = mx.array([3.0]) + 1
    mx.async_eval(waits_for_a_later_job)
    mx.async_eval(later)
    assert waits_for_a_later_job.item() == 1
    assert later.item() == 4


def test_pending_arrays_in_many_threads() -> None:
    def work(number: int) -> Any:
        total = mx.array(float(number))
        for i in range(50):
            total = total + i
            mx.async_eval(total)
            if i % 10 == 0:
                total.item()
        return total.item()

    assert in_threads(5, work) == [1225 + number for number in range(5)]


def test_one_pending_graph_in_many_threads() -> None:
    gate = Gate()
    array = calling(gate, 3.0) + 1
    mx.async_eval(array)
    threading.Timer(0.05, gate.opened.set).start()
    assert in_threads(5, lambda number: (array + number).item()) == [4 + i for i in range(5)]
    assert len(gate.runs) == 1


def test_a_graph_that_is_pending_and_evaluated_at_once() -> None:
    for _ in range(30):
        array = mx.array(np.ones(10))
        for _ in range(50):
            array = array + 1
        evaluating = threading.Thread(target=lambda array=array: mx.eval(array))
        evaluating.start()
        mx.async_eval(array)
        assert array[0].item() == 51
        evaluating.join(20)
        assert not evaluating.is_alive()


def test_finished_work_is_forgotten() -> None:
    array = mx.array(np.zeros(1000)) + 1
    reference = weakref.ref(array)
    mx.async_eval(array)
    mx.synchronize()
    assert array._node.pending is None
    del array
    gc.collect()
    assert reference() is None


def test_failed_work_is_forgotten() -> None:
    kept = mx.array(np.zeros(1000, np.float32))
    before = sys.getrefcount(kept._node)
    bad = calling(fail) + kept
    mx.async_eval(bad)
    with pytest.raises(RuntimeError):
        mx.synchronize()
    del bad
    gc.collect()
    after = sys.getrefcount(kept._node)
    assert after == before


def test_a_deep_graph_in_the_background() -> None:
    array = mx.array([0.0])
    for _ in range(100_000):
        array = array + 1
    mx.async_eval(array)
    assert array.item() == 100_000


# ---- exit and fork ----


def test_exit_with_pending_work() -> None:
    program = """
        x = mx.ones((300, 300))
        for _ in range(200):
            x = mx.sin(x) + 1
            mx.async_eval(x)
        print("done")
    """
    result = run_program(program)
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")


def test_use_of_pending_arrays_at_exit() -> None:
    program = """
        import atexit
        import ingot.core
        x = mx.ones((100, 100))
        atexit.register(lambda: print((x + 1).sum().item()))
        for _ in range(50):
            x = mx.sin(x) * 0 + 1
            mx.async_eval(x)
        atexit.register(lambda: mx.async_eval(x + 2))
    """
    result = run_program(program)
    assert (result.returncode, result.stdout, result.stderr) == (0, "20000.0\n", "")


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_fork_while_the_background_thread_imports(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("import time\ntime.sleep(0.5)\n")
    program = f"""
        import os, sys, time, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        sys.path[:0] = [{str(Path.cwd())!r}, {str(tmp_path)!r}]
        from tests.runtime.test_evaluate import calling
        x = calling(lambda: __import__("slow")) + 1
        mx.async_eval(x)
        while "slow" not in sys.modules:
            time.sleep(0.01)
        child = os.fork()
        import slow
        os.write(1, f"{{x.item()}}\\n".encode())  # at once, unlike `print`
        if child:
            assert os.waitpid(child, 0)[1] == 0
        else:
            os._exit(0)
    """
    result = run_program(program)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "2.0\n" * 2


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="needs fork")
def test_fork_with_pending_work() -> None:
    program = """
        import os, warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        x = mx.ones((200, 200))
        for _ in range(100):
            x = mx.sin(x) * 0 + 1
            mx.async_eval(x)
        child = os.fork()
        value = (x + 1).sum().item()
        y = x + 3
        mx.async_eval(y)
        value += y.sum().item()
        print(value, flush=True)
        if child:
            assert os.waitpid(child, 0)[1] == 0
        else:
            os._exit(0)
    """
    result = run_program(program)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "240000.0\n" * 2


def test_an_interrupt_reaches_the_one_who_waits() -> None:
    program = """
        import signal, threading
        from ingot import _native
        waiting = mx.array(1.0) + 1
        def wait():
            threading.Event().wait(30)
        _native.mark_pending([waiting], wait)
        main = threading.get_ident()
        threading.Timer(0.2, lambda: signal.pthread_kill(main, signal.SIGINT)).start()
        try:
            waiting.item()
        except KeyboardInterrupt:
            print("interrupted")
    """
    result = run_program(program)
    assert (result.returncode, result.stdout) == (0, "interrupted\n")


@pytest.mark.parametrize("kept", [False, True], ids=["inner nodes dropped", "inner nodes kept"])
def test_threads_evaluate_one_large_graph(kept: bool) -> None:
    """Large graphs run as a whole; whoever comes second finds nodes that forgot their inputs."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for _ in range(20):
            x = mx.ones((200, 200))
            inner = []
            for _ in range(12):
                x = mx.sin(x) * 1.25 + 0.5
                inner.append(x)
            results = (x.sum(axis=0), x, inner[7] if kept else x * 1)
            if not kept:
                inner.clear()

            def work(number: int, results: tuple[mx.array, ...] = results) -> Any:
                return number % 3, np.array(results[number % 3])

            values = in_threads(6, work)
            for which, value in values:
                np.testing.assert_array_equal(value, np.array(results[which]))
            np.testing.assert_allclose(np.array(x).sum(axis=0), np.array(results[0]), rtol=1e-5)
    finally:
        sys.setswitchinterval(interval)


@pytest.mark.parametrize(
    "make",
    [
        lambda: mx.repeat(mx.arange(3), 2**62),
        lambda: mx.pad(mx.arange(3), 2**62),
        lambda: mx.zeros((2**62, 4)) + 1,
    ],
)
def test_shapes_beyond_integers_are_plain_errors(make: Callable[[], mx.array]) -> None:
    with pytest.raises((ValueError, MemoryError, OverflowError)):
        mx.eval(make())
