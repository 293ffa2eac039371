"""Profiles: what is counted, for which lines, and the trace file."""

from __future__ import annotations

import io
import json
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.parsed_html import ParsedHTML

import ingot
import ingot.core as mx
from ingot import _native
from ingot.runtime.profile import profiler as profile_module
from ingot.runtime.profile.output import Row

LARGE = mx.array(np.random.default_rng(0).random((512, 512), np.float32))
WEIGHT = mx.array(np.random.default_rng(1).random((512, 512), np.float32))


@pytest.fixture(autouse=True)
def products_by_blas() -> Iterator[None]:
    """Calls of BLAS are one of the kinds of work that profiles tell apart."""
    mx.set_product_engine("blas")
    yield
    mx.set_product_engine("ingot")


def rows(profile: Any, kind: str) -> dict[str, Row]:
    return {row.name: row for row in profile.rows if row.kind == kind}


def here() -> str:
    """The line of the caller, as profiles print it."""
    return f"test_profile.py:{sys._getframe(1).f_lineno}"


def test_a_compiled_function() -> None:
    def network(x: Any) -> Any:
        y = mx.exp(x @ WEIGHT)
        return mx.sort(y)

    compiled = mx.compile(network)
    with ingot.profile() as profile:
        for _ in range(3):
            mx.eval(compiled(LARGE))
    first = network.__code__.co_firstlineno
    product = rows(profile, "BLAS")["Matmul"]
    assert product.calls == 3
    assert product.flops == 3 * 2 * 512**3
    assert product.bytes == 3 * 3 * LARGE.nbytes
    assert product.lines == [f"test_profile.py:{first + 1}"]
    kernel = rows(profile, "kernel")["Exp"]
    assert kernel.calls == 3
    assert [row.calls for row in rows(profile, "call").values()] == [3]
    assert kernel.bytes == 3 * 2 * LARGE.nbytes
    assert kernel.lines == [f"test_profile.py:{first + 1}"]
    assert rows(profile, "host")["Sort"].lines == [f"test_profile.py:{first + 2}"]
    assert {name.rpartition(": ")[2] for name in rows(profile, "compile")} == {
        "trace",
        "simplify, fuse",
        "machine code",
    }
    assert 0 < profile.compile_seconds < profile.seconds
    assert sum(row.seconds for row in profile.rows) > profile.compile_seconds


def test_iterations_of_loops_are_counted() -> None:
    def step(c: mx.array, x: mx.array) -> Any:
        c = mx.sin(c) + x
        return c, c.sum()

    # steps before and after the loop: its time is counted as that of its own step
    compiled = mx.compile(lambda c, xs: mx.cos(mx.scan(step, mx.sort(c), mx.sort(xs))[1]))
    xs = mx.ones((300, 64))
    mx.eval(compiled(xs[0], xs))
    with ingot.profile() as profile:
        for _ in range(2):
            mx.eval(compiled(xs[0], xs))
        mx.eval(mx.while_loop(lambda v: v < 1000, lambda v: v * 2, 1))
    loops = rows(profile, "loop")
    assert loops["step"].calls == 2 * 300
    assert loops["<lambda>"].calls == 10  # 2 ** 10 is the first that is not below 1000
    (kernel,) = [row for name, row in rows(profile, "kernel").items() if "Sin" in name]
    assert kernel.calls == 2 * 300
    assert kernel.bytes == 2 * 300 * (3 * 64 + 1) * 4  # two vectors read, one and a sum written
    assert kernel.seconds + loops["step"].seconds > 0
    assert sum(row.seconds for row in profile.rows) <= profile.seconds
    trace = io.StringIO()
    profile.save_trace(trace)
    names = [each["name"] for each in json.loads(trace.getvalue())["traceEvents"]]
    assert names.count("step") == 2  # a span for each loop, not for each iteration


def test_time_is_counted_once() -> None:
    compiled = mx.compile(lambda x: mx.sort(mx.exp(x @ x)))
    with ingot.profile() as profile:
        for _ in range(5):
            mx.eval(compiled(LARGE))
            mx.eval(mx.sort(LARGE), LARGE.sum())
    assert sum(row.seconds for row in profile.rows) <= profile.seconds


