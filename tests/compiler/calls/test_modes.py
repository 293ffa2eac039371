"""Modes of compile, and verification of compiled calls."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compiler.compiled_calls import X, check

import ingot.core as mx
from ingot.compiler.call.verify import VerificationError


@pytest.fixture(autouse=True)
def _enabled() -> Iterator[None]:
    mx.enable_compile()
    yield
    mx.enable_compile()


# Modes


def test_disabling_and_enabling() -> None:
    calls = []

    @mx.compile
    def function(x: Any) -> Any:
        calls.append(type(x).__name__)
        return x + 1

    mx.disable_compile()
    for _ in range(3):
        function(X)
    assert len(calls) == 3
    mx.enable_compile()
    for _ in range(3):
        function(X)
    assert len(calls) == 4
    mx.disable_compile()
    function(X)
    assert len(calls) == 5


@pytest.mark.parametrize("mode", ["no_fuse", "no_simplify", "enabled"])
def test_modes(mode: str) -> None:
    def function(x: Any) -> Any:
        return (x * 2 + mx.stop_gradient(x) * 2, mx.softmax(x, axis=-1))

    x = mx.array(np.random.default_rng(0).standard_normal((4, 5)).astype(np.float32))
    mx.set_compile_mode(mode)
    compiled = mx.compile(function)
    for one, other in zip(compiled(x), function(x), strict=True):
        check(one, other)
    explanation = compiled.explain(x).to_dict()
    kinds = {group["kind"] for group in explanation["groups"]}
    assert ("fused" in kinds) == (mode != "no_fuse")
    assert bool(explanation["merged"]) == (mode != "no_simplify")
    mx.set_compile_mode(mx.CompileMode.enabled)
    compiled(x)
    assert compiled.cache_info().misses == (1 if mode == "enabled" else 2)


def test_unknown_modes() -> None:
    with pytest.raises(ValueError, match=r"\[") as caught:
        mx.set_compile_mode("fast")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "[set_compile_mode] there is no mode 'fast'; the modes are disabled, no_simplify, no_fuse, "
        "enabled."
    )


@pytest.mark.parametrize("variable", ["MLX_DISABLE_COMPILE", "INGOT_DISABLE_COMPILE"])
def test_environment_variables(variable: str) -> None:
    program = (
        "import ingot.core as mx\n"
        "f = mx.compile(lambda x: print('run') or x + 1)\n"
        "f(mx.array(1.0)); f(mx.array(1.0))\n"
        "mx.enable_compile()\n"
        "f(mx.array(1.0)); f(mx.array(1.0))\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, variable: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert result.stdout.split() == ["run"] * 3


# Verification


def test_verified_calls() -> None:
    state = [mx.array(0.0)]

    @functools.partial(mx.compile, inputs=state, outputs=state, verify=True)
    def function(x: Any) -> Any:
        state[0] = state[0] + x.sum()
        return mx.exp(x), {"half": x.astype(mx.float16), "count": (x > 1).sum(), "text": "a"}

    for _ in range(3):
        function(X)
    assert state[0].item() == 9.0


def test_verification_notices_side_effects() -> None:
    counter = [0]

    def function(x: Any) -> Any:
        counter[0] += 1
        return x * counter[0]

    with pytest.raises(VerificationError) as caught:
        mx.compile(function, verify=True)(X)
    assert str(caught.value) == (
        "[compile] result 0 of test_verification_notices_side_effects.<locals>.function differs: "
        "2 of 2 elements are off, by up to 2."
    )
