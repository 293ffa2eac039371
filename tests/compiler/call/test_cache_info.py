"""`cache_info()` adds up: calls are counted once, time is charged to the call that spent it."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest
from tests.support.parsed_html import ParsedHTML

import ingot.core as mx
from ingot.compiler.call import cache as cache_module
from ingot.compiler.call import cache_info
from ingot.compiler.call import lengths as lengths_module
from ingot.compiler.machine import kernels

AWHILE = 0.03


class Calls:
    """Calls a compiled function and counts how often: what `cache_info()` must come to."""

    def __init__(self, function: Any, **options: Any) -> None:
        self.compiled = mx.compile(function, **options)
        self.number = 0

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        self.number += 1
        result = self.compiled(*arguments, **keywords)
        mx.eval(result)
        return result

    def info(self) -> Any:
        info = self.compiled.cache_info()
        assert info.hits + info.misses + info.new_shapes + info.new_layouts == self.number
        assert info.calls == self.number
        assert info.seconds == pytest.approx(sum(info.phases.values()))
        return info


def counts(info: Any) -> tuple[int, int, int, int]:
    return info.hits, info.misses, info.new_shapes, info.new_layouts


def ones(*shape: int) -> mx.array:
    """Ones that lie in memory one after the other; those of `mx.ones` are one number repeated."""
    return mx.array(np.ones(shape, np.float32))


def slow_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes the machine code of every kernel of new text take at least `AWHILE`."""
    made = kernels.compile_object

    def slowly(text: str) -> bytes:
        time.sleep(AWHILE)
        return made(text)

    monkeypatch.setattr(kernels, "compile_object", slowly)
    monkeypatch.setenv("INGOT_CACHE", "off")


def test_time_is_charged_to_the_phase_and_the_call_that_spent_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slow_code(monkeypatch)

    def function(x: Any, scale: float) -> Any:
        time.sleep(AWHILE)
        return mx.sin(x) * scale + mx.cos(x) * 7.25

    compiled = mx.compile(function)
    began = time.perf_counter()
    first = compiled(ones(3), 1.015625)
    second = compiled(ones(3), 1.046875)
    traced = compiled.cache_info()
    assert [each.phases["trace"] >= AWHILE for each in traced.compilations] == [True, True]
    assert all("machine code" not in each.phases for each in traced.compilations)
    mx.eval(second)
    info = compiled.cache_info()
    assert "machine code" not in info.compilations[0].phases
    assert info.compilations[1].phases["machine code"] >= AWHILE
    mx.eval(first)
    took = time.perf_counter() - began
    info = compiled.cache_info()
    assert info.compilations[0].phases["machine code"] >= AWHILE
    assert 4 * AWHILE <= info.seconds <= took
    for phase in cache_info.PHASES:
        spent = sum(each.phases[phase] for each in info.compilations)
        assert info.phases[phase] == pytest.approx(spent)


def test_a_call_that_compiles_for_a_layout_is_no_hit(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_code(monkeypatch)
    calls = Calls(lambda x: mx.exp(x) * 2.0625 + x.sum(axis=0))
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    expected = np.exp(x) * 2.0625 + x.sum(axis=0)
    for _ in range(2):
        np.testing.assert_allclose(calls(mx.array(x)), expected, rtol=1e-5)
    transposed = mx.array(np.ascontiguousarray(x.T)).T
    for _ in range(4):  # the first is copied, the second gets a program of its own
        np.testing.assert_allclose(calls(transposed), expected, rtol=1e-5)
    info = calls.info()
    assert counts(info) == (4, 1, 0, 1)
    miss, layout = info.compilations
    assert (miss.kind, layout.kind) == ("miss", "new layout")
    assert layout.reason == "argument `x` of shape (3, 4) has strides (1, 3)"
    assert set(layout.phases) == {"machine code"}
    assert layout.seconds >= AWHILE
    assert info.reasons == (miss,)


def test_a_layout_at_the_first_evaluation_is_charged_to_the_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ingot.compiler.run.program.MIN_BYTES_FOR_A_LAYOUT", 0)
    calls = Calls(lambda x: x * 2 + 1)
    x = mx.array(np.ones((3, 4), np.float32)).T
    for _ in range(3):
        calls(x)
    assert counts(calls.info()) == (2, 1, 0, 0)


def test_an_evaluation_that_is_repeated_is_no_second_call() -> None:
    calls = Calls(lambda x: mx.linalg.inv(x * 2))
    failing = calls.compiled(ones(3, 4).T[:3])  # not contiguous, so that there is a layout
    calls.number += 1
    for _ in range(3):
        with pytest.raises(RuntimeError, match="singular"):
            mx.eval(failing)
    assert counts(calls.info()) == (0, 1, 0, 0)


def test_shapes_of_a_shapeless_trace_are_counted_apart() -> None:
    calls = Calls(lambda x: x.sum() * 2, shapeless=True)
    for length in (2, 3, 4, 3, 2):
        assert calls(ones(length)).item() == 2 * length
    info = calls.info()
    assert counts(info) == (2, 1, 2, 0)
    assert [each.kind for each in info.compilations] == ["miss", "new shapes", "new shapes"]
    assert info.compilations[1].reason == "the trace had not run for inputs of shape (3,)"
    # the machine code is that of the first call
    assert [each.phases.get("machine code", 0) > 0 for each in info.compilations] == [
        True,
        False,
        False,
    ]


def test_a_function_and_its_shapeless_twin_count_apart() -> None:
    def function(x: Any) -> Any:
        return x + 1

    state = [mx.array(1.0)]
    for captured in (None, state):
        fixed = Calls(function, inputs=captured)
        shapeless = Calls(function, inputs=captured, shapeless=True)
        for length in (2, 3, 3):
            fixed(ones(length))
        for length in (2, 3):
            shapeless(ones(length))
        assert counts(fixed.info()) == (1, 2, 0, 0)
        assert counts(shapeless.info()) == (0, 1, 1, 0)
        assert [each.reason for each in shapeless.info().reasons] == ["the first call"]
        fixed.compiled.cache_clear()
        assert fixed.compiled.cache_info().calls == 0
        assert shapeless.info().entries == 2


def test_evictions_leave_totals_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 2)
    monkeypatch.setattr(cache_module, "MAX_INSTANCES", 2)
    monkeypatch.setattr(lengths_module, "MAX_FIXED_LENGTHS", 10)
    for shapeless in (False, True):
        calls = Calls(lambda x: mx.cos(x) * 0.3125, shapeless=shapeless)
        before = 0.0
        for length in range(2, 8):
            mx.eval(calls(ones(length)))
            seconds = calls.info().seconds
            # for other shapes, a shapeless trace has its machine code already
            assert seconds == before if shapeless and before else seconds > before
            before = seconds
        info = calls.info()
        assert (info.entries, info.evictions) == (2, 4)
        assert info.seconds == pytest.approx(sum(each.seconds for each in info.compilations))