def test_ops_one_by_one_and_graphs_without_compile() -> None:
    small = mx.ones((3,))
    mx.eval(small)
    with ingot.profile() as profile:
        mx.eval(mx.sin(small) + small)
        line = f"test_profile.py:{int(here().partition(':')[2]) - 1}"
    assert rows(profile, "op")["Sin"].lines == [line]
    assert rows(profile, "op")["Add"].bytes == 3 * 12
    assert rows(profile, "kernel") == {}

    def graph() -> Any:
        y = mx.tanh(LARGE) + 1
        z = y @ WEIGHT
        return mx.exp(z) * 3

    def same_graph() -> Any:
        y = mx.tanh(LARGE) + 1
        z = y @ WEIGHT
        return mx.exp(z) * 3

    mx.eval(graph())
    mx.eval(graph())  # from the second time on it is a program
    with ingot.profile() as profile:
        mx.eval(graph())
        mx.eval(same_graph())
    first = graph.__code__.co_firstlineno
    # one program for both: each run has the lines of the arrays that it computed
    lines = {
        (row.kind, row.name, *(int(line.partition(":")[2]) - first for line in row.lines))
        for row in profile.rows
        if row.kind in ("kernel", "BLAS")
    }
    assert lines == {
        ("kernel", "Tanh Add", 1),
        ("BLAS", "Matmul", 2),
        ("kernel", "Exp Multiply", 3),
        ("kernel", "Tanh Add", 6),
        ("BLAS", "Matmul", 7),
        ("kernel", "Exp Multiply", 8),
    }
    assert profile.compile_seconds == 0


def test_in_the_background() -> None:
    with ingot.profile() as profile:
        y = mx.exp(LARGE)
        mx.async_eval(y)
    assert rows(profile, "op")["Exp"].calls == 1
    stream = io.StringIO()
    profile.save_trace(stream)
    names = [event["args"]["name"] for event in events(stream) if event["ph"] == "M"]
    assert "ingot-eval" in names


def test_gradients_and_captured_state() -> None:
    state = [mx.array(LARGE)]

    def loss(w: Any, x: Any) -> Any:
        return mx.mean(mx.square(x @ w))

    def step(x: Any) -> Any:
        value, gradient = mx.value_and_grad(loss)(state[0], x)
        state[0] = state[0] - 0.1 * gradient
        return value

    compiled = mx.compile(step, inputs=state, outputs=state)
    with ingot.profile() as profile:
        for _ in range(2):
            mx.eval(compiled(LARGE), state)
        mx.eval(mx.grad(loss)(WEIGHT, LARGE))
    products = [row for row in profile.rows if row.name == "Matmul"]
    # forward and backward, in each of two steps and in the gradient without compile
    assert sum(row.calls for row in products) == 6
    first = loss.__code__.co_firstlineno
    assert any(row.lines == [f"test_profile.py:{first + 1}"] for row in products)


def events(stream: io.StringIO) -> list[dict[str, Any]]:
    trace = json.loads(stream.getvalue())
    assert trace["otherData"] == {"left_out": 0}
    return list(trace["traceEvents"])


