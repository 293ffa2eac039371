"""Descriptions: names of inputs, differences of signatures. More sentences are in test_cache.py."""

from __future__ import annotations

from typing import Any

from tests.compiler.compiled_calls import call_of

import ingot.core as mx
from ingot.compiler.call.describe import ArrayLeaf, contents_of, describe, difference
from ingot.compiler.trace.structure import short_text

A = mx.zeros((2, 3))
B = mx.zeros((), mx.int8)


def function(x: Any, y: Any, *rest: Any, key: Any = None) -> Any:
    return None


def input_names(*args: Any, **options: Any) -> list[str]:
    return [str(name) for name, _, _ in contents_of(call_of(*args, **options)).arrays]


def described(*args: Any) -> Any:
    call = call_of(function, *args)
    return describe(call, contents_of(call), {})


def test_names_of_inputs() -> None:
    args = ([A, 1], {"w": B}, A, B)
    assert input_names(function, *args, kwargs={"key": (A,)}, inputs={"state": [mx.array(1)]}) == [
        "argument `x`[0]",
        "argument `y`['w']",
        "argument 2",
        "argument 3",
        "argument `key`[0]",
        "captured inputs['state'][0]",
    ]
    assert input_names(max, A, B) == ["argument 0", "argument 1"]
    assert input_names(len, A) == ["argument `obj`"]


def test_descriptions() -> None:
    call = call_of(function, A, [1, "text", {}], outputs=[B, 3])
    found = describe(call, contents_of(call), {"the mode": "enabled"})
    assert found == {
        "argument `x`": ArrayLeaf("float32", (2, 3)),
        "argument `y`[0]": "1",
        "argument `y`[1]": "'text'",
        "argument `y`[2]": "{}",
        "captured outputs[0]": "an array",
        "captured outputs[1]": "3",
        "the mode": "enabled",
    }
    assert str(found["argument `x`"]) == "float32(2, 3)"


def test_constants_that_look_like_arrays_in_texts() -> None:
    class Odd(str):
        def __repr__(self) -> str:
            return "float32(2, 3)"

    first, second = described(Odd("")), described(A)
    assert difference([first], second) == "argument `x`: float32(2, 3) → float32(2, 3)"


def test_the_nearest_signature_is_named() -> None:
    before = [
        described(A, 1),
        described(B, 2),
    ]
    now = described(B, 3)
    assert difference(before, now) == "constant `y` 2 → 3"
    assert difference([], now) == "the first call"


def test_constants_are_shortened() -> None:
    assert len(short_text("x" * 500)) <= 60

    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no text")

    assert "Broken" in short_text(Broken())
