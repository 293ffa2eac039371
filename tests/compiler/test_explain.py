"""Explanations: what they print and what `to_dict` holds."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import ingot.core as mx

WEIGHT = mx.ones((4, 4))


def function(x: Any, k: float) -> Any:
    y = mx.exp(x * 2.0)
    product = y @ WEIGHT
    again = mx.exp(x * mx.array(2.0))
    return mx.stop_gradient(product) + again + k, mx.sqrt(mx.array(49.0)) * x


X = mx.ones((4, 4))


def line_of(offset: int) -> str:
    return f"test_explain.py:{function.__code__.co_firstlineno + offset}"


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
    assert {"trace", "simplify", "fuse", "machine code"} <= set(found["seconds"])
    assert found["seconds"]["machine code"] > 0


def test_the_text() -> None:
    explanation = mx.compile(function).explain(X, 3.0)
    text = str(explanation)
    assert repr(explanation) == text
    lines = text.splitlines()
    assert lines[0].startswith("function: ")
    assert lines[0].endswith(f"{len(explanation.kernels)} fused groups")
    for heading in ("Traced", "Simplified", "Groups"):
        assert heading in lines
    assert any(line.startswith("  merged %") for line in lines)
    assert any(line.startswith("  dropped no-op %") for line in lines)
    assert any(line.startswith("  computed %") and line.endswith("in advance") for line in lines)
    assert any(f"comes from {line_of(1)}" in line for line in lines)
    assert any(" stays outside: " in line for line in lines)
    assert any(line.endswith("is captured: a constant of 64 bytes") for line in lines)
    assert lines[-3].startswith("Native code: ")
    assert "1 calls of BLAS, 0 host steps" in lines[-3]
    assert lines[-2].startswith("Bytes read and written: ")
    assert lines[-1].startswith("Seconds: trace 0.")


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
    assert "stays outside: fusion is off" in text


def test_numpy_arguments_and_keywords() -> None:
    text = str(mx.compile(lambda x, *, y: x + y).explain(np.ones(2, np.float32), y=mx.ones(2)))
    assert "input argument `y`" in text


def test_inside_of_a_transform() -> None:
    def loss(x: Any) -> Any:
        mx.compile(lambda y: x * y).explain(mx.array(2.0))
        return x

    with pytest.raises(ValueError, match=r"\[explain\] the function depends on a transform"):
        mx.grad(loss)(mx.array(1.0))
