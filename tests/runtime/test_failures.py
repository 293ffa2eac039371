"""Errors at evaluation name the op, what it took and the user's line, compiled or not."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
import textwrap
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingot
import ingot.core as mx
from ingot import nn

PACKAGE = str(Path(ingot.__file__).parent)

X = np.arange(10, dtype=np.float32)
INDEX = np.array([3, 12], np.int32)


def _take(x: mx.array, i: mx.array) -> mx.array:
    return mx.take(x, i) * 2


def _subscript(x: mx.array, i: mx.array) -> mx.array:
    return x[i] + 1


def _update(x: mx.array, i: mx.array) -> mx.array:
    return x.at[i].add(1.0)


def _inverse(x: mx.array, i: mx.array) -> mx.array:
    return mx.linalg.inv(mx.zeros((3, 3)) * x[0], stream=mx.cpu)


def _solve(x: mx.array, i: mx.array) -> mx.array:
    return mx.linalg.solve(mx.zeros((3, 3)) * x[0], mx.ones((3,)), stream=mx.cpu)


def _own_frames(error: BaseException) -> list[str]:
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.filename for frame in frames if frame.filename.startswith(PACKAGE)]


def _failure(run: Callable[[], Any]) -> BaseException:
    try:
        run()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


def _line_of(function: Callable[..., Any]) -> tuple[int, str]:
    lines, first = inspect.getsourcelines(function)
    return first + 1, lines[1].strip()


CASES = [
    (_take, IndexError, "Take(float32[10], int32[2])"),
    (_subscript, IndexError, "Take(float32[10], int32[2])"),
    (_update, IndexError, "Put(float32[10], float32[2], int32[2])"),
    (_inverse, RuntimeError, "Inverse(float32[3, 3])"),
    (_solve, RuntimeError, "Solve(float32[3, 3], float32[3, 1])"),
]


@pytest.mark.parametrize("how", ["eager", "compiled", "background"])
@pytest.mark.parametrize(
    ("function", "kind", "op"),
    CASES,
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_op_and_the_line_are_named(
    function: Any, kind: type[Exception], op: str, how: str
) -> None:
    y = (mx.compile(function) if how == "compiled" else function)(mx.array(X), mx.array(INDEX))
    if how == "background":
        mx.async_eval(y)
    number, text = _line_of(function)
    expected = f"Raised by {op}, made at "
    for _ in range(2):  # and again, because the array is as it was
        error = _failure(lambda: mx.eval(y))
        assert type(error) is kind
        assert str(error).endswith(f"{expected}test_failures.py:{number}: {text}.")
        assert str(error).count("made at") == 1
        assert len(_own_frames(error)) <= 1


def test_the_line_in_a_graph_that_is_evaluated_as_a_whole() -> None:
    index = mx.array(np.full(100_000, 7, np.int32))
    for number in (10, 10, 10, 5):
        x = mx.array(np.ones(number, np.float32))
        y = mx.exp(mx.sin(x[index] * 2) + 1)
        if number == 10:
            mx.eval(y)
    line, text = _line_of_here("y = mx.exp(")
    error = _failure(lambda: mx.eval(y))
    assert isinstance(error, IndexError)
    assert f"made at test_failures.py:{line}: {text}" in str(error)


def _line_of_here(begin: str) -> tuple[int, str]:
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    lines, first = inspect.getsourcelines(frame.f_back.f_code)
    return next(
        (first + i, x.strip()) for i, x in enumerate(lines) if begin in x and "_here" not in x
    )


def _too_large(x: mx.array) -> mx.array:
    return mx.broadcast_to(x, (256, 1 << 30, 10)) * 2


def _too_large_within(x: mx.array) -> mx.array:
    return mx.swapaxes(_too_large(x), 1, 2) @ _too_large(x)


def _two_steps(x: mx.array) -> mx.array:
    return mx.exp(_too_large(x)) + 1


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize(
    ("function", "line_of", "size"),
    [
        (_too_large, _too_large, r"1[01]\.\d\d TB"),
        (_too_large_within, _too_large, r"1[01]\.\d\d TB"),
        (_two_steps, None, r"1[01]\.\d\d TB"),
    ],
)
def test_failed_requests_name_their_size_and_line(
    function: Any, line_of: Any, size: str, compiled: bool
) -> None:
    x = mx.array(X)
    y = (mx.compile(function) if compiled else function)(x)
    error = _failure(lambda: mx.eval(y))
    assert type(error) is MemoryError
    text = str(error)
    assert text.startswith("[malloc] cannot allocate ")
    for part in ("are in use and", "this process may use", "kept for reuse", "set_memory_limit"):
        assert part in text
    assert re.search(size, text)
    if line_of is not None:
        number, line = _line_of(line_of)
        assert f"Multiply(float32[256, {1 << 30}, 10]" in text
        assert f"made at test_failures.py:{number}: {line}." in text
    assert len(_own_frames(error)) <= 1


def test_other_errors_keep_their_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Any, x: np.ndarray) -> np.ndarray:
        raise OSError(28, "No space left on device")

    y = mx.exp(mx.array(X))
    monkeypatch.setattr(type(y._node.op), "evaluate", fail)
    error = _failure(lambda: mx.eval(y))
    assert isinstance(error, OSError)
    assert error.args == (28, "No space left on device")
    assert error.__notes__[0].startswith("Raised by Exp(float32[10]), made at test_failures.py:")


CALLS: dict[str, Callable[[mx.array], Any]] = {
    "function": lambda x: mx.reshape(x, (3, 7)),
    "method": lambda x: x.reshape(3, 7),
    "keyword": lambda x: mx.sum(x, axis=5),
    "wrong kind": lambda x: mx.sum(x, axis="rows"),  # type: ignore[arg-type]
    "subscript": lambda x: x[0, 0],
    "operator": lambda x: x + mx.ones(3),
    "product": lambda x: x @ mx.ones((3, 3)),
    "einsum": lambda x: mx.einsum("ij->i", x),
    "layer": lambda x: nn.Sequential(nn.Linear(10, 4), nn.ReLU(), nn.Linear(5, 1))(x),
    "linear algebra": lambda x: mx.linalg.inv(x),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_call_that_fails_shows_the_frames_of_the_user(name: str) -> None:
    error = _failure(lambda: CALLS[name](mx.array(X)))
    assert len(_own_frames(error)) <= 1
    assert "CALLS[name]" in [frame.line for frame in traceback.extract_tb(error.__traceback__)][1]


def test_functions_that_ingot_calls_stay_in_the_traceback() -> None:
    def loss(x: mx.array) -> mx.array:
        return inner(x)

    def inner(x: mx.array) -> mx.array:
        return mx.reshape(x, (3, 7)).sum()

    for call in (mx.grad(loss), mx.compile(mx.grad(loss)), mx.vmap(loss)):
        error = _failure(lambda call=call: call(mx.array(X)[None]))
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert names[-2:] == ["loss", "inner"]
        assert len(_own_frames(error)) <= 1


def test_a_trace_shows_the_function_that_is_traced() -> None:
    def function(x: mx.array) -> mx.array:
        return x.reshape((3,))

    error = _failure(lambda: mx.compile(function)(mx.array(X)))
    frames = traceback.extract_tb(error.__traceback__)
    assert frames[-1].name == "function"
    assert _own_frames(error) == []


@pytest.mark.parametrize("full", [False, True])
def test_what_an_uncaught_error_looks_like(full: bool, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
            import ingot.core as mx

            def main():
                x = mx.array([1.0, 2.0])
                y = mx.take(x, mx.array([5]))
                mx.eval(y)

            main()
        """)
    )
    environment = dict(os.environ)
    environment.pop("INGOT_TRACEBACK", None)
    if full:
        environment["INGOT_TRACEBACK"] = "full"
    found = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, check=False
    )
    assert "y = mx.take(x, mx.array([5]))" in found.stderr.splitlines()[-1]
    own = found.stderr.count(PACKAGE)
    assert own >= 2 if full else own <= 1