def test_the_trace_file(tmp_path: Path) -> None:
    compiled = mx.compile(lambda x: mx.sort(mx.exp(x)) + 1)

    def work() -> None:
        for _ in range(3):
            mx.eval(compiled(LARGE), mx.exp(LARGE[0]))

    with ingot.profile() as profile:
        threads = [threading.Thread(target=work, name=f"worker {n}") for n in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # gets the identity of one that has ended, and is another thread all the same
        later = threading.Thread(target=work, name="later")
        later.start()
        later.join()
    profile.save_trace(tmp_path / "trace.json")
    stream = io.StringIO((tmp_path / "trace.json").read_text())
    found = events(stream)
    threads_named = {e["tid"]: e["args"]["name"] for e in found if e["ph"] == "M"}
    assert set(threads_named.values()) == {"worker 0", "worker 1", "later"}
    spans = [event for event in found if event["ph"] == "X"]
    assert {event["cat"] for event in spans} == {"kernel", "host", "op", "call", "compile"}
    for thread in threads_named:
        # Spans of a thread are beside each other or one inside the other.
        mine = sorted(
            ((e["ts"], e["ts"] + e["dur"]) for e in spans if e["tid"] == thread),
            key=lambda span: (span[0], -span[1]),
        )
        assert mine
        assert all(0 <= begin <= end <= profile.seconds * 1e6 for begin, end in mine)
        open_spans: list[tuple[float, float]] = []
        for begin, end in mine:
            while open_spans and open_spans[-1][1] <= begin + 1e-6:
                open_spans.pop()
            assert not open_spans or end <= open_spans[-1][1] + 1e-6
            open_spans.append((begin, end))
    kernels = [e for e in spans if e["cat"] == "kernel" and e["name"] == "Exp"]
    assert len(kernels) == 9
    assert all(e["args"]["bytes"] == 2 * LARGE.nbytes for e in kernels)


def test_profiles_inside_of_others_and_beside_each_other() -> None:
    small = mx.ones((3,))
    with ingot.profile() as outer:
        mx.eval(mx.sin(small))
        with ingot.profile() as inner:
            mx.eval(mx.cos(small))
        mx.eval(mx.sin(small) * 2)
    assert rows(inner, "op").keys() == {"Cos"} | (rows(inner, "op").keys() & {"Broadcast"})
    assert rows(outer, "op")["Sin"].calls + rows(outer, "op")["Cos"].calls >= 2
    assert "Cos" in rows(outer, "op")
    # Profiles see all threads.
    with ingot.profile() as beside:
        thread = threading.Thread(target=lambda: mx.eval(mx.tan(small)))
        thread.start()
        thread.join()
    assert rows(beside, "op")["Tan"].calls == 1


def test_nothing_is_left_on() -> None:
    profile = ingot.profile()

    def fails() -> None:
        with profile:
            mx.eval(mx.sin(mx.ones(2)))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    assert "Sin" in rows(profile, "op")
    assert not profile_module.is_profiling()
    x = mx.sin(mx.ones(2))
    mx.eval(x)
    assert rows(profile, "op")["Sin"].calls == 1
    with (
        pytest.raises(RuntimeError, match=r"\[profile\] a profile measures one block"),
        profile,
    ):
        pass
    assert not profile_module.is_profiling()


def test_a_failing_computation_is_not_hidden() -> None:
    with ingot.profile(), pytest.raises(IndexError, match=r"\[index\] index 100 is out of range"):
        mx.eval(mx.ones(3)[mx.array([100])])


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = mx.compile(lambda x: mx.exp(x) + 1)
    with ingot.profile() as profile:
        mx.eval(compiled(LARGE))
    lines = str(profile).splitlines()
    assert lines[0].split() == ["what", "calls", "time", "share", "data", "rate", "lines"]
    (kernel,) = [line for line in lines if line.startswith("kernel")]
    assert "Exp Add" in kernel
    assert "2.1 MB" in kernel
    assert "test_profile.py:" in kernel
    assert " in all: " in lines[-1]
    assert repr(profile) == str(profile)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert "Exp Add" in str(profile)
    json.dumps(profile.to_dict())


def test_long_profiles_keep_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profile_module, "MAX_WAITING", 16)
    monkeypatch.setattr(profile_module, "MAX_SPANS", 10)
    monkeypatch.setattr(profile_module, "MAX_OPEN", 4)
    small = mx.ones((3,))
    with ingot.profile() as profile:
        for _ in range(100):
            mx.eval(mx.sin(small))
    assert rows(profile, "op")["Sin"].calls == 100
    stream = io.StringIO()
    profile.save_trace(stream)
    trace = json.loads(stream.getvalue())
    assert len([e for e in trace["traceEvents"] if e["ph"] == "X"]) == 10
    assert trace["otherData"]["left_out"] >= 90
    assert sum(row.seconds for row in profile.rows) <= profile.seconds


def test_a_broken_hook_does_not_break_the_computation(capsys: Any) -> None:
    unraised: list[Any] = []
    before, sys.unraisablehook = sys.unraisablehook, unraised.append
    try:
        _native.set_callbacks(ran_node=lambda *_: 1 / 0)
        assert mx.sin(mx.zeros(())).item() == 0
    finally:
        _native.set_callbacks(ran_node=None)
        sys.unraisablehook = before
    assert unraised[0].exc_type is ZeroDivisionError


def test_a_profile_in_a_notebook() -> None:
    with ingot.profile() as profile:
        assert "not begun" in repr(ingot.profile())
        assert repr(profile).startswith("<profile, running, of ")

        def strange(x: Any) -> Any:
            return mx.exp(x) * 2

        strange.__qualname__ = "<script>strange</script>"
        mx.eval(mx.compile(strange)(mx.ones((30, 30))))
    table = ParsedHTML(profile._repr_html_())
    assert table.tags == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert table.rows[0] == ["what", "", "calls", "time", "share", "data", "rate", "lines"]
    kinds = {row[0] for row in table.rows[1:]}
    assert {"kernel", "compile"} <= kinds
    assert any(row[1].startswith("<script>strange</script>") for row in table.rows)
    assert len(table.rows) == len(profile.rows) + 1
