"""Ctrl-C in the middle of long evaluations: they end at once, and can be evaluated again.

Each program takes seconds. It is interrupted a moment after it began, by a real signal, and must
not have finished then; what it was computing is computed afterwards and compared with NumPy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

PRELUDE = """
    import os, signal, sys, threading, time
    import numpy as np
    from scipy.special import erfinv
    import ingot.core as mx
    from ingot.compiler.passes import open_group

    open_group.MAX_GROUP_STEPS = 2000  # so that `slow` is one kernel
    signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(0)

    def interrupted(run, delay=0.2):
        "Runs a function, into which a signal comes; says whether it went on to its end."
        def interrupt():
            time.sleep(delay)
            os.kill(os.getpid(), signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            run()
            thread.join()
            time.sleep(1)
        except KeyboardInterrupt:
            return True
        finally:
            thread.join()
        return False

    def slow(x):  # shrinks differences, so that rounding errors stay what they are
        for _ in range(20):
            powers = mx.power(mx.abs(x) + 0.3, 0.7)
            x = mx.erfinv(mx.tanh(x) * 0.5) * 0.3 + mx.arctan(powers) * 0.3
        return x

    def slow_numpy(x):
        for _ in range(20):
            powers = np.power(np.abs(x) + 0.3, 0.7)
            x = erfinv(np.tanh(x) * 0.5) * 0.3 + np.arctan(powers) * 0.3
        return x

    # more elements on faster processors: `slow` should take half a second on two threads
    began = time.perf_counter()
    slow_numpy(np.linspace(-3, 3, 100_000))
    size = 800_000 / (time.perf_counter() - began)
    values = np.linspace(-3, 3, int(np.clip(size, 8_000_000, 36_000_000)), dtype=np.float32)

    def assert_slow(y):
        expected = slow_numpy(values[::997].astype(float))
        np.testing.assert_allclose(np.array(y)[::997], expected, atol=1e-5)

    def program_of(y):
        return y._node.inputs[0]

    def call(function, x):
        "The lazy result of a compiled function whose machine code is made."
        program_of(function(x)).op.program.executable
        return function(x)
"""

PROGRAMS = {
    "kernel": """
        x = mx.array(values)
        y = call(mx.compile(slow), x)
        assert interrupted(lambda: mx.eval(y))
        assert not program_of(y).evaluated
        np.testing.assert_array_equal(np.array(x), values)
        assert_slow(y)
    """,
    "given memory": """
        x = mx.array(values)
        y = call(mx.compile(slow), x)
        del x  # the result takes its memory
        assert interrupted(lambda: mx.eval(y))
        assert not program_of(y).evaluated
        assert program_of(y).op is None  # it cannot begin again, and goes on
        assert interrupted(lambda: mx.eval(y), 0.1)
        assert not program_of(y).evaluated
        mx.async_eval(y + 0)  # in another thread
        assert_slow(y)
    """,
    "dropped": """
        x = mx.array(values)
        y = call(mx.compile(slow), x)
        del x
        before = mx.get_active_memory()
        assert interrupted(lambda: mx.eval(y))
        assert program_of(y).op is None
        del y  # leaves nothing behind
        assert mx.get_active_memory() <= before - values.nbytes
    """,
    "many instructions": """
        def steps(x):
            for _ in range(200):
                x = mx.tanh(x @ weight + 0.5)
            return x
        weight = mx.array(rng.standard_normal((700, 700)).astype(np.float32)) * 0.01
        x = mx.array(rng.standard_normal((700, 700)).astype(np.float32))
        y = call(mx.compile(steps), x)
        assert interrupted(lambda: mx.eval(y))
        assert not program_of(y).evaluated
        w, expected = np.array(weight), np.array(x)
        for _ in range(200):
            expected = np.tanh(expected @ w + 0.5)
        np.testing.assert_allclose(np.array(y), expected, atol=1e-4)
    """,
    "many nodes": """
        compiled = mx.compile(lambda x: mx.sin(x) * 0.7)
        x = y = mx.array(values[:100_000])
        for _ in range(100_000):
            y = compiled(y)
        assert interrupted(lambda: mx.eval(y))
        assert not y._node.evaluated
        z = compiled(x)
        np.testing.assert_allclose(np.array(z), np.sin(values[:100_000]) * 0.7, atol=1e-6)
    """,
    "product": """
        a = rng.standard_normal((4000, 4000)).astype(np.float32)
        x = mx.array(a)
        y = x @ x.T
        assert interrupted(lambda: mx.eval(y))
        assert not y._node.evaluated
        np.testing.assert_allclose(np.array(y)[::100], a[::100] @ a.T, atol=2e-2)
        z = call(mx.compile(lambda x: x @ x.T + 1), x)
        assert interrupted(lambda: mx.eval(z))
        assert not program_of(z).evaluated
        np.testing.assert_array_equal(np.array(z), np.array(y) + 1)
    """,
    "op by op": """
        mx.set_eager_fusion(False)
        x = y = mx.array(values[:2_000_000])
        for _ in range(2000):
            y = mx.sin(y) * 0.7
        assert interrupted(lambda: mx.eval(y))
        assert not y._node.evaluated
        z = mx.sin(x)
        np.testing.assert_allclose(np.array(z), np.sin(values[:2_000_000]), atol=1e-6)
    """,
    "one op": """
        x = mx.array(np.tile(values, 6))
        y = mx.erfinv(x)
        assert interrupted(lambda: mx.eval(y))
        assert not y._node.evaluated
        assert np.isnan(np.array(mx.erfinv(x[:1000]))[0])
    """,
    "decompositions": """
        matrices = rng.standard_normal((30_000, 24, 24)).astype(np.float32)
        x = mx.array(matrices)
        for make in (lambda: mx.linalg.svd(x, stream=mx.cpu)[1],
                     mx.compile(lambda: mx.linalg.svd(x, stream=mx.cpu)[1] * 1)):
            y = make()
            assert interrupted(lambda: mx.eval(y))
            assert not y._node.evaluated
        y = mx.linalg.svd(x[:50], stream=mx.cpu)[1]
        expected = np.linalg.svd(matrices[:50], compute_uv=False)
        np.testing.assert_allclose(np.array(y), expected, rtol=1e-4)
    """,
    "sort": """
        numbers = rng.standard_normal((2500, 50_000), dtype=np.float32)
        x = mx.array(numbers)
        y = mx.argsort(x, axis=1)
        assert interrupted(lambda: mx.eval(y))
        assert not y._node.evaluated
        expected = np.argsort(numbers[:2], kind="stable")
        np.testing.assert_array_equal(np.array(mx.argsort(x[:2])), expected)
    """,
    "a row of a sort": """
        mx.set_num_threads(1)
        keys = rng.integers(-2**62, 2**62, 12_000_000)
        x = mx.array(keys)
        y = mx.argsort(x)
        assert interrupted(lambda: mx.eval(y))
        assert not y._node.evaluated
        np.testing.assert_array_equal(np.array(mx.sort(x[:5000])), np.sort(keys[:5000]))
    """,
    "compilation": """
        def large(x):
            results = []
            for i in range(40):
                y = x
                for j in range(6):
                    y = mx.sin(y) * 0.5 + mx.exp(-y * y) / (2 + j + i)
                results.append(y.max() + y.min())
            return results
        compiled = mx.compile(large)
        x = mx.array(values[:3000])
        y = compiled(x)
        assert interrupted(lambda: mx.eval(y), 0.1)
        assert not program_of(y[0]).evaluated
        small = mx.compile(lambda x: mx.sin(x) + 1)
        np.testing.assert_allclose(np.array(small(x)), np.sin(values[:3000]) + 1, atol=1e-6)
        for found, expected in zip(y, large(x)):
            np.testing.assert_allclose(np.array(found), np.array(expected), rtol=1e-4, atol=1e-5)
    """,
    "search": """
        from ingot.search import FlatIndex
        vectors = rng.standard_normal((200_000, 64)).astype(np.float32)
        for metric in ("l2", "l1"):
            index = FlatIndex(64, metric)
            index.add(mx.array(vectors))
            assert interrupted(lambda: mx.eval(index.search(mx.array(vectors[:50_000]), 5)))
            distances, found = index.search(mx.array(vectors[:20]), 1)
            np.testing.assert_array_equal(np.array(found)[:, 0], np.arange(20))
    """,
    "background": """
        y = call(mx.compile(slow), mx.array(values))
        mx.async_eval(y)
        assert interrupted(lambda: mx.eval(y))
        assert_slow(y)
    """,
    "handler that does not raise": """
        seen = []
        def handle(number, frame):
            # arrays can be computed in it, even if not the one that is being computed
            seen.append((program_of(y).evaluated, mx.sum(mx.ones(1000)).item()))
            try:
                mx.eval(y)
            except RuntimeError as error:
                seen.append(str(error))
        signal.signal(signal.SIGINT, handle)
        y = call(mx.compile(slow), mx.array(values))
        assert not interrupted(lambda: mx.eval(y))
        assert seen[0] == (False, 1000.0)
        assert seen[1].startswith("[eval] this array is being computed by the evaluation that")
        assert_slow(y)
    """,
}


def run(program: str, threads: int, **settings: str) -> None:
    """Runs a program of the table in a process of its own."""
    environment = dict(os.environ, INGOT_NUM_THREADS=str(threads), **settings)
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PRELUDE) + textwrap.dedent(program)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("name", PROGRAMS)
def test_ctrl_c_ends_an_evaluation(name: str) -> None:
    # Without a disk cache compilation takes its time.
    settings = {"INGOT_CACHE": "off"} if name == "compilation" else {}
    run(PROGRAMS[name], 2, **settings)


def test_ctrl_c_ends_a_kernel_on_one_thread() -> None:
    run(PROGRAMS["given memory"], 1)


def test_a_handler_may_change_the_number_of_threads() -> None:
    """Memory that each thread has its own part of was allocated before."""
    program = """
        x = rng.standard_normal((30_000, 30, 30)).astype(np.float32) + 30 * np.eye(30, dtype="f")
        a = mx.array(x)
        signal.signal(signal.SIGALRM, lambda *_: mx.set_num_threads(64))
        for _ in range(3):
            mx.set_num_threads(1)
            y = mx.linalg.inv(a)
            signal.setitimer(signal.ITIMER_REAL, 0.02)
            mx.eval(y)
            assert mx.get_num_threads() == 64
            np.testing.assert_allclose(np.array(y[::99]), np.linalg.inv(x[::99]), atol=1e-5)
    """
    run(program, 1)


def test_ctrl_c_ends_a_script_that_computes_in_the_background() -> None:
    program = """
        compiled = mx.compile(slow)
        y = call(compiled, mx.array(values))
        for _ in range(1000):
            y = compiled(y)
        mx.async_eval(y)
        assert interrupted(lambda: mx.eval(y))
        # leaving does not wait for the end of that, which would take an hour
    """
    run(program, 2)
