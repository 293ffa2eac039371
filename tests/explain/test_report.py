"""Explanations: what they print and what `to_dict` holds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import ingot.core as mx
from ingot.compiler.lower.reductions.register_rows import MASKED_VECTOR_BYTES
from ingot.compiler.pipeline import PASSES
from ingot.runtime.processor import vector_bytes

WEIGHT = mx.ones((4, 4))


def function(x: Any, k: float) -> Any:
    y = mx.exp(x * 2.0)
    product = y @ WEIGHT
    again = mx.exp(x * mx.array(2.0))
    return mx.stop_gradient(product) + again + k, mx.sqrt(mx.array(49.0)) * x


X = mx.ones((4, 4))


def line_of(offset: int) -> str:
    return f"test_report.py:{function.__code__.co_firstlineno + offset}"


def test_the_dictionary() -> None:
    explanation = mx.compile(function).explain(X, 3.0)
    found = explanation.to_dict()
    json.dumps(found)
    assert found["name"] == "function"
    assert list(found["tapes"]) == ["traced", "simplified", "fused"]
    assert found["tapes"]["traced"][0] == "%0 = input argument `x` : float32[4, 4]"
    traced = found["tapes"]["traced"]
    for gone, stays in found["merged"]:
        op = traced[gone].split(" = ")[1].split("(")[0]
        assert traced[stays].split(" = ")[1].startswith(op)
    assert len(found["merged"]) >= 3
    assert [traced[step].split(" = ")[1].split("(")[0] for step in found["no_ops"]] == [
        "StopGradient"
    ]
    assert [traced[step].split(" = ")[1].split("(")[0] for step in found["folded"]] == ["Sqrt"]
    kinds = [group["kind"] for group in found["groups"]]
    assert kinds.count("single") == 1
    single = found["groups"][kinds.index("single")]
    assert single["reason"]
    assert single["sources"] == [line_of(2)]
    fused = [group for group in found["groups"] if group["kind"] == "fused"]
    assert line_of(1) in fused[0]["sources"]
    assert {"shape": [4, 4], "dtype": "float32", "bytes": 64} in found["constants"]
    assert found["bytes"]["after"] < found["bytes"]["before"]
    assert found["native"]["kernels"] == len(explanation.code) == len(fused)
    assert found["native"]["blas_calls"] == 1
    assert found["native"]["host_steps"] == []
    assert found["native"]["peak"] >= found["native"]["arena"] > 0
    assert all("define" in text for text in explanation.code)
    assert found["guards"] == []
    assert not found["captured_state"]
    assert ["trace", *(each.name for each in PASSES)] == list(found["seconds"])
    assert found["seconds"]["generate"] > 0


def test_the_text() -> None:
    compiled = mx.compile(function)
    mx.eval(compiled(X, 3.0))
    mx.eval(compiled(X, 4.0))
    explanation = compiled.explain(X, 3.0)
    text = str(explanation)
    assert repr(explanation) == text
    lines = text.splitlines()
    assert lines[0].startswith("function: ")
    assert lines[0].endswith("2 kernels, 1 BLAS call, 0 host steps")
    for heading in ("Traced", "Simplified", "Groups", "Program", "Memory", "Cache"):
        assert heading in lines
    assert any(line.startswith("  merged %") for line in lines)
    assert any(line.startswith("  dropped no-op %") for line in lines)
    assert any(line.startswith("  computed %") and line.endswith("in advance") for line in lines)
    assert f"       {line_of(1)}  y = mx.exp(x * 2.0)" in lines
    assert any(line.endswith("is captured: a constant of 64 bytes") for line in lines)
    assert any(line.startswith("  2 entries, 0 hits, 2 misses, 0 with new") for line in lines)
    assert any(line.endswith(": constant `k` 3.0 → 4.0") for line in lines)
    assert any(line.startswith(f"  peak: {explanation.peak:,} bytes") for line in lines)
    assert lines[-1].startswith("Compiled in ")


def test_host_steps_say_why() -> None:
    report = mx.compile(lambda x: mx.sort(mx.exp(x)) + 1).explain(X)
    assert [work.kind for work in report.work] == ["kernel", "host", "kernel"]
    assert "on the host: its elements depend on many others" in str(report)
    assert [entry["kind"] for entry in report.to_dict()["program"]] == ["kernel", "host", "kernel"]


def test_what_each_instruction_moves() -> None:
    x = mx.ones((16384, 40))
    reduced, combined = mx.compile(lambda x: (x * 2).sum(0)).explain(x).work
    assert [step.shape for step in reduced.reads] == [(16384, 40)]
    assert reduced.writes == []
    assert combined.reads == []
    assert [step.shape for step in combined.writes] == [(40,)]
    assert reduced.nbytes == 4 * 16384 * 40 + reduced.scratch
    assert combined.nbytes == 4 * 40 + reduced.scratch
    x = mx.ones((4096, 512))
    *packs, product = mx.compile(lambda x: x.T @ x).explain(x).work
    assert len(packs) == 2  # the left operand's rows are not contiguous
    for pack in packs:
        assert pack.flops == 0
        assert pack.nbytes == 4 * 4096 * 512 + pack.scratch
    assert product.flops == 2 * 512 * 4096 * 512
    assert product.nbytes == 4 * 512 * 512 + product.scratch


def test_loops_are_those_of_the_code() -> None:
    def softmax(x: Any) -> Any:
        e = mx.exp(x - mx.max(x, axis=-1, keepdims=True))
        return e / mx.sum(e, axis=-1, keepdims=True)

    report = mx.compile(softmax).explain(mx.ones((64, 300)))
    (kernel,) = report.work
    header, *lines = report.loops(kernel).splitlines()
    assert header == "kernel(%0: float32[64, 300], %7: float32[64, 300])"
    text = "\n".join(lines)
    # nine whole bundles of the order of reductions, then what is left, then the row again
    assert "for j in 0..9\n      for k in 0..32 lanes\n" in text
    assert "%4 = exp(%0[i, 32*j + k] - %1)" in text
    assert "%7[i, 32*j + k] = %4" in text
    assert "for j in 0..16 lanes\n      if j < 12\n" in text
    if vector_bytes() < MASKED_VECTOR_BYTES:
        assert text.endswith("for j in 0..300 vector\n      %7[i, j] = %7[i, j] / %5")
    else:
        assert "for j in 0..288 vector\n      %7[i, j] = %7[i, j] / %5\n" in text
        assert text.endswith("if j < 12\n        %7[i, j + 288] = %7[i, j + 288] / %5")


def test_times_are_measured_on_the_arguments() -> None:
    state = [mx.array(1.0)]

    def step(x: Any) -> Any:
        state[0] = state[0] + x.sum()
        return mx.sort(x) @ WEIGHT + mx.random.uniform(shape=(4, 4))

    compiled = mx.compile(step, inputs=[state, mx.random.state], outputs=[state, mx.random.state])
    key = np.array(mx.random.state[0])
    report = compiled.explain(mx.exp(X))
    seconds = report.seconds_by_work
    assert seconds is not None
    assert len(seconds) == len(report.work)
    assert all(0 < each < 10 for each in seconds)
    assert state[0].item() == 1.0
    np.testing.assert_array_equal(np.array(mx.random.state[0]), key)


def test_bytes() -> None:
    explanation = mx.compile(lambda x: mx.exp(x) + 1).explain(mx.ones(1000))
    assert explanation.bytes_before == 4000 * 2 + 4000 * 2 + 4
    assert explanation.bytes_after == 4000 * 2 + 4


def test_explaining_compiles_nothing_and_changes_nothing() -> None:
    state = [mx.array(1.0)]

    def step(x: Any) -> Any:
        state[0] = state[0] + x
        state.append(x)
        return x

    compiled = mx.compile(step, inputs=state, outputs=state)
    explanation = compiled.explain(mx.array(2.0))
    assert compiled.cache_info().misses == 0
    assert len(state) == 1
    assert state[0].item() == 1.0
    assert explanation.to_dict()["captured_state"]


def test_shapeless_functions_list_their_guards() -> None:
    compiled = mx.compile(lambda x: x * 2 if x.shape[0] > 3 else x, shapeless=True)
    explanation = compiled.explain(mx.ones((5, 2)))
    assert explanation.to_dict()["guards"] == ["`x`.shape[0] > 3"]
    assert explanation.conditions == ["`x`.shape[0] >= 4", "`x`.shape[1] >= 2"]
    assert "machine code is valid for sizes with `x`.shape[1] >= 2" in str(explanation)
    assert "  guard: `x`.shape[0] > 3" in str(explanation)
    assert "float32[5, 2]" in str(explanation)


def test_when_compilation_is_disabled() -> None:
    mx.disable_compile()
    try:
        assert len(mx.compile(lambda x: mx.exp(x) + 1).explain(X).kernels) == 1
    finally:
        mx.enable_compile()


def test_modes_show() -> None:
    mx.set_compile_mode("no_fuse")
    try:
        text = str(mx.compile(lambda x: mx.exp(x) + 1).explain(X))
    finally:
        mx.enable_compile()
    assert "on the host: fusion is off" in text


def test_numpy_arguments_and_keywords() -> None:
    text = str(mx.compile(lambda x, *, y: x + y).explain(np.ones(2, np.float32), y=mx.ones(2)))
    assert "input argument `y`" in text


def test_inside_of_a_transform() -> None:
    def loss(x: Any) -> Any:
        mx.compile(lambda y: x * y).explain(mx.array(2.0))
        return x

    with pytest.raises(ValueError, match=r"\[explain\] the function depends on a transform"):
        mx.grad(loss)(mx.array(1.0))


def test_reading_by_index() -> None:
    table, indices = mx.ones((1000, 64)), mx.array([[1, 2, 3], [5, 6, 7]])
    report = mx.compile(lambda table, indices: mx.exp(table[indices])).explain(table, indices)
    kernel = report.work[-1]
    header, *_, index, result = map(str.strip, report.loops(kernel).splitlines())
    assert header == "kernel(%6: int32[6], %0: float32[1000, 64], %8: float32[6, 64])"
    assert index == "v1 = int64(%6[i])"
    assert result == "%8[i, j] = exp(%0[checked(select(v1 < 0, v1 + 1000, v1), 1000), j])"
    assert kernel.nbytes == 6 * 64 * 4 * 2 + 6 * 4  # six rows in and out, and the indices


def test_a_section_that_does_not_exist() -> None:
    report = mx.compile(mx.exp).explain(X)
    with pytest.raises(ValueError, match=r"no section 'programme': use one of trace, .*, program,"):
        report.section("programme")


def test_results_that_take_the_memory_of_inputs() -> None:
    report = mx.compile(lambda x, y: (mx.exp(x) + y, y @ y)).explain(X, mx.ones((4, 4)))
    ((result, given),) = report.to_dict()["native"]["donations"]
    assert report.stages.simplified.steps[result] is report.stages.simplified.outputs[0]
    assert given == 0
    assert f"results take their memory, %{result} that of argument `x`" in report.section("memory")