def test_what_the_fast_path_uses_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 3)
    monkeypatch.setattr(lengths_module, "MAX_FIXED_LENGTHS", 10)
    calls = Calls(lambda x: x * 3)
    for length in (1, 2, 3, 4, 5, 6, 7):
        calls(ones(length))
        calls(ones(1))  # answered by native code
    assert len(calls.compiled._cache.fast_entries) == 3
    assert counts(calls.info()) == (7, 7, 0, 0)


def test_what_is_left_to_evaluate_after_clearing_is_not_counted() -> None:
    compiled = mx.compile(lambda x: mx.tan(x) * 1.28125)
    result = compiled(ones(3))
    compiled.cache_clear()
    mx.eval(result)
    assert compiled.cache_info().calls == 0
    assert compiled.cache_info().seconds == 0


def test_calls_that_run_uncompiled_are_not_counted() -> None:
    calls = Calls(lambda x: (x * x).sum())
    outer = mx.compile(lambda x: calls.compiled(x) + 1)
    mx.eval(outer(ones(3)), mx.grad(calls.compiled)(ones(3)))
    calls.info()
    with pytest.raises(ZeroDivisionError):
        mx.compile(lambda x: x + 1 // 0)(ones(3))
    calls(ones(3))
    assert counts(calls.info()) == (0, 1, 0, 0)


def test_threads_are_all_counted_and_time_is_charged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    slow_code(monkeypatch)
    compiled = mx.compile(lambda x: mx.sinh(x) * 1.140625 + 2)
    began = time.perf_counter()
    started = threading.Barrier(6)

    def call(number: int) -> None:
        started.wait()
        for length in (3, 4, 5):
            x = mx.array(np.ones((length, 2), np.float32))
            for layout in (x, x, x.T, x.T, x.T):
                mx.eval(compiled(layout))

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    info = compiled.cache_info()
    assert info.calls == 6 * 15
    assert info.misses == 6
    assert info.seconds <= time.perf_counter() - began


def test_text_and_html_say_the_same() -> None:
    compiled = mx.compile(lambda x, k=None: x + 1)
    compiled(ones(2), k="<b>one</b>")
    mx.eval(compiled(ones(2), k="<script>two</script>"))
    info = compiled.cache_info()
    text = str(info).splitlines()
    assert repr(info) == str(info)
    assert text[0] == "2 calls: 0 hits, 2 misses, 0 with new shapes, 0 with a new layout"
    assert text[1].startswith("2 entries, 0 evictions, ")
    assert text[2].split() == "compiling trace simplify fuse machine code reason".split()
    assert text[3].endswith("miss  the first call")
    table = ParsedHTML(info._repr_html_())
    assert table.tags <= {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    headings, first, second = table.rows
    assert headings == ["compiling", *cache_info.PHASES, "", "reason"]
    assert first[-2:] == ["miss", "the first call"]
    assert second[-1] == info.compilations[1].reason
    assert "<script>" in second[-1]
    assert first[4] == ""
    assert second[4].endswith("s")  # the machine code of the second


def test_long_histories_are_cut() -> None:
    compiled = mx.compile(lambda x: x + 1, shapeless=True)
    for length in range(1, 200):
        compiled(ones(length))
    info = compiled.cache_info()
    assert info.new_shapes >= 197
    assert len(info.reasons) == info.misses
    lines = str(info).splitlines()
    kept = 1 + cache_info.MAX_KEPT
    assert f"the latest {kept} of 199:" in lines[1]
    # Calls for which nothing had to be compiled are one line.
    assert len(lines) == 5
    assert lines[3].endswith("miss        the first call")
    others = cache_info.MAX_KEPT - 1
    assert lines[4].endswith(f"inputs of shape (199,), and {others} others before")
    mixed = mx.compile(lambda x, k: x * k)
    for k in range(cache_info.MAX_SHOWN + 2):
        mixed(ones(2), k)
    lines = str(mixed.cache_info()).splitlines()
    assert len(lines) == 3 + cache_info.MAX_SHOWN
