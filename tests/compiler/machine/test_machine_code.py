"""Machine code lives as long as a program that runs it, and no longer."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Iterator
from itertools import count
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot import _native
from ingot.compiler.call import cache as cache_module
from ingot.compiler.call import eager, fusion_policy, lengths
from ingot.compiler.machine import jit, kernels

PAGE = 4096
_fresh = count(1)


def fresh() -> float:
    """A number that no kernel of this process has in its text."""
    return 1 + next(_fresh) / 8192


def in_memory() -> tuple[int, int]:
    gc.collect()
    return _native.code_in_memory()


@pytest.fixture(autouse=True)
def baseline(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[int, int]]:
    """How much code there is before a test, which must be all that is there after it."""
    monkeypatch.setenv("INGOT_CACHE", "off")
    _native.forget_graphs()  # of tests with tables of their own, whose programs nothing else holds
    before = in_memory()
    yield before
    assert in_memory() == before


@pytest.fixture
def one_program_per_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths that vary stay numbers."""
    monkeypatch.setattr(lengths, "MAX_FIXED_LENGTHS", 1 << 30)


@pytest.fixture
def quick_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels do nothing, which LLVM compiles quickly."""
    made = kernels.compile_object
    template = "define void @NAME(ptr %0, i64 %1, i64 %2, i32 %3) { ret void }"

    def compile_nothing(text: str) -> bytes:
        name = text[text.index("ingot_") :][:38]
        return made(template.replace("NAME", name))

    monkeypatch.setattr(kernels, "compile_object", compile_nothing)


def matrix(rows: int, columns: int) -> mx.array:
    return mx.array(np.ones((rows, columns), np.float32))


@pytest.mark.parametrize("shapeless", [False, True])
def test_clearing_the_cache_frees_the_code_of_all_shapes(
    shapeless: bool, baseline: tuple[int, int]
) -> None:
    scale = fresh()
    compiled = mx.compile(lambda x: mx.sum(x * scale, axis=0), shapeless=shapeless)
    for columns in range(2, 10):
        mx.eval(compiled(matrix(5, columns)))
    kernel_count, nbytes = in_memory()
    assert kernel_count - baseline[0] > 1
    assert nbytes - baseline[1] >= PAGE
    compiled.cache_clear()
    assert in_memory() == baseline


def test_layouts_go_with_their_program(baseline: tuple[int, int]) -> None:
    scale = fresh()
    compiled = mx.compile(lambda x: x * scale + x[0])
    for x in (matrix(6, 4), matrix(4, 6).T, matrix(6, 8)[:, ::2]):
        for _ in range(3):
            mx.eval(compiled(x))
    assert compiled.cache_info().new_layouts == 2
    assert in_memory()[0] >= baseline[0] + 3
    del compiled


def test_code_of_deleted_functions_is_freed(baseline: tuple[int, int]) -> None:
    for _ in range(3):
        scale = fresh()
        mx.eval(mx.compile(lambda x, scale=scale: mx.cos(x) * scale)(matrix(2, 2)))
    assert in_memory() == baseline


@pytest.mark.usefixtures("quick_code", "one_program_per_shape")
def test_evicted_entries_leave_no_code(
    monkeypatch: pytest.MonkeyPatch, baseline: tuple[int, int]
) -> None:
    monkeypatch.setattr(cache_module, "MAX_ENTRIES", 4)
    monkeypatch.setattr(cache_module, "MAX_INSTANCES", 4)
    for shapeless in (False, True):
        scale = fresh()
        compiled = mx.compile(lambda x, scale=scale: mx.sum(x * scale, axis=0), shapeless=shapeless)
        for columns in range(2, 22):
            for _ in range(3):  # so that the fast path knows it
                mx.eval(compiled(matrix(3, columns)))
        assert compiled.cache_info().entries == 4
        assert in_memory()[0] - baseline[0] <= 4
        del compiled


@pytest.mark.usefixtures("quick_code", "one_program_per_shape")
def test_a_campaign_of_shapes_is_bounded(baseline: tuple[int, int]) -> None:
    scale = fresh()
    compiled = mx.compile(lambda x: mx.sum(x * scale, axis=0))
    highest = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", mx.RecompilationWarning)
        for columns in range(2, 302):
            mx.eval(compiled(matrix(2, columns)))
            highest = max(highest, _native.code_in_memory()[1] - baseline[1])
    assert compiled.cache_info().evictions == 300 - cache_module.MAX_ENTRIES
    assert 0 < highest <= (cache_module.MAX_ENTRIES + 1) * PAGE
    del compiled


@pytest.mark.usefixtures("quick_code")
def test_structures_of_fused_graphs_are_bounded(
    monkeypatch: pytest.MonkeyPatch, baseline: tuple[int, int]
) -> None:
    monkeypatch.setattr(eager, "_structures", eager._Structures())
    monkeypatch.setattr(eager, "MAX_FUSED_STRUCTURES", 3)
    monkeypatch.setattr(fusion_policy, "MAX_TRIAL_PROGRAMS", 1000)
    monkeypatch.setattr(eager, "MIN_SYMBOLIC_EXAMPLES", 1000)  # a program for each structure
    for columns in range(300, 320):
        x = matrix(300, columns)
        for _ in range(3):
            mx.eval(mx.sum(mx.exp(x * 2), axis=0))
    assert eager.eager_fusion_info()["programs"] == 3
    assert 3 <= in_memory()[0] - baseline[0] <= 6
    eager._structures.found.clear()
    _native.forget_graphs()


def test_equal_kernels_are_one(baseline: tuple[int, int]) -> None:
    scale = fresh()
    functions = [mx.compile(lambda x: mx.sin(x) * scale) for _ in range(3)]
    for function in functions:
        mx.eval(function(matrix(2, 3)))
    assert in_memory()[0] == baseline[0] + 1
    while functions:
        assert in_memory()[0] == baseline[0] + 1
        functions.pop()
    del function


def test_what_is_not_evaluated_yet_keeps_its_code() -> None:
    scale = fresh()
    compiled = mx.compile(lambda x: x * scale)
    mx.eval(compiled(matrix(3, 3)))
    lazy = compiled(matrix(3, 3))
    begun = compiled(mx.array(np.ones((1000, 1000), np.float32)))
    mx.async_eval(begun)
    compiled.cache_clear()
    gc.collect()
    np.testing.assert_allclose(np.array(lazy), np.full((3, 3), scale), rtol=1e-6)
    np.testing.assert_allclose(np.array(begun), np.full((1000, 1000), scale), rtol=1e-6)


def test_code_that_runs_in_another_thread_stays() -> None:
    x = mx.array(np.random.default_rng(0).standard_normal((500, 4000)).astype(np.float32))
    mx.eval(x)
    for _ in range(5):
        scale = fresh()
        compiled = mx.compile(lambda x, scale=scale: mx.sin(mx.exp(x)) * scale)
        mx.eval(compiled(x))
        begun = threading.Event()
        results: list[np.ndarray] = []

        def run(compiled: Any = compiled, begun: Any = begun, results: Any = results) -> None:
            result = compiled(x)
            begun.set()
            results.append(np.array(result))

        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        compiled.cache_clear()
        del compiled
        gc.collect()
        thread.join()
        np.testing.assert_allclose(results[0], np.sin(np.exp(np.array(x))) * scale, atol=2e-3)
        del run


def test_explanations_keep_what_they_show(baseline: tuple[int, int]) -> None:
    scale = fresh()
    compiled = mx.compile(lambda x: mx.sinh(x) * scale)
    report = compiled.explain(matrix(3, 3))
    mx.eval(compiled(matrix(3, 3)))
    compiled.cache_clear()
    assert in_memory()[0] == baseline[0] + 1
    assert report.seconds_by_work is not None
    assert "parallel i" in report.loops(report.work[0])
    del report


def test_code_that_llvm_loads_is_freed_too(baseline: tuple[int, int]) -> None:
    written = "@counter = global i64 5\ndefine ptr @where() { ret ptr @counter }"
    data = jit.compile_object(written)
    codes = [jit.load_object(data, "where") for _ in range(3)]
    assert in_memory()[0] == baseline[0] + 3
    places = {ctypes.CFUNCTYPE(ctypes.c_void_p)(code.address)() for code in codes}
    assert len(places) == 3
    assert all(ctypes.c_int64.from_address(place or 0).value == 5 for place in places)
    codes.clear()


_COMPILES_MUCH = """
from ingot.compiler.machine import jit
def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096
def compile(number):
    text = f"define void @f{number}(ptr %a) {{ store i64 {number}, ptr %a ret void }}"
    data = jit.compile_object(text)
    jit.load_object(data, f"f{number}")
for number in range(30):
    compile(number)
before = resident()
for number in range(30, 180):
    compile(number)
print(resident() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.skipif("asan" in os.environ.get("LD_PRELOAD", ""), reason="it keeps what is freed")
def test_compiling_leaves_no_memory_behind() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _COMPILES_MUCH], check=True, text=True, capture_output=True
    )
    assert int(done.stdout) < 150 * 10_000  # LLVM's passes alone take 32 KB each
