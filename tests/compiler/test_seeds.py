"""The examples of the documents that the project started from, with `mlx` in imports replaced.

Each runs as it is printed there and prints what it says there. Large arrays are made smaller where
that changes nothing but the time. The examples that use `nn` and `optimizers` are tested with
those.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import pytest

import ingot.core as mx


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    yield
    mx.enable_compile()


def run(source: str) -> tuple[str, dict[str, Any]]:
    """What an example prints, and the names that it defines."""
    names: dict[str, Any] = {"mx": mx, "__name__": "__example__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(dedent(source), "example.py", "exec"), names)
    return printed.getvalue(), names


EXAMPLES: dict[str, tuple[str, str]] = {
    "basics": (
        """
        def fun(x, y):
            return mx.exp(-x) + y

        x = mx.array(1.0)
        y = mx.array(2.0)

        # Regular call, no compilation
        # Prints: array(2.36788, dtype=float32)
        print(fun(x, y))

        # Compile the function
        compiled_fun = mx.compile(fun)

        # Prints: array(2.36788, dtype=float32)
        print(compiled_fun(x, y))
        """,
        "array(2.36788, dtype=float32)\narray(2.36788, dtype=float32)\n",
    ),
    "debugging with compilation disabled": (
        """
        @mx.compile
        def fun(x):
            z = -x
            print(z) # Okay
            return mx.exp(z)

        mx.disable_compile()
        fun(mx.array(5.0))
        """,
        "array(-5, dtype=float32)\n",
    ),
    "state as a result": (
        """
        state = []

        @mx.compile
        def fun(x, y):
           z = x + y
           state.append(z)
           return mx.exp(z), state

        _, state = fun(mx.array(1.0), mx.array(2.0))
        # Prints [array(3, dtype=float32)]
        print(state)
        """,
        "[array(3, dtype=float32)]\n",
    ),
    "state as a result, in the guide": (
        """
        state = []

        @mx.compile
        def fun(x, y):
            z = x + y
            state.append(z)
            return mx.exp(z), state

        out, st = fun(mx.array(1.0), mx.array(2.0))
        print(st)  # [array(3, dtype=float32)]
        """,
        "[array(3, dtype=float32)]\n",
    ),
    "captured outputs": (
        """
        from functools import partial

        state = []

        # Tell compile to capture state as an output
        @partial(mx.compile, outputs=state)
        def fun(x, y):
            z = x + y
            state.append(z)
            return mx.exp(z), state

        fun(mx.array(1.0), mx.array(2.0))
        # Prints [array(3, dtype=float32)]
        print(state)
        """,
        "[array(3, dtype=float32)]\n",
    ),
    "captured outputs, in the guide": (
        """
        from functools import partial
        state = []

        @partial(mx.compile, outputs=state)
        def step(x, y):
            z = x + y
            state.append(z)
            return mx.exp(z)

        step(mx.array(1.0), mx.array(2.0))
        print(state)  # [array(3, dtype=float32)]
        """,
        "[array(3, dtype=float32)]\n",
    ),
    "constants": (
        """
        state = [mx.array(1.0)]

        @mx.compile
        def fun(x):
            return x + state[0]

        # Prints array(2, dtype=float32)
        print(fun(mx.array(1.0)))

        # Update state
        state[0] = mx.array(5.0)

        # Still prints array(2, dtype=float32)
        print(fun(mx.array(1.0)))
        """,
        "array(2, dtype=float32)\narray(2, dtype=float32)\n",
    ),
    "captured inputs": (
        """
        from functools import partial
        state = [mx.array(1.0)]

        # Tell compile to capture state as an input
        @partial(mx.compile, inputs=state)
        def fun(x):
            return x + state[0]

        # Prints array(2, dtype=float32)
        print(fun(mx.array(1.0)))

        # Update state
        state[0] = mx.array(5.0)

        # Prints array(6, dtype=float32)
        print(fun(mx.array(1.0)))
        """,
        "array(2, dtype=float32)\narray(6, dtype=float32)\n",
    ),
    "transformations": (
        """
        grad_fn = mx.grad(mx.exp)

        compiled_grad_fn = mx.compile(grad_fn)

        # Prints: array(2.71828, dtype=float32)
        print(grad_fn(mx.array(1.0)))

        # Also prints: array(2.71828, dtype=float32)
        print(compiled_grad_fn(mx.array(1.0)))
        """,
        "array(2.71828, dtype=float32)\narray(2.71828, dtype=float32)\n",
    ),
    "shapeless": (
        """
        def fun(x, y):
            return mx.abs(x + y)

        compiled_fun = mx.compile(fun, shapeless=True)

        x = mx.array(1.0)
        y = mx.array(-2.0)

        # Firt call compiles the function
        print(compiled_fun(x, y))

        # Second call with different shapes
        # does not recompile the function
        x = mx.array([1.0, -6.0])
        y = mx.array([-2.0, 3.0])
        print(compiled_fun(x, y))
        """,
        "array(1, dtype=float32)\narray([1, 3], dtype=float32)\n",
    ),
    "shapeless, in the guide": (
        """
        def fun(x, y):
            return mx.abs(x + y)
        compiled = mx.compile(fun, shapeless=True)
        print(compiled(mx.array(1.0), mx.array(-2.0)))
        print(compiled(mx.array([1.0,-6.0]), mx.array([-2.0,3.0])))
        """,
        "array(1, dtype=float32)\narray([1, 3], dtype=float32)\n",
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_print_what_they_say(name: str) -> None:
    source, printed = EXAMPLES[name]
    assert run(source)[0] == printed


def test_calls_that_do_not_compile_again() -> None:
    _, names = run(
        """
        def fun(x, y):
            return mx.exp(-x) + y

        x = mx.array(1.0)
        y = mx.array(2.0)

        compiled_fun = mx.compile(fun)

        # Compiled here
        compiled_fun(x, y)

        # Not compiled again
        compiled_fun(x, y)

        # Not compiled again
        mx.compile(fun)(x, y)
        """
    )
    info = names["compiled_fun"].cache_info()
    assert (info.misses, info.hits) == (1, 2)


def test_lambdas_compiled_in_a_loop() -> None:
    run(
        """
        a = mx.array(1.0)
        # Don't do this, compiles lambda at each iteration
        for _ in range(5):
            mx.compile(lambda x: mx.exp(mx.abs(x)))(a)
        """
    )


def test_inner_and_outer() -> None:
    _, names = run(
        """
        @mx.compile
        def inner(x):
            return mx.exp(-mx.abs(x))

        def outer(x):
            inner(inner(x))

        # Compiling the outer function is good to do as it will likely
        # be faster even though the inner functions are compiled
        fun = mx.compile(outer)
        """
    )
    assert names["fun"](mx.array(1.0)) is None


def test_timings_with_and_without_compile() -> None:
    printed, _ = run(
        """
        import time

        def run():
            x = mx.random.normal((256, 256))
            y = mx.random.normal((256, 256))
            return mx.sum(x @ y)

        mx.disable_compile()
        t0 = time.time(); _ = run(); mx.eval(_); t1 = time.time()

        mx.enable_compile()
        t2 = time.time(); _ = run(); mx.eval(_); t3 = time.time()

        print("no-compile:", t1 - t0)
        print("compile:  ", t3 - t2)
        """
    )
    assert re.fullmatch(r"no-compile: [\d.e-]+\ncompile:   [\d.e-]+\n", printed)


def test_timings_of_the_first_and_later_calls() -> None:
    printed, _ = run(
        """
        import time

        def fun(x, y):
            return mx.exp(-x) + y

        x = mx.array(1.0)
        y = mx.array(2.0)

        t0 = time.time(); r0 = fun(x, y); mx.eval(r0); t1 = time.time()
        compiled_fun = mx.compile(fun)
        t2 = time.time(); r1 = compiled_fun(x, y); mx.eval(r1); t3 = time.time()
        t4 = time.time(); r2 = compiled_fun(x, y); mx.eval(r2); t5 = time.time()

        print(f"Regular: {t1 - t0:.6f}s | First compiled: {t3 - t2:.6f}s | Cached: {t5 - t4:.6f}s")
        print(r0, r2)
        """
    )
    assert printed.endswith("array(2.36788, dtype=float32) array(2.36788, dtype=float32)\n")


@pytest.mark.parametrize(
    "gelu",
    [
        "x * (1 + mx.erf(x / math.sqrt(2))) / 2",
        "x * (1 + mx.erf(x / mx.sqrt(mx.array(2.0)))) / mx.array(2.0)",
    ],
)
def test_timings_of_gelu(gelu: str) -> None:
    printed, names = run(
        f"""
        import math
        import time

        def gelu(x):
            return {gelu}

        def timeit(fun, x):
            for _ in range(10):
                mx.eval(fun(x))  # warmup
            t0=time.perf_counter()
            for _ in range(100):
                mx.eval(fun(x))
            dt=(time.perf_counter()-t0)/100*1e3
            print(f"Time per iter: {{dt:.3f}} ms")

        x = mx.random.uniform(shape=(32, 10, 16))

        # Baseline vs compiled
        timeit(gelu, x)
        timeit(mx.compile(gelu), x)
        """
    )
    assert len(re.findall(r"Time per iter: \d+\.\d{3} ms\n", printed)) == 2
    x, function = names["x"], names["gelu"]
    assert mx.allclose(mx.compile(function)(x), function(x)).item()
    assert len(mx.compile(function).explain(x).kernels) == 1


# What crashes MLX raises a clear error.

WAYS_OUT = (
    " has no value: compile only traces the function, with placeholders. Return the array from the "
    "function, or capture the container that it is put into with outputs=. To look at values while "
    "debugging, call mx.disable_compile() first."
)


def test_printing_inside() -> None:
    with pytest.raises(ValueError, match=r"\[") as caught:
        run(
            """
            @mx.compile
            def fun(x):
                z = -x
                print(z)  # Crash
                return mx.exp(z)

            fun(mx.array(5.0))
            """
        )
    assert str(caught.value) == "[eval] the array made at example.py:4 in fun" + WAYS_OUT


def test_printing_what_escaped() -> None:
    with pytest.raises(ValueError, match=r"\[") as caught:
        run(
            """
            state = []

            @mx.compile
            def fun(x, y):
                z = x + y
                state.append(z)
                return mx.exp(z)

            fun(mx.array(1.0), mx.array(2.0))
            # Crash!
            print(state)
            """
        )
    assert str(caught.value) == "[eval] the array made at example.py:6 in fun" + WAYS_OUT


def test_a_reshape_that_mlx_cannot_replay() -> None:
    _, names = run(
        """
        def fun(x):
            return x.reshape(x.shape[0] * x.shape[1], -1)

        compiled_fun = mx.compile(fun, shapeless=True)

        x = mx.random.uniform(shape=(2, 3, 4))

        out = compiled_fun(x)

        x = mx.random.uniform(shape=(5, 5, 3))

        # Error, can't reshape (5, 5, 3) to (6, -1)
        out = compiled_fun(x)
        """
    )
    assert names["out"].shape == (25, 3)
    assert mx.array_equal(names["out"], names["x"].reshape(25, 3)).item()
    assert names["compiled_fun"].cache_info().misses == 1


def test_a_flatten_that_is_replayed() -> None:
    _, names = run(
        """
        def fun(x):
            return x.flatten(0, 1)

        compiled_fun = mx.compile(fun, shapeless=True)

        x = mx.random.uniform(shape=(2, 3, 4))

        out = compiled_fun(x)

        x = mx.random.uniform(shape=(5, 5, 3))

        # Ok
        out = compiled_fun(x)
        """
    )
    assert names["out"].shape == (25, 3)
    assert names["compiled_fun"].cache_info().misses == 1
