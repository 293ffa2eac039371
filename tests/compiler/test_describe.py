"""Descriptions: names of inputs, differences of signatures. More sentences are in test_cache.py."""

from __future__ import annotations

from typing import Any

import ingot.core as mx
from ingot.compiler.describe import ArrayLeaf, describe, difference, input_names, short_text

A = mx.zeros((2, 3))
B = mx.zeros((), mx.int8)


def function(x: Any, y: Any, *rest: Any, key: Any = None) -> Any:
    return None


def test_names_of_inputs() -> None:
    args = ([A, 1], {"w": B}, A, B)
    names = input_names(function, args, {"key": (A,)}, {"state": [B]})
    assert names == [
        "argument `x`[0]",
        "argument `y`['w']",
        "argument 2",
        "argument 3",
        "argument `key`[0]",
        "captured inputs['state'][0]",
    ]
    assert input_names(max, (A, B), {}, None) == ["argument 0", "argument 1"]
    assert input_names(len, (A,), {}, None) == ["argument `obj`"]


def test_descriptions() -> None:
    found = describe(function, (A, [1, "text", {}]), {}, None, [B, 3], {"the mode": "enabled"})
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


def test_objects_that_look_like_arrays_in_texts() -> None:
    class Odd:
        def __repr__(self) -> str:
            return "float32(2, 3)"

    first = describe(function, (Odd(),), {}, None, None, {})
    second = describe(function, (A,), {}, None, None, {})
    assert difference([first], second) == "argument `x`: float32(2, 3) → float32(2, 3)"


def test_the_nearest_signature_is_named() -> None:
    before = [
        describe(function, (A, 1), {}, None, None, {}),
        describe(function, (B, 2), {}, None, None, {}),
    ]
    now = describe(function, (B, 3), {}, None, None, {})
    assert difference(before, now) == "constant `y` 2 → 3"
    assert difference([], now) == "the first call"


def test_constants_are_shortened() -> None:
    assert len(short_text("x" * 500)) <= 60

    class Broken:
        def __repr__(self) -> str:
            raise ValueError("no text")

    assert "Broken" in short_text(Broken())
